//! An operator of another framework: a Python signature, letters for the kinds of arguments, and for PyTorch a schema for
//! the dispatcher.

use fulgurite_codegen::check::walk;
use fulgurite_codegen::emit::names;
use fulgurite_core::lang::Node;
use fulgurite_core::lang::ast::{Access, Elem, Expr, Opt, OptType, Out, Param};
use fulgurite_core::lower::Rows;
use fulgurite_core::row::{Class, Meaning, Row};
use fulgurite_core::{DType, Name, autocast, facts};
use std::fmt::Write;

/// The names that a framework gives to the types of Python arguments and results.
pub struct PythonTypes {
    /// An argument that is an array.
    pub array: &'static str,
    /// An argument that is an array of any rank, or a number.
    pub number: &'static str,
    /// An argument that is a dtype.
    pub dtype: &'static str,
    /// A result.
    pub result: &'static str,
}

impl PythonTypes {
    /// The operators of PyTorch.
    pub const TORCH: PythonTypes =
        PythonTypes { array: "Tensor", number: "Tensor | float", dtype: "torch.dtype", result: "Tensor" };
    /// The functions of JAX.
    pub const JAX: PythonTypes =
        PythonTypes { array: "ArrayLike", number: "ArrayLike", dtype: "DTypeLike", result: "Array" };
}

/// An operator.
pub struct Operator {
    /// The row.
    pub row: String,
    /// The name in Python and in PyTorch's dispatcher.
    pub name: String,
    /// The arguments in the order of the row.
    pub arguments: Vec<OperatorArgument>,
    /// The results, as the schema writes them.
    pub results: String,
    /// The type of the results in Python.
    pub returns: String,
    /// Whether the operator has derivatives.
    pub differentiable: bool,
    /// The class of autocast.
    pub autocast: Class,
}

/// An argument.
pub struct OperatorArgument {
    /// The name of the argument in the schema and in Python.
    pub name: String,
    /// The kind of the argument, for the kernel: see `fulgurite_torch::torch::schema`. A small
    /// letter is an optional argument.
    pub letter: char,
    /// The type of the argument in the schema.
    pub schema: String,
    /// The type of the argument in Python.
    pub python: String,
    /// The default of the argument: in the schema, and in Python.
    pub default: Option<(String, String)>,
    /// The function of `_runtime` that brings the Python argument to the schema's type, if it admits others.
    pub through: Option<&'static str>,
}

impl Operator {
    /// The operator of a row, which may call `rows`, with these names of types.
    ///
    /// # Errors
    /// The reason why the row can't be an operator.
    pub fn of(row: &Row, rows: &dyn Rows, types: &PythonTypes) -> Result<Operator, &'static str> {
        if row.sig.params.iter().any(|p| p.access == Access::Mut) {
            return Err("it writes an argument");
        }
        let types_of = row.sig.params.iter().map(|p| &p.ty).chain(row.sig.outs.iter().map(|o| &o.ty));
        if types_of
            .into_iter()
            .any(|ty| matches!(ty.elem.as_slice(), [Elem::Class(c)] if c.as_str() == DType::U4X2.name()))
        {
            return Err("no other framework has the dtype u4x2, two numbers in a byte");
        }
        let params = row.sig.params.iter().map(|p| param(p, types));
        let arguments: Vec<OperatorArgument> = params.chain(row.sig.opts.iter().map(|o| option(o, types))).collect();
        let (results, returns) = results(&row.sig.outs, types)?;
        let differentiable = row.no_grad.is_none() && row.sig.params.iter().any(|p| !p.ty.elem.contains(&Elem::Key));
        let name = identifier(&names::flat(row.op.as_str()));
        // a cast is explicit
        let autocast = if facts::of(row).converts { Class::None } else { autocast::class(row, rows).0 };
        Ok(Operator { row: row.op.to_string(), name, arguments, results, returns, differentiable, autocast })
    }

    /// The letters of the arguments.
    pub fn letters(&self) -> String {
        self.arguments.iter().map(|a| a.letter).collect()
    }

    /// The schema after the name: `(Tensor x, float b=4.) -> Tensor`. A default that stands before an argument without
    /// one is that of the Python function alone, because PyTorch does not allow it in a schema.
    pub fn schema(&self) -> String {
        let last = self.arguments.iter().rposition(|a| a.default.is_none()).map_or(0, |last| last + 1);
        let arguments = self.arguments.iter().enumerate().map(|(at, a)| {
            let default = a.default.as_ref().filter(|_| at >= last);
            let default = default.map_or(String::new(), |(schema, _)| format!("={schema}"));
            format!("{} {}{default}", a.schema, a.name)
        });
        format!("({}) -> {}", arguments.collect::<Vec<_>>().join(", "), self.results)
    }

    /// The Python parameters: those without a default first.
    pub fn parameters(&self) -> String {
        let (with, without): (Vec<_>, Vec<_>) = self.arguments.iter().partition(|a| a.default.is_some());
        let mut text = String::new();
        for a in without.into_iter().chain(with) {
            let comma = if text.is_empty() { "" } else { ", " };
            let default = a.default.as_ref().map_or(String::new(), |(_, python)| format!(" = {python}"));
            let _ = write!(text, "{comma}{}: {}{default}", a.name, a.python);
        }
        text
    }
}

