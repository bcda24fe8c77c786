//! Tuples of dtypes that come to the same: most rows ask of the dtypes of their arguments for their join alone.

use fulgurite_core::lang::{Elem, Node, OptType};
use fulgurite_core::promote::{self, Kind, Operand};
use fulgurite_core::row::Row;
use fulgurite_core::sig::ArgTy;
use fulgurite_core::{DType, Scalar, Value};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

/// Words of texts that ask for the dtype of one argument.
const ASKING: [&str; 6] = ["is_int", "is_float", "is_bool", "dtype", "join", "if"];

/// What stands in the place of an argument, its dtype apart.
#[derive(PartialEq, Eq, Hash)]
enum Stands {
    Tensor(usize),
    Number(Number),
    Other,
}

#[derive(PartialEq, Eq, Hash)]
enum Number {
    Bool(bool),
    Int(i64),
    Float(u64),
}

/// The calls of a row that were met, as far as they differ in more than dtypes with the same join.
pub(super) struct Met {
    /// Whether the row is one of those that ask for the join alone.
    of_join: bool,
    met: FxHashSet<(Option<DType>, SmallVec<[Stands; 4]>)>,
}

impl Met {
    /// No calls of this row yet.
    pub(super) fn of(row: &Row) -> Met {
        Met { of_join: asks_for_join(row), met: FxHashSet::default() }
    }

    /// Whether a call comes to what one before it came to: accepted or refused, computed in one dtype, with results of the
    /// same. The calls differ in the dtypes of arguments of class `T` and in what stands there.
    pub(super) fn is_known(&mut self, row: &Row, args: &[Value<ArgTy>]) -> bool {
        if !self.of_join {
            return false;
        }
        let mut operands: SmallVec<[Operand; 4]> = SmallVec::new();
        let mut stands = SmallVec::new();
        for arg in row.sig.params.iter().zip(args).filter(|(param, _)| of_t(&param.ty.elem)).map(|(_, arg)| arg) {
            stands.push(match arg {
                Value::Tensor(ArgTy::Tensor(t)) => {
                    operands.push(Operand::Tensor { dtype: t.dtype, rank0: t.rank() == 0 });
                    Stands::Tensor(t.rank())
                }
                Value::Num(number) => {
                    operands.push(Operand::from(*number));
                    Stands::Number(match *number {
                        Scalar::Bool(b) => Number::Bool(b),
                        Scalar::Int(i) => Number::Int(i),
                        Scalar::Float(x) => Number::Float(x.to_bits()),
                    })
                }
                Value::Absent => Stands::Other,
                _ => return false,
            });
        }
        !self.met.insert((promote::join(&operands), stands))
    }
}

fn of_t(elem: &[Elem]) -> bool {
    elem.iter().any(|e| matches!(e, Elem::Var(name) if *name == "T"))
}

/// Whether dtypes of arguments of class `T` reach results, and what is refused, through their join alone.
fn asks_for_join(row: &Row) -> bool {
    let plain = |param: &fulgurite_core::lang::Param| !of_t(&param.ty.elem) || param.ty.elem.len() == 1;
    let of_join = match row.promote.as_ref().map(|e| &*e.node) {
        None => true,
        Some(Node::Name(word)) => {
            Kind::from_name(word.as_str()).is_some_and(|k| !matches!(k, Kind::Equal | Kind::Join))
        }
        Some(_) => false,
    };
    let chosen = row.sig.opts.iter().any(|opt| matches!(opt.ty, OptType::Dtype(_)));
    let texts = row.require.iter().map(|require| &require.cond).chain(&row.dtypes).map(ToString::to_string);
    let texts: Vec<String> = std::iter::once(row.sig.to_string()).chain(texts).collect();
    let is_part = |c: char| !(c.is_alphanumeric() || c == '_');
    let asks = texts.iter().any(|text| text.split(is_part).any(|word| ASKING.contains(&word)));
    of_join && !chosen && !asks && row.sig.params.iter().all(plain)
}
