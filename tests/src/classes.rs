//! P18: the laws of every tensor subclass, of databases and of structs with `#[derive(TensorSubclass)]`.
//!
//! - *round trip*: a tensor that is taken apart and put together keeps its fields, metadata and type;
//! - *made*: the result of a row of the class is as near to its argument as the class's `error` says;
//! - *operators*: for every row that the class has a rule for (by name, by kind, by default, by a function, by the
//!   row's own key `subclass`), and for those that reach it by decomposition: `plain` of the result equals the operator
//!   on `plain` of the arguments, and on the tensors that they were made from, within the errors of the arguments
//!   propagated through the operator;
//! - *hidden*: elements of fields that `plain` does not show have no influence;
//! - *gradients*: the law of operators for cotangents.
//!
//! A crate with classes of its own tests them by one call, with this crate as a dev-dependency:
//! `fulgurite_tests::classes::hold("Pair")`.

mod derivative;
mod draw;
mod hidden;

use crate::bound::{self, Bounded};
use crate::bridge;
use crate::calls::{self, Call, Slot, Values, Wish};
use crate::draws::{self, Counts, Property, Verdict};
use crate::oracle::{self, Operand};
use crate::rng::Rng;
use crate::rows::{TestRow, rows};
use draw::{Made, Plan};
use fulgurite::subclass::{Subclassed, parts};
use fulgurite::symbol::{self, SubclassRef, SymbolRef};
use fulgurite::{Error, Tensor, api};
use fulgurite_core::eval::loop_nest::{Array, Data};
use fulgurite_core::lang::ast::Access;
use fulgurite_core::loc::Loc;
use fulgurite_core::subclass::{Rule, Target};
use fulgurite_core::{DType, Name, Value};
use std::cell::RefCell;
use std::fmt;

/// Calls that are drawn for an operator that the class names, and for others.
const CASES: usize = 10;
const FEW: usize = 2;

/// Attempts to draw a call that the rule accepts.
const TRIES: usize = 16;

/// A property of a class, or of a row on it.
pub struct Law {
    /// `MaskedTensor.sum::p18_operators`
    pub name: String,
    class: SubclassRef,
    what: What,
    /// The share of the class's bound that is allowed.
    part: f64,
    /// The arguments of `cargo test` that select its test program.
    test: &'static str,
}

#[derive(Clone, Copy)]
enum What {
    Trip,
    Made,
    /// The row, and whether the class must accept some call of it.
    Row(SymbolRef, bool),
    Gradient(SymbolRef),
}

/// Every law of the classes, of linked databases or of structs, that `wanted` selects.
pub fn laws(wanted: &dyn Fn(&str) -> bool) -> Vec<Law> {
    let mut laws = Vec::new();
    for class in symbol::classes().into_iter().filter(|c| wanted(c.text.class)) {
        let name = class.name();
        laws.push(Law { name: format!("{name}::p18_round_trip"), class, what: What::Trip, part: 1.0, test: "" });
        if !draw::makers(class).is_empty() {
            laws.push(Law { name: format!("{name}::p18_made"), class, what: What::Made, part: 1.0, test: "" });
        }
        for symbol in symbol::all() {
            let Some(must) = meets(class, symbol) else { continue };
            let op = symbol.name();
            laws.push(Law {
                name: format!("{name}.{op}::p18_operators"),
                class,
                what: What::Row(symbol, must),
                part: 1.0,
                test: "",
            });
            if derivative::applies(symbol) {
                laws.push(Law {
                    name: format!("{name}.{op}::p18_gradients"),
                    class,
                    what: What::Gradient(symbol),
                    part: 1.0,
                    test: "",
                });
            }
        }
    }
    laws
}

/// Checks all laws of a class.
///
/// # Panics
/// If a law does not hold, with the smallest failing call of each.
pub fn hold(class: &str) {
    let laws = laws(&|name| name == class);
    assert!(!laws.is_empty(), "no linked database has a class `{class}`");
    let faults: Vec<String> =
        laws.iter().filter_map(|law| Some(format!("{}: {}", law.name, law.check().err()?))).collect();
    assert!(faults.is_empty(), "{} of {} laws do not hold:\n{}", faults.len(), laws.len(), faults.join("\n\n"));
}

