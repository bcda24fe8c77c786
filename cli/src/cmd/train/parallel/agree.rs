//! Agreement before the first step: all ranks are about to train alike.

use crate::fault::Fault;
use crate::ui::Ui;
use fulgurite::Error;
use fulgurite::comm::{FIRST_TAG, Ranks, Tag};

const DIGEST: Tag = FIRST_TAG;
/// Start of the message from a rank whose preparation failed. The reason follows.
const FAILURE: &[u8] = b"error";

/// Compares the work that ranks are about to do: `digest`, or the fault that prevents it. A fault of all ranks is
/// reported once, by rank 0.
///
/// # Errors
/// The exit status, after this rank or another one has reported the reason.
pub fn agree(mut ranks: Ranks, digest: Result<String, Fault>, ui: &Ui) -> Result<Ranks, u8> {
    ranks.doing("the start");
    match compare(&mut ranks, digest) {
        Ok(()) => Ok(ranks),
        Err(fault) => Err(stop(ranks, &fault, ui)),
    }
}

fn compare(ranks: &mut Ranks, digest: Result<String, Fault>) -> Result<(), Fault> {
    let mine = match digest {
        Ok(digest) => digest.into_bytes(),
        Err(fault) if ranks.rank() == 0 => return Err(fault),
        Err(fault) => [FAILURE, format!("[{}]: {}", fault.code, fault.claim).as_bytes()].concat(),
    };
    let all = ranks.gather(0, DIGEST, mine.clone(), &"what it is about to do")?;
    if let Some(rank) = all.iter().position(|other| *other != mine) {
        let claim = match all[rank].strip_prefix(FAILURE) {
            Some(why) => format!("rank {rank} can't begin: error{}", String::from_utf8_lossy(why)),
            None => format!("rank {rank} is about to train something else than rank 0"),
        };
        let error = Error::new("E773", claim).help("all ranks need the same options, and the same text or checkpoint");
        return Err(error.into());
    }
    ranks.broadcast(0, DIGEST, Vec::new(), &"the start")?;
    Ok(())
}

/// Ends the work of this rank. Reports the fault, unless another rank has reported it. Returns the exit status.
pub fn stop(mut ranks: Ranks, fault: &Fault, ui: &Ui) -> u8 {
    let mine = match fault.code {
        "E772" => false,
        "E770" | "E771" => ranks.speaks(),
        _ => true,
    };
    // reported first, because MPI ends this process with the others
    if mine {
        ui.fault(fault);
    }
    ranks.stop(&Error::new(fault.code, fault.claim.clone()), fault.status);
    fault.status
}
