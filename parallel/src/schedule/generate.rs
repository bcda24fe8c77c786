//! Makes the schedules of the literature.
//!
//! | name | source |
//! |---|---|
//! | `gpipe` | Huang et al. 2018, arXiv 1811.06965 |
//! | `1f1b` | PipeDream-flush, Megatron: Narayanan et al. 2021, arXiv 2104.04473 |
//! | `interleaved` | the same paper |
//! | `bfs` | looped breadth-first: Lamy-Poirier 2022, arXiv 2211.05953 |
//! | `zb1p` | ZB-H1: Qi et al. 2024, arXiv 2401.10241 |
//! | `zbv` | the same paper, two stages a rank in the form of a V |
//! | `dualpipev` | DeepSeek-V3, arXiv 2412.19437, and github.com/deepseek-ai/DualPipe |

use super::{Action, Kind, MOST_WORKS, Schedule, Work};
use fulgurite_runtime::Error;
use std::collections::VecDeque;

/// A schedule to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Generator {
    /// The name of the schedule, one of [`KINDS`].
    pub kind: &'static str,
    /// The number of ranks.
    pub ranks: usize,
    /// The number of micro-batches.
    pub micro_batches: usize,
    /// The number of stages of each rank: two for `zbv` and `dualpipev`, one for `gpipe` and `1f1b`.
    pub chunks: usize,
}

/// The names of the schedules.
pub const KINDS: [&str; 7] = ["gpipe", "1f1b", "interleaved", "bfs", "zb1p", "zbv", "dualpipev"];

/// The list of one rank while it is made.
struct List {
    actions: Vec<Action>,
    /// For each stage of the rank (as the rank counts them), the number of works of each kind.
    done: Vec<[usize; 4]>,
    stages: Vec<usize>,
    /// Each I whose W is not placed yet, in order.
    pending: VecDeque<(usize, usize)>,
    /// The number of micro-batches.
    most: usize,
}

impl List {
    fn new(stages: Vec<usize>, most: usize) -> List {
        List { actions: Vec::new(), done: vec![[0; 4]; stages.len()], stages, pending: VecDeque::new(), most }
    }

    /// The next work of a kind in one of the rank's stages.
    fn next(&mut self, chunk: usize, kind: Kind) -> Work {
        // I counts as a backward, so I and B number micro-batches together
        let slot = if kind == Kind::I { Kind::B } else { kind };
        let micro_batch = self.done[chunk][slot as usize];
        self.done[chunk][slot as usize] += 1;
        if kind == Kind::I {
            self.pending.push_back((chunk, micro_batch));
        }
        Work { stage: self.stages[chunk], kind, micro_batch }
    }

    fn count(&self, chunk: usize, kind: Kind) -> usize {
        self.done[chunk][kind as usize]
    }

    fn work(&mut self, work: Work) {
        if work.micro_batch < self.most {
            self.actions.push(Action::Do(work));
        }
    }

    fn push(&mut self, chunk: usize, kind: Kind) {
        let work = self.next(chunk, kind);
        self.work(work);
    }

    fn exactly(&mut self, chunk: usize, kind: Kind, micro_batch: usize) {
        if kind == Kind::I {
            self.pending.push_back((chunk, micro_batch));
        }
        self.work(Work { stage: self.stages[chunk], kind, micro_batch });
    }

    /// Places the oldest W that is pending, of one stage if `chunk` names it.
    fn weight(&mut self, chunk: Option<usize>) {
        let at = self.pending.iter().position(|(c, _)| chunk.is_none_or(|chunk| chunk == *c));
        if let Some((chunk, micro_batch)) = at.and_then(|at| self.pending.remove(at)) {
            self.work(Work { stage: self.stages[chunk], kind: Kind::W, micro_batch });
        }
    }

    fn overlap(&mut self, a: (usize, Kind), b: (usize, Kind)) {
        let (a, b) = (self.next(a.0, a.1), self.next(b.0, b.1));
        self.actions.push(Action::Overlap(a, b));
    }
}

