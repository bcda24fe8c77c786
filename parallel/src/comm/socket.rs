//! Ranks that are processes of one machine; a Unix socket connects each with each.
//!
//! A message is its tag (4 bytes), its length (8 bytes) and its bytes. For each other rank, one thread reads and one
//! thread writes, so no rank waits for one that reads slowly.

use super::inbox::{Event, Inbox};
use super::{Communicator, End, Tag};
use fulgurite_runtime::Error;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A tag that stands for no message: the sender ends in order.
const BYE: Tag = Tag::MAX;
/// The time between two attempts to reach a rank that has not come yet.
const RETRY: Duration = Duration::from_millis(5);
/// A rank that reads nothing for this long receives nothing more.
const PATIENCE: Duration = Duration::from_secs(10);

/// One process among the ranks.
pub struct Socket {
    rank: usize,
    /// One writer per rank, `None` for this rank.
    writers: Vec<Option<Writer>>,
    inbox: Inbox,
    own: Sender<(usize, Event)>,
}

struct Writer {
    messages: Sender<(Tag, Vec<u8>)>,
    thread: JoinHandle<()>,
    stream: UnixStream,
}

impl Socket {
    /// Meets the other ranks in a folder. Every rank calls this with the same folder, which no other user may enter.
    ///
    /// # Errors
    /// E771: a rank did not come within `limit`. E773: the system refused.
    pub fn meet(folder: &Path, rank: usize, size: usize, limit: Duration) -> Result<Socket, Error> {
        let listener = UnixListener::bind(door(folder, rank)).map_err(|e| refused(&e))?;
        listener.set_nonblocking(true).map_err(|e| refused(&e))?;
        let start = Instant::now();
        let (own, events) = channel();
        let mut writers: Vec<Option<Writer>> = (0..size).map(|_| None).collect();
        let late = |missing: usize| {
            let claim = format!("rank {missing} is gone: it did not come within {:.1} s", limit.as_secs_f64());
            Error::new("E771", claim).note(format!("rank {rank} waited for it at the start"))
        };
        for (other, writer) in writers.iter_mut().enumerate().take(rank) {
            let mut stream = loop {
                match UnixStream::connect(door(folder, other)) {
                    Ok(stream) => break stream,
                    Err(_) if start.elapsed() < limit => std::thread::sleep(RETRY),
                    Err(_) => return Err(late(other)),
                }
            };
            stream.write_all(&(rank as u64).to_ne_bytes()).map_err(|e| refused(&e))?;
            *writer = Some(serve(stream, other, own.clone()).map_err(|e| refused(&e))?);
        }
        while let Some(missing) = (rank + 1..size).find(|other| writers[*other].is_none()) {
            let mut stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(_) if start.elapsed() < limit => {
                    std::thread::sleep(RETRY);
                    continue;
                }
                Err(_) => return Err(late(missing)),
            };
            stream.set_nonblocking(false).map_err(|e| refused(&e))?;
            stream.set_read_timeout(Some(PATIENCE)).map_err(|e| refused(&e))?;
            let mut number = [0; 8];
            stream.read_exact(&mut number).map_err(|e| refused(&e))?;
            stream.set_read_timeout(None).map_err(|e| refused(&e))?;
            let other = u64::from_ne_bytes(number) as usize;
            if other <= rank || other >= size || writers[other].is_some() {
                return Err(Error::new("E773", format!("rank {other} came to rank {rank}, which did not expect it")));
            }
            writers[other] = Some(serve(stream, other, own.clone()).map_err(|e| refused(&e))?);
        }
        Ok(Socket { rank, writers, inbox: Inbox::new(size, events), own })
    }
}

/// The path of the socket at which a rank is met.
fn door(folder: &Path, rank: usize) -> PathBuf {
    folder.join(rank.to_string())
}

fn refused(why: &std::io::Error) -> Error {
    Error::new("E773", format!("ranks can't be connected: {why}"))
}

/// Starts the threads of one connection.
fn serve(stream: UnixStream, other: usize, events: Sender<(usize, Event)>) -> std::io::Result<Writer> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut reading = stream.try_clone()?;
    std::thread::Builder::new().name(format!("from rank {other}")).spawn(move || {
        loop {
            let event = read(&mut reading).unwrap_or(Event::End(End::Lost));
            let last = matches!(event, Event::End(_));
            if events.send((other, event)).is_err() || last {
                return;
            }
        }
    })?;
    let (messages, queue) = channel();
    let writing = stream.try_clone()?;
    let thread = std::thread::Builder::new().name(format!("to rank {other}")).spawn(move || write(writing, &queue))?;
    Ok(Writer { messages, thread, stream })
}

fn read(stream: &mut UnixStream) -> std::io::Result<Event> {
    let (mut tag, mut len) = ([0; 4], [0; 8]);
    stream.read_exact(&mut tag)?;
    stream.read_exact(&mut len)?;
    let (tag, len) = (Tag::from_ne_bytes(tag), u64::from_ne_bytes(len));
    let mut bytes = Vec::new();
    // memory grows with the bytes that arrive, not with the length that was announced
    if Read::by_ref(stream).take(len).read_to_end(&mut bytes)? as u64 != len {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(if tag == BYE { Event::End(End::Orderly) } else { Event::Message(tag, bytes) })
}

fn write(mut stream: UnixStream, queue: &Receiver<(Tag, Vec<u8>)>) {
    for (tag, bytes) in queue {
        let mut head = tag.to_ne_bytes().to_vec();
        head.extend((bytes.len() as u64).to_ne_bytes());
        // the thread that reads finds out that the other rank is gone
        if stream.write_all(&head).and_then(|()| stream.write_all(&bytes)).is_err() {
            return;
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        for writer in self.writers.iter().flatten() {
            let _ = writer.stream.shutdown(Shutdown::Both);
        }
    }
}

impl Communicator for Socket {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.writers.len()
    }

    fn send(&mut self, to: usize, tag: Tag, bytes: Vec<u8>) -> Result<(), Error> {
        match &self.writers[to] {
            Some(writer) => _ = writer.messages.send((tag, bytes)),
            None => _ = self.own.send((to, Event::Message(tag, bytes))),
        }
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
        for writer in self.writers.iter_mut().filter_map(Option::take) {
            let _ = writer.messages.send((BYE, Vec::new()));
            drop(writer.messages);
            let _ = writer.thread.join();
        }
    }
}
