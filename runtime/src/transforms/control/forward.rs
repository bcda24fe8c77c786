//! Tangents of lines of control flow: the programs compute values and tangents together.

use super::{Forward, arguments, program_of, with_lines, zeros};
use crate::bind::Builder;
use crate::error::Error;
use crate::trace::*;
use rustc_hash::FxHashMap;

/// Records a line of control flow with its tangents, of which its arguments have `known`. Returns the tangents of its
/// results; `None` for another line, or for one whose arguments have no tangents.
///
/// # Errors
/// Reports errors of differentiating the programs.
pub(in crate::transforms) fn tangents(
    b: &mut Builder,
    line: &BoundSymbol,
    known: &FxHashMap<ProxyId, ProxyId>,
    forward: Forward,
) -> Result<Option<Vec<(ProxyId, ProxyId)>>, Error> {
    let Some(control) = b.arena().control(line) else { return Ok(None) };
    let given = arguments(line);
    if given.iter().all(|p| !known.contains_key(p)) {
        return Ok(None);
    }
    let site = Site { line, given, known, forward };
    let made = match control.kind {
        ControlKind::Cond => choice(b, &site, &control),
        ControlKind::Scan { carries, slices, .. } => loops(b, &site, &control, (carries, slices)),
        ControlKind::While { carries, .. } => loops(b, &site, &control, (carries, 0)),
    };
    made.map(Some)
}

/// Where a line is recorded, with the tangents of its arguments.
struct Site<'a> {
    line: &'a BoundSymbol,
    given: Vec<ProxyId>,
    known: &'a FxHashMap<ProxyId, ProxyId>,
    forward: Forward,
}

fn choice(b: &mut Builder, site: &Site, control: &Control) -> Result<Vec<(ProxyId, ProxyId)>, Error> {
    let Site { line, given, known, forward } = site;
    let arena = b.arena().clone();
    let active: Vec<usize> = (1..given.len()).filter(|i| known.contains_key(&given[*i])).collect();
    let of = |program: &LineProgram| -> Vec<ProxyId> { active.iter().map(|i| program.inputs[i - 1]).collect() };
    let both =
        control.programs.iter().map(|program| forward(&Trace::of_program(&arena, "forward", program), &of(program)));
    let both: Vec<(Trace, Vec<Option<ProxyId>>)> = both.collect::<Result<_, _>>()?;
    let moves: Vec<usize> =
        (0..line.outs.len()).filter(|o| both.iter().any(|(_, tangents)| tangents[*o].is_some())).collect();
    let mut programs = Vec::with_capacity(2);
    for (made, program) in both.iter().zip(&control.programs) {
        programs.push(with_tangents(made, program, &moves, line.outs.len(), &mut |inner| inner)?);
    }
    let mut args = given.to_vec();
    args.extend(active.iter().map(|i| known[&given[*i]]));
    let reuse: Vec<Option<ProxyId>> = line.outs.iter().map(|p| Some(*p)).collect();
    let control = Control { kind: control.kind, programs, simplified: false };
    let outs = b.control(control, &args, &reuse)?;
    Ok(moves.iter().map(|o| line.outs[*o]).zip(outs[line.outs.len()..].iter().copied()).collect())
}

/// The program of values, then the tangents of the results `moves` after the first `before` results.
fn with_tangents(
    (made, known): &(Trace, Vec<Option<ProxyId>>),
    program: &LineProgram,
    moves: &[usize],
    before: usize,
    order: &mut dyn FnMut(Vec<InputCell>) -> Vec<InputCell>,
) -> Result<LineProgram, Error> {
    let mut inner = with_lines(made);
    let mut tangents = Vec::with_capacity(moves.len());
    for o in moves {
        tangents.push(match known[*o] {
            Some(tangent) => tangent,
            None => zeros(&mut inner, program.outputs[*o])?,
        });
    }
    let values = &made.outputs[..program.outputs.len()];
    // the tangents of carries follow the carries, those of stacks follow the stacks
    let split = moves.iter().filter(|o| **o < before).count();
    let outputs = [&values[..before], &tangents[..split], &values[before..], &tangents[split..]].concat();
    let inputs = std::mem::take(inner.inputs_mut());
    *inner.inputs_mut() = order(inputs);
    program_of(inner, &outputs, program)
}