impl Generator {
    /// Makes the schedule.
    ///
    /// # Errors
    /// E751 for numbers that the schedule is not defined for.
    pub fn make(self) -> Result<Schedule, Error> {
        let Generator { kind, ranks, micro_batches: m, chunks } = self;
        let wrong = |claim: String| Err(Error::new("E751", claim));
        if ranks == 0 || m == 0 || chunks == 0 {
            return wrong("a schedule needs a rank, a micro-batch and a stage".to_owned());
        }
        if [ranks, m, chunks].iter().any(|n| *n > MOST_WORKS) || ranks * chunks > MOST_WORKS / m {
            return wrong(format!(
                "{ranks} ranks, {chunks} stages each and {m} micro-batches are more than {MOST_WORKS} works"
            ));
        }
        let wanted = match kind {
            "gpipe" | "1f1b" => Some(1),
            "zbv" | "dualpipev" => Some(2),
            _ => None,
        };
        if let Some(wanted) = wanted.filter(|w| *w != chunks) {
            return wrong(format!("`{kind}` has {wanted} stages a rank, not {chunks}"));
        }
        let v_shaped = matches!(kind, "zbv" | "dualpipev");
        let stages = ranks * chunks;
        let of = |rank: usize| -> Vec<usize> {
            if v_shaped { vec![rank, 2 * ranks - 1 - rank] } else { (rank..stages).step_by(ranks).collect() }
        };
        let mut place = vec![0; stages];
        (0..ranks).for_each(|rank| of(rank).into_iter().for_each(|stage| place[stage] = rank));
        let rounds = (m / ranks).max(1);
        if matches!(kind, "interleaved" | "zb1p") && chunks > 1 && !m.is_multiple_of(rounds) {
            return wrong(format!("`{kind}`: {m} micro-batches do not divide into {rounds} rounds"));
        }
        if kind == "dualpipev" && m < 2 * ranks {
            return wrong(format!("`dualpipev` on {ranks} ranks needs at least {} micro-batches, not {m}", 2 * ranks));
        }
        let list = |rank: usize| {
            let list = List::new(of(rank), m);
            match kind {
                "gpipe" => gpipe(list, m),
                "1f1b" => one_by_one(list, m, ranks - 1 - rank),
                "interleaved" => interleaved(list, self, rank, false),
                "zb1p" => interleaved(list, self, rank, true),
                "bfs" => breadth_first(list, m),
                "zbv" => zbv(list, self, rank),
                _ => dual(list, self, rank),
            }
        };
        if !KINDS.contains(&kind) {
            return wrong(format!("there is no schedule `{kind}`; one of {}", KINDS.join(", ")));
        }
        let lists = (0..ranks).map(list).collect();
        Ok(Schedule { stages, micro_batches: m, place, ties: Vec::new(), lists })
    }
}

fn gpipe(mut list: List, m: usize) -> Vec<Action> {
    (0..m).for_each(|_| list.push(0, Kind::F));
    (0..m).for_each(|_| list.push(0, Kind::B));
    list.actions
}

fn one_by_one(mut list: List, m: usize, behind: usize) -> Vec<Action> {
    let warm = m.min(behind);
    (0..warm).for_each(|_| list.push(0, Kind::F));
    for _ in warm..m {
        list.push(0, Kind::F);
        list.push(0, Kind::B);
    }
    (0..warm).for_each(|_| list.push(0, Kind::B));
    list.actions
}

fn breadth_first(mut list: List, m: usize) -> Vec<Action> {
    let chunks = list.stages.len();
    (0..chunks).for_each(|chunk| (0..m).for_each(|_| list.push(chunk, Kind::F)));
    for chunk in (0..chunks).rev() {
        (0..m).rev().for_each(|micro_batch| list.exactly(chunk, Kind::B, micro_batch));
    }
    list.actions
}

