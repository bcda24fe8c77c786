//! The syntax trees of the rule languages (docs/row-language.md, section "Grammar").
//!
//! One expression type serves scalar and index notation (`expr`, `view`, `require`, `at`, sizes) and the tensor
//! language (`decomp`, `grad`, `jvp`); [`super::Dialect`] says which forms a parser admits. Every node carries the byte
//! span of its text; spans do not take part in equality, so that printing after parsing can be compared.

use std::sync::Arc;

use crate::builtins::Builtin;
use crate::name::Name;

/// Bytes `start..end` of the text that was parsed.
#[derive(Clone, Copy, Debug, Default, Eq)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// From `start` to `end`.
    pub fn new(start: usize, end: usize) -> Span {
        Span { start: start as u32, end: end as u32 }
    }
    /// The smallest span that holds both.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// Spans never distinguish two trees.
impl PartialEq for Span {
    fn eq(&self, _: &Span) -> bool {
        true
    }
}

impl std::hash::Hash for Span {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

/// A name at a place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ident {
    /// The name.
    pub name: Name,
    /// The place of the name in the text.
    pub span: Span,
}

// ---------------------------------------------------------------- signatures

/// `(params ; opts) -> result`
#[derive(Clone, Debug, PartialEq)]
pub struct Sig {
    /// Tensor (or number) arguments.
    pub params: Vec<Param>,
    /// Options.
    pub opts: Vec<Opt>,
    /// Results; a single unnamed result is called `out`.
    pub outs: Vec<Out>,
    /// Auxiliary results: visible to the gradient, not to the user.
    pub aux: Vec<Out>,
    /// Whether the results were written as a parenthesised list of named results.
    pub named_outs: bool,
}

/// One result.
#[derive(Clone, Debug, PartialEq)]
pub struct Out {
    /// The name of the result (`out` if it was not named).
    pub name: Ident,
    /// The type of the result.
    pub ty: Type,
}

impl Out {
    /// Whether only the row's decomposition determines the type: `T[_]`.
    pub fn is_from_body(&self) -> bool {
        matches!(self.ty.dims.as_deref(), Some([DimPat { kind: DimKind::Body, .. }]))
    }
}

/// How an argument is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads elements.
    Read,
    /// Reads and writes elements (`mut`).
    Mut,
    /// Reads only the type (`like`): derived rows take the shapes of forward values whose elements they do not need.
    Like,
}

/// One tensor argument.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// How the argument is used.
    pub access: Access,
    /// The name of the argument.
    pub name: Ident,
    /// The type of the argument.
    pub ty: Type,
    /// `?`: may be absent.
    pub optional: bool,
}

/// A tensor type, or a list of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Type {
    /// Element classes joined by `|`.
    pub elem: Vec<Elem>,
    /// `None`: without brackets, a tensor or number that broadcasts with the other arguments of this form.
    pub dims: Option<Vec<DimPat>>,
    /// `Some`: a `List<…>` of such tensors, with its length.
    pub list: Option<ListLen>,
    /// The place of the type in the text.
    pub span: Span,
}

/// The length of a `List`.
#[derive(Clone, Debug, PartialEq)]
pub enum ListLen {
    /// An argument: any length.
    Any,
    /// A result of this length.
    Expr(Expr),
    /// A result whose length comes from the body.
    Body,
}

/// An element class.
#[derive(Clone, Debug, PartialEq)]
pub enum Elem {
    /// `T`, `U`, `V`: a dtype variable.
    Var(Name),
    /// `Index`: i32 or i64.
    Index,
    /// `Key`: a random key.
    Key,
    /// A dtype or dtype class: `f32`, `float`, `bool`, …
    Class(Name),
    /// `acc(T)`: the accumulation type.
    Acc(Name),
    /// `real(T)`: the real type of the same width.
    Real(Name),
}

/// One item of a shape pattern, perhaps conditional (`… if cond`).
#[derive(Clone, Debug, PartialEq)]
pub struct DimPat {
    /// The pattern.
    pub kind: DimKind,
    /// The static condition under which the axis is present.
    pub cond: Option<Expr>,
    /// The place of the item in the text.
    pub span: Span,
}

