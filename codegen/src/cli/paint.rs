//! Colours.

use std::io::IsTerminal;

use super::When;

/// What a word means, hence its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    /// A verb, a name.
    Verb,
    /// An error.
    Error,
    /// Something beside the point.
    Faint,
}

/// Whether colours are used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint {
    pub(super) color: bool,
}

impl Paint {
    pub(super) fn new(when: When) -> Paint {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let color = match when {
            When::Always => true,
            When::Never => false,
            When::Auto => {
                std::io::stdout().is_terminal() && std::io::stderr().is_terminal() && !set("NO_COLOR") && !dumb
            }
        };
        Paint { color }
    }

    /// `text` in the colour of `ink`, if there are colours.
    pub(super) fn ink(self, ink: Ink, text: &str) -> String {
        let code = match ink {
            Ink::Verb => "1;32",
            Ink::Error => "1;31",
            Ink::Faint => "2",
        };
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// A verb in its column, and what it did.
    pub(super) fn status(self, verb: &str, text: &str) -> String {
        format!("{} {text}\n", self.ink(Ink::Verb, &format!("{verb:>12}")))
    }
}
