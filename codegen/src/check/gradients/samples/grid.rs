//! A pointwise row at chosen points, all of which are computed in one call.

use std::sync::Arc;

use fulgurite_core::builtins::{Builtin, eval_f64};
use fulgurite_core::eval::loop_nest::{Array, Data, Field};
use fulgurite_core::lang::{Block, Elem, Expr, Node, OptType};
use fulgurite_core::lower::lower_with;
use fulgurite_core::row::Row;
use fulgurite_core::signature::{self, OutTy};
use fulgurite_core::{DType, Name, Value};
use smallvec::SmallVec;

use crate::check::cases::Case;
use crate::check::gradients::arrays::dense::{Dense, Library, V, ty, types};
use crate::check::gradients::arrays::dual::Dual;
use crate::check::gradients::arrays::instance::Instance;

/// A grid has at most this many arguments, because more would make too many points.
const MOST: usize = 3;

/// A result of a pointwise row, called on vectors with one element for each point.
pub struct Grid<'a> {
    row: &'a Row,
    library: &'a Library<'a>,
    /// The position of the result.
    out: usize,
    case: Case,
    /// One value per argument and option.
    args: Vec<Value<V<f64>>>,
    /// The positions of the arguments that vary.
    pub places: Vec<usize>,
    /// For each point, a number for each argument that varies.
    pub points: Vec<Vec<f64>>,
}

/// A float that is rounded to f32 after every step.
#[derive(Clone, Copy, Debug)]
pub struct Single(pub f64);

impl Field for Single {
    fn constant(x: f64) -> Single {
        Single(f64::from(x as f32))
    }
    fn value(&self) -> f64 {
        self.0
    }
    fn call(builtin: Builtin, args: &[Single]) -> Single {
        let values: SmallVec<[f64; 3]> = args.iter().map(|a| a.0).collect();
        Single::constant(eval_f64(builtin, &values))
    }
    fn detach(self) -> Single {
        self
    }
}

impl<'a> Grid<'a> {
    /// Calls `row` on the points that `points` makes for its number of arguments, rounded to f32. `None` means that the
    /// row has several results, is no formula of few floats, or refuses the call.
    pub fn new(row: &'a Row, library: &'a Library<'a>, points: &dyn Fn(usize) -> Vec<Vec<f64>>) -> Option<Grid<'a>> {
        if row.sig.outs.len() == 1 { Grid::of(row, 0, library, points) } else { None }
    }

    /// Calls `row` as [`Grid::new`] does, for result `out` of possibly several.
    pub fn of(
        row: &'a Row,
        out: usize,
        library: &'a Library<'a>,
        points: &dyn Fn(usize) -> Vec<Vec<f64>>,
    ) -> Option<Grid<'a>> {
        let float = |elem: &Elem| matches!(elem, Elem::Var(name) if *name == "T");
        let plain = row.sig.params.iter().all(|param| param.ty.elem.iter().all(float) && param.ty.list.is_none());
        let required = row
            .sig
            .opts
            .iter()
            .any(|opt| opt.default.is_none() && !opt.optional || matches!(opt.ty, OptType::Dtype(_)));
        if !row.is_pointwise() || !plain || required {
            return None;
        }
        let places: Vec<usize> = (0..row.sig.params.len()).collect();
        if places.is_empty() || places.len() > MOST {
            return None;
        }
        let mut points = points(places.len());
        points.iter_mut().flatten().for_each(|x| *x = f64::from(*x as f32));
        let column = |at: usize| points.iter().map(|point| point[at]).collect::<Vec<f64>>();
        let tensor = |data: Vec<f64>| V::Array(Arc::new(Array::float(DType::F32, &[data.len()], data)));
        let given = places.iter().map(|at| (row.sig.params[*at].name.name, Value::Tensor(tensor(column(*at)))));
        let args = signature::arrange(row, Vec::new(), given.collect()).ok()?;
        let solved = signature::solve(row, &args, &ty).ok()?;
        // a result of fewer bits is rounded on purpose
        if !matches!(solved.outs.get(out), Some(OutTy::Tensor(ty)) if ty.dtype == DType::F32) {
            return None;
        }
        let case = Case { args: types(&args, &ty), solved };
        Some(Grid { row, library, out, case, args, places, points })
    }