fn param(p: &Param, types: &PythonTypes) -> OperatorArgument {
    let name = identifier(p.name.name.as_str());
    let key = p.ty.elem.contains(&Elem::Key);
    let number = !key && p.ty.dims.is_none() && p.ty.list.is_none();
    let one = if number { types.number } else { types.array };
    let (letter, schema, python) = match (p.ty.list.is_some(), p.optional) {
        (true, _) => ('X', "Tensor[]", format!("Sequence[{one}]")),
        (false, true) => ('t', "Tensor?", format!("{one} | None")),
        (false, false) => ('T', "Tensor", one.to_owned()),
    };
    let letter = match (key, letter) {
        (true, 'T') => 'K',
        (true, 't') => 'k',
        _ => letter,
    };
    let default = p.optional.then(|| ("None".to_owned(), "None".to_owned()));
    let through = number.then_some("tensor");
    OperatorArgument { name, letter, schema: schema.into(), python, default, through }
}

fn option(o: &Opt, types: &PythonTypes) -> OperatorArgument {
    let (letter, schema, python): (char, &str, String) = match &o.ty {
        OptType::Num => ('N', "Scalar", "float".into()),
        OptType::F64 => ('F', "float", "float".into()),
        OptType::Bool => ('B', "bool", "bool".into()),
        OptType::Str | OptType::Labels(_) => ('S', "str", "str".into()),
        OptType::Enum(words) => {
            let words: Vec<String> = words.iter().map(|w| format!("\"{w}\"")).collect();
            ('S', "str", format!("Literal[{}]", words.join(", ")))
        }
        OptType::Dtype(_) => ('D', "ScalarType", types.dtype.into()),
        OptType::I64 | OptType::Dim(_) | OptType::Gap(_) => ('I', "int", "int".into()),
        OptType::Pos(_) | OptType::Bound(_) | OptType::Size(_) => ('Z', "SymInt", "int".into()),
        OptType::Perm(_) => ('L', "int[]", "Sequence[int]".into()),
        OptType::Dims { .. } => ('L', "int[1]", "int | Sequence[int]".into()),
        OptType::Ints { .. } => ('R', "int[1]", "int | Sequence[int]".into()),
        OptType::Shape { .. } => ('M', "SymInt[]", "Sequence[int]".into()),
    };
    let written = o.default.as_ref().and_then(|e| literal(&o.ty, e));
    let optional = o.optional || o.default.is_some() && written.is_none();
    let none = || ("None".to_owned(), "None".to_owned());
    OperatorArgument {
        name: identifier(o.name.name.as_str()),
        letter: if optional { letter.to_ascii_lowercase() } else { letter },
        schema: if optional { format!("{schema}?") } else { schema.to_owned() },
        python: if optional { format!("{python} | None") } else { python },
        default: written.filter(|_| !optional).or_else(|| optional.then(none)),
        through: schema.starts_with("int[1]").then_some("ints"),
    }
}

/// A default that is a literal, in the schema and in Python. Others, such as all axes, are those of the row.
fn literal(ty: &OptType, default: &Expr) -> Option<(String, String)> {
    let text = default.to_string();
    match ty {
        OptType::Bool => {
            let word = if text.parse().ok()? { "True" } else { "False" };
            Some((word.into(), word.into()))
        }
        OptType::F64 => {
            let x = text.parse::<f64>().ok().filter(|x| x.is_finite())?;
            Some((format!("{x:?}"), format!("{x:?}")))
        }
        OptType::I64 | OptType::Dim(_) | OptType::Gap(_) | OptType::Pos(_) | OptType::Bound(_) | OptType::Size(_) => {
            text.parse::<i64>().ok()?;
            Some((text.clone(), text))
        }
        OptType::Num => {
            text.parse::<f64>().ok().filter(|x| x.is_finite())?;
            Some((text.clone(), text))
        }
        OptType::Enum(words) => {
            words.iter().find(|w| w.as_str() == text)?;
            Some((format!("\"{text}\""), format!("\"{text}\"")))
        }
        _ => None,
    }
}

fn results(outs: &[Out], types: &PythonTypes) -> Result<(String, String), &'static str> {
    let is_list = |out: &Out| out.ty.list.is_some();
    match outs {
        [] => Err("it has no result"),
        [one] if is_list(one) => Ok(("Tensor[]".into(), format!("list[{}]", types.result))),
        [_] => Ok(("Tensor".into(), types.result.into())),
        _ if outs.iter().any(is_list) => Err("it has a list among several results"),
        _ => {
            let named: Vec<String> =
                outs.iter().map(|o| format!("Tensor {}", identifier(o.name.name.as_str()))).collect();
            let types = vec![types.result; outs.len()].join(", ");
            Ok((format!("({})", named.join(", ")), format!("tuple[{types}]")))
        }
    }
}

/// A name that is not a keyword of Python, and none that the code of a package uses itself.
pub fn identifier(name: &str) -> String {
    const TAKEN: [&str; 41] = [
        "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
        "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
        "not", "or", "pass", "raise", "return", "try", "while", "with", "yield", // the code of a package:
        "ints", "list", "str", "tensor", "torch", "tuple",
    ];
    if TAKEN.contains(&name) { format!("{name}_") } else { name.to_owned() }
}

/// Whether a row makes tensors of a class, which other frameworks do not have.
pub fn makes_a_class(row: &Row, is_class: &dyn Fn(Name) -> bool) -> bool {
    let makes = |e: &Expr| matches!(&*e.node, Node::Call(name, ..) if is_class(name.name));
    matches!(&row.meaning, Meaning::Decomp(body) if walk::any(body, &mut |e| makes(e)))
}
