//! Interned identifiers: `Name` is a copyable handle, equal exactly where the texts are equal.
//!
//! Rule texts name the same few hundred things over and over, and environments are looked up by name on every
//! traced line; a handle makes both cheap. Texts live as long as the process.

use std::collections::HashMap;
use std::fmt;
use std::sync::{OnceLock, RwLock};

/// An interned identifier.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name(u32);

#[derive(Default)]
struct Interner {
    ids: HashMap<&'static str, u32>,
    texts: Vec<&'static str>,
}

fn interner() -> &'static RwLock<Interner> {
    static INTERNER: OnceLock<RwLock<Interner>> = OnceLock::new();
    INTERNER.get_or_init(Default::default)
}

impl Name {
    /// The handle of `text`.
    pub fn new(text: &str) -> Name {
        let lock = interner();
        if let Some(&id) = lock.read().unwrap_or_else(|e| e.into_inner()).ids.get(text) {
            return Name(id);
        }
        let mut table = lock.write().unwrap_or_else(|e| e.into_inner());
        if let Some(&id) = table.ids.get(text) {
            return Name(id);
        }
        let id = table.texts.len() as u32;
        let text: &'static str = Box::leak(text.to_owned().into_boxed_str());
        table.texts.push(text);
        table.ids.insert(text, id);
        Name(id)
    }

    /// The text of this name.
    pub fn as_str(self) -> &'static str {
        interner().read().unwrap_or_else(|e| e.into_inner()).texts[self.0 as usize]
    }

    /// A capital, then capitals, digits and underscores: the name of a size or a list of sizes.
    pub fn is_size(self) -> bool {
        let text = self.as_str();
        text.starts_with(|c: char| c.is_ascii_uppercase())
            && text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
    }

    /// The index that runs over this size: the same name in small letters.
    pub fn index_of_size(self) -> Name {
        Name::new(&self.as_str().to_ascii_lowercase())
    }

    /// The size that this index runs over: the same name in capitals.
    pub fn size_of_index(self) -> Name {
        Name::new(&self.as_str().to_ascii_uppercase())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Name {
        Name::new(text)
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}
