//! The memory of programs: its plan, donated inputs, results that are inputs.

use super::*;

#[test]
fn donated_memory_is_used_again() {
    let trace =
        parse("fn step(p: f32[1000], g: f32[1000]) { s: f32[1000] = mul(g, 0.1) q: f32[1000] = sub(p, s) return q }");
    let c = cpu(&trace, 1);
    let mut given = inputs(&trace);
    let want = c.run(&given).unwrap();
    let at = given[0].as_bytes().as_ptr();
    let got = c.run_donating(&mut given, &[true, false]).unwrap();
    assert_eq!(got[0].as_bytes(), want[0].as_bytes());
    assert_eq!(got[0].as_bytes().as_ptr(), at);
    assert!(given[0].is_empty() && given[1].len() == 1000);
    // a shared input is not overwritten
    let mut given = inputs(&trace);
    let kept = given[0].clone();
    let before = kept.as_bytes().to_vec();
    c.run_donating(&mut given, &[true, false]).unwrap();
    assert_eq!(kept.as_bytes(), before);
}

#[test]
fn memory_is_planned() {
    let chain = |t: &str, n: usize| {
        let lines: String = (0..n).map(|i| format!("y{}: {t}[64, 64] = matmul(y{i}, w)\n", i + 1)).collect();
        format!("fn f(y0: {t}[64, 64], w: {t}[64, 64]) {{ {lines} return y{n} }}")
    };
    // in f64, sums that cancel round further than the comparison allows
    agree(&chain("f64", 3));
    let d = cpu(&parse(&chain("f32", 20)), 1).describe();
    assert_eq!((d.steps.len(), d.outputs), (20, 64 * 64 * 4));
    assert!(d.arena <= 2 * 64 * 64 * 4, "{d}");
}

#[test]
fn a_number_that_all_threads_read_is_not_overwritten() {
    let trace = parse(
        "fn f(s: f32[], x: f32[300, 1000]) {
           t: f32[] = add(s, 1.0)
           y: f32[300, 1000] = mul(x, s)
           return y, t
         }",
    );
    let (one, two) = (cpu(&trace, 1), cpu(&trace, 2));
    let want = one.run(&inputs(&trace)).unwrap();
    for _ in 0..20 {
        let got = two.run_donating(&mut inputs(&trace), &[true, true]).unwrap();
        assert!(got.iter().zip(&want).all(|(g, w)| g.as_bytes() == w.as_bytes()));
    }
}

/// ThreadSanitizer found that the threads of a fused program each stored the results that all of its rows share.
#[test]
fn results_that_rows_share_are_stored_once() {
    let trace = parse(
        "fn f(a: f32[64], x: f32[3000, 64]) {
           s: f32[64] = exp(a)
           y: f32[3000, 64] = mul(x, s)
           return s, y
         }",
    );
    let given = inputs(&trace);
    let want = cpu(&trace, 1).run(&given).unwrap();
    let exp: Vec<f32> = given[0].to_vec::<f32>().unwrap().iter().map(|a| a.exp()).collect();
    let found = want[0].to_vec::<f32>().unwrap();
    assert!(found.iter().zip(&exp).all(|(s, e)| (s - e).abs() <= 1e-6 * e.abs()), "{found:?}");
    for _ in 0..20 {
        let got = cpu(&trace, 2).run(&given).unwrap();
        assert!(got.iter().zip(&want).all(|(g, w)| g.as_bytes() == w.as_bytes()));
    }
}

#[test]
fn outputs_may_be_inputs_and_repeat() {
    let trace =
        parse("fn f(x: f32[2, 3]) { y: f32[2, 3] = exp(x) r: f32[6] = reshape(x, shape = [6]) return x, y, y, r }");
    let x = inputs(&trace);
    let outs = cpu(&trace, 1).run(&x).unwrap();
    assert!(outs[0].shares_data(&x[0]) && outs[3].shares_data(&x[0]) && outs[1].shares_data(&outs[2]));
    assert_eq!(outs[3].shape(), &[6]);
}

