//! E605: a rule of a class means what its operator means. On small instances, its result for tensors of the class is
//! compared with the operator's results for the plain tensors that they stand for, and for their originals. The class's
//! `error` bounds the difference.

use std::sync::Arc;

use fulgurite_core::eval::loop_nest::{Array, Data};
use fulgurite_core::lang::Opt;
use fulgurite_core::row::Row;
use fulgurite_core::signature::{self, ArgTy, Refusal, Solved};
use fulgurite_core::{DType, Name, TensorTy, Value};

use super::draw::{self, Operand};
use super::hidden;
use super::world::{Tensor, UNFIT, World};
use crate::check::cases::{Case, Family};
use crate::check::gradients::arrays::dense::{Dense, Stop, V, floats};
use crate::check::gradients::arrays::numbers::{Numbers, short};
use crate::check::gradients::{samples, show};

/// Calls of about this many elements are tried first, because that is large enough for axes to differ.
const ELEMENTS: usize = 12;

/// A call has at most this many elements, because each element with an error costs two runs.
const MOST_ELEMENTS: usize = 150;

/// The number of calls compared for a row that its rule names. Rows that share a rule for their kind get one call each.
pub const COMPARED: usize = 3;

/// At most this many calls are tried for those to compare, because a rule may refuse most of them.
const TRIED: usize = 10;

/// The relative error allowed for rounding: everything is computed in f64, but constants may have been rounded to f32.
const ROUNDING: f64 = 2e-6;

/// The share by which a bound of first order is enlarged, because higher orders are smaller than that for errors below
/// an eighth.
const ORDER: f64 = 0.25;

/// A call with a wrong result.
pub struct Refuted {
    /// What is wrong, as a sentence's end: "yields 2 where it should yield 3".
    pub claim: String,
    /// The call, and its data.
    pub notes: Vec<String>,
    /// The dtype that programs see is not that of the operator, though the values are right.
    pub dtype: bool,
}

/// The outcome of a comparison.
pub enum Found {
    /// All calls that were compared were right.
    Right,
    /// A call was wrong.
    Wrong(Box<Refuted>),
    /// No call was accepted; the last refusal, if there was one.
    Never(Option<Refusal>),
}

/// Compares the rule for `row` on class `class` with the operator, in `calls` calls.
pub fn compare(world: &World, class: usize, row: &Arc<Row>, family: &Family, calls: usize) -> Found {
    let (mut right, mut refused) = (0, None);
    for (n, case) in tried(family) {
        match one(world, class, row, n, case) {
            Ok(Some(refuted)) => return Found::Wrong(Box::new(refuted)),
            Ok(None) => {
                right += 1;
                if right == 1
                    && let Some(refuted) = wider(world, class, row, n, case)
                {
                    return Found::Wrong(Box::new(refuted));
                }
            }
            Err(Some(refusal)) => refused = Some(refusal),
            Err(None) => {}
        }
        if right == calls {
            break;
        }
    }
    if right > 0 { Found::Right } else { Found::Never(refused) }
}

/// Runs a call in f64 and, where it has several tensors, with the last of them alone in f64. A rule that names a dtype,
/// or keeps the dtype of one argument, is right only while all arguments have one dtype.
fn wider(world: &World, class: usize, row: &Arc<Row>, n: usize, case: &Case) -> Option<Refuted> {
    let of = |only: Option<usize>| {
        let wide = |(at, arg): (usize, &Value<ArgTy>)| {
            let widens = |t: &TensorTy| t.dtype == DType::F32 && only.is_none_or(|only| only == at);
            arg.map_tensors(&mut |t| TensorTy { dtype: if widens(t) { DType::F64 } else { t.dtype }, ..t.clone() })
        };
        let args: Vec<Value<ArgTy>> = case.args.iter().enumerate().map(wide).collect();
        Case::of(row, args).filter(|wide| wide.args != case.args)
    };
    let float = |arg: &Value<ArgTy>| matches!(arg, Value::Tensor(ArgTy::Tensor(t)) if t.dtype.is_float());
    let last = case.args.iter().rposition(float);
    let several = case.args.iter().filter(|arg| float(arg)).count() > 1;
    let cases = [of(None), last.filter(|_| several).and_then(|last| of(Some(last)))];
    cases.into_iter().flatten().find_map(|case| one(world, class, row, n, &case).ok().flatten())
}

