//! Puts positional and named arguments in the order of the signature.

use super::Refusal;
use crate::row::Row;
use crate::{Named, Value, counted};

/// One value per parameter, then one per option, in signature order; arguments that were not given are
/// [`Value::Absent`].
///
/// # Errors
/// E702 for too many arguments, a name that the row does not have, or an argument given twice.
pub fn arrange<V: Clone>(row: &Row, positional: Vec<Value<V>>, named: Vec<Named<V>>) -> Result<Vec<Value<V>>, Refusal> {
    let names = || row.sig.params.iter().map(|p| p.name.name).chain(row.sig.opts.iter().map(|o| o.name.name));
    let most = row.sig.params.len() + row.sig.opts.len();
    if positional.len() > most {
        return Err(Refusal::new(
            "E702",
            format!(
                "`{}` takes at most {}, {} given",
                row.op,
                counted(most, "argument", "arguments"),
                counted(positional.len(), "was", "were")
            ),
        ));
    }
    let given = positional.len();
    let mut out = positional;
    out.resize(most, Value::Absent);
    for (name, value) in named {
        let Some(at) = names().position(|n| n == name) else {
            let known: Vec<_> = names().map(|n| n.as_str()).collect();
            return Err(Refusal::new("E702", format!("`{}` has no argument `{name}`", row.op))
                .help(format!("it has: {}", known.join(", "))));
        };
        if at < given {
            return Err(Refusal::new("E702", format!("`{}` got `{name}` twice", row.op)).arg(name));
        }
        out[at] = value;
    }
    Ok(out)
}
