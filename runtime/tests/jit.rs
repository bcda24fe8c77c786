//! Compiled functions: what is compiled again, what is kept, what is read at each call, what an error leaves behind.

#![allow(missing_docs)]

mod common;

use common::database;
use fulgurite_core::loc::Loc;
use fulgurite_core::{Dim, Name, Scalar, Value};
use fulgurite_runtime::operand::{KeyArg, Operand};
use fulgurite_runtime::tensor::{Dims, ShapeArg};
use fulgurite_runtime::tree::{Leaves, Tree, Visitor, VisitorMut};
use fulgurite_runtime::{Error, Fixed, Key, Tensor, api, jit, scope, symbol};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[track_caller]
fn op(name: &str, args: Vec<Value<Tensor>>) -> Tensor {
    database();
    api::call_one(symbol::find(Name::new(name)).unwrap(), args)
}
#[track_caller]
fn sum(x: &Tensor) -> Tensor {
    op("sum", vec![x.arg()])
}
#[track_caller]
fn matmul(a: &Tensor, b: &Tensor) -> Tensor {
    op("matmul", vec![a.arg(), b.arg()])
}
#[track_caller]
fn reshape(x: &Tensor, shape: impl Into<ShapeArg>) -> Tensor {
    op("reshape", vec![x.arg(), shape.into().value()])
}

fn t(data: &[f32]) -> Tensor {
    Tensor::from(data.to_vec())
}
fn vec(x: &Tensor) -> Vec<f32> {
    x.to_vec().unwrap()
}

#[test]
fn operators_run_at_once_outside_of_traces() {
    database();
    let x = t(&[1.0, 2.0]);
    let y = 2 * &x + 1.0 - &x / 2.0 * &x;
    assert_eq!(vec(&y), [2.5, 3.0]);
    let z: Tensor = 1.0 - x.clone();
    assert_eq!(vec(&-z), [0.0, 1.0]);
    let total: Tensor = [&x, &x, &x].into_iter().sum();
    assert_eq!(vec(&total), [3.0, 6.0]);
    let mut h = x.clone();
    h += 1;
    h *= &x;
    assert_eq!((vec(&h), vec(&x)), (vec![2.0, 6.0], vec![1.0, 2.0]));
    assert_eq!(sum(&x).item::<f32>().unwrap(), 3.0);
    let pieces: [Tensor; 2] = api::call_array(
        symbol::find(Name::new("chunk")).unwrap(),
        vec![(&x).arg(), Value::Num(Scalar::Int(2)), Value::Absent],
    );
    assert_eq!(pieces.map(|p| vec(&p)[0]), [1.0, 2.0]);
    let three: [Tensor; 3] =
        api::call_array(symbol::find(Name::new("chunk")).unwrap(), vec![(&x).arg(), Value::Num(Scalar::Int(2))]);
    assert_eq!(three[2].error().map(Error::code), Some("E744"));
}

#[test]
fn the_first_error_is_kept_with_its_place() {
    let (a, b) = (t(&[1.0, 2.0]), t(&[1.0, 2.0, 3.0]));
    database();
    let line = line!() + 1;
    let bad = &a + &b;
    let worse = sum(&(&bad * 2)) + &b;
    let error = worse.to_vec::<f32>().unwrap_err();
    assert_eq!((error.code(), error.loc().line), ("E701", line));
    assert!(error.loc().file.ends_with("jit.rs"));
    let [n] = a.dims();
    let [p, _] = a.dims();
    assert_eq!(vec(&reshape(&a, (n, 1, -1))), [1.0, 2.0]);
    let error = reshape(&a, (p * 2, -1)).to_vec::<f32>().unwrap_err();
    assert_eq!(error.claim(), "f32[2] has 1 axis, 2 were asked for");
    assert_eq!(jit(|x: Tensor, y: Tensor| x + y).call((a, b)).unwrap_err().code(), "E701");
}

