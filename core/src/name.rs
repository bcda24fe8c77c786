//! Interned identifiers: `Name` is a copyable handle, equal exactly where the texts are equal.
//!
//! Rule texts name the same few hundred things over and over, and environments are looked up by name on every
//! traced line; a handle makes both cheap. Texts live as long as the process.

use std::cell::RefCell;
use std::fmt;
use std::sync::{Mutex, OnceLock};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// An interned identifier.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name(u32);

/// Every name's handle, for whoever meets a text for the first time.
static IDS: OnceLock<Mutex<FxHashMap<&'static str, u32>>> = OnceLock::new();

/// The texts by handle, in chunks that double: one that is there never moves, so reading takes no lock.
static TEXTS: [OnceLock<Box<[OnceLock<&'static str>]>>; 32 - FIRST_BITS as usize] =
    [const { OnceLock::new() }; 32 - FIRST_BITS as usize];

/// The first chunk holds two to this power: about what the rows of a small database name.
const FIRST_BITS: u32 = 10;

thread_local! {
    /// The handles that this thread has met: threads that look at rows side by side do not wait for each other.
    static MET: RefCell<FxHashMap<&'static str, u32>> = RefCell::default();
}

/// Where a handle's text stands: its chunk, and the place in it.
fn slot(id: u32) -> (usize, usize) {
    let place = id as usize + (1 << FIRST_BITS);
    let chunk = place.ilog2() - FIRST_BITS;
    (chunk as usize, place - (1 << (chunk + FIRST_BITS)))
}

/// The handle of `text` among those of all threads.
fn intern(text: &str) -> (&'static str, u32) {
    let mut ids = IDS.get_or_init(Mutex::default).lock().unwrap_or_else(|e| e.into_inner());
    if let Some((text, id)) = ids.get_key_value(text) {
        return (text, *id);
    }
    let id = ids.len() as u32;
    let text: &'static str = Box::leak(text.to_owned().into_boxed_str());
    let (chunk, at) = slot(id);
    let texts = TEXTS[chunk].get_or_init(|| vec![OnceLock::new(); 1 << (chunk as u32 + FIRST_BITS)].into());
    // nobody else writes here: the lock is held
    let _ = texts[at].set(text);
    ids.insert(text, id);
    (text, id)
}

impl Name {
    /// The handle of `text`.
    pub fn new(text: &str) -> Name {
        let met = MET.try_with(|met| met.borrow().get(text).copied());
        if let Ok(Some(id)) = met {
            return Name(id);
        }
        let (text, id) = intern(text);
        // a thread that ends has no memory any more, and needs none
        let _ = MET.try_with(|met| met.borrow_mut().insert(text, id));
        Name(id)
    }

    /// A number that no other name has, in this process.
    pub fn id(self) -> u32 {
        self.0
    }

    /// The text of this name.
    pub fn as_str(self) -> &'static str {
        let (chunk, at) = slot(self.0);
        TEXTS[chunk].get().and_then(|texts| texts.get(at)).and_then(OnceLock::get).copied().unwrap_or_default()
    }

    /// A capital, then capitals, digits and underscores: the name of a size or a list of sizes.
    pub fn is_size(self) -> bool {
        let text = self.as_str();
        text.starts_with(|c: char| c.is_ascii_uppercase())
            && text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
    }

    /// The index that runs over this size: the same name in small letters.
    pub fn index_of_size(self) -> Name {
        self.recased(u8::to_ascii_lowercase)
    }

    /// The size that this index runs over: the same name in capitals.
    pub fn size_of_index(self) -> Name {
        self.recased(u8::to_ascii_uppercase)
    }

    /// The same name in other letters. Nearly all are short, and are asked for wherever a body is lowered: those need no
    /// memory of their own.
    fn recased(self, case: fn(&u8) -> u8) -> Name {
        let text: SmallVec<[u8; 32]> = self.as_str().bytes().map(|byte| case(&byte)).collect();
        // ASCII letters became others, so it is a text still
        std::str::from_utf8(&text).map_or(self, Name::new)
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
