//! Ranks that are threads of one process.

use super::inbox::{Event, Inbox};
use super::{Communicator, End, Tag};
use fulgurite_runtime::Error;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// One rank among several in a process.
pub struct Local {
    rank: usize,
    others: Vec<Sender<(usize, Event)>>,
    inbox: Inbox,
}

impl Local {
    /// Makes `size` ranks, one for each thread.
    pub fn ranks(size: usize) -> Vec<Local> {
        let (others, inboxes): (Vec<_>, Vec<_>) = (0..size).map(|_| channel()).unzip();
        let one = |(rank, events)| Local { rank, others: others.clone(), inbox: Inbox::new(size, events) };
        inboxes.into_iter().enumerate().map(one).collect()
    }

    fn tell(&self, end: End) {
        for other in &self.others {
            // a rank that has ended does not receive this
            let _ = other.send((self.rank, Event::End(end)));
        }
    }
}

impl Communicator for Local {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.others.len()
    }

    fn send(&mut self, to: usize, tag: Tag, bytes: Vec<u8>) -> Result<(), Error> {
        let _ = self.others[to].send((self.rank, Event::Message(tag, bytes)));
        Ok(())
    }

    fn poll(&mut self, from: usize, tag: Tag) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.inbox.poll(from, tag))
    }

    fn ended(&mut self, rank: usize) -> Option<End> {
        self.inbox.ended(rank)
    }

    fn idle(&mut self, most: Duration) {
        self.inbox.idle(most);
    }

    fn close(&mut self) {
        self.tell(End::Orderly);
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.tell(End::Lost);
    }
}
