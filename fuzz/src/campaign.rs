//! A campaign: inputs are drawn, run, and kept where they show something new.

use crate::coverage::Passed;
use crate::draws::Draws;
use crate::target::FuzzTarget;
use crate::trial::{self, TrialFault};
use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// At most this many inputs are kept for mutation, because the oldest have been mutated often.
const KEPT: usize = 5000;
/// An input longer than this is cut, because mutations that insert parts make inputs longer and longer.
const LONGEST: usize = 1 << 18;

/// How long a campaign goes on.
#[derive(Clone, Copy, Debug)]
pub enum CampaignEnd {
    /// After this many inputs.
    Inputs(usize),
    /// After this time.
    Time(Duration),
}

/// A running campaign.
pub struct Campaign<'t> {
    target: &'t FuzzTarget,
    draws: Draws,
    kept: Vec<Vec<u8>>,
    seeds: usize,
    /// How many of the committed inputs and seeds have run.
    begun: usize,
    committed: usize,
    signs: HashSet<u64>,
    passed: Passed,
    /// Inputs that have run.
    pub ran: usize,
    /// Inputs that were accepted.
    pub accepted: usize,
}

impl<'t> Campaign<'t> {
    /// A campaign over the target's seeds and its committed corpus.
    pub fn new(target: &'t FuzzTarget, seed: u64) -> Campaign<'t> {
        let mut kept: Vec<Vec<u8>> = corpus(target).into_iter().map(|(_, input)| input).collect();
        let committed = kept.len();
        kept.extend((target.seeds)());
        let seeds = kept.len();
        let (draws, signs, passed) = (Draws::new(seed), HashSet::new(), Passed::default());
        Campaign { target, draws, kept, seeds, begun: 0, committed, signs, passed, ran: 0, accepted: 0 }
    }

    /// Runs the committed inputs, then seeds and inputs that are made of them, up to the end. `found` gets each fault, and says whether to go
    /// on.
    pub fn run(&mut self, end: CampaignEnd, mut found: impl FnMut(&[u8], TrialFault) -> bool) {
        let started = Instant::now();
        let goes_on = |ran: usize| match end {
            CampaignEnd::Inputs(most) => ran < most,
            CampaignEnd::Time(most) => started.elapsed() < most,
        };
        while goes_on(self.ran) {
            // all committed inputs first, and then seeds between the inputs that are made of them
            let seed = self.begun < self.committed || self.begun < self.seeds && self.draws.one_in(4);
            let input = match self.kept.get(self.begun).filter(|_| seed) {
                Some(input) => input.clone(),
                None => self.next(),
            };
            self.begun += usize::from(seed);
            self.ran += 1;
            match trial::run(self.target, &input) {
                Ok(answer) => {
                    self.accepted += usize::from(answer.accepted);
                    let mut new = self.passed.note();
                    for sign in answer.signs {
                        new |= self.signs.insert(sign);
                    }
                    if new && !seed {
                        self.keep(input);
                    }
                }
                Err(fault) => {
                    self.passed.note();
                    if !found(&input, fault) {
                        return;
                    }
                }
            }
        }
    }

    fn keep(&mut self, input: Vec<u8>) {
        if self.kept.len() < KEPT.max(2 * self.seeds) {
            self.kept.push(input);
        } else {
            let at = self.seeds + self.draws.below(self.kept.len() - self.seeds);
            self.kept[at] = input;
        }
    }

    /// An input made from two kept ones, of which the newest are drawn more often.
    fn next(&mut self) -> Vec<u8> {
        let empty = Vec::new();
        let fresh = self.kept.len() - self.seeds;
        let at = match fresh > 0 && self.draws.one_in(2) {
            true => self.seeds + self.draws.below(fresh).max(self.draws.below(fresh)),
            false => self.draws.below(self.kept.len()),
        };
        let other = self.draws.below(self.kept.len());
        let pick = |at: usize| self.kept.get(at).unwrap_or(&empty);
        let mut made = (self.target.mutate)(&mut self.draws, pick(at), pick(other));
        made.truncate(LONGEST);
        made
    }

    /// One line about the campaign.
    pub fn says(&self, took: Duration) -> String {
        let rate = self.ran as f64 / took.as_secs_f64().max(1e-3);
        let edges = match Passed::all() {
            0 => String::new(),
            all => format!(", {} counts of {all} edges", self.passed.edges),
        };
        format!(
            "{}: {} inputs in {:.0} s ({rate:.0} each second), {} accepted, {} kept{edges}",
            self.target.name,
            self.ran,
            took.as_secs_f64(),
            self.accepted,
            self.kept.len() - self.seeds,
        )
    }
}

/// The committed inputs of a target, by the names of their files: each was a finding once, and must stay mended.
pub fn corpus(target: &FuzzTarget) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    files.sort();
    files.into_iter().filter_map(|path| std::fs::read(&path).ok().map(|input| (path, input))).collect()
}
