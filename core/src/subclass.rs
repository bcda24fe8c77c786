//! Tensor subclasses as data: the texts that a database (or a derive macro) exports, their syntax trees, and the rules
//! made concrete for one call.
//!
//! A class has a signature, `(fields; metadata) -> the type that programs see`, the plain tensor that it stands for,
//! and a rule per operator or kind of operators. A rule is a block of the tensor language with these further forms:
//!
//! - `x.data`: a field (or metadata) of argument `x`; `data` alone: that of the first argument of the class,
//! - `plain`: the plain tensor that an argument stands for,
//! - `f(e)`: the operator itself, with `e` in place of each argument of the class and all other arguments as given,
//! - `same(data)`: a field in which all arguments of the class must agree,
//! - `Class(…)`: a new tensor of the class; metadata that is not given is that of the first argument.

use crate::derive::walk;
use crate::eval::tensor::from_item;
use crate::lang::ast::*;
use crate::lang::{SyntaxError, parse_rule, parse_sig};
use crate::row::{Meaning, Row};
use crate::signature::{Item, Refusal, Solved};
use crate::{Name, Named, Value};

/// A class's texts, as emitted. Empty texts and slices are absent keys.
#[derive(Clone, Copy, Debug)]
pub struct ClassText {
    /// `Float8Tensor`
    pub class: &'static str,
    /// One sentence.
    pub doc: &'static str,
    /// `(fields; metadata) -> outer type`
    pub sig: &'static str,
    /// The plain tensor, as a rule over fields and metadata.
    pub plain: &'static str,
    /// Operators, or kinds such as `class(view)`, separated by blanks; and their rule.
    pub ops: &'static [(&'static str, &'static str)],
    /// The rule of every other operator: `error` if absent.
    pub default: &'static str,
    /// Gradients by operator; each is a list of arguments with their cotangents.
    pub grad: &'static [(&'static str, &'static [(&'static str, &'static str)])],
    /// The form of cotangents: `plain`, `same`, or a rule that makes one from a plain cotangent `g`.
    pub cotangent: &'static str,
    /// Whether operators without a gradient of their own are differentiated through their rules.
    pub through: bool,
    /// The value that reading outside of programs yields: `equal`, `error` or a field.
    pub read: &'static str,
    /// The precedence: of the classes in a call, that with the greatest number handles it.
    pub precedence: &'static str,
    /// The error bounds of operators against the plain ones: relative, absolute (rules over fields and metadata).
    pub error: (&'static str, &'static str),
    /// The tensors for which the bounds hold: a condition on fields that must be true everywhere; if absent, all
    /// tensors.
    pub when: &'static str,
    /// The database file.
    pub file: &'static str,
    /// The line of `class:`.
    pub line: u32,
}

impl ClassText {
    /// A class without texts.
    pub const BLANK: ClassText = ClassText {
        class: "",
        doc: "",
        sig: "",
        plain: "",
        ops: &[],
        default: "",
        grad: &[],
        cotangent: "",
        through: false,
        read: "",
        precedence: "",
        error: ("", ""),
        when: "",
        file: "",
        line: 0,
    };
}

crate::words! {
    /// A kind of operators.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
    pub enum Kind: word, from_word {
        /// Views: the result aliases the argument's elements.
        View = "view",
        /// Pointwise operators, with broadcasting.
        Pointwise = "pointwise",
        /// Any operator.
        Any = "any",
    }
}

impl Kind {
    /// Whether a row is of this kind; `view` says whether it is a view.
    pub fn has(self, row: &Row, view: bool) -> bool {
        match self {
            Kind::View => view,
            Kind::Pointwise => !view && row.is_pointwise(),
            Kind::Any => true,
        }
    }
}

/// The operators that a rule is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// An operator.
    Op(Name),
    /// A kind of operators.
    Kind(Kind),
}