/// The calls to try, those of about [`ELEMENTS`] elements first.
pub fn tried(family: &Family) -> Vec<(usize, &Case)> {
    let mut cases: Vec<(usize, &Case)> = family.cases.iter().enumerate().collect();
    cases.retain(|(_, case)| (1..=MOST_ELEMENTS).contains(&case.numel()));
    cases.sort_by_key(|(_, case)| case.numel().abs_diff(ELEMENTS));
    cases.truncate(TRIED);
    cases
}

/// An argument that is a tensor: its position, and its index in a list.
pub type Slot = (usize, Option<usize>);

/// Checks that the rows of a class make tensors within the class's `error` of their originals. Returns the row and the
/// fault otherwise.
pub fn made(world: &World, class: usize) -> Option<(Name, Refuted)> {
    likes().into_iter().find_map(|like| {
        draw::so_many(world, class, &like, 1, 3).iter().find_map(|operand| {
            let (row, of) = operand.of.as_ref()?;
            let pairs = floats(&operand.plain).into_iter().zip(floats(of)).zip(&operand.far);
            let beyond = |((x, y), far): &((f64, f64), &f64)| (x - y).abs() > *far + ROUNDING * (1.0 + y.abs());
            let ((x, y), far) = pairs.filter(beyond).max_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
            let (x, y, far) = (show::number(x), show::number(y), show::number(*far));
            let claim = format!("makes {x} of {y}, where `error` allows {far}");
            let notes = vec![format!("for {}", TensorTy::new(of.dtype, &of.shape))];
            Some((*row, Refuted { claim, notes, dtype: false }))
        })
    })
}

/// Checks `plain` of a class. It is wrong if it has another type than `sig` says, or no value for any tensor that was
/// tried.
pub fn plain(world: &World, class: usize) -> Option<(String, Vec<String>)> {
    let (mut known, mut refused) = (false, None);
    for made in likes().iter().flat_map(|like| draw::wholes(world, class, like)) {
        let note = || vec![format!("for {} of `sig`", made.ty)];
        match world.plain(&Tensor::Made(made.clone())) {
            Ok(V::Array(a)) if TensorTy::new(a.dtype, &a.shape) == made.ty => known = true,
            Ok(V::Array(a)) => {
                return Some((format!("yields {}, `sig` says {}", TensorTy::new(a.dtype, &a.shape), made.ty), note()));
            }
            // a missing row is reported elsewhere
            Err(Stop::Refused(refusal)) if refusal.code != "E007" => refused = Some((refusal, note())),
            Ok(V::Key(_)) | Err(_) => {}
        }
    }
    refused
        .filter(|_| !known)
        .map(|(refusal, notes)| (format!("refuses each tensor that was tried: {}", refusal.message), notes))
}

/// Plain tensors of several shapes, from which tensors of a class are made.
pub fn likes() -> Vec<Arc<Array<f64>>> {
    let shapes: [&[usize]; 5] = [&[2, 4], &[4], &[2, 3, 4], &[1, 64], &[]];
    let like = |(n, shape): (usize, &[usize])| {
        let mut numbers = Numbers::new(n as u64);
        let drawn = (0..shape.iter().product()).map(|_: usize| short(8.0 * numbers.draw() - 4.0)).collect();
        Arc::new(Array::float(DType::F32, shape, drawn))
    };
    shapes.into_iter().enumerate().map(like).collect()
}

/// The ratio of an error to the allowed one.
fn ratio(((x, y), far): &((f64, f64), &f64)) -> f64 {
    (x - y).abs() / far.max(f64::MIN_POSITIVE)
}

/// The arguments of a call that are tensors.
pub fn slots(args: &[Value<V<f64>>], row: &Row) -> Vec<Slot> {
    let mut slots = Vec::new();
    let tensor = |v: &Value<V<f64>>| matches!(v, Value::Tensor(V::Array(_)));
    for (at, arg) in args.iter().enumerate().take(row.sig.params.len()) {
        match arg {
            Value::List(items) => slots.extend((0..items.len()).filter(|i| tensor(&items[*i])).map(|i| (at, Some(i)))),
            arg if tensor(arg) => slots.push((at, None)),
            _ => {}
        }
    }
    slots
}

