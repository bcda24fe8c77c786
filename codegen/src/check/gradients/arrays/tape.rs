//! The gradient of a program as the runtime takes it: reverse mode over its calls, each by the rule of its row. This
//! way the conventions at ties and kinks are those of the rows that are called.

use fulgurite_core::derive::Derived;
use fulgurite_core::eval::frame;
use fulgurite_core::eval::loop_nest::{Array, Field};
use fulgurite_core::eval::tensor::{self, Called, Machine};
use fulgurite_core::lang::Block;
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::signature::{ArgTy, Refusal, Solved};
use fulgurite_core::{Name, Named, Value};
use std::collections::HashMap;
use std::sync::Arc;

use crate::check::cases::Case;
use crate::check::gradient_rules;
use crate::check::gradients::arrays::dense::{Dense, Library, Stop, V, ty, types};
use crate::check::gradients::arrays::instance::{Instance, elements, lifted};
use crate::check::gradients::arrays::numbers::Numbers;

/// Programs nest at most this deep, because deeper calls are refused as a circle (E010).
const DEEPEST: usize = 40;

/// A value, with its number among the program's values.
#[derive(Clone)]
struct Taped(V<f64>, usize);

/// A call on the tape, of a row that is not differentiated through its body.
struct Line {
    row: Arc<Row>,
    case: Case,
    args: Vec<Value<Taped>>,
    results: Vec<Value<V<f64>>>,
    /// The results, each with its number.
    outs: Vec<Value<Taped>>,
}

/// The machine that records a program's calls in order.
struct Tape<'m, 'a> {
    library: &'a Library<'a>,
    dense: &'m mut Dense<'a>,
    lines: Vec<Line>,
    values: usize,
    depth: usize,
}

/// Returns the gradients of the weighted sum of a program's results: one number per float element of each argument.
/// `None` means that the tape does not apply: the row is no program, or a program has rules for some arguments only, or
/// it writes.
///
/// # Errors
/// A [`Stop`] if a call fails.
pub fn gradients(
    instance: &Instance,
    rules: &mut Rules<'_>,
    weights: &[Value<V<f64>>],
) -> Result<Option<Vec<Vec<f64>>>, Stop> {
    let row = instance.row;
    let Meaning::Decomp(body) = &row.meaning else { return Ok(None) };
    let run = |tape: &mut Tape, args: &[Value<Taped>]| tensor::run(tape, row, body, &instance.case.solved, args, &[]);
    recorded(instance, rules, run, |results, sums| {
        for (result, weight) in results.iter().zip(weights) {
            sums.add(result, elements(weight).concat());
        }
    })
}

/// Returns the gradients of a weighted sum of the value of `rule`, a rule of the row whose cotangents or tangents are
/// `names`. The results that the rule reads depend on the arguments through the rules of the row.
///
/// # Errors
/// A [`Stop`] if a call fails.
pub fn again(
    instance: &Instance,
    rule: &Block,
    names: &[Named<V<f64>>],
    rules: &mut Rules<'_>,
) -> Result<Option<Vec<Vec<f64>>>, Stop> {
    let run = |tape: &mut Tape, args: &[Value<Taped>]| tape.again(instance, rule, names, args);
    recorded(instance, rules, run, |values, sums| {
        let mut numbers = Numbers::new(12_000);
        for value in values {
            let mut weights = Vec::new();
            value.for_each(&mut |Taped(v, _)| {
                if let V::Array(a) = v {
                    weights.extend((0..a.len()).map(|_| numbers.weight()));
                }
            });
            sums.add(value, weights);
        }
    })
}

/// Records what `run` calls, and returns the gradients of the results for the cotangents that `weigh` gives them.
fn recorded(
    instance: &Instance,
    rules: &mut Rules<'_>,
    run: impl FnOnce(&mut Tape, &[Value<Taped>]) -> Result<Vec<Value<Taped>>, Halt>,
    weigh: impl FnOnce(&[Value<Taped>], &mut Sums),
) -> Result<Option<Vec<Vec<f64>>>, Stop> {
    let library = &rules.library;
    let mut dense = Dense::new(library);
    let mut tape = Tape { library, dense: &mut dense, lines: Vec::new(), values: 0, depth: 0 };
    let args: Vec<Value<Taped>> = instance.args.iter().map(|arg| tape.numbered(arg)).collect();
    let results = match run(&mut tape, &args) {
        Ok(results) => results,
        Err(Halt::Stop(stop)) => return Err(stop),
        Err(Halt::OtherWay) => return Ok(None),
    };
    let lines = tape.lines;
    let mut sums = Sums { of: HashMap::new(), exact: library.has_all_digits() };
    weigh(&results, &mut sums);
    rules.back(&lines, sums, &args).map(Some)
}

