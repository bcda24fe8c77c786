//! A row as data: the texts that a database crate exports, and their syntax trees.
//!
//! Codegen emits one [`RowText`] per row (and per derived row); the runtime parses it at first use. So the text that
//! was checked is the text that runs, and no second form can drift from it.

use crate::Name;
use crate::lang::ast::{Block, Elem, Expr, Param, Sig};
use crate::lang::elements::is_element;
use crate::lang::{Dialect, SyntaxError, parse_block, parse_expr, parse_sig};

/// The kind of a row's meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum MeaningKind {
    /// Scalar and index notation.
    Expr,
    /// Scalar and index notation; the result aliases the argument.
    View,
    /// Tensor language.
    Decomp,
    /// A primitive of the runtime.
    Host,
}

/// A row's texts, as emitted. Empty texts and slices are absent keys.
#[derive(Clone, Copy, Debug)]
pub struct RowText {
    /// The name: `softmax`, `matmul.mv`, `gelu.vjp.x`.
    pub op: &'static str,
    /// The documentation, one sentence.
    pub doc: &'static str,
    /// The signature.
    pub sig: &'static str,
    /// Promotion kind (an expression over static options).
    pub promote: &'static str,
    /// Accepted joined dtypes (a set expression).
    pub dtypes: &'static str,
    /// The key that gives the meaning.
    pub kind: MeaningKind,
    /// The meaning.
    pub body: &'static str,
    /// Conditions with their messages.
    pub require: &'static [(&'static str, &'static str)],
    /// Rules in the tensor language by argument: declared, or derived by codegen.
    pub vjp: &'static [(&'static str, &'static str)],
    /// Rules in the tensor language by argument.
    pub jvp: &'static [(&'static str, &'static str)],
    /// `first`, `last`, `even` or empty.
    pub ties: &'static str,
    /// Conditions at kinks, each with the partial derivatives there by argument.
    pub at: &'static [(&'static str, &'static [(&'static str, &'static str)])],
    /// The reason why the row has no gradient.
    pub no_grad: &'static str,
    /// The reason why its gradient differs from the true derivative.
    pub deviates: &'static str,
    /// The reason why its gradient cannot be differentiated again.
    pub once: &'static str,
    /// `lower`, `fp32`, `promote`, `none`, or empty: the class that follows from the meaning.
    pub autocast: &'static str,
    /// Rules by subclass, as in the class's `ops`.
    pub subclass: &'static [(&'static str, &'static str)],
    /// Handwritten kernels that may claim the row, by executor.
    pub kernels: &'static [(&'static str, &'static str)],
    /// The database file.
    pub file: &'static str,
    /// The line of `op:`.
    pub line: u32,
}

impl RowText {
    /// A row without texts: the starting point of rows made by hand or at run time.
    pub const BLANK: RowText = RowText {
        op: "",
        doc: "",
        sig: "",
        promote: "",
        dtypes: "",
        kind: MeaningKind::Expr,
        body: "",
        require: &[],
        vjp: &[],
        jvp: &[],
        ties: "",
        at: &[],
        no_grad: "",
        deviates: "",
        once: "",
        autocast: "",
        subclass: &[],
        kernels: &[],
        file: "",
        line: 0,
    };
}

/// The meaning of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Meaning {
    /// Scalar and index notation.
    Expr(Block),
    /// Scalar and index notation; the result aliases the argument.
    View(Block),
    /// Tensor language.
    Decomp(Block),
    /// A primitive of the runtime, by name.
    Host(Name),
}

crate::words! {
    /// The elements that share the gradient of a maximum at a tie.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
    #[allow(missing_docs)]
    pub enum Ties: word, from_word {
        First = "first",
        Last = "last",
        Even = "even",
    }
}

crate::words! {
    /// How autocast treats the float arguments of a row. f64 stays f64 in every class.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
    pub enum Class: word, from_word {
        /// The arguments are cast to the region's dtype.
        Lower = "lower",
        /// The arguments are cast to f32.
        Fp32 = "fp32",
        /// The arguments are cast to the widest dtype among them.
        Promote = "promote",
        /// The arguments keep their dtype.
        None = "none",
    }
}

/// A condition on calls, with the message where it fails.
#[derive(Clone, Debug, PartialEq)]
pub struct Require {
    /// The condition.
    pub cond: Expr,
    /// The message.
    pub message: String,
    /// The condition as text: checks see many refusals of a row, and printing takes longer than evaluating.
    pub shown: String,
}

impl Require {
    /// A condition and its message.
    pub fn new(cond: Expr, message: String) -> Require {
        Require { shown: cond.to_string(), cond, message }
    }
}

