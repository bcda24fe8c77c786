//! User functions and methods: `ops::softmax(&x, -1)`, `x.softmax(-1)`, `x.sum_with(Sum { … })`.
//!
//! Tensor arguments and options without a default are positional; options with a default (or `?`) are fields of one
//! struct per row, so that `..d()` fills in the rest. The generated code uses types of the runtime’s `prelude` for
//! generated code; only this file knows their names.

use super::{Emitted, Target, names};
use fulgurite_core::DType;
use fulgurite_core::lang::ast::*;
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::signature::{Env, const_eval};
use std::fmt::Write;

/// The types that generated items use, separated by spaces; the types of a row's options must not
/// have these names.
pub const TYPES: &str = "
    Clone Database Debug Default Dim Dims DType Eq Into Key KeyArg Limit MeaningKind Name Number Operand Option
    PartialEq RowText Scalar ShapeArg Symbol Tensor Value Vec
";

/// A public item made from a row.
#[derive(Clone, PartialEq, Eq)]
pub struct Export {
    /// The modules that hold the item: `["ops"]`, `["torch", "nn", "functional"]`.
    pub module: Vec<String>,
    /// The name of the item in the module of all rows, prefixed by the names of its modules.
    pub item: String,
}

impl Export {
    /// `torch_relu as relu`, `TorchRelu as Relu`, `relu`
    pub fn text(&self) -> String {
        let snake = self.module.join("_") + "_";
        let camel = names::camel(&self.module.join("_"));
        let short = self.item.strip_prefix(&snake).or_else(|| self.item.strip_prefix(&camel));
        match short {
            Some(short) if self.module != ["ops"] => format!("{} as {}", self.item, names::ident(short)),
            _ => self.item.clone(),
        }
    }
}

/// The functions of one row.
pub struct Api {
    pub(super) name: String,
    pub(super) params: Vec<Slot>,
    pub(super) positional: Vec<Slot>,
    pub(super) fields: Vec<Slot>,
    pub(super) result: Outcome,
    /// Whether the first parameter can be a method's `self`.
    pub(super) method: bool,
    /// Whether a variant of the function writes to its first argument.
    in_place: bool,
}

/// One argument of the generated function.
pub(super) struct Slot {
    /// Position in the row's signature.
    pub(super) at: usize,
    pub(super) name: String,
    pub(super) ty: String,
    /// The conversion from the Rust argument to a `Value<Tensor>`.
    value: String,
    /// The default as Rust, for fields.
    pub(super) default: String,
    /// The name and the text of an enum that the argument needs.
    pub(super) words: Option<(String, String)>,
}

impl Slot {
    /// Whether the field's default is that of its type.
    fn is_plain(&self) -> bool {
        matches!(self.default.as_str(), "None" | "false" | "0.0" | "Dims::default()" | "ShapeArg::default()")
    }
}

pub(super) enum Outcome {
    One,
    Tuple(usize),
    List,
    /// The length is this option: a const parameter.
    Array(String),
}

impl Api {
    /// The functions of a row, if users can call it by its own name.
    pub fn of(emitted: &Emitted) -> Option<Api> {
        let row = &emitted.row;
        let op = row.op.as_str();
        let library = names::library(op);
        if emitted.derived_from.is_some() || library.is_none() && op.contains('.') {
            return None;
        }
        let result = outcome(row)?;
        let count = match &result {
            Outcome::Array(option) => Some(option.clone()),
            _ => None,
        };
        let mut params = Vec::new();
        for (at, p) in row.sig.params.iter().enumerate() {
            if p.access == Access::Like {
                return None;
            }
            params.push(param(at, p));
        }
        let (mut positional, mut fields) = (Vec::new(), Vec::new());
        for (i, o) in row.sig.opts.iter().enumerate() {
            let at = row.sig.params.len() + i;
            let slot = option(op, at, o);
            if count.as_deref() == Some(o.name.name.as_str()) {
                positional.push(Slot { value: "Value::Num(Scalar::Int(N as i64))".into(), ty: String::new(), ..slot });
            } else if o.default.is_none() && !o.optional {
                positional.push(slot);
            } else {
                fields.push(slot);
            }
        }
        let method = row
            .sig
            .params
            .first()
            .is_some_and(|p| p.ty.list.is_none() && !p.optional && !p.ty.elem.contains(&Elem::Key));
        let method = method && library.is_none();
        let in_place = method && in_place(row);
        Some(Api { name: names::ident(&names::flat(op)), params, positional, fields, result, method, in_place })
    }

