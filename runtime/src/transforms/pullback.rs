//! The reverse sweep, which passes cotangents from results to arguments through any list of lines.

use super::activity::{Activity, LineRole};
use super::control::Reverse;
use super::custom_vjp::{self, Own};
use super::inline::{self, Mode, Redirect};
use super::regions::Outside;
use super::rules::Site;
use super::subclass;
use crate::bind::{Builder, Context};
use crate::error::{Error, ErrorKind};
use crate::symbol::SubclassRef;
use crate::trace::tag::{Event, Policy, SplitSide, Tag, TagSet};
use crate::trace::*;
use fulgurite_core::{Name, Scalar, TensorTy, Value};
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// The source of an output's cotangent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seed {
    /// The cotangent is zero.
    Zero,
    /// The cotangent is a tensor of ones.
    Ones,
    /// The cotangent is a new input of the joint trace.
    Input,
    /// The cotangent is a new input, a plain tensor whatever the class of the output.
    Plain,
    /// The cotangent is this value, which the trace reads already.
    Value(ProxyId),
}

/// The marks on lines that a sweep makes.
#[derive(Clone, Copy)]
pub(super) struct Style {
    role: Role,
    sum: Role,
    tags: TagSet,
    prefix: &'static str,
}

impl Style {
    /// The style of lines of a gradient.
    pub(super) fn backward() -> Style {
        let tags = TagSet::EMPTY.with(Tag::BACKWARD);
        Style { role: Role::Backward, sum: Role::Accumulate, tags, prefix: "ct" }
    }
    /// The style of lines of a tangent, which is found by transposing a gradient.
    pub(super) fn tangent() -> Style {
        Style { role: Role::Forward, sum: Role::Forward, tags: TagSet::EMPTY, prefix: "t" }
    }
}

/// A reverse sweep over lines that the builder (or an outer trace) has.
pub(super) struct Pullback<'b> {
    b: &'b mut Builder,
    activity: Activity,
    style: Style,
    cotangents: FxHashMap<ProxyId, ProxyId>,
    regions: Outside,
    /// The reads and writes of custom backwards.
    pub(super) own: Own,
}

