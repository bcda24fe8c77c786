//! Each target on its corpus, and on a few inputs by a fixed seed. `.ci/run` and longer campaigns run the command.

use fulgurite_fuzz::campaign::{CampaignEnd, corpus};
use fulgurite_fuzz::supervisor::{self, CampaignSettings};
use fulgurite_fuzz::targets::ALL;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// One target at a time, because times are compared with limits.
static ONE: Mutex<()> = Mutex::new(());

/// Enough inputs to see that a target runs, beside its corpus.
const INPUTS: usize = 60;

fn settings() -> CampaignSettings {
    let folder = std::env::temp_dir().join("fulgurite-fuzz-tests");
    let program = PathBuf::from(env!("CARGO_BIN_EXE_fulgurite-fuzz"));
    CampaignSettings { seed: 1, end: CampaignEnd::Inputs(INPUTS), all: false, folder, program }
}

/// The corpus of a target is a part of its seeds, so that it runs first.
fn target(name: &str) {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let target = ALL.iter().find(|target| target.name == name).expect("the target is in the table");
    let found = supervisor::supervise(target, &settings()).expect("the command runs");
    assert!(!found, "the output has the finding, and how to run it again");
}

macro_rules! tests {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                target(stringify!($name));
            }
        )*

        #[test]
        fn every_target_is_tested() {
            let names: Vec<&str> = ALL.iter().map(|target| target.name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

tests!(archives cases expressions fmt onnx pt2 rows rules safetensors schedules traces);

/// A folder of the corpus that belongs to no target would never run.
#[test]
fn every_corpus_has_a_target() {
    let folders =
        std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")).into_iter().flatten().flatten();
    for folder in folders {
        let name = folder.file_name().to_string_lossy().into_owned();
        let target = ALL.iter().find(|target| target.name == name).unwrap_or_else(|| panic!("no target `{name}`"));
        assert!(!corpus(target).is_empty(), "{name}");
    }
}