    /// The name of the struct of its options.
    pub(super) fn options(&self) -> String {
        names::ident(&names::camel(self.name.trim_end_matches('_')))
    }

    /// The items that `ops` re-exports, or the module of the library that the row belongs to.
    pub fn export(&self, row: &Emitted) -> Vec<Export> {
        let mut out = vec![self.name.clone()];
        if !self.fields.is_empty() {
            out.push(format!("{}_with", self.name));
            out.push(self.options());
        }
        out.extend(self.positional.iter().chain(&self.fields).filter_map(|s| s.words.as_ref().map(|(n, _)| n.clone())));
        let module = names::modules(row.row.op.as_str());
        out.into_iter().map(|item| Export { module: module.clone(), item }).collect()
    }

    fn generics(&self) -> &'static str {
        if matches!(self.result, Outcome::Array(_)) { "<const N: usize>" } else { "" }
    }

    fn returns(&self) -> String {
        match &self.result {
            Outcome::One => "Tensor".into(),
            Outcome::Tuple(n) => format!("({})", vec!["Tensor"; *n].join(", ")),
            Outcome::List => "Vec<Tensor>".into(),
            Outcome::Array(_) => "[Tensor; N]".into(),
        }
    }

    fn argument_list(&self, skip: usize) -> Vec<String> {
        self.params
            .iter()
            .skip(skip)
            .chain(self.positional.iter().filter(|s| !s.ty.is_empty()))
            .map(|s| format!("{}: {}", s.name, s.ty))
            .collect()
    }

    fn arguments(&self, skip: usize) -> String {
        self.argument_list(skip).join(", ")
    }

    /// `pub fn softmax(x: &Tensor) -> Tensor`
    fn head(&self, suffix: &str, more: &[String]) -> String {
        let arguments = [self.argument_list(0), more.to_vec()].concat();
        let open = format!("pub fn {}{suffix}{}(", self.name, self.generics());
        wrapped(&open, &arguments, &format!(") -> {}", self.returns()))
    }

    fn passed(&self, skip: usize) -> String {
        self.params
            .iter()
            .skip(skip)
            .chain(self.positional.iter().filter(|s| !s.ty.is_empty()))
            .map(|s| s.name.clone())
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// The documentation: the row's sentence and signature, what it refuses, its section of the page of operators, and
    /// an example.
    fn docs(&self, row: &Emitted, target: &Target, indent: &str) -> String {
        let mut text = format!(
            "{indent}/// {}.\n{indent}///\n{indent}/// `{}{}`\n",
            no_links(&row.doc),
            row.row.op,
            one_line(&row.row)
        );
        for r in &row.row.require {
            let _ = writeln!(
                text,
                "{indent}///\n{indent}/// Refused unless `{}`: {}.",
                one_line_text(&r.cond.to_string()),
                no_links(&r.message)
            );
        }
        if let Some(takes) = takes(&row.row) {
            let _ = writeln!(text, "{indent}///\n{indent}/// Takes {takes}; another dtype is refused.");
        }
        if let Some(page) = target.page {
            let anchor = row.row.op.as_str().replace('.', "");
            let _ = writeln!(
                text,
                "{indent}///\n{indent}/// [Meaning, gradient and kernels of `{}`]({page}#{anchor})",
                row.row.op
            );
        }
        let is_method = !indent.is_empty();
        match (row.example.as_ref().and_then(|example| example.lines(self, row, is_method)), &row.point) {
            (Some(lines), _) => {
                let _ = writeln!(text, "{indent}///");
                for line in &lines {
                    text += format!("{indent}/// {line}").trim_end();
                    text.push('\n');
                }
            }
            (None, Some(point)) => {
                let _ = writeln!(text, "{indent}///\n{indent}/// A point: `{point}`.");
            }
            (None, None) => {}
        }
        text
    }

    /// The function, its options and their enums.
    pub fn function(&self, row: &Emitted, target: &Target) -> String {
        let mut text = String::new();
        for (_, words) in self.positional.iter().chain(&self.fields).filter_map(|s| s.words.as_ref()) {
            text += words;
        }
        let constant = names::constant(row.row.op);
        let mut slots: Vec<(usize, String)> =
            self.params.iter().chain(&self.positional).map(|s| (s.at, s.value.clone())).collect();
        slots.extend(self.fields.iter().map(|s| (s.at, s.value.replace("{}", &format!("options.{}", s.name)))));
        slots.sort();
        let values: Vec<String> = slots.into_iter().map(|(_, v)| v).collect();
        let call = match &self.result {
            Outcome::One => "call_one".to_owned(),
            Outcome::Tuple(n) => format!("call_tuple{n}"),
            Outcome::List => "call_list".to_owned(),
            Outcome::Array(_) => "call_array::<N>".to_owned(),
        };
        let body = wrapped(&format!("    api::{call}(&{constant}, vec!["), &values, "])");
        let generics = self.generics();
        let stamp = names::stamp(&row.file, row.line, &self.name);
        if self.fields.is_empty() {
            let _ = writeln!(
                text,
                "{stamp}{}#[track_caller]\n{} {{\n{body}\n}}\n",
                self.docs(row, target, ""),
                self.head("", &[]),
            );
            return text;
        }
        let options = self.options();
        // The trait is derived if every field has the default of its type.
        let plain = self.fields.iter().all(Slot::is_plain);
        let derived = if plain { "Clone, Debug, Default" } else { "Clone, Debug" };
        let _ = writeln!(text, "/// Options of [`{}_with`].\n#[derive({derived})]\npub struct {options} {{", self.name);
        for (field, opt) in self.fields.iter().zip(
            row.row
                .sig
                .opts
                .iter()
                .filter(|o| self.fields.iter().any(|f| f.name == names::ident(o.name.name.as_str()))),
        ) {
            let default = opt.default.as_ref().map_or("not given".to_owned(), |d| format!("`{d}`"));
            let _ = writeln!(text, "    /// Default: {default}.\n    pub {}: {},", field.name, field.ty);
        }
        text += "}\n\n";
        if !plain {
            let _ =
                writeln!(text, "impl Default for {options} {{\n    fn default() -> {options} {{\n        {options} {{");
            for field in &self.fields {
                let _ = writeln!(text, "            {}: {},", field.name, field.default);
            }
            text += "        }\n    }\n}\n\n";
        }
        let passed = self.passed(0);
        let comma = if passed.is_empty() { "" } else { ", " };
        let turbofish = if generics.is_empty() { "" } else { "::<N>" };
        let _ = writeln!(
            text,
            "{stamp}{}#[track_caller]\n{} {{\n    {name}_with{turbofish}({passed}{comma}{options}::default())\n}}\n",
            self.docs(row, target, ""),
            self.head("", &[]),
            name = self.name,
        );
        let _ = writeln!(
            text,
            "/// [`{name}`](fn@{name}) with options.\n#[track_caller]\n{} {{\n{body}\n}}\n",
            self.head("_with", &[format!("options: {options}")]),
            name = self.name,
        );
        text
    }

    /// Declaration and definition in the extension trait.
    pub fn method(&self, row: &Emitted, target: &Target) -> Option<(String, String)> {
        if !self.method {
            return None;
        }
        let (generics, returns) = (self.generics(), self.returns());
        let turbofish = if generics.is_empty() { "" } else { "::<N>" };
        let (args, passed) = (self.arguments(1), self.passed(1));
        let comma = if args.is_empty() { "" } else { ", " };
        let qualify = |text: &str| qualify(text, target.runtime);
        let mut declaration = format!(
            "{}    #[track_caller]\n    fn {}{generics}(&self{comma}{}) -> {returns};\n",
            self.docs(row, target, "    "),
            self.name,
            qualify(&args)
        );
        let mut definition = format!(
            "    #[track_caller]\n    fn {name}{generics}(&self{comma}{args}) -> {returns} {{\n        rows::{name}{turbofish}(self{comma}{passed})\n    }}\n",
            name = self.name,
            args = qualify(&args),
            returns = qualify(&returns),
        );
        declaration = declaration.replace(&format!("-> {returns};"), &format!("-> {};", qualify(&returns)));
        if !self.fields.is_empty() {
            let options = format!("rows::{}", self.options());
            let _ = write!(
                declaration,
                "    /// `{name}` with options.\n    #[track_caller]\n    fn {name}_with{generics}(&self{comma}{args}, options: {options}) -> {returns};\n",
                name = self.name,
                args = qualify(&args),
                returns = qualify(&returns),
            );
            let passed = if passed.is_empty() { String::new() } else { format!("{passed}, ") };
            let _ = write!(
                definition,
                "    #[track_caller]\n    fn {name}_with{generics}(&self{comma}{args}, options: {options}) -> {returns} {{\n        rows::{name}_with{turbofish}(self, {passed}options)\n    }}\n",
                name = self.name,
                args = qualify(&args),
                returns = qualify(&returns),
            );
        }
        if self.in_place {
            let writes = |suffix: &str, more: &str, passed: &str| {
                let open = format!("fn {}{suffix}_(&self{comma}{}{more}) -> ", self.name, qualify(&args));
                let says = format!(
                    "    /// [`{name}{suffix}`](Self::{name}{suffix}), written to `self`.\n    #[track_caller]\n    {open}{};\n",
                    qualify("Tensor"),
                    name = self.name
                );
                let does = format!(
                    "    #[track_caller]\n    {open}{tensor} {{\n        {rt}::api::write(self, rows::{}{suffix}(self{passed}))\n    }}\n",
                    self.name,
                    tensor = qualify("Tensor"),
                    rt = target.runtime,
                );
                (says, does)
            };
            let given = if passed.is_empty() { String::new() } else { format!(", {passed}") };
            let mut all = vec![writes("", "", &given)];
            if !self.fields.is_empty() {
                let options = format!(", options: rows::{}", self.options());
                all.push(writes("_with", &options, &format!("{given}, options")));
            }
            for (says, does) in all {
                declaration += &says;
                definition += &does;
            }
        }
        Some((declaration, definition))
    }
}