/// The tensor at a slot.
pub fn get(args: &[Value<V<f64>>], (at, item): Slot) -> Option<Arc<Array<f64>>> {
    let value = match (&args[at], item) {
        (Value::List(items), Some(i)) => &items[i],
        (value, _) => value,
    };
    if let Value::Tensor(V::Array(a)) = value { Some(a.clone()) } else { None }
}

/// Puts a tensor into a slot.
pub fn put<T: Clone>(args: &mut [Value<T>], (at, item): Slot, value: T) {
    match (&mut args[at], item) {
        (Value::List(items), Some(i)) => items[i] = Value::Tensor(value),
        (slot, _) => *slot = Value::Tensor(value),
    }
}

/// Compares one call for several choices of the arguments that are of the class: all of them, and each alone. The error
/// is the last refusal, if no choice was accepted.
fn one(world: &World, class: usize, row: &Arc<Row>, n: usize, case: &Case) -> Result<Option<Refuted>, Option<Refusal>> {
    let Some(drawn) = samples::usual(world.library, row, case, n) else { return Err(None) };
    let all = slots(&drawn.args, row);
    let (mut accepted, mut refused) = (false, None);
    for choice in choices(&all) {
        let made: Option<Vec<Vec<Operand>>> = choice
            .iter()
            .enumerate()
            .map(|(i, slot)| {
                let like = get(&drawn.args, *slot)?;
                Some(draw::operands(world, class, &like, (n + 31 * i) as u64)).filter(|found| !found.is_empty())
            })
            .collect();
        let Some(made) = made else { continue };
        let ways = made.iter().map(Vec::len).max().unwrap_or(0);
        // plain arguments are tried as integers too: a rule must not add to a field of integers what is added to the
        // whole
        let beside: Vec<Vec<Value<V<f64>>>> =
            std::iter::once(drawn.args.clone()).chain(integers(&drawn.args, &all, &choice)).collect();
        // the last round mixes two ways of making tensors, because a rule may take the metadata of one for those of all
        let of_last = |way: usize| Some(metadata(world, made.last()?.get(way)?));
        let mixed = usize::from(choice.len() > 1 && of_last(1).is_some() && of_last(0) != of_last(1));
        for way in 0..ways + mixed {
            let nth = |i: usize| if way == ways { usize::from(i + 1 == made.len()) } else { way };
            let operands = made.iter().enumerate().map(|(i, of)| &of[nth(i).min(of.len() - 1)]);
            let operands: Vec<&Operand> = operands.collect();
            let trial = Trial { world, row, case, choice: &choice, operands: &operands };
            for (n, args) in beside.iter().enumerate() {
                match trial.compare(args) {
                    Ok(Some(refuted)) => return Ok(Some(refuted)),
                    Ok(None) => accepted = true,
                    // beside others a tensor may have to be expanded first, which a rule may refuse
                    Err(Stop::Refused(refusal)) if all.len() == 1 && refusal.code == UNFIT => {
                        let claim = format!("makes a tensor of fields that do not fit: {}", refusal.message);
                        return Ok(Some(Refuted { claim, notes: trial.told(args), dtype: false }));
                    }
                    Err(Stop::Refused(refusal)) if n == 0 => refused = Some(refusal),
                    Err(_) => {}
                }
            }
        }
    }
    if accepted { Ok(None) } else { Err(refused) }
}

/// Returns the arguments with integers in the place of plain floats; `None` if there are no such floats.
fn integers(args: &[Value<V<f64>>], all: &[Slot], choice: &[Slot]) -> Option<Vec<Value<V<f64>>>> {
    let mut args = args.to_vec();
    let mut any = false;
    for slot in all.iter().filter(|slot| !choice.contains(slot)) {
        let Some(a) = get(&args, *slot) else { continue };
        if let Data::Float(x) = &a.data {
            let rounded = x.iter().map(|x| if x.abs() < 1.0 { 1 } else { x.round() as i64 }).collect();
            put(&mut args, *slot, V::Array(Arc::new(Array::int(DType::I64, &a.shape, rounded))));
            any = true;
        }
    }
    any.then_some(args)
}

