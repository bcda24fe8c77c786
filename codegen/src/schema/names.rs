//! E012: names that can't be names. They become Rust and CUDA C functions, files, and words of the rule languages.

use fulgurite_core::lang::{Ident, OptType, Sig};

use super::pointwise::CONSTANTS;
use super::{LIBRARIES, Rule};
use crate::diag::Diag;
use crate::source::Place;
use crate::yaml::Text;

/// Words of the rule languages.
const WORDS: &[&str] = &["let", "if", "else", "match", "as", "in", "_", "skip"];

/// Keywords of CUDA C (C++17) in small letters: kernels and their arguments carry the row's names.
const CUDA: &[&str] = &[
    "alignas",
    "alignof",
    "and",
    "asm",
    "auto",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "class",
    "const",
    "constexpr",
    "continue",
    "decltype",
    "default",
    "delete",
    "do",
    "double",
    "else",
    "enum",
    "explicit",
    "export",
    "extern",
    "float",
    "for",
    "friend",
    "goto",
    "if",
    "inline",
    "int",
    "long",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "nullptr",
    "operator",
    "or",
    "private",
    "protected",
    "public",
    "register",
    "restrict",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "struct",
    "switch",
    "template",
    "this",
    "throw",
    "try",
    "typedef",
    "typeid",
    "typename",
    "union",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "while",
    "xor",
];

/// Why a word can't be a name at all.
fn fault(word: &str) -> Option<&'static str> {
    let mut letters = word.chars();
    let start = letters.next().is_some_and(|c| c.is_ascii_lowercase() || c == '_');
    if !start || !letters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_') {
        return Some("names match [a-z_][a-z0-9_]*");
    }
    if CUDA.contains(&word) {
        return Some("it is a keyword of CUDA C");
    }
    if WORDS.contains(&word) || CONSTANTS.contains(&word) {
        return Some("it is a word of the rule languages");
    }
    None
}

/// What to do about a name that is taken or illegal.
fn other_name(name: &str) -> String {
    let legal: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect();
    let legal = if legal.starts_with(|c: char| c.is_ascii_digit()) { format!("n{legal}") } else { legal };
    let free = |word: &str| fault(word).is_none() && word != "out" && word != "g" && !word.starts_with("g_");
    if free(&legal) { format!("call it `{legal}`") } else { format!("rename it: `{legal}_` would do") }
}

/// Checks the name of a row: `softmax`, `matmul.mv`, `aten.constant_pad_nd`.
pub(super) fn check_op(op: &Text) -> Option<Diag> {
    let name = op.as_str();
    let error = |why: &str| {
        let shown: String = name.chars().take(40).collect();
        let diag = Diag::error("E012", op.place, format!("`{}` can't be the name of a row", shown.escape_debug()));
        Some(diag.here(why).help("rename the row"))
    };
    if name == "clone" {
        return error("every tensor handle has a method of this name");
    }
    if let Some((library, rest)) = name.split_once('.')
        && LIBRARIES.contains(&library)
    {
        // a name of that library, whatever its habits
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let fits = rest.split('.').all(|s| !s.is_empty() && s.chars().all(legal));
        return if fits { None } else { error("names of other libraries have letters, digits and `_`") };
    }
    if name.split('.').count() > 3 {
        return error("a name has at most three segments");
    }
    for (at, segment) in name.split('.').enumerate() {
        if let Some(why) = fault(segment) {
            return error(why);
        }
        if at > 0 && matches!(segment, "vjp" | "jvp" | "d") {
            return error("derived rows are named so");
        }
    }
    None
}

/// Checks the names of arguments, options and results.
pub(super) fn check_sig(rule: &Rule<Sig>, op: &str) -> Vec<Diag> {
    let mut faults = Vec::new();
    let mut seen: Vec<&Ident> = Vec::new();
    let sig = &rule.tree;
    for opt in &sig.opts {
        let place = rule.text.at(opt.name.span);
        if let OptType::Enum(words) = &opt.ty
            && let Some(twice) =
                words.iter().enumerate().find(|(n, word)| words[..*n].contains(word)).map(|(_, word)| word)
        {
            let diag =
                Diag::error("E012", place, format!("`{}` of `{op}` has the word `{twice}` twice", opt.name.name));
            faults.push(diag.help("each word of an `enum` is another choice: delete one"));
        }
        if let (true, Some(default)) = (opt.optional, &opt.default) {
            let claim = format!("`{}` of `{op}` has a `?` and a default", opt.name.name);
            let diag = Diag::error("E012", place, claim).here("left out, it is the default, and never absent");
            faults.push(diag.help(format!("delete the `?`, or ` = {default}`")));
        }
    }
    let params = sig.params.iter().map(|param| (&param.name, "an argument"));
    let opts = sig.opts.iter().map(|opt| (&opt.name, "an option"));
    let named = sig.outs.iter().chain(&sig.aux).filter(|_| sig.named_outs).map(|out| (&out.name, "a result"));
    for (ident, what) in params.chain(opts).chain(named) {
        let name = ident.name.as_str();
        let place: Place = rule.text.at(ident.span);
        let reserved = what != "a result" && name == "out" || name == "g" || name.starts_with("g_");
        let why = match name {
            _ if reserved => Some("gradient rules call results `out` and cotangents `g`"),
            name => fault(name),
        };
        if let Some(why) = why {
            let diag = Diag::error("E012", place, format!("`{name}` can't be {what} of `{op}`")).here(why);
            faults.push(diag.help(other_name(name)));
        } else if let Some(first) = seen.iter().find(|other| other.name == ident.name) {
            let diag = Diag::error("E012", place, format!("`{op}` uses the name `{name}` twice"));
            faults.push(diag.here("here again").label(rule.text.at(first.span), "first here"));
        }
        seen.push(ident);
    }
    faults
}