/// A parsed row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The name of the row.
    pub op: Name,
    /// The signature of the row.
    pub sig: Sig,
    /// Promotion kind: an expression over static options whose value is a kind's name.
    pub promote: Option<Expr>,
    /// Accepted joined dtypes.
    pub dtypes: Option<Expr>,
    /// The meaning of the row.
    pub meaning: Meaning,
    /// Conditions.
    pub require: Vec<Require>,
    /// VJP rule per argument.
    pub vjp: Vec<(Name, Block)>,
    /// JVP rule per argument.
    pub jvp: Vec<(Name, Block)>,
    /// The tie rule of maxima.
    pub ties: Ties,
    /// Conventions at kinks: where the condition holds, the partial derivative in these arguments.
    pub at: Vec<(Expr, Vec<(Name, Expr)>)>,
    /// The reason why it has no gradient.
    pub no_grad: Option<String>,
    /// The reason why its gradient differs on purpose from the true derivative.
    pub deviates: Option<String>,
    /// The reason why its gradient cannot be differentiated again.
    pub once: Option<String>,
    /// The autocast class, where it does not follow from the meaning.
    pub autocast: Option<Class>,
}

impl Row {
    /// A row that states nothing besides its signature and its meaning.
    pub fn new(op: Name, sig: Sig, meaning: Meaning) -> Row {
        let (vjp, jvp, require, at) = Default::default();
        let (promote, dtypes, no_grad, deviates, once) = Default::default();
        let (ties, autocast) = (Ties::Even, None);
        Row { op, sig, promote, dtypes, meaning, require, vjp, jvp, ties, at, no_grad, deviates, once, autocast }
    }

    /// Parses an emitted row. An error here means that the text was not made by codegen.
    pub fn parse(text: &RowText) -> Result<Row, SyntaxError> {
        let rules = |rules: &[(&str, &str)]| -> Result<Vec<(Name, Block)>, SyntaxError> {
            rules.iter().map(|(arg, rule)| Ok((Name::new(arg), parse_block(rule, Dialect::Tensor)?))).collect()
        };
        let optional = |t: &str| if t.is_empty() { Ok(None) } else { parse_expr(t, Dialect::Index).map(Some) };
        let some = |t: &str| (!t.is_empty()).then(|| t.to_owned());
        Ok(Row {
            op: Name::new(text.op),
            sig: parse_sig(text.sig)?,
            promote: optional(text.promote)?,
            dtypes: optional(text.dtypes)?,
            meaning: match text.kind {
                MeaningKind::Expr => Meaning::Expr(parse_block(text.body, Dialect::Index)?),
                MeaningKind::View => Meaning::View(parse_block(text.body, Dialect::Index)?),
                MeaningKind::Decomp => Meaning::Decomp(parse_block(text.body, Dialect::Tensor)?),
                MeaningKind::Host => Meaning::Host(Name::new(text.body)),
            },
            require: text
                .require
                .iter()
                .map(|(c, m)| Ok(Require::new(parse_expr(c, Dialect::Index)?, (*m).to_owned())))
                .collect::<Result<_, SyntaxError>>()?,
            vjp: rules(text.vjp)?,
            jvp: rules(text.jvp)?,
            ties: Ties::from_word(text.ties).unwrap_or(Ties::Even),
            at: text
                .at
                .iter()
                .map(|(cond, partials)| {
                    let partials = partials
                        .iter()
                        .map(|(arg, e)| Ok((Name::new(arg), parse_expr(e, Dialect::Index)?)))
                        .collect::<Result<_, SyntaxError>>()?;
                    Ok((parse_expr(cond, Dialect::Index)?, partials))
                })
                .collect::<Result<_, SyntaxError>>()?,
            no_grad: some(text.no_grad),
            deviates: some(text.deviates),
            once: some(text.once),
            autocast: Class::from_word(text.autocast),
        })
    }

    /// The scalar or index body, if the row has one.
    pub fn index_body(&self) -> Option<&Block> {
        match &self.meaning {
            Meaning::Expr(b) | Meaning::View(b) => Some(b),
            _ => None,
        }
    }

    /// Whether the meaning is pointwise: every tensor argument and result broadcasts (`T` without brackets).
    pub fn is_pointwise(&self) -> bool {
        self.index_body().is_some()
            && !self.sig.params.is_empty()
            && self.sig.params.iter().all(|p| p.ty.dims.is_none() && p.ty.list.is_none())
            && self.sig.outs.iter().chain(&self.sig.aux).all(|o| o.ty.dims.is_none() && o.ty.list.is_none())
    }

    /// Whether each element of the result is an element of one argument with the dtype of the result, whatever the others
    /// are: `x[..p, index[m], ..q]`.
    pub fn only_moves(&self) -> bool {
        let (Some(Block { stmts, value }), [out], []) = (self.index_body(), &self.sig.outs[..], &self.sig.aux[..])
        else {
            return false;
        };
        let of_result = |param: &&Param| param.ty.elem == out.ty.elem && matches!(out.ty.elem[..], [Elem::Var(_)]);
        stmts.is_empty() && self.sig.params.iter().filter(of_result).any(|param| is_element(value, param.name.name))
    }

    /// Whether the row is a composite: its meaning is a program of other rows.
    pub fn is_composite(&self) -> bool {
        matches!(self.meaning, Meaning::Decomp(_))
    }

    /// Whether a call draws random numbers: it takes a key and its own meaning reads it.
    pub fn takes_key(&self) -> bool {
        self.sig.params.iter().any(|p| p.ty.elem.contains(&Elem::Key))
    }
}