/// The choices of the arguments that are of the class: all of them, and each alone.
pub fn choices(all: &[Slot]) -> Vec<Vec<Slot>> {
    let singles = all.iter().map(|slot| vec![*slot]).filter(|_| all.len() > 1);
    std::iter::once(all.to_vec()).chain(singles).collect()
}

/// The arguments of a call, those of `choice` made of the class, and the plain tensors for which they stand.
pub fn given<'o>(
    drawn: &[Value<V<f64>>],
    choice: &[Slot],
    operands: impl IntoIterator<Item = &'o Operand>,
) -> (Vec<Value<Tensor>>, Vec<Value<V<f64>>>) {
    let of = |a: &Value<V<f64>>| a.map(&mut |v: &V<f64>| Tensor::Plain(v.clone()));
    let (mut args, mut plain): (Vec<_>, _) = (drawn.iter().map(of).collect(), drawn.to_vec());
    for (slot, operand) in choice.iter().zip(operands) {
        put(&mut args, *slot, Tensor::Made(operand.made.clone()));
        put(&mut plain, *slot, V::Array(operand.plain.clone()));
    }
    (args, plain)
}

/// The tensor with one element moved by a step.
pub fn moved(like: &Array<f64>, element: usize, step: f64) -> V<f64> {
    let mut moved = like.clone();
    if let Data::Float(x) = &mut moved.data {
        x[element] += step;
    }
    V::Array(Arc::new(moved))
}

/// The tensors among results, those of lists one by one.
fn flat<T: Clone>(results: &[Value<T>], outs: usize) -> Vec<T> {
    let mut tensors = Vec::new();
    results.iter().take(outs).for_each(|value| value.for_each(&mut |t| tensors.push(t.clone())));
    tensors
}

/// The elements of all tensors.
fn elements<'v>(tensors: impl IntoIterator<Item = &'v V<f64>>) -> Vec<f64> {
    let arrays = tensors.into_iter().filter_map(|v| if let V::Array(a) = v { Some(floats(a)) } else { None });
    arrays.flatten().collect()
}

/// Results, and the allowed error of each of their elements.
type Allowed = (Vec<V<f64>>, Vec<f64>);

/// A call of an operator with operands of a class in some places.
struct Trial<'t> {
    world: &'t World<'t>,
    row: &'t Arc<Row>,
    case: &'t Case,
    choice: &'t [Slot],
    operands: &'t [&'t Operand],
}

