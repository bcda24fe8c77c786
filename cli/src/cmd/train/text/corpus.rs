//! The text to learn: a file, or the text embedded in the program.

use crate::cmd::train::task::{Source, fnv};
use crate::fault::Fault;
use std::path::Path;

/// The operator database and its documentation, as they were when the program was built.
const DEMO: &str = include_str!(concat!(env!("OUT_DIR"), "/demo.txt"));
/// At most this many bytes, because the text is kept in memory.
const LONGEST: u64 = 1 << 30;

/// A text and its source.
#[derive(Clone, Debug)]
pub struct Corpus {
    pub text: String,
    pub source: Source,
}

impl Corpus {
    /// The text of a file; without one, the demo's.
    ///
    /// # Errors
    /// E910: the file can't be read. E911: it is no text, or empty.
    pub fn read(path: Option<&Path>) -> Result<Corpus, Fault> {
        let Some(path) = path else {
            let name = "the operator database and its documentation".to_owned();
            return Ok(Corpus::new(DEMO.to_owned(), name, None));
        };
        let shown = path.display();
        let unreadable = |e| Fault::unreadable(path, &e);
        let about = std::fs::metadata(path).map_err(unreadable)?;
        if about.is_dir() {
            return Err(Fault::usage("E910", format!("`{shown}` is a folder, not a text")));
        }
        if about.len() > LONGEST {
            let size = crate::ui::format::bytes(usize::try_from(about.len()).unwrap_or(usize::MAX));
            return Err(Fault::usage("E910", format!("`{shown}` has {size}; texts up to 1 GiB are read")));
        }
        let bytes = std::fs::read(path).map_err(unreadable)?;
        if bytes.is_empty() {
            return Err(Fault::usage("E911", format!("`{shown}` is empty")));
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Corpus::new(text, shown.to_string(), Some(path))),
            Err(e) => {
                let at = e.utf8_error().valid_up_to();
                let byte = e.as_bytes().get(at).copied().unwrap_or_default();
                let line = 1 + e.as_bytes()[..at].iter().filter(|b| **b == b'\n').count();
                Err(Fault::usage("E911", format!("`{shown}` is not UTF-8 text"))
                    .note(format!("line {line}, byte {at}: 0x{byte:02x} starts no character"))
                    .help(format!("convert it: iconv -f latin1 -t utf-8 '{shown}' > text.txt")))
            }
        }
    }

    fn new(text: String, name: String, path: Option<&Path>) -> Corpus {
        let hash = fnv(text.as_bytes());
        Corpus { text, source: Source { path: path.map(Path::to_owned), name, hash } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_no_text() {
        let dir = std::env::temp_dir().join(format!("fulgurite-corpus-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("temp dir");
        let (empty, binary) = (dir.join("empty"), dir.join("binary"));
        std::fs::write(&empty, "").expect("writable");
        std::fs::write(&binary, b"ab\ncd\xff\xfe").expect("writable");
        let code = |path: &Path| Corpus::read(Some(path)).expect_err("no text").code;
        assert_eq!((code(&empty), code(&binary), code(&dir), code(&dir.join("x"))), ("E911", "E911", "E910", "E910"));
        let fault = Corpus::read(Some(&binary)).expect_err("no text");
        assert_eq!(fault.notes, ["line 2, byte 5: 0xff starts no character"]);
        std::fs::remove_dir_all(&dir).expect("removable");
    }

    #[test]
    fn the_demo_is_a_text() {
        let demo = Corpus::read(None).expect("embedded");
        assert!(demo.text.len() > 10_000);
        assert_eq!(demo.source.hash, fnv(demo.text.as_bytes()));
    }
}