/// The rule for an operator on tensors of the class.
#[derive(Clone, PartialEq, Debug)]
pub enum Rule {
    /// Refuses the operator.
    Error,
    /// Runs the operator on the plain tensors.
    Plain,
    /// Runs the operator on each field.
    Each,
    /// Runs the operator on shards, as its loops allow.
    Placed,
    /// Runs this block.
    Block(Block),
}

/// What a rule makes of the operator that it is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RuleFunction {
    /// The operator, of a field as it stands: `C(f(data), …)`.
    Same,
    /// The operator, of other elements: `C(f(where(mask, data, 0)), …)`.
    OfOthers,
    /// Another function.
    Other,
}

impl Rule {
    /// What the rule makes of the operator. The first field is the one with the elements.
    pub fn function(&self, class: &Class) -> RuleFunction {
        let block = match self {
            Rule::Each => return RuleFunction::Same,
            Rule::Plain => return RuleFunction::OfOthers,
            Rule::Error | Rule::Placed => return RuleFunction::Other,
            Rule::Block(block) => block,
        };
        let first = |e: &Expr, called: &str| match &*e.node {
            Node::Call(callee, args) if callee.name.as_str() == called => args.first().map(|arg| arg.value.clone()),
            _ => None,
        };
        let elements = first(&block.value, class.name.as_str()).unwrap_or_else(|| block.value.clone());
        match first(&elements, "f").map(|e| matches!(&*e.node, Node::Name(n) if class.fields().any(|f| f == *n))) {
            Some(true) => RuleFunction::Same,
            Some(false) => RuleFunction::OfOthers,
            None => RuleFunction::Other,
        }
    }
}

/// What a cotangent of a tensor of the class is.
#[derive(Clone, PartialEq, Debug)]
pub enum Cotangent {
    /// A plain tensor.
    Plain,
    /// A tensor of the class; a plain one is refused.
    Same,
    /// A tensor of the class, which this block makes from a plain cotangent `g` and the tensor's own fields.
    Made(Block),
}

/// The value of a tensor of the class when it is read outside of programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Read {
    /// Its fields, which must be equal.
    Equal,
    /// None: reading is refused.
    Error,
    /// A field.
    Field(Name),
}

/// Error bounds of operators on a class against those on the plain tensors, in terms of fields and metadata.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bound {
    /// Relative to the magnitude.
    pub rel: Option<Block>,
    /// Absolute.
    pub abs: Option<Block>,
    /// The condition on tensors under which the bounds hold: it must be true everywhere.
    pub when: Option<Block>,
}

/// The gradient of an operator on the class, per argument.
pub type Grads = Vec<(Name, Block)>;

/// A parsed class.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// The name of the class.
    pub name: Name,
    /// Fields, metadata, and the type that programs see.
    pub sig: Sig,
    /// The plain tensor.
    pub plain: Block,
    /// Rules, in order.
    pub rules: Vec<(Target, Rule)>,
    /// The rule for every other operator.
    pub default: Rule,
    /// Gradients of operators.
    pub grads: Vec<(Name, Grads)>,
    /// Cotangents.
    pub cotangent: Cotangent,
    /// Whether the gradient goes through the rules.
    pub through: bool,
    /// The value that reading yields.
    pub read: Read,
    /// The precedence among several classes in a call.
    pub precedence: Option<i64>,
    /// The error bounds of operators.
    pub error: Bound,
}

/// A text of a class that does not parse: the key, the text, and the error.
#[derive(Clone, Debug)]
pub struct Malformed {
    /// `sig`, `plain`, `ops`, …
    pub key: &'static str,
    /// The text at fault.
    pub text: String,
    /// The error.
    pub error: SyntaxError,
}