/// A shape pattern's item.
#[derive(Clone, Debug, PartialEq)]
pub enum DimKind {
    /// `N`, `N@dim`, `M = size`, `G * C`, `1`: one axis (or `K@idx`: the list `K` with one axis per entry of `idx`).
    One {
        /// `M =`
        name: Option<Ident>,
        /// The size.
        size: Expr,
        /// `@dim`: the axis that this option names.
        at: Option<Ident>,
    },
    /// `~B`: a list that broadcasts.
    Broadcast(Ident),
    /// `~[..M, ..R]`: a concatenation that broadcasts.
    BroadcastList(Vec<DimPat>),
    /// `..S`, `..S[axes]`, `..S[axes; keepdim]`, `..I@size`.
    List {
        /// The list.
        name: Ident,
        /// Chosen axes.
        axes: Option<Axes>,
        /// `; keepdim`: axes that were not chosen stay with size 1 where this option is true.
        keep: Option<Ident>,
        /// `@size`.
        at: Option<Ident>,
    },
    /// `..(e)` or `..(O = e)`: one axis per element of the lists in `e`.
    Zip {
        /// `O =`
        name: Option<Ident>,
        /// The size of each axis.
        size: Expr,
    },
    /// `..[N, ..S]`: several items in one place.
    Group(Vec<DimPat>),
    /// `..ones(N)`: one axis of size 1 for each axis of `N`.
    Ones(Ident),
    /// `_`, alone: the body determines rank, sizes and dtype of a composite's result.
    Body,
}

/// A choice of axes of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Axes {
    /// `!`: the complement.
    pub not: bool,
    /// The chosen axes.
    pub kind: AxesKind,
    /// The place of the choice in the text.
    pub span: Span,
}

/// The axes that [`Axes`] chooses.
#[derive(Clone, Debug, PartialEq)]
pub enum AxesKind {
    /// The axes (or axis) that an option holds.
    Name(Ident),
    /// Several options, one axis each.
    Names(Vec<Ident>),
    /// `..dim`: the axes before `dim`.
    Before(Ident),
    /// `dim..`: the axes from `dim` on.
    From(Ident),
    /// `unit(dims)`, `swap(a, b)`, `ins(eq, i)`, `outs(eq)`.
    Fn(Ident, Vec<Ident>),
    /// A nested complement: `![![a, b]]` and the like.
    Not(Box<Axes>),
}

/// One option.
#[derive(Clone, Debug, PartialEq)]
pub struct Opt {
    /// The name of the option.
    pub name: Ident,
    /// The type of the option.
    pub ty: OptType,
    /// `?`: may be absent.
    pub optional: bool,
    /// `= default`.
    pub default: Option<Expr>,
}

/// The type of an option.
#[derive(Clone, Debug, PartialEq)]
pub enum OptType {
    /// A number of any category, known only at run time unless a static condition reads it.
    Num,
    /// A float, known only at run time unless a static condition or a size reads it.
    F64,
    /// An integer.
    I64,
    /// A truth value.
    Bool,
    /// A text.
    Str,
    /// A dtype that binds the variable.
    Dtype(Name),
    /// One of these words.
    Enum(Vec<Name>),
    /// An axis (of the list, if named); wraps once, checked.
    Dim(Option<Name>),
    /// A place between axes of the list: 0..=rank.
    Gap(Name),
    /// Each axis of the list once.
    Perm(Name),
    /// Einsum labels over the list.
    Labels(Name),
    /// An index into the size: wraps, checked.
    Pos(Name),
    /// A bound within the size: wraps once, clamps.
    Bound(Name),
    /// A set of axes of the list.
    Dims {
        /// The list.
        list: Name,
        /// The meaning of `[]`: every axis with `empty = all`, no axis with `empty = none`.
        empty_all: bool,
        /// `most = n`: the set has at most n axes.
        most: Option<i64>,
    },
    /// One integer per axis; a single number repeats; missing ones are `fill`.
    Ints {
        /// The list.
        list: Name,
        /// Over chosen axes only.
        axes: Option<Axes>,
        /// Right-aligned (`~S`).
        broadcast: bool,
        /// Value of missing entries.
        fill: Option<i64>,
    },
    /// Binds the size, ≥ 0.
    Size(Name),
    /// Binds the list.
    Shape {
        /// The list.
        list: Name,
        /// `infer = S`: one -1 is inferred from the size of `S`.
        infer: Option<Name>,
        /// `keep = x`: -1 keeps that argument's size.
        keep: Option<Name>,
        /// `like = S`: a single number repeats to the length of `S`.
        like: Option<Name>,
    },
}

