//! The tensor language over small arrays of which some are of a class: what the rules of classes make of an operator.

use std::sync::Arc;

use fulgurite_core::eval::tensor::{self, Machine};
use fulgurite_core::facts;
use fulgurite_core::lang::ast::{Arg, Block, Expr};
use fulgurite_core::lower::Rows;
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::signature::{self, ArgTy, OutTy, Refusal, Solved};
use fulgurite_core::subclass::{self, Class, Concrete, Rule};
use fulgurite_core::{Name, TensorTy, Value};
use rustc_hash::FxHashMap;

use crate::check::call_cache::Resolved;
use crate::check::gradients::arrays::dense::{self, Call, Dense, Library, Stop, V};

/// Rules within rules, at most this deep.
const DEEPEST: usize = 24;

/// Of what refuses since fields of a class do not go together: whoever made it of them is wrong.
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
    /// Its class, by its place in the world.
    pub class: usize,
    /// One value per field.
    pub fields: Vec<Value<Tensor>>,
    /// One value per piece of metadata.
    pub meta: Vec<Value<Tensor>>,
    /// What programs see.
    pub ty: TensorTy,
    /// What its signature made of its parts.
    solved: Solved,
}

impl Tensor {
    /// Its type as signatures see it.
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

/// The classes and rows that there are.
pub struct World<'a> {
    /// Rows.
    pub library: &'a Library<'a>,
    /// Classes, those of this database first.
    pub classes: Vec<Class>,
    /// The rows that make tensors of them of fields and metadata, in the same order.
    pub wholes: Vec<Arc<Row>>,
    /// Rows that make tensors of classes.
    pub makers: FxHashMap<Name, Arc<Row>>,
    /// What rows say that they are on a class.
    pub own: FxHashMap<(Name, Name), Rule>,
}

type Values = Vec<Value<Tensor>>;

/// Values by name.
pub type Known = [(Name, Value<Tensor>)];

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

    /// What a row is on these arguments: results, lists as lists.
    ///
    /// # Errors
    /// What refuses, or data that do not fit.
    pub fn run(&self, row: &Row, solved: &Solved, args: &[Value<Tensor>]) -> Result<Values, Stop> {
        Run { world: self, depth: 0 }.row(row, solved, args, None)
    }

    /// A tensor of a class of its parts: fields, then metadata.
    ///
    /// # Errors
    /// What its signature refuses.
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

    /// What an expression of fields and metadata is for a tensor.
    ///
    /// # Errors
    /// What its calls refuse.
    pub fn of(&self, made: &Made, block: &Block) -> Result<Value<Tensor>, Stop> {
        self.of_with(made, block, &[])
    }

    /// The same where it reads other values too.
    ///
    /// # Errors
    /// What its calls refuse.
    pub fn of_with(&self, made: &Made, block: &Block, extra: &Known) -> Result<Value<Tensor>, Stop> {
        Run { world: self, depth: 0 }.of(made, block, extra)
    }

    /// What a text makes of a call of `row` that meets a class, where it reads other values too.
    ///
    /// # Errors
    /// What its calls refuse.
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

    /// The same world, in which class `at` says nothing of its errors.
    pub fn without_error(&self, at: usize) -> World<'_> {
        let mut classes = self.classes.clone();
        classes[at].error = subclass::Bound::default();
        let (wholes, makers, own) = (self.wholes.clone(), self.makers.clone(), self.own.clone());
        World { library: self.library, classes, wholes, makers, own }
    }

    /// The plain tensor that a tensor stands for.
    ///
    /// # Errors
    /// What the class's text refuses.
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

/// A run, so deep in rules.
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
        if self.depth > DEEPEST {
            return Err(Refusal::new("E010", format!("`{}` is called too deep", row.op)).into());
        }
        self.depth += 1;
        let done = match self.class_of(row, args)? {
            Some(class) => self.dispatch(row, solved, args, class),
            None => match &row.meaning {
                Meaning::Decomp(body) if self.world.makers.contains_key(&row.op) => {
                    tensor::run(self, row, body, solved, args, &[])
                }
                _ => self.dense(row, solved, args, of),
            },
        };
        self.depth -= 1;
        done
    }

    /// On plain tensors.
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
        // each field of each operand is a value of its own
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
            // what runs on pieces is proved to mean the same where it is bound
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

    /// Tensors like one, a tensor for each result that the parts have.
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
    values.iter().flat_map(|v| if let Value::List(items) = v { items.as_slice() } else { std::slice::from_ref(v) })
}

/// What rules may read besides arguments: parts of those of the class, items of lists.
fn names(class: &Class, row: &Row, args: &[Value<Tensor>], of: &[(Name, Tensor)]) -> Vec<(Name, Value<Tensor>)> {
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

    fn call(&mut self, op: Name, positional: Values, named: Vec<(Name, Value<Tensor>)>) -> Result<Values, Stop> {
        // asked at every call, and few are of a class
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
                Call { of: Arc::new(Resolved::new(row.clone(), solved)), args }
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
