//! The scenarios of transforms, by number: what grad may skip (s0), editing and tags (s1), mutations (s2).
//!
//! docs/transforms.md says which scenario stands where, and where one can't apply as it was written.

#[path = "scenarios/autocast.rs"]
mod autocast;
#[path = "scenarios/backward.rs"]
mod backward;
#[path = "scenarios/batch.rs"]
mod batch;
#[path = "scenarios/caching.rs"]
mod caching;
#[path = "scenarios/classes.rs"]
mod classes;
#[path = "scenarios/classes_mixed.rs"]
mod classes_mixed;
#[path = "scenarios/control.rs"]
mod control;
#[path = "scenarios/control_mixed.rs"]
mod control_mixed;
#[path = "scenarios/control_random.rs"]
mod control_random;
#[path = "scenarios/dtypes.rs"]
mod dtypes;
#[path = "scenarios/edited_once.rs"]
mod edited_once;
#[path = "scenarios/edits.rs"]
mod edits;
#[path = "scenarios/fields.rs"]
mod fields;
#[path = "scenarios/inside.rs"]
mod inside;
#[path = "scenarios/lists.rs"]
mod lists;
#[path = "scenarios/long.rs"]
mod long;
#[path = "scenarios/mixed.rs"]
mod mixed;
#[path = "scenarios/odd_programs.rs"]
mod odd_programs;
#[path = "scenarios/once.rs"]
mod once;
#[path = "scenarios/outer.rs"]
mod outer;
#[path = "scenarios/pipeline.rs"]
mod pipeline;
#[path = "scenarios/pipeline_random.rs"]
mod pipeline_random;
#[path = "scenarios/pipeline_ranks.rs"]
mod pipeline_ranks;
#[path = "scenarios/pipeline_run.rs"]
mod pipeline_run;
#[path = "scenarios/program.rs"]
mod program;
#[path = "scenarios/quantised.rs"]
mod quantised;
#[path = "scenarios/random.rs"]
mod random;
#[path = "scenarios/remat.rs"]
mod remat;
#[path = "scenarios/reports.rs"]
mod reports;
#[path = "scenarios/s0.rs"]
mod s0;
#[path = "scenarios/s1.rs"]
mod s1;
#[path = "scenarios/s2.rs"]
mod s2;
#[path = "scenarios/schedules.rs"]
mod schedules;
#[path = "scenarios/sharded.rs"]
mod sharded;
#[path = "scenarios/step.rs"]
mod step;
#[path = "scenarios/subclasses.rs"]
mod subclasses;
#[path = "scenarios/symbolic.rs"]
mod symbolic;
#[path = "scenarios/tags.rs"]
mod tags;
#[path = "scenarios/tied.rs"]
mod tied;
#[path = "scenarios/values.rs"]
mod values;
#[path = "scenarios/variations.rs"]
mod variations;
