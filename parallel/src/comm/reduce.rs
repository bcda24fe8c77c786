//! Sums over ranks.
//!
//! Each rank of the group sums one piece of the numbers and sends the sum to the others, so every rank sends and
//! receives 2 (n - 1) / n of the numbers, in two rounds. An element is `x0 + x1 + x2 + …` in the order of the group.
//! The carrier and the division into pieces don't change that order, so results have the same bits in every run.

use super::{Ranks, Tag};
use fulgurite_runtime::Error;
use std::ops::Range;

/// A sum over a group of ranks that runs while the ranks do other work.
pub struct Reduction {
    group: Vec<usize>,
    /// The position of this rank in the group.
    me: usize,
    tag: Tag,
    data: Vec<f32>,
    /// For each rank, its numbers for the piece that this rank sums.
    parts: Vec<Option<Vec<f32>>>,
    /// For each rank, whether its sum has arrived; the entry of this rank stands for the first round.
    done: Vec<bool>,
}

impl Reduction {
    /// Starts the sum: sends the other ranks their pieces. `group` contains this rank. The group and its order, the tag
    /// and the count of numbers agree on all ranks of the group. Two sums at one time need different tags.
    ///
    /// # Errors
    /// E773: the carrier refused, or this rank is not in the group.
    pub fn start(ranks: &mut Ranks, group: &[usize], tag: Tag, data: Vec<f32>) -> Result<Reduction, Error> {
        let Some(me) = group.iter().position(|rank| *rank == ranks.rank()) else {
            let claim = format!("rank {} takes part in a sum over ranks {group:?}", ranks.rank());
            return Err(Error::new("E773", claim));
        };
        let n = group.len();
        let sum = Reduction { group: group.to_vec(), me, tag, data, parts: vec![None; n], done: vec![false; n] };
        for (at, to) in group.iter().enumerate().filter(|(at, _)| *at != me) {
            ranks.send(*to, tag, bytes(&sum.data[sum.piece(at)]))?;
        }
        Ok(sum)
    }

    /// The piece that the rank at this position of the group sums.
    fn piece(&self, at: usize) -> Range<usize> {
        let (len, n) = (self.data.len(), self.group.len());
        len * at / n..len * (at + 1) / n
    }

    /// Takes the messages that have arrived, without waiting, and says whether the sum is complete.
    ///
    /// # Errors
    /// E773: a message does not fit.
    pub fn advance(&mut self, ranks: &mut Ranks) -> Result<bool, Error> {
        while let Some(from) = self.missing() {
            match ranks.poll(self.group[from], self.tag)? {
                Some(bytes) => self.take(ranks, from, &bytes)?,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Waits for the sum.
    ///
    /// # Errors
    /// Reports the errors of [`Ranks::receive`], and E773 for a message that does not fit.
    pub fn finish(mut self, ranks: &mut Ranks, what: &dyn std::fmt::Display) -> Result<Vec<f32>, Error> {
        while let Some(from) = self.missing() {
            let bytes = ranks.receive(self.group[from], self.tag, what)?;
            self.take(ranks, from, &bytes)?;
        }
        Ok(self.data)
    }

    /// The position of the rank whose message is next: first the pieces to be summed, then the sums. Each rank sends
    /// its messages in this order too.
    fn missing(&self) -> Option<usize> {
        let others = || (0..self.group.len()).filter(|at| *at != self.me);
        others().find(|at| self.parts[*at].is_none()).or_else(|| others().find(|at| !self.done[*at]))
    }

    fn take(&mut self, ranks: &mut Ranks, from: usize, bytes: &[u8]) -> Result<(), Error> {
        let summing = self.parts.iter().enumerate().any(|(at, part)| at != self.me && part.is_none());
        let piece = self.piece(if summing { self.me } else { from });
        let came = floats(bytes);
        if bytes.len() != piece.len() * size_of::<f32>() {
            let claim = format!("rank {} sums {} numbers where {} belong", self.group[from], came.len(), piece.len());
            return Err(Error::new("E773", claim).help("all ranks must run the same program on the same settings"));
        }
        if !summing {
            self.data[piece].copy_from_slice(&came);
            self.done[from] = true;
            return Ok(());
        }
        self.parts[from] = Some(came);
        if self.parts.iter().enumerate().all(|(at, part)| at == self.me || part.is_some()) {
            self.parts[self.me] = Some(self.data[piece.clone()].to_vec());
            let mut parts = self.parts.iter().flatten();
            let mut sum = parts.next().cloned().unwrap_or_default();
            parts.for_each(|part| add(&mut sum, part));
            for (_, to) in self.group.iter().enumerate().filter(|(at, _)| *at != self.me) {
                ranks.send(*to, self.tag, self::bytes(&sum))?;
            }
            self.data[piece].copy_from_slice(&sum);
        }
        Ok(())
    }
}

/// Adds `more` to `sum`, element by element.
pub fn add(sum: &mut [f32], more: &[f32]) {
    sum.iter_mut().zip(more).for_each(|(a, b)| *a += b);
}

/// The bytes of these numbers, as a message.
pub fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_ne_bytes()).collect()
}

/// The numbers of a message.
pub fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|b| f32::from_ne_bytes(*b)).collect()
}
