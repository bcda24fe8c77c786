//! Reads and prints a schedule as text.
//!
//! ```text
//! stages 2, micro-batches 2, place 0 1
//! r0: 0F0 0F1 0B0 0B1
//! r1: 1F0 1B0 1F1 1B1
//! ```
//! The first line may be left out. Then the stages and micro-batches are those that occur, and each stage belongs to
//! the rank on which it occurs first. ` tie 0 3` at the end of the first line says that stages share weights.

use super::{Action, Kind, Schedule, Work};
use fulgurite_runtime::Error;
use std::fmt;
use std::str::FromStr;

/// At most 65,536 stages, micro-batches and ranks in a text, because a text may come from outside.
const MOST: usize = 1 << 16;

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.stage, self.kind, self.micro_batch)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Do(work) => write!(f, "{work}"),
            Action::Overlap(a, b) => write!(f, "({a};{b})O"),
            Action::Send(work) => write!(f, "{work}>"),
            Action::Receive(work) => write!(f, ">{work}"),
            Action::Reduce(stage) => write!(f, "R{stage}"),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |numbers: &[usize]| numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
        write!(f, "stages {}, micro-batches {}, place {}", self.stages, self.micro_batches, list(&self.place))?;
        for tie in &self.ties {
            write!(f, ", tie {}", list(tie))?;
        }
        for (rank, actions) in self.lists.iter().enumerate() {
            write!(f, "\nr{rank}:")?;
            actions.iter().try_for_each(|action| write!(f, " {action}"))?;
        }
        Ok(())
    }
}

/// The number of a stage, a micro-batch or a rank.
fn number(text: &str) -> Option<usize> {
    count(text).filter(|n| *n < MOST)
}

fn count(text: &str) -> Option<usize> {
    text.parse().ok().filter(|n| *n <= MOST)
}

impl FromStr for Work {
    type Err = ();
    fn from_str(text: &str) -> Result<Work, ()> {
        let at = text.find(|c: char| !c.is_ascii_digit()).ok_or(())?;
        let (stage, rest) = text.split_at(at);
        let (kind, micro_batch) = rest.split_at_checked(1).ok_or(())?;
        let kind = Kind::from_word(kind).ok_or(())?;
        let micro_batch = number(micro_batch).ok_or(())?;
        Ok(Work { stage: number(stage).ok_or(())?, kind, micro_batch })
    }
}

impl FromStr for Action {
    type Err = ();
    fn from_str(text: &str) -> Result<Action, ()> {
        if let Some(inner) = text.strip_prefix('(').and_then(|t| t.strip_suffix(")O")) {
            let (a, b) = inner.split_once(';').ok_or(())?;
            return Ok(Action::Overlap(a.parse()?, b.parse()?));
        }
        if let Some(stage) = text.strip_prefix('R') {
            return number(stage).map(Action::Reduce).ok_or(());
        }
        match (text.strip_prefix('>'), text.strip_suffix('>')) {
            (Some(work), _) => work.parse().map(Action::Receive),
            (None, Some(work)) => work.parse().map(Action::Send),
            (None, None) => text.parse().map(Action::Do),
        }
    }
}

impl FromStr for Schedule {
    type Err = Error;

    /// # Errors
    /// E751 with the rank, the position and the word.
    fn from_str(text: &str) -> Result<Schedule, Error> {
        let wrong = |claim: String| {
            Error::new("E751", claim).help("an action is `0F1`, `0B1`, `0I1`, `0W1`, `(0F2;3B0)O`, `0F1>`, `>1F1` or `R0`; a rank's line begins with `r0:`")
        };
        let mut head: Option<Schedule> = None;
        let mut lists: Vec<Vec<Action>> = Vec::new();
        for line in text.lines().map(str::trim).filter(|l| !l.is_empty()) {
            if line.starts_with("stages") && lists.is_empty() && head.is_none() {
                head = Some(self::head(line).ok_or_else(|| {
                    wrong(format!("`{line}` is no head of a schedule")).note("stages 2, micro-batches 4, place 0 1")
                })?);
                continue;
            }
            let rank = lists.len();
            let words = line.strip_prefix(&format!("r{rank}")).map(|rest| rest.strip_prefix(':').unwrap_or(rest));
            let words = words.ok_or_else(|| wrong(format!("the line of rank {rank} must begin with `r{rank}:`")))?;
            if rank >= MOST {
                return Err(wrong(format!("there are more than {MOST} ranks")));
            }
            let one = |(at, word): (usize, &str)| {
                word.parse().map_err(|()| wrong(format!("rank {rank}, position {at}: `{word}` is no action")))
            };
            lists.push(words.split_whitespace().enumerate().map(one).collect::<Result<_, Error>>()?);
        }
        let works = || lists.iter().flatten().flat_map(Action::works);
        let head = head.unwrap_or_else(|| {
            let stages = works().map(|w| w.stage + 1).max().unwrap_or(0);
            let micro_batches = works().map(|w| w.micro_batch + 1).max().unwrap_or(0);
            let mut place = vec![0; stages];
            // the first rank that has a stage is written last
            for (rank, list) in lists.iter().enumerate().rev() {
                list.iter().flat_map(Action::works).for_each(|work| place[work.stage] = rank);
            }
            Schedule { stages, micro_batches, place, ties: Vec::new(), lists: Vec::new() }
        });
        let schedule = Schedule { lists, ..head };
        match schedule.misshapen() {
            Some(why) => Err(wrong(why)),
            None => Ok(schedule),
        }
    }
}

/// Reads the first line as a schedule without lists.
fn head(line: &str) -> Option<Schedule> {
    let mut parts = line.split(',').map(str::trim);
    let stages = count(parts.next()?.strip_prefix("stages ")?)?;
    let micro_batches = count(parts.next()?.strip_prefix("micro-batches ")?)?;
    let list = |text: &str| text.split_whitespace().map(number).collect::<Option<Vec<usize>>>();
    let place = list(parts.next()?.strip_prefix("place")?)?;
    let ties = parts.map(|part| list(part.strip_prefix("tie ")?)).collect::<Option<Vec<_>>>()?;
    Some(Schedule { stages, micro_batches, place, ties, lists: Vec::new() })
}