/// Whether a row has an in-place variant: its result has the type of its first argument, and may be a different value.
fn in_place(row: &Row) -> bool {
    let (Some(x), [out]) = (row.sig.params.first(), row.sig.outs.as_slice()) else { return false };
    let same = match &row.meaning {
        Meaning::View(_) => true,
        Meaning::Expr(body) => is_identity(&body.value, x.name.name) && row.sig.params.len() == 1,
        _ => false,
    };
    x.ty.elem == out.ty.elem && sizes(&x.ty) == sizes(&out.ty) && x.ty.list.is_none() && !same
}

/// The sizes in a type, without the options that name its axes.
fn sizes(ty: &Type) -> Option<Vec<DimKind>> {
    let one = |dim: &DimPat| match &dim.kind {
        DimKind::One { name, size, .. } => DimKind::One { name: *name, size: size.clone(), at: None },
        kind => kind.clone(),
    };
    ty.dims.as_ref().map(|dims| dims.iter().map(one).collect())
}

/// Whether an expression is its argument `x` with the same elements: `x`, `detach(x)`, `x as T`.
fn is_identity(e: &Expr, x: fulgurite_core::Name) -> bool {
    match &*e.node {
        Node::Name(name) => *name == x,
        Node::Cast(inner, _) => is_identity(inner, x),
        Node::Call(f, args) if f.name == "detach" => args.len() == 1 && is_identity(&args[0].value, x),
        _ => false,
    }
}

