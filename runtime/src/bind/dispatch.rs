//! Dispatch on tensor subclasses: finds the body of an operator on the fields of its arguments while it is bound.
//!
//! A line with an argument of a subclass keeps its operator. The lines that the rule of the class makes of it are its
//! `dispatch` body, and its results have the types that the body yields. So the dtypes and shapes that a program sees
//! are right, and gradients are those of the operator.
//!
//! The rule is the row's rule for the class, or the class's rule for the operator or its kind; otherwise the operator's
//! decomposition, whose calls dispatch again; otherwise the class's default.

use super::{Builder, Context, body, placed};
use crate::error::{Error, ErrorKind};
use crate::symbol::{self, Port, SubclassRef};
use crate::tensor::with_fields;
use crate::trace::*;
use fulgurite_core::derive::walk;
use fulgurite_core::eval::tensor;
use fulgurite_core::lang::ast::{Arg, Block, Expr, Stmt};
use fulgurite_core::loc::Loc;
use fulgurite_core::signature::OutTy;
use fulgurite_core::subclass::{self as class, Concrete, Cotangent, Rule};
use fulgurite_core::{Name, Named, Value};
use std::rc::Rc;
use std::sync::Arc;

/// The names that rules may read besides the arguments of a call.
pub(crate) type Names = Vec<Named<ProxyId>>;

/// One value per result.
pub type Results = Vec<Value<ProxyId>>;

impl Builder {
    /// The body of a line on the fields of its arguments, and the types of its results, if an argument or a result is
    /// of a subclass. The line's solved signature gets the types of the results.
    ///
    /// # Errors
    /// E708 if the class has no rule, E715 for arguments of classes without an order, and errors of calls in the rule.
    pub(super) fn dispatch(&mut self, line: &mut BoundSymbol) -> Result<Option<Vec<ProxyTy>>, Error> {
        let arena = self.arena().clone();
        if let Some((class, port @ (Port::Unflatten | Port::Flatten))) = line.symbol.port() {
            return self.port(line, class, port).map(Some);
        }
        let found = class_of(&arena, line)?;
        let body = match found {
            Some(class) => {
                if let Some(&i) = line.effects.writes.first() {
                    let what = line.symbol.row().sig.params[i].name.name;
                    let claim = format!("`{}` writes `{what}`, and `{}` has fields", line.symbol.name(), class.name());
                    return Err(Error::new("E708", claim).help("write to the fields, or use the form that returns"));
                }
                let decompose = || body::run(&arena, line)?.ok_or_else(|| body::fault(line.symbol, "it has no body"));
                let ran = run(&arena, line, class).and_then(|ran| match ran {
                    Some(ran) => Ok((false, ran)),
                    None => Ok((true, decompose()?)),
                });
                let (decomposed, (mut inner, values)) = ran.map_err(|e| in_rule(e, line, class))?;
                let types = values.iter().map(|v| body::out_ty(&arena, v)).collect::<Option<Vec<_>>>();
                let types = types.ok_or_else(|| body::fault(line.symbol, "its rule yields no tensor"))?;
                let mut solved = (*line.solved).clone();
                (solved.outs, solved.aux) = split(types, line.symbol.row().sig.outs.len());
                line.solved = Arc::new(solved);
                let mut outs = Vec::new();
                values.iter().for_each(|v| v.for_each(&mut |p| outs.push(*p)));
                let lines = inner.take_from(0);
                // the line's own results get the plain names
                for made in lines.iter().flat_map(|l| &l.outs) {
                    let name = arena.name(*made);
                    if name.split('.').next() == Some(line.symbol.name()) {
                        arena.rename(*made, &format!("in.{}", line.symbol.name()));
                    }
                }
                Rc::new(Body { decomposed, lines, outs })
            }
            None => {
                // the row is a composite that makes a tensor of a subclass, which only its body shows
                let Some(Some(body)) = line.body.get() else { return Ok(None) };
                if body.outs.iter().all(|p| arena.ty(*p).subclass().is_none()) {
                    return Ok(None);
                }
                body.clone()
            }
        };
        let types = body.outs.iter().map(|p| arena.ty(*p)).collect();
        line.dispatch = Some(body);
        Ok(Some(types))
    }

