//! The command `fulgurite` as a process: what a person at a terminal gets.

#[path = "e2e/command.rs"]
mod command;
#[path = "e2e/conformance.rs"]
mod conformance;
#[path = "e2e/device.rs"]
mod device;
#[path = "e2e/digits.rs"]
mod digits;
#[path = "e2e/doctor.rs"]
mod doctor;
#[path = "e2e/eval.rs"]
mod eval;
#[path = "e2e/faults.rs"]
mod faults;
#[path = "e2e/import.rs"]
mod import;
#[path = "e2e/pages.rs"]
mod pages;
#[path = "e2e/ranks.rs"]
mod ranks;
#[path = "e2e/sample.rs"]
mod sample;
#[path = "e2e/schedule.rs"]
mod schedule;
#[path = "e2e/stop.rs"]
mod stop;
#[path = "e2e/train.rs"]
mod train;
#[path = "e2e/viewer.rs"]
mod viewer;
