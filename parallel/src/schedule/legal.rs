//! Checks that a schedule can run and is complete, and reports every violation with its place.

use super::play::{play, split};
use super::{Action, Kind, Schedule, Work};
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;

/// A rule that a schedule must obey.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Law {
    /// Each stage is on one rank, and only that rank runs it.
    Place,
    /// Each stage and micro-batch has one forward, and one backward: B, or I and W.
    Once,
    /// On a rank, F stands before B or I, and I before W.
    Order,
    /// The order on ranks, together with the dependencies between ranks, has no cycle.
    Deadlock,
    /// The two halves of an overlap do not depend on each other.
    Overlap,
    /// A work's result that another rank needs is sent, and received in the order of sending; nothing is sent within a
    /// rank.
    Exchange,
    /// Weights are reduced after the last backward of their stage; tied weights must be reduced.
    Reduce,
    /// A rank keeps no more micro-batches than its limit.
    Limit,
}

/// A violation of a rule by a schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The rule.
    pub law: Law,
    /// The rank, if the violation is on one rank.
    pub rank: Option<usize>,
    /// The position in the rank's list.
    pub position: Option<usize>,
    /// The fact that was found, and the expectation.
    pub claim: String,
}

/// Limits on a schedule beyond being complete and able to run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// The largest number of micro-batches, counted per stage, that a rank may keep at once.
    pub live: Option<usize>,
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "L{}", *self as usize + 1)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.law)?;
        if let Some(rank) = self.rank {
            write!(f, " rank {rank}")?;
        }
        if let Some(position) = self.position {
            write!(f, ", position {position}")?;
        }
        write!(f, ": {}", self.claim)
    }
}

/// All violations of a schedule; none if it is legal.
pub fn check(schedule: &Schedule, limits: &Limits) -> Vec<Violation> {
    if let Some(claim) = schedule.misshapen() {
        return vec![Violation { law: Law::Place, rank: None, position: None, claim }];
    }
    let mut c = Checker { s: schedule, at: HashMap::new(), split: split(schedule), found: Vec::new() };
    c.places();
    c.once();
    c.order();
    if c.found.is_empty() {
        // a schedule that leaves out a work waits for ever, and that is reported above
        c.deadlock();
    }
    c.overlaps();
    c.exchanges();
    c.reduces();
    c.limits(limits);
    c.found.sort_by_key(|v| v.law);
    c.found
}

struct Checker<'s> {
    s: &'s Schedule,
    /// The first place of each work.
    at: HashMap<Work, (usize, usize)>,
    /// The stages and micro-batches whose backward is cut into I and W.
    split: HashSet<(usize, usize)>,
    found: Vec<Violation>,
}