    /// The types of the results of a line that makes a tensor of a class, or takes one apart.
    fn port(&self, line: &mut BoundSymbol, class: SubclassRef, port: Port) -> Result<Vec<ProxyTy>, Error> {
        let arena = self.arena();
        if port == Port::Flatten {
            let of = line.args.first().and_then(|a| if let Value::Tensor(p) = a { Some(arena.ty(*p)) } else { None });
            let layout = of.as_ref().and_then(ProxyTy::subclass).filter(|layout| layout.class == class);
            let Some(layout) = layout else {
                let have = of.map_or_else(|| "no tensor".to_owned(), |ty| ty.to_string());
                return Err(Error::new("E706", format!("`{}`: {have} is no {}", line.symbol.name(), class.name())));
            };
            let mut solved = (*line.solved).clone();
            solved.outs = layout.fields.iter().map(|(_, t)| OutTy::Tensor(t.ty.clone())).collect();
            line.solved = Arc::new(solved);
            return Ok(layout.fields.iter().map(|(_, t)| ProxyTy::Tensor(t.clone())).collect());
        }
        let sig = &class.rules().sig;
        let mut fields = Vec::new();
        for (param, arg) in sig.params.iter().zip(&line.args) {
            let name = param.name.name;
            let list = matches!(arg, Value::List(_));
            let items = if let Value::List(items) = arg { items.as_slice() } else { std::slice::from_ref(arg) };
            for (i, item) in items.iter().enumerate() {
                match item {
                    Value::Absent => {}
                    Value::Tensor(p) if let ProxyTy::Tensor(t) = arena.ty(*p) => {
                        fields.push((if list { Name::new(&format!("{name}.{i}")) } else { name }, t));
                    }
                    _ => {
                        let claim = format!("`{}`: the field `{name}` must be a tensor", class.name());
                        return Err(Error::new("E702", claim).at(line.place.loc));
                    }
                }
            }
        }
        let meta = class.rules().meta_of(&line.solved).map_err(|refusal| Error::from(refusal).at(line.place.loc))?;
        let ty = match line.solved.outs.first() {
            Some(OutTy::Tensor(ty)) => ty.clone(),
            _ => return Err(body::fault(line.symbol, "its signature does not say what programs see")),
        };
        let subclass = Some(Arc::new(SubclassLayout { class, fields, meta }));
        Ok(vec![ProxyTy::Tensor(TensorType { ty, device: Device::Cpu, requires_grad: false, subclass })])
    }

    /// The fields of a tensor of a subclass.
    ///
    /// # Errors
    /// E706 if it is plain.
    pub fn flatten(&mut self, p: ProxyId) -> Result<Vec<ProxyId>, Error> {
        let ty = self.arena().ty(p);
        let Some(layout) = ty.subclass() else {
            return Err(Error::bug("E706", format!("{ty} has no fields")));
        };
        let place = self.context.place.loc;
        self.bind(layout.class.port(Port::Flatten), vec![Value::Tensor(p)], place)
    }

    /// A tensor of a subclass with these fields, as many as the layout has; the outer type follows from them.
    ///
    /// # Errors
    /// Reports refusals of the class's signature.
    pub fn unflatten(&mut self, like: &SubclassLayout, fields: &[ProxyId]) -> Result<ProxyId, Error> {
        let place = self.context.place.loc;
        Ok(self.bind(like.class.port(Port::Unflatten), with_fields(like, |i| fields[i]), place)?[0])
    }

