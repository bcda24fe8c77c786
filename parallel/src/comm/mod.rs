//! Ranks: processes or threads that work on one job and send each other messages.
//!
//! | module | is |
//! |---|---|
//! | [`Ranks`] | is the handle of a program: it sends, waits with a time limit, and names a rank that does not answer |
//! | [`Reduction`] | sums over ranks, in their order, while other work goes on |
//! | [`Local`] | makes ranks of the threads of one process |
//! | [`Socket`] | makes ranks of the processes of one machine |
//!
//! A [`Communicator`] carries bytes from rank to rank. Everything else is built on it, so sums have the same bits
//! whatever carries them. MPI is a communicator too (`fulgurite-cli`, feature `mpi`).
//!
//! NCCL would fit this trait: `send` and `poll` become `ncclSend` and `ncclRecv` on a stream of their own, with an
//! event that `poll` queries, and bytes become pointers of the device. [`Reduction::start`] is then an `ncclAllReduce`
//! on that stream and [`Reduction::finish`] waits for its event; NCCL decides the order of that sum.

mod inbox;
mod local;
mod ranks;
mod reduce;
#[cfg(unix)]
mod socket;
#[cfg(test)]
mod tests;

pub use local::Local;
pub use ranks::Ranks;
pub use reduce::{Reduction, add, bytes, floats};
#[cfg(unix)]
pub use socket::Socket;

use fulgurite_runtime::Error;
use std::time::Duration;

/// Identifies the subject of a message. Messages of one sender with one tag arrive in the order in which they were
/// sent.
pub type Tag = u32;

/// Tags below this one belong to [`Ranks`]. All tags stay below 32768, because MPI promises no more.
pub const FIRST_TAG: Tag = 16;

/// The way in which a rank ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The rank said goodbye.
    Orderly,
    /// The connection to the rank was lost.
    Lost,
}

/// Carries messages between ranks. One thread of each rank calls it.
pub trait Communicator {
    /// The number of this rank, from 0.
    fn rank(&self) -> usize;

    /// The number of ranks.
    fn size(&self) -> usize;

    /// Sends, without waiting for the other side.
    ///
    /// # Errors
    /// E773: the carrier refused. A receiver that has ended is no error here; a rank that waits for it finds out.
    fn send(&mut self, to: usize, tag: Tag, bytes: Vec<u8>) -> Result<(), Error>;

    /// The next message from this rank with this tag, if it has arrived. This never waits.
    ///
    /// # Errors
    /// E773: the carrier refused.
    fn poll(&mut self, from: usize, tag: Tag) -> Result<Option<Vec<u8>>, Error>;

    /// Whether a rank has ended, as far as can be seen from here.
    fn ended(&mut self, rank: usize) -> Option<End>;

    /// Whether the program that started the ranks is ending all of them, because one was lost or the user wants it.
    fn ending(&mut self) -> bool {
        false
    }

    /// Waits until a message may have arrived, at most this long.
    fn idle(&mut self, most: Duration);

    /// Says goodbye at the end of the work, and waits until all sent messages have left.
    fn close(&mut self);

    /// Ends all ranks at once, if the carrier is able to. Others do nothing.
    fn abort(&mut self, _status: u8) {}
}