#[test]
fn one_program_for_each_type_and_fixed_part() {
    database();
    let traced = AtomicUsize::new(0);
    let f = jit(|x: Tensor, n: Fixed<usize>| {
        traced.fetch_add(1, Ordering::Relaxed);
        x * n.0
    })
    .named("scale");
    let call = |x: &[f32], n| vec(&f.call((t(x), Fixed(n))).unwrap());
    assert_eq!(call(&[1.0, 2.0], 2), [2.0, 4.0]);
    assert_eq!(call(&[3.0, 4.0], 2), [6.0, 8.0]);
    assert_eq!(call(&[1.0], 2), [2.0]);
    assert_eq!(call(&[1.0, 2.0], 3), [3.0, 6.0]);
    assert_eq!(call(&[5.0, 6.0], 2), [10.0, 12.0]);
    assert_eq!(traced.load(Ordering::Relaxed), 3);
    let stats = f.stats();
    assert_eq!((stats.hits, stats.programs, stats.misses.len()), (2, 3, 3));
    assert_eq!(stats.misses[0].reasons, ["the first call"]);
    assert_eq!(stats.misses[1].reasons, ["`0` was f32[2], is f32[1]"]);
    assert_eq!(stats.misses[2].reasons, ["fixed `1` was 2, is 3"]);
    assert_eq!(f.prologue().unwrap(), "0 is f32[2]\n1 = 3\n");
    assert!(format!("{f:?}").starts_with("jit(scale): compiled 3 times in "));
}

#[test]
fn numbers_compile_once_as_tensors() {
    database();
    let f = jit(|x: Tensor, lr: Tensor| x * lr);
    for i in 0..5 {
        let y = f.call((t(&[1.0]), Tensor::from(0.5 * i as f64))).unwrap();
        assert_eq!(vec(&y), [0.5 * i as f32]);
    }
    assert_eq!(f.stats().misses.len(), 1);
}

#[test]
fn captured_tensors_are_read_at_each_call() {
    database();
    let w = t(&[1.0, 2.0]);
    let f = {
        let w = w.clone();
        jit(move |x: Tensor| {
            let c = Tensor::from([10.0f32, 10.0]);
            x * &w + c * &w
        })
    };
    assert_eq!(vec(&f.call(t(&[1.0, 1.0])).unwrap()), [11.0, 22.0]);
    w.set(&t(&[0.0, 1.0])).unwrap();
    assert_eq!(vec(&f.call(t(&[1.0, 1.0])).unwrap()), [0.0, 11.0]);
    assert_eq!(f.stats().misses.len(), 1);
}

#[test]
fn handles_do_not_outlive_their_trace() {
    database();
    let kept = std::sync::Mutex::new(None);
    let f = jit(|x: Tensor| {
        *kept.lock().unwrap() = Some(&x + 1);
        x
    });
    f.call(t(&[1.0])).unwrap();
    let stray = kept.lock().unwrap().take().unwrap();
    let error = (&stray + 1).to_vec::<f32>().unwrap_err();
    assert_eq!(error.code(), "E740");
    assert_eq!(f.call(stray).unwrap_err().code(), "E740");
    let elsewhere = jit(|x: Tensor| {
        let y = x.clone();
        std::thread::spawn(move || &y + 1).join().unwrap()
    });
    assert_eq!(elsewhere.call(t(&[1.0])).unwrap_err().code(), "E741");
    let reads = jit(|x: Tensor| -> Result<Tensor, Error> { Ok(&x * x.item::<f32>()?) });
    assert_eq!(reads.call(t(&[1.0])).unwrap_err().code(), "E742");
    assert!(!scope::is_tracing());
}

#[test]
fn a_panic_inside_closes_the_trace() {
    database();
    let f = jit(|x: Tensor| -> Tensor {
        if x.rank() == 1 { std::panic::resume_unwind(Box::new(())) } else { x }
    });
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| f.call(t(&[1.0])))).is_err());
    assert!(!scope::is_tracing());
    assert_eq!(vec(&(t(&[1.0]) + 1)), [2.0]);
}

