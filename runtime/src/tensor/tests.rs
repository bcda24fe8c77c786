use super::*;
use fulgurite_core::Value;

#[test]
fn handles_go_between_threads() {
    fn check<T: Send + Sync + Clone>() {}
    check::<Tensor>();
    check::<Key>();
}

#[test]
fn made_and_read() {
    let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], (2usize, 3));
    assert_eq!(x.shape(), [2, 3].map(Dim::from));
    assert_eq!((x.dtype(), x.rank(), x.numel()), (DType::F32, 2, Dim::from(6)));
    assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(x.to_vec::<f64>().unwrap_err().code(), "E743");
    assert_eq!(Tensor::from([[1, 2], [3, 4]]).to_vec::<i32>().unwrap(), [1, 2, 3, 4]);
    assert_eq!(Tensor::from([[[true]]]).shape().len(), 3);
    assert_eq!(Tensor::scalar(2.5f32).item::<f64>().unwrap(), 2.5);
    assert_eq!(Tensor::from(3i64).item::<i64>().unwrap(), 3);
    assert!(Tensor::from(2.5).item::<f32>().is_err(), "f64 to f32 loses digits");
    assert_eq!(x.item::<f32>().unwrap_err().code(), "E743");
}

#[test]
fn numbers_are_weak_and_scalars_are_not() {
    assert_eq!(Tensor::from(1.0).ty(), Some(ProxyTy::Number(DType::F64)));
    assert_eq!(Tensor::scalar(1.0f64).ty(), Some(ProxyTy::tensor(TensorTy::new::<usize>(DType::F64, &[]))));
}

#[test]
fn wrong_data_poisons_where_it_was_written() {
    let line = line!() + 1;
    let bad = Tensor::from_vec(vec![1.0f32; 5], (2usize, 3));
    let error = bad.error().unwrap();
    assert_eq!((error.code(), error.loc().line), ("E743", line));
    assert_eq!(error.claim(), "f32[2, 3] has 6 elements, 5 were given");
    assert_eq!(bad.to_vec::<f32>().unwrap_err().claim(), error.claim());
    let negative = Tensor::from_vec(vec![1.0f32], (1, -1));
    assert_eq!(negative.error().map(Error::claim), Some("-1 is not a size"));
    let huge = Tensor::from_vec(vec![1.0f32], (i64::MAX, i64::MAX));
    assert!(huge.error().is_some());
}

#[test]
fn dims_of_another_rank_are_poisoned_with_a_reason() {
    let x = Tensor::from([[1.0f32, 2.0]]);
    let [a, b] = x.dims();
    assert_eq!((a, b), (Dim::from(1), Dim::from(2)));
    let [c] = x.dims();
    assert!(c.is_poison() && (c * 2).is_poison());
    assert_eq!(shape::poisoned_size().claim(), "f32[1, 2] has 2 axes, 1 was asked for");
    let y = Tensor::from_vec(vec![0f32; 4], (c, 2));
    assert_eq!(y.error().map(Error::code), Some("E745"));
}

#[test]
fn set_replaces_what_all_clones_see() {
    let x = Tensor::from([1.0f32, 2.0]);
    let y = x.clone();
    x.set(&Tensor::from([5.0f32, 6.0])).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [5.0, 6.0]);
    assert!(x.same(&y));
    assert_eq!(x.set(&Tensor::from([1.0f32])).unwrap_err().code(), "E714");
}

#[test]
fn shapes_are_written_in_many_ways() {
    let sizes = |s: ShapeArg| match s.value::<()>() {
        Value::List(l) => l.iter().map(|d| d.as_dim().unwrap().value()).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let d = Dim::from(7);
    assert_eq!(sizes((d, 2usize, 3i64, -1).into()), [7, 2, 3, -1]);
    assert_eq!(sizes([2usize, 3].into()), [2, 3]);
    assert_eq!(sizes(vec![d, d].into()), [7, 7]);
    assert_eq!(sizes((&[1i64, 2][..]).into()), [1, 2]);
    assert_eq!(sizes(5.into()), [5]);
    assert_eq!(sizes(().into()), [0i64; 0]);
    assert_eq!(sizes((1, 2, 3, 4, 5, 6, 7, 8).into()).len(), 8);
    let dims = |d: Dims| format!("{:?}", d.value::<()>());
    assert_eq!(dims([1, -1].into()), "List([Num(Int(1)), Num(Int(-1))])");
    assert_eq!(dims(2.into()), "Num(Int(2))");
    assert_eq!(dims((&vec![0usize]).into()), "List([Num(Int(0))])");
    assert_eq!(dims(().into()), "List([])");
    assert_eq!((dims(Dims::All), dims(Dims::default())), ("Word(all)".into(), "Absent".into()));
    assert_eq!(ShapeArg::default().value::<()>(), Value::Absent);
}

#[test]
fn printed_in_columns() {
    let x = Tensor::from([[1.0f32, -2.5], [30.0, 4.25]]);
    assert_eq!(format!("{x:?}"), "f32[2, 2] [\n [ 1.0000, -2.5000],\n [30.0000,  4.2500]]");
    assert_eq!(format!("{:?}", Tensor::from([1i64, -20])), "i64[2] [  1, -20]");
    assert_eq!(format!("{:?}", Tensor::from([1.0f32, f32::NAN])), "f32[2] [ 1., nan]");
    assert_eq!(format!("{:?}", Tensor::from([1e-9f64, 1.0])), "f64[2] [1.0000e-9,  1.0000e0]");
    assert_eq!(format!("{:?}", Tensor::scalar(true)), "bool[] true");
    assert_eq!(format!("{:?}", Tensor::from_vec(Vec::<f32>::new(), (0, 3))), "f32[0, 3] []");
    let long = format!("{:?}", Tensor::from((0..2000i64).collect::<Vec<_>>()));
    assert_eq!(long, "i64[2000] [   0,    1,    2, …, 1997, 1998, 1999]");
    let cube = format!("{:?}", Tensor::from([[[1i64], [2]], [[3], [4]]]));
    assert_eq!(cube, "i64[2, 2, 1] [\n [[1],\n  [2]],\n\n [[3],\n  [4]]]");
}

#[test]
fn reading_a_traced_tensor_says_so() {
    let token = TraceToken::new();
    let x = Tensor::traced(&token, ProxyId(0), ProxyTy::tensor(TensorTy::new(DType::F32, &[2usize])));
    let error = x.to_vec::<f32>().unwrap_err();
    assert_eq!(error.code(), "E742");
    assert_eq!(error.claim(), "the elements of a traced f32[2] can't be read");
    assert_eq!(x.dims().map(|d: Dim| d.value()), [2]);
}
