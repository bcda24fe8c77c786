//! Batches functions with a custom backward: the recorded backward is batched as any trace is.

use super::{Sweep, vmap};
use crate::bind::{Builder, rule_of};
use crate::error::Error;
use crate::symbol::Ports;
use crate::trace::*;
use fulgurite_core::Value;

impl Sweep {
    /// Batches the line of such a function. Every result and argument gets a value per slice, even if all slices share
    /// it, so that the cotangents of a shared argument are summed by the gradient of repeating it.
    pub(super) fn own(&mut self, line: &BoundSymbol, ports: Ports) -> Result<(), Error> {
        let rule = rule_of(self.b.arena(), line)?;
        let given: Vec<ProxyId> = line
            .args
            .iter()
            .filter_map(|arg| match arg {
                Value::Tensor(p) => Some(*p),
                _ => None,
            })
            .collect();
        let (whole, read) = given.split_at(ports.outs + ports.ins);
        let mut args = Vec::with_capacity(given.len());
        for p in whole {
            args.push(self.whole(*p)?);
        }
        let differs = |p: &ProxyId| self.values.contains_key(p) || self.keys.contains(p);
        let differing: Vec<bool> = read.iter().map(differs).collect();
        args.extend(read.iter().map(|p| self.values.get(p).copied().unwrap_or_else(|| self.standing(*p))));

        let mut slice = Builder::on(self.b.arena(), "backward");
        let mut flags = Vec::with_capacity(rule.inputs.len());
        for (proxy, input) in &rule.inputs {
            slice.add_input(*proxy, &self.b.arena().name(*proxy));
            flags.push(match input {
                OwnInput::Kept(i) => differing.get(*i).copied().unwrap_or(false),
                OwnInput::Cotangent(_) => true,
                OwnInput::Variable(j) => differing.get(ports.kept + j).copied().unwrap_or(false),
            });
        }
        rule.lines.iter().for_each(|l| slice.push(l.clone()));
        let grads: Vec<ProxyId> = rule.grads.iter().flatten().copied().collect();
        let mut slice = slice.finish(&grads);
        slice.root = rule.root;
        let input_of = |variable: usize| {
            let is_it = |(_, input): &(ProxyId, OwnInput)| *input == OwnInput::Variable(variable);
            rule.inputs.iter().position(is_it)
        };
        let written = rule.writes.iter().filter_map(|(variable, value)| Some((input_of(*variable)?, *value)));
        slice.epilogue = written.map(|(input, value)| EpilogueWrite { input, value, phase: Phase::Backward }).collect();
        let made = vmap(&slice, &flags, self.size)?;
        let variable_at = |input: usize| match rule.inputs.get(input)?.1 {
            OwnInput::Variable(variable) => Some(variable),
            _ => None,
        };
        let mut outputs = made.outputs.iter().copied();
        let batched = OwnRule {
            inputs: made.input_proxies().zip(rule.inputs.iter().map(|(_, input)| *input)).collect(),
            lines: made.lines.clone(),
            grads: rule.grads.iter().map(|g| g.and_then(|_| outputs.next())).collect(),
            writes: made.epilogue.iter().filter_map(|w| Some((variable_at(w.input)?, w.value))).collect(),
            root: rule.root,
            loc: rule.loc,
            failed: None,
        };
        let outs = self.b.own_vjp(batched, ports, &args, line.place.loc)?;
        for (old, new) in line.outs.iter().zip(outs) {
            self.stands_for(*old, new);
        }
        Ok(())
    }
}