/// The cotangents so far, by the number of their value.
struct Sums {
    of: HashMap<usize, Vec<f64>>,
    /// Whether cotangents of narrow dtypes keep all digits of f64.
    exact: bool,
}

/// Calls `f` on every tensor of floats, and its number.
fn each_float(value: &Value<Taped>, mut f: impl FnMut(&Array<f64>, usize)) {
    value.for_each(&mut |Taped(v, id)| match v {
        V::Array(a) if a.dtype.is_float() => f(a, *id),
        _ => {}
    });
}

impl Sums {
    /// Adds one number per float element of `value`.
    fn add(&mut self, value: &Value<Taped>, numbers: Vec<f64>) {
        let mut numbers = numbers.into_iter();
        each_float(value, |a, id| {
            let kept = |x: f64| if self.exact { x } else { x.kept_as(a.dtype) };
            let own: Vec<f64> = numbers.by_ref().take(a.len()).map(kept).collect();
            match self.of.get_mut(&id) {
                Some(sum) => sum.iter_mut().zip(own).for_each(|(sum, x)| *sum += x),
                None => _ = self.of.insert(id, own),
            }
        });
    }

    /// One number per float element of `value`; `None` if no cotangent has reached it.
    fn of(&self, value: &Value<Taped>) -> Option<Vec<f64>> {
        let (mut all, mut any) = (Vec::new(), false);
        each_float(value, |a, id| match self.of.get(&id) {
            Some(sum) => {
                any = true;
                all.extend(sum);
            }
            None => all.extend(std::iter::repeat_n(0.0, a.len())),
        });
        any.then_some(all)
    }
}

/// The rules of the rows on tapes, kept because many calls need the same ones.
pub struct Rules<'a> {
    library: Library<'a>,
    derived: HashMap<Name, Arc<Derived>>,
}

impl<'a> Rules<'a> {
    /// Starts without rules, over the rows of `library`.
    pub fn new(library: &Library<'a>) -> Rules<'a> {
        Rules { library: library.again(), derived: HashMap::new() }
    }

    fn learn(&mut self, lines: &[Line]) {
        for line in lines {
            self.derived.entry(line.row.op).or_insert_with(|| {
                let derived = self.library.set.derived(&line.row);
                self.library.extend(derived.rows.iter().cloned());
                derived
            });
        }
    }

    /// Propagates the cotangents in `sums` back through all calls, and returns those of `args`.
    fn back(&mut self, lines: &[Line], mut sums: Sums, args: &[Value<Taped>]) -> Result<Vec<Vec<f64>>, Stop> {
        self.learn(lines);
        for line in lines.iter().rev() {
            self.pull(line, &mut sums)?;
        }
        Ok(args.iter().map(|arg| sums.of(arg).unwrap_or_default()).collect())
    }

    fn rule<'r>(&'r self, row: &'r Row, arg: Name) -> Option<&'r Block> {
        gradient_rules::holding(row, self.derived.get(&row.op)?, arg)
    }

    /// Pulls the cotangents of a call's results back to its arguments.
    fn pull(&self, line: &Line, sums: &mut Sums) -> Result<(), Stop> {
        let cotangents: Vec<Option<Vec<f64>>> = line.outs.iter().map(|out| sums.of(out)).collect();
        if cotangents.iter().all(Option::is_none) {
            return Ok(());
        }
        let given: Vec<Value<V<f64>>> =
            line.results.iter().zip(&cotangents).map(|(result, g)| shaped(result, g.as_deref())).collect();
        let instance = Instance {
            row: &line.row,
            case: &line.case,
            args: line.args.iter().map(|arg| arg.map(&mut |Taped(v, _)| v.clone())).collect(),
            results: line.results.clone(),
        };
        for (at, param) in line.row.sig.params.iter().enumerate() {
            if let Some(rule) = self.rule(&line.row, param.name.name)
                && instance.numel_of(at) > 0
            {
                let slopes = instance.vjp(&self.library, rule, at, &given)?;
                if slopes.len() != instance.numel_of(at) {
                    let why = format!("a rule of `{}` has another shape than its argument", line.row.op);
                    return Err(Stop::Data(why));
                }
                sums.add(&line.args[at], slopes);
            }
        }
        Ok(())
    }
}

/// Returns `numbers` in the shape of `like`: zeros if there are none, and nothing if no element of `like` is a float.
fn shaped(like: &Value<V<f64>>, numbers: Option<&[f64]>) -> Value<V<f64>> {
    if elements(like).is_empty() {
        return Value::Absent;
    }
    let mut numbers = numbers.unwrap_or_default().iter();
    lifted(like, &mut |_| numbers.next().copied().unwrap_or(0.0))
}

/// Why a program was not recorded to its end.
enum Halt {
    Stop(Stop),
    /// The runtime differentiates the program another way.
    OtherWay,
}

impl From<Refusal> for Halt {
    fn from(refusal: Refusal) -> Halt {
        Halt::Stop(refusal.into())
    }
}

/// Returns the body of a program that is differentiated through it, because no float argument has a rule. `None` means
/// that the row is no program, or has a rule for each. A program with rules for some only halts the tape.
fn by_body<'r>(row: &'r Row, args: &[Value<Taped>]) -> Result<Option<&'r Block>, Halt> {
    let Meaning::Decomp(body) = &row.meaning else { return Ok(None) };
    let floats = |arg: &Value<Taped>| {
        let mut any = false;
        each_float(arg, |_, _| any = true);
        any
    };
    let ruled = |name: Name| row.vjp.iter().any(|(arg, _)| *arg == name);
    let params = row.sig.params.iter().zip(args).filter(|(_, arg)| floats(arg));
    let (with, without): (Vec<_>, Vec<_>) = params.partition(|(param, _)| ruled(param.name.name));
    match (with.is_empty(), without.is_empty()) {
        (true, _) => Ok(Some(body)),
        (false, true) => Ok(None),
        (false, false) => Err(Halt::OtherWay),
    }
}

