//! Holds messages that have arrived and were not received yet.

use super::{End, Tag};
use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// An event from another rank.
pub(super) enum Event {
    Message(Tag, Vec<u8>),
    /// The rank has ended.
    End(End),
}

/// Events, sorted by sender and tag.
pub(super) struct Inbox {
    events: Receiver<(usize, Event)>,
    messages: HashMap<(usize, Tag), VecDeque<Vec<u8>>>,
    ends: Vec<Option<End>>,
}

impl Inbox {
    pub(super) fn new(size: usize, events: Receiver<(usize, Event)>) -> Inbox {
        Inbox { events, messages: HashMap::new(), ends: vec![None; size] }
    }

    fn sort(&mut self, (from, event): (usize, Event)) {
        match event {
            Event::Message(tag, bytes) => self.messages.entry((from, tag)).or_default().push_back(bytes),
            // a rank that said goodbye before it closed its connection has ended in order
            Event::End(end) => _ = self.ends[from].get_or_insert(end),
        }
    }

    fn sort_all(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            self.sort(event);
        }
    }

    pub(super) fn poll(&mut self, from: usize, tag: Tag) -> Option<Vec<u8>> {
        self.sort_all();
        self.messages.get_mut(&(from, tag))?.pop_front()
    }

    pub(super) fn ended(&mut self, rank: usize) -> Option<End> {
        self.sort_all();
        self.ends[rank]
    }

    pub(super) fn idle(&mut self, most: Duration) {
        match self.events.recv_timeout(most) {
            Ok(event) => self.sort(event),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
            // no rank is left to send, so the thread waits for the whole time
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => std::thread::sleep(most),
        }
    }
}
