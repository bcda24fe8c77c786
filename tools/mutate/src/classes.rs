//! Faults in the rules of tensor subclasses: lost metadata and dtypes.

use fulgurite_codegen::schema::Database;
use fulgurite_codegen::yaml::ScalarKind;
use fulgurite_core::Name;
use fulgurite_core::derive::walk;
use fulgurite_core::lang::{Arg, Block, Expr, Ident, Node, OptType, Span};
use fulgurite_core::subclass::{Class, Rule};

use super::kinds::Kind;
use super::page;

/// A database with a fault in one rule of a class.
#[derive(Clone, Debug)]
pub struct ClassMutant {
    /// The class.
    pub class: Name,
    /// The fault's kind.
    pub kind: Kind,
    /// The rule, and the rule with the fault.
    pub edit: (String, String),
    /// The whole database.
    pub text: String,
}

/// Every mutant of the rules of a database's classes; `text` is the text of the database.
pub fn mutants(database: &Database, text: &str) -> Vec<ClassMutant> {
    let mut all = Vec::new();
    for source in &database.classes {
        let Some(class) = source.lower() else { continue };
        for (_, rule) in &source.ops {
            let Ok(Rule::Block(block)) = Class::rule(rule.as_str()) else { continue };
            let written = &text[rule.place.range()];
            if rule.kind != ScalarKind::Text || written.contains('\n') {
                continue;
            }
            for faulty in faults(&class, &block) {
                let edit = (rule.as_str().to_owned(), faulty.to_string());
                let (start, end) = (rule.place.start as usize, rule.place.end as usize);
                let text = format!("{}{}{}", &text[..start], page::quoted(&edit.1), &text[end..]);
                all.push(ClassMutant { class: class.name, kind: Kind(44), edit, text });
            }
        }
    }
    all
}

/// The rule with metadata left out, taken from the first argument, or written out.
fn faults(class: &Class, block: &Block) -> Vec<Block> {
    let mut all = Vec::new();
    let mut change = |of: &dyn Fn(&[Arg]) -> Option<Vec<Arg>>| {
        let whole = walk::map_block(block, &mut |e| match &*e.node {
            Node::Call(f, args) if f.name == class.name => Some(Expr::new(Node::Call(*f, of(args)?), e.span)),
            _ => None,
        });
        if whole != *block && !all.contains(&whole) {
            all.push(whole);
        }
    };
    for opt in &class.sig.opts {
        let meta = opt.name.name;
        let is_it = |arg: &Arg| arg.name.is_some_and(|name| name.name == meta);
        let without = |args: &[Arg]| args.iter().filter(|arg| !is_it(arg)).cloned().collect::<Vec<_>>();
        change(&|args| Some(without(args)));
        change(&|args| {
            let first = |arg: &Arg| match &*arg.value.node {
                Node::Call(f, of) if is_it(arg) && f.name == "same" => {
                    Arg { value: of[0].value.clone(), ..arg.clone() }
                }
                _ => arg.clone(),
            };
            Some(args.iter().map(first).collect())
        });
        let written = match (&opt.ty, &opt.default) {
            (OptType::Dtype(_), _) => Some(Expr::name("f32")),
            (_, default) => default.clone(),
        };
        if let Some(value) = written {
            change(&|args| {
                let name = Some(Ident { name: meta, span: Span::default() });
                Some(without(args).into_iter().chain([Arg { name, value: value.clone() }]).collect())
            });
        }
    }
    all
}
