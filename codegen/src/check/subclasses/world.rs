//! An interpreter of the tensor language over small arrays, some of which are of a class: operators run by the rules of
//! classes.

use std::sync::Arc;

use fulgurite_core::eval::frame;
use fulgurite_core::eval::tensor::{self, Machine};
use fulgurite_core::facts;
use fulgurite_core::lang::ast::{Arg, Block, Expr};
use fulgurite_core::lower::Rows;
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::signature::{self, ArgTy, OutTy, Refusal, Solved};
use fulgurite_core::subclass::{self, Class, Concrete, Rule};
use fulgurite_core::{Name, Named, TensorTy, Value};
use rustc_hash::FxHashMap;

use crate::check::call_cache::{Accepted, Resolved};
use crate::check::gradients::arrays::dense::{self, Dense, Library, Stop, V};

/// Rules nest at most this deep, because deeper calls are refused as a circle (E010).
const DEEPEST: usize = 24;

/// The code of a refusal of fields that do not fit together. The text that made the tensor from them is wrong.
pub const UNFIT: &str = "E605";

/// A plain tensor, or one of a class.
#[derive(Clone, Debug)]
pub enum Tensor {
    /// Elements, or a key.
    Plain(V<f64>),
    /// Fields and metadata.
    Made(Arc<Made>),
}

/// A tensor of a class.
#[derive(Debug)]
pub struct Made {
    /// The class, by its position in [`World::classes`].
    pub class: usize,
    /// One value per field.
    pub fields: Vec<Value<Tensor>>,
    /// One value per piece of metadata.
    pub meta: Vec<Value<Tensor>>,
    /// The type that programs see.
    pub ty: TensorTy,
    /// The class's signature, solved for the parts.
    solved: Solved,
}

impl Tensor {
    /// The type of the tensor as signatures see it.
    pub fn ty(&self) -> ArgTy {
        match self {
            Tensor::Plain(v) => dense::ty(v),
            Tensor::Made(made) => ArgTy::Tensor(made.ty.clone()),
        }
    }

    fn class(&self) -> Option<usize> {
        if let Tensor::Made(made) = self { Some(made.class) } else { None }
    }
}

/// All classes and rows.
pub struct World<'a> {
    /// The rows of the databases.
    pub library: &'a Library<'a>,
    /// Classes, those of this database first.
    pub classes: Vec<Class>,
    /// For each class, the row that makes a tensor from its fields and metadata.
    pub wholes: Vec<Arc<Row>>,
    /// Rows that make tensors of classes.
    pub makers: FxHashMap<Name, Arc<Row>>,
    /// The rules that rows state for a class, by row and class.
    pub own: FxHashMap<(Name, Name), Rule>,
}

type Values = Vec<Value<Tensor>>;

/// Values by name.
pub type Known = [Named<Tensor>];

