//! Tensor subclasses: the entries of `subclasses:`.

use fulgurite_core::Name;
use fulgurite_core::lang::ast::{Block, Sig};
use fulgurite_core::lang::{parse_rule, parse_sig};
use fulgurite_core::subclass::{Bound, Class, Cotangent, Read};

use super::fields::Fields;
use super::{RowSource, Rule, keys, row};
use crate::diag::{Diag, Diagnostics};
use crate::nearest::nearest;
use crate::source::Place;
use crate::yaml::{Node, ScalarKind, Text, Value};

/// Keys of a class, in canonical order.
pub const CLASS_KEYS: [&str; 13] = keys::names(keys::CLASS);

/// Words that authors write for one of our keys.
const SYNONYMS: &[(&str, &str)] = &[
    ("rules", "ops"),
    ("fields", "sig"),
    ("name", "class"),
    ("dense", "plain"),
    ("makers", "from"),
    ("tolerance", "error"),
];

/// Keys of `error`.
pub const BOUNDS: [&str; 3] = keys::names(keys::BOUND);

/// Rules by argument.
pub type Rules = Vec<(Text, Rule<Block>)>;

/// A class with its texts parsed.
#[derive(Clone, Debug)]
pub struct ClassSource {
    /// The whole entry.
    pub place: Place,
    /// The name of the class.
    pub class: Text,
    /// The documentation, one sentence.
    pub doc: Text,
    /// Fields, metadata, and the type that programs see.
    pub sig: Rule<Sig>,
    /// The plain tensor.
    pub plain: Rule<Block>,
    /// Rules by operators or kinds.
    pub ops: Vec<(Text, Text)>,
    /// The rule of every other operator.
    pub default: Option<Text>,
    /// Gradients by operator: cotangents by argument.
    pub grad: Vec<(Text, Rules)>,
    /// Whether the gradient goes through the rules.
    pub through: bool,
    /// The form of cotangents.
    pub cotangent: Option<Text>,
    /// The value that reading yields.
    pub read: Option<Text>,
    /// The precedence among several classes in a call.
    pub precedence: Option<Text>,
    /// The error bounds of operators: `rel` and `abs`; `when` limits the tensors for which they hold.
    pub error: Vec<(Text, Text)>,
    /// Rows that make tensors of the class.
    pub from: Vec<RowSource>,
}

impl ClassSource {
    /// The name of the class.
    pub fn name(&self) -> Name {
        Name::new(self.class.as_str())
    }

    /// The class in the form of core; the reader has parsed its texts.
    pub fn lower(&self) -> Option<Class> {
        let mut rules = Vec::new();
        for (targets, rule) in &self.ops {
            let rule = Class::rule(rule.as_str()).ok()?;
            rules.extend(targets.as_str().split_whitespace().map(|t| (Class::target(t), rule.clone())));
        }
        let bound = |key: &str| {
            let found = self.error.iter().find(|(k, _)| *k == key);
            found.and_then(|(_, text)| parse_rule(text.as_str()).ok())
        };
        let rules_of = |args: &Rules| args.iter().map(|(a, rule)| (Name::new(a.as_str()), rule.tree.clone())).collect();
        Some(Class {
            name: self.name(),
            sig: self.sig.tree.clone(),
            plain: self.plain.tree.clone(),
            rules,
            default: Class::rule(self.default.as_ref().map_or("", Text::as_str)).ok()?,
            grads: self.grad.iter().map(|(op, args)| (Name::new(op.as_str()), rules_of(args))).collect(),
            cotangent: match self.cotangent.as_ref().map_or("", Text::as_str) {
                "" | "plain" => Cotangent::Plain,
                "same" => Cotangent::Same,
                made => Cotangent::Made(parse_rule(made).ok()?),
            },
            through: self.through,
            read: match self.read.as_ref().map_or("", Text::as_str) {
                "" | "error" => Read::Error,
                "equal" => Read::Equal,
                field => Read::Field(Name::new(field)),
            },
            precedence: self.precedence.as_ref().and_then(|p| p.as_str().parse().ok()),
            error: Bound { rel: bound("rel"), abs: bound("abs"), when: bound("when") },
        })
    }
}

/// Reads the list of classes.
pub(super) fn read(node: Node, diags: &mut Diagnostics) -> Vec<ClassSource> {
    let Value::List(items) = node.value else {
        let diag =
            Diag::error("E005", node.place, format!("{} stands where the list of subclasses belongs", node.kind()));
        diags.push(diag.help("each class starts with `- class: Name`"));
        return Vec::new();
    };
    let mut classes: Vec<ClassSource> = Vec::new();
    for item in items {
        let Some(class) = one(item, diags) else { continue };
        match classes.iter().find(|c| c.class.text == class.class.text) {
            Some(first) => {
                let diag = Diag::error("E008", class.class.place, format!("there are two classes `{}`", class.name()));
                diags.push(diag.here("here again").label(first.class.place, "first here"));
            }
            None => classes.push(class),
        }
    }
    classes
}

