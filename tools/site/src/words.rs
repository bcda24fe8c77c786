//! Signatures in words: one sentence for each argument, option and result.

use fulgurite_core::lang::ast::{Access, DimKind, DimPat, Elem, ListLen, Opt, OptType, Out, Param, Type};
use serde_json::{Value, json};

/// The arguments, options and results: name, text in the language of rows, sentence.
pub fn signature(sig: &fulgurite_core::lang::Sig) -> Value {
    let of = |name: &str, text: String, says: String| json!({"name": name, "text": text, "says": says});
    let alone = sig.params.iter().filter(|p| p.ty.dims.is_none()).count() < 2;
    let params = sig.params.iter().map(|p| of(p.name.name.as_str(), p.to_string(), param(p, alone)));
    let opts = sig.opts.iter().map(|o| of(o.name.name.as_str(), o.to_string(), option(o)));
    let outs = sig.outs.iter().map(|o| of(o.name.name.as_str(), o.ty.to_string(), result(o, alone)));
    json!({
        "params": params.collect::<Vec<_>>(), "opts": opts.collect::<Vec<_>>(), "outs": outs.collect::<Vec<_>>(),
    })
}

/// An argument. `alone`: no other one broadcasts with it.
fn param(param: &Param, alone: bool) -> String {
    let free =
        if alone { "a tensor of any shape, or a number, of" } else { "a tensor or a number, which broadcasts, of" };
    let mut says = ty(&param.ty, free);
    match param.access {
        Access::Mut => says += "; the call writes it",
        Access::Like => says += "; only its type is read",
        Access::Read => {}
    }
    if param.optional {
        says += "; may be absent";
    }
    says
}

fn result(out: &Out, alone: bool) -> String {
    if out.is_from_body() {
        return "a tensor whose dtype and shape the decomposition gives".to_owned();
    }
    ty(&out.ty, if alone { "a tensor of the argument's shape, of" } else { "a tensor of the common shape, of" })
}

/// A type; `free` is said of one without brackets, before its elements.
fn ty(ty: &Type, free: &str) -> String {
    let elem = elements(&ty.elem);
    let one = match ty.dims.as_deref() {
        _ if ty.elem == [Elem::Key] => "a random key".to_owned(),
        None => format!("{free} {elem}"),
        Some([]) => format!("a tensor of {elem} without axes"),
        Some([DimPat { kind: DimKind::List { axes: None, .. }, .. }]) => format!("a tensor of {elem}, of any shape"),
        Some(dims) => {
            let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
            format!("a tensor of {elem}, of shape [{}]", dims.join(", "))
        }
    };
    match &ty.list {
        None => one,
        Some(ListLen::Any) => format!("a list; each item is {one}"),
        Some(ListLen::Expr(n)) => format!("a list of {n}; each item is {one}"),
        Some(ListLen::Body) => format!("a list, whose length the decomposition gives; each item is {one}"),
    }
}

fn elements(elem: &[Elem]) -> String {
    let one = |elem: &Elem| match elem {
        Elem::Var(name) => format!("dtype {name}"),
        Elem::Index => "indices (i32 or i64)".to_owned(),
        Elem::Key => "random keys".to_owned(),
        Elem::Class(name) => name.to_string(),
        Elem::Acc(name) => format!("the dtype in which {name} is summed"),
        Elem::Real(name) => format!("the real dtype of {name}"),
    };
    elem.iter().map(one).collect::<Vec<_>>().join(" or ")
}

fn option(opt: &Opt) -> String {
    let mut says = match &opt.ty {
        OptType::Num => "a number".to_owned(),
        OptType::F64 => "a float".to_owned(),
        OptType::I64 => "an integer".to_owned(),
        OptType::Bool => "true or false".to_owned(),
        OptType::Str => "a text".to_owned(),
        OptType::Dtype(name) => format!("a dtype, which becomes {name}"),
        OptType::Enum(words) => {
            format!("one of {}", words.iter().map(|word| word.to_string()).collect::<Vec<_>>().join(", "))
        }
        OptType::Dim(None) => "an axis; a negative one counts from the end".to_owned(),
        OptType::Dim(Some(list)) => format!("an axis of {list}; a negative one counts from the end"),
        OptType::Gap(list) => format!("a place between the axes of {list}"),
        OptType::Perm(list) => format!("every axis of {list} once, in a new order"),
        OptType::Labels(list) => format!("letters for the axes of {list}, as in einsum"),
        OptType::Pos(size) => format!("an index below {size}; a negative one counts from the end"),
        OptType::Bound(size) => format!("a bound within {size}, which is cut to the size"),
        OptType::Dims { list, empty_all: true, .. } => format!("axes of {list}; an empty list means all"),
        OptType::Dims { list, empty_all: false, .. } => format!("axes of {list}; an empty list means none"),
        OptType::Ints { list, .. } => format!("an integer for each axis of {list}; a single one repeats"),
        OptType::Size(size) => format!("a size, which becomes {size}"),
        OptType::Shape { list, .. } => format!("sizes, which become {list}"),
    };
    if let Some(default) = &opt.default {
        says += &format!("; {default} unless given");
    } else if opt.optional {
        says += "; may be absent";
    }
    says
}
