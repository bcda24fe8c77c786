//! Normalises options: wraps axes, clamps bounds, fills defaults, binds sizes.

use super::Refusal;
use super::const_eval::{self, At, Dims, Stop, Val};
use super::env::{Env, Item, Size};
use super::labels::Labels;
use super::shapes::wrap_axis;
use super::types::ArgTy;
use crate::dtype::Category;
use crate::lang::ast::*;
use crate::{DType, Dim, Name, Scalar, Value, counted};
use smallvec::SmallVec;

/// At most this many axes of a tensor from which an option chooses, because PyTorch keeps such a choice in 64 bits.
const MOST_AXES: usize = 64;

/// The value that a call gives for an option.
pub enum Chosen {
    /// Not given: the default applies, if there is one.
    Absent,
    /// A number that is known only when the program runs.
    Runtime(DType),
    /// A value that is known while tracing.
    Static(Val),
    /// A tensor or a key, which is never an option.
    Tensor,
    /// A value that is never an option.
    Other,
}

impl Chosen {
    /// `value` as an option; `ty` gives the type of a tensor-like value.
    pub fn of<V>(value: &Value<V>, ty: &dyn Fn(&V) -> ArgTy) -> Chosen {
        match value {
            Value::Absent => Chosen::Absent,
            Value::Tensor(v) => match ty(v) {
                ArgTy::Number(d) => Chosen::Runtime(d),
                // A number that a rule computed from run-time numbers.
                ArgTy::Tensor(t)
                    if t.shape.is_empty() && !t.dtype.is_storage() && t.dtype.category() != Category::Complex =>
                {
                    Chosen::Runtime(t.dtype)
                }
                ArgTy::Tensor(_) | ArgTy::Key => Chosen::Tensor,
            },
            other => Val::of(other).map_or(Chosen::Other, Chosen::Static),
        }
    }
}

/// The context of one option besides the environment.
pub struct Options<'a> {
    /// The operator, for messages.
    pub op: Name,
    /// The number of run-time numbers seen before.
    pub runtime: &'a mut usize,
    /// The number of axes before those that labels name, in each item of the list argument.
    pub lead: usize,
}