impl Checker<'_> {
    fn wrong(&mut self, law: Law, place: Option<(usize, usize)>, claim: String) {
        let (rank, position) = (place.map(|p| p.0), place.map(|p| p.1));
        self.found.push(Violation { law, rank, position, claim });
    }

    fn works(&self) -> Vec<(usize, usize, Work)> {
        let lists = self.s.lists.iter().enumerate();
        lists
            .flat_map(|(r, l)| l.iter().enumerate().flat_map(move |(i, a)| a.works().map(move |w| (r, i, w))))
            .collect()
    }

    fn places(&mut self) {
        for (stage, rank) in self.s.place.clone().into_iter().enumerate() {
            if rank >= self.s.ranks() {
                self.wrong(
                    Law::Place,
                    None,
                    format!("stage {stage} is on rank {rank}, and there are {}", self.s.ranks()),
                );
            }
        }
        for (rank, position, work) in self.works() {
            match self.s.place.get(work.stage) {
                Some(place) if *place != rank => {
                    let claim = format!("`{work}`: stage {} is on rank {place}", work.stage);
                    self.wrong(Law::Place, Some((rank, position)), claim);
                }
                None => {
                    let claim = format!("`{work}`: there are {} stages", self.s.stages);
                    self.wrong(Law::Place, Some((rank, position)), claim);
                }
                Some(_) => {}
            }
        }
    }

    fn once(&mut self) {
        for (rank, position, work) in self.works() {
            let place = Some((rank, position));
            if work.micro_batch >= self.s.micro_batches {
                let claim =
                    format!("`{work}`: micro-batch {} is out of range 0..{}", work.micro_batch, self.s.micro_batches);
                self.wrong(Law::Once, place, claim);
            } else if let Some(first) = self.at.get(&work) {
                let claim = format!("`{work}` a second time; first on rank {}, position {}", first.0, first.1);
                self.wrong(Law::Once, place, claim);
            } else {
                self.at.insert(work, (rank, position));
            }
        }
        for stage in 0..self.s.stages {
            let faults = |pick: fn([bool; 4]) -> Option<&'static str>| -> Vec<(usize, &'static str)> {
                let has = |micro_batch, kind| self.at.contains_key(&Work { stage, kind, micro_batch });
                let of = |m| pick([Kind::F, Kind::B, Kind::I, Kind::W].map(|kind| has(m, kind)));
                (0..self.s.micro_batches).filter_map(|m| Some((m, of(m)?))).collect()
            };
            let forward = faults(|[f, ..]| (!f).then_some("no forward"));
            let backward = faults(|[_, b, i, w]| match (b, i, w) {
                (true, false, false) | (false, true, true) => None,
                (true, _, _) => Some("B and I/W"),
                (false, false, false) => Some("no backward"),
                (false, true, false) => Some("I without W"),
                (false, false, true) => Some("W without I"),
            });
            // one violation for neighbours, because a short text may claim any number of micro-batches
            for run in [forward, backward].iter().flat_map(|all| all.chunk_by(|a, b| a.1 == b.1 && a.0 + 1 == b.0)) {
                let ((first, fault), (last, _)) = (run[0], run[run.len() - 1]);
                let to = if first == last { String::new() } else { format!(" to ({stage},{last})") };
                self.wrong(Law::Once, None, format!("{fault} for ({stage},{first}){to}"));
            }
        }
    }

    fn order(&mut self) {
        let mut late = Vec::new();
        for (work, place) in &self.at {
            let before = match work.kind {
                Kind::F => continue,
                Kind::B | Kind::I => Kind::F,
                Kind::W => Kind::I,
            };
            let before = Work { kind: before, ..*work };
            if let Some(other) = self.at.get(&before)
                && other.0 == place.0
                && other.1 > place.1
            {
                late.push((*place, format!("`{work}` before `{before}`")));
            }
        }
        late.sort();
        late.into_iter().for_each(|(place, claim)| self.wrong(Law::Order, Some(place), claim));
    }

    /// Runs the lists as far as possible, and reports ranks that don't reach the end.
    fn deadlock(&mut self) {
        let next = play(self.s, |_, _, _, _| {});
        let stuck: Vec<usize> = (0..self.s.ranks()).filter(|r| next[*r] < self.s.lists[*r].len()).collect();
        if stuck.is_empty() {
            return;
        }
        let heads: Vec<String> = stuck.iter().map(|&r| format!("`{}` on rank {r}", self.s.lists[r][next[r]])).collect();
        let mut claim = format!("the ranks wait for each other at {}", heads.join(", "));
        if let Some(cycle) = self.cycle(&stuck, &next) {
            claim.push_str(&format!("; {}", cycle.join("->")));
        }
        self.wrong(Law::Deadlock, None, claim);
    }

    /// A shortest cycle of "before" among the actions that did not run, from the first of them that lies on a cycle.
    fn cycle(&self, stuck: &[usize], next: &[usize]) -> Option<Vec<String>> {
        type Place = (usize, usize);
        let mut after: HashMap<Place, Vec<Place>> = HashMap::new();
        let left = stuck.iter().flat_map(|&r| (next[r]..self.s.lists[r].len()).map(move |i| (r, i)));
        for place in left {
            let (rank, at) = place;
            if at + 1 < self.s.lists[rank].len() {
                after.entry(place).or_default().push((rank, at + 1));
            }
            for work in self.s.lists[rank][at].works() {
                for need in self.s.needs(work, &self.split) {
                    if let Some(&before) = self.at.get(&need)
                        && before.1 >= next[before.0]
                        && before != place
                    {
                        after.entry(before).or_default().push(place);
                    }
                }
            }
        }
        let mut best: Option<Vec<Place>> = None;
        for &rank in stuck {
            let start = (rank, next[rank]);
            let mut from: HashMap<Place, Place> = HashMap::new();
            let mut queue = VecDeque::from([start]);
            'search: while let Some(place) = queue.pop_front() {
                for &behind in after.get(&place).into_iter().flatten() {
                    if behind == start {
                        let mut path = vec![start];
                        let mut at = place;
                        while at != start {
                            path.push(at);
                            at = from[&at];
                        }
                        path.push(start);
                        path.reverse();
                        if best.as_ref().is_none_or(|b| path.len() < b.len()) {
                            best = Some(path);
                        }
                        break 'search;
                    }
                    if let std::collections::hash_map::Entry::Vacant(free) = from.entry(behind) {
                        free.insert(place);
                        queue.push_back(behind);
                    }
                }
            }
        }
        Some(best?.into_iter().map(|(r, i)| self.s.lists[r][i].to_string()).collect())
    }

    fn overlaps(&mut self) {
        for (rank, list) in self.s.lists.iter().enumerate() {
            for (position, action) in list.iter().enumerate() {
                let Action::Overlap(a, b) = *action else { continue };
                let needs = |x: Work, y: Work| self.s.needs(x, &self.split).any(|n| n == y);
                let same = a.stage == b.stage && a.micro_batch == b.micro_batch;
                if same || needs(a, b) || needs(b, a) {
                    let claim = format!("the backward_split of `{action}` depend on each other");
                    self.found.push(Violation { law: Law::Overlap, rank: Some(rank), position: Some(position), claim });
                }
            }
        }
    }

    /// The rank that needs the result of a work, if there is one.
    fn receiver(&self, work: Work) -> Option<usize> {
        let stage = match work.kind {
            Kind::F => work.stage + 1,
            Kind::B | Kind::I => work.stage.checked_sub(1)?,
            Kind::W => return None,
        };
        self.s.place.get(stage).copied()
    }

    fn exchanges(&mut self) {
        let mut sent: HashMap<(usize, usize), Vec<Work>> = HashMap::new();
        let mut received: HashMap<(usize, usize), Vec<Work>> = HashMap::new();
        let mut any = false;
        let mut wrong = Vec::new();
        for (rank, list) in self.s.lists.iter().enumerate() {
            for (position, action) in list.iter().enumerate() {
                match *action {
                    Action::Send(work) => {
                        any = true;
                        match self.receiver(work) {
                            Some(to) if to != rank => sent.entry((rank, to)).or_default().push(work),
                            Some(_) => wrong.push(((rank, position), format!("`{action}`: it stays on this rank"))),
                            None => wrong.push(((rank, position), format!("`{action}`: no rank waits for it"))),
                        }
                        if self.at.get(&work).is_none_or(|p| p.0 != rank || p.1 >= position) {
                            wrong.push(((rank, position), format!("`{action}` before `{work}`")));
                        }
                    }
                    Action::Receive(work) => {
                        any = true;
                        // the received value is the one that the work needs
                        let needs: Vec<Work> = self.s.needs(work, &self.split).collect();
                        let from = needs.into_iter().find(|n| self.s.place.get(n.stage).is_some_and(|p| *p != rank));
                        match from {
                            Some(need) => received.entry((self.s.place[need.stage], rank)).or_default().push(need),
                            None => wrong.push((
                                (rank, position),
                                format!("`{action}`: it waits for a message that no rank sends"),
                            )),
                        }
                        if self.at.get(&work).is_none_or(|p| p.0 != rank || p.1 <= position) {
                            wrong.push(((rank, position), format!("`{action}` behind `{work}`")));
                        }
                    }
                    _ => {}
                }
            }
        }
        if any {
            let mut pairs: Vec<(usize, usize)> = sent.keys().chain(received.keys()).copied().collect();
            pairs.sort_unstable();
            pairs.dedup();
            for (from, to) in pairs {
                let out = sent.get(&(from, to)).map_or(&[][..], Vec::as_slice);
                let into = received.get(&(from, to)).map_or(&[][..], Vec::as_slice);
                if out != into {
                    let at = out.iter().zip(into).position(|(a, b)| a != b).unwrap_or(out.len().min(into.len()));
                    let name = |list: &[Work]| list.get(at).map_or_else(|| "nothing".to_owned(), |w| format!("`{w}`"));
                    let claim = format!(
                        "exchange number {at} from rank {from} to rank {to}: {} is sent, {} received",
                        name(out),
                        name(into)
                    );
                    wrong.push(((from, 0), claim));
                }
            }
            let mut unsent: Vec<(usize, usize, Work)> = self.works();
            unsent.retain(|(rank, _, work)| {
                self.receiver(*work).is_some_and(|to| to != *rank)
                    && !sent.values().flatten().any(|other| other == work)
            });
            for (rank, position, work) in unsent {
                wrong.push(((rank, position), format!("`{work}` is not sent to rank {:?}", self.receiver(work))));
            }
        }
        wrong.into_iter().for_each(|(place, claim)| self.wrong(Law::Exchange, Some(place), claim));
    }

    fn reduces(&mut self) {
        let mut reduced: HashMap<usize, (usize, usize)> = HashMap::new();
        let mut wrong = Vec::new();
        for (rank, list) in self.s.lists.iter().enumerate() {
            for (position, action) in list.iter().enumerate() {
                let Action::Reduce(stage) = *action else { continue };
                if self.s.place.get(stage) != Some(&rank) {
                    wrong.push((Some((rank, position)), format!("`{action}`: stage {stage} is not on this rank")));
                }
                if reduced.insert(stage, (rank, position)).is_some() {
                    wrong.push((Some((rank, position)), format!("`{action}` a second time")));
                }
                let late =
                    list[position..].iter().flat_map(Action::works).find(|w| w.stage == stage && w.kind != Kind::F);
                if let Some(late) = late {
                    wrong.push((Some((rank, position)), format!("`{action}` before `{late}`")));
                }
            }
        }
        for tie in &self.s.ties {
            for stage in tie.iter().filter(|s| !reduced.contains_key(s)) {
                let tie: Vec<String> = tie.iter().map(usize::to_string).collect();
                wrong.push((None, format!("stage {stage} shares weights (tie {}) and is not reduced", tie.join(" "))));
            }
        }
        wrong.into_iter().for_each(|(place, claim)| self.wrong(Law::Reduce, place, claim));
    }

    fn limits(&mut self, limits: &Limits) {
        let Some(most) = limits.live else { return };
        for (rank, list) in self.s.lists.iter().enumerate() {
            let mut live = 0usize;
            let mut over = None;
            for (position, action) in list.iter().enumerate() {
                live += action.works().filter(|w| w.kind == Kind::F).count();
                if live > most {
                    over.get_or_insert((position, live));
                }
                let ended = action.works().filter(|w| matches!(w.kind, Kind::B | Kind::W)).count();
                live = live.saturating_sub(ended);
            }
            if let Some((position, live)) = over {
                let claim = format!("{live} micro-batches are kept, at most {most} may be");
                self.found.push(Violation { law: Law::Limit, rank: Some(rank), position: Some(position), claim });
            }
        }
    }
}