impl Trial<'_> {
    /// Compares the operator on tensors of the class with the operator on plain tensors.
    fn compare(&self, drawn: &[Value<V<f64>>]) -> Result<Option<Refuted>, Stop> {
        let (world, row) = (self.world, self.row);
        let (args, plain) = given(drawn, self.choice, self.operands.iter().copied());
        let solved = signature::solve(row, &args, &Tensor::ty)?;
        let results = world.run(row, &solved, &args)?;
        let (given, outs) = (results.len(), row.sig.outs.len());
        if given != outs && given != outs + row.sig.aux.len() {
            let claim = format!("yields {given} results, its operator {outs}");
            return Ok(Some(Refuted { claim, notes: vec![format!("for {}", self.case.show(row))], dtype: false }));
        }
        let have = self.plains(&results)?;
        let (want, far) = self.allowed(&solved, &plain)?;
        if let Some((claim, dtype)) = differ(&have, &want, &far, "on the plain tensors") {
            return Ok(Some(Refuted { claim, notes: self.told(&plain), dtype }));
        }
        if let ([slot], [operand]) = (self.choice, self.operands)
            && world.classes[operand.made.class].error.when.is_some()
            && let Some(claim) = self.seen(&solved, &args, *slot, operand)
        {
            return Ok(Some(Refuted { claim, notes: self.told(&plain), dtype: false }));
        }
        // the second comparison is with the originals of the operands
        let Some((maker, _)) = self.operands.iter().find_map(|o| o.of.as_ref()) else { return Ok(None) };
        let mut original = plain.clone();
        for (slot, operand) in self.choice.iter().zip(self.operands) {
            if let Some((_, of)) = &operand.of {
                put(&mut original, *slot, V::Array(of.clone()));
            }
        }
        let (want, far) = self.allowed(&solved, &original)?;
        if self.jumps(&solved, &original, (&want, &far)) {
            return Ok(None);
        }
        let found = differ(&have, &want, &far, &format!("on what `{maker}` was given"));
        Ok(found.map(|(claim, dtype)| Refuted { claim, notes: self.told(&plain), dtype }))
    }

    /// The call and its data, as notes.
    fn told(&self, plain: &[Value<V<f64>>]) -> Vec<String> {
        vec![format!("for {}", self.case.show(self.row)), format!("where {}", self.data(plain))]
    }

    /// The plain tensors that results stand for, those of lists one by one.
    fn plains(&self, results: &[Value<Tensor>]) -> Result<Vec<V<f64>>, Stop> {
        flat(results, self.row.sig.outs.len()).iter().map(|t| self.world.plain(t)).collect()
    }

    /// The operator's results on plain tensors.
    fn run(&self, solved: &Solved, args: &[Value<V<f64>>]) -> Result<Vec<V<f64>>, Stop> {
        let results = Dense::new(self.world.library).meaning(self.row, solved, args)?;
        Ok(flat(&results, self.row.sig.outs.len()))
    }

    /// Returns a sentence about the influence of elements that the operand hides, if there is one.
    fn seen(&self, solved: &Solved, args: &[Value<Tensor>], slot: Slot, operand: &Operand) -> Option<String> {
        let pair = hidden::pair(self.world, &operand.made)?;
        let [first, second] = pair.map(|made| {
            let mut args = args.to_vec();
            put(&mut args, slot, Tensor::Made(made));
            let results = self.world.run(self.row, solved, &args).ok()?;
            Some(elements(&self.plains(&results).ok()?))
        });
        let (first, second) = (first?, second?);
        let pairs = first.iter().zip(&second);
        let differ = |(a, b): &(&f64, &f64)| (*a - *b).abs() > ROUNDING * (1.0 + a.abs());
        let (a, b) = pairs.filter(differ).max_by(|a, b| (a.0 - a.1).abs().total_cmp(&(b.0 - b.1).abs()))?;
        let (a, b) = (show::number(*a), show::number(*b));
        Some(format!("yields {a} or {b}, by elements of fields that `plain` does not show"))
    }

    /// Computes the operator's results on plain tensors, and for each element the distance by which the errors of
    /// operands may move it.
    fn allowed(&self, solved: &Solved, args: &[Value<V<f64>>]) -> Result<Allowed, Stop> {
        let want = self.run(solved, args)?;
        let at = elements(&want);
        let mut far = vec![0.0; at.len()];
        for (slot, operand) in self.choice.iter().zip(self.operands) {
            let Some(like) = get(args, *slot) else { continue };
            for (e, error) in operand.far.iter().enumerate().filter(|(_, error)| **error > 0.0) {
                // moved to either side, because a cutoff or a detached value has no slope
                let [down, up] = [-error, *error].map(|step| {
                    let mut args = args.to_vec();
                    put(&mut args, *slot, moved(&like, e, step));
                    self.run(solved, &args).map(|results| elements(&results))
                });
                let sides = down?.into_iter().zip(up?).zip(&at);
                let most = sides.map(|((down, up), at)| (down - at).abs().max((up - at).abs()));
                far.iter_mut().zip(most).for_each(|(far, most)| *far += (1.0 + ORDER) * most);
            }
        }
        Ok((want, far))
    }

    /// Whether the operator jumps (an order, an index, a remainder): it moves by more than is allowed where its
    /// arguments move by less than their errors. The errors of arguments then say nothing about results.
    fn jumps(&self, solved: &Solved, args: &[Value<V<f64>>], (want, far): (&[V<f64>], &[f64])) -> bool {
        let moves: [fn(f64, f64, usize) -> f64; 3] = [
            |x, far, _| (x / far).round() * far,
            |x, far, i| if i % 2 == 0 { x + 0.9 * far } else { x - 0.9 * far },
            |x, far, i| if i % 3 == 0 { x - 0.9 * far } else { x + 0.9 * far },
        ];
        moves.into_iter().any(|step| {
            let mut args = args.to_vec();
            for (slot, operand) in self.choice.iter().zip(self.operands) {
                let Some(mut a) = get(&args, *slot).map(|a| Array::clone(&a)) else { continue };
                if let Data::Float(x) = &mut a.data {
                    let moved = x.iter().zip(&operand.far).enumerate();
                    *x = moved.map(|(i, (x, far))| if *far > 0.0 { step(*x, *far, i) } else { *x }).collect();
                }
                put(&mut args, *slot, V::Array(Arc::new(a)));
            }
            !self.run(solved, &args).is_ok_and(|have| differ(&have, want, far, "").is_none())
        })
    }

    /// Formats the arguments, and tells which of them are of the class.
    fn data(&self, plain: &[Value<V<f64>>]) -> String {
        let (world, operands) = (self.world, self.operands);
        let class = operands.first().map_or("", |o| world.classes[o.made.class].name.as_str());
        let params = self.row.sig.params.iter().zip(plain).enumerate();
        let differs = operands.windows(2).any(|two| metadata(world, two[0]) != metadata(world, two[1]));
        let told = params.filter_map(|(at, (param, value))| {
            let shown = show::elements(value)?;
            let of_class = self.choice.iter().position(|(a, _)| *a == at).and_then(|n| operands.get(n));
            Some(match of_class {
                // metadata are shown only if they differ between operands
                Some(operand) => {
                    let meta = if differs { metadata(world, operand) } else { String::new() };
                    format!("{} is a {class} of {shown}{meta}", param.name.name)
                }
                None => format!("{} = {shown}", param.name.name),
            })
        });
        told.collect::<Vec<_>>().join(", ")
    }
}

