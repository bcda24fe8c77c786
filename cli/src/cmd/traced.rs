//! A program that was compiled to be shown, not for its results.

use fulgurite::Error;
use fulgurite::jit::CompileStage;
use fulgurite::profile::{Profile, profile};

/// How often a program is run to measure its steps: often enough that one slow run does not decide.
const RUNS: usize = 5;

/// The stages of a program, and what else is known of it.
pub struct ShownProgram {
    /// The stages; after a failure, those until then.
    pub stages: Vec<CompileStage>,
    /// The times of the steps, if they were measured.
    pub profile: Option<Profile>,
    /// The error with which the compilation or the run ended.
    pub failure: Option<Error>,
}

impl ShownProgram {
    /// Compiles a program by its first run; with `measured`, runs it again and records its steps. The first run does not
    /// count, because it brings the memory in.
    pub fn of(
        measured: bool,
        mut run: impl FnMut() -> Result<(), Error>,
        stages: impl FnOnce() -> Vec<CompileStage>,
    ) -> ShownProgram {
        let mut failure = run().err();
        let mut times = None;
        if measured && failure.is_none() {
            let (ran, profile) = profile(|| (0..RUNS).try_for_each(|_| run()));
            (failure, times) = (ran.err(), Some(profile));
        }
        ShownProgram { stages: stages(), profile: times, failure }
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

#[cfg(test)]
mod tests {
    use super::{RUNS, ShownProgram};
    use fulgurite::prelude::{Tensor, TensorOps, jit};
    use fulgurite::viewer::Viewer;

    #[test]
    fn a_program_that_fails_keeps_its_stages() {
        let f = jit(|x: Tensor| x.exp().reshape(3)).named("wrong").keep_traces();
        let x = Tensor::from([0.5f32, -0.5]);
        let shown = ShownProgram::of(true, || f.call(x.clone()).map(drop), || f.stages());
        assert!(shown.profile.is_none() && !shown.stages.is_empty());
        let page = Viewer::new("wrong", &shown.stages).failed(shown.failure.as_ref()).document().expect("a page");
        let error = page["error"].as_str().expect("an error").to_owned();
        assert!(error.contains("reshape"), "{error}");
        assert_eq!(shown.stages().expect_err("it fails").code(), &error[6..10], "{error}");
    }

    #[test]
    fn steps_are_measured_after_the_first_run() {
        let f = jit(|x: Tensor| x.exp()).keep_traces();
        let x = Tensor::from([0.5f32, -0.5]);
        let shown = ShownProgram::of(true, || f.call(x.clone()).map(drop), || f.stages());
        let profile = shown.profile.expect("measured");
        assert!(profile.steps.iter().all(|step| step.runs == RUNS as u64));
    }
}