/// A program that lacks memory before its steps leaves donated inputs alone; one that lacks it later has emptied them.
#[test]
fn memory_that_is_lacking_leaves_no_half_written_values() {
    use crate::buffer::pool::UNTIL_FAILURE;
    let trace = parse(
        "fn step(p: f32[64, 1000], g: f32[64, 1000]) {
           s: f32[64, 1000] = mul(g, 0.1)
           q: f32[64, 1000] = sub(p, s)
           m: f32[64] = mean(q, dims = [1])
           t: f32[1000, 64] = reshape(g, shape = [1000, 64])
           r: f32[64, 64] = matmul(q, t)
           return q, m, r
         }",
    );
    let c = cpu(&trace, 1);
    let want = c.run(&inputs(&trace)).unwrap();
    let (mut kept, mut emptied) = (0, 0);
    for n in 0.. {
        let mut given = inputs(&trace);
        let before = given[0].as_bytes().to_vec();
        UNTIL_FAILURE.set(Some(n));
        let ran = c.run_donating(&mut given, &[true, false]);
        let reached = UNTIL_FAILURE.take().is_none();
        let Err(e) = ran else {
            assert!(!reached, "request {n} failed, and nobody said so");
            break;
        };
        assert!(e.code == "E806" && e.message.contains("bytes could not be allocated for"), "{e}");
        match given[0].is_empty() {
            true => emptied += 1,
            false => {
                assert_eq!(given[0].as_bytes(), before);
                kept += 1;
            }
        }
        let again = c.run(&inputs(&trace)).unwrap();
        assert!(again.iter().zip(&want).all(|(a, b)| a.as_bytes() == b.as_bytes()));
    }
    assert!(kept > 0 && emptied > 0, "{kept} and {emptied}");
}

/// A state whose update lacks memory has its old values or the error, never a mixture.
#[test]
fn an_update_that_lacks_memory_leaves_no_mixture() {
    use crate::buffer::pool::UNTIL_FAILURE;
    use crate::{Tensor, api, jit};
    use fulgurite_core::Value;
    use fulgurite_core::loc::Loc;
    database();
    let call = |name: &str, a: &Tensor, b: &Tensor| {
        let args = vec![Value::Tensor(a.clone()), Value::Tensor(b.clone())];
        api::call_named(name, args, Vec::new(), Loc::NOWHERE).map(|results| results[0].clone())
    };
    let step = jit(move |p: Tensor, (g, w): (Tensor, Tensor)| {
        let q = call("sub", &p, &g)?;
        let r = call("matmul", &q, &w)?;
        Ok::<_, crate::Error>((q, call("mul", &r, &r)?))
    });
    let of = |x: f32, rows: usize, columns: usize| Tensor::from_vec(vec![x; rows * columns], [rows, columns]);
    let fresh = || (of(3.0, 64, 100), (of(1.0, 64, 100), of(0.5, 100, 8)));
    let (mut state, batch) = fresh();
    step.update(&mut state, batch).unwrap();
    assert_eq!(state.to_vec::<f32>().unwrap(), vec![2.0; 6400]);
    let (mut kept, mut spoiled) = (0, 0);
    for n in 0.. {
        let (mut state, batch) = fresh();
        // the batch is shared, so that only the memory of the state can be taken over
        let shared = batch.clone();
        UNTIL_FAILURE.set(Some(n));
        let ran = step.update(&mut state, batch);
        drop(shared);
        UNTIL_FAILURE.take();
        let Err(e) = ran else { break };
        assert_eq!(e.code(), "E806", "{e}");
        match state.to_vec::<f32>() {
            Ok(values) => {
                assert_eq!(values, vec![3.0; 6400], "request {n}");
                kept += 1;
            }
            Err(e) => {
                assert!(e.code() == "E806" && e.to_string().contains("half written"), "{e}");
                spoiled += 1;
            }
        }
    }
    assert!(kept > 0 && spoiled > 0, "{kept} and {spoiled}");
}
