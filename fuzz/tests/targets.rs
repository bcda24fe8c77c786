//! Each target on its corpus, and on a fixed number of inputs by a fixed seed. Longer runs are those of the command.

use fulgurite_fuzz::campaign::{Campaign, End, corpus};
use fulgurite_fuzz::targets::ALL;
use fulgurite_fuzz::trial;
use std::sync::Mutex;
use std::time::Instant;

/// One target at a time, because memory and time are those of the process.
static ONE: Mutex<()> = Mutex::new(());

/// The environment variable that says how many times as many inputs are run.
const TIMES: &str = "FULGURITE_FUZZ_TIMES";

fn target(name: &str) {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let target = ALL.iter().find(|target| target.name == name).expect("the target is in the table");
    let kept = std::env::temp_dir().join(format!("fulgurite-fuzz-test-{}", std::process::id()));
    trial::keep_in(&kept).expect("the folder of temporary files can be written");
    for (path, input) in corpus(target) {
        if let Err(fault) = trial::run(target, &input) {
            panic!("{}: {}", path.display(), fault.says);
        }
    }
    let times = std::env::var(TIMES).ok().and_then(|n| n.parse::<f64>().ok()).unwrap_or(1.0);
    let mut campaign = Campaign::new(target, 1);
    let (started, mut found) = (Instant::now(), None);
    campaign.run(End::Inputs((target.tested as f64 * times) as usize), |input, fault| {
        found = Some((String::from_utf8_lossy(input).into_owned(), fault.says));
        false
    });
    _ = std::fs::remove_file(&kept);
    println!("{}", campaign.says(started.elapsed()));
    if let Some((input, says)) = found {
        panic!("{says}\nthe input is\n{input}\ncargo run -p fulgurite-fuzz -- {name} --seconds 30 saves it");
    }
    // if nearly all or nearly none is refused, the mutator shows nothing
    let least = campaign.ran / 50;
    assert!((least..=campaign.ran - least).contains(&campaign.accepted), "{} of {}", campaign.accepted, campaign.ran);
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
