//! The names and signatures of other libraries' operators, against which the call forms in `aten`, `torch` and `onnx`
//! lists are checked.
//!
//! `tests/data/conformance/signatures.py` writes `signatures.json`. It has complete schemas of ATen's overloads; of
//! Python functions it has the parameters, with types where they are known. A function with several overloads may have
//! a list of them. `onnx_signatures.py` writes `onnx.txt`, which has every version of every operator of ONNX.

pub mod names;

use std::collections::HashMap;
use std::sync::LazyLock;

use fulgurite_core::Name;
use fulgurite_core::foreign::library;

/// A parameter in the other library's declaration.
pub struct Formal {
    /// The parameter's name.
    pub name: String,
    /// The type; empty where it is not known.
    pub ty: String,
    /// The default; `None`: a call must give it.
    pub default: Option<String>,
    /// Whether the parameter is keyword-only.
    pub keyword: bool,
    /// Whether the parameter takes all further positional arguments.
    pub rest: bool,
}

/// Signatures by the names of the called functions.
static SIGNATURES: LazyLock<HashMap<Name, Vec<Vec<Formal>>>> = LazyLock::new(|| {
    let all: HashMap<String, Told> = serde_json::from_str(include_str!("signatures.json")).unwrap_or_default();
    let name = |op: &str| Name::new(op.strip_suffix(".default").unwrap_or(op));
    let taken = |told: &Told| match told {
        Told::One(text) => vec![formals(text)],
        Told::Several(texts) => texts.iter().map(|text| formals(text)).collect(),
    };
    let mut all: HashMap<Name, Vec<Vec<Formal>>> = all.iter().map(|(op, told)| (name(op), taken(told))).collect();
    // the newest version last in the file, and first here
    for line in include_str!("onnx.txt").lines().rev().filter(|line| !line.starts_with('#')) {
        let op = line.split('(').next().unwrap_or_default();
        let (operator, _) = op.rsplit_once('.').unwrap_or((op, ""));
        all.insert(Name::new(op), vec![formals(line)]);
        all.entry(Name::new(operator)).or_default().push(formals(line));
    }
    all
});

/// The maker of the library of this name, in messages.
pub fn owner(name: &str) -> &'static str {
    if is_onnx(name) { "ONNX" } else { "PyTorch" }
}

/// Whether this is the name of an operator of ONNX.
pub fn is_onnx(name: &str) -> bool {
    library(name) == Some("onnx")
}

/// ATen's overloads by the operator's name.
static OVERLOADS: LazyLock<HashMap<&'static str, Vec<Name>>> = LazyLock::new(|| {
    let mut all: HashMap<&'static str, Vec<Name>> = HashMap::new();
    for name in SIGNATURES.keys() {
        if let Some(operator) = name.as_str().strip_prefix("aten.").and_then(|rest| rest.split('.').next()) {
            all.entry(operator).or_default().push(*name);
        }
    }
    all.values_mut().for_each(|names| names.sort_unstable_by_key(|name| name.as_str()));
    all
});

/// An entry of `signatures.json`.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Told {
    One(String),
    Several(Vec<String>),
}

/// The parameters of this function, `aten.add.Tensor` or `torch.nn.functional.pad`, if they are known; of several
/// overloads the first.
pub fn signature(name: Name) -> Option<&'static [Formal]> {
    SIGNATURES.get(&name)?.first().map(Vec::as_slice)
}

/// The overloads that the signatures list under exactly this name.
pub fn declared(name: Name) -> &'static [Vec<Formal>] {
    SIGNATURES.get(&name).map_or(&[], Vec::as_slice)
}

/// The default in the public functions of an ATen operator, for a parameter that the operator leaves open, if all of
/// them agree: `correction=None` of `aten.var.correction` is 1 in `torch.var`.
pub fn function_default(name: Name, parameter: &str) -> Option<&'static str> {
    static FUNCTIONS: LazyLock<HashMap<String, Vec<Name>>> = LazyLock::new(|| {
        let mut all: HashMap<String, Vec<Name>> = HashMap::new();
        for name in SIGNATURES.keys().filter(|name| name.as_str().starts_with("torch.")) {
            if let Some(operator) = operator(*name) {
                all.entry(operator).or_default().push(*name);
            }
        }
        all
    });
    let operator = name.as_str().strip_prefix("aten.")?.split('.').next()?;
    let formals = FUNCTIONS.get(operator)?.iter().flat_map(|name| declared(*name)).flatten();
    let given = formals.filter(|f| f.name == parameter).filter_map(|f| f.default.as_deref());
    let mut given = given.filter(|default| !matches!(*default, "None" | "[]"));
    let first = given.next()?;
    given.all(|other| other == first).then_some(first)
}

/// Every known overload of this function, including those of the ATen operator with its name.
pub fn overloads(name: Name) -> Vec<&'static [Formal]> {
    let own = SIGNATURES.get(&name).into_iter().flatten();
    let others = operator(name).and_then(|operator| OVERLOADS.get(&*operator)).into_iter().flatten();
    let others = others.filter(|other| **other != name).filter_map(|other| SIGNATURES.get(other)).flatten();
    own.chain(others).map(Vec::as_slice).collect()
}

/// The ATen operator with the name of a function: `linalg_norm` for `torch.linalg.norm`; `None` for an overload.
pub fn operator(name: Name) -> Option<String> {
    let (library, rest) = name.as_str().split_once('.')?;
    match library {
        "aten" => (!rest.contains('.')).then(|| rest.to_owned()),
        _ => Some(rest.trim_start_matches("nn.functional.").replace('.', "_")),
    }
}