/// Describes the first difference, and tells whether only the dtype differs.
fn differ(have: &[V<f64>], want: &[V<f64>], far: &[f64], on: &str) -> Option<(String, bool)> {
    if have.len() != want.len() {
        return Some((format!("yields {} results, {on} {}", have.len(), want.len()), false));
    }
    let mut far = far.iter();
    let mut dtype = None;
    for (have, want) in have.iter().zip(want) {
        let (V::Array(have), V::Array(want)) = (have, want) else { continue };
        if have.shape != want.shape {
            return Some((format!("yields shape {:?}, {on} {:?}", have.shape, want.shape), false));
        }
        if have.dtype != want.dtype {
            dtype.get_or_insert_with(|| format!("yields {}, {on} {}", have.dtype, want.dtype));
        }
        for (i, (h, w)) in floats(have).iter().zip(floats(want)).enumerate() {
            let far = far.next().copied().unwrap_or(0.0);
            let narrow =
                matches!(want.dtype, DType::F16 | DType::BF16) || matches!(have.dtype, DType::F16 | DType::BF16);
            let rounding = if narrow { 1e-2 } else { ROUNDING };
            let allowed = far + rounding * (1.0 + w.abs());
            let same = *h == w || h.is_nan() && w.is_nan() || w.is_finite() && (h - w).abs() <= allowed;
            if !same {
                let bound = if far > 0.0 { format!("; {} apart is allowed", show::number(far)) } else { String::new() };
                let (h, w) = (show::number(*h), show::number(w));
                return Some((format!("yields {h} as element {i}, {on} {w}{bound}"), false));
            }
        }
    }
    dtype.map(|claim| (claim, true))
}

/// Formats the metadata of an operand that are numbers: ` with factor = 2`.
fn metadata(world: &World, operand: &Operand) -> String {
    let opts = world.classes[operand.made.class].sig.opts.iter().zip(&operand.made.meta);
    let number = |(opt, value): (&Opt, &Value<Tensor>)| match value {
        Value::Num(x) => Some(format!("{} = {x}", opt.name.name)),
        _ => None,
    };
    let numbers: Vec<String> = opts.filter_map(number).collect();
    if numbers.is_empty() { String::new() } else { format!(" with {}", numbers.join(", ")) }
}
