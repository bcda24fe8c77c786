//! Tensor subclasses at run time.

use super::{Symbol, SymbolRef};
use fulgurite_core::Name;
use fulgurite_core::row::RowText;
use fulgurite_core::subclass::{self, ClassText};
use std::any::Any;
use std::sync::OnceLock;

/// A tensor subclass of a database, or of a type with `#[derive(TensorSubclass)]`. Its texts are parsed when they are
/// first used.
pub struct Subclass {
    /// The crate that declares it.
    pub krate: &'static str,
    /// The texts of the class.
    pub text: ClassText,
    parsed: OnceLock<subclass::Class>,
    ports: OnceLock<[SymbolRef; 3]>,
    /// A rule that is a Rust function.
    rule: Option<&'static dyn Native>,
}

/// A rule that is a Rust function over tensors; `call` is the value that `bind` passes to it.
pub trait Native: Send + Sync {
    /// Runs the rule.
    fn run(&self, call: &mut dyn Any);
}

/// Two classes are equal if they are one object.
pub type SubclassRef = &'static Subclass;

inventory::collect!(SubclassRef);

fulgurite_core::words! {
    /// The operation of a symbol on tensors of a class.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
    pub enum Port: word, from_word {
        /// Makes a tensor of its fields.
        Unflatten = "unflatten",
        /// Returns the fields of a tensor.
        Flatten = "flatten",
        /// Returns the plain tensor for which a tensor stands.
        Plain = "plain",
    }
}

impl Subclass {
    /// A class made of emitted texts.
    pub const fn new(krate: &'static str, text: ClassText) -> Subclass {
        Subclass { krate, text, parsed: OnceLock::new(), ports: OnceLock::new(), rule: None }
    }

    /// Like [`Subclass::new`], with a rule that is a Rust function, for operators for which the texts have no rule.
    pub const fn ruled(krate: &'static str, text: ClassText, rule: &'static dyn Native) -> Subclass {
        Subclass { krate, text, parsed: OnceLock::new(), ports: OnceLock::new(), rule: Some(rule) }
    }

    /// The rule that is a Rust function, if there is one.
    pub fn native(&self) -> Option<&'static dyn Native> {
        self.rule
    }

    /// The name of the class.
    pub fn name(&self) -> Name {
        Name::new(self.text.class)
    }

    /// The rules of the class.
    pub fn rules(&self) -> &subclass::Class {
        self.parsed.get_or_init(|| match subclass::Class::parse(&self.text) {
            Ok(class) => class,
            // invariant: codegen and the derive macro emit only texts that they parsed
            Err(e) => unreachable!("the class `{}` does not parse: {}: {}", self.text.class, e.text, e.error),
        })
    }

    /// The symbol that makes tensors of the class or takes them apart.
    pub fn port(&'static self, port: Port) -> SymbolRef {
        let ports = self.ports.get_or_init(|| {
            let [unflatten, flatten, plain] = subclass::ports(self.rules());
            [(Port::Unflatten, unflatten), (Port::Flatten, flatten), (Port::Plain, plain)].map(|(port, row)| {
                let sig: &'static str = Box::leak(row.sig.to_string().into_boxed_str());
                let ClassText { file, line, .. } = self.text;
                let text = RowText { op: row.op.as_str(), doc: self.text.doc, sig, file, line, ..RowText::BLANK };
                Symbol::leak_port(self, port, text, row)
            })
        });
        ports[port as usize]
    }

    /// The file and line of a rule, for messages.
    pub fn place(&self) -> String {
        format!("{}:{}", self.text.file, self.text.line)
    }
}

impl PartialEq for Subclass {
    fn eq(&self, other: &Subclass) -> bool {
        std::ptr::eq(self, other)
    }
}

impl std::fmt::Debug for Subclass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}::{}", self.krate, self.text.class)
    }
}
