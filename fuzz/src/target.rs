//! What a target is.

use crate::draws::Draws;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// A reader that is given hostile inputs.
pub struct FuzzTarget {
    /// Its name on the command line.
    pub name: &'static str,
    /// What is fuzzed, in one line.
    pub about: &'static str,
    /// Inputs from the repository's own files, from which others are made.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// An input made from two others.
    pub mutate: fn(&mut Draws, &[u8], &[u8]) -> Vec<u8>,
    /// Gives the input to the reader, and checks the laws.
    pub run: fn(&[u8]) -> Outcome,
    /// What an input may take.
    pub limits: InputLimits,
}

/// The answer to an input, or the law that it breaks.
pub type Outcome = Result<InputAnswer, String>;

/// An answer that keeps the laws.
pub struct InputAnswer {
    /// Whether the input was accepted.
    pub accepted: bool,
    /// What is special about the answer; an input whose answer has a new sign is kept, and mutated further.
    pub signs: Vec<u64>,
}

impl InputAnswer {
    /// The input is accepted; the words say what is special about it.
    pub fn accepted(words: impl IntoIterator<Item = impl Hash>) -> InputAnswer {
        InputAnswer { accepted: true, signs: words.into_iter().map(|word| sign(&word)).collect() }
    }

    /// The input is refused with these messages.
    pub fn refused(messages: impl IntoIterator<Item = impl AsRef<str>>) -> InputAnswer {
        InputAnswer { accepted: false, signs: messages.into_iter().map(|m| sign(&form(m.as_ref()))).collect() }
    }
}

fn sign(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// The first line of a message without the names and numbers of the input.
pub fn form(message: &str) -> String {
    let mut out = String::new();
    let mut quoted = false;
    for c in message.lines().next().unwrap_or_default().chars() {
        match c {
            '`' => quoted = !quoted,
            c if !quoted && !c.is_ascii_digit() => out.push(c),
            _ => {}
        }
    }
    out
}

/// A message that admits a bug is a finding, though it is an answer.
///
/// # Errors
/// The message.
pub fn no_bug(message: &str) -> Result<(), String> {
    match message.contains("bug in fulgurite") || message.contains("bug of ours") {
        true => Err(format!("the answer admits a bug: {}", message.lines().next().unwrap_or_default())),
        false => Ok(()),
    }
}

/// What an input may take, in a build without optimisation.
#[derive(Clone, Copy, Debug)]
pub struct InputLimits {
    /// Time for any input.
    pub time: Duration,
    /// Time for each 10 kB of the input.
    pub time_each: Duration,
    /// Memory for any input, in bytes.
    pub memory: usize,
    /// Memory for each byte of the input.
    pub memory_each: usize,
    /// The largest single piece of memory that the system gives: a program that asks for more must get an error.
    pub piece: usize,
}

/// Readers take time and memory in proportion to what they read.
pub const READER: InputLimits = InputLimits {
    time: Duration::from_secs(3),
    time_each: Duration::from_secs(1),
    memory: 64 << 20,
    memory_each: 64,
    piece: 1 << 30,
};

/// Programs may ask for tensors of any size: a large one is refused by the system, and then by an error.
pub const PROGRAM: InputLimits = InputLimits {
    time: Duration::from_secs(20),
    time_each: Duration::from_secs(1),
    memory: 1 << 30,
    memory_each: 64,
    piece: 64 << 20,
};

impl InputLimits {
    /// The longest time for an input of this many bytes.
    pub fn longest(&self, bytes: usize) -> Duration {
        self.time + self.time_each.mul_f64(bytes as f64 / 10_000.0)
    }

    /// The most memory for an input of this many bytes.
    pub fn most(&self, bytes: usize) -> usize {
        self.memory.saturating_add(self.memory_each.saturating_mul(bytes))
    }
}