impl OptType {
    /// The size or list of sizes that an option of this type binds.
    pub fn binds(&self) -> Option<Name> {
        match self {
            OptType::Size(n) | OptType::Shape { list: n, .. } | OptType::Labels(n) => Some(*n),
            _ => None,
        }
    }
}

// ---------------------------------------------------------------- expressions

/// Statements and a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// `let`s and writes.
    pub stmts: Vec<Stmt>,
    /// The value.
    pub value: Expr,
}

/// A statement of a block.
#[derive(Clone, Debug, PartialEq)]
pub enum Stmt {
    /// `let pattern = value;`
    Let(Pattern, Expr),
    /// `name <- value;` (tensor language)
    Write(Ident, Expr),
}

/// The left side of a `let`.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// `let x`
    Name(Ident),
    /// `let s[axes]`: the indices of these axes.
    Axes(Ident, Axes),
    /// `let (a, b)`
    Tuple(Vec<Ident>),
}

/// An expression and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// The node. Trees share nodes, because texts are copied far more often than they are changed.
    pub node: Arc<Node>,
    /// The place of the expression in the text.
    pub span: Span,
}

crate::words! {
    /// Binary operators.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[allow(missing_docs)]
    pub enum BinOp: mark, from_mark {
        Or = "||",
        And = "&&",
        Eq = "==",
        Ne = "!=",
        Lt = "<",
        Le = "<=",
        Gt = ">",
        Ge = ">=",
        Add = "+",
        Sub = "-",
        Mul = "*",
        Div = "/",
        Rem = "%",
    }
}

impl BinOp {
    /// The row that the operator calls in the tensor language.
    pub fn row(self) -> &'static str {
        self.row_and_builtin().0
    }

    /// The builtin that the operator is on floats.
    pub fn builtin(self) -> Builtin {
        self.row_and_builtin().1
    }

    fn row_and_builtin(self) -> (&'static str, Builtin) {
        match self {
            BinOp::Or => ("logical_or", Builtin::Or),
            BinOp::And => ("logical_and", Builtin::And),
            BinOp::Eq => ("eq", Builtin::Eq),
            BinOp::Ne => ("ne", Builtin::Ne),
            BinOp::Lt => ("lt", Builtin::Lt),
            BinOp::Le => ("le", Builtin::Le),
            BinOp::Gt => ("gt", Builtin::Gt),
            BinOp::Ge => ("ge", Builtin::Ge),
            BinOp::Add => ("add", Builtin::Add),
            BinOp::Sub => ("sub", Builtin::Sub),
            BinOp::Mul => ("mul", Builtin::Mul),
            BinOp::Div => ("div", Builtin::Div),
            BinOp::Rem => ("remainder", Builtin::RemFloor),
        }
    }

    /// Whether the operator gives a number, and not a truth value.
    pub fn is_arithmetic(self) -> bool {
        matches!(self, BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div | BinOp::Rem)
    }
}

/// Unary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum UnOp {
    Neg,
    Not,
}

