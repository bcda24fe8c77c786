//! Gradients of lines of control flow.

use super::super::rules::{Contribution, Site};
use super::{Now, Reverse, Reversed, arguments, program_of, with_lines, zeros};
use crate::bind::{Builder, control_of};
use crate::error::Error;
use crate::trace::*;
use fulgurite_core::{Dim, Value};

/// The cotangents of the `active` arguments of a line.
///
/// # Errors
/// E711 for a loop without a bound, and errors of differentiating the programs.
pub(in crate::transforms) fn cotangents(
    b: &mut Builder,
    site: Site,
    active: &[usize],
    reverse: Reverse,
    now: Now,
) -> Result<Vec<Contribution>, Error> {
    let control = control_of(b.arena(), site.line)?;
    match control.kind {
        ControlKind::Cond => choice(b, site, active, &control, reverse, now),
        ControlKind::Scan { carries, slices, length, reverse: backwards, keeps } if keeps || carries == 0 => {
            let form = Form { carries, slices, length, reverse: backwards };
            steps(b, site, active, (&control.programs[0], form), reverse, now)
        }
        ControlKind::Scan { .. } => Err(Error::bug("E711", "a scan did not keep its carries").at(site.line.place.loc)),
        ControlKind::While { .. } => Err(Error::new("E711", "a `while_loop` without a bound has no gradient")
            .note("its backward needs the carries of every step, and nothing says how many there are")
            .help("give a bound: `while_loop(Some(n), …)`, or put the loop in a no_grad region")
            .at(site.line.place.loc)),
    }
}

/// The gradients of `wrt`, with zeros for those that are zero.
fn dense(b: &mut Builder, grads: &[Option<ProxyId>], wrt: &[ProxyId]) -> Result<Vec<ProxyId>, Error> {
    wrt.iter().zip(grads).map(|(p, grad)| grad.map_or_else(|| zeros(b, *p), Ok)).collect()
}

fn choice(
    b: &mut Builder,
    site: Site,
    active: &[usize],
    control: &Control,
    reverse: Reverse,
    now: Now,
) -> Result<Vec<Contribution>, Error> {
    let arena = b.arena().clone();
    let active: Vec<usize> = active.iter().copied().filter(|i| *i > 0).collect();
    let flows: Vec<bool> = site.flow.iter().map(Option::is_some).collect();
    let wrt = |program: &LineProgram| -> Vec<ProxyId> { active.iter().map(|i| program.inputs[i - 1]).collect() };
    let both = control.programs.iter().map(|program| {
        let trace = Trace::of_program(&arena, "backward", program);
        reverse(&trace, &wrt(program), &flows)
    });
    let both: Vec<Reversed> = both.collect::<Result<_, _>>()?;
    let mut variables: Vec<usize> = both.iter().flat_map(|made| made.variables.iter().copied()).collect();
    variables.sort_unstable();
    variables.dedup();
    let mut programs = Vec::with_capacity(2);
    for (made, program) in both.iter().zip(&control.programs) {
        let mut inner = with_lines(&made.trace);
        // both programs have one list of inputs, so each has the variables of the other too
        let own = inner.inputs().len() - made.variables.len();
        let known = inner.inputs_mut().split_off(own);
        for variable in &variables {
            match made.variables.iter().position(|own| own == variable) {
                Some(at) => inner.inputs_mut().push(known[at].clone()),
                None => {
                    let of = program.inputs[*variable];
                    inner.input(&format!("{}@now", arena.name(of)), arena.ty(of));
                }
            }
        }
        let grads = dense(&mut inner, &made.grads, &wrt(program))?;
        programs.push(program_of(inner, &grads, program)?);
    }
    let given = arguments(site.line);
    let mut args = given.clone();
    args.extend(site.flow.iter().flatten());
    for variable in variables {
        args.push(now(b, given[variable + 1])?);
    }
    let made_from = arena.len();
    let control = Control { kind: ControlKind::Cond, programs, simplified: false };
    let outs = b.control(control, &args, &[])?;
    Ok(active.into_iter().zip(outs).map(|(i, out)| (i, Value::Tensor(out), made_from)).collect())
}

