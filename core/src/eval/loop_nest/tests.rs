//! Nests built by hand, against numbers worked out by hand.

use super::*;
use crate::loop_nest::NestOut;

fn var(v: usize) -> LoopExpr {
    LoopExpr::new(SOp::Var(v), DType::I64)
}
fn full(v: usize, n: i64) -> SRange {
    SRange { var: v, lo: LoopExpr::int(0), hi: LoopExpr::int(n) }
}
fn load(tensor: usize, idx: Vec<LoopExpr>, ty: DType) -> LoopExpr {
    LoopExpr::new(SOp::Load { tensor, idx, outside: SOutside::Refuse }, ty)
}
fn reduce(red: Red, vars: Vec<SRange>, body: LoopExpr, ty: DType) -> LoopExpr {
    LoopExpr::new(SOp::Reduce { red, vars, filter: None, body, otherwise: None }, ty)
}
fn out(axes: &[usize], shape: &[i64], dtype: DType, expr: LoopExpr) -> NestOut {
    NestOut {
        axes: axes.iter().map(|a| Some(*a)).collect(),
        shape: shape.iter().map(|&s| s.into()).collect(),
        dtype,
        expr,
    }
}
fn nest(outs: Vec<NestOut>, vars: &[i64]) -> Nest {
    Nest { outs, vars: vars.iter().map(|&v| v.into()).collect(), ranks: vec![2, 2], pointwise: false }
}
fn floats(shape: &[usize], data: &[f64]) -> Array<f64> {
    Array::float(DType::F32, shape, data.to_vec())
}

#[test]
fn product_of_matrices() {
    let body = LoopExpr::new(
        SOp::Call(
            Builtin::Mul,
            vec![load(0, vec![var(0), var(2)], DType::F32), load(1, vec![var(2), var(1)], DType::F32)],
        ),
        DType::F32,
    );
    let n =
        nest(vec![out(&[0, 1], &[2, 2], DType::F32, reduce(Red::Sum, vec![full(2, 3)], body, DType::F32))], &[2, 2, 3]);
    let a = floats(&[2, 3], &[1., 2., 3., 4., 5., 6.]);
    let b = floats(&[3, 2], &[1., 0., 0., 1., 1., 1.]);
    let y = run(&n, &[a, b], &[]).unwrap();
    assert_eq!(y[0].data, Data::Float(vec![4., 5., 10., 11.]));
}

/// The sum of `[4, 2147483648, 0]` walks no element, so it must not walk the long axis either.
#[test]
fn an_empty_range_ends_the_ranges_around_it() {
    let vars = vec![full(0, 4), full(1, 1 << 40), full(2, 0)];
    let body = LoopExpr::new(SOp::Const(Scalar::Float(1.0)), DType::F32);
    let n = nest(vec![out(&[], &[], DType::F32, reduce(Red::Sum, vars, body, DType::F32))], &[4, 1 << 40, 0]);
    let y = run::<f64>(&n, &[], &[]).unwrap();
    assert_eq!(y[0].data, Data::Float(vec![0.0]));
}

#[test]
fn extrema_prefer_nan_and_the_first() {
    let x = |red, ty| reduce(red, vec![full(1, 3)], load(0, vec![var(0), var(1)], DType::F32), ty);
    let n = nest(
        vec![
            out(&[0], &[2], DType::I64, x(Red::ArgMax, DType::I64)),
            out(&[0], &[2], DType::F32, x(Red::Max, DType::F32)),
            out(&[0], &[2], DType::I64, x(Red::ArgMin, DType::I64)),
        ],
        &[2, 3],
    );
    let a = floats(&[2, 3], &[2., 2., 1., 0., f64::NAN, 9.]);
    let y = run(&n, &[a], &[]).unwrap();
    assert_eq!(y[0].data, Data::Int(vec![0, 1]));
    assert!(matches!(&y[1].data, Data::Float(v) if v[0] == 2. && v[1].is_nan()));
    assert_eq!(y[2].data, Data::Int(vec![2, 1]));
}

