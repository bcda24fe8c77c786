//! The table of the keys of a row: order, types and descriptions. The reader, `fmt`, `explain keys` and the JSON Schema
//! use it.

use super::kinds;
use fulgurite_core::row::Ties;

/// The form of a value in YAML.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// A text, number or truth value, as it is written.
    Text,
    /// One sentence on one line, without a full stop.
    Sentence,
    /// One of these words, or a choice between them by `if` or `match`; classes of dtypes may be added and subtracted.
    Chosen(&'static [&'static str]),
    /// One of these words.
    One(&'static [&'static str]),
    /// `true`, `false` or a list of texts.
    TruthOrList,
    /// A list.
    List(&'static Form),
    /// A map with arbitrary keys.
    Map(&'static Form),
    /// A map with these keys.
    Keys(&'static [Key]),
    /// A value that another reader checks.
    Any,
}

/// A key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The key's name.
    pub name: &'static str,
    /// The key's description.
    pub says: &'static str,
    /// The form of its value.
    pub form: Form,
}

const fn key(name: &'static str, form: Form, says: &'static str) -> Key {
    Key { name, says, form }
}

/// Keys of a row, in canonical order. Any other key is E004.
pub const KEYS: &[Key] = &[
    key("op", Form::Text, "the operator's name; `op: name.kind` is an overload"),
    key("doc", Form::Sentence, "one sentence on one line, without a full stop"),
    key("sig", Form::Text, "signature `(arguments; options) -> results`; may be left out for a pointwise `expr`"),
    key(
        "promote",
        Form::Chosen(kinds::PROMOTE),
        "promotion kind: default float bool real keep equal join long_if_bool long_if_int",
    ),
    key(
        "dtypes",
        Form::Chosen(kinds::CLASSES),
        "accepted dtypes, before promotion: names and classes with `+` and `-`",
    ),
    key("ties", Form::One(&Ties::WORDS), "whose gradient a maximum is: first, last or even"),
    key("require", Form::Map(&Form::Text), "condition: message"),
    key("acc", Form::Chosen(kinds::ACC), "accumulation type; default: wide"),
    key("expr", Form::Text, "meaning in scalar or index notation"),
    key("view", Form::Text, "meaning in index notation, and the result shares the argument's storage"),
    key("decomp", Form::Text, "meaning in the tensor language"),
    key("host", Form::Text, "meaning by a primitive of the runtime"),
    key("kernels", Form::Map(&Form::Text), "executor: special kernel that may claim the row"),
    key("at", Form::Map(&Form::Map(&Form::Text)), "condition: {argument: partial}: conventions at kinks"),
    key("grad", Form::Map(&Form::Text), "argument: VJP rule in the tensor language; must equal the derived one"),
    key("jvp", Form::Map(&Form::Text), "argument: JVP rule in the tensor language; must equal the derived one"),
    key("skip_vjp", Form::TruthOrList, "true, false or a list of arguments: asserts that no gradient flows"),
    key("no_grad", Form::Text, "why the row has no gradient"),
    key("deviates", Form::Text, "why its gradient differs from the true derivative"),
    key("once", Form::Text, "why its written gradient can't be differentiated again"),
    key("rounds", Form::Text, "why it rounds to f16 or bf16 between its parts"),
    key("subclass", Form::Map(&Form::Text), "subclass: what the row is on its tensors, a rule as in the class's `ops`"),
    key("autocast", Form::Any, "exceptions from the derived autocast class"),
    key(
        "aten",
        Form::List(&Form::Text),
        "PyTorch's ATen overloads that the row is: `name`, or `name(parameters; fixed)`",
    ),
    key("torch", Form::List(&Form::Text), "PyTorch functions that the row is: `name`, or `name(parameters; fixed)`"),
    key("onnx", Form::List(&Form::Text), "ONNX operators that the row is, `name` or `name.version`, likewise"),
    key("tests", Form::Keys(HINTS), "domain, points: for which numbers the row is meant, and examples"),
];

/// Keys of a tensor subclass, in canonical order.
pub const CLASS: &[Key] = &[
    key("class", Form::Text, "the name of the class: a word that starts with a capital"),
    key("doc", Form::Sentence, "one sentence on one line, without a full stop"),
    key("sig", Form::Text, "signature `(fields; metadata) -> the type that programs see`"),
    key("plain", Form::Text, "the plain tensor that it stands for, of fields and metadata"),
    key("ops", Form::Map(&Form::Text), "operators, or class(view|pointwise|any): `error`, `plain`, `each` or a rule"),
    key("default", Form::Text, "the rule of every other operator; `error` if absent"),
    key("grad", Form::Map(&Form::Map(&Form::Text)), "operator: argument: its cotangent"),
    key("through", Form::Text, "true: operators without such a gradient are differentiated through their rules"),
    key("cotangent", Form::Text, "what a cotangent is: `plain`, `same`, or how one is made of a plain `g`"),
    key("read", Form::Text, "what `to_vec` and `item` read: a field, `equal`, or `error`"),
    key("precedence", Form::Text, "an integer: of the classes in a call, the one with the greatest decides"),
    key("error", Form::Keys(BOUND), "how far operators may be from the plain ones"),
    key("from", Form::List(&Form::Any), "rows that make such tensors; their result is `T[_]`"),
];

/// Keys of `error` of a tensor subclass.
pub const BOUND: &[Key] = &[
    key("rel", Form::Text, "in relation to the magnitude of an element, of fields and metadata"),
    key("abs", Form::Text, "besides that"),
    key("when", Form::Text, "of which tensors that is said: a truth of fields, everywhere"),
];

pub const fn names<const N: usize>(keys: &[Key]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut i = 0;
    while i < N {
        names[i] = keys[i].name;
        i += 1;
    }
    names
}

/// Keys of `tests`.
pub const HINTS: &[Key] = &[
    key("domain", Form::Map(&Form::Text), "argument: range `lo..hi` from which its values are drawn"),
    key("points", Form::List(&Form::Any), "values and gradients at special points: `{x: 0, out: 1}`"),
];

/// Keys of the file, in canonical order.
pub const FILE_KEYS: [&str; 4] = ["points", "calls", "subclasses", "ops"];

/// The keys that give the meaning, of which a row has exactly one.
pub const BODIES: [&str; 4] = ["expr", "view", "decomp", "host"];
