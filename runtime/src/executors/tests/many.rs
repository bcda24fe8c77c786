//! Programs of very many values, which must not be compared with each other.

use super::*;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// A program is compiled within this time. Work in proportion to its values takes a few seconds in a debug build, and
/// work that grows with their square takes minutes.
const LONGEST: Duration = Duration::from_secs(25);

fn in_time(text: &str) -> Compiled {
    let trace = parse(text);
    let start = Instant::now();
    let program = compile_with(&trace, vec![Arc::new(cpu::Cpu)], 1).unwrap_or_else(|e| panic!("{e}"));
    let took = start.elapsed();
    assert!(took < LONGEST, "it was compiled in {took:.1?}");
    program
}

#[test]
fn very_many_tensors_are_joined() {
    const OPERANDS: usize = 150_000;
    /// A long list is bound as a tree of such parts.
    const PART: usize = 32;
    let mut names: Vec<String> = (0..OPERANDS).map(|n| format!("x{n}")).collect();
    let inputs: Vec<String> = names.iter().map(|name| format!("{name}: i64[1]")).collect();
    let mut text = format!("fn f({}) {{\n", inputs.join(", "));
    let (mut each, mut made) = (1, 0);
    while names.len() > 1 {
        let mut left = OPERANDS;
        let mut parts = Vec::new();
        for part in names.chunks(PART) {
            let size = (part.len() * each).min(left);
            left -= size;
            _ = writeln!(text, "  p{made}: i64[{size}] = cat([{}])", part.join(", "));
            parts.push(format!("p{made}"));
            made += 1;
        }
        (names, each) = (parts, each * PART);
    }
    let program = in_time(&format!("{text}  return {}\n}}\n", names[0]));
    let data: Vec<Buffer> = (0..OPERANDS as i64).map(|n| Buffer::from_slice(&[n], &[1]).unwrap()).collect();
    let joined = program.run(&data).unwrap();
    let wanted: Vec<u8> = (0..OPERANDS as i64).flat_map(i64::to_ne_bytes).collect();
    assert!(joined[0].as_bytes() == wanted);
}

/// Constants that are results become items after the last line.
#[test]
fn very_many_constants_are_results() {
    const RESULTS: usize = 60_000;
    let names: Vec<String> = (0..RESULTS).map(|n| format!("y{n}")).collect();
    let mut text = "fn f() {\n".to_owned();
    for (n, name) in names.iter().enumerate() {
        _ = writeln!(text, "  {name}: f32[1] = full(shape = [1], value = {n}.0)");
    }
    let program = in_time(&format!("{text}  return {}\n}}\n", names.join(", ")));
    let results = program.run(&[]).unwrap();
    assert!(results.iter().enumerate().all(|(n, y)| y.to_f64() == [n as f64]));
}
