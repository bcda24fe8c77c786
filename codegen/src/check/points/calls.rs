//! Malformed calls in points. A point that says `refused` for a malformed call would hold for any row.

use fulgurite_core::lang::{Opt, OptType, Param};
use fulgurite_core::{DType, DTypeSet, Name, Named, Scalar, Value};

use super::read::{self, Written};
use super::{V, Yaml};
use crate::diag::Diag;
use crate::schema::RowSource;
use crate::source::Place;
use crate::yaml::Node;

/// The fault of a refused call that would be refused whatever the row says: an option has an unknown word, or two parts
/// of the call are malformed. A single malformed part is allowed: it states that an argument must be given, or that an
/// option takes no such number.
pub fn unwritable(source: &RowSource, args: &[Named<V<f64>>], node: &Node) -> Option<Diag> {
    let sig = &source.sig.tree;
    let op = source.op.as_str();
    let given = |name: Name| args.iter().find(|(arg, _)| *arg == name).map(|(_, value)| value);
    let params = sig.params.iter().map(|param| (param.name.name, param.optional));
    let opts = sig.opts.iter().map(|opt| (opt.name.name, opt.optional || opt.default.is_some()));
    let missing = params.chain(opts).filter(|(name, open)| !open && given(*name).is_none());
    let mut why: Vec<String> = missing.map(|(name, _)| format!("`{name}` is missing")).collect();
    for opt in &sig.opts {
        let name = opt.name.name;
        let Some(value) = given(name) else { continue };
        let Some(wanted) = other_kind(opt, value) else { continue };
        if matches!(value, Value::Word(_)) {
            let message = format!("`{name}` of a refused call in `points` of `{op}` is no {wanted}");
            let diag = Diag::error("E301", place_of(node, name), message).here("refused whatever the row says");
            return Some(diag.help("choose a value of its kind that the row refuses"));
        }
        why.push(format!("`{name}` is no {wanted}"));
    }
    if why.len() < 2 {
        return None;
    }
    let message = format!("a refused call in `points` of `{op}` is none for {} reasons", why.len());
    let diag = Diag::error("E301", node.place, message).note(why.join(", "));
    Some(diag.help("mend all but one, so that the point says what refuses the call"))
}

fn place_of(node: &Node, name: Name) -> Place {
    let Yaml::Map(entries) = &node.value else { return node.place };
    entries.iter().find(|(key, _)| name == key.as_str()).map_or(node.place, |(_, value)| value.place)
}

/// The kind of value that an option takes, if `value` is of another kind.
fn other_kind(opt: &Opt, value: &Value<V<f64>>) -> Option<String> {
    let integer = |value: &Value<V<f64>>| matches!(value, Value::Num(Scalar::Int(_)));
    let integers = |value: &Value<V<f64>>| value.items().iter().all(integer);
    let (right, what) = match &opt.ty {
        OptType::Num | OptType::F64 => (matches!(value, Value::Num(_)), "number"),
        OptType::Bool => (matches!(value, Value::Num(Scalar::Bool(_))), "truth value"),
        OptType::Str | OptType::Labels(_) => (matches!(value, Value::Str(_) | Value::Word(_)), "text"),
        OptType::Dtype(_) => (matches!(value, Value::DType(_)), "dtype"),
        OptType::Enum(words) => {
            let all = words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
            let known = matches!(value, Value::Word(word) if words.contains(word));
            return (!known).then(|| format!("word of its `enum`: {all}"));
        }
        OptType::I64 | OptType::Dim(_) | OptType::Gap(_) | OptType::Pos(_) | OptType::Bound(_) | OptType::Size(_) => {
            (integer(value), "integer")
        }
        OptType::Dims { .. } => {
            (integers(value) || matches!(value, Value::Word(word) if *word == "all"), "set of axes")
        }
        OptType::Perm(_) | OptType::Ints { .. } | OptType::Shape { .. } => (integers(value), "list of integers"),
    };
    (!right).then(|| what.to_owned())
}

/// The fault of a number that the dtype of its argument cannot hold.
pub fn unheld(source: &RowSource, param: &Param, written: &Written, accepted: DTypeSet, place: Place) -> Option<Diag> {
    let usual = written.dtype.or_else(|| read::usual(&param.ty, accepted))?;
    let (dtype, number) = written.tree.first_unheld(usual)?;
    let name = param.name.name;
    let message = format!("`{name}` in `points` of `{}` is {number}, which {dtype} does not hold", source.op.as_str());
    let help = match dtype {
        DType::Bool => "write `true` or `false`".to_owned(),
        _ if dtype.is_float() => format!("its largest number is {}; write `inf` where that is meant", dtype.largest()),
        _ => format!("it holds the integers from {} to {}", read::lowest(dtype), read::highest(dtype)),
    };
    Some(Diag::error("E301", place, message).help(help))
}