impl World<'_> {
    /// The rule for a row on a class; `None` where its decomposition or the class's default decides.
    pub fn rule<'w>(&'w self, row: &Row, class: &'w Class) -> Option<&'w Rule> {
        self.own.get(&(row.op, class.name)).or_else(|| class.rule_for(row, self.is_view(row)))
    }

    /// Whether a row is a view.
    pub fn is_view(&self, row: &Row) -> bool {
        facts::is_view(row, &|op| self.library.row(op).is_some_and(|row| self.is_view(&row)))
    }

    /// The rows that a call of `op` may mean.
    pub fn candidates(&self, op: Name) -> Vec<Arc<Row>> {
        match self.makers.get(&op) {
            Some(row) => vec![row.clone()],
            None => self.library.set.candidates(op),
        }
    }

    /// Runs a row on these arguments. A result that is a list stays one.
    ///
    /// # Errors
    /// A [`Stop`] if a call is refused, its data do not fit, or it takes too long.
    pub fn run(&self, row: &Row, solved: &Solved, args: &[Value<Tensor>]) -> Result<Values, Stop> {
        Run { world: self, depth: 0 }.row(row, solved, args, None)
    }

    /// Makes a tensor of a class from its parts: fields, then metadata.
    ///
    /// # Errors
    /// The refusal of the class's signature.
    pub fn make(&self, class: usize, parts: Values) -> Result<Arc<Made>, Stop> {
        let row = self.wholes[class].clone();
        let fit = |refusal: Refusal| if refusal.code == "E701" { Refusal { code: UNFIT, ..refusal } } else { refusal };
        let solved = signature::solve(&row, &parts, &Tensor::ty).map_err(fit)?;
        let Some(OutTy::Tensor(ty)) = solved.outs.first().cloned() else {
            return Err(Refusal::new("E706", format!("`{}` does not say what programs see", row.op)).into());
        };
        let meta = self.classes[class].meta_of(&solved)?.into_iter().map(|(_, value)| value).collect();
        let fields = parts.into_iter().take(row.sig.params.len()).collect();
        Ok(Arc::new(Made { class, fields, meta, ty, solved }))
    }

    /// The value of an expression of fields and metadata for a tensor.
    ///
    /// # Errors
    /// A [`Stop`] if a call of the text fails.
    pub fn of(&self, made: &Made, block: &Block) -> Result<Value<Tensor>, Stop> {
        self.of_with(made, block, &[])
    }

    /// The value of an expression of fields, metadata and `extra` values for a tensor.
    ///
    /// # Errors
    /// A [`Stop`] if a call of the text fails.
    pub fn of_with(&self, made: &Made, block: &Block, extra: &Known) -> Result<Value<Tensor>, Stop> {
        Run { world: self, depth: 0 }.of(made, block, extra)
    }

    /// The results of a text for a call of `row` that meets a class, where the text reads `extra` values too.
    ///
    /// # Errors
    /// A [`Stop`] if a call of the text fails.
    pub fn told(
        &self,
        (row, solved, args): (&Row, &Solved, &[Value<Tensor>]),
        at: usize,
        text: &Block,
        extra: &Known,
    ) -> Result<Values, Stop> {
        let class = &self.classes[at];
        let of_class = subclass::operands(&row.sig, args, &|t: &Tensor| t.class() == Some(at));
        let operands: Vec<Name> = of_class.iter().map(|(n, _)| *n).collect();
        let identity = |operand: Name, _: Name| operands.iter().position(|o| *o == operand).unwrap_or(0) as u64;
        let call = Concrete { class, row, args, operands: &operands, identity: &identity };
        let names = [names(class, row, args, &of_class), extra.to_vec()].concat();
        tensor::run(&mut Run { world: self, depth: 0 }, row, &call.block(text), solved, args, &names)
    }

    /// A copy of the world in which class `at` states no `error`.
    pub fn without_error(&self, at: usize) -> World<'_> {
        let mut classes = self.classes.clone();
        classes[at].error = subclass::Bound::default();
        let (wholes, makers, own) = (self.wholes.clone(), self.makers.clone(), self.own.clone());
        World { library: self.library, classes, wholes, makers, own }
    }

    /// The plain tensor that a tensor stands for.
    ///
    /// # Errors
    /// A [`Stop`] if the class's text fails.
    pub fn plain(&self, t: &Tensor) -> Result<V<f64>, Stop> {
        match t {
            Tensor::Plain(v) => Ok(v.clone()),
            Tensor::Made(made) => match self.of(made, &self.classes[made.class].plain)? {
                Value::Tensor(inner) => self.plain(&inner),
                _ => Err(Refusal::new("E706", "`plain` yields no tensor").into()),
            },
        }
    }
}

/// A run, with the depth of its nested rules.
struct Run<'w> {
    world: &'w World<'w>,
    depth: usize,
}