/// Parses `name(Tensor self, int[2] dim=1, *, bool keepdim=False) -> …`.
fn formals(text: &str) -> Vec<Formal> {
    let Some(open) = text.find('(') else { return Vec::new() };
    let (mut depth, mut quoted, mut part) = (0, false, String::new());
    let mut parts = Vec::new();
    for c in text[open + 1..].chars() {
        match c {
            '\'' => quoted = !quoted,
            '(' | '[' if !quoted => depth += 1,
            ')' if !quoted && depth == 0 => break,
            ')' | ']' if !quoted => depth -= 1,
            _ => {}
        }
        if c == ',' && depth == 0 && !quoted {
            parts.push(std::mem::take(&mut part));
        } else {
            part.push(c);
        }
    }
    parts.push(part);
    let mut keyword = false;
    let formal = |part: &String| {
        let (left, default) = match part.split_once('=') {
            Some((left, default)) => (left.trim(), Some(default.trim().to_owned())),
            None => (part.trim(), None),
        };
        // `Tensor self` in schemas, `input: torch.Tensor | None` in Python
        let (name, ty) = match left.split_once(": ") {
            Some((name, ty)) => (name, ty.trim_start_matches("torch.")),
            None => left.rsplit_once(' ').map_or((left, ""), |(ty, name)| (name, ty)),
        };
        // The documentation of some functions escapes the star.
        if matches!(name, "" | "*" | "\\*") {
            keyword |= !name.is_empty();
            return None;
        }
        let (name, rest) = name.strip_prefix('*').map_or((name, false), |name| (name, true));
        Some(Formal { name: name.to_owned(), ty: ty.to_owned(), default, keyword, rest })
    };
    parts.iter().filter_map(formal).collect()
}

/// Whether a default in PyTorch's notation equals a default in a row.
pub fn is_default(theirs: &str, ours: &str) -> bool {
    let theirs = match theirs {
        "None" => "none".to_owned(),
        "True" => "true".to_owned(),
        "False" => "false".to_owned(),
        "torch.long" => "i64".to_owned(),
        text if text.starts_with('(') => text.replace('(', "[").replace(')', "]"),
        text => text.trim_matches(['\'', '"']).to_owned(),
    };
    // ONNX writes truth values as numbers, and words in capitals.
    if matches!((&*theirs, ours), ("0", "false") | ("1", "true")) || theirs.to_ascii_lowercase() == ours {
        return true;
    }
    // One number in a list repeats, as a single number does. Libraries differ in the spaces between numbers.
    let items = |text: &str| -> Vec<String> {
        let inside = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        inside.split(',').map(|item| item.trim().to_owned()).collect()
    };
    let (ours, theirs) = (items(ours), items(&theirs));
    let number = |text: &str| text.parse::<f64>().ok();
    let same = |(a, b): (&String, &String)| a == b || number(a).is_some_and(|x| number(b) == Some(x));
    ours.len() == theirs.len() && ours.iter().zip(&theirs).all(same)
}

impl Formal {
    /// Whether a default in a row, or `none` or `required`, is this parameter's.
    pub fn has_default(&self, ours: &str) -> bool {
        match self.default.as_deref() {
            // A parameter without a default that may be None can be left out here.
            None if self.ty.ends_with('?') => ours == "none",
            None => ours == "required",
            Some(theirs) => is_default(theirs, ours),
        }
    }

    /// The words of the parameter's possible types, without lengths, each with whether it is a list.
    pub fn types(&self) -> Vec<(&str, bool)> {
        let ty = ["Optional[", "Union["].iter().fold(self.ty.as_str(), |ty, word| ty.strip_prefix(word).unwrap_or(ty));
        let types = ty.split([',', '|']).filter_map(|ty| {
            let ty = ty.trim().trim_start_matches("torch.").trim_end_matches('?');
            let (ty, list) = match ty.strip_prefix("list[").or(ty.strip_prefix("List[")) {
                Some(of) => (of, true),
                None => (ty, ty.contains('[')),
            };
            let word = ty.split(['[', '(', ']']).next().unwrap_or(ty);
            // PyTorch's Python documents dtypes as `int`.
            let word = if self.name == "dtype" && word == "int" { "ScalarType" } else { word };
            (!matches!(word, "" | "None" | "NoneType")).then_some((word, list))
        });
        types.collect()
    }

    /// Whether a call may leave the parameter out.
    pub fn is_optional(&self) -> bool {
        self.default.is_some() || self.rest || self.ty.ends_with('?') || self.ty.starts_with("Optional[")
    }

    /// Whether the parameter has this name; the `self` of methods is the `input` of functions.
    pub fn is(&self, name: &str) -> bool {
        self.name == name || matches!((self.name.as_str(), name), ("self", "input"))
    }
}

#[cfg(test)]
mod tests {
    use super::is_default;

    #[test]
    fn defaults_are_compared_as_values() {
        for (theirs, ours) in
            [("[0,2,3]", "[0, 2, 3]"), ("(1, 1)", "[1,1]"), ("[1.0]", "1"), ("NOTSET", "notset"), ("[]", "[]")]
        {
            assert!(is_default(theirs, ours), "{theirs} {ours}");
        }
        for (theirs, ours) in [("[0,2,3]", "[0, 3, 2]"), ("[1,1]", "[1, 1, 1]"), ("[1,2]", "[12]"), ("[0]", "false")] {
            assert!(!is_default(theirs, ours), "{theirs} {ours}");
        }
    }
}
