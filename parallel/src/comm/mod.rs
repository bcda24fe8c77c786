//! Ranks: processes (or threads) that work on one thing and send each other messages.
//!
//! | module | is |
//! |---|---|
//! | [`Ranks`] | what a program holds: it sends, waits with a time limit, and says who does not answer |
//! | [`Reduction`] | a sum over ranks, in their order, that goes on beside other work |
//! | [`Local`] | ranks that are threads of one process |
//! | [`Socket`] | ranks that are processes of one machine |
//!
//! A [`Communicator`] carries bytes from rank to rank. Everything else is made of that, so that sums have the same bits
//! whatever carries them. MPI stands behind it too (`fulgurite-cli`, feature `mpi`).
//!
//! NCCL would fit so: `send` and `poll` become `ncclSend` and `ncclRecv` on a stream of their own, with an event that
//! `poll` asks for; bytes become pointers of the device. [`Reduction::start`] is then an `ncclAllReduce` on that stream
//! and [`Reduction::finish`] waits for its event; the order of that sum is NCCL's.

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

/// What a message is about. Messages of one sender with one tag arrive in the order in which they were sent.
pub type Tag = u32;

/// Tags below this one are those of [`Ranks`]. All tags stay below 32768, which is what MPI promises.
pub const FIRST_TAG: Tag = 16;

/// How a rank ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It said so.
    Orderly,
    /// It was lost.
    Lost,
}

/// Carries messages between ranks. One thread of a rank calls it.
pub trait Communicator {
    /// The number of this rank, from 0.
    fn rank(&self) -> usize;

    /// How many ranks there are.
    fn size(&self) -> usize;

    /// Sends, without waiting for the other side.
    ///
    /// # Errors
    /// E773: the carrier refused. That the other side is gone is no error here: who waits for it finds out.
    fn send(&mut self, to: usize, tag: Tag, bytes: Vec<u8>) -> Result<(), Error>;

    /// The next message from this rank with this tag, if it is here. Never waits.
    ///
    /// # Errors
    /// E773: the carrier refused.
    fn poll(&mut self, from: usize, tag: Tag) -> Result<Option<Vec<u8>>, Error>;

    /// Whether a rank has ended, as far as can be seen from here.
    fn ended(&mut self, rank: usize) -> Option<End>;

    /// Whether the program that started the ranks is ending them all: one was lost, or the user wants it.
    fn ending(&mut self) -> bool {
        false
    }

    /// Waits until something may have come, at most this long.
    fn idle(&mut self, most: Duration);

    /// Says goodbye when all is done, and waits until what was sent has left.
    fn close(&mut self);

    /// Ends all ranks at once, if the carrier can do that.
    fn abort(&mut self, status: u8);
}