    /// The number of operations in the formula; `None` if it cannot be lowered to loops.
    pub fn weight(&self) -> Option<u32> {
        let nest = lower_with(self.row, self.row.index_body()?, &self.case.solved, self.library).ok()?;
        nest.outs.iter().map(|out| out.expr.weight()).max()
    }

    /// The result at every point, over the field into which `f` lifts an argument's number.
    pub fn run<F: Field>(&self, f: &dyn Fn(usize, f64) -> F) -> Option<Vec<F>> {
        self.rule(None, f)
    }

    /// The value at every point of a rule that the row states, where the cotangent or the tangent is 1. Without a rule
    /// it is that of the meaning.
    pub fn rule<F: Field>(&self, rule: Option<&Block>, f: &dyn Fn(usize, f64) -> F) -> Option<Vec<F>> {
        let Grid { row, library, case, .. } = self;
        let instance = Instance { row, case, args: self.args.clone(), results: Vec::new() };
        let lift = |at: usize, _: usize, x: f64| f(at, x);
        let n = self.points.len();
        let ones = || Value::Tensor(V::Array(Arc::new(Array::float(DType::F32, &[n], vec![F::constant(1.0); n]))));
        let seeds = || ["g", "t"].map(|seed| (Name::new(seed), ones())).to_vec();
        let (values, at) = match rule {
            Some(rule) => (instance.rule_in(library, rule, seeds(), &lift), 0),
            None => (instance.results_in(&mut Dense::new(library), &lift), self.out),
        };
        let values = values.ok()?;
        let Some(Value::Tensor(V::Array(out))) = values.get(at) else { return None };
        match &out.data {
            Data::Float(x) => Some(x.clone()),
            Data::Int(_) => None,
        }
    }

    /// The derivative of the meaning or of a rule with respect to argument `at`, at every point.
    pub fn slopes(&self, rule: Option<&Block>, at: usize) -> Option<Vec<f64>> {
        let lifted = self.rule(rule, &|arg, value| Dual { value, slope: f64::from(u8::from(arg == at)) })?;
        Some(lifted.into_iter().map(|x| x.slope).collect())
    }

    /// Formats point `n`: `x = 0, y = 2`.
    pub fn show(&self, n: usize) -> String {
        let names = self.places.iter().map(|at| self.row.sig.params[*at].name.name);
        // all of them are f32 numbers
        let number =
            |x: f32| if x == 0.0 || (1e-6..1e7).contains(&x.abs()) { format!("{x}") } else { format!("{x:e}") };
        let shown = names.zip(&self.points[n]).map(|(name, x)| format!("{name} = {}", number(*x as f32)));
        shown.collect::<Vec<_>>().join(", ")
    }
}

/// Whether the body is a single builtin, which the table of builtins describes completely.
pub fn is_builtin(row: &Row) -> bool {
    let args = |e: &Expr| match &*e.node {
        Node::Call(f, args) => {
            Builtin::from_name(f.name.as_str()).is_some()
                && args.iter().all(|arg| matches!(&*arg.value.node, Node::Name(_)))
        }
        _ => false,
    };
    row.index_body().is_some_and(|body| body.stmts.is_empty() && args(&body.value))
}

/// Every combination of the values of each argument.
pub fn product(values: &[Vec<f64>]) -> Vec<Vec<f64>> {
    values.iter().fold(vec![Vec::new()], |all, own| {
        let with = |point: &Vec<f64>| own.iter().map(|x| [point.as_slice(), &[*x]].concat()).collect::<Vec<_>>();
        all.iter().flat_map(with).collect()
    })
}