#[test]
fn compiled_functions_may_call_each_other() {
    database();
    let inner = jit(|x: Tensor| x * 2).named("double");
    let outer = jit(|x: Tensor| inner.call(x.clone()).map(|y| y + x)).named("outer").keep_traces();
    assert_eq!(vec(&outer.call(t(&[1.0, 2.0])).unwrap()), [3.0, 6.0]);
    assert_eq!(inner.stats().misses.len(), 0, "it was traced as part of the other");
    let text = outer.trace("acquired").unwrap();
    assert!(text.contains("scope \"double\""), "{text}");
    let names: Vec<_> = outer.stages().iter().map(|s| s.name).collect();
    assert_eq!(names, ["acquired", "simplified", "compiled"]);
}

#[test]
fn errors_of_the_function_come_through() {
    database();
    let f = jit(|x: Tensor| -> Result<Tensor, String> { Err(format!("no {:?}", x.shape())) });
    let error = f.call(t(&[1.0])).unwrap_err();
    assert_eq!((error.code(), error.claim()), ("E746", "the traced function failed: no [1]"));
    let io = jit(|_: Tensor| -> Result<Tensor, std::io::Error> { Err(std::io::Error::other("disk")) });
    assert_eq!(io.call(t(&[1.0])).unwrap_err().claim(), "the traced function failed: disk");
    let ours = jit(|x: Tensor| -> Result<Tensor, Error> {
        let y = x + t(&[1.0, 2.0, 3.0]);
        y.check()?;
        Ok(y)
    });
    assert_eq!(ours.call(t(&[1.0, 2.0])).unwrap_err().code(), "E701");
    let none = jit(|| t(&[1.0]) + 1);
    assert_eq!(vec(&none.call(()).unwrap()), [2.0]);
}

/// A state with a part that counts how often it is put together again.
#[derive(Clone, Debug)]
struct State {
    w: Tensor,
    shared: Arc<Tensor>,
    steps: usize,
}

impl Tree for State {
    fn visit<'a>(&'a self, v: &mut Visitor<'a>) {
        v.part("w", &self.w);
        v.part("shared", &self.shared);
        v.fixed("steps", &self.steps, |f| f.add(self.steps as u64));
    }
    fn visit_mut<'a>(&'a mut self, v: &mut VisitorMut<'a>) {
        v.part(&mut self.w);
        v.part(&mut self.shared);
        v.fixed(|f| f.add(self.steps as u64));
    }
    fn rebuild(&self, leaves: &mut Leaves) -> State {
        State { w: self.w.rebuild(leaves), shared: self.shared.rebuild(leaves), steps: self.steps }
    }
}

#[test]
fn update_replaces_the_state() {
    database();
    let step = jit(|s: State, (x, lr): (Tensor, Tensor)| {
        let loss = sum(&(&s.w * &x));
        (State { w: s.w - x * lr, ..s }, loss)
    });
    let mut state = State { w: t(&[1.0, 2.0]), shared: Arc::new(t(&[5.0])), steps: 0 };
    let before = state.clone();
    let loss = step.update(&mut state, (t(&[1.0, 1.0]), 0.5.into())).unwrap();
    assert_eq!(loss.item::<f32>().unwrap(), 3.0);
    let again = step.update(&mut state, (t(&[1.0, 1.0]), 0.25.into())).unwrap();
    assert_eq!(again.item::<f32>().unwrap(), 2.0);
    assert_eq!((vec(&state.w), vec(&state.shared)), (vec![0.25, 1.25], vec![5.0]));
    assert_eq!(vec(&before.w), [1.0, 2.0], "clones keep the old state");
    assert_eq!(step.stats().misses.len(), 1);
}

#[test]
fn update_may_change_fixed_parts_and_forms() {
    database();
    let grow = jit(|s: (Vec<Tensor>, Fixed<usize>), x: Tensor| {
        let (mut list, Fixed(n)) = s;
        list.push(x);
        ((list, Fixed(n + 1)), ())
    });
    let mut state = (Vec::new(), Fixed(0));
    for i in 0..3 {
        grow.update(&mut state, t(&[i as f32])).unwrap();
    }
    assert_eq!((state.0.len(), state.1.0), (3, 3));
    assert_eq!(vec(&state.0[2]), [2.0]);
    assert_eq!(grow.stats().misses.len(), 3);
}

