//! The loop over drawn cases that all properties share: proptest draws words, and the project's generators make cases
//! from them.
//!
//! The words of a case are its number in the run (which selects the kind of case), the seed for draws beyond the other
//! words, and those words, one per choice. Small words make small sizes and simple values ([`Rng`]), so a failing case
//! is shrunk by making words smaller, and is repeated by writing them down.
//!
//! Each run of a property draws equal cases, from seeds that depend only on its name. proptest's variables apply:
//! `PROPTEST_CASES` sets the number of cases per property, `PROPTEST_RNG_SEED` draws others,
//! `PROPTEST_MAX_SHRINK_ITERS` and `PROPTEST_MAX_SHRINK_TIME` bound the search for a smaller case, `PROPTEST_VERBOSE=2`
//! shows every case.

use crate::rng::{self, Rng};
use proptest::prelude::Rng as _;
use proptest::strategy::{NewTree, Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, RngSeed, TestCaseError, TestError, TestRng, TestRunner};
use std::cell::Cell;
use std::fmt;

/// Selects one case by the name of its property and its words; only this case runs.
pub const WORDS: &str = "FULGURITE_WORDS";
/// The words of a case that are shrunk one by one. Calls take a dozen for their sizes and options, functions a few per
/// step; elements are mostly drawn beyond these words.
const COUNT: usize = 48;
/// Attempts to shrink a failing case, and milliseconds for them.
const SHRINKS: u32 = 4000;
const SHRINKING: u32 = 60_000;
/// A word that cannot become 0 may become a number up to this: most choices are among fewer.
const SMALL: u64 = 16;
/// Words that are removed together: about the number that a step of a function takes.
const TOGETHER: usize = 16;

/// A property of every case.
#[derive(Clone, Copy, Debug)]
pub struct Property<'a> {
    /// The name, on which the draws depend.
    pub name: &'a str,
    /// The arguments of `cargo test` that select its test program.
    pub test: &'a str,
    /// The default number of cases.
    pub cases: usize,
    /// Whether a failing case is shrunk: an expected failure need not be.
    pub shrinks: bool,
}

/// The verdict on a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The property held.
    Held,
    /// The case is not conclusive: a difference quotient across a kink, a call that was refused.
    Discarded,
}

/// The number of cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Cases that were drawn and checked.
    pub asked: usize,
    /// Cases of these that were discarded.
    pub discarded: usize,
}

impl Counts {
    /// Requires cases of which at most half were discarded.
    ///
    /// # Errors
    /// If no case was checked, or more than half were discarded: such a property is not tested.
    pub fn enough(self) -> Result<(), String> {
        match self {
            Counts { asked: 0, .. } => Err("no case was drawn".into()),
            Counts { asked, discarded } if 2 * discarded > asked => {
                Err(format!("{discarded} of {asked} cases were discarded"))
            }
            _ => Ok(()),
        }
    }

    /// Requires one conclusive case: some rows accept few calls of a property, and these few count.
    ///
    /// # Errors
    /// If all cases were discarded.
    pub fn any(self) -> Result<(), String> {
        if self.discarded < self.asked { Ok(()) } else { Err(format!("all {} cases were discarded", self.asked)) }
    }
}

/// A case: its words, the value that a generator made from them, and the source of further draws.
pub struct Case<T> {
    words: Vec<u64>,
    /// The value; `None` if the generator found none.
    pub made: Option<T>,
    /// Continues after the generator.
    pub rng: Rng,
}

impl<T: fmt::Display> fmt::Debug for Case<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.made {
            Some(made) => write!(f, "{made} of {}", listed(&self.words)),
            None => write!(f, "nothing of {}", listed(&self.words)),
        }
    }
}

/// A generator as a proptest strategy: it receives the number of the case, and the source of its draws.
pub fn strategy<T: fmt::Display>(make: impl Fn(usize, &mut Rng) -> Option<T>) -> impl Strategy<Value = Case<T>> {
    Words::default().prop_map(move |words| case(words, &make))
}

fn case<T>(words: Vec<u64>, make: &impl Fn(usize, &mut Rng) -> Option<T>) -> Case<T> {
    let (number, rest) = words.split_first().unwrap_or((&0, &[]));
    let mut rng = Rng::of(rest);
    let made = make(*number as usize, &mut rng);
    Case { words, made, rng }
}

/// Checks a property of the values that `make` makes. Returns no counts if one case was selected by its words.
///
/// # Errors
/// The message of `check` for the smallest failing case found, with the line that repeats it.
pub fn hold<T: fmt::Display>(
    property: &Property,
    make: impl Fn(usize, &mut Rng) -> Option<T>,
    check: impl Fn(&T, &mut Rng) -> Result<Verdict, String>,
) -> Result<Option<Counts>, String> {
    if let Ok(given) = std::env::var(WORDS) {
        return match read(&given)? {
            (name, words) if name == property.name => {
                let mut case = case(words, &make);
                let Some(made) = &case.made else { return Err("these words make no case".into()) };
                check(made, &mut case.rng).map_err(|fault| format!("{fault}\n  in {made}"))?;
                println!("{WORDS}: holds in {made}");
                Ok(None)
            }
            _ => Ok(None),
        };
    }
    let counts = Cell::new(Counts::default());
    let done = runner(property).run(&strategy(make), |mut case| {
        let Some(made) = &case.made else { return Ok(()) };
        let verdict = check(made, &mut case.rng).map_err(TestCaseError::fail)?;
        let Counts { asked, discarded } = counts.get();
        counts.set(Counts { asked: asked + 1, discarded: discarded + usize::from(verdict == Verdict::Discarded) });
        Ok(())
    });
    match done {
        Ok(()) => Ok(Some(counts.get())),
        Err(TestError::Fail(fault, case)) => {
            let made = case.made.map_or_else(String::new, |made| format!("\n  in {made}"));
            let Property { name, test, .. } = property;
            let filter = if test.is_empty() { String::new() } else { format!(" {test} {name}") };
            Err(format!("{fault}{made}\n  {WORDS}={name}:{} cargo test{filter}", listed(&case.words)))
        }
        Err(TestError::Abort(why)) => Err(why.to_string()),
    }
}