/// Whether a row is tested on the class; and whether some call of it must be accepted.
fn meets(class: SubclassRef, symbol: SymbolRef) -> Option<bool> {
    let name = symbol.name();
    let derived = fulgurite::core::foreign::is_alias(name)
        || name.contains(".vjp.")
        || name.contains(".jvp.")
        || name.ends_with(".d");
    let row = symbol.row();
    // Rows that write are functionalised before a class meets them.
    let writes = row.sig.params.iter().any(|p| p.access == Access::Mut);
    if derived || writes || symbol.port().is_some() || row.sig.params.is_empty() {
        return None;
    }
    let rules = class.rules();
    let own = symbol.class_rule(class.name());
    match own.or_else(|| rules.rule_for(row, symbol.is_view())) {
        Some(Rule::Error) => None,
        // The rule may not apply to an overload whose arguments have other names.
        Some(_) => Some(own.is_some() || rules.rules.iter().any(|(t, _)| *t == Target::Op(row.op))),
        None if class.native().is_some() || row.is_composite() => Some(false),
        None => (rules.default != Rule::Error).then_some(false),
    }
}

impl Law {
    /// The law with a share of the bound that the class states. A bound is too loose if the law holds with a tenth of
    /// it.
    pub fn within(self, part: f64) -> Law {
        Law { part, ..self }
    }

    /// The law in the test program that `cargo test` runs with these arguments.
    pub fn of(self, test: &'static str) -> Law {
        Law { test, ..self }
    }

    /// The property of `cases` cases, for proptest.
    fn property(&self, cases: usize) -> Property<'_> {
        Property { name: &self.name, test: self.test, cases, shrinks: self.part == 1.0 }
    }

    /// Checks the law.
    ///
    /// # Errors
    /// The smallest call that breaks it, with the class, the operator and the place of the class.
    pub fn check(&self) -> Result<(), String> {
        let class = self.class;
        let done = match self.what {
            What::Trip => round_trip(self),
            What::Made => made(self),
            What::Row(symbol, must) => operators(self, symbol, must),
            What::Gradient(symbol) => derivative::check(self, symbol),
        };
        done.map_err(|fault| {
            let ruled = match self.what {
                What::Row(symbol, _) | What::Gradient(symbol) => {
                    format!("; `{}` at {}:{}", symbol.name(), symbol.text.file, symbol.text.line)
                }
                _ => String::new(),
            };
            format!("{fault}\n  `{}` at {}{ruled}", class.name(), class.place())
        })
    }
}

/// The dtypes in which calls are drawn.
const DTYPES: [DType; 6] = [DType::F32, DType::F64, DType::F32, DType::BF16, DType::F32, DType::F16];

/// A row with its hints, if the project's database has it.
fn hinted(symbol: SymbolRef) -> TestRow {
    let mut row = TestRow::of(symbol.row());
    // The file is read only if the row belongs to it.
    if symbol.krate == "fulgurite"
        && let Some(known) = rows().get(symbol.name())
    {
        row.domain.clone_from(&known.domain);
    }
    row
}

/// A tensor of a class, with the array that it was made from, or that has its type.
struct Like {
    made: Made,
    like: Array<f64>,
}

impl fmt::Display for Like {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a tensor of {}", Operand::Tensor(self.like.clone()))
    }
}

/// Checks `ask` on tensors of a class, of several shapes and dtypes.
fn some(law: &Law, ask: impl Fn(&Like) -> Result<(), String>) -> Result<(), String> {
    let shapes: [&[usize]; 6] = [&[2, 4], &[6], &[3, 8], &[2, 3, 4], &[], &[1, 32]];
    let drawn = |case: usize, rng: &mut Rng| {
        let ty = fulgurite_core::TensorTy::new(DTYPES[case % DTYPES.len()], shapes[case / 4 % shapes.len()]);
        let like = calls::values::array(&ty, (-3.0, 3.0), Values::Tame, rng);
        Some(Like { made: draw::tensor(law.class, &like, true, rng)?, like })
    };
    let held = draws::hold(&law.property(shapes.len() * 4), drawn, |like, _| ask(like).map(|()| Verdict::Held))?;
    match held {
        Some(Counts { asked: 0, .. }) => Err("no tensor of the class was drawn: give it a row under `from`".into()),
        _ => Ok(()),
    }
}

