//! Waits for messages with a time limit, and names the rank that is missing.

use super::{Communicator, End, FIRST_TAG, Tag};
use fulgurite_runtime::Error;
use std::fmt::Display;
use std::time::{Duration, Instant};

/// The tag of a rank that stops, with its reason.
const STOP: Tag = 0;
/// The tag of the question for whom a rank waits.
const ASK: Tag = 1;
/// The tag of the answer to [`ASK`]: the rank that is waited for.
const ANSWER: Tag = 2;
const BARRIER: Tag = 3;
const _: () = assert!(BARRIER < FIRST_TAG);

/// A waiting rank looks for messages at least this often.
const LOOK: Duration = Duration::from_millis(20);
/// A waiting rank answers within this time. A lost rank is reported by the rank that waits for it, or after this time
/// by another.
const GRACE: Duration = Duration::from_secs(1);

/// While all ranks are being ended, messages that are under way have this long to arrive.
const LAST: Duration = Duration::from_millis(200);
/// A rank gives each rank before it this long to report an error first.
const TURN: Duration = Duration::from_millis(100);

/// The ranks of a job, as one of them sees them.
pub struct Ranks {
    link: Box<dyn Communicator>,
    limit: Duration,
    doing: String,
}

/// The rank that is waited for, and the reason.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    from: usize,
    what: &'a dyn Display,
}

impl Ranks {
    /// Makes the ranks over `link`. A rank that waits longer than `limit` gives up.
    pub fn new(link: Box<dyn Communicator>, limit: Duration) -> Ranks {
        Ranks { link, limit, doing: String::new() }
    }

    /// The number of this rank.
    pub fn rank(&self) -> usize {
        self.link.rank()
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.link.size()
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let me = self.rank();
        (0..self.size()).filter(move |rank| *rank != me)
    }

    /// Notes the present work of this rank, for messages.
    pub fn doing(&mut self, what: impl Into<String>) {
        self.doing = what.into();
    }

    /// Refuses the number of a rank that does not exist, because carriers find ranks by their numbers.
    fn known(&self, rank: usize) -> Result<(), Error> {
        if rank < self.size() {
            return Ok(());
        }
        let claim = format!("there is no rank {rank}: there are {}, and the first is 0", self.size());
        Err(Error::new("E773", claim).help("name one of the ranks that were started, or start more"))
    }

    /// Sends, without waiting for the other side.
    ///
    /// # Errors
    /// E773: the carrier refused, or there is no such rank.
    pub fn send(&mut self, to: usize, tag: Tag, bytes: Vec<u8>) -> Result<(), Error> {
        self.known(to)?;
        self.link.send(to, tag, bytes)
    }

    /// The next message from this rank with this tag, if it has arrived.
    ///
    /// # Errors
    /// E773: the carrier refused, or there is no such rank.
    pub fn poll(&mut self, from: usize, tag: Tag) -> Result<Option<Vec<u8>>, Error> {
        self.known(from)?;
        self.link.poll(from, tag)
    }

    /// Waits for the next message from this rank with this tag; `what` names the message in errors.
    ///
    /// # Errors
    /// E770: the time limit passed. E771: a rank is gone. E772: a rank stopped. E773: there is no such rank.
    pub fn receive(&mut self, from: usize, tag: Tag, what: &dyn Display) -> Result<Vec<u8>, Error> {
        self.known(from)?;
        let wanted = Wanted { from, what };
        match self.until(from, tag, wanted, self.limit)? {
            Some(bytes) => Ok(bytes),
            None => self.search(tag, wanted),
        }
    }

    /// Waits for a message until the time is up, and answers the questions of other ranks meanwhile.
    fn until(&mut self, from: usize, tag: Tag, wanted: Wanted, limit: Duration) -> Result<Option<Vec<u8>>, Error> {
        let start = Instant::now();
        let mut lost: Option<(usize, Instant)> = None;
        let mut ending: Option<Instant> = None;
        loop {
            if let Some(bytes) = self.link.poll(from, tag)? {
                return Ok(Some(bytes));
            }
            for rank in self.others() {
                if let Some(why) = self.link.poll(rank, STOP)? {
                    return Err(stopped(rank, &why));
                }
                if self.link.poll(rank, ASK)?.is_some() {
                    self.link.send(rank, ANSWER, numbers(&[wanted.from as u64]))?;
                }
                if lost.is_none() && self.link.ended(rank) == Some(End::Lost) {
                    lost = Some((rank, Instant::now()));
                }
            }
            if self.link.ended(from).is_some() {
                // a rank may have sent a message before it ended
                return match (self.link.poll(from, tag)?, self.link.poll(from, STOP)?) {
                    (Some(bytes), _) => Ok(Some(bytes)),
                    (None, Some(why)) => Err(stopped(from, &why)),
                    (None, None) => Err(self.gone(from, wanted)),
                };
            }
            if let Some((rank, _)) = lost.filter(|(_, since)| since.elapsed() > GRACE) {
                return Err(self.gone(rank, wanted));
            }
            if self.link.ending() && ending.get_or_insert_with(Instant::now).elapsed() > LAST {
                return Err(
                    self.waiting(Error::new("E771", "the ranks are being ended, and one does not send"), wanted)
                );
            }
            let left = limit.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            self.link.idle(left.min(LOOK));
        }
    }

