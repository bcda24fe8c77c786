//! The loop over drawn cases that all properties share: proptest draws words, the project's generators make cases of them.
//!
//! The words of a case are its number among those of a run (what kind of case is wanted), the seed of what stands behind
//! the others, and those others, a word for each choice. Small words make small sizes and simple values ([`Rng`]), so a
//! failing case is shrunk by making words smaller, and is repeated by writing them down.
//!
//! The same cases are drawn in each run of a property, of seeds that depend on its name alone. proptest's variables hold:
//! `PROPTEST_CASES` says how many cases each property gets, `PROPTEST_RNG_SEED` draws others, `PROPTEST_MAX_SHRINK_ITERS`
//! and `PROPTEST_MAX_SHRINK_TIME` bound the search for a smaller case, `PROPTEST_VERBOSE=2` shows every case.

use crate::rng::{self, Rng};
use proptest::prelude::Rng as _;
use proptest::strategy::{NewTree, Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, RngSeed, TestCaseError, TestError, TestRng, TestRunner};
use std::cell::Cell;
use std::fmt;

/// Names the words of one case, and of which property: it runs alone.
pub const WORDS: &str = "FULGURITE_WORDS";
/// Words of a case that can become smaller one by one. Calls take a dozen for their sizes and options, functions a few
/// for each step; elements mostly come behind.
const COUNT: usize = 48;
/// Attempts to make a failing case smaller, and milliseconds for them.
const SHRINKS: u32 = 4000;
const SHRINKING: u32 = 60_000;
/// A word that can't become 0 may become one of these: most choices are among fewer.
const SMALL: u64 = 16;
/// Words that are left out together: a step of a function takes about so many.
const TOGETHER: usize = 16;

/// What is held of every case.
#[derive(Clone, Copy, Debug)]
pub struct Property<'a> {
    /// Its name: draws depend on it alone.
    pub name: &'a str,
    /// What `cargo test` needs to be told to run it.
    pub test: &'a str,
    /// Cases in a run that says nothing else.
    pub cases: usize,
    /// Whether a failing case is made smaller: one that is expected need not be.
    pub shrinks: bool,
}

/// What a case said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The property held.
    Held,
    /// The case says nothing: a difference quotient across a kink, a call that was refused.
    Discarded,
}

/// How many cases there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Those that were drawn and asked.
    pub asked: usize,
    /// Those of them that said nothing.
    pub discarded: usize,
}

impl Counts {
    /// # Errors
    /// Where no case was asked, or more than half said nothing: a property that is never asked holds nothing.
    pub fn enough(self) -> Result<(), String> {
        match self {
            Counts { asked: 0, .. } => Err("no case was drawn".into()),
            Counts { asked, discarded } if 2 * discarded > asked => {
                Err(format!("{discarded} of {asked} cases were discarded"))
            }
            _ => Ok(()),
        }
    }

    /// Asks for one case that said something: some rows answer few calls of a property, and the ones that they answer count.
    ///
    /// # Errors
    /// Where all cases said nothing.
    pub fn any(self) -> Result<(), String> {
        if self.discarded < self.asked { Ok(()) } else { Err(format!("all {} cases were discarded", self.asked)) }
    }
}

/// A case: its words, what a generator made of them, and what further draws come from.
pub struct Case<T> {
    words: Vec<u64>,
    /// Nothing where the generator found nothing.
    pub made: Option<T>,
    /// Goes on behind the generator.
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

/// A generator as a strategy of proptest's: it is given the number of the case, and what it draws from.
pub fn strategy<T: fmt::Display>(make: impl Fn(usize, &mut Rng) -> Option<T>) -> impl Strategy<Value = Case<T>> {
    Words::default().prop_map(move |words| case(words, &make))
}

fn case<T>(words: Vec<u64>, make: &impl Fn(usize, &mut Rng) -> Option<T>) -> Case<T> {
    let (number, rest) = words.split_first().unwrap_or((&0, &[]));
    let mut rng = Rng::of(rest);
    let made = make(*number as usize, &mut rng);
    Case { words, made, rng }
}

/// Holds a property of what `make` makes. Nothing is counted where one case was asked for by its words.
///
/// # Errors
/// What `check` says of the smallest case that was found, with the line that repeats it.
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

/// `name:1,2,3`
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
        // the line that repeats a case takes their place
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

/// Words at random behind the number of the case.
#[derive(Debug, Default)]
struct Words {
    drawn: Cell<u64>,
}

impl Strategy for Words {
    type Tree = Shrinking;
    type Value = Vec<u64>;

    fn new_tree(&self, runner: &mut TestRunner) -> NewTree<Words> {
        // in turn, so that few cases are of all kinds
        let number = self.drawn.replace(self.drawn.get() + 1);
        let drawn = (0..=COUNT).map(|_| runner.rng().next_u64());
        Ok(Shrinking::of(std::iter::once(number).chain(drawn).collect()))
    }
}

/// What is tried next.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// This word as this number.
    Smaller(usize, u64),
    /// So many words, up from this one, are left out.
    Without(usize, usize),
    Done,
}

/// Words that become fewer and smaller, as long as the case fails.
#[derive(Debug)]
struct Shrinking {
    /// The smallest that fail.
    best: Vec<u64>,
    tried: Vec<u64>,
    next: Next,
    /// Whether a round through all attempts has made the case smaller: then there is another.
    better: bool,
}

/// Where the number of the case and the seed stand, and the first of the others.
const NUMBER: usize = 0;
const SEED: usize = 1;
const FIRST: usize = 2;

impl Shrinking {
    fn of(words: Vec<u64>) -> Shrinking {
        Shrinking { tried: words.clone(), best: words, next: Next::Smaller(SEED, 0), better: false }
    }

    /// The next attempt; false where there is none.
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
                        // the seed first, since it makes most of the elements; then fewer words, then each of them
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

    /// What was tried fails as well.
    fn simplify(&mut self) -> bool {
        if self.tried != self.best {
            self.better = true;
            self.best.clone_from(&self.tried);
            self.next = match self.next {
                // it can't become smaller than that: smaller numbers were tried before
                Next::Smaller(at, _) => Next::Smaller(at, SMALL),
                // others have moved to where those were
                Next::Without(count, at) => Next::Without(count, at - count),
                Next::Done => Next::Done,
            };
        }
        self.attempt()
    }

    /// What was tried does not fail.
    fn complicate(&mut self) -> bool {
        self.attempt()
    }
}