crate::words! {
    /// Reductions.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[allow(missing_docs)]
    pub enum Red: word, from_word {
        Sum = "sum",
        Prod = "prod",
        Mean = "mean",
        Max = "max",
        Min = "min",
        Any = "any",
        All = "all",
        ArgMax = "argmax",
        ArgMin = "argmin",
        First = "first",
        Last = "last",
        Only = "only",
    }
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// An integer literal.
    Int(i64),
    /// A float literal (kept as written, so that it prints back).
    Float(f64),
    /// A text literal.
    Str(String),
    /// An argument, option, size, index, `let`, output or constant (`PI`, `inf`, `true`, …).
    Name(Name),
    /// `(a, b)`
    Tuple(Vec<Expr>),
    /// `-e`, `!e`
    Unary(UnOp, Expr),
    /// `a + b`
    Binary(BinOp, Expr, Expr),
    /// `e as cls`
    Cast(Expr, Elem),
    /// `if c { … } else { … }`; `else if` is an `If` as the value of the else block.
    If(Expr, Block, Block),
    /// `match name { a => e, … }`
    Match(Ident, Vec<(Ident, Expr)>),
    /// `name(args)`
    Call(Ident, Vec<Arg>),
    /// `name[places else …][item]`
    Access(TensorAccess),
    /// `sum[k if c](e else v)`
    Reduce(Reduce),
    /// `..(e)` or `let t = ..(e)`: a list, one element per axis.
    Zip(Expr),
    /// A list-valued expression such as `..unravel(i, S)`, spread in an argument or place.
    Spread(Expr),
    /// `[a, ..S]` (tensor language)
    List(Vec<ListItem>),
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Arg {
    /// `name =` (tensor language)
    pub name: Option<Ident>,
    /// The value (may be a [`Node::Zip`]).
    pub value: Expr,
}

/// An item of a list literal.
#[derive(Clone, Debug, PartialEq)]
pub enum ListItem {
    /// `e`
    One(Expr),
    /// `..S`, `..except(x, k)`: the items of a list
    Spread(Expr),
}

/// `x[places else …][item]`: an element of a tensor, an entry of a size list (`M[i]`), or a chosen size (`S[dim]`).
#[derive(Clone, Debug, PartialEq)]
pub struct TensorAccess {
    /// The tensor, list or size.
    pub base: Ident,
    /// The first brackets.
    pub places: Vec<Place>,
    /// The value outside of the tensor.
    pub outside: Outside,
    /// For a `List` argument the *first* bracket is its item and the second the places: `xs[i][..p]`.
    pub item: Option<Expr>,
}

/// The value of an access outside of the tensor.
#[derive(Clone, Debug, PartialEq)]
pub enum Outside {
    /// The access must not lie outside: proved, or checked at run time.
    Refuse,
    /// `else skip`: the element is skipped in the innermost reduction.
    Skip,
    /// `else v`
    Value(Expr),
}

/// One place of an access.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// An index for one axis.
    One(Expr),
    /// `..(e)`: one index per axis.
    Zip(Expr),
    /// `..s`, `..s[axes]`: the indices of a list.
    List(Ident, Option<Axes>),
    /// `..unravel(…)`
    Unravel(Expr),
    /// `~b`: a list that broadcasts (an axis that the tensor lacks, or has with size 1, is read at 0).
    Broadcast(Ident),
    /// `~(e)`
    BroadcastZip(Expr),
    /// `~[..m, ..r]`
    BroadcastGroup(Vec<Place>),
}

/// A reduction.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduce {
    /// The kind of the reduction.
    pub red: Red,
    /// The bound indices of the reduction; `None`: `[..]`, over axes.
    pub binds: Option<Vec<Bind>>,
    /// `if c`: the filter.
    pub filter: Option<Expr>,
    /// The reduced expression.
    pub body: Expr,
    /// `else v`: the value if there is no element (`first`, `last`).
    pub otherwise: Option<Expr>,
    /// The place of the reduction's word.
    pub span: Span,
}

/// A bound index of a reduction.
#[derive(Clone, Debug, PartialEq)]
pub struct Bind {
    /// The index (or list of indices, if `list`).
    pub name: Ident,
    /// `..k`
    pub list: bool,
    /// `s[axes]`
    pub axes: Option<Axes>,
    /// `in lo..hi`
    pub range: Option<(Expr, Expr)>,
}

impl Expr {
    /// An expression at a place.
    pub fn new(node: Node, span: Span) -> Expr {
        Expr { node: Arc::new(node), span }
    }
    /// The node, for a change.
    pub fn into_node(self) -> Node {
        Arc::unwrap_or_clone(self.node)
    }
    /// An expression without a place (made by a derivation).
    pub fn bare(node: Node) -> Expr {
        Expr::new(node, Span::default())
    }
    /// A name without a place.
    pub fn name(name: impl Into<Name>) -> Expr {
        Expr::bare(Node::Name(name.into()))
    }
}

// ---------------------------------------------------------------- words and marks

impl BinOp {
    /// The precedence, from 1 for `||` to 5 for `*`. All operators group to the left, except comparisons (3), which do
    /// not chain.
    pub fn level(self) -> u8 {
        match self {
            BinOp::Or => 1,
            BinOp::And => 2,
            BinOp::Eq | BinOp::Ne | BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge => 3,
            BinOp::Add | BinOp::Sub => 4,
            BinOp::Mul | BinOp::Div | BinOp::Rem => 5,
        }
    }
}

impl UnOp {
    /// The text of the operator.
    pub fn mark(self) -> &'static str {
        match self {
            UnOp::Neg => "-",
            UnOp::Not => "!",
        }
    }
}