    /// A cotangent of `primal` in the form that the classes of both require.
    ///
    /// # Errors
    /// E716 if the class requires a cotangent of its own, and errors of its rules.
    pub fn cotangent(&mut self, primal: ProxyId, value: ProxyId) -> Result<ProxyId, Error> {
        let (want, have) = (self.arena().ty(primal), self.arena().ty(value));
        let Some(layout) = want.subclass() else { return self.plain(value) };
        let rules = layout.class.rules();
        // a cotangent on the same mesh, whose pieces may be in pieces themselves
        let same = have.subclass().is_some_and(|of| of.class == layout.class && of.fields.len() == layout.fields.len());
        match &rules.cotangent {
            Cotangent::Plain => self.plain(value),
            _ if same => Ok(value),
            Cotangent::Same => {
                let class = Some(layout.class.name());
                let cotangent = have.subclass().map(|l| l.class.name());
                let what = cotangent.map_or_else(|| "plain".to_owned(), |c| format!("a `{c}`"));
                let claim = format!("the cotangent of a `{}` is {what}", layout.class.name());
                Err(Error::new("E716", claim)
                    .kind_is(ErrorKind::CotangentClass { class, cotangent })
                    .help("give a cotangent of that class, or let the class say how one is made: `cotangent:`")
                    .at(self.context.place.loc))
            }
            Cotangent::Made(block) => {
                let g = self.plain(value)?;
                let (row, args) = (layout.class.port(Port::Plain), [Value::Tensor(primal)]);
                let call = self.solve(row, args.to_vec())?;
                let x = row.row().sig.params[0].name.name;
                let identity = |_, _| 0;
                let of = Concrete { class: rules, row: row.row(), args: &args, operands: &[x], identity: &identity };
                let mut names = fields(self, &[(Some(x), args.first())])?;
                names.push((Name::new("g"), Value::Tensor(g)));
                let made = tensor::run(self, row.row(), &of.block(block), &call.solved, &args, &names)?;
                match made.as_slice() {
                    [Value::Tensor(p)] => Ok(*p),
                    _ => Err(body::fault(row, "`cotangent` yields no tensor")),
                }
            }
        }
    }

    /// The zero cotangent of `primal`, in the form that its class requires; `None` for a value that is not a tensor.
    ///
    /// # Errors
    /// Reports errors of binding.
    pub fn zero_cotangent(&mut self, primal: ProxyId) -> Result<Option<ProxyId>, Error> {
        let ty = self.arena().ty(primal);
        let Some(whole) = self.arena().tensor_ty(primal) else { return Ok(None) };
        if let Some(layout) = ty.subclass().filter(|layout| layout.class.rules().cotangent == Cotangent::Same) {
            let mut fields = self.flatten(primal)?;
            for field in fields.iter_mut().filter(|field| self.arena().is_float(**field)).collect::<Vec<_>>() {
                *field = self.zero_cotangent(*field)?.unwrap_or(*field);
            }
            return self.unflatten(layout, &fields).map(Some);
        }
        let zeros = self.full(&whole, 0.0)?;
        self.cotangent(primal, zeros).map(Some)
    }

    /// The plain tensor for which a tensor of a subclass stands; a plain tensor is returned unchanged.
    ///
    /// # Errors
    /// Reports errors of the class's rule.
    pub fn plain(&mut self, p: ProxyId) -> Result<ProxyId, Error> {
        let mut at = p;
        while let Some(layout) = self.arena().ty(at).subclass() {
            let place = self.context.place.loc;
            at = self.bind(layout.class.port(Port::Plain), vec![Value::Tensor(at)], place)?[0];
        }
        Ok(at)
    }
}

/// Splits the types of a decomposition's values into results and auxiliary results.
fn split(mut types: Vec<OutTy>, results: usize) -> (Vec<OutTy>, Vec<OutTy>) {
    let aux = types.split_off(results.min(types.len()));
    (types, aux)
}

/// The class that handles a call.
fn class_of(arena: &Arena, line: &BoundSymbol) -> Result<Option<SubclassRef>, Error> {
    let mut found: Vec<SubclassRef> = Vec::new();
    line.for_each_arg(|p| {
        arena.with_ty(p, |ty| {
            if let Some(layout) = ty.subclass()
                && !found.contains(&layout.class)
            {
                found.push(layout.class);
            }
        });
    });
    if found.len() < 2 {
        return Ok(found.pop());
    }
    let most = found.iter().filter_map(|c| c.rules().precedence).max();
    let mut first = found.iter().filter(|c| c.rules().precedence == most);
    if let (Some(class), None, true) = (first.next(), first.next(), most.is_some()) {
        return Ok(Some(class));
    }
    let op = Name::new(line.symbol.name());
    let classes: Vec<Name> = found.iter().map(|c| c.name()).collect();
    let names: Vec<String> = classes.iter().map(|c| format!("`{c}`")).collect();
    let claim = format!("`{op}` meets the classes {}, and none comes first", names.join(" and "));
    Err(Error::new("E715", claim)
        .kind_is(ErrorKind::MixedSubclasses { op, classes })
        .help("convert one of them, or declare a `precedence`")
        .at(line.place.loc))
}