/// Interleaved 1F1B. With `zero`, B becomes I and W, and from the rank's own number on a W follows each I.
fn interleaved(mut list: List, g: Generator, rank: usize, zero: bool) -> Vec<Action> {
    let (m, v) = (g.micro_batches, g.chunks);
    let rounds = if v == 1 { 1 } else { (m / g.ranks).max(1) };
    let k = m / rounds;
    let behind = g.ranks - 1 - rank;
    let warm = (m * v).min((v - 1) * k + if zero { behind } else { 2 * behind });
    let micro_batch = |i: usize| i / (k * v) * k + i % k;
    let forward = |list: &mut List, i: usize| list.exactly(i / k % v, Kind::F, micro_batch(i));
    let backward = |list: &mut List, j: usize| {
        let chunk = v - 1 - j / k % v;
        list.exactly(chunk, if zero { Kind::I } else { Kind::B }, micro_batch(j));
        if zero && j >= rank {
            list.weight(None);
        }
    };
    (0..warm).for_each(|i| forward(&mut list, i));
    for (j, i) in (warm..m * v).enumerate() {
        forward(&mut list, i);
        backward(&mut list, j);
    }
    (m * v - warm..m * v).for_each(|j| backward(&mut list, j));
    while !list.pending.is_empty() {
        list.weight(None);
    }
    list.actions
}

fn zbv(mut list: List, g: Generator, rank: usize) -> Vec<Action> {
    use Kind::{F, I};
    let n = g.micro_batches.max(2 * g.ranks - 1);
    let left = g.ranks - rank;
    (0..2 * left - 1).for_each(|_| list.push(0, F));
    for _ in 0..rank {
        list.push(1, F);
        list.push(0, F);
    }
    for _ in 0..left {
        list.push(1, F);
        list.push(1, I);
        list.weight(Some(1));
    }
    while list.count(1, F) < list.count(0, F) || list.count(0, F) < n {
        if list.count(0, F) < n {
            list.push(0, F);
        }
        list.push(0, I);
        list.weight(Some(0));
        list.push(1, F);
        list.push(1, I);
        list.weight(Some(1));
    }
    for _ in 0..rank {
        list.push(0, I);
        list.push(1, I);
    }
    for _ in 0..left {
        list.push(0, I);
        list.weight(Some(0));
    }
    for chunk in [1, 0] {
        while list.pending.iter().any(|(c, _)| *c == chunk) {
            list.weight(Some(chunk));
        }
    }
    list.actions
}

fn dual(mut list: List, g: Generator, rank: usize) -> Vec<Action> {
    use Kind::{B, F, I};
    let (p, m) = (g.ranks, g.micro_batches);
    let behind = p - rank - 1;
    (0..2 * behind).for_each(|_| list.push(0, F));
    for _ in 0..rank + 1 {
        list.push(0, F);
        list.push(1, F);
    }
    for _ in 0..behind {
        list.push(1, I);
        list.weight(None);
        list.push(1, F);
    }
    for step in 0..m - 2 * p + rank + 1 {
        if step == 0 && behind == 0 {
            list.push(0, F);
            list.push(1, B);
        } else {
            list.overlap((0, F), (1, B));
        }
        list.overlap((1, F), (0, B));
    }
    for _ in 0..behind {
        list.push(1, B);
        list.overlap((1, F), (0, B));
    }
    let half = rank.div_ceil(2);
    let mut kind = B;
    for step in 0..rank + 1 {
        if step == half && !rank.is_multiple_of(2) {
            kind = I;
        }
        list.push(1, kind);
        if step == half && rank.is_multiple_of(2) {
            kind = I;
        }
        list.push(0, kind);
    }
    for _ in 0..behind {
        list.weight(None);
        list.push(0, kind);
    }
    while !list.pending.is_empty() {
        list.weight(None);
    }
    list.actions
}