/// Reads `name:1,2,3`.
fn read(given: &str) -> Result<(&str, Vec<u64>), String> {
    let wrong = || format!("{WORDS}={given} is not the name of a property, a colon, and numbers between commas");
    let (name, words) = given.rsplit_once(':').ok_or_else(wrong)?;
    let words: Option<Vec<u64>> = words.split(',').map(|word| word.trim().parse().ok()).collect();
    Ok((name, words.ok_or_else(wrong)?))
}

fn listed(words: &[u64]) -> String {
    words.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

fn runner(property: &Property) -> TestRunner {
    let said = |name: &str| std::env::var_os(name).is_some();
    let config = Config::default();
    let config = Config {
        cases: if said("PROPTEST_CASES") { config.cases } else { property.cases as u32 },
        max_shrink_iters: match property.shrinks {
            true if said("PROPTEST_MAX_SHRINK_ITERS") => config.max_shrink_iters,
            shrinks => u32::from(shrinks) * SHRINKS,
        },
        max_shrink_time: if said("PROPTEST_MAX_SHRINK_TIME") { config.max_shrink_time } else { SHRINKING },
        // The line that repeats a case replaces proptest's persistence.
        failure_persistence: None,
        ..config
    };
    let other = match config.rng_seed {
        RngSeed::Fixed(seed) => Rng::new(seed).bits(),
        RngSeed::Random => 0,
    };
    let mut rng = Rng::new(rng::seed(property.name, "words") ^ other);
    let seed: Vec<u8> = (0..4).flat_map(|_| rng.bits().to_le_bytes()).collect();
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed))
}

/// Random words, after the number of the case.
#[derive(Debug, Default)]
struct Words {
    drawn: Cell<u64>,
}

impl Strategy for Words {
    type Tree = Shrinking;
    type Value = Vec<u64>;

    fn new_tree(&self, runner: &mut TestRunner) -> NewTree<Words> {
        // Cases are numbered in turn, so that even a few cases are of all kinds.
        let number = self.drawn.replace(self.drawn.get() + 1);
        let drawn = (0..=COUNT).map(|_| runner.rng().next_u64());
        Ok(Shrinking::of(std::iter::once(number).chain(drawn).collect()))
    }
}

/// The next attempt.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// Sets this word to this number.
    Smaller(usize, u64),
    /// Removes this number of words (first field), from this one on (second field).
    Without(usize, usize),
    Done,
}

/// Words that become fewer and smaller while the case fails.
#[derive(Debug)]
struct Shrinking {
    /// The smallest failing words.
    best: Vec<u64>,
    tried: Vec<u64>,
    next: Next,
    /// Whether a round of attempts has shrunk the case: then there is another round.
    better: bool,
}

/// The positions of the number of the case, of the seed, and of the first other word.
const NUMBER: usize = 0;
const SEED: usize = 1;
const FIRST: usize = 2;

impl Shrinking {
    fn of(words: Vec<u64>) -> Shrinking {
        Shrinking { tried: words.clone(), best: words, next: Next::Smaller(SEED, 0), better: false }
    }

    /// Prepares the next attempt; false if there is none.
    fn attempt(&mut self) -> bool {
        self.tried.clone_from(&self.best);
        loop {
            match self.next {
                Next::Smaller(at, to) if at < self.best.len() => {
                    if to < SMALL && to < self.best[at] {
                        self.next = Next::Smaller(at, to + 1);
                        self.tried[at] = to;
                        return true;
                    }
                    self.next = match at {
                        // The seed first, since it determines most of the elements; then fewer words; then each word.
                        SEED => Next::Without(TOGETHER, FIRST),
                        NUMBER => Next::Smaller(FIRST, 0),
                        _ => Next::Smaller(at + 1, 0),
                    };
                }
                Next::Smaller(..) if self.better => {
                    self.better = false;
                    self.next = Next::Smaller(SEED, 0);
                }
                Next::Without(0, _) => self.next = Next::Smaller(NUMBER, 0),
                Next::Without(count, at) if at + count <= self.best.len() => {
                    self.next = Next::Without(count, at + count);
                    self.tried.drain(at..at + count);
                    return true;
                }
                Next::Without(count, _) => self.next = Next::Without(count / 2, FIRST),
                Next::Smaller(..) | Next::Done => {
                    self.next = Next::Done;
                    return false;
                }
            }
        }
    }
}

impl ValueTree for Shrinking {
    type Value = Vec<u64>;

    fn current(&self) -> Vec<u64> {
        self.tried.clone()
    }

    /// Keeps the last attempt, which fails as well, and prepares the next one.
    fn simplify(&mut self) -> bool {
        if self.tried != self.best {
            self.better = true;
            self.best.clone_from(&self.tried);
            self.next = match self.next {
                // The word cannot become smaller, because smaller numbers were tried before.
                Next::Smaller(at, _) => Next::Smaller(at, SMALL),
                // Other words have moved to the removed positions.
                Next::Without(count, at) => Next::Without(count, at - count),
                Next::Done => Next::Done,
            };
        }
        self.attempt()
    }

    /// Drops the last attempt, which does not fail, and prepares the next one.
    fn complicate(&mut self) -> bool {
        self.attempt()
    }
}
