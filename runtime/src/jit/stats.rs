//! Statistics of a compiled function: calls, compilations, and their reasons.

use std::fmt;
use std::time::Duration;

/// A compilation of a function, with its reason.
#[derive(Clone, Debug)]
pub struct Miss {
    /// The differences from the most similar program.
    pub reasons: Vec<String>,
    /// The time of tracing and compiling.
    pub time: Duration,
}

/// Calls and compilations of one function.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// The number of calls that found a program.
    pub hits: u64,
    /// The number of plans made for further sizes of programs over symbolic sizes; those calls are hits.
    pub plans: u64,
    /// The time that these plans took together.
    pub plan_time: Duration,
    /// The number of programs.
    pub programs: usize,
    /// The calls that found no program, in order; the first hundred are kept.
    pub misses: Vec<Miss>,
}

/// At most this many misses are kept, because a function may be compiled at every call.
pub(super) const REMEMBERED: usize = 100;
/// At most this many reasons are listed for one compilation, because a tree may have very many leaves.
const LISTED: usize = 5;

impl Stats {
    /// The time that all compilations took together.
    pub fn compile_time(&self) -> Duration {
        self.misses.iter().map(|m| m.time).sum()
    }

    /// The argument or part whose changes caused most compilations, and their number.
    pub fn main_reason(&self) -> Option<(String, usize)> {
        let subject = |reason: &String| reason.split('`').nth(1).map(str::to_owned);
        let mut counts: Vec<(String, usize)> = Vec::new();
        for subject in self.misses.iter().flat_map(|m| m.reasons.iter().filter_map(subject)) {
            match counts.iter_mut().find(|(s, _)| *s == subject) {
                Some((_, n)) => *n += 1,
                None => counts.push((subject, 1)),
            }
        }
        counts.into_iter().max_by_key(|(_, n)| *n)
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.compile_time().as_secs_f64() * 1e3;
        let n = self.misses.len();
        write!(f, "compiled {n} {} in {ms:.1} ms, {} hits", if n == 1 { "time" } else { "times" }, self.hits)?;
        if self.plans > 0 {
            let (n, ms) = (self.plans, self.plan_time.as_secs_f64() * 1e3);
            write!(f, "; planned for other sizes {n} {} in {ms:.1} ms", if n == 1 { "time" } else { "times" })?;
        }
        if let Some((subject, n)) = self.main_reason().filter(|(_, n)| *n > 1) {
            write!(f, "; {n} times because `{subject}` changed")?;
        }
        for (i, miss) in self.misses.iter().enumerate() {
            write!(f, "\n{:4}  {:8.1} ms  ", i + 1, miss.time.as_secs_f64() * 1e3)?;
            let listed = &miss.reasons[..miss.reasons.len().min(LISTED)];
            f.write_str(&listed.join("; "))?;
            if miss.reasons.len() > LISTED {
                write!(f, "; and {} more", miss.reasons.len() - LISTED)?;
            }
        }
        Ok(())
    }
}
