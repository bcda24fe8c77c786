//! Ranks that `mpirun` started.
//!
//! One thread makes all calls, and only calls that return at once (`MPI_Isend`, `MPI_Improbe`, `MPI_Imrecv`,
//! `MPI_Test`), so that time limits hold. MPI keeps its own error handler, which reports the error and ends the job.
//! `mpirun` ends the job as well when a rank dies: the others get a signal, and have a moment to report what they
//! waited for.

use super::super::stop;
use fulgurite::Error;
use fulgurite::comm::{Communicator, End, Tag};
use mpi::environment::Universe;
use mpi::ffi;
use mpi::traits::Communicator as _;
use std::collections::HashMap;
use std::ffi::c_int;
use std::time::{Duration, Instant};

/// Time that the last messages may take to leave.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pause between two looks for messages, and the number of looks before the first pause.
const PAUSE: Duration = Duration::from_micros(50);
const EAGER: u32 = 64;

/// One of several processes of an MPI job.
pub struct Mpi {
    rank: usize,
    size: usize,
    /// Ends MPI when it is dropped.
    _universe: Universe,
    /// Messages being sent, whose bytes MPI reads until the request is done.
    sending: Vec<Transfer>,
    /// Messages being received.
    receiving: HashMap<(usize, Tag), Transfer>,
    looks: u32,
}

/// Bytes that MPI reads or writes until the request is done. A vector's elements keep their address when the vector
/// moves.
struct Transfer {
    request: ffi::MPI_Request,
    bytes: Vec<u8>,
}

impl Transfer {
    /// Whether it is done.
    fn test(&mut self) -> bool {
        let mut done: c_int = 0;
        // SAFETY: the request is this transfer's own, was started once, and MPI clears it when it is done (to test it
        // again is allowed then)
        unsafe { ffi::MPI_Test(&mut self.request, &mut done, ffi::RSMPI_STATUS_IGNORE) };
        done != 0
    }
}

impl Mpi {
    /// Joins the job.
    ///
    /// # Errors
    /// E773: MPI refuses.
    pub fn start() -> Result<Mpi, Error> {
        let (universe, _) = mpi::initialize_with_threading(mpi::Threading::Funneled)
            .ok_or_else(|| Error::new("E773", "MPI was started twice"))?;
        // after MPI, which installs handlers of its own
        stop::catch();
        let world = universe.world();
        let (rank, size) = (world.rank() as usize, world.size() as usize);
        Ok(Mpi { rank, size, _universe: universe, sending: Vec::new(), receiving: HashMap::new(), looks: 0 })
    }

    fn settle(&mut self) {
        self.sending.retain_mut(|transfer| !transfer.test());
    }
}

fn count(bytes: usize) -> Result<c_int, Error> {
    c_int::try_from(bytes).map_err(|_| Error::new("E773", format!("a message of {bytes} bytes is too long for MPI")))
}

/// Begins to receive a message, if there is one.
fn receive(from: usize, tag: Tag) -> Option<Transfer> {
    let (mut found, mut len): (c_int, c_int) = (0, 0);
    // SAFETY: a constant of the library
    let mut message = unsafe { ffi::RSMPI_MESSAGE_NULL };
    // SAFETY: `MPI_Status` is numbers, for which zero is a value; MPI writes to places that live through the calls
    unsafe {
        let mut status: ffi::MPI_Status = std::mem::zeroed();
        let world = ffi::RSMPI_COMM_WORLD;
        ffi::MPI_Improbe(from as c_int, tag as c_int, world, &mut found, &mut message, &mut status);
        if found != 0 {
            ffi::MPI_Get_count(&status, ffi::RSMPI_UINT8_T, &mut len);
        }
    }
    if found == 0 {
        return None;
    }
    let mut bytes = vec![0u8; usize::try_from(len).unwrap_or(0)];
    // SAFETY: MPI writes `len` bytes to `bytes` until the request is done; the owner of the transfer keeps it until
    // then
    let request = unsafe {
        let mut request = ffi::RSMPI_REQUEST_NULL;
        let data = bytes.as_mut_ptr().cast();
        ffi::MPI_Imrecv(data, len, ffi::RSMPI_UINT8_T, &mut message, &mut request);
        request
    };
    Some(Transfer { request, bytes })
}

impl Communicator for Mpi {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn send(&mut self, to: usize, tag: Tag, bytes: Vec<u8>) -> Result<(), Error> {
        self.settle();
        let len = count(bytes.len())?;
        // SAFETY: MPI reads `len` bytes of `bytes` until the request is done; they are kept in `sending` until then
        let request = unsafe {
            let mut request = ffi::RSMPI_REQUEST_NULL;
            let (data, world) = (bytes.as_ptr().cast(), ffi::RSMPI_COMM_WORLD);
            ffi::MPI_Isend(data, len, ffi::RSMPI_UINT8_T, to as c_int, tag as c_int, world, &mut request);
            request
        };
        self.sending.push(Transfer { request, bytes });
        Ok(())
    }

    fn poll(&mut self, from: usize, tag: Tag) -> Result<Option<Vec<u8>>, Error> {
        self.settle();
        let begun = self.receiving.remove(&(from, tag));
        let Some(mut transfer) = begun.or_else(|| receive(from, tag)) else { return Ok(None) };
        if !transfer.test() {
            self.receiving.insert((from, tag), transfer);
            return Ok(None);
        }
        self.looks = 0;
        Ok(Some(transfer.bytes))
    }

    fn ended(&mut self, _: usize) -> Option<End> {
        None
    }

    fn ending(&mut self) -> bool {
        stop::pressed()
    }

    fn idle(&mut self, most: Duration) {
        self.looks = self.looks.saturating_add(1);
        if self.looks < EAGER { std::thread::yield_now() } else { std::thread::sleep(PAUSE.min(most)) }
    }

    fn close(&mut self) {
        let start = Instant::now();
        while !self.sending.is_empty() && start.elapsed() < PATIENCE {
            self.settle();
            std::thread::sleep(PAUSE);
        }
    }

    fn abort(&mut self, status: u8) {
        // SAFETY: MPI runs: this value lives. The call ends all processes of the job.
        unsafe { ffi::MPI_Abort(ffi::RSMPI_COMM_WORLD, c_int::from(status)) };
    }
}
