//! TEMPORARY: the oracle run line by line, until `executors` has `compile`.

use crate::bind::body_of;
use crate::buffer::{Buffer, Sizes};
use crate::error::Error;
use crate::trace::types::*;
use fulgurite_core::eval::nest::{self, Array};
use fulgurite_core::lower::{NoRows, lower_with, variant};
use fulgurite_core::nest::Nest;
use fulgurite_core::{DType, Scalar, Value};
use rustc_hash::FxHashMap;

struct Step {
    nest: Nest,
    inputs: Vec<ProxyId>,
    outs: Vec<ProxyId>,
    numbers: Vec<Option<Scalar>>,
    runtime: Vec<ProxyId>,
    loc: fulgurite_core::loc::Loc,
    op: &'static str,
    site: u64,
}

pub struct Compiled {
    inputs: Vec<ProxyId>,
    steps: Vec<Step>,
    copies: Vec<(ProxyId, ProxyId)>,
    outs: Vec<ProxyId>,
}

pub fn compile(trace: &Trace) -> Result<Compiled, Error> {
    let mut c = Compiled { inputs: trace.input_proxies().collect(), steps: Vec::new(), copies: Vec::new(), outs: Vec::new() };
    c.outs = trace.outputs.iter().copied().chain(trace.epilogue.iter().map(|w| w.value)).collect();
    for l in &trace.lines {
        c.line(trace, l)?;
    }
    Ok(c)
}

impl Compiled {
    fn line(&mut self, trace: &Trace, l: &BoundSymbol) -> Result<(), Error> {
        if let Some(body) = body_of(&trace.arena, l)? {
            for inner in &body.lines {
                self.line(trace, inner)?;
            }
            self.copies.extend(body.outs.iter().copied().zip(l.outs.iter().chain(&l.aux).copied()));
            let at = self.steps.len();
            let _ = at;
            return Ok(());
        }
        let row = l.symbol.row();
        let Some(block) = row.index_body() else { return Err(Error::new("E801", format!("`{}` has no meaning", row.op))) };
        let nest = lower_with(row, block, &l.solved, &NoRows)?;
        let mut inputs = Vec::new();
        let mut runtime = Vec::new();
        for (i, a) in l.args.iter().enumerate() {
            let _ = i;
            a.for_each(&mut |p| match trace.ty(*p) {
                ProxyTy::Number(_) => runtime.push(*p),
                _ => inputs.push(*p),
            });
        }
        self.steps.push(Step {
            nest,
            inputs,
            outs: l.outs.iter().chain(&l.aux).copied().collect(),
            numbers: variant::numbers(row, &l.solved.env),
            runtime,
            loc: l.place.loc,
            op: l.symbol.name(),
            site: l.site.unwrap_or(0),
        });
        Ok(())
    }

    pub fn run(&self, inputs: &mut [Buffer]) -> Result<Vec<Buffer>, Error> {
        let mut env: FxHashMap<ProxyId, Buffer> = self.inputs.iter().copied().zip(inputs.iter().cloned()).collect();
        let alias: FxHashMap<ProxyId, ProxyId> = self.copies.iter().map(|(a, b)| (*b, *a)).collect();
        let root = |mut p: ProxyId| {
            while let Some(q) = alias.get(&p) {
                p = *q;
            }
            p
        };
        for s in &self.steps {
            let arrays: Vec<Array<f64>> = s.inputs.iter().map(|p| array(&env[&root(*p)], s.site)).collect();
            let mut rt = s.runtime.iter();
            let nums: Vec<Scalar> = s
                .numbers
                .iter()
                .map(|n| n.unwrap_or_else(|| rt.next().and_then(|p| env[&root(*p)].item()).unwrap_or(Scalar::Int(0))))
                .collect();
            let outs = nest::run(&s.nest, &arrays, &nums)
                .map_err(|e| Error::new("E803", format!("`{}`: {e}", s.op)).at(s.loc))?;
            for (p, a) in s.outs.iter().zip(outs) {
                env.insert(*p, buffer(&a)?);
            }
        }
        Ok(self.outs.iter().map(|p| env[&root(*p)].clone()).collect())
    }
}

fn array(b: &Buffer, site: u64) -> Array<f64> {
    let mut a = Array::from_scalars(b.dtype(), b.shape(), b.scalars());
    if let (DType::I64, [2], nest::Data::Int(v)) = (b.dtype(), b.shape(), &mut a.data) {
        let _ = (v, site);
    }
    a
}

fn buffer(a: &Array<f64>) -> Result<Buffer, Error> {
    let items = a.scalars();
    let sizes = Sizes::from_slice(&a.shape);
    let mut bytes = Vec::new();
    for s in items {
        let b = Buffer::number(s, a.dtype).map_err(|e| Error::new("E802", e.to_string()))?;
        bytes.extend_from_slice(b.as_bytes());
    }
    let _ = Value::<()>::Absent;
    Buffer::from_bytes(a.dtype, &sizes, &bytes).map_err(|e| Error::new("E802", e.to_string()))
}
