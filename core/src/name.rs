//! Interned identifiers: `Name` is a copyable handle; two handles are equal exactly where their texts are.
//!
//! Rule texts repeat a few hundred names, and environments are looked up by name on every traced line; a handle makes
//! both cheap. Texts live as long as the process.

use std::cell::RefCell;
use std::fmt;
use std::sync::{Mutex, OnceLock};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// An interned identifier.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name(u32);

/// The handle of every name, for threads that meet a text for the first time.
static IDS: OnceLock<Mutex<FxHashMap<&'static str, u32>>> = OnceLock::new();

/// The texts by handle, in chunks that double. A stored text never moves, so reading takes no lock.
static TEXTS: [OnceLock<Box<[OnceLock<&'static str>]>>; 32 - FIRST_BITS as usize] =
    [const { OnceLock::new() }; 32 - FIRST_BITS as usize];

/// The first chunk holds two to this power: about the number of names in the rows of a small database.
const FIRST_BITS: u32 = 10;

thread_local! {
    /// The handles that this thread has met, so that threads that check rows in parallel do not wait for each other.
    static MET: RefCell<FxHashMap<&'static str, u32>> = RefCell::default();
}

/// The position of a handle's text: its chunk, and the place in it.
fn slot(id: u32) -> (usize, usize) {
    let place = id as usize + (1 << FIRST_BITS);
    let chunk = place.ilog2() - FIRST_BITS;
    (chunk as usize, place - (1 << (chunk + FIRST_BITS)))
}

/// The handle of `text` in the table of all threads.
fn intern(text: &str) -> (&'static str, u32) {
    let mut ids = IDS.get_or_init(Mutex::default).lock().unwrap_or_else(|e| e.into_inner());
    if let Some((text, id)) = ids.get_key_value(text) {
        return (text, *id);
    }
    let id = ids.len() as u32;
    let text: &'static str = Box::leak(text.to_owned().into_boxed_str());
    let (chunk, at) = slot(id);
    let texts = TEXTS[chunk].get_or_init(|| vec![OnceLock::new(); 1 << (chunk as u32 + FIRST_BITS)].into());
    // No other thread writes here, because the lock is held.
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
        // A thread that is ending has no thread-local storage, and needs none.
        let _ = MET.try_with(|met| met.borrow_mut().insert(text, id));
        Name(id)
    }

    /// The number of this name, unique in this process.
    pub fn id(self) -> u32 {
        self.0
    }

    /// The text of this name.
    pub fn as_str(self) -> &'static str {
        let (chunk, at) = slot(self.0);
        TEXTS[chunk].get().and_then(|texts| texts.get(at)).and_then(OnceLock::get).copied().unwrap_or_default()
    }

    /// Whether the text is that of a size or a list of sizes: a capital, then capitals and digits.
    pub fn is_size(self) -> bool {
        let text = self.as_str();
        text.starts_with(|c: char| c.is_ascii_uppercase())
            && text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
    }

    /// The index that runs over this size: this name in small letters.
    pub fn index_of_size(self) -> Name {
        self.recased(u8::to_ascii_lowercase)
    }

    /// The size that this index runs over: this name in capitals.
    pub fn size_of_index(self) -> Name {
        self.recased(u8::to_ascii_uppercase)
    }

    /// This name in other letters. Nearly all names are short, and lowering recases them often, so short ones need no
    /// allocation.
    fn recased(self, case: fn(&u8) -> u8) -> Name {
        let text: SmallVec<[u8; 32]> = self.as_str().bytes().map(|byte| case(&byte)).collect();
        // Only ASCII letters changed, so the bytes are valid UTF-8.
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
