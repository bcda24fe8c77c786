//! E603: metadata come out of a tensor of a class as they went in, and no text loses metadata that `plain` reads.

use fulgurite_core::eval::tensor::from_item;
use fulgurite_core::lang::ast::{Arg, Block, Node, OptType, Span};
use fulgurite_core::row::Row;
use fulgurite_core::signature::{self, ArgTy, Solved};
use fulgurite_core::subclass::{self, Class};
use fulgurite_core::{DType, Name, Value};

use crate::check::{cases, machine, walk};

/// Returns metadata that change if they are given a second time, and how. With such metadata, a tensor that is taken
/// apart and put together is another one.
pub fn unstable(class: &Class) -> Option<(Name, String)> {
    let [row, ..] = subclass::ports(class);
    let fields = row.sig.params.len();
    let read = |solved: &Solved| -> Vec<Value<ArgTy>> {
        let opts = row.sig.opts.iter();
        opts.map(|o| solved.env.item(o.name.name).and_then(from_item).unwrap_or(Value::Absent)).collect()
    };
    cases::family(&row, DType::F32).cases.iter().find_map(|case| {
        let first = read(&case.solved);
        let args: Vec<Value<ArgTy>> = case.args.iter().take(fields).cloned().chain(first.iter().cloned()).collect();
        let told = |at: usize, became: &str| {
            let given = machine::show(&case.args[fields + at]);
            let kept = machine::show(&first[at]);
            (row.sig.opts[at].name.name, format!("{given} is kept as {kept}, which given again {became}"))
        };
        match signature::solve_types(&row, &args) {
            Ok(again) => {
                let second = read(&again);
                let at = (0..first.len()).find(|at| first[*at] != second[*at])?;
                Some(told(at, &format!("is {}", machine::show(&second[at]))))
            }
            Err(refusal) if !first.is_empty() => {
                let at = refusal.arg.and_then(|arg| row.sig.opts.iter().position(|o| o.name.name == arg)).unwrap_or(0);
                Some(told(at, &format!("is refused: {}", refusal.message)))
            }
            Err(_) => None,
        }
    })
}

/// Returns metadata on which the meaning of a tensor depends, and which a text leaves to their default, and the place.
/// A text that makes a tensor from plain ones has no other metadata to keep.
pub fn defaulted(class: &Class, text: &Block) -> Option<(Name, Span)> {
    made(class, text).into_iter().find_map(|(span, args)| {
        let left = left_out(class, &args).find(|m| {
            let opt = class.sig.opts.iter().find(|o| o.name.name == *m);
            opt.is_some_and(|o| !o.optional && o.default.is_some()) && depends(class, *m)
        })?;
        Some((left, span))
    })
}

/// Returns metadata that `plain` reads and a rule for a row with several tensors leaves out, and the place. Those of
/// the first argument then count, and those of the others are lost.
pub fn first_of_several(class: &Class, row: &Row, text: &Block) -> Option<(Name, Span)> {
    several(row).then_some(())?;
    made(class, text).into_iter().find_map(|(span, args)| {
        let left = left_out(class, &args).find(|m| reads(&class.plain, *m))?;
        Some((left, span))
    })
}

/// Returns metadata that `plain` reads, if the row has several tensors. The rule `each` gives no metadata, so those of
/// the others are lost.
pub fn each_of_several(class: &Class, row: &Row) -> Option<Name> {
    several(row).then(|| class.meta().find(|m| reads(&class.plain, *m)))?
}

fn several(row: &Row) -> bool {
    let key = |p: &&fulgurite_core::lang::Param| !p.ty.elem.contains(&fulgurite_core::lang::Elem::Key);
    row.sig.params.iter().filter(key).count() > 1 || row.sig.params.iter().any(|p| p.ty.list.is_some())
}

/// Every `Class(…)` of a text.
fn made(class: &Class, text: &Block) -> Vec<(Span, Vec<Arg>)> {
    let mut found = Vec::new();
    walk::block(text, &mut |e| {
        if let Node::Call(f, args) = &*e.node
            && f.name == class.name
        {
            found.push((f.span, args.clone()));
        }
    });
    found
}

fn left_out<'a>(class: &'a Class, args: &'a [Arg]) -> impl Iterator<Item = Name> + 'a {
    let positional = args.iter().filter(|a| a.name.is_none()).count();
    let fields = class.fields().count();
    let named = move |m: Name| args.iter().any(|a| a.name.is_some_and(|n| n.name == m));
    class.meta().enumerate().filter(move |(i, m)| fields + i >= positional && !named(*m)).map(|(_, m)| m)
}

/// Whether the meaning of a tensor depends on a piece of metadata: `plain` reads it, or it binds the dtype or a size.
fn depends(class: &Class, meta: Name) -> bool {
    let binds = class.sig.opts.iter().find(|o| o.name.name == meta).is_some_and(|o| match &o.ty {
        OptType::Dtype(v) => {
            class.sig.outs.iter().any(|out| out.ty.elem.contains(&fulgurite_core::lang::Elem::Var(*v)))
        }
        _ => false,
    });
    let mut shaped = false;
    let dims = class.sig.outs.iter().filter_map(|out| out.ty.dims.as_deref());
    dims.for_each(|dims| walk::dims(dims, &mut |n| shaped |= n == meta));
    binds || shaped || reads(&class.plain, meta)
}

fn reads(text: &Block, name: Name) -> bool {
    walk::mentions(text, &[name])
}
