//! E012: checks names, which become names of Rust and CUDA C functions and of files, and words of the rule languages.

use fulgurite_core::Name;
use fulgurite_core::foreign::LIBRARIES;
use fulgurite_core::lang::{Ident, OptType, Sig};

use super::Rule;
use super::pointwise::CONSTANTS;
use crate::camel::camel;
use crate::diag::Diag;
use crate::source::Place;
use crate::yaml::Text;

/// Words of the rule languages.
const WORDS: &[&str] = &["let", "if", "else", "match", "as", "in", "_", "skip"];

/// Keywords of CUDA C (C++17) in small letters, apart by spaces, since kernels and their arguments have the row's names.
const CUDA: &str = "
    alignas alignof and asm auto bool break case catch char class const constexpr continue decltype default delete
    do double else enum explicit export extern float for friend goto if inline int long mutable namespace new
    noexcept not nullptr operator or private protected public register restrict return short signed sizeof static
    struct switch template this throw try typedef typeid typename union unsigned using virtual void volatile while
    xor
";

/// At most this many letters of a name, because files and kernels are named after rows. Names of other libraries may be
/// longer, since they include modules.
const LONGEST: usize = 64;
const LONGEST_PATH: usize = 128;

/// The message for a malformed name. The form ensures that different names stay different in Rust, where `_` is
/// appended to keywords and removed from types.
pub const FORM: &str = "a name is words of small letters and digits with one `_` between them";

/// Whether a word has the form `log`, `max_pool2`.
pub fn is_name(word: &str) -> bool {
    let part = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    word.starts_with(|c: char| c.is_ascii_lowercase()) && word.split('_').all(part)
}

/// The reason why a word can't be a name.
fn fault(word: &str) -> Option<&'static str> {
    if !is_name(word) {
        return Some(FORM);
    }
    if word.len() > LONGEST {
        return Some("a name has at most 64 letters");
    }
    if CUDA.split_whitespace().any(|keyword| keyword == word) {
        return Some("it is a keyword of CUDA C");
    }
    if WORDS.contains(&word) || CONSTANTS.contains(&word) {
        return Some("it is a word of the rule languages");
    }
    None
}

/// The text with the characters removed that a name cannot have: `a__B` is `a_b`.
fn legal(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let name = words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("_");
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("n{name}") } else { name }
}

/// Whether rules use the name for results or cotangents.
fn is_reserved(name: &str) -> bool {
    name == "out" || name == "g" || name.starts_with("g_")
}

/// Advice on an unusable name; the names in `taken` are in use.
fn other_name(name: &str, taken: &[Name]) -> String {
    let free = |word: &String| fault(word).is_none() && !is_reserved(word) && taken.iter().all(|name| *name != **word);
    let legal = legal(name);
    match [legal.clone(), format!("the_{legal}")].into_iter().find(free) {
        Some(free) => format!("rename it: `{free}` would do"),
        None => "rename it".to_owned(),
    }
}

/// Advice on the unusable name of a row; an overload has a part of its own after a dot.
fn other_row(name: &str) -> String {
    let parts: Vec<String> = name.split('.').map(legal).collect();
    match parts.iter().all(|part| fault(part).is_none()) && parts.join(".") != name {
        true => format!("rename the row: `{}` would do", parts.join(".")),
        false => "rename the row".to_owned(),
    }
}

/// A name in the form shown in messages.
fn shown(name: &str) -> String {
    let start: String = name.chars().take(LONGEST).collect();
    let rest = if start.len() < name.len() { "…" } else { "" };
    format!("{}{rest}", start.escape_debug())
}

/// Checks the name of a row: `softmax`, `matmul.mv`, `aten.constant_pad_nd`.
pub(super) fn check_op(op: &Text) -> Option<Diag> {
    let name = op.as_str();
    let error = |why: &str| {
        let diag = Diag::error("E012", op.place, format!("`{}` can't be the name of a row", shown(name)));
        Some(diag.here(why).help(other_row(name)))
    };
    if name == "clone" {
        return error("every tensor handle has a method of this name");
    }
    if let Some((library, rest)) = name.split_once('.')
        && LIBRARIES.contains(&library)
    {
        // A name of that library, which may not follow our conventions.
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let part = |part: &str| {
            part.chars().all(legal) && part.trim_start_matches('_').starts_with(|c: char| c.is_ascii_alphabetic())
        };
        return match rest.split('.').all(part) {
            false => error("names of other libraries have letters, digits and `_`, a letter first"),
            true if name.len() > LONGEST_PATH => error("a name with its modules has at most 128 letters"),
            true => None,
        };
    }
    if name.len() > LONGEST {
        return error("a name has at most 64 letters");
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
        if let OptType::Enum(words) = &opt.ty {
            faults.extend(word_fault(op, opt.name, words, place));
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
    let idents: Vec<(&Ident, &str)> = params.chain(opts).chain(named).collect();
    let all: Vec<Name> = idents.iter().map(|(ident, _)| ident.name).collect();
    for (ident, what) in idents {
        let name = ident.name.as_str();
        let place: Place = rule.text.at(ident.span);
        let reserved = is_reserved(name) && (what != "a result" || name != "out");
        let why = match name {
            _ if reserved => Some("gradient rules call results `out` and cotangents `g`"),
            "options" => Some("functions in Rust take all options under this name"),
            name => fault(name),
        };
        if let Some(why) = why {
            let diag = Diag::error("E012", place, format!("`{}` can't be {what} of `{op}`", shown(name))).here(why);
            faults.push(diag.help(other_name(name, &all)));
        } else if let Some(first) = seen.iter().find(|other| other.name == ident.name) {
            let diag = Diag::error("E012", place, format!("`{op}` uses the name `{name}` twice"));
            faults.push(diag.here("here again").label(rule.text.at(first.span), "first here"));
        }
        seen.push(ident);
    }
    faults
}

/// The fault in the words of an `enum`: each becomes a variant in Rust, `a_b` is `AB`.
fn word_fault(op: &str, opt: Ident, words: &[Name], place: Place) -> Option<Diag> {
    let opt = opt.name;
    if let Some(word) = words.iter().find(|word| !is_name(word.as_str()) || word.as_str().len() > LONGEST) {
        let word = word.as_str();
        let why = if is_name(word) { "a name has at most 64 letters" } else { FORM };
        let diag = Diag::error("E012", place, format!("`{}` can't be a word of `{opt}` of `{op}`", shown(word)));
        return Some(diag.here(why).help(other_name(word, words)));
    }
    let (first, second) = words.iter().enumerate().find_map(|(n, word)| {
        words[..n].iter().find(|other| camel(other.as_str()) == camel(word.as_str())).map(|other| (other, word))
    })?;
    if first == second {
        let diag = Diag::error("E012", place, format!("`{opt}` of `{op}` has the word `{first}` twice"));
        return Some(diag.help("each word of an `enum` is another choice: delete one"));
    }
    let claim = format!("`{opt}` of `{op}` has the words `{first}` and `{second}`");
    let diag = Diag::error("E012", place, claim).here(format!("in Rust both are `{}`", camel(second.as_str())));
    Some(diag.help("rename one of them"))
}
