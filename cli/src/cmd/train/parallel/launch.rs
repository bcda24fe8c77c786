//! Starts ranks on this machine. Each runs the command line of the launcher.
//!
//! Each rank reads its standard input: a line asks it to stop, and the end of the input says that the launcher waits
//! no more. Ranks are a process group of their own, so that ctrl-C reaches the launcher alone.

use super::super::stop::{self, Stop};
use super::place::RANK;
use crate::fault::{FAILED, Fault};
use crate::ui::Ui;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Pause between two looks at the ranks.
const LOOK: Duration = Duration::from_millis(20);
/// After one rank has failed, the others have this long to report what they know of the failure.
const GRACE: Duration = Duration::from_secs(3);

/// A folder that is removed at the end.
struct Meeting(PathBuf);

impl Drop for Meeting {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn meeting() -> Result<Meeting, Fault> {
    let path = std::env::temp_dir().join(format!("fulgurite-{}", std::process::id()));
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    // left by a process that had this number and was killed
    let _ = std::fs::remove_dir_all(&path);
    builder.create(&path).map_err(|e| Fault::unwritable(&path, &e))?;
    Ok(Meeting(path))
}

/// The ranks, killed if they outlive this.
struct Started(Vec<Child>);

impl Drop for Started {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts `n` ranks with this command line and waits for them. Returns the exit status of the run.
///
/// # Errors
/// E923: they can't be started.
pub fn launch(n: usize, ui: &Ui) -> Result<u8, Fault> {
    let folder = meeting()?;
    let fail = |e: std::io::Error| Fault::usage("E923", format!("processes can't be started: {e}"));
    let program = std::env::current_exe().map_err(fail)?;
    let mut started = Started(Vec::new());
    for rank in 0..n {
        let mut command = Command::new(&program);
        command.args(std::env::args_os().skip(1)).stdin(Stdio::piped());
        command.env(RANK, format!("{rank} {n} {}", folder.0.display()));
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        started.0.push(command.spawn().map_err(fail)?);
    }
    let numbers: Vec<String> = started.0.iter().map(|c| c.id().to_string()).collect();
    ui.status("Started", &format!("{n} ranks: processes {}", numbers.join(" ")));
    let stop = Stop::listen(ui);
    let (mut asked, mut status) = (false, None);
    let mut failed: Option<Instant> = None;
    let mut ended = vec![false; n];
    while ended.iter().any(|e| !e) {
        for (rank, child) in started.0.iter_mut().enumerate().filter(|(rank, _)| !ended[*rank]).collect::<Vec<_>>() {
            let Some(code) = child.try_wait().map_err(fail)? else { continue };
            ended[rank] = true;
            if rank == 0 || !code.success() {
                status = status.max(Some(status_of(rank, child.id(), code, ui)));
            }
            if !code.success() && code.code() != Some(i32::from(stop::INTERRUPTED)) {
                failed.get_or_insert_with(Instant::now);
            }
        }
        if stop.interrupted() && !asked {
            asked = true;
            if let Some(input) = &mut started.0[0].stdin {
                let _ = writeln!(input, "stop");
            }
        }
        if failed.is_some_and(|since| since.elapsed() > GRACE) {
            break;
        }
        std::thread::sleep(LOOK);
    }
    Ok(status.unwrap_or(FAILED))
}

/// The exit status of a rank. Warns if a signal ended the rank.
fn status_of(rank: usize, process: u32, code: ExitStatus, ui: &Ui) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&code) {
        ui.warn(&format!("rank {rank} (process {process}) was ended by signal {signal}"));
    }
    code.code().and_then(|c| u8::try_from(c).ok()).unwrap_or(FAILED)
}