impl Tape<'_, '_> {
    fn numbered(&mut self, value: &Value<V<f64>>) -> Value<Taped> {
        value.map(&mut |v| {
            self.values += 1;
            Taped(v.clone(), self.values)
        })
    }

    /// Records the row itself, then runs one of its rules on the results.
    fn again(
        &mut self,
        instance: &Instance,
        rule: &Block,
        names: &[Named<V<f64>>],
        args: &[Value<Taped>],
    ) -> Result<Vec<Value<Taped>>, Halt> {
        let (row, solved) = (instance.row, &instance.case.solved);
        let outs = match by_body(row, args)? {
            Some(body) => self.inner(row, body, solved, args)?,
            None => {
                let outs: Vec<Value<Taped>> = instance.results.iter().map(|result| self.numbered(result)).collect();
                let (case, results) = (instance.case.clone(), instance.results.clone());
                let (row, args) = (Arc::new(row.clone()), args.to_vec());
                self.lines.push(Line { row, case, args, results, outs: outs.clone() });
                outs
            }
        };
        let mut known = gradient_rules::results(row, &outs);
        known.extend(names.iter().map(|(name, value)| (*name, self.numbered(value))));
        tensor::run(self, row, rule, solved, args, &known)
    }

    fn inner(
        &mut self,
        row: &Row,
        body: &Block,
        solved: &Solved,
        args: &[Value<Taped>],
    ) -> Result<Vec<Value<Taped>>, Halt> {
        let run = |tape: &mut Self| tensor::run(tape, row, body, solved, args, &[]);
        frame::one_deeper(self, |tape| &mut tape.depth, DEEPEST, row.op, run)
    }
}

impl Machine for Tape<'_, '_> {
    type V = Taped;
    type Error = Halt;

    fn call(&mut self, op: Name, positional: Vec<Value<Self::V>>, named: Vec<Named<Self::V>>) -> Called<Self> {
        let call = self.library.resolve(op, positional, named, &|Taped(v, _)| ty(v))?;
        let row = &call.of.row;
        if let Some(body) = by_body(row, &call.args)? {
            let mut results = self.inner(row, body, &call.of.solved, &call.args)?;
            results.truncate(row.sig.outs.len());
            return Ok(results);
        }
        let plain: Vec<Value<V<f64>>> = call.args.iter().map(|arg| arg.map(&mut |Taped(v, _)| v.clone())).collect();
        let results = self.dense.call(&call.of, &plain).map_err(Halt::Stop)?;
        let outs: Vec<Value<Taped>> =
            results.iter().take(row.sig.outs.len()).map(|result| self.numbered(result)).collect();
        let case = Case { args: types(&plain, &ty), solved: call.of.solved.clone() };
        self.lines.push(Line { row: row.clone(), case, args: call.args, results, outs: outs.clone() });
        Ok(outs)
    }

    fn ty(&self, Taped(v, _): &Taped) -> ArgTy {
        ty(v)
    }

    fn write(&mut self, _: Name, _: Value<Taped>) -> Result<(), Halt> {
        Err(Halt::OtherWay)
    }
}