fn round_trip(law: &Law) -> Result<(), String> {
    some(law, |Like { made, .. }| {
        let x = &made.tensor;
        let again = fulgurite::jit(|x: Tensor| x).call(x.clone()).map_err(|e| e.to_string())?;
        let put = draw::together(x).map_err(|e| e.to_string())?;
        for (how, y) in [("a program", &again), ("its parts", &put)] {
            if x.ty() != y.ty() {
                return Err(format!("through {how} it became {:?}, it was {:?}", y.ty(), x.ty()));
            }
            let (x, y) = (draw::fields(x).map_err(|e| e.to_string())?, draw::fields(y).map_err(|e| e.to_string())?);
            if let Some(((name, _), _)) = x.iter().zip(&y).find(|(a, b)| !same_bits(&a.1, &b.1)) {
                return Err(format!("through {how} its field `{name}` has other elements"));
            }
        }
        Ok(())
    })
}

fn same_bits(a: &Array<f64>, b: &Array<f64>) -> bool {
    let bits = |a: &Array<f64>| match &a.data {
        Data::Float(x) => x.iter().map(|x| x.to_bits() as i64).collect(),
        Data::Int(x) => x.clone(),
    };
    a.dtype == b.dtype && a.shape == b.shape && bits(a) == bits(b)
}

fn made(law: &Law) -> Result<(), String> {
    some(law, |Like { made, like }| {
        // `plain` of the program equals the text of the class.
        let shown = bridge::arrays(&[made.tensor.plain()]).map_err(|e| e.to_string())?;
        bound::compare(&shown[0], &made.plain).map_err(|e| format!("`plain`: {e}"))?;
        let far: Vec<f64> = made.far.iter().map(|far| far * law.part).collect();
        let of = draw::with_error(like, &far);
        if made.of.is_some() {
            bound::compare(&shown[0], &of).map_err(|e| format!("`{}`: {e}", made.of.unwrap_or_default()))?;
        }
        Ok(())
    })
}

/// A call in which some arguments belong to a class.
struct Drawn {
    call: Call,
    /// For each tensor in order, the tensor of the class in its place, if any.
    made: Vec<Option<Made>>,
}

impl Drawn {
    /// The arguments for the runtime, with `replace` applied to tensors of the class.
    fn args(&self, replace: &mut dyn FnMut(usize, &Made) -> Tensor) -> Vec<Value<Tensor>> {
        let mut at = 0;
        let one = &mut |o: &Operand<f64>| {
            at += 1;
            match &self.made[at - 1] {
                Some(made) => replace(at - 1, made),
                None => bridge::tensor(o),
            }
        };
        self.call.args.iter().map(|a| a.map(one)).collect()
    }

    /// The arguments for the oracle: plain tensors, or those that they were made from, with their errors.
    fn bounded(&self, originals: bool) -> Vec<Value<Operand<Bounded>>> {
        let mut at = 0;
        let one = &mut |o: &Operand<f64>| {
            at += 1;
            match (&self.made[at - 1], o) {
                (Some(made), Operand::Tensor(a)) if originals && made.of.is_some() => {
                    Operand::Tensor(draw::with_error(a, &made.far))
                }
                (Some(made), _) => Operand::Tensor(draw::widened(&made.plain, &made.far)),
                (None, other) => other.convert(),
            }
        };
        bound::exact(&[]);
        self.call.args.iter().map(|a| a.map(one)).collect()
    }

    /// Whether the operator moves by more than `want` allows when arguments move by less than their errors. It then
    /// jumps there (an order, an index), and the errors of arguments do not bound those of results.
    fn jumps(&self, row: &fulgurite_core::row::Row, want: &[Array<Bounded>]) -> bool {
        let moves: [fn(f64, f64, usize) -> f64; 3] = [
            |x, far, _| (x / far).round() * far,
            |x, far, i| if i % 2 == 0 { x + 0.9 * far } else { x - 0.9 * far },
            |x, far, i| if i % 3 == 0 { x - 0.9 * far } else { x + 0.9 * far },
        ];
        moves.into_iter().any(|step| {
            let mut at = 0;
            let one = &mut |o: &Operand<f64>| {
                at += 1;
                let (Some(made), Operand::Tensor(a)) = (&self.made[at - 1], o) else { return o.clone() };
                let mut a = a.clone();
                if let Data::Float(x) = &mut a.data {
                    let moved = x.iter().zip(&made.far).enumerate();
                    *x = moved.map(|(i, (x, far))| if *far > 0.0 { step(*x, *far, i) } else { *x }).collect();
                }
                Operand::Tensor(a)
            };
            let args: Vec<Value<Operand<f64>>> = self.call.args.iter().map(|a| a.map(one)).collect();
            let Ok(outs) = oracle::run(row, &args) else { return true };
            outs.iter().zip(want).any(|(out, want)| bound::compare(out, want).is_err())
        })
    }
}

