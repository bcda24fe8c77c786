//! `schedule`: compared, drawn, checked.

use super::command::{Folder, fulgurite};

#[test]
fn schedules_are_compared_and_drawn() {
    let f = Folder::new("schedule");
    let ran = fulgurite(&f.0, &["schedule", "--ranks", "2", "--micro-batches", "4"]).fine();
    assert!(ran.out.lines().any(|l| l.starts_with("zbv") && l.ends_with("best")), "{}", ran.out);
    let ran = fulgurite(&f.0, &["schedule", "1f1b", "--ranks", "2", "--micro-batches", "2", "--text"]).fine();
    assert!(ran.out.ends_with("r0: 0F0 0F1 0B0 0B1\nr1: 1F0 1B0 1F1 1B1\n"), "{}", ran.out);
    let ran = fulgurite(&f.0, &["schedule", "gpipe", "--ranks", "2", "--micro-batches", "3", "--svg", "a.svg"]).fine();
    assert!(ran.out.contains("2 ranks wait 25.0 % of their time"), "{}", ran.out);
    assert!(std::fs::read_to_string(f.0.join("a.svg")).expect("drawn").ends_with("</svg>\n"));
    let ran = fulgurite(&f.0, &["--json", "schedule", "zbv", "--ranks", "2", "--micro-batches", "4"]).fine();
    let object: serde_json::Value = serde_json::from_str(&ran.out).expect("an object");
    assert_eq!((&object["makespan"], &object["ranks"][0]["peak"]), (&12.5.into(), &4.into()), "{}", ran.out);
    for option in ["--ranks", "--micro-batches", "--stages-per-rank"] {
        let ran = fulgurite(&f.0, &["schedule", option, "0"]);
        assert!(ran.status == Some(2) && ran.err.contains("a whole number from 1 on"), "{option}: {}", ran.err);
    }
    fulgurite(&f.0, &["schedule", "nothing"]).refused(2, "E751");
    fulgurite(&f.0, &["schedule", "--times", "1,2"]).refused(2, "E921");
}

#[test]
fn a_schedule_of_ones_own_is_checked() {
    let f = Folder::new("schedule-own");
    std::fs::write(f.0.join("good"), "r0: 0F0 0F1 0B0 0B1\nr1: 1F0 1B0 1F1 1B1\n").expect("written");
    std::fs::write(f.0.join("bad"), "r0: 0F0 0B0 0F1 0B1\nr1: 1F1 1F0 1B0 1B1\n").expect("written");
    let ran = fulgurite(&f.0, &["schedule", "--check", "good"]).fine();
    assert!(ran.out.contains("good: 2 ranks wait"), "{}", ran.out);
    let ran = fulgurite(&f.0, &["schedule", "--check", "bad"]);
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    assert!(
        ran.out.starts_with("L4: the ranks wait for each other at `0B0` on rank 0, `1F1` on rank 1;"),
        "{}",
        ran.out
    );
    fulgurite(&f.0, &["schedule", "--check", "no such file"]).refused(2, "E910");
}