impl Class {
    /// Parses a class's texts.
    ///
    /// # Errors
    /// The first text that does not parse.
    pub fn parse(text: &ClassText) -> Result<Class, Box<Malformed>> {
        let at = |key: &'static str, text: &str| {
            let text = text.to_owned();
            move |error| Box::new(Malformed { key, text, error })
        };
        let block = |key, text: &str| parse_rule(text).map_err(at(key, text));
        let some = |key, text: &str| (!text.is_empty()).then(|| block(key, text)).transpose();
        let mut rules = Vec::new();
        for (targets, rule) in text.ops {
            let rule = Class::rule(rule).map_err(at("ops", rule))?;
            rules.extend(targets.split_whitespace().map(|t| (Class::target(t), rule.clone())));
        }
        let mut grads = Vec::new();
        for (op, args) in text.grad {
            let args = args.iter().map(|(arg, rule)| Ok((Name::new(arg), block("grad", rule)?)));
            grads.push((Name::new(op), args.collect::<Result<_, Box<Malformed>>>()?));
        }
        Ok(Class {
            name: Name::new(text.class),
            sig: parse_sig(text.sig).map_err(at("sig", text.sig))?,
            plain: block("plain", text.plain)?,
            rules,
            default: Class::rule(text.default).map_err(at("default", text.default))?,
            grads,
            cotangent: match text.cotangent {
                "" | "plain" => Cotangent::Plain,
                "same" => Cotangent::Same,
                made => Cotangent::Made(block("cotangent", made)?),
            },
            through: text.through,
            read: match text.read {
                "" | "error" => Read::Error,
                "equal" => Read::Equal,
                field => Read::Field(Name::new(field)),
            },
            precedence: text.precedence.parse().ok(),
            error: Bound {
                rel: some("error", text.error.0)?,
                abs: some("error", text.error.1)?,
                when: some("error", text.when)?,
            },
        })
    }

    /// A rule from its text.
    ///
    /// # Errors
    /// The error, if the text is not a rule.
    pub fn rule(text: &str) -> Result<Rule, SyntaxError> {
        Ok(match text {
            "" | "error" => Rule::Error,
            "plain" => Rule::Plain,
            "each" => Rule::Each,
            "placed" => Rule::Placed,
            block => Rule::Block(parse_rule(block)?),
        })
    }

    /// The target of a rule, from its text.
    pub fn target(text: &str) -> Target {
        let kind = text.strip_prefix("class(").and_then(|t| t.strip_suffix(')'));
        kind.and_then(Kind::from_word).map_or_else(|| Target::Op(Name::new(text)), Target::Kind)
    }

    /// The rule that the class has for a row: for the operator, for the operator that it overloads, or for its kind, in
    /// this order. `None`: the row's decomposition or the default applies.
    pub fn rule_for(&self, row: &Row, view: bool) -> Option<&Rule> {
        let base = Name::new(row.op.as_str().split('.').next().unwrap_or_default());
        let named = |op: Name| self.rules.iter().find(|(t, _)| *t == Target::Op(op)).map(|(_, rule)| rule);
        let kind = |(t, _): &&(Target, Rule)| matches!(t, Target::Kind(kind) if kind.has(row, view));
        named(row.op).or_else(|| named(base)).or_else(|| self.rules.iter().find(kind).map(|(_, rule)| rule))
    }

    /// The gradient of an operator on the class.
    pub fn grads_for(&self, op: Name) -> Option<&Grads> {
        self.grads.iter().find(|(o, _)| *o == op).map(|(_, grads)| grads)
    }

    /// The fields of the class, in order.
    pub fn fields(&self) -> impl Iterator<Item = Name> + '_ {
        self.sig.params.iter().map(|p| p.name.name)
    }

    /// The metadata of the class, in order.
    pub fn meta(&self) -> impl Iterator<Item = Name> + '_ {
        self.sig.opts.iter().map(|o| o.name.name)
    }

    /// Whether the class supports the row, by a rule other than `error`: by name, kind or default.
    pub fn meets(&self, row: &Row, view: bool) -> bool {
        *self.rule_for(row, view).unwrap_or(&self.default) != Rule::Error
    }

    /// A row from the type that programs see to the fields, whose signature gives the types of fields; tests draw
    /// arguments by it. `choose` selects the dtype of a field among several. `None` where a field is optional or a
    /// list: only rows of the class make such tensors.
    pub fn apart(&self, choose: &dyn Fn(&[Elem]) -> Elem) -> Option<Row> {
        let out = self.sig.outs.first()?;
        let field = |p: &Param| {
            let single = !p.optional && p.ty.list.is_none();
            single.then(|| Out { name: p.name, ty: Type { elem: vec![choose(&p.ty.elem)], ..p.ty.clone() } })
        };
        // A dtype of the whole type is bound by its argument.
        let bound = |o: &&Opt| !matches!(&o.ty, OptType::Dtype(v) if out.ty.elem.contains(&Elem::Var(*v)));
        let whole = Ident { name: Name::new("whole"), span: Span::default() };
        let sig = Sig {
            params: vec![Param { access: Access::Read, name: whole, ty: out.ty.clone(), optional: false }],
            opts: self.sig.opts.iter().filter(bound).cloned().collect(),
            outs: self.sig.params.iter().map(field).collect::<Option<_>>()?,
            aux: Vec::new(),
            named_outs: true,
        };
        Some(blank(Name::new(&format!("{}.apart", self.name)), sig))
    }

    /// The metadata of a tensor, from its solved signature.
    ///
    /// # Errors
    /// E706 for metadata that is known only at run time, which would be lost.
    pub fn meta_of<V>(&self, solved: &Solved) -> Result<Vec<Named<V>>, Refusal> {
        let one = |n: Name| match solved.env.item(n) {
            Some(Item::Tensor(_) | Item::Tensors(..) | Item::Runtime(..)) => {
                let message = format!("`{}`: the metadata `{n}` must be known while the program is traced", self.name);
                Err(Refusal::new("E706", message).help("make it a field: what a call decides is a tensor"))
            }
            item => Ok((n, item.and_then(from_item).unwrap_or(Value::Absent))),
        };
        self.meta().map(one).collect()
    }

    /// The names in rules of three operators: the one that makes a tensor from fields, the one that takes it apart, and
    /// the one that gives the plain tensor.
    pub fn ports(class: Name) -> [Name; 3] {
        ["unflatten", "flatten", "plain"].map(|port| Name::new(&format!("{class}.{port}")))
    }
}