fn one(node: Node, diags: &mut Diagnostics) -> Option<ClassSource> {
    let place = node.place;
    let Value::Map(mut entries) = node.value else {
        let diag = Diag::error("E005", place, format!("{} stands where a subclass belongs", node.kind()));
        diags.push(diag.help("a class is `- class: Name` and its other keys below"));
        return None;
    };
    let mut take = |key: &str| entries.iter().position(|(k, _)| *k == key).map(|at| entries.remove(at).1);
    let [class, doc, sig, plain, ops, default, grad, through, cotangent, read, precedence, error, from] =
        CLASS_KEYS.map(&mut take);
    let mut rows = Vec::new();
    let mut misplaced = None;
    match from {
        Some(Node { value: Value::List(items), .. }) => {
            rows.extend(items.into_iter().filter_map(|item| row::read(item, diags).1));
        }
        other => misplaced = other,
    }
    let mut fields = Fields::new(diags);
    let Some(class) = class else {
        let row = entries.iter().any(|(key, _)| *key == "op");
        let help = if row {
            "rows stand below `ops:`; those that make tensors of a class below its `from`"
        } else {
            "it starts with `- class: Name`"
        };
        fields.error(Diag::error("E004", place.head(), "a subclass has no key `class`").help(help));
        return None;
    };
    let class = fields.text(class, "class")?;
    fields.op = class.text.clone();
    if !class.text.starts_with(char::is_uppercase) || !class.text.chars().all(char::is_alphanumeric) {
        let diag = Diag::error("E007", class.place, format!("`{}` can't be the name of a subclass", class.text));
        fields.error(diag.help("it is a word that starts with a capital: `Float8Tensor`"));
    }
    for (key, _) in &entries {
        let diag = Diag::error("E004", key.place, format!("`{}` is no key of a subclass", key.text));
        let synonym = SYNONYMS.iter().find(|(other, _)| *key == **other).map(|(_, ours)| *ours);
        fields.error(match synonym.or_else(|| nearest(key.as_str(), CLASS_KEYS)) {
            Some(near) => diag.help(format!("did you mean `{near}`?")),
            None => diag.help(format!("its keys are {}", CLASS_KEYS.join(", "))),
        });
    }
    for (key, given) in [("doc", doc.is_some()), ("sig", sig.is_some()), ("plain", plain.is_some())] {
        if !given {
            let diag = Diag::error("E004", class.place, format!("the subclass `{}` has no key `{key}`", class.text));
            let says = keys::CLASS.iter().find(|known| known.name == key).map_or("", |known| known.says);
            fields.error(diag.help(format!("add `{key}`: {says}")));
        }
    }
    if let Some(node) = misplaced {
        let hint = "write `- op: name` on lines below, with the keys of a row";
        fields.wrong_type(&node, "from", "a list of rows", Some(hint));
    }
    let doc = doc.and_then(|n| fields.sentence(n, "doc"));
    let sig = sig.and_then(|n| fields.rule(n, "sig", parse_sig));
    let plain = plain.and_then(|n| fields.rule(n, "plain", parse_rule));
    let mut optional = |node: Option<Node>, key: &str| node.and_then(|n| fields.rule_text(n, key));
    let (default, cotangent) = (optional(default, "default"), optional(cotangent, "cotangent"));
    let (read, precedence) = (optional(read, "read"), optional(precedence, "precedence"));
    let through = through.is_some_and(|node| match node.value {
        Value::Scalar(Text { kind: ScalarKind::Bool(through), .. }) => through,
        _ => {
            let hint = "write `true`; in YAML `yes` and `on` are texts";
            fields.wrong_type(&node, "through", "`true` or `false`", Some(hint));
            false
        }
    });
    let ops = ops.map(|n| fields.texts(n, "ops")).unwrap_or_default();
    for text in ops.iter().map(|(_, rule)| rule).chain(&default) {
        if !matches!(text.as_str(), "error" | "plain" | "each" | "placed") {
            fields.rule_of(text.clone(), "ops", parse_rule);
        }
    }
    if let Some(text) = cotangent.iter().find(|t| !matches!(t.as_str(), "plain" | "same")) {
        fields.rule_of(text.clone(), "cotangent", parse_rule);
    }
    let mut grads = Vec::new();
    for (op, args) in grad.map(|n| fields.map(n, "grad")).unwrap_or_default() {
        let rules = fields.map(args, "grad").into_iter();
        let rules = rules.filter_map(|(arg, n)| Some((arg, fields.rule(n, "grad", parse_rule)?))).collect();
        grads.push((op, rules));
    }
    let error = error.map(|n| fields.texts(n, "error")).unwrap_or_default();
    for (key, text) in &error {
        if !BOUNDS.contains(&key.as_str()) {
            let diag = Diag::error("E004", key.place, format!("`{}` is no key of `error`", key.text));
            fields.error(diag.help(format!("its keys are {}", BOUNDS.join(", "))));
        }
        fields.rule_of(text.clone(), "error", parse_rule);
    }
    if fields.broken {
        return None;
    }
    Some(ClassSource {
        place,
        class,
        doc: doc?,
        sig: sig?,
        plain: plain?,
        ops,
        default,
        grad: grads,
        through,
        cotangent,
        read,
        precedence,
        error,
        from: rows,
    })
}
