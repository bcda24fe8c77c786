//! Large inputs of few forms. Campaigns draw small inputs, on which work that grows with the square of the input does
//! not show.

use fulgurite_fuzz::target::{FuzzTarget, InputLimits, READER};
use fulgurite_fuzz::targets::ALL;
use fulgurite_fuzz::trial;
use std::time::Duration;

/// A large input takes at most this long. Work in proportion to it takes a part of a second, and work that grows with its
/// square takes minutes.
const LIMITS: InputLimits =
    InputLimits { time: Duration::from_secs(10), time_each: Duration::ZERO, memory: 1 << 30, ..READER };

fn runs(name: &str, input: &[u8]) {
    let target = ALL.iter().find(|target| target.name == name).expect("the target is in the table");
    let target = FuzzTarget { limits: LIMITS, ..**target };
    if let Err(fault) = trial::run(&target, input) {
        panic!("{name}, {} bytes: {}", input.len(), fault.says);
    }
}

#[test]
fn a_text_of_escapes_that_do_not_end() {
    let text = "\\u".repeat(1_000_000);
    runs("traces", format!("fn main(x: f32[2]) {{\n  y: f32[2] = full([2], \"{text}\")\n  return y\n}}\n").as_bytes());
}

#[test]
fn a_trace_of_very_many_inputs_that_are_written() {
    let (inputs, writes): (Vec<String>, Vec<String>) =
        (0..100_000).map(|n| (format!("x{n}: f32[]"), format!("  x{n} <- x0\n"))).unzip();
    runs("traces", format!("fn main({}) {{\n{}  return x0\n}}\n", inputs.join(", "), writes.concat()).as_bytes());
}

#[test]
fn a_schedule_of_very_many_stages() {
    runs("schedules", format!("r0: 65535F0{}", " 0F0".repeat(500_000)).as_bytes());
}

#[test]
fn a_tensor_of_very_many_axes() {
    runs("expressions", format!("reshape([1], [{}1])", "1, ".repeat(60_000)).as_bytes());
    runs("traces", format!("fn main(x: f32[{}1]) {{\n  return x\n}}\n", "1, ".repeat(300_000)).as_bytes());
}

#[test]
fn a_name_of_very_many_words() {
    runs("expressions", "a.".repeat(500_000).as_bytes());
}

#[test]
fn a_line_of_very_many_words() {
    runs("fmt", format!("- op: a\n  x: [{}a]\n", "a, ".repeat(300_000)).as_bytes());
}

#[test]
fn a_checkpoint_of_very_many_tensors() {
    let tensor = |n: usize| format!(r#""t{n:06}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#);
    let header = format!("{{{}}}", (0..100_000).map(tensor).collect::<Vec<_>>().join(","));
    let mut input = (header.len() as u64).to_le_bytes().to_vec();
    input.extend(header.as_bytes());
    runs("safetensors", &input);
}

#[test]
fn a_model_of_very_many_inputs_and_tensors() {
    let name = |kind: char, n: usize| format!("{kind}{n:06}").into_bytes();
    // 1 of a tensor are its sizes, 2 its dtype, 8 its name, 9 its bytes; a graph has tensors (5) and inputs (11)
    let tensor = |n: usize| [&[0x10, 1][..], &field(8, &name('t', n)), &field(9, &[0; 4])].concat();
    let padding =
        [&[0x08, 64, 0x08, 128, 128, 4, 0x10, 1][..], &field(8, b"padding"), &field(9, &[0; 4 << 22])].concat();
    let tensors = (0..100_000).map(|n| field(5, &tensor(n))).chain([field(5, &padding)]);
    let inputs = (0..100_000).map(|n| field(11, &field(1, &name('x', n))));
    let graph = tensors.chain(inputs).collect::<Vec<_>>().concat();
    let model = [field(8, &[0x10, 20]), field(7, &graph)].concat();
    runs("onnx", &model);
}

/// A field of a message that has these bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 128 {
        out.push(length as u8 | 128);
        length >>= 7;
    }
    out.push(length as u8);
    [&out, bytes].concat()
}