#[test]
fn outside_is_refused_skipped_or_replaced() {
    let index = LoopExpr::new(SOp::Call(Builtin::Sub, vec![var(0), LoopExpr::int(1)]), DType::I64);
    let make = |outside| {
        let l = LoopExpr::new(SOp::Load { tensor: 0, idx: vec![index.clone()], outside }, DType::F32);
        nest(vec![out(&[0], &[3], DType::F32, reduce(Red::Sum, vec![full(1, 1)], l, DType::F32))], &[3, 1])
    };
    let a = [floats(&[2], &[5., 7.])];
    let refused = run(&make(SOutside::Refuse), &a, &[]).unwrap_err();
    assert_eq!(refused, NestError::OutOfRange { tensor: 0, axis: 0, index: -1, size: 2 });
    assert_eq!(run(&make(SOutside::Skip), &a, &[]).unwrap()[0].data, Data::Float(vec![0., 5., 7.]));
    let nine = SOutside::Value(LoopExpr::new(SOp::Const(Scalar::Float(9.)), DType::F32));
    assert_eq!(run(&make(nine), &a, &[]).unwrap()[0].data, Data::Float(vec![9., 5., 7.]));
}

#[test]
fn pointwise_broadcasts_and_integers_wrap() {
    let elem = |t| LoopExpr::new(SOp::Elem(t), DType::U8);
    let sum = LoopExpr::new(SOp::Call(Builtin::Add, vec![elem(0), elem(1)]), DType::U8);
    let mut n = nest(vec![out(&[], &[2, 2], DType::U8, sum)], &[]);
    n.outs[0].axes = vec![None, None];
    n.pointwise = true;
    let (a, b) = (Array::int(DType::U8, &[2, 1], vec![250, 1]), Array::int(DType::U8, &[2], vec![5, 10]));
    let y = run::<f64>(&n, &[a, b], &[]).unwrap();
    assert_eq!(y[0].data, Data::Int(vec![255, 4, 6, 11]));
}

#[test]
fn filters_and_triangles() {
    // sum[j in 0..i + 1 if x[j] > 0](x[j])
    let x = load(0, vec![var(1)], DType::F32);
    let zero = LoopExpr::new(SOp::Const(Scalar::Float(0.)), DType::F32);
    let filter = LoopExpr::new(SOp::Call(Builtin::Gt, vec![x.clone(), zero]), DType::Bool);
    let hi = LoopExpr::new(SOp::Call(Builtin::Add, vec![var(0), LoopExpr::int(1)]), DType::I64);
    let e = LoopExpr::new(
        SOp::Reduce {
            red: Red::Sum,
            vars: vec![SRange { var: 1, lo: LoopExpr::int(0), hi }],
            filter: Some(filter),
            body: x,
            otherwise: None,
        },
        DType::F32,
    );
    let n = nest(vec![out(&[0], &[4], DType::F32, e)], &[4, 4]);
    let y = run(&n, &[floats(&[4], &[1., -5., 2., 4.])], &[]).unwrap();
    assert_eq!(y[0].data, Data::Float(vec![1., 1., 3., 7.]));
}

#[test]
fn a_builtin_over_whole_tensors_is_what_it_is_element_by_element() {
    let elem = |tensor| LoopExpr::new(SOp::Elem(tensor), DType::F32);
    let call = |b, args| LoopExpr::new(SOp::Call(b, args), DType::F32);
    let two = LoopExpr::new(SOp::Const(Scalar::Int(2)), DType::F32);
    let (x, y) = (floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0]), floats(&[2, 2], &[0.5, 0.25, 2.0, -1.0]));
    let one = floats(&[1], &[3.0]);
    let cases = [
        (call(Builtin::Mul, vec![elem(0), elem(1)]), vec![0.5, 0.5, 6.0, -4.0]),
        (call(Builtin::Sub, vec![two, elem(0)]), vec![1.0, 0.0, -1.0, -2.0]),
        (call(Builtin::Add, vec![elem(0), elem(2)]), vec![4.0, 5.0, 6.0, 7.0]),
        (call(Builtin::Neg, vec![elem(0)]), vec![-1.0, -2.0, -3.0, -4.0]),
    ];
    for (expr, want) in cases {
        let weight = u64::from(expr.weight());
        let nest = Nest { pointwise: true, ..nest(vec![out(&[0, 1], &[2, 2], DType::F32, expr)], &[2, 2]) };
        let mut steps = 4 * weight;
        let tensors = [x.clone(), y.clone(), one.clone()];
        assert_eq!(run_within(&nest, &tensors, &[], &mut steps), Ok(vec![floats(&[2, 2], &want)]));
        assert_eq!(steps, 0);
        assert_eq!(run_within(&nest, &tensors, &[], &mut (4 * weight - 1)), Err(NestError::Steps));
    }
}