impl Run<'_> {
    fn of(&mut self, made: &Made, block: &Block, extra: &Known) -> Result<Value<Tensor>, Stop> {
        let row = self.world.wholes[made.class].clone();
        let args: Values = made.fields.iter().chain(&made.meta).cloned().collect();
        let mut values = tensor::run(self, &row, block, &made.solved, &args, extra)?;
        Ok(if values.is_empty() { Value::Absent } else { values.swap_remove(0) })
    }

    fn row(
        &mut self,
        row: &Row,
        solved: &Solved,
        args: &[Value<Tensor>],
        of: Option<&Resolved>,
    ) -> Result<Values, Stop> {
        let run = |run: &mut Self| match (run.class_of(row, args)?, &row.meaning) {
            (Some(class), _) => run.dispatch(row, solved, args, class),
            (None, Meaning::Decomp(body)) if run.world.makers.contains_key(&row.op) => {
                tensor::run(run, row, body, solved, args, &[])
            }
            (None, _) => run.dense(row, solved, args, of),
        };
        frame::one_deeper(self, |run| &mut run.depth, DEEPEST, row.op, run)
    }

    /// Runs a row on plain tensors.
    fn dense(&self, row: &Row, solved: &Solved, args: &[Value<Tensor>], of: Option<&Resolved>) -> Result<Values, Stop> {
        let plain = |t: &Tensor| match t {
            Tensor::Plain(v) => v.clone(),
            // no argument is of a class
            Tensor::Made(_) => V::Key([0, 0]),
        };
        let args: Vec<Value<V<f64>>> = args.iter().map(|a| a.map(&mut |t| plain(t))).collect();
        let mut dense = Dense::new(self.world.library);
        let values = match of {
            Some(of) => dense.call(of, &args),
            None => dense.meaning(row, solved, &args),
        }?;
        Ok(values.iter().map(|v| v.map(&mut |v| Tensor::Plain(v.clone()))).collect())
    }

    fn class_of(&self, row: &Row, args: &[Value<Tensor>]) -> Result<Option<usize>, Stop> {
        let mut found: Vec<usize> = Vec::new();
        args.iter().for_each(|a| a.for_each(&mut |t| found.extend(t.class().filter(|c| !found.contains(c)))));
        if found.len() < 2 {
            return Ok(found.pop());
        }
        let order = |c: &usize| self.world.classes[*c].precedence;
        let most = found.iter().filter_map(order).max();
        let mut first = found.iter().filter(|c| most.is_some() && order(c) == most);
        match (first.next(), first.next()) {
            (Some(class), None) => Ok(Some(*class)),
            _ => Err(Refusal::new("E715", format!("`{}` meets several classes, and none comes first", row.op)).into()),
        }
    }

    fn dispatch(&mut self, row: &Row, solved: &Solved, args: &[Value<Tensor>], at: usize) -> Result<Values, Stop> {
        let world = self.world;
        let class = &world.classes[at];
        let is = |t: &Tensor| t.class() == Some(at);
        let of_class = subclass::operands(&row.sig, args, &is);
        let operands: Vec<Name> = of_class.iter().map(|(n, _)| *n).collect();
        let none = || Stop::Refused(Refusal::new("E708", format!("`{}` has no rule for `{}`", row.op, class.name)));
        let rule = match (world.rule(row, class), &row.meaning) {
            (Some(rule), _) => rule,
            (None, Meaning::Decomp(body)) => return tensor::run(self, row, body, solved, args, &[]),
            (None, _) => &class.default,
        };
        // fields of different operands are different values
        let identity = |operand: Name, _: Name| operands.iter().position(|o| *o == operand).unwrap_or(0) as u64;
        let call = Concrete { class, row, args, operands: &operands, identity: &identity };
        let names = names(class, row, args, &of_class);
        let block = |run: &mut Self, block: &Block| tensor::run(run, row, block, solved, args, &names);
        let several = row.sig.outs.len() != 1 || row.sig.outs[0].ty.list.is_some();
        let one = |value: Expr| Block { stmts: Vec::new(), value };
        let like =
            || of_class.iter().find_map(|(_, t)| if let Tensor::Made(made) = t { Some(made.clone()) } else { None });
        match rule {
            Rule::Error => Err(none()),
            // a rule `placed` runs on pieces, and is proved to mean the same where it is bound
            Rule::Plain | Rule::Placed => block(self, &one(call.plain())),
            Rule::Each => {
                let like = like().ok_or_else(none)?;
                let mut parts = Vec::new();
                for field in class.fields() {
                    parts.push((field, block(self, &one(call.each(field)))?));
                }
                self.made(&like, parts)
            }
            Rule::Block(text) => match call.made(&text.value).filter(|_| several) {
                Some(made) => {
                    let like = like().ok_or_else(none)?;
                    let known: Vec<Name> = class.fields().chain(class.meta()).collect();
                    let stmts = call.block(text).stmts;
                    let mut parts = Vec::new();
                    for (i, Arg { name, value }) in made.iter().enumerate() {
                        let part = name.map_or(known[i.min(known.len() - 1)], |n| n.name);
                        let text = Block { stmts: stmts.clone(), value: call.one(value) };
                        parts.push((part, block(self, &text)?));
                    }
                    self.made(&like, parts)
                }
                None => block(self, &call.block(text)),
            },
        }
    }

    /// Makes tensors like `like`, one for each result that the parts have.
    fn made(&self, like: &Made, parts: Vec<(Name, Values)>) -> Result<Values, Stop> {
        let class = &self.world.classes[like.class];
        let longest = parts.iter().map(|(_, of)| of).max_by_key(|of| flat(of).count()).cloned().unwrap_or_default();
        let mut at = 0;
        let mut next = || {
            let given = |name: Name| {
                let (_, of) = parts.iter().find(|(n, _)| *n == name)?;
                flat(of).nth(at).or_else(|| flat(of).next()).cloned()
            };
            let fields = class.fields().map(|f| given(f).unwrap_or(Value::Absent));
            let meta = class.meta().zip(&like.meta).map(|(m, old)| given(m).unwrap_or_else(|| old.clone()));
            let made = self.world.make(like.class, fields.chain(meta).collect());
            at += 1;
            made.map(|made| Value::Tensor(Tensor::Made(made)))
        };
        let mut results = Vec::new();
        for value in &longest {
            results.push(match value {
                Value::List(items) => Value::List(items.iter().map(|_| next()).collect::<Result<_, _>>()?),
                _ => next()?,
            });
        }
        Ok(results)
    }
}

