//! Tensor subclasses at run time.

use super::{Symbol, SymbolRef};
use fulgurite_core::Name;
use fulgurite_core::row::RowText;
use fulgurite_core::subclass::{self, ClassText};
use std::any::Any;
use std::sync::OnceLock;

/// A tensor subclass of some database, or of a type with `#[derive(TensorSubclass)]`. Its texts are parsed on first use.
pub struct Subclass {
    /// The crate that declares it.
    pub krate: &'static str,
    /// Its texts.
    pub text: ClassText,
    parsed: OnceLock<subclass::Class>,
    ports: OnceLock<[SymbolRef; 3]>,
    /// A rule that is a function.
    rule: Option<&'static dyn Native>,
}

/// A rule that is a function over tensors, for whoever runs such: `call` is what `bind` passes.
pub trait Native: Send + Sync {
    /// Runs it.
    fn run(&self, call: &mut dyn Any);
}

/// Two classes are the same if they are one object.
pub type SubclassRef = &'static Subclass;

inventory::collect!(SubclassRef);

/// What a symbol does to tensors of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Port {
    /// Makes one of its fields.
    Unflatten,
    /// Gives its fields.
    Flatten,
    /// Gives the plain tensor that it stands for.
    Plain,
}

impl Port {
    /// All, in the order of [`subclass::ports`].
    pub const ALL: [Port; 3] = [Port::Unflatten, Port::Flatten, Port::Plain];

    /// The second part of the symbol's name.
    pub fn word(self) -> &'static str {
        match self {
            Port::Unflatten => "unflatten",
            Port::Flatten => "flatten",
            Port::Plain => "plain",
        }
    }
}

impl Subclass {
    /// A class from emitted texts.
    pub const fn new(krate: &'static str, text: ClassText) -> Subclass {
        Subclass { krate, text, parsed: OnceLock::new(), ports: OnceLock::new(), rule: None }
    }

    /// The same with a rule that is a function: for operators for which the texts have none.
    pub const fn ruled(krate: &'static str, text: ClassText, rule: &'static dyn Native) -> Subclass {
        Subclass { krate, text, parsed: OnceLock::new(), ports: OnceLock::new(), rule: Some(rule) }
    }

    /// Its rule that is a function.
    pub fn native(&self) -> Option<&'static dyn Native> {
        self.rule
    }

    /// Its name.
    pub fn name(&self) -> Name {
        Name::new(self.text.class)
    }

    /// Its rules.
    pub fn rules(&self) -> &subclass::Class {
        self.parsed.get_or_init(|| match subclass::Class::parse(&self.text) {
            Ok(class) => class,
            // invariant: codegen and the derive macro emit only texts that they parsed
            Err(e) => unreachable!("the class `{}` does not parse: {}: {}", self.text.class, e.text, e.error),
        })
    }

    /// The symbol that makes its tensors or takes them apart.
    pub fn port(&'static self, port: Port) -> SymbolRef {
        let ports = self.ports.get_or_init(|| {
            let rows = subclass::ports(self.rules());
            let mut rows = rows.into_iter().zip(Port::ALL).map(|(row, port)| {
                let sig: &'static str = Box::leak(row.sig.to_string().into_boxed_str());
                let ClassText { file, line, .. } = self.text;
                let text = RowText { op: row.op.as_str(), doc: self.text.doc, sig, file, line, ..RowText::BLANK };
                Symbol::leak_port(self, port, text, row)
            });
            // invariant: as many rows as ports
            std::array::from_fn(|_| rows.next().unwrap_or_else(|| unreachable!("a class has three ports")))
        });
        ports[port as usize]
    }

    /// Where a rule stands, for messages.
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