#[test]
fn after_an_error_the_state_is_as_it_was() {
    database();
    let step = jit(|w: Tensor, x: Tensor| (&w + 1, matmul(&w, &x)));
    let mut w = Tensor::from([[1.0f32, 2.0]]);
    assert_eq!(step.update(&mut w, Tensor::from([[1.0f32]])).unwrap_err().code(), "E701");
    assert_eq!(vec(&w), [1.0, 2.0]);
    let poisoned = Tensor::poisoned(Error::new("E701", "given"));
    assert_eq!(step.update(&mut w, poisoned).unwrap_err().claim(), "given");
    step.update(&mut w, Tensor::from([[1.0f32], [1.0]])).unwrap();
    assert_eq!(vec(&w), [2.0, 3.0]);
}

#[test]
fn keys_split_without_repeating() {
    database();
    let mut key = Key::new(1337);
    let mut same = Key::new(1337);
    let children: Vec<_> = (0..100).map(|_| key.next().parts().unwrap()).collect();
    assert!((0..100).all(|i| same.next().parts().unwrap() == children[i]), "splitting is deterministic");
    let mut seeds: Vec<_> = children.iter().map(|(seed, _)| *seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len(), 100);
    assert!(!seeds.contains(&1337));
    let mut grandchild = Key::new(1337).next();
    assert_ne!(grandchild.next().parts(), Key::new(1337).next().parts());
}

#[test]
fn keys_of_a_state_move_on() {
    database();
    let step = jit(|s: (Tensor, Key), _: ()| {
        let (x, mut key) = s;
        let noise = op("dropout", vec![(&x).arg(), key.next().arg()]);
        ((x, key), noise)
    });
    let mut state = (t(&[1.0; 64]), Key::new(3));
    let first = step.update(&mut state, ()).unwrap();
    let key = state.1.parts().unwrap();
    let second = step.update(&mut state, ()).unwrap();
    // the function gave back the key that `next` had moved on
    let mut at_once = Key::new(3);
    at_once.next();
    assert_eq!(Some(key), at_once.parts());
    assert_ne!(vec(&first), vec(&second));
    // one that comes back as it was moves on by itself
    let step_of_one_key = jit(|(x, key): (Tensor, Key), _: ()| {
        let noise = op("dropout", vec![(&x).arg(), (&key).arg()]);
        ((x, key), noise)
    });
    let mut state_of_one_key = (t(&[1.0; 64]), Key::new(3));
    let first_of_one = step_of_one_key.update(&mut state_of_one_key, ()).unwrap();
    let int = |i: i64| Value::Num(Scalar::Int(i));
    let after = op("key_children", vec![Key::new(3).arg(), int(1), int(2), int(1)]).to_vec::<i64>().unwrap();
    assert_eq!(state_of_one_key.1.parts(), Some((after[0], after[1])));
    let second_of_one = step_of_one_key.update(&mut state_of_one_key, ()).unwrap();
    assert_ne!(vec(&first_of_one), vec(&second_of_one));
    assert!(vec(&first).iter().all(|x| *x == 0.0 || *x == 2.0));
    assert_eq!(step.stats().misses.len(), 1);
}

#[test]
fn writes_reach_the_cells() {
    database();
    let m = t(&[0.0, 0.0]);
    let momentum = |x: &Tensor, m: &Tensor| op("momentum", vec![x.arg(), m.arg(), Value::Num(Scalar::Float(0.5))]);
    let y = momentum(&t(&[2.0, 4.0]), &m);
    assert_eq!((vec(&y), vec(&m)), (vec![2.0, 4.0], vec![1.0, 2.0]));
    let f = {
        let m = m.clone();
        jit(move |x: Tensor| {
            let y = momentum(&x, &m);
            y + &m
        })
    };
    assert_eq!(vec(&f.call(t(&[3.0, 2.0])).unwrap()), [4.0, 2.0]);
    assert_eq!(vec(&m), [2.0, 2.0]);
    let passed = jit(|x: Tensor, m: Tensor| momentum(&x, &m));
    passed.call((t(&[0.0, 0.0]), m.clone())).unwrap();
    assert_eq!(vec(&m), [1.0, 1.0]);
}

