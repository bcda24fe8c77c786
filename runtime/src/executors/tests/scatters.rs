//! Elements that are picked and placed by indices.

use super::*;

#[test]
fn indices_gather_and_scatter() {
    agree("fn f(w: f32[5, 40], i: i64[3, 2]) { y: f32[3, 2, 40] = embedding(w, i) return y }");
    agree("fn f(x: f32[6, 4], i: i64[6, 3]) { y: f32[6, 3] = gather(x, i, dim = 1) return y }");
    agree("fn f(x: f32[6, 4], i: i64[6, 3], s: f32[6, 3]) { y: f32[6, 4] = scatter_add(x, i, s, dim = 1) return y }");
    agree("fn f(g: f32[3, 2, 40], i: i64[3, 2]) { y: f32[5, 40] = embedding_grad(g, i, rows = 5) return y }");
    agree("fn f(g: f32[3, 2], i: i64[3]) { y: f32[3, 2] = embedding_grad(g, i, rows = 3) return y }");
    // only the type of `w` is passed
    agree(
        "fn f(w: f32[3, 2], g: f32[3, 2], i: i64[3]) {
           y: f32[3, 2] = embedding.vjp.weight(w, i, g)
           return y
         }",
    );
    // the scatter reads the result of a sum
    agree(
        "fn f(g: f32[3, 2, 40], i: i64[2]) {
           s: f32[2, 40] = sum(g, dims = [0])
           y: f32[5, 40] = embedding_grad(s, i, rows = 5)
           return y
         }",
    );
    agree("fn f(x: f32[4, 9]) { y: f32[4, 9] = cumsum(x, dim = 1) z: f32[4, 9] = cumsum(x, dim = 0) return y, z }");
    agree("fn f(x: f32[4, 9]) { y: i64[4] = argmax(x, dim = [1]) z: i64[9] = argmax(x, dim = [0]) return y, z }");
    agree("fn f(x: f32[4, 9]) { y: i64[4, 9] = argsort(x, dim = 1) return y }");
}

/// The initial content of a scatter is in memory before its walk, even if the program computes it: here a product
/// starts from ones, and the loops over as many places as elements could be those of the ones.
#[test]
fn scatters_start_from_what_is_written() {
    for t in ["f32", "f64", "f16", "i64"] {
        for (shape, dim) in [("3", 0), ("3, 4", 0), ("3, 3", 1), ("2, 3, 5", 1)] {
            let size = shape.split(", ").nth(dim).unwrap();
            agree(&format!(
                "fn f(x: {t}[{shape}], i: i64[{shape}], s: {t}[{shape}]) {{
                   j: i64[{shape}] = mul(i, 1)
                   p: {t}[{shape}] = segment_prod(s, j, size = {size}, dim = {dim})
                   y: {t}[{shape}] = mul(x, p)
                   return y, p
                 }}"
            ));
        }
    }
}

#[test]
fn threads_scatter_to_places_of_their_own() {
    for dim in [0, 1, 2] {
        let trace = parse(&format!(
            "fn f(x: f32[3, 90, 300], i: i64[3, 90, 300], s: f32[3, 90, 300]) {{
               y: f32[3, 90, 300] = scatter_add(x, i, s, dim = {dim}) return y
             }}"
        ));
        let inputs = inputs(&trace);
        let want = cpu(&trace, 1).run(&inputs).unwrap();
        for threads in [2, 3] {
            let shared = cpu(&trace, threads);
            for _ in 0..5 {
                assert_eq!(shared.run(&inputs).unwrap()[0].as_bytes(), want[0].as_bytes(), "dim {dim}");
            }
        }
    }
}

/// Sums that start from +0 are not -0, so nothing is added to them where the base is zero; a base of -0 stays.
#[test]
fn a_scatter_onto_zeros_is_one_step() {
    for (base, steps) in [("0.0", 1), ("1.0", 2)] {
        let text = format!(
            "fn f(s: f32[4, 40], i: i64[4, 40]) {{
               x: f32[6, 40] = full(shape = [6, 40], value = {base})
               y: f32[6, 40] = scatter_add(x, i, s, dim = 0)
               return y
             }}"
        );
        let program = agree(&text);
        assert_eq!(program.describe().steps.len(), steps, "{}", program.describe());
        let minus_zeros = Buffer::from_slice(&[-0f32; 160], &[4, 40]).unwrap();
        let y = program.run(&[minus_zeros, inputs(&parse(&text))[1].clone()]).unwrap()[0].to_f64();
        assert!(y.iter().all(|y| y.is_sign_positive()), "{y:?}");
    }
}