/// The name of a part of an argument.
pub fn part(of: Name, part: Name) -> Name {
    Name::new(&format!("{of}.{part}"))
}

/// The name by which `f(…)` passes an option as it was given. Its own name means the normalised value, in which axes
/// may stand in another order.
fn given(option: Name) -> Name {
    Name::new(&format!("{option}.given"))
}

/// Further names in rules of a class, besides arguments and the parts of operands: options as they were given, and the
/// parts of plain arguments, which are absent.
pub fn others<V: Clone>(class: &Class, sig: &Sig, args: &[Value<V>], of_class: &[Name]) -> Vec<Named<V>> {
    let opts = sig.opts.iter().zip(args.iter().skip(sig.params.len()));
    let mut names: Vec<Named<V>> = opts.map(|(opt, value)| (given(opt.name.name), value.clone())).collect();
    for param in sig.params.iter().filter(|p| p.ty.list.is_none() && !of_class.contains(&p.name.name)) {
        let parts = class.fields().chain(class.meta());
        names.extend(parts.map(|p| (part(param.name.name, p), Value::Absent)));
    }
    names
}

/// The arguments of a call that belong to the class, by their names in rules: `x`, or `xs.0`, `xs.1` in lists.
pub fn operands<V>(sig: &Sig, args: &[Value<V>], is: &dyn Fn(&V) -> bool) -> Vec<(Name, V)>
where
    V: Clone,
{
    let mut found = Vec::new();
    for (param, arg) in sig.params.iter().zip(args) {
        let name = param.name.name;
        match arg {
            Value::Tensor(v) if is(v) => found.push((name, v.clone())),
            Value::List(items) => {
                for (i, item) in items.iter().enumerate() {
                    if let Value::Tensor(v) = item
                        && is(v)
                    {
                        found.push((Name::new(&format!("{name}.{i}")), v.clone()));
                    }
                }
            }
            _ => {}
        }
    }
    found
}

