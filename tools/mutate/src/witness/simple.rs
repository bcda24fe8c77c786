//! Simplifies a witness for its readers.

use std::sync::Arc;

use fulgurite_codegen::check::gradients::arrays::dense::V;
use fulgurite_core::eval::loop_nest::{Array, Data};
use fulgurite_core::row::Row;
use fulgurite_core::{DType, Value};

use super::Call;

/// The call without details that `holds` does not need: given options, dtypes, digits.
pub(super) fn shrink(row: &Row, mut call: Call, holds: &mut dyn FnMut(&Call) -> bool) -> Call {
    let mut attempt = |call: &mut Call, simpler: Call| {
        if holds(&simpler) {
            *call = simpler;
        }
    };
    for (at, opt) in row.sig.opts.iter().enumerate() {
        let at = row.sig.params.len() + at;
        if (opt.optional || opt.default.is_some()) && call.get(at).is_some_and(|value| !value.is_absent()) {
            let mut simpler = call.clone();
            simpler[at] = Value::Absent;
            attempt(&mut call, simpler);
        }
    }
    for (at, param) in row.sig.params.iter().enumerate().filter(|(_, param)| param.optional) {
        if call.get(at).is_some_and(|value| !value.is_absent()) && param.optional {
            let mut simpler = call.clone();
            simpler[at] = Value::Absent;
            attempt(&mut call, simpler);
        }
    }
    let wide = each(&call, &|a| match &a.data {
        Data::Float(_) => Array { dtype: DType::F64, ..a.clone() },
        Data::Int(_) => a.clone(),
    });
    attempt(&mut call, wide);
    for digits in [0, 1] {
        let scale = 10f64.powi(digits);
        let short = each(&call, &|a| match &a.data {
            Data::Float(values) => {
                let data = values.iter().map(|x| (x * scale).round() / scale).collect();
                Array { data: Data::Float(data), ..a.clone() }
            }
            Data::Int(_) => a.clone(),
        });
        attempt(&mut call, short);
    }
    call
}

fn each(call: &Call, f: &dyn Fn(&Array<f64>) -> Array<f64>) -> Call {
    let one = |value: &Value<V<f64>>| {
        value.map(&mut |v| match v {
            V::Array(a) => V::Array(Arc::new(f(a))),
            V::Key(key) => V::Key(*key),
        })
    };
    call.iter().map(one).collect()
}