#[test]
fn arguments_that_share_a_cell_are_one_where_something_is_written() {
    database();
    let f = jit(|a: Tensor, b: Tensor| {
        op("momentum", vec![Value::Tensor(t(&[4.0])), (&a).arg(), Value::Num(Scalar::Float(0.5))]);
        a + b
    });
    let (a, b) = (t(&[0.0]), t(&[10.0]));
    assert_eq!(vec(&f.call((a.clone(), b.clone())).unwrap()), [12.0]);
    assert_eq!(vec(&f.call((a.clone(), a.clone())).unwrap()), [6.0]);
    assert_eq!(vec(&a), [3.0]);
    assert_eq!(vec(&f.call((a.clone(), b.clone())).unwrap()), [13.5]);
    assert_eq!(f.stats().misses.len(), 2);
    let plain = jit(|a: Tensor, b: Tensor| a + b);
    plain.call((a.clone(), a.clone())).unwrap();
    plain.call((a, b)).unwrap();
    assert_eq!(plain.stats().misses.len(), 1, "without writes nobody can tell");
}

#[test]
fn functions_are_shared_between_threads() {
    database();
    let f = jit(|x: Tensor| x * 2);
    std::thread::scope(|scope| {
        for i in 0..4 {
            let f = &f;
            scope.spawn(move || assert_eq!(vec(&f.call(t(&[i as f32])).unwrap()), [2.0 * i as f32]));
        }
    });
}

#[test]
fn regions_and_places_stand_in_the_trace() {
    database();
    let f = jit(|x: Tensor| {
        scope::named("block[0]", || {
            let y = scope::no_grad(|| &x * 2);
            scope::checkpoint(|| y + &x)
        })
    })
    .keep_traces();
    f.call(t(&[1.0])).unwrap();
    let text = f.trace("acquired").unwrap();
    for part in ["scope \"block[0]\" {", "no_grad {", "checkpoint {", "jit.rs:", "add(", "(x: f32[1])"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    scope::no_grad(|| assert_eq!(vec(&(t(&[1.0]) + 1)), [2.0]));
}

#[test]
fn calls_by_name_and_conversions() {
    database();
    let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    let outs = api::call_named("sum", vec![(&x).arg()], vec![(Name::new("dims"), Dims::from(0).value())], Loc::NOWHERE);
    assert_eq!(vec(&outs.unwrap()[0]), [4.0, 6.0]);
    assert_eq!(api::call_named("nope", vec![], vec![], Loc::NOWHERE).unwrap_err().code(), "E710");
    assert_eq!(vec(&op("sum", vec![(&x).arg(), Dims::All.value()])), [10.0]);
    assert_eq!(vec(&op("sum", vec![(&x).arg(), Dims::default().value()])), [10.0]);
    assert_eq!(vec(&op("sum", vec![(&x).arg(), Dims::from([-1]).value()])), [3.0, 7.0]);
    assert_eq!(vec(&(&x * Dim::from(2)))[3], 8.0);
}

#[test]
fn a_trace_that_fails_can_be_read() {
    database();
    let f = jit(|x: Tensor, y: Tensor| (&x * 2) + y).keep_traces();
    let error = f.call((t(&[1.0, 2.0]), t(&[1.0, 2.0, 3.0]))).unwrap_err();
    assert!(error.to_string().contains("the 1 lines traced so far"), "{error}");
    assert!(f.trace("partial").unwrap().contains("mul(in0, 2)"));
    f.call((t(&[1.0]), t(&[1.0]))).unwrap();
    assert!(f.trace("partial").is_none() && f.trace("compiled").is_some());
}