fn flat(values: &[Value<Tensor>]) -> impl Iterator<Item = &Value<Tensor>> {
    values.iter().flat_map(Value::items)
}

/// The values that rules may read besides arguments: parts of arguments that are of the class, and items of lists.
fn names(class: &Class, row: &Row, args: &[Value<Tensor>], of: &[(Name, Tensor)]) -> Vec<Named<Tensor>> {
    let operands: Vec<Name> = of.iter().map(|(name, _)| *name).collect();
    let mut names = subclass::others(class, &row.sig, args, &operands);
    for (name, t) in of {
        let Tensor::Made(made) = t else { continue };
        let parts = class.fields().zip(&made.fields).chain(class.meta().zip(&made.meta));
        names.extend(parts.map(|(part, value)| (subclass::part(*name, part), value.clone())));
    }
    for (param, arg) in row.sig.params.iter().zip(args) {
        if let Value::List(items) = arg {
            let items = items.iter().enumerate();
            names.extend(items.map(|(i, v)| (Name::new(&format!("{}.{i}", param.name.name)), v.clone())));
        }
    }
    names
}

impl Machine for Run<'_> {
    type V = Tensor;
    type Error = Stop;

    fn call(&mut self, op: Name, positional: Values, named: Vec<Named<Tensor>>) -> Result<Values, Stop> {
        // this runs at every call, and few calls name a class
        let named_like = |class: &Class| op.as_str().starts_with(class.name.as_str());
        for (at, class) in self.world.classes.iter().enumerate().filter(|(_, class)| named_like(class)) {
            let [unflatten, flatten, plain] = Class::ports(class.name);
            let whole = || match positional.first() {
                Some(Value::Tensor(t)) => Ok(t.clone()),
                _ => Err(Stop::Refused(Refusal::new("E706", format!("`{op}` needs a tensor")))),
            };
            if op == unflatten || op == class.name {
                let parts = signature::arrange(&self.world.wholes[at], positional, named)?;
                return Ok(vec![Value::Tensor(Tensor::Made(self.world.make(at, parts)?))]);
            } else if op == flatten {
                let Tensor::Made(made) = whole()? else { return Ok(Vec::new()) };
                return Ok(made.fields.iter().filter(|f| !f.is_absent()).cloned().collect());
            } else if op == plain {
                return Ok(vec![Value::Tensor(Tensor::Plain(self.world.plain(&whole()?)?))]);
            }
        }
        let call = match self.world.makers.get(&op) {
            Some(row) => {
                let args = signature::arrange(row, positional, named)?;
                let solved = signature::solve(row, &args, &Tensor::ty)?;
                Accepted { of: Arc::new(Resolved::new(row.clone(), solved)), args }
            }
            None => self.world.library.resolve(op, positional, named, &Tensor::ty)?,
        };
        let mut results = self.row(&call.of.row, &call.of.solved, &call.args, Some(&call.of))?;
        results.truncate(call.of.row.sig.outs.len());
        Ok(results)
    }

    fn ty(&self, v: &Tensor) -> ArgTy {
        v.ty()
    }

    fn write(&mut self, _: Name, _: Value<Tensor>) -> Result<(), Stop> {
        Err(Refusal::new("E708", "tensors of classes are not written to").into())
    }
}
