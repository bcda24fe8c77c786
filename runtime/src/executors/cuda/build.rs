//! Compiles lines to a program: first to items, then to actions.

use super::Kernels;
use super::device::Device;
use super::emit::{self, Action, Env, Origin, Site};
use super::forms::Policy;
use super::program::{DeviceProgram, Parts, Run, Sites};
use crate::executors::fusion::fuse::{Form, Group, Item};
use crate::executors::fusion::graph::ValueId;
use crate::executors::fusion::graph::piece::{Contract, ValueTy};
use crate::executors::fusion::items::{Items, Named, Ways};
use crate::executors::join::{Joined, JoinedPart};
use crate::executors::{ExecError, Kernel};
use fulgurite_core::DType;
use std::cell::RefCell;
use std::sync::Arc;

/// Compiles a part of a trace.
///
/// # Errors
/// Reports errors of lowering.
pub(super) fn build(
    part: &JoinedPart<'_>,
    device: Arc<dyn Device>,
    kernels: Kernels,
) -> Result<DeviceProgram, ExecError> {
    let mut items = Items::new(part.trace, "cuda", Ways { row_kernel: |_| None, halves: true, slides: false });
    let inputs: Vec<ValueId> = part.inputs.iter().map(|p| items.value(*p)).collect();
    for joined in part.lines {
        match joined {
            Joined::Check(line, check) => items.check(line, check, part.root),
            Joined::Line(line) => items.line(line, &[], part.root)?,
        }
    }
    let outputs: Vec<ValueId> = part.outs.iter().map(|p| items.dense(*p)).collect();
    let (values, of_proxy, lines, mut made) = items.finish(&inputs, &outputs)?;
    let all = std::mem::take(&mut made.items);
    let form = |v: ValueId| made.form(v, &values);
    let stored = |v: ValueId| made.stored(v);
    let multiplies = device.multiplies();
    let env = Env { values: &values, form: &form, stored: &stored, multiplies, between: RefCell::new(Vec::new()) };
    let mut sites: Vec<Site> = Vec::new();
    let mut runs: Vec<(Run, Option<usize>)> = Vec::new();
    for (item, of) in &all {
        let line = of.last().map(|l| *l as usize);
        let made = actions(item, &env, &origin(of, &lines), &mut sites)?;
        runs.extend(made.into_iter().map(|run| (run, line)));
    }
    let outputs: Vec<ValueId> = outputs.iter().map(|v| form(*v).root).collect();
    let labels = of_proxy.iter().map(|(p, v)| (*v, part.trace.arena.name(*p).to_string())).collect();
    let types: Vec<ValueTy> =
        (0..values.len() as ValueId).map(|v| values.ty(v).clone()).chain(env.between.into_inner()).collect();
    let sites = Arc::new(Sites { sites, labels });
    let ids = lines.iter().map(|l| l.id).collect();
    let policy = Policy::of(kernels, part.sizes_vary);
    Ok(DeviceProgram::new(Parts { device, policy, types, inputs, outputs, runs, sites, lines: ids }))
}

fn origin(of: &[u32], lines: &[Named]) -> Origin {
    let mut rows: Vec<&'static str> = Vec::new();
    let mut place = None;
    for line in of.iter().filter_map(|l| lines.get(*l as usize)) {
        if !rows.contains(&line.name) {
            rows.push(line.name);
        }
        place = Some(line.place);
    }
    // a fusion of several rows has no single place
    Origin { place: if rows.len() == 1 { place } else { None }, rows }
}

fn actions(item: &Item, env: &Env<'_>, origin: &Origin, sites: &mut Vec<Site>) -> Result<Vec<Run>, ExecError> {
    let why = |w: emit::Why| ExecError::new("E807", format!("`{}` has no CUDA kernel: {w}", origin.rows.join(" ")));
    let device = |actions: Vec<Action>| actions.into_iter().map(Run::Device).collect();
    Ok(match item {
        Item::Group(g) => device(emit::group(g, env, origin, sites).map_err(why)?),
        Item::Scan(s) => device(vec![Action::Launch(emit::scan(s, env, origin).map_err(why)?)]),
        Item::Contract(c) => contract(c, env, origin, sites).map_err(why)?,
        Item::Opaque(o) => {
            let place = |v: &ValueId| ((env.form)(*v).root, env.ty(*v));
            let (inputs, outs) = (o.inputs.iter().map(place).collect(), o.outs.iter().map(place).collect());
            vec![Run::Host { kernel: Arc::clone(&o.kernel) as Arc<dyn Kernel>, inputs, outs }]
        }
    })
}

fn contract(c: &Contract, env: &Env<'_>, origin: &Origin, sites: &mut Vec<Site>) -> Result<Vec<Run>, emit::Why> {
    // elements that a sum leaves out must not affect it, whatever the other operand holds, so the sum itself runs
    if let Some(exact) = &c.exact {
        let actions = emit::group(&Group::of(exact.sum.clone()), env, origin, sites)?;
        return Ok(actions.into_iter().map(Run::Device).collect());
    }
    let Some(chunk) = &c.chunk else {
        let (made, _) = emit::product(c, env, origin, None)?;
        return Ok(made.into_iter().map(Run::Device).collect());
    };
    // an operand that is copied one part at a time: the copy and its product, for each part
    let (products, moves) = emit::product(c, env, origin, Some((chunk.dim, chunk.packed)))?;
    let packed = chunk.packed;
    let own = |v: ValueId| v == packed || (env.stored)(v);
    let form = |v: ValueId| if v == packed { Form::dense(v, &env.ty(v)) } else { (env.form)(v) };
    let between = RefCell::new(env.between.take());
    let inner = Env { values: env.values, form: &form, stored: &own, multiplies: env.multiplies, between };
    let copies = emit::group(&Group::of(chunk.copy.clone()), &inner, origin, sites);
    env.between.replace(inner.between.into_inner());
    let source = (env.form)(chunk.source);
    let step: i64 = chunk.steps.iter().zip(&source.strides).map(|(k, s)| k * s).sum();
    let size = |v: ValueId| env.ty(v).dtype.size() as i64;
    let [a, b, out] = [c.a.value, c.b.value, c.out].map(|v| if v == packed { v } else { (env.form)(v).root });
    let bytes = |v: ValueId, elements: i64| (v, if v == packed { 0 } else { elements * size(v) });
    let moving = vec![bytes(a, moves[0]), bytes(b, moves[1]), bytes(out, moves[2])];
    let reading = vec![(source.root, step * size(source.root))];
    let mut actions: Vec<(Action, Vec<(ValueId, i64)>)> = copies?.into_iter().map(|c| (c, reading.clone())).collect();
    actions.extend(products.into_iter().map(|product| (product, moving.clone())));
    let adds = c.reduced.contains(&chunk.dim);
    let first = adds.then_some(Run::Device(Action::Zero(out)));
    let rounds = Run::Rounds { count: c.sizes[chunk.dim as usize], actions };
    debug_assert!(matches!(env.ty(c.out).dtype, DType::F32 | DType::F64));
    Ok(first.into_iter().chain([rounds]).collect())
}
