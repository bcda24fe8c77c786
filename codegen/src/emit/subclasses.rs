//! Tensor subclasses: each class's texts as a static.

use super::symbols::{literal, pairs};
use super::{Target, names};
use crate::schema::ClassSource;
use crate::source::Sources;
use fulgurite_core::Name;
use std::fmt::Write;

/// The static of a class.
pub fn unit(target: &Target, class: &ClassSource, sources: &Sources) -> String {
    let file = &sources.file(class.class.place.file).path;
    let line = sources.line(class.class.place);
    let optional = |text: &Option<crate::yaml::Text>| literal(text.as_ref().map_or("", |t| t.as_str()));
    let grads: Vec<String> = class
        .grad
        .iter()
        .map(|(op, args)| {
            format!("({}, {})", literal(op.as_str()), pairs(args.iter().map(|(a, rule)| (&a.text, &rule.tree))))
        })
        .collect();
    let bound = |key: &str| {
        let found = class.error.iter().find(|(k, _)| k.text == key);
        literal(found.map_or("", |(_, text)| text.as_str()))
    };
    let mut text = names::stamp(file, line, class.class.as_str());
    let runtime = target.runtime;
    let _ = writeln!(
        text,
        "/// {doc}
pub static {constant}: {runtime}::subclass::Subclass = {runtime}::subclass::Subclass::new(
    {krate:?},
    {runtime}::subclass::ClassText {{
        class: {class},
        doc: {doc_text},
        sig: {sig},
        plain: {plain},
        ops: {ops},
        default: {default},
        grad: &[{grads}],
        cotangent: {cotangent},
        through: {through},
        read: {read},
        precedence: {precedence},
        error: ({rel}, {abs}),
        when: {when},
        file: {file},
        line: {line},
    }},
);
",
        doc = class.doc.text,
        constant = constant(class.name()),
        krate = target.krate,
        class = literal(class.class.as_str()),
        doc_text = literal(&class.doc.text),
        sig = literal(&class.sig.tree.to_string()),
        plain = literal(&class.plain.tree.to_string()),
        ops = pairs(class.ops.iter().map(|(t, rule)| (&t.text, &rule.text))),
        default = optional(&class.default),
        grads = grads.join(", "),
        cotangent = optional(&class.cotangent),
        through = class.through,
        read = optional(&class.read),
        precedence = optional(&class.precedence),
        rel = bound("rel"),
        abs = bound("abs"),
        when = bound("when"),
        file = literal(file),
    );
    text
}

/// `FLOAT8_TENSOR` for `Float8Tensor`.
pub fn constant(class: Name) -> String {
    let mut out = String::new();
    for (i, c) in class.as_str().chars().enumerate() {
        if i > 0 && c.is_uppercase() {
            out.push('_');
        }
        out.extend(c.to_uppercase());
    }
    out
}