/// Runs the rule: returns a builder with the body's lines, and one value per result. Returns `None` if the class has no
/// rule for the operator, whose decomposition then serves tensors of the class as it serves plain ones.
fn run(arena: &Rc<Arena>, line: &BoundSymbol, class: SubclassRef) -> Result<Option<(Builder, Results)>, Error> {
    let row = line.symbol.row();
    let mut b = Builder::on(arena, line.symbol.name());
    b.context = Context { region: line.region, place: line.place, tags: body::tags(line), origin: Some(line.id) };
    let rules = class.rules();
    // rules call the constructor of the class by its name
    if symbol::class(class.name()).is_some_and(|named| named != class) {
        let claim = format!("two classes of this program are called `{}`", class.name());
        return Err(Error::new("E708", claim).help("give one of them another name"));
    }
    if let Some((_, Port::Plain)) = line.symbol.port() {
        let Some(Value::Tensor(x)) = line.args.first() else {
            return Err(body::fault(line.symbol, "it has no argument"));
        };
        let (ty, fields) = (arena.ty(*x), b.flatten(*x)?);
        let Some(layout) = ty.subclass() else { return Err(no_rule(line, class)) };
        let call = b.solve(class.port(Port::Unflatten), with_fields(layout, |i| fields[i]))?;
        let values = tensor::run(&mut b, call.symbol.row(), &rules.plain, &call.solved, &call.args, &[])?;
        return Ok(Some((b, values)));
    }
    let is = |p: &ProxyId| arena.with_ty(*p, |ty| ty.subclass().is_some_and(|layout| layout.class == class));
    let of_class = class::operands(&row.sig, &line.args, &is);
    let names: Vec<Name> = of_class.iter().map(|(n, _)| *n).collect();
    let rule = match line.symbol.rule_on(class) {
        Some(rule) => rule,
        None if let Some(done) = native(&mut b, line, class)? => return Ok(Some((b, done))),
        None if row.is_composite() => return Ok(None),
        None => &rules.default,
    };
    if *rule == Rule::Placed {
        let values = placed::run(&mut b, line, class)?;
        return Ok(Some((b, values)));
    }
    let identity = |operand: Name, field: Name| {
        let of = of_class.iter().find(|(n, _)| *n == operand).map(|(_, p)| *p);
        of.and_then(|p| arena.part(p, field)).map_or_else(|| hash(operand), |p| u64::from(p.0))
    };
    let call = Concrete { class: rules, row, args: &line.args, operands: &names, identity: &identity };
    let several = row.sig.outs.len() != 1 || row.sig.outs[0].ty.list.is_some();
    let mut run = Run { b, apart: Vec::new(), line, class, of_class: &of_class };
    let values = match rule {
        Rule::Error | Rule::Placed => return Err(no_rule(line, class)),
        Rule::Plain => run.block(&Block { stmts: Vec::new(), value: call.plain() })?,
        Rule::Each => {
            let parts = rules.fields().map(|field| (field, call.each(field))).collect();
            run.made(&[], parts)?
        }
        Rule::Block(block) => match call.made(&block.value).filter(|_| several) {
            Some(args) => {
                let fields: Vec<Name> = rules.fields().chain(rules.meta()).collect();
                let part = |(i, a): (usize, &Arg)| {
                    (a.name.map_or(fields[i.min(fields.len() - 1)], |n| n.name), call.one(&a.value))
                };
                let parts = args.iter().enumerate().map(part).collect();
                run.made(&call.block(block).stmts, parts)?
            }
            None => run.block(&call.block(block))?,
        },
    };
    let (have, want) = (values.len(), row.sig.outs.len());
    if have != want {
        return Err(body::fault(line.symbol, &format!("its rule yields {have} results, its signature has {want}")));
    }
    Ok(Some((run.b, values)))
}