/// Qualifies the names of types for use outside of the module of rows.
fn qualify(args: &str, runtime: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    let flush = |word: &mut String, out: &mut String| {
        let known = ["Tensor", "KeyArg", "Operand", "Limit", "Number", "Dims", "ShapeArg", "Scalar", "Dim", "DType"];
        if known.contains(&word.as_str()) {
            out.push_str(runtime);
            out.push_str("::prelude::");
        } else if word.starts_with(|c: char| c.is_ascii_uppercase())
            && !["Option", "Into", "Vec", "N"].contains(&word.as_str())
        {
            out.push_str("rows::");
        }
        out.push_str(word);
        word.clear();
    };
    for c in args.chars() {
        if c.is_ascii_alphanumeric() || c == '_' {
            word.push(c);
        } else {
            flush(&mut word, &mut out);
            out.push(c);
        }
    }
    flush(&mut word, &mut out);
    out
}

/// A list on one line, or with one line per item.
fn wrapped(open: &str, items: &[String], close: &str) -> String {
    let line = format!("{open}{}{close}", items.join(", "));
    if line.len() <= 100 || items.is_empty() {
        return line;
    }
    let indent = open.len() - open.trim_start().len();
    let items: String = items.iter().map(|item| format!("{:indent$}    {item},\n", "")).collect();
    format!("{open}\n{items}{:indent$}{close}", "")
}

