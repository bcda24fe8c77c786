//! A finding: it is saved, and made smaller while it stays the same finding.

use crate::target::FuzzTarget;
use crate::trial::{self, TrialFault};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The time for making a finding smaller.
const PATIENCE: Duration = Duration::from_secs(20);

/// Writes the finding into a folder; gives the path. Equal kinds have equal names.
///
/// # Errors
/// The error of the file system.
pub fn save(folder: &Path, target: &FuzzTarget, input: &[u8], fault: &TrialFault) -> io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let mut hasher = DefaultHasher::new();
    fault.kind.hash(&mut hasher);
    let path = folder.join(format!("{}-{:08x}", target.name, hasher.finish() as u32));
    std::fs::write(&path, input)?;
    std::fs::write(path.with_extension("says"), format!("{}\n{}\n", fault.kind, fault.says))?;
    Ok(path)
}

/// A smaller input that is the same finding.
pub fn minimised(target: &FuzzTarget, input: &[u8], fault: &TrialFault) -> Vec<u8> {
    let same = |input: &[u8]| trial::run(target, input).err().is_some_and(|other| other.kind == fault.kind);
    smaller(input, PATIENCE, same)
}

/// Removes ever smaller parts of the input while the rest still is what `same` says.
pub fn smaller(input: &[u8], patience: Duration, same: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let started = Instant::now();
    let mut best = input.to_vec();
    let mut size = best.len().div_ceil(2);
    while size > 0 && started.elapsed() < patience {
        let before = best.len();
        let mut at = 0;
        while at < best.len() && started.elapsed() < patience {
            let end = (at + size).min(best.len());
            let rest = [&best[..at], &best[end..]].concat();
            if same(&rest) {
                best = rest;
            } else {
                at = end;
            }
        }
        if size > 1 || best.len() == before {
            size /= 2;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_needed_goes() {
        let needs = |input: &[u8]| input.contains(&b'a') && input.contains(&b'z');
        let made = smaller(b"0123456789a0123456789z0123", Duration::from_secs(5), needs);
        assert_eq!(made, b"az");
    }
}
