//! Chains of builtins in machine code: operands that vary along rows, columns, both or not at all, and lines that are no
//! whole number of vectors.

use super::*;
use std::fmt::Write as _;

/// A linear congruential generator.
struct Draws(u64);

impl Draws {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

/// A program of pointwise lines over `[rows, columns]`, some of whose results are used several times.
fn program(draws: &mut Draws, rows: usize, columns: usize) -> String {
    let whole = format!("[{rows}, {columns}]");
    let mut text = format!(
        "fn f(a: f32{whole}, b: f32[{columns}], c: f32[{rows}, 1], d: f32[], e: f32{whole}) {{\n  m0: bool{whole} = lt(a, e)\n"
    );
    let mut numbers: Vec<String> = ["a", "b", "c", "d", "e", "a"].map(String::from).to_vec();
    let mut conditions = vec!["m0".to_string()];
    let mut results = Vec::new();
    for n in 0..2 + draws.below(10) {
        // one operand has the whole shape, so that the result has it
        let any = numbers[draws.below(numbers.len())].clone();
        let last = results.last().cloned().unwrap_or_else(|| "a".to_string());
        let (x, y) = if draws.below(2) == 0 { (last, any) } else { (any, last) };
        let name = format!("t{n}");
        let line = match draws.below(8) {
            0 => format!("div({x}, {y})"),
            1 | 2 => format!("sub({x}, {y})"),
            3 | 4 => format!("mul({x}, {y})"),
            5 => {
                let test = format!("m{}", conditions.len());
                _ = writeln!(text, "  {test}: bool{whole} = lt({x}, {y})");
                conditions.push(test);
                format!("add({x}, {y})")
            }
            6 => format!("where({}, {x}, {y})", conditions[draws.below(conditions.len())]),
            _ => format!("add({x}, {y})"),
        };
        _ = writeln!(text, "  {name}: f32{whole} = {line}");
        numbers.push(name.clone());
        results.push(name);
    }
    let kept = draws.below(results.len());
    _ = write!(text, "  return {}, {}\n}}", results[results.len() - 1], results[kept]);
    text
}

#[test]
fn chains_have_the_bits_of_the_interpreter() {
    let mut draws = Draws(3);
    for (rows, columns) in [(3, 1), (5, 7), (4, 32), (2, 300), (70, 3), (2, 1100)] {
        for _ in 0..40 {
            let text = program(&mut draws, rows, columns);
            let trace = parse(&text);
            let inputs = inputs(&trace);
            let bits = |program: &Compiled| -> Vec<Vec<u32>> {
                let results = program.run(&inputs).unwrap();
                let number = |x: f64| if x.is_nan() { f32::NAN.to_bits() } else { (x as f32).to_bits() };
                results.iter().map(|y| y.to_f64().into_iter().map(number).collect()).collect()
            };
            let oracle = compile_with(&trace, vec![Arc::new(interp::Interp)], 1).unwrap();
            let program = cpu(&trace, 2);
            assert_eq!(bits(&program), bits(&oracle), "{text}\n{}", program.describe());
        }
    }
}

/// No access leaves the memory of a value, for all lengths of a line and all alignments that they give.
#[test]
fn chains_stay_within_memory_that_ends_where_the_values_do() {
    let mut draws = Draws(5);
    for columns in 1..=200 {
        for rows in [1, 3] {
            let trace = parse(&program(&mut draws, rows, columns));
            let (inputs, program) = (inputs(&trace), cpu(&trace, 2));
            let wanted: Vec<Vec<u8>> = program.run(&inputs).unwrap().iter().map(|y| y.as_bytes().to_vec()).collect();
            assert!(program.run_guarded(&inputs).unwrap() == wanted, "{rows} rows, {columns} columns");
        }
    }
}

/// A large result is written past the caches, and every thread's part of it is there when the program ends.
#[test]
fn large_results_are_written_past_the_caches() {
    let (rows, columns) = (2112, 1024);
    let trace = parse(&format!(
        "fn f(x: f32[{rows}, {columns}], y: f32[{rows}, {columns}]) {{
           s: f32[{rows}, {columns}] = add(x, y)
           z: f32[{rows}, {columns}] = mul(s, x)
           return z
         }}"
    ));
    let inputs = inputs(&trace);
    let [x, y] = [0, 1].map(|k: usize| inputs[k].to_f64());
    for threads in [1, 2] {
        let z = cpu(&trace, threads).run(&inputs).unwrap()[0].to_f64();
        let wrong = (0..z.len()).find(|i| {
            let (x, y) = (x[*i] as f32, y[*i] as f32);
            z[*i] as f32 != (x + y) * x
        });
        assert_eq!(wrong, None, "{threads} threads");
    }
}