fn one_line(row: &Row) -> String {
    one_line_text(&row.sig.to_string())
}

fn one_line_text(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn outcome(row: &Row) -> Option<Outcome> {
    let outs = &row.sig.outs;
    match outs.as_slice() {
        [one] => match &one.ty.list {
            None => Some(Outcome::One),
            Some(_) => Some(
                row.sig
                    .opts
                    .iter()
                    .find(|o| o.name.name == "chunks" && o.ty == OptType::I64)
                    .map_or(Outcome::List, |o| Outcome::Array(o.name.name.as_str().to_owned())),
            ),
        },
        many if (2..=4).contains(&many.len()) && many.iter().all(|o| o.ty.list.is_none()) => {
            Some(Outcome::Tuple(many.len()))
        }
        _ => None,
    }
}

fn param(at: usize, p: &Param) -> Slot {
    let name = names::ident(p.name.name.as_str());
    let number = p.ty.dims.as_ref().is_none_or(Vec::is_empty) && p.ty.list.is_none();
    let (ty, value) = if p.ty.elem.contains(&Elem::Key) {
        ("impl KeyArg", "{}.arg()")
    } else if p.ty.list.is_some() {
        ("&[Tensor]", "api::list({})")
    } else if p.optional && number {
        ("impl Into<Limit>", "{}.into().arg()")
    } else if p.optional {
        ("Option<&Tensor>", "api::optional({})")
    } else if number {
        ("impl Operand", "{}.arg()")
    } else {
        ("&Tensor", "{}.arg()")
    };
    Slot { at, value: value.replace("{}", &name), name, ty: ty.into(), default: String::new(), words: None }
}

/// A literal default as Rust of the field's type, if the row's default is a literal.
fn literal(e: &Expr) -> Option<f64> {
    match &*e.node {
        Node::Int(i) => Some(*i as f64),
        Node::Float(f) => Some(*f),
        Node::Unary(UnOp::Neg, a) => literal(a).map(|x| -x),
        Node::Name(n) => match n.as_str() {
            "true" => Some(1.0),
            "false" => Some(0.0),
            _ => None,
        },
        _ => None,
    }
}

fn option(op: &str, at: usize, o: &Opt) -> Slot {
    let name = names::ident(o.name.name.as_str());
    let field = o.default.is_some() || o.optional;
    let lit = o.default.as_ref().and_then(literal);
    let mut words = None;
    // Type, conversion of `{}`, and default of the plain type.
    let (ty, value, default): (String, String, Option<String>) = match &o.ty {
        OptType::Num => ("Scalar".into(), "Value::Num({})".into(), o.default.as_ref().and_then(number_default)),
        OptType::F64 => ("f64".into(), "Value::Num(Scalar::Float({}))".into(), lit.map(|x| format!("{x:?}"))),
        OptType::Bool => ("bool".into(), "Value::Num(Scalar::Bool({}))".into(), lit.map(|x| (x != 0.0).to_string())),
        OptType::Str | OptType::Labels(_) => ("&'static str".into(), "Value::Str({}.to_owned())".into(), None),
        OptType::Dtype(_) => ("DType".into(), "Value::DType({})".into(), None),
        OptType::Enum(list) => {
            let ty = names::camel(op) + &names::camel(o.name.name.as_str());
            words = Some((ty.clone(), word_enum(op, &ty, o, list)));
            let default = o.default.as_ref().and_then(|d| match &*d.node {
                Node::Name(n) => Some(format!("{ty}::{}", variant(n.as_str()))),
                _ => None,
            });
            (ty, "Value::Word({}.word())".into(), default)
        }
        OptType::I64 | OptType::Dim(_) | OptType::Gap(_) | OptType::Pos(_) | OptType::Bound(_) | OptType::Size(_) => {
            ("Dim".into(), "Value::size({})".into(), lit.map(|x| format!("Dim::from({}i64)", x as i64)))
        }
        OptType::Perm(_) | OptType::Dims { .. } | OptType::Ints { .. } => {
            ("Dims".into(), "{}.value()".into(), Some("Dims::default()".into()))
        }
        OptType::Shape { .. } => ("ShapeArg".into(), "{}.value()".into(), Some("ShapeArg::default()".into())),
    };
    if !field {
        // A size may take the place of a number.
        let (ty, value) = match o.ty {
            OptType::Num => ("Number".to_owned(), "{}.value()".to_owned()),
            OptType::Str | OptType::Labels(_) => ("&str".to_owned(), value),
            _ => (ty, value),
        };
        let into = matches!(ty.as_str(), "Number" | "Dim" | "Dims" | "ShapeArg");
        let (ty, place) =
            if into { (format!("impl Into<{ty}>"), format!("Into::<{ty}>::into({name})")) } else { (ty, name.clone()) };
        return Slot { at, value: value.replace("{}", &place), name, ty, default: String::new(), words };
    }
    match default {
        Some(default) if !o.optional => Slot { at, name, ty, value, default, words },
        _ => {
            let function = match value.strip_suffix("({})") {
                Some(path) if !path.contains('(') => path.to_owned(),
                _ => format!("|v| {}", value.replace("{}", "v")),
            };
            let value = format!("{{}}.map_or(Value::Absent, {function})");
            Slot { at, name, ty: format!("Option<{ty}>"), value, default: "None".into(), words }
        }
    }
}

fn number_default(e: &Expr) -> Option<String> {
    match &*e.node {
        Node::Int(i) => Some(format!("Scalar::Int({i})")),
        Node::Float(f) => Some(format!("Scalar::Float({f:?})")),
        Node::Unary(UnOp::Neg, a) => match &*a.node {
            Node::Int(i) => Some(format!("Scalar::Int(-{i})")),
            Node::Float(f) => Some(format!("Scalar::Float(-{f:?})")),
            _ => None,
        },
        _ => None,
    }
}

/// A sentence of a row as Markdown: `x[n]` is an element and not a link.
fn no_links(text: &str) -> String {
    text.replace('[', "\\[")
}

/// The dtypes that `T` may be, if they are not all that tensors compute in and no option decides.
fn takes(row: &Row) -> Option<String> {
    let set = const_eval::dtype_set(&Env::default(), row.dtypes.as_ref()?).ok()?;
    let all = DType::STORED.iter().all(|dtype| set.contains(*dtype));
    let have = DType::STORED.iter().chain(&DType::STORAGE).filter(|dtype| set.contains(**dtype));
    let names: Vec<String> = have.map(|dtype| format!("`{dtype}`")).collect();
    (!all && !names.is_empty()).then(|| names.join(", "))
}

/// A word of an `enum`: `self` would be a keyword.
pub(super) fn variant(word: &str) -> String {
    names::ident(&names::camel(word))
}

fn word_enum(op: &str, ty: &str, o: &Opt, words: &[fulgurite_core::Name]) -> String {
    let mut text = format!(
        "/// Words of `{}` in `{}`.\n#[derive(Clone, Copy, PartialEq, Eq, Debug)]\npub enum {ty} {{\n",
        o.name.name, op
    );
    for w in words {
        let _ = writeln!(text, "    /// `{w}`\n    {},", variant(w.as_str()));
    }
    let _ = writeln!(text, "}}\n\nimpl {ty} {{\n    fn word(self) -> Name {{\n        Name::new(match self {{");
    for w in words {
        let _ = writeln!(text, "            {ty}::{} => {:?},", variant(w.as_str()), w.as_str());
    }
    text += "        })\n    }\n}\n\n";
    text
}