/// The form of a scan.
struct Form {
    carries: usize,
    slices: usize,
    length: Dim,
    reverse: bool,
}

/// The backward of a scan. Its carries are the cotangents of the float carries, and the sums of the cotangents of what
/// all steps read; its slices are the kept carries, the slices of the forward, and the cotangents of its stacks.
fn steps(
    b: &mut Builder,
    site: Site,
    active: &[usize],
    (program, Form { carries, slices, length, reverse }): (&LineProgram, Form),
    differentiate: Reverse,
    now: Now,
) -> Result<Vec<Contribution>, Error> {
    let arena = b.arena().clone();
    let floats: Vec<usize> = (0..carries).filter(|i| arena.is_float(program.inputs[*i])).collect();
    let sliced: Vec<usize> = active.iter().copied().filter(|i| (carries..carries + slices).contains(i)).collect();
    let read: Vec<usize> = active.iter().copied().filter(|i| *i >= carries + slices).collect();
    let flows = |o: usize| if o < carries { floats.contains(&o) } else { site.flow[o].is_some() };
    let flows: Vec<bool> = (0..program.outputs.len()).map(flows).collect();
    let wrt: Vec<ProxyId> = floats.iter().chain(&sliced).chain(&read).map(|i| program.inputs[*i]).collect();
    let made = differentiate(&Trace::of_program(&arena, "backward", program), &wrt, &flows)?;
    let Reversed { trace: joint, grads, variables } = made;

    let mut inner = with_lines(&joint);
    let grads = dense(&mut inner, &grads, &wrt)?;
    let (of_floats, rest) = grads.split_at(floats.len());
    let (of_sliced, of_read) = rest.split_at(sliced.len());
    let mut outputs = of_floats.to_vec();
    let given = inner.inputs().len();
    for (i, grad) in read.iter().zip(of_read) {
        let of = program.inputs[*i];
        let so_far = inner.input(&format!("sum.{}", arena.name(of)), arena.ty(of).plain());
        outputs.push(inner.add(so_far, *grad)?);
    }
    outputs.extend(of_sliced);
    let all = std::mem::take(inner.inputs_mut());
    // the forward's inputs, the cotangents of float carries, those of stacks, the present values of variables, the sums
    let (forward, cotangents) = (program.inputs.len(), program.inputs.len() + floats.len());
    let present = given - variables.len();
    let order = (forward..cotangents)
        .chain(given..all.len())
        .chain(0..carries + slices)
        .chain(cotangents..present)
        .chain(carries + slices..forward)
        .chain(present..given);
    *inner.inputs_mut() = order.map(|i| all[i].clone()).collect();
    let body = program_of(inner, &outputs, program)?;

    let given = arguments(site.line);
    let mut args = Vec::new();
    for i in &floats {
        args.push(match site.flow[*i] {
            Some(ct) => ct,
            None => zeros(b, site.line.outs[*i])?,
        });
    }
    for i in &read {
        args.push(zeros(b, given[*i])?);
    }
    let kept = &site.line.outs[site.line.outs.len() - carries..];
    let stacks = site.flow[carries..].iter().flatten();
    args.extend(kept.iter().chain(&given[carries..carries + slices]).chain(stacks).chain(&given[carries + slices..]));
    for variable in variables {
        args.push(now(b, given[variable])?);
    }
    let made_from = arena.len();
    let kind = ControlKind::Scan {
        carries: floats.len() + read.len(),
        slices: carries + slices + flows[carries..].iter().filter(|f| **f).count(),
        length,
        reverse: !reverse,
        keeps: false,
    };
    let outs = b.control(Control { kind, programs: vec![body], simplified: false }, &args, &[])?;
    let of = floats.into_iter().chain(read).chain(sliced).zip(outs);
    let wanted = of.filter(|(i, _)| active.contains(i));
    Ok(wanted.map(|(i, out)| (i, Value::Tensor(out), made_from)).collect())
}