impl<'b> Pullback<'b> {
    pub(super) fn new(b: &'b mut Builder, activity: Activity, style: Style, reverse: Option<Reverse>) -> Pullback<'b> {
        // checkpoints, autocasts and gradient modes do not apply to gradients
        let regions =
            Outside::new(b.root(), |kind| matches!(kind, RegionKind::Named(_) | RegionKind::Root), Event::Vjp);
        let own = Own { tangents: style.role == Role::Forward, reverse, ..Own::default() };
        Pullback { b, activity, style, cotangents: FxHashMap::default(), regions, own }
    }

    /// The cotangent of a value so far; `None` is zero.
    pub(super) fn cotangent(&self, p: ProxyId) -> Option<ProxyId> {
        self.cotangents.get(&p).copied()
    }

    /// Adds an output's own cotangent, at the place of the line that made the output.
    pub(super) fn seed(&mut self, out: ProxyId, seed: Seed, maker: Option<&Rc<BoundSymbol>>) -> Result<(), Error> {
        let context = match maker {
            Some(line) => self.context(line),
            None => Context {
                place: Place { role: self.style.role, ..self.b.context.place },
                tags: self.style.tags,
                ..self.b.context.clone()
            },
        };
        let before = std::mem::replace(&mut self.b.context, context);
        let done = match (seed, self.b.arena().tensor_ty(out)) {
            (Seed::Value(ct), _) => self.b.cotangent(out, ct).and_then(|ct| self.add(out, ct)),
            (Seed::Ones, Some(ty)) => self.b.full(&ty, 1.0).and_then(|ones| {
                self.name(ones, out);
                let ones = self.b.cotangent(out, ones)?;
                self.add(out, ones)
            }),
            (Seed::Zero | Seed::Input | Seed::Plain | Seed::Ones, _) => Ok(()),
        };
        self.b.context = before;
        done
    }

    /// Adds to the cotangent of a value, in the builder's context.
    pub(super) fn add(&mut self, p: ProxyId, contribution: ProxyId) -> Result<(), Error> {
        let Some(before) = self.cotangent(p) else {
            self.cotangents.insert(p, contribution);
            return Ok(());
        };
        let mut context = self.b.context.clone();
        context.place.role = self.style.sum;
        let sum = self.b.in_context(context, |b| b.add(before, contribution))?;
        self.name(sum, p);
        self.cotangents.insert(p, sum);
        Ok(())
    }

    /// The context of lines made for a line: its place, and the regions around it that apply to gradients.
    pub(super) fn context(&mut self, line: &BoundSymbol) -> Context {
        Context {
            region: self.regions.of(self.b.arena(), line.region),
            place: Place { loc: line.place.loc, role: self.style.role },
            tags: line.own_tags.passing(Event::Vjp, SplitSide::Before, &[Policy::All]).union(self.style.tags),
            origin: Some(line.id),
        }
    }

    /// Sweeps over the lines, last first.
    ///
    /// # Errors
    /// E711 if a cotangent must pass a line without a rule, and errors of rules.
    pub(super) fn run(&mut self, lines: &[Rc<BoundSymbol>]) -> Result<(), Error> {
        for line in lines.iter().rev() {
            let flow: Vec<Option<ProxyId>> = line.outs.iter().map(|o| self.cotangent(*o)).collect();
            if flow.iter().all(Option::is_none) {
                continue;
            }
            if let LineRole::Active { in_mask, .. } = self.activity.vjp_role(line) {
                let context = self.context(line);
                let before = std::mem::replace(&mut self.b.context, context);
                let done = self.line(line, &flow, &in_mask);
                self.b.context = before;
                done?;
            }
        }
        Ok(())
    }

    fn line(&mut self, line: &Rc<BoundSymbol>, flow: &[Option<ProxyId>], in_mask: &[bool]) -> Result<(), Error> {
        let active: Vec<usize> = (0..in_mask.len()).filter(|i| in_mask[*i]).collect();
        if let (Some(reason), Some(first)) = (&line.symbol.row().no_grad, active.first()) {
            return Err(no_rule(line, *first).note(format!("the row says: {reason}")));
        }
        if let Some((class, ct)) = subclass::stands_for(self.b.arena(), line, flow) {
            return self.fields(line, class, ct, &active);
        }
        let site = Site { line, flow, tangents: false };
        let found = match custom_vjp::cotangents(self.b, site, &active, &mut self.own)? {
            Ok(found) => found,
            Err(i) => return Err(subclass::blame(self.b.arena(), line, no_rule(line, i))),
        };
        for (i, value, made_from) in found {
            self.contribute(line, &line.args[i], &value, made_from)?;
        }
        Ok(())
    }

    /// Adds to the cotangents of the fields of a tensor that stands for a plain one, whose cotangent is `ct`, by the
    /// derivative of the tensor's plain value.
    fn fields(
        &mut self,
        line: &Rc<BoundSymbol>,
        class: SubclassRef,
        ct: ProxyId,
        active: &[usize],
    ) -> Result<(), Error> {
        let (arena, root) = (self.b.arena().clone(), self.b.root());
        let mut wrt = Vec::new();
        active.iter().for_each(|i| line.args[*i].for_each(&mut |p| wrt.push(*p)));
        wrt.retain(|p| self.activity.needs_grad(*p));
        wrt.sort();
        wrt.dedup();
        let start = self.b.lines().len();
        let plain = subclass::plain_of(self.b, line, class)?;
        let lines = self.b.take_from(start);
        let mut redirect = Redirect::default();
        let lines = inline::active(&arena, root, &lines, &wrt, Mode::Reverse(&[plain]), &mut redirect)?;
        let plain = redirect.get(plain);
        let activity = Activity::sweep(&arena, root, &lines, &wrt, &[plain]);
        for made in &lines {
            self.b.push(match activity.vjp_role(made) {
                LineRole::Active { in_mask, .. } => with_aux(&arena, made, &in_mask),
                LineRole::Constant(_) => made.clone(),
            });
        }
        let lines = self.b.lines()[start..].to_vec();
        let mut inner = Pullback::new(self.b, activity, self.style, self.own.reverse);
        inner.add(plain, ct)?;
        inner.run(&lines)?;
        let found: Vec<_> = wrt.iter().filter_map(|p| Some((*p, inner.cotangent(*p)?))).collect();
        found.into_iter().try_for_each(|(p, ct)| self.add(p, ct))
    }

    /// Adds a rule's result for an argument, item by item.
    fn contribute(
        &mut self,
        line: &BoundSymbol,
        arg: &Value<ProxyId>,
        value: &Value<ProxyId>,
        made_from: usize,
    ) -> Result<(), Error> {
        match (arg, value) {
            (_, Value::Absent) => Ok(()),
            (Value::List(args), Value::List(values)) if args.len() == values.len() => {
                args.iter().zip(values).try_for_each(|(a, v)| self.contribute(line, a, v, made_from))
            }
            (Value::Tensor(p), value) if self.activity.needs_grad(*p) => {
                let Some(contribution) = self.conform(line, *p, value)? else { return Ok(()) };
                if contribution.0 as usize >= made_from {
                    self.name(contribution, *p);
                }
                self.add(*p, contribution)
            }
            (Value::Tensor(_) | Value::Num(_), _) => Ok(()),
            _ => Err(Error::bug("E706", format!("a gradient rule of `{}` yields the wrong list", line.symbol.name()))),
        }
    }

    /// The contribution in the type of the argument; `None` if it is zero.
    fn conform(&mut self, line: &BoundSymbol, p: ProxyId, value: &Value<ProxyId>) -> Result<Option<ProxyId>, Error> {
        let Some(want) = self.b.arena().tensor_ty(p) else { return Ok(None) };
        let given = match value {
            Value::Num(Scalar::Int(0)) => return Ok(None),
            Value::Num(Scalar::Float(x)) if *x == 0.0 => return Ok(None),
            Value::Num(_) | Value::Size(_) => {
                let filled = self.b.filled(&want, value.clone())?;
                self.b.cotangent(p, filled)?
            }
            // rules compute in the common dtype, which differs from the argument's for halves and mixed dtypes
            Value::Tensor(v) => self.b.cast(*v, want.dtype).and_then(|v| self.b.cotangent(p, v))?,
            _ => {
                return Err(Error::bug(
                    "E706",
                    format!("a gradient rule of `{}` yields no tensor", line.symbol.name()),
                ));
            }
        };
        let given = self.drop_imagined(line, given, &want)?;
        match self.b.arena().tensor_ty(given) {
            Some(have) if have == want => Ok(Some(given)),
            have => {
                let have = have.map_or_else(|| "no tensor".to_owned(), |t| t.to_string());
                let claim =
                    format!("the gradient rule of `{}` gives {have} for an argument {want}", line.symbol.name());
                Err(Error::new("E706", claim).note("this is a fault of the row").at(line.place.loc))
            }
        }
    }

    /// Drops the axis that an argument of rank 0 does not have: a rule computes it if other arguments have one.
    fn drop_imagined(&mut self, line: &BoundSymbol, given: ProxyId, want: &TensorTy) -> Result<ProxyId, Error> {
        let one = |ty: TensorTy| ty.rank() == 1 && ty.shape[0].is(1);
        if want.rank() > 0
            || line.solved.env.scalar_axis.is_empty()
            || !self.b.arena().tensor_ty(given).is_some_and(one)
        {
            return Ok(given);
        }
        self.b.reshape(given, &want.shape)
    }

    fn name(&mut self, cotangent: ProxyId, of: ProxyId) {
        let arena = self.b.arena();
        let hint = format!("{}.{}", self.style.prefix, arena.name(of));
        arena.rename(cotangent, &hint);
    }
}

fn no_rule(line: &BoundSymbol, i: usize) -> Error {
    let row = line.symbol.row();
    let input = row.sig.params[i].name.name;
    Error::new("E711", format!("`{}` has no gradient rule for `{input}`", row.op))
        .kind_is(ErrorKind::NoGradRule { op: row.op, input })
        .at(line.place.loc)
        .label("a gradient must pass this call")
        .help(format!("put it in a no_grad region, detach `{input}`, or give the row a `grad` rule"))
}

/// The line with the auxiliary results that the rules of its active arguments read.
pub(super) fn with_aux(arena: &Arena, line: &Rc<BoundSymbol>, in_mask: &[bool]) -> Rc<BoundSymbol> {
    let sig = &line.symbol.row().sig;
    if sig.aux.is_empty() || !line.aux.is_empty() {
        return line.clone();
    }
    let reads = |name: Name| {
        let rules = sig.params.iter().zip(in_mask).filter(|(_, active)| **active);
        rules.filter_map(|(p, _)| line.symbol.vjp_rule(p.name.name)).any(|rule| rule.mentions.contains(&name))
    };
    if !sig.aux.iter().any(|out| reads(out.name.name)) {
        return line.clone();
    }
    let device = line.outs.first().map_or(Device::Cpu, |o| match arena.ty(*o) {
        ProxyTy::Tensor(t) => t.device,
        _ => Device::Cpu,
    });
    // the body of a line on subclasses knows its auxiliary results; a class's own rule has none
    let made = line.dispatch.as_ref().map(|body| &body.outs[line.outs.len().min(body.outs.len())..]);
    let mut aux = Vec::new();
    for (out, types) in sig.aux.iter().zip(&line.solved.aux) {
        for ty in types.tensors() {
            let plain = TensorType { ty: ty.clone(), device, requires_grad: false, subclass: None };
            let ty = match made {
                Some(made) => made.get(aux.len()).map(|p| arena.ty(*p)),
                None => Some(ProxyTy::Tensor(plain)),
            };
            let Some(ty) = ty else { return line.clone() };
            aux.push(arena.proxy(out.name.name.as_str(), ty));
        }
    }
    Rc::new(BoundSymbol { aux, ..(**line).clone() })
}