/// A call for a rule that is a Rust function over tensors.
pub struct Ruled {
    /// The builder that records lines; the rule returns it.
    pub builder: Option<Builder>,
    /// The operator.
    pub symbol: crate::symbol::SymbolRef,
    /// The arguments of the call.
    pub args: Results,
    /// The user's call.
    pub loc: Loc,
    /// The results, with lists flattened; `None` if the rule does not handle the operator.
    pub made: Result<Option<Vec<ProxyId>>, Error>,
}

/// The results of the class's Rust function, if it has one that handles the operator.
fn native(b: &mut Builder, line: &BoundSymbol, class: SubclassRef) -> Result<Option<Results>, Error> {
    let Some(rule) = class.native() else { return Ok(None) };
    let inner = b.nested(line.symbol.name());
    let (args, loc) = (line.args.clone(), line.place.loc);
    let mut call = Ruled { builder: Some(inner), symbol: line.symbol, args, loc, made: Ok(None) };
    rule.run(&mut call);
    let Some(made) = call.made.map_err(|e| e.of_call(loc))? else { return Ok(None) };
    let Some(mut inner) = call.builder else { return Err(Error::bug("E709", "a rule kept its trace")) };
    inner.take_from(0).into_iter().for_each(|l| b.push(l));
    let values = made.into_iter().map(Value::Tensor);
    Ok(Some(match line.symbol.row().sig.outs.as_slice() {
        [only] if only.ty.list.is_some() => vec![Value::List(values.collect())],
        _ => values.collect(),
    }))
}

/// A rule that is being run.
struct Run<'a> {
    b: Builder,
    /// The fields of arguments that were taken apart.
    apart: Vec<(Name, Names)>,
    line: &'a BoundSymbol,
    class: SubclassRef,
    of_class: &'a [(Name, ProxyId)],
}

impl Run<'_> {
    fn block(&mut self, block: &Block) -> Result<Results, Error> {
        let mentioned = walk::block_names(block);
        let reads = |of: Name| {
            let prefix = format!("{of}.");
            mentioned.iter().any(|n| n.as_str().starts_with(&prefix))
        };
        // arguments whose fields the block does not read are not taken apart
        for (name, p) in self.of_class.iter().filter(|(name, _)| reads(*name)) {
            if self.apart.iter().all(|(known, _)| known != name) {
                self.apart.push((*name, fields_of(&mut self.b, &[(*name, *p)])?));
            }
        }
        let sig = &self.line.symbol.row().sig;
        let of_class: Vec<Name> = self.of_class.iter().map(|(name, _)| *name).collect();
        let mut names = class::others(self.class.rules(), sig, &self.line.args, &of_class);
        names.extend(self.apart.iter().flat_map(|(_, parts)| parts.iter().cloned()));
        for (param, arg) in sig.params.iter().zip(&self.line.args) {
            if let Value::List(items) = arg {
                let item =
                    |(i, v): (usize, &Value<ProxyId>)| (Name::new(&format!("{}.{i}", param.name.name)), v.clone());
                names.extend(items.iter().enumerate().map(item));
            }
        }
        let Run { b, line, .. } = self;
        tensor::run(b, line.symbol.row(), block, &line.solved, &line.args, &names)
    }

    /// Makes tensors of the class, one per result of the operator, from the values of each field's expression.
    fn made(&mut self, stmts: &[Stmt], parts: Vec<(Name, Expr)>) -> Result<Results, Error> {
        let mut given: Vec<(Name, Results)> = Vec::new();
        for (part, value) in parts {
            let of = self.block(&Block { stmts: stmts.to_vec(), value })?;
            given.push((part, of));
        }
        let Some((_, first)) = self.of_class.first() else { return Err(no_rule(self.line, self.class)) };
        let ty = self.b.arena().ty(*first);
        let Some(layout) = ty.subclass().cloned() else { return Err(no_rule(self.line, self.class)) };
        let shape = given.iter().map(|(_, of)| of).max_by_key(|of| count(of)).cloned().unwrap_or_default();
        let mut at = 0;
        let mut results = Vec::new();
        for value in &shape {
            let one = |run: &mut Self, at: usize| {
                let named = |name: Name| given.iter().find(|(n, _)| *n == name).and_then(|(_, of)| nth(of, at));
                let args = run.class.rules().fields().map(|f| named(f).unwrap_or(Value::Absent)).collect();
                let meta = layout.meta.iter().map(|(n, v)| (*n, named(*n).unwrap_or_else(|| v.clone()))).collect();
                let [unflatten, _, _] = class::Class::ports(run.class.name());
                Ok::<_, Error>(Value::Tensor(run.b.call_row(unflatten, args, meta)?.outs[0]))
            };
            results.push(match value {
                Value::List(items) => {
                    let items = items.iter().map(|_| {
                        at += 1;
                        one(self, at - 1)
                    });
                    Value::List(items.collect::<Result<_, _>>()?)
                }
                _ => {
                    at += 1;
                    one(self, at - 1)?
                }
            });
        }
        Ok(results)
    }
}