/// A rule made concrete for one call.
pub struct Concrete<'a, V> {
    /// The class.
    pub class: &'a Class,
    /// The operator.
    pub row: &'a Row,
    /// The call's arguments.
    pub args: &'a [Value<V>],
    /// The arguments of the class.
    pub operands: &'a [Name],
    /// A number per operand and field; equal numbers mean equal values.
    pub identity: &'a dyn Fn(Name, Name) -> u64,
}

impl<V> Concrete<'_, V> {
    /// The block without the special forms of classes: only calls of rows, and names of parts (`x.data`).
    pub fn block(&self, rule: &Block) -> Block {
        walk::map_block(rule, &mut |e| self.expr(e, None))
    }

    /// [`Self::block`] for one expression.
    pub fn one(&self, e: &Expr) -> Expr {
        walk::map(e, &mut |e| self.expr(e, None))
    }

    /// `f(field)`
    pub fn each(&self, field: Name) -> Expr {
        self.call(&name(field, Span::default()), Span::default())
    }

    /// `f(plain)`
    pub fn plain(&self) -> Expr {
        self.each(Name::new("plain"))
    }

    /// The arguments of the expression, if it is `Class(…)`.
    pub fn made<'e>(&self, e: &'e Expr) -> Option<&'e [Arg]> {
        match &*e.node {
            Node::Call(callee, args) if callee.name == self.class.name => Some(args),
            _ => None,
        }
    }

    fn expr(&self, e: &Expr, operand: Option<Name>) -> Option<Expr> {
        match &*e.node {
            Node::Name(n) => self.part(*n, operand, e.span),
            Node::Call(callee, args) => match (callee.name.as_str(), args.as_slice()) {
                ("f", [Arg { name: None, value }]) => Some(self.call(value, e.span)),
                ("same", [Arg { name: None, value }]) => self.same(value),
                (class, args) if class == self.class.name.as_str() => Some(self.unflatten(args, operand, e.span)),
                _ => None,
            },
            _ => None,
        }
    }

    /// A field, metadata or `plain` of this operand, or of the first one; an argument's own name is not replaced.
    fn part(&self, n: Name, operand: Option<Name>, span: Span) -> Option<Expr> {
        let own = |n: Name| {
            let sig = &self.row.sig;
            sig.params.iter().any(|p| p.name.name == n) || sig.opts.iter().any(|o| o.name.name == n)
        };
        let of = operand.or(self.operands.first().copied())?;
        if operand.is_none() && own(n) {
            return None;
        }
        if n == "plain" {
            return Some(self.plain_of(of, span));
        }
        let known = self.class.fields().chain(self.class.meta()).any(|p| p == n);
        if let Some(of) = n.as_str().strip_suffix(".plain") {
            return Some(self.plain_of(Name::new(of), span));
        }
        known.then(|| name(part(of, n), span))
    }

    fn plain_of(&self, of: Name, span: Span) -> Expr {
        let [_, _, plain] = Class::ports(self.class.name);
        call(plain, vec![Arg { name: None, value: name(of, span) }], span)
    }

    /// The operator with `e` in place of each argument of the class.
    fn call(&self, e: &Expr, span: Span) -> Expr {
        let mut args = Vec::new();
        let mut positional = true;
        let of = |n: Name| -> Expr {
            if self.operands.contains(&n) { walk::map(e, &mut |e| self.expr(e, Some(n))) } else { name(n, span) }
        };
        for (param, value) in self.row.sig.params.iter().zip(self.args) {
            let n = param.name.name;
            let value = match value {
                Value::Absent => {
                    positional = false;
                    continue;
                }
                Value::List(items) => {
                    let items = (0..items.len()).map(|i| ListItem::One(of(Name::new(&format!("{n}.{i}")))));
                    Expr::new(Node::List(items.collect()), span)
                }
                _ => of(n),
            };
            let label = (!positional).then_some(Ident { name: n, span });
            args.push(Arg { name: label, value });
        }
        let values = self.args.iter().skip(self.row.sig.params.len());
        for (opt, value) in self.row.sig.opts.iter().zip(values) {
            if !value.is_absent() {
                let label = Ident { name: opt.name.name, span };
                args.push(Arg { name: Some(label), value: name(given(opt.name.name), span) });
            }
        }
        call(self.row.op, args, span)
    }

    /// A field that has one value in all operands, or is compared at run time; metadata is compared at once.
    fn same(&self, field: &Expr) -> Option<Expr> {
        let Node::Name(n) = &*field.node else { return None };
        let first = *self.operands.first()?;
        // Each operand is compared with the first, so the text grows linearly with the operands.
        let own = name(part(first, *n), field.span);
        let mut value = own.clone();
        let id = (self.identity)(first, *n);
        for other in self.operands.iter().skip(1).filter(|o| (self.identity)(**o, *n) != id) {
            let of = |value| Arg { name: None, value };
            let equal = Expr::new(Node::Binary(BinOp::Eq, own.clone(), name(part(*other, *n), field.span)), field.span);
            value = call(Name::new("checked"), vec![of(value), of(equal)], field.span);
        }
        Some(value)
    }

    fn unflatten(&self, args: &[Arg], operand: Option<Name>, span: Span) -> Expr {
        let mut args: Vec<Arg> = args
            .iter()
            .map(|a| Arg { name: a.name, value: walk::map(&a.value, &mut |e| self.expr(e, operand)) })
            .collect();
        let first = operand.or(self.operands.first().copied());
        let positional = args.iter().filter(|a| a.name.is_none()).count();
        let lacking = |meta: &Name| {
            let at = self.class.fields().count() + self.class.meta().position(|m| m == *meta).unwrap_or(0);
            at >= positional && args.iter().all(|a| a.name.is_none_or(|n| n.name != *meta))
        };
        let missing: Vec<Name> = self.class.meta().filter(|m| lacking(m)).collect();
        for (meta, of) in missing.into_iter().filter_map(|m| Some((m, first?))) {
            args.push(Arg { name: Some(Ident { name: meta, span }), value: name(part(of, meta), span) });
        }
        let [unflatten, _, _] = Class::ports(self.class.name);
        call(unflatten, args, span)
    }
}