impl fmt::Display for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = self.made.iter().map(|made| match made {
            Some(made) => made.of.map_or_else(|| "of the class".to_owned(), |row| format!("of the class, by `{row}`")),
            None => "plain".to_owned(),
        });
        write!(f, "{}\n  which are {}", self.call, told.collect::<Vec<_>>().join(", "))
    }
}

/// Choices of the tensors of a call that belong to the class: all, one, all but one.
fn choices(count: usize) -> Vec<Vec<bool>> {
    let only = |one: usize, of: bool| (0..count).map(|i| (i == one) == of).collect();
    let mut all = vec![vec![true; count]];
    if count > 1 {
        all.extend((0..count).map(|one| only(one, true)));
    }
    if count > 2 {
        all.extend((0..count).map(|one| only(one, false)));
    }
    all
}

/// The plans by which the arguments of a choice are made.
fn plans(class: SubclassRef, slots: &[Slot], choice: &[bool], rng: &mut Rng) -> Vec<Option<Plan>> {
    let mut chosen = choice.iter();
    let plan = |slot: &Slot| match slot {
        Slot::Tensor(ty) if chosen.next() == Some(&true) => draw::plan(class, ty, rng),
        _ => None,
    };
    slots.iter().map(plan).collect()
}

/// Whether the class accepts a call of these types, before any argument has elements.
fn accepted(
    class: SubclassRef,
    symbol: SymbolRef,
    sketch: &[Value<Slot>],
    plans: &[Option<Plan>],
) -> Result<(), Error> {
    let mut b = fulgurite::Builder::new("p18");
    let (mut at, mut fault) = (0, None);
    let mut one = |slot: &Slot| {
        at += 1;
        match plans[at - 1].as_ref().map(|plan| plan.bind(class, &mut b)) {
            Some(Ok(made)) => made,
            Some(Err(e)) => {
                fault = Some(e);
                draw::input(&mut b, slot)
            }
            None => draw::input(&mut b, slot),
        }
    };
    let args = sketch.iter().map(|a| a.map(&mut one)).collect();
    match fault {
        Some(e) => Err(e),
        None => b.bind(symbol, args, Loc::NOWHERE).map(drop),
    }
}

/// Draws a call with arguments of the class that the class accepts; else returns the last refusal.
fn draw_call(
    class: SubclassRef,
    row: &TestRow,
    symbol: SymbolRef,
    wish: &Wish,
    tries: usize,
    rng: &mut Rng,
) -> Result<Drawn, Option<Error>> {
    let mut refused = None;
    for _ in 0..tries {
        let Some(sketch) = calls::sketch(row, wish, rng) else { return Err(refused) };
        let mut slots: Vec<Slot> = Vec::new();
        sketch.args.iter().for_each(|a| a.for_each(&mut |slot| slots.push(slot.clone())));
        let mut choices = choices(slots.iter().filter(|s| matches!(s, Slot::Tensor(_))).count());
        let first = wish.case % choices.len();
        choices.rotate_left(first);
        let plans = choices.iter().find_map(|choice| {
            let plans = plans(class, &slots, choice, rng);
            if plans.iter().all(Option::is_none) {
                return None;
            }
            match accepted(class, symbol, &sketch.args, &plans) {
                Ok(()) => Some(plans),
                Err(e) => {
                    refused = Some(e);
                    None
                }
            }
        });
        let Some(plans) = plans else { continue };
        let Some(call) = calls::values::fill(row, &sketch, wish, rng) else { continue };
        let mut arrays: Vec<Option<Array<f64>>> = Vec::new();
        call.args.iter().for_each(|a| a.for_each(&mut |o| arrays.push(o.array().cloned())));
        let pairs = plans.iter().zip(&arrays);
        let made: Vec<Option<Made>> =
            pairs.map(|(plan, array)| plan.as_ref()?.make(class, array.as_ref()?, true, rng)).collect();
        if made.iter().zip(&plans).all(|(made, plan)| made.is_some() == plan.is_some()) {
            return Ok(Drawn { call, made });
        }
    }
    Err(refused)
}