fn count(values: &[Value<ProxyId>]) -> usize {
    values.iter().map(|v| if let Value::List(items) = v { items.len() } else { 1 }).sum()
}

/// The value for result number `at`; a single value serves all results.
fn nth(values: &[Value<ProxyId>], at: usize) -> Option<Value<ProxyId>> {
    let flat = || {
        values.iter().flat_map(|v| if let Value::List(items) = v { items.as_slice() } else { std::slice::from_ref(v) })
    };
    flat().nth(at).or_else(|| flat().next()).cloned()
}

/// The names of the fields of arguments: `x.data`, or `data` for an argument without a name.
pub(super) fn fields(b: &mut Builder, of: &[(Option<Name>, Option<&Value<ProxyId>>)]) -> Result<Names, Error> {
    let mut names = Names::new();
    for (name, value) in of {
        let Some(Value::Tensor(p)) = value else { continue };
        let ty = b.arena().ty(*p);
        let Some(layout) = ty.subclass() else { continue };
        let call = |part: Name| name.map_or(part, |name| class::part(name, part));
        let found = b.flatten(*p)?;
        for param in &layout.class.rules().sig.params {
            let field = param.name.name;
            let at = |n: Name| layout.fields.iter().position(|(f, _)| *f == n).map(|i| Value::Tensor(found[i]));
            let value = match param.ty.list {
                Some(_) => Value::List((0..).map_while(|i| at(Name::new(&format!("{field}.{i}")))).collect()),
                None => at(field).unwrap_or(Value::Absent),
            };
            names.push((call(field), value));
        }
        names.extend(layout.meta.iter().map(|(n, v)| (call(*n), v.clone())));
    }
    Ok(names)
}

/// The fields of arguments of a class, by the names that rules use.
///
/// # Errors
/// Reports errors of binding.
pub(crate) fn fields_of(b: &mut Builder, of: &[(Name, ProxyId)]) -> Result<Names, Error> {
    let values: Vec<Value<ProxyId>> = of.iter().map(|(_, p)| Value::Tensor(*p)).collect();
    let named: Vec<_> = of.iter().zip(&values).map(|((n, _), v)| (Some(*n), Some(v))).collect();
    fields(b, &named)
}

/// A number for a name, which has no address of its own.
fn hash(name: Name) -> u64 {
    use std::hash::{Hash, Hasher};
    let mut h = rustc_hash::FxHasher::default();
    name.hash(&mut h);
    h.finish() | 1 << 63
}

/// The targets for which a class has rules, for messages.
fn known(class: SubclassRef) -> String {
    let targets: Vec<&str> = class.text.ops.iter().flat_map(|(t, _)| t.split_whitespace()).collect();
    targets.join(", ")
}

fn no_rule(line: &BoundSymbol, class: SubclassRef) -> Error {
    let op = Name::new(line.symbol.name());
    let claim = format!("`{op}` has no rule for the subclass `{}`", class.name());
    let error = Error::new("E708", claim).kind_is(ErrorKind::NoDispatch { op, class: class.name() });
    let error = match known(class) {
        rules if rules.is_empty() => error,
        rules => error.note(format!("it has rules for {rules}")),
    };
    error.help("give the class a rule for it, or convert the tensor first")
}

/// Adds to an error of a rule the user's call, the operator, the class, and the place of the rule.
fn in_rule(e: Error, line: &BoundSymbol, class: SubclassRef) -> Error {
    e.at(line.place.loc).note(format!(
        "in the rule of `{}` for `{}` ({})",
        class.name(),
        line.symbol.name(),
        class.place()
    ))
}