fn name(n: Name, span: Span) -> Expr {
    Expr::new(Node::Name(n), span)
}

fn call(op: Name, args: Vec<Arg>, span: Span) -> Expr {
    Expr::new(Node::Call(Ident { name: op, span }, args), span)
}

/// The rows that make a class's tensors and take them apart: `C.unflatten(fields; metadata)`, `C.flatten(x)`,
/// `C.plain(x)`.
pub fn ports(class: &Class) -> [Row; 3] {
    let [unflatten, flatten, plain] = Class::ports(class.name);
    let any = |name: &str| Param {
        access: Access::Read,
        name: Ident { name: Name::new(name), span: Span::default() },
        ty: tensor("U"),
        optional: false,
    };
    let out = |name: Ident, ty: Type| Out { name, ty };
    let apart = Sig {
        params: vec![any("x")],
        opts: Vec::new(),
        outs: class.sig.params.iter().map(|p| out(p.name, tensor("U"))).collect(),
        aux: Vec::new(),
        named_outs: true,
    };
    let whole = Sig { outs: vec![out(any("out").name, tensor("U"))], named_outs: false, ..apart.clone() };
    [blank(unflatten, class.sig.clone()), blank(flatten, apart), blank(plain, whole)]
}

fn blank(op: Name, sig: Sig) -> Row {
    // these rows compute nothing, so they take tensors of every dtype
    let dtypes = Expr::bare(Node::Binary(BinOp::Add, Expr::name("all"), Expr::name("storage")));
    Row { autocast: Some(crate::row::Class::None), dtypes: Some(dtypes), ..Row::new(op, sig, Meaning::Host(op)) }
}

/// A tensor of any dtype that broadcasts.
fn tensor(var: &str) -> Type {
    Type { elem: vec![Elem::Var(Name::new(var))], dims: None, list: None, span: Span::default() }
}