impl Options<'_> {
    /// Normalises option `opt` given as `value`; `rank` is that of the tensor whose axis a plain `Dim` names.
    pub fn item(&mut self, env: &mut Env, opt: &Opt, value: &Chosen, rank: Option<usize>) -> Result<Item, Stop> {
        let name = opt.name.name;
        match value {
            Chosen::Static(val) => self.normalise(env, opt, val.clone(), rank),
            Chosen::Absent => match &opt.default {
                Some(default) => self.default(env, opt, default, rank),
                None if opt.optional => Ok(Item::Absent),
                None => Err(self.wrong(name, "is missing; it has no default").into()),
            },
            Chosen::Runtime(d) if matches!(opt.ty, OptType::Num | OptType::F64) => {
                *self.runtime += 1;
                Ok(Item::Runtime(*self.runtime - 1, *d))
            }
            Chosen::Runtime(_) | Chosen::Tensor => Err(self.wrong(name, "is an option, a tensor was given").into()),
            Chosen::Other => Err(self.wrong(name, "is an option, this value can't be one").into()),
        }
    }

    fn default(&mut self, env: &mut Env, opt: &Opt, default: &Expr, rank: Option<usize>) -> Result<Item, Stop> {
        if let Node::Name(word) = &*default.node {
            match &opt.ty {
                OptType::Enum(words) if words.contains(word) => return Ok(Item::Word(*word)),
                OptType::Dims { list, .. } if *word == "all" => {
                    let n = self.list(env, *list)?.len();
                    return Ok(Item::Ints((0..n).map(Dim::from).collect()));
                }
                _ => {}
            }
        }
        let val = const_eval::eval(env, default, At::default())?;
        self.normalise(env, opt, val, rank)
    }

    fn list<'e>(&self, env: &'e Env, list: Name) -> Result<&'e [Dim], Stop> {
        match env.size(list) {
            Some(Size::List(l)) => Ok(l),
            Some(Size::One(d)) => Ok(std::slice::from_ref(d)),
            _ => Err(Stop::NotStatic),
        }
    }

    fn normalise(&mut self, env: &mut Env, opt: &Opt, val: Val, rank: Option<usize>) -> Result<Item, Stop> {
        let name = opt.name.name;
        let int = |val: &Val| val.int().map_err(|_| Stop::from(self.wrong(name, "must be an integer")));
        let ints = |val: &Val| val.list().map_err(|_| Stop::from(self.wrong(name, "must be a list of integers")));
        Ok(match &opt.ty {
            OptType::Num => match val {
                Val::Int(d) if !d.is_const() => Item::Int(d),
                val => Item::Num(val.scalar().map_err(|_| self.wrong(name, "must be a number"))?),
            },
            OptType::F64 => Item::Num(Scalar::Float(val.float().map_err(|_| self.wrong(name, "must be a number"))?)),
            OptType::I64 => Item::Int(int(&val)?),
            OptType::Bool => Item::Num(Scalar::Bool(match val {
                Val::Bool(b) => b,
                _ => return Err(self.wrong(name, "must be true or false").into()),
            })),
            OptType::Str => Item::Str(self.text(name, val)?),
            OptType::Labels(list) => {
                let text = self.text(name, val)?;
                let shapes = env.items_of_list().ok_or(Stop::NotStatic)?;
                let labelled: Vec<&[Dim]> = shapes.iter().map(|s| s.get(self.lead..).unwrap_or_default()).collect();
                let labels = Labels::read(&text, &labelled).map_err(|why| {
                    Refusal::new("E704", format!("`{}`: `{name}` is \"{text}\", which {why}", self.op)).arg(name)
                })?;
                env.bind_size(*list, Size::List(labels.sizes.clone()));
                Item::Labels(Box::new(labels))
            }
            OptType::Dtype(_) => match val {
                Val::DType(d) => Item::DType(d),
                _ => return Err(self.wrong(name, "must be a dtype").into()),
            },
            OptType::Enum(words) => {
                let found = match &val {
                    Val::Word(word) => word.as_str(),
                    Val::Str(text) => text,
                    _ => return Err(self.wrong(name, "must be a word").into()),
                };
                let Some(word) = words.iter().find(|word| word.as_str() == found) else {
                    let all: Vec<_> = words.iter().map(|w| w.as_str()).collect();
                    let message =
                        format!("`{}`: `{name}` is \"{found}\", it must be one of {}", self.op, all.join(", "));
                    return Err(Refusal::new("E704", message).arg(name).into());
                };
                Item::Word(*word)
            }
            OptType::Dim(list) => {
                let rank = match list {
                    Some(l) => self.list(env, *l)?.len(),
                    None => rank.ok_or(Stop::NotStatic)?,
                };
                Item::Int(Dim::from(wrap_axis(self.op, name, int(&val)?, rank)?))
            }
            OptType::Gap(list) => {
                let rank = self.list(env, *list)?.len();
                Item::Int(Dim::from(wrap_axis(self.op, name, int(&val)?, rank + 1)?))
            }
            OptType::Perm(list) => {
                let rank = self.list(env, *list)?.len();
                let axes = self.axes(name, &ints(&val)?, rank)?;
                if axes.len() != rank {
                    let message = format!(
                        "`{}`: `{name}` has {}, each of the {} must stand there once",
                        self.op,
                        counted(axes.len(), "axis", "axes"),
                        counted(rank, "axis", "axes")
                    );
                    return Err(Refusal::new("E704", message).arg(name).into());
                }
                Item::Ints(axes)
            }
            OptType::Dims { list, empty_all, most } => {
                let rank = self.list(env, *list)?.len();
                let given = match &val {
                    Val::Word(w) if *w == "all" => (0..rank).map(Dim::from).collect(),
                    other => ints(other)?,
                };
                let axes = if given.is_empty() && *empty_all {
                    (0..rank).map(Dim::from).collect()
                } else if rank == 0 && given.iter().all(|d| matches!(d.value(), 0 | -1)) {
                    SmallVec::new()
                } else {
                    self.axes(name, &given, rank)?
                };
                if rank > MOST_AXES && !axes.is_empty() && axes.len() < rank {
                    let message = format!(
                        "`{}`: `{name}` chooses among {rank} axes, which works for at most {MOST_AXES}",
                        self.op
                    );
                    return Err(Refusal::new("E704", message).arg(name).into());
                }
                if let Some(most) = most
                    && axes.len() as i64 > *most
                    && axes.len() != rank
                {
                    let message = format!(
                        "`{}`: `{name}` names {}, at most {most} may be named",
                        self.op,
                        counted(axes.len(), "axis", "axes")
                    );
                    return Err(Refusal::new("E704", message).arg(name).into());
                }
                Item::Ints(axes)
            }
            OptType::Ints { list, axes, broadcast, fill } => {
                let given = ints(&val)?;
                let single = matches!(val, Val::Int(_));
                if *broadcast {
                    let have = match env.broadcast.iter().find(|b| b.list == *list) {
                        Some(part) => part.own.clone(),
                        None => SmallVec::from_slice(self.list(env, *list)?),
                    };
                    let n = have.len().max(given.len());
                    let pad = |l: &Dims| {
                        std::iter::repeat_n(Dim::from(1), n - l.len()).chain(l.iter().copied()).collect::<Dims>()
                    };
                    env.bind_size(*list, Size::List(pad(&have)));
                    return Ok(Item::Ints(pad(&given)));
                }
                if *list == super::shapes::implicit_list() {
                    return Ok(Item::Ints(given));
                }
                let n = self.list(env, *list)?.len();
                if let Some(axes) = axes {
                    let at = const_eval::axes(env, axes, n, At::default())?;
                    let mut all: Dims = SmallVec::from_elem(Dim::from(fill.unwrap_or(0)), n);
                    if !single && given.len() != at.len() {
                        return Err(self.length(name, given.len(), at.len()).into());
                    }
                    for (i, a) in at.iter().enumerate() {
                        all[*a] = given[if single { 0 } else { i }];
                    }
                    return Ok(Item::Ints(all));
                }
                Item::Ints(if single {
                    SmallVec::from_elem(given[0], n)
                } else if given.len() == n {
                    given
                } else if given.len() < n
                    && let Some(fill) = fill
                {
                    given.iter().copied().chain(std::iter::repeat(Dim::from(*fill))).take(n).collect()
                } else {
                    return Err(self.length(name, given.len(), n).into());
                })
            }
            OptType::Pos(size) => {
                let (i, n) = (int(&val)?, self.one(env, *size)?);
                let wrapped = if i < Dim::from(0) { i + n } else { i };
                if wrapped < Dim::from(0) || wrapped >= n {
                    let elements = counted(n, "element", "elements");
                    let message = format!("`{}`: `{name}` is {i}, the axis has {elements}", self.op);
                    return Err(Refusal::new("E704", message).arg(name).into());
                }
                Item::Int(wrapped)
            }
            OptType::Bound(size) => {
                let (i, n) = (int(&val)?, self.one(env, *size)?);
                let wrapped = if i < Dim::from(0) { i + n } else { i };
                Item::Int(wrapped.max(Dim::from(0)).min(n))
            }
            OptType::Size(size) => {
                let d = int(&val)?;
                if d < Dim::from(0) {
                    return Err(Refusal::new(
                        "E704",
                        format!("`{}`: `{name}` is {d}, a size can't be negative", self.op),
                    )
                    .arg(name)
                    .into());
                }
                env.bind_size(*size, Size::One(d));
                Item::Int(d)
            }
            OptType::Shape { list, infer, keep, like } => {
                let single = matches!(val, Val::Int(_));
                let mut given = ints(&val)?;
                if let Some(like) = like
                    && single
                {
                    given = SmallVec::from_elem(given[0], self.list(env, *like)?.len());
                }
                self.infer(env, name, &mut given, infer.as_ref(), keep.as_ref())?;
                if let Some(bad) = given.iter().find(|d| **d < Dim::from(0)) {
                    return Err(Refusal::new(
                        "E704",
                        format!("`{}`: `{name}` holds {bad}, a size can't be negative", self.op),
                    )
                    .arg(name)
                    .into());
                }
                env.bind_size(*list, Size::List(given.clone()));
                Item::Ints(given)
            }
        })
    }

    fn text(&self, name: Name, val: Val) -> Result<String, Stop> {
        match val {
            Val::Str(s) => Ok(s),
            Val::Word(w) => Ok(w.as_str().to_owned()),
            _ => Err(self.wrong(name, "must be a text").into()),
        }
    }

    fn one(&self, env: &Env, size: Name) -> Result<Dim, Stop> {
        match env.size(size) {
            Some(Size::One(d)) => Ok(*d),
            _ => Err(Stop::NotStatic),
        }
    }

    /// Replaces -1 in a shape: inferred from the number of elements, or kept from an argument.
    fn infer(
        &self,
        env: &Env,
        name: Name,
        given: &mut Dims,
        infer: Option<&Name>,
        keep: Option<&Name>,
    ) -> Result<(), Stop> {
        let product = |l: &[Dim]| l.iter().fold(Dim::from(1), |p, &d| p * d);
        if let Some(from) = infer {
            let total = product(self.list(env, *from)?);
            let open: Vec<usize> =
                (0..given.len()).filter(|&i| given[i].is_const() && given[i].value() == -1).collect();
            let refuse = |m: String| Stop::from(Refusal::new("E701", format!("`{}`: {m}", self.op)).arg(name));
            let show = |l: &[Dim]| l.iter().map(Dim::to_string).collect::<Vec<_>>().join(", ");
            match open.as_slice() {
                [] => {
                    if product(given) != total {
                        return Err(refuse(format!(
                            "{} can't have the shape [{}], which holds {}",
                            counted(total, "element", "elements"),
                            show(given),
                            product(given)
                        )));
                    }
                }
                [i] => {
                    let rest = given.iter().enumerate().filter(|(j, _)| j != i).fold(Dim::from(1), |p, (_, &d)| p * d);
                    if rest.is(0) {
                        return Err(refuse(format!(
                            "-1 in [{}] is ambiguous: the other sizes hold no element",
                            show(given)
                        )));
                    }
                    if !(total % rest).is(0) {
                        return Err(refuse(format!(
                            "{} can't have the shape [{}]: {rest} does not divide them",
                            counted(total, "element", "elements"),
                            show(given)
                        )));
                    }
                    given[*i] = total / rest;
                }
                _ => return Err(refuse(format!("[{}] has more than one -1", show(given)))),
            }
        }
        if let Some(from) = keep {
            let t = env.tensor(*from).ok_or(Stop::NotStatic)?;
            let lead = given.len().saturating_sub(t.rank());
            for (i, d) in given.iter_mut().enumerate() {
                if d.is_const() && d.value() == -1 {
                    if i < lead {
                        let message = format!("`{}`: -1 keeps a size, but `{from}` has none at axis {i}", self.op);
                        return Err(Refusal::new("E704", message).arg(name).into());
                    }
                    *d = t.shape[i - lead];
                }
            }
        }
        Ok(())
    }

    fn axes(&self, name: Name, given: &Dims, rank: usize) -> Result<Dims, Stop> {
        let mut out: Dims = SmallVec::new();
        for &d in given {
            let axis = Dim::from(wrap_axis(self.op, name, d, rank)?);
            if out.contains(&axis) {
                let message = format!("`{}`: `{name}` names axis {axis} twice", self.op);
                return Err(Refusal::new("E704", message).arg(name).into());
            }
            out.push(axis);
        }
        Ok(out)
    }

    fn wrong(&self, name: Name, what: &str) -> Refusal {
        Refusal::new("E702", format!("`{}`: `{name}` {what}", self.op)).arg(name)
    }

    fn length(&self, name: Name, have: usize, want: usize) -> Refusal {
        let (have, needed) = (counted(have, "entry", "entries"), counted(want, "is", "are"));
        Refusal::new("E704", format!("`{}`: `{name}` has {have}, {needed} needed", self.op)).arg(name)
    }
}
