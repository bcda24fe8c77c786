//! Before the first step: whether all ranks are about to do the same.

use crate::fault::{FAILED, Fault};
use fulgurite::Error;
use fulgurite::comm::{FIRST_TAG, Ranks, Tag};

const DIGEST: Tag = FIRST_TAG;
/// A rank whose preparation failed says this and why.
const FAILURE: &[u8] = b"error";

/// Compares what the ranks are about to do: `digest`, or why that can't be. What is wrong on all ranks is told once, by
/// rank 0. Gives nothing where another rank says why the run ends.
///
/// # Errors
/// The fault of this rank. E773: ranks differ. E770, E771: one is not there.
pub fn agree(mut ranks: Ranks, digest: Result<String, Fault>) -> Result<Option<Ranks>, Fault> {
    ranks.doing("the start");
    let mine = match &digest {
        Ok(digest) => digest.clone().into_bytes(),
        Err(fault) => [FAILURE, format!("[{}]: {}", fault.code, fault.claim).as_bytes()].concat(),
    };
    let stop = |ranks: Ranks, error: Error| {
        let told = error.code() == "E772";
        ranks.stop(&error, FAILED);
        if told { Ok(None) } else { Err(Fault::from(error)) }
    };
    if let (0, Err(fault)) = (ranks.rank(), &digest) {
        let error = Error::new(fault.code, fault.claim.clone());
        ranks.stop(&error, fault.status);
        return Err(fault.clone());
    }
    let all = match ranks.gather(0, DIGEST, mine.clone(), &"what it is about to do") {
        Ok(all) => all,
        Err(error) => return stop(ranks, error),
    };
    if let Some(rank) = all.iter().position(|other| *other != mine) {
        let error = match all[rank].strip_prefix(FAILURE) {
            Some(why) => {
                Error::new("E773", format!("rank {rank} can't begin: error{}", String::from_utf8_lossy(why)))
            }
            None => Error::new("E773", format!("rank {rank} is about to train something else than rank 0")),
        };
        return stop(ranks, error.help("all ranks need the same options, and the same text or checkpoint"));
    }
    match ranks.broadcast(0, DIGEST, Vec::new(), &"the start") {
        Ok(_) => Ok(Some(ranks)),
        Err(error) => stop(ranks, error),
    }
}