/// A loop whose float carries have tangents; `carries` and `slices` are the numbers of its own.
fn loops(
    b: &mut Builder,
    site: &Site,
    control: &Control,
    (carries, slices): (usize, usize),
) -> Result<Vec<(ProxyId, ProxyId)>, Error> {
    let Site { line, given, known, forward } = site;
    let arena = b.arena().clone();
    let Some(body) = control.programs.last() else { return Ok(Vec::new()) };
    let floats: Vec<usize> = (0..carries).filter(|i| arena.is_float(given[*i])).collect();
    let has = |i: &usize| known.contains_key(&given[*i]);
    let sliced: Vec<usize> = (carries..carries + slices).filter(has).collect();
    let read: Vec<usize> = (carries + slices..given.len()).filter(has).collect();
    // values and tangents of each group stand together
    let groups = |all: usize| -> Vec<usize> {
        let (x, k) = (given.len() + floats.len(), given.len() + floats.len() + sliced.len());
        (0..carries)
            .chain(given.len()..x)
            .chain(carries..carries + slices)
            .chain(x..k)
            .chain(carries + slices..given.len())
            .chain(k..all)
            .collect()
    };
    let all = given.len() + floats.len() + sliced.len() + read.len();
    let order = groups(all);
    let mut ordered = |inputs: Vec<InputCell>| order.iter().map(|i| inputs[*i].clone()).collect::<Vec<_>>();

    let wrt: Vec<ProxyId> = floats.iter().chain(&sliced).chain(&read).map(|i| body.inputs[*i]).collect();
    let made = forward(&Trace::of_program(&arena, "forward", body), &wrt)?;
    let mut moves = floats.clone();
    moves.extend((carries..body.outputs.len()).filter(|o| arena.is_float(body.outputs[*o])));
    let step = with_tangents(&made, body, &moves, carries, &mut ordered)?;
    let mut programs = vec![step];
    let kind = match control.kind {
        ControlKind::While { bound, .. } => {
            let condition = &control.programs[0];
            let mut inner = Builder::continuing(&Trace::of_program(&arena, "condition", condition));
            condition.lines.iter().for_each(|l| inner.push(l.clone()));
            for i in floats.iter().chain(&sliced).chain(&read) {
                let of = condition.inputs[*i];
                inner.input(&format!("t.{}", arena.name(of)), arena.ty(of));
            }
            let inputs = std::mem::take(inner.inputs_mut());
            *inner.inputs_mut() = ordered(inputs);
            programs.insert(0, program_of(inner, &condition.outputs, condition)?);
            ControlKind::While { carries: carries + floats.len(), bound }
        }
        ControlKind::Scan { length, reverse, .. } => {
            let (carries, slices) = (carries + floats.len(), slices + sliced.len());
            ControlKind::Scan { carries, slices, length, reverse, keeps: false }
        }
        ControlKind::Cond => return Err(Error::bug("E706", "a choice is no loop")),
    };
    let mut values = given.to_vec();
    for i in &floats {
        values.push(match known.get(&given[*i]) {
            Some(t) => *t,
            None => zeros(b, given[*i])?,
        });
    }
    values.extend(sliced.iter().chain(&read).map(|i| known[&given[*i]]));
    let args: Vec<ProxyId> = order.iter().map(|i| values[*i]).collect();
    let own = |range: std::ops::Range<usize>| line.outs[range].iter().map(|p| Some(*p));
    let mut reuse: Vec<Option<ProxyId>> = own(0..carries).collect();
    reuse.extend(floats.iter().map(|_| None));
    reuse.extend(own(carries..line.outs.len()));
    let outs = b.control(Control { kind, programs, simplified: false }, &args, &reuse)?;
    let of_carries = floats.iter().map(|i| line.outs[*i]).zip(outs[carries..].iter().copied());
    let stacks = moves[floats.len()..].iter().map(|o| line.outs[*o]);
    let of_stacks = stacks.zip(outs[line.outs.len() + floats.len()..].iter().copied());
    Ok(of_carries.chain(of_stacks).collect())
}
