//! A program that was compiled to be shown, not for its results.

use fulgurite::Error;
use fulgurite::jit::CompileStage;
use fulgurite::profile::{Profile, profile};

/// How often a program is run to measure its steps: often enough that one slow run does not decide.
const RUNS: usize = 5;

/// The stages of a program, and what else is known of it.
pub struct TracedProgram {
    /// The stages; after a failure, those until then.
    pub stages: Vec<CompileStage>,
    /// The times of the steps, if they were measured.
    pub profile: Option<Profile>,
    /// The error with which the compilation or the run ended.
    pub failure: Option<Error>,
}

impl TracedProgram {
    /// Compiles a program by its first run; with `measured`, runs it again and records its steps. The first run does not
    /// count, because it brings the memory in.
    pub fn of(
        measured: bool,
        mut run: impl FnMut() -> Result<(), Error>,
        stages: impl FnOnce() -> Vec<CompileStage>,
    ) -> TracedProgram {
        let mut failure = run().err();
        let mut times = None;
        if measured && failure.is_none() {
            let (ran, profile) = profile(|| (0..RUNS).try_for_each(|_| run()));
            (failure, times) = (ran.err(), Some(profile));
        }
        TracedProgram { stages: stages(), profile: times, failure }
    }

    /// The stages.
    ///
    /// # Errors
    /// The failure.
    pub fn stages(self) -> Result<Vec<CompileStage>, Error> {
        match self.failure {
            Some(failure) => Err(failure),
            None => Ok(self.stages),
        }
    }
}
