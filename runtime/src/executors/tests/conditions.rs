//! Conditions over rows of numbers, among them infinities and NaN.

use super::*;
use fulgurite_core::Scalar;

#[test]
fn a_condition_over_a_row_is_asked_of_its_extremum() {
    let text = "fn f(x: f32[6, 40]) {
       m: f32[6] = row_max(x)
       a: bool[6] = all_least(x)
       b: bool[6] = some_below(x)
       c: bool[6] = logical_not(a)
       d: bool[6] = logical_not(b)
       return m, a, b, c, d
     }";
    let (trace, inf) = (parse(text), f64::INFINITY);
    let rows = [[-inf, -inf], [inf, inf], [f64::NAN, -inf], [f64::NAN, inf], [-inf, inf], [-inf, 3.0]];
    let numbers =
        rows.iter().flat_map(|[first, other]| (0..40).map(|i| Scalar::Float(if i == 7 { *first } else { *other })));
    let x = Buffer::from_numbers(DType::F32, &[6, 40], numbers).unwrap();
    let oracle = compile_with(&trace, vec![Arc::new(interp::Interp)], 1).unwrap();
    let (program, want) = (cpu(&trace, 1), oracle.run(std::slice::from_ref(&x)).unwrap());
    let have = program.run(&[x]).unwrap();
    for (n, (have, want)) in have.iter().zip(&want).enumerate() {
        let bits = |b: &Buffer| b.to_f64().into_iter().map(f64::to_bits).collect::<Vec<_>>();
        assert_eq!(bits(have), bits(want), "result {n}\n{}", program.describe());
    }
    // the maximum serves the condition too: the second walk is over one number for each row
    let shown = |text: &str| cpu(&parse(text), 1).describe().steps[0].what.clone();
    let alone = shown("fn f(x: f32[6, 40]) { m: f32[6] = row_max(x) return m }");
    assert_eq!(alone, "fusion 6x40: 4 steps, tile 4x40");
    let both = shown(
        "fn f(x: f32[6, 40]) {
           m: f32[6] = row_max(x)
           a: bool[6, 40] = is_least(x)
           b: bool[6, 40] = logical_not(a)
           c: bool[6] = row_any(b)
           d: bool[6] = logical_not(c)
           return m, d
         }",
    );
    assert_eq!(both, "fusion 6x40: 6 steps, 2 walks, tile 4x40");
}