fn operators(law: &Law, symbol: SymbolRef, must: bool) -> Result<(), String> {
    let (class, row) = (law.class, hinted(symbol));
    let refused = RefCell::new(None);
    // A bound that is too small shows only in some calls.
    let cases = if law.part < 1.0 {
        12 * CASES
    } else if must {
        CASES
    } else {
        FEW
    };
    let drawn = |case: usize, rng: &mut Rng| {
        // Every fifth call has numbers and integers among its arguments.
        let mixed = case % 5 == 4 || !must && case % 2 == 1;
        let dtype = row.preferred(DTYPES[case % DTYPES.len()]).filter(|_| !mixed);
        let values = if case % 4 == 3 { Values::Small } else { Values::Tame };
        let wish = Wish { dtype, values, numbers: mixed, empty: case % 6 == 5, case };
        let drawn = draw_call(class, &row, symbol, &wish, if must { TRIES } else { FEW }, rng);
        let mut drawn = drawn.map_err(|e| note(&refused, e)).ok()?;
        drawn.made.iter_mut().flatten().for_each(|made| made.far.iter_mut().for_each(|far| *far *= law.part));
        Some(drawn)
    };
    let held = draws::hold(&law.property(cases), drawn, |drawn, rng| {
        let outs = match api::call(symbol, drawn.args(&mut |_, made| made.tensor.clone()), Loc::NOWHERE) {
            Ok(outs) => outs,
            // The elements differ in a field that must agree.
            Err(e) => {
                note(&refused, Some(e));
                return Ok(Verdict::Discarded);
            }
        };
        holds(drawn, symbol, &outs)?;
        hidden::influence(class, symbol, drawn, rng).map_or(Ok(Verdict::Held), Err)
    })?;
    match (is_asked(held), refused.into_inner()) {
        (false, None) if must => Err("no call was drawn".into()),
        (false, Some(e)) if must => Err(format!("the rule accepts no call: {e}")),
        _ => Ok(()),
    }
}

/// Records the last refusal.
fn note(refused: &RefCell<Option<Error>>, e: Option<Error>) {
    if e.is_some() {
        refused.replace(e);
    }
}

/// Whether some case was checked and not discarded, or one was selected by its words.
fn is_asked(held: Option<Counts>) -> bool {
    held.is_none_or(|counts| counts.asked > counts.discarded)
}

/// Whether the results equal those of the operator on plain tensors, and on the tensors that the arguments were made
/// from.
fn holds(drawn: &Drawn, symbol: SymbolRef, outs: &[Tensor]) -> Result<(), String> {
    let plain: Vec<Tensor> = outs.iter().map(Subclassed::plain).collect();
    let got = bridge::arrays(&plain).map_err(|e| e.to_string())?;
    let row = symbol.row();
    for originals in [false, true] {
        if originals && drawn.made.iter().flatten().all(|m| m.of.is_none()) {
            continue;
        }
        let want = match oracle::run(row, &drawn.bounded(originals)) {
            Ok(want) => want,
            // The row refuses the elements, but the class ran, so it refuses too little.
            Err(e) => return Err(format!("the plain operator refuses: {e}")),
        };
        if originals && drawn.jumps(row, &want) {
            continue;
        }
        let on = if originals { "what they were made of" } else { "the plain tensors" };
        for (i, (got, want)) in got.iter().zip(&want).enumerate() {
            let (types, ints) = (row.takes_key(), matches!(want.data, Data::Int(_)));
            if types && (got.dtype != want.dtype || got.shape != want.shape) {
                return Err(format!(
                    "result {i} is {}{:?}, should be {}{:?}",
                    got.dtype, got.shape, want.dtype, want.shape
                ));
            }
            // Random numbers are drawn at another place of the program; integers jump when an argument is moved.
            if types || originals && ints {
                continue;
            }
            bound::compare(got, want).map_err(|e| format!("result {i}, on {on}: {e}"))?;
        }
    }
    Ok(())
}

/// The text of an error.
fn told(e: Error) -> String {
    e.to_string()
}

/// The fields of a class by name, with their elements.
type Fields = Vec<(Name, Array<f64>)>;