    /// Follows the chain of waiting ranks after the time is up: asks the rank that did not send for whom it waits, then
    /// that rank, until one does not answer.
    fn search(&mut self, tag: Tag, wanted: Wanted) -> Result<Vec<u8>, Error> {
        let (mut suspect, mut asked) = (wanted.from, vec![self.rank()]);
        while !asked.contains(&suspect) {
            asked.push(suspect);
            self.link.send(suspect, ASK, Vec::new())?;
            let Some(answer) = self.until(suspect, ANSWER, wanted, GRACE)? else {
                let claim = format!("rank {suspect} does not answer within {:.1} s", self.limit.as_secs_f64());
                let error = self.waiting(Error::new("E770", claim), wanted);
                let chain = asked[1..].windows(2).map(|w| format!("rank {} waits for rank {}", w[0], w[1]));
                return Err(chain.fold(error, Error::note).help("a rank that is only slow needs a longer time limit"));
            };
            // an answer that names no rank ends the chain, because it comes from another program
            let named = read_numbers(&answer).first().and_then(|n| usize::try_from(*n).ok());
            suspect = named.filter(|rank| self.known(*rank).is_ok()).unwrap_or(suspect);
        }
        if let Some(late) = self.link.poll(wanted.from, tag)? {
            return Ok(late);
        }
        let error = Error::new("E770", "ranks wait for each other");
        let chain = asked[1..].iter().map(|rank| format!("rank {rank} waits too"));
        Err(chain.fold(self.waiting(error, wanted), Error::note))
    }

    fn waiting(&self, error: Error, wanted: Wanted) -> Error {
        let doing = if self.doing.is_empty() { String::new() } else { format!(", at {},", self.doing) };
        error.note(format!("rank {}{doing} waited for {} from rank {}", self.rank(), wanted.what, wanted.from))
    }

    fn gone(&self, rank: usize, wanted: Wanted) -> Error {
        self.waiting(Error::new("E771", format!("rank {rank} is gone")), wanted)
    }

    /// Gives every rank the bytes of `root`.
    ///
    /// # Errors
    /// Reports the errors of [`Ranks::receive`].
    pub fn broadcast(&mut self, root: usize, tag: Tag, bytes: Vec<u8>, what: &dyn Display) -> Result<Vec<u8>, Error> {
        if self.rank() != root {
            return self.receive(root, tag, what);
        }
        for to in (0..self.size()).filter(|to| *to != root) {
            self.send(to, tag, bytes.clone())?;
        }
        Ok(bytes)
    }

    /// Gives `root` the bytes of every rank in their order, and the other ranks nothing.
    ///
    /// # Errors
    /// Reports the errors of [`Ranks::receive`].
    pub fn gather(&mut self, root: usize, tag: Tag, bytes: Vec<u8>, what: &dyn Display) -> Result<Vec<Vec<u8>>, Error> {
        if self.rank() != root {
            self.send(root, tag, bytes)?;
            return Ok(Vec::new());
        }
        let mut all = Vec::with_capacity(self.size());
        for from in 0..self.size() {
            all.push(if from == root { bytes.clone() } else { self.receive(from, tag, what)? });
        }
        Ok(all)
    }

    /// Waits until every rank has called this.
    ///
    /// # Errors
    /// Reports the errors of [`Ranks::receive`].
    pub fn barrier(&mut self, what: &dyn Display) -> Result<(), Error> {
        self.gather(0, BARRIER, Vec::new(), what)?;
        self.broadcast(0, BARRIER, Vec::new(), what).map(|_| ())
    }

    /// Ends in order, once every rank has called this.
    ///
    /// # Errors
    /// Reports the errors of [`Ranks::receive`].
    pub fn close(mut self) -> Result<(), Error> {
        self.barrier(&"the end")?;
        self.link.close();
        Ok(())
    }

    /// Whether this rank should report that another one failed. Several ranks notice at the same time; by the end of
    /// the time that this rank waits, the first of them has told the others.
    pub fn speaks(&mut self) -> bool {
        let turn = Instant::now() + TURN * self.rank() as u32;
        loop {
            if self.others().any(|rank| self.link.poll(rank, STOP).is_ok_and(|why| why.is_some())) {
                return false;
            }
            let left = turn.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            self.link.idle(left.min(LOOK));
        }
    }

    /// Ends because of an error, and tells the other ranks the reason unless one of them told it first.
    pub fn stop(mut self, error: &Error, status: u8) {
        if error.code() != "E772" {
            let doing = if self.doing.is_empty() { String::new() } else { format!(" at {}", self.doing) };
            let why = format!("{}{doing}", error.claim());
            for to in self.others() {
                let _ = self.link.send(to, STOP, why.clone().into_bytes());
            }
        }
        self.link.close();
        self.link.abort(status);
    }
}

fn stopped(rank: usize, why: &[u8]) -> Error {
    Error::new("E772", format!("rank {rank} stopped: {}", String::from_utf8_lossy(why)))
}

fn numbers(all: &[u64]) -> Vec<u8> {
    all.iter().flat_map(|n| n.to_ne_bytes()).collect()
}

fn read_numbers(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|b| u64::from_ne_bytes(*b)).collect()
}
