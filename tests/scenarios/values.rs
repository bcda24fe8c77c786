//! Values at the ends of what a dtype holds, at ties and zeros, and at sizes that no memory has: each held against a
//! number worked out by hand or given by PyTorch.

use fulgurite::ops::full;
use fulgurite::prelude::*;
use fulgurite::{api, symbol};
use fulgurite_core::loc::Loc;
use fulgurite_core::{Name, Scalar, Value};

type Args = Vec<Value<Tensor>>;

fn result(op: &str, args: Args) -> Tensor {
    let symbol = symbol::find(Name::new(op)).unwrap_or_else(|| panic!("no row {op}"));
    api::call(symbol, args, Loc::NOWHERE).map_or_else(Tensor::poisoned, |outs| outs[0].clone())
}

fn of(x: &Tensor) -> Value<Tensor> {
    Value::Tensor(x.clone())
}

fn number(x: f64) -> Value<Tensor> {
    Value::Num(Scalar::Float(x))
}

fn int(x: i64) -> Value<Tensor> {
    Value::Num(Scalar::Int(x))
}

fn word(w: &str) -> Value<Tensor> {
    Value::Word(Name::new(w))
}

fn data(x: &Tensor) -> Vec<f64> {
    x.to_f64().unwrap_or_else(|e| panic!("{e}"))
}

fn half(x: &[f32]) -> Tensor {
    Tensor::from_vec(x.to_vec(), [x.len()]).cast(DType::F16)
}

#[track_caller]
fn near(what: &str, got: &[f64], want: &[f64], by: f64) {
    let close = |a: f64, b: f64| (a - b).abs() <= by * b.abs() || (a.is_nan() && b.is_nan()) || a == b;
    let fits = got.len() == want.len() && got.iter().zip(want).all(|(a, b)| close(*a, *b));
    assert!(fits, "{what}: {got:?}, should be {want:?}");
}

/// Half a step of f16, and what rounds beside it.
const HALF: f64 = 0.0006;

#[test]
fn deviations_keep_their_range_in_f16() {
    for op in ["std", "torch.deviation", "aten.std", "torch.std", "aten.std_mean", "torch.std_mean"] {
        let f = |x: &Tensor| result(op, vec![of(x)]);
        for (x, want) in [([300.0, -300.0], 424.26), ([0.0001, -0.0001], 0.00014144)] {
            let x = half(&x);
            near(op, &data(&f(&x)), &[want], HALF);
            near(op, &data(&grad(&x, f)), &[std::f64::consts::FRAC_1_SQRT_2, -std::f64::consts::FRAC_1_SQRT_2], HALF);
        }
    }
}

#[test]
fn sums_of_exponentials_keep_their_range_in_f16() {
    let zeros = Tensor::from_vec(vec![0.0f32; 70_000], [70_000]).cast(DType::F16);
    for op in ["logsumexp", "torch.logsumexp_along"] {
        let f = |x: &Tensor| result(op, vec![of(x), Value::List(vec![int(0)])]);
        near(op, &data(&f(&zeros)), &[11.156], HALF);
        // a number below the normal ones of f16: half a step there is 3e-8
        near(op, &data(&grad(&zeros, f))[..1], &[1.0 / 70_000.0], 0.0025);
    }
    let x = half(&[8.97, 513.0, -217.75, -436.0]);
    let f = |x: &Tensor| result("torch.logcumsumexp", vec![of(x), int(0)]).sum();
    near("logcumsumexp", &data(&grad(&x, f)), &[1.0, 3.0, 0.0, 0.0], HALF);
}

#[test]
fn a_norm_near_zero_has_a_gradient_in_f16() {
    let x = half(&[1e-5, 0.0]).reshape((1, 2));
    let f = |x: &Tensor| result("torch.renorm", vec![of(x), number(2.0), int(0), number(1.0)]).sum();
    near("renorm", &data(&grad(&x, f)), &[1.0, 1.0], HALF);
}

/// A product's scatter starts from ones, which another line of the same loops would have written too late.
#[test]
fn products_by_index_start_from_ones() {
    let index = Tensor::from_vec(vec![0i64, 1, 1], [3]);
    for dtype in [DType::F32, DType::F64, DType::F16, DType::I64] {
        let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0], [3]).cast(dtype);
        let source = Tensor::from_vec(vec![4.0f32, 5.0, 6.0], [3]).cast(dtype);
        let f = |x: &Tensor, source: &Tensor, index: &Tensor| {
            result("torch.index_reduce", vec![of(x), of(index), of(source), int(0), word("prod")])
        };
        near("at once", &data(&f(&x, &source, &index)), &[4.0, 60.0, 3.0], 0.0);
        let compiled = jit(move |(x, s, i): (Tensor, Tensor, Tensor)| f(&x, &s, &i));
        let got = compiled.call((x, source, index.clone())).unwrap_or_else(|e| panic!("{e}"));
        near("compiled", &data(&got), &[4.0, 60.0, 3.0], 0.0);
    }
}

#[test]
fn an_excluded_bound_is_never_drawn() {
    let draw = |low: f64, high: f64, dtype: DType| {
        let key = Key::new(7).handle().clone();
        data(&result(
            "uniform",
            vec![of(&key), Value::List(vec![int(1 << 20)]), number(low), number(high), Value::DType(dtype)],
        ))
    };
    let ends = [(0.0, 1.0), (1000.0, 1001.0), (-2.0, -1.0), (-1.0, 0.0), (1.0, 1.5), (3.0, 2.0), (-1.0, -2.0)];
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        for (low, high) in ends {
            let drawn = draw(low, high, dtype);
            assert!(drawn.iter().all(|x| *x != high), "{high} is drawn in {dtype}");
            let (least, most) = (f64::min(low, high), f64::max(low, high));
            assert!(drawn.iter().all(|x| *x >= least && *x <= most), "{dtype} leaves {least}..{most}");
        }
    }
}

#[test]
fn a_tie_is_shared_with_a_number_too() {
    let zero = Tensor::from_vec(vec![0.0f64], [1]);
    for op in ["maximum", "minimum", "fmax", "fmin"] {
        let with_number = grad(&zero, |x| result(op, vec![of(x), number(0.0)]).sum());
        let before_number = grad(&zero, |x| result(op, vec![number(0.0), of(x)]).sum());
        let with_tensor = grad(&zero, |x| result(op, vec![of(x), of(&zero)]).sum());
        for got in [with_number, before_number, with_tensor] {
            near(op, &data(&got), &[0.5], 0.0);
        }
    }
}

/// As PyTorch: what a NaN bounds has no gradient.
#[test]
fn a_bound_that_is_no_number_stops_the_gradient() {
    let x = Tensor::from_vec(vec![1.0f64, 2.0, 3.0], [3]);
    let bounds = Tensor::from_vec(vec![0.0, 0.0, f64::NAN], [3]);
    let slope = |f: &dyn Fn(&Tensor) -> Tensor| data(&grad(&x, |x| f(x).sum()));
    for (lo, want) in [(number(f64::NAN), [0.0; 3]), (of(&bounds), [1.0, 1.0, 0.0])] {
        near("clamp", &slope(&|x| result("clamp", vec![of(x), lo.clone()])), &want, 0.0);
        near("clamp", &slope(&|x| result("clamp", vec![of(x), Value::Absent, number(f64::NAN)])), &[0.0; 3], 0.0);
    }
    let nan = || number(f64::NAN);
    near("aten.clamp", &slope(&|x| result("aten.clamp", vec![of(x), nan()])), &[0.0; 3], 0.0);
    near("aten.clamp", &slope(&|x| result("aten.clamp", vec![of(x), nan(), nan()])), &[0.0; 3], 0.0);
}

#[test]
fn a_zero_that_is_added_takes_the_sign_of_a_zero() {
    let zero = Tensor::from_vec(vec![-0.0f32], [1]);
    type Case = (fn(Tensor) -> Tensor, f64);
    let cases: [Case; 4] = [
        (|x| 1.0 / (x + 0.0), f64::INFINITY),
        (|x| 1.0 / (0.0 + x), f64::INFINITY),
        (|x| 1.0 / (x - 0.0), f64::NEG_INFINITY),
        (|x| 1.0 / (x + -0.0), f64::NEG_INFINITY),
    ];
    for (n, (f, want)) in cases.into_iter().enumerate() {
        let compiled = jit(f).call(zero.clone()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((data(&f(zero.clone())), data(&compiled)), (vec![want], vec![want]), "case {n}");
    }
}

#[test]
fn no_heads_attend_to_nothing() {
    let of_shape = |shape: &[usize]| Tensor::from_vec(Vec::<f32>::new(), shape);
    let (q, k) = (of_shape(&[2, 0, 3, 4]), of_shape(&[2, 0, 5, 4]));
    let y = result("sdpa", vec![of(&q), of(&k), of(&k)]);
    let sizes: Vec<i64> = y.shape().iter().map(|d| d.value()).collect();
    assert_eq!((sizes, data(&y)), (vec![2, 0, 3, 4], vec![]));
}

/// Prefixes and suffixes, which are as many as elements; zeros are exact.
#[test]
fn gradients_of_products_walk_once() {
    let slope = |x: &[f64]| data(&grad(&Tensor::from_vec(x.to_vec(), [x.len()]), |x| result("prod", vec![of(x)])));
    near("one zero", &slope(&[2.0, 0.0, 3.0]), &[0.0, 6.0, 0.0], 0.0);
    near("two zeros", &slope(&[0.0, 0.0, 3.0]), &[0.0; 3], 0.0);
    let many = vec![1.0; 80_000];
    near("many", &slope(&many), &many, 0.0);
    let index = Tensor::from_vec(vec![1i64, 0, 1, 0, 1], [5]);
    let by_index = |x: &Tensor| result("segment_prod", vec![of(x), of(&index), int(2), int(0)]).sum();
    let x = Tensor::from_vec(vec![2.0f64, f64::INFINITY, 0.0, 7.0, 5.0], [5]);
    near("by index", &data(&grad(&x, by_index)), &[0.0, 7.0, 10.0, f64::INFINITY, 0.0], 0.0);
    let second = |x: &Tensor| (grad(x, by_index) * Tensor::from_vec(vec![1.0f64, 0.0, 10.0, 0.0, 100.0], [5])).sum();
    let x = Tensor::from_vec(vec![2.0f64, 3.0, 0.0, 7.0, 5.0], [5]);
    // 1 · bc + 10 · ac + 100 · ab of a = 2, b = 0, c = 5
    near("twice", &data(&grad(&x, second)), &[50.0, 0.0, 205.0, 0.0, 20.0], 0.0);
}

#[test]
fn sizes_that_no_memory_has_are_refused() {
    let x = Tensor::from_vec(vec![1.0f32; 3], [3, 1, 1]);
    for middle in [i64::MAX, i64::MAX / 4, 1 << 60] {
        let sizes = Value::List(vec![int(3), int(middle), int(3)]);
        let wide = result("expand", vec![of(&x), sizes]);
        let refused = wide.to_f64().expect_err("no memory has it");
        assert_eq!(refused.code(), "E704", "{refused}");
        assert!(refused.to_string().contains(&middle.to_string()), "{refused}");
    }
}

#[test]
fn a_list_too_long_to_join_says_what_to_do() {
    let parts = vec![of(&Tensor::from_vec(vec![1.0f32, 2.0], [1, 2])); 4000];
    let joined = result("cat", vec![Value::List(parts)]);
    match joined.to_f64() {
        Ok(all) => assert_eq!(all.len(), 8000),
        Err(refused) => {
            assert_eq!(refused.code(), "E704", "{refused}");
            assert!(refused.to_string().contains("parts of the list"), "{refused}");
        }
    }
}

/// A size beyond `i64` is one that no tensor has: wrapped it would be -1, which `reshape` infers.
#[test]
fn a_size_beyond_all_numbers_is_not_minus_one() {
    let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0], [3]);
    assert_eq!(Dim::from(usize::MAX).value(), i64::MAX);
    assert_eq!(Scalar::from(usize::MAX).as_i64(), i64::MAX);
    let refused = x.reshape([usize::MAX]).to_f64().expect_err("no tensor has it");
    assert_eq!(refused.code(), "E701", "{refused}");
}

/// Axes before one of size 0 are printed as brackets, however long they are.
#[test]
fn what_is_empty_and_long_is_printed_by_its_edges() {
    let print = |shape: &[usize]| {
        let buffer = fulgurite::buffer::Buffer::zeros(DType::F32, shape).expect("no elements");
        format!("{:?}", Tensor::from_buffer(buffer))
    };
    for shape in [&[1 << 40, 0][..], &[5, 1 << 30, 1 << 30, 0], &[0, 1 << 62]] {
        let text = print(shape);
        assert!(text.len() < 10_000, "{} characters for {shape:?}", text.len());
    }
    assert_eq!(print(&[2, 0]), "f32[2, 0] [\n [],\n []]");
}

/// What there is no memory for is an error of the layer or the batch, not the end of the process.
#[test]
fn layers_and_batches_without_memory_are_errors() {
    use fulgurite::nn::{BatchStats, Conv, LayerNorm, Linear};
    let code = |x: &Tensor| x.check().expect_err("no memory has it").code();
    // no tensor has the one size, no memory the other
    for (width, refused) in [(usize::MAX, "E704"), (1 << 45, "E806")] {
        assert_eq!(code(&LayerNorm::new(width).w), refused);
        assert_eq!(code(&BatchStats::new(width).mean), refused);
        let linear = Linear::new(Key::new(1), 2, width);
        assert_eq!(code(&linear.b.expect("a bias")), refused);
        assert!(linear.w.check().is_err());
    }
    assert!(Conv::new(Key::new(1), 4, 4, &[usize::MAX, usize::MAX]).w.check().is_err());
    let text = fulgurite::text::Text::new(&"abcdefghij".repeat(30)).expect("long enough");
    for b in [usize::MAX, 1 << 45] {
        assert_eq!(code(&text.batch(Key::new(1), b, 4).0), "E743");
    }
    assert!(text.validation(2, usize::MAX, 2).is_empty());
    assert!(text.validation(usize::MAX, 2, usize::MAX).is_empty());
    assert_eq!(text.validation(2, 2, usize::MAX).len(), text.validation(2, 2, 1000).len());
}

/// `__metadata__` is the format's name for texts: a leaf of that name would take their place, and the file could not be
/// read again.
#[test]
fn no_leaf_takes_the_place_of_metadata() {
    let x = Tensor::from_vec(vec![1.0f32, 2.0], [2]);
    let path = std::env::temp_dir().join(format!("fulgurite-metadata-{}.safetensors", std::process::id()));
    for names in [&["__metadata__", "a"][..], &["__metadata__"], &["A", "__metadata__"]] {
        let tree: std::collections::BTreeMap<String, Tensor> =
            names.iter().map(|name| ((*name).to_owned(), x.clone())).collect();
        let refused = save(&path, &tree).expect_err("the name is taken");
        assert!(refused.code() == "E904" && refused.to_string().contains("__metadata__"), "{refused}");
        assert!(!path.exists());
    }
}

/// A window may be as wide as its option says, and takes the time of its tensor.
#[test]
fn a_window_that_no_loop_ends_has_the_elements_of_its_tensor() {
    let x = Tensor::from_vec((0..24).map(|i| i as f32).collect(), [2, 3, 4]);
    let power = |window: i64| {
        let trace = format!("fn f(x: f32[2, 3, 4]) {{ y: f32[2, 3, 4] = channel_power(x, window={window}) return y }}");
        let trace = fulgurite::trace::Trace::parse(&trace).expect("parses");
        let program = fulgurite_tests::programs::compile(&trace, "cpu").expect("compiles");
        program.run(&[x.buffer().expect("a tensor")]).expect("runs")[0].to_f64()
    };
    assert_eq!(power(4611686018427387904), power(6));
}

/// Elements that are all alike are still read at an index: one outside of them is refused, or gets what stands outside.
#[test]
fn alike_elements_have_ends() {
    let mask = Tensor::from(vec![true]).reshape(Vec::<i64>::new());
    let refused = Tensor::scalar(0.0f32).masked_scatter(&mask, &Tensor::from(Vec::<f32>::new()));
    assert_eq!(refused.to_f64().unwrap_err().code(), "E804");
    let padded =
        jit(|x: Tensor| fulgurite::ops::full([1i64], 5.0).pad([1i64], [1i64]) + x).call(Tensor::scalar(0.0f32));
    assert_eq!(padded.and_then(|y| y.to_f64()).unwrap(), [0.0, 5.0, 0.0]);
}

/// A number that is known when the program runs is an option of rules, too, which compute others of it.
#[test]
fn rules_compute_options_of_numbers_that_are_known_when_they_run() {
    let norm = |x: &Tensor, order: &Tensor| result("torch.norm_of_order", vec![of(x), of(order)]);
    let x = Tensor::from_vec(vec![3.0f64, -4.0, 1.0], [3]);
    // of order 3: x |x| / n^2
    let n = (27.0f64 + 64.0 + 1.0).cbrt();
    let want = [9.0 / (n * n), -16.0 / (n * n), 1.0 / (n * n)];
    let near = |got: &Tensor| {
        let got = got.to_f64().unwrap_or_else(|e| panic!("{e}"));
        assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-12), "{got:?}, not {want:?}");
    };
    near(&grad(&x, |x| norm(x, &Tensor::from(3.0))));
    let compiled = jit(move |x: Tensor, order: Tensor| grad(&x, |x| norm(x, &order)));
    near(&compiled.call((x.clone(), Tensor::from(3.0))).unwrap_or_else(|e| panic!("{e}")));
    // no rule gives a gradient by an option
    let by_order = |order: &Tensor| norm(&x, order);
    assert_eq!(grad(&Tensor::scalar(3.0f64), by_order).check().map_err(|e| e.code()), Err("E712"));
    near(&grad(&x, |x| norm(x, &(x.abs().amin() * 3.0).detach())));
    // nor are there several options in one call
    let orders = Tensor::from([3.0f64, 4.0]);
    assert_eq!(vmap(&orders, by_order).map_err(|e| e.code()).map(|_| ()), Err("E726"));
}

/// A row that refuses elements is an effect, also of a tensor that is filled with one number.
#[test]
fn a_filled_tensor_is_refused_as_any_other() {
    let f = |x: Tensor| x + ops::finite(full([2], f64::INFINITY)) * 0.0;
    let x = Tensor::from(vec![1.0f64, 2.0]);
    assert_eq!(f(x.clone()).check().expect_err("at once").code(), "E705");
    assert_eq!(jit(f).call(x).expect_err("compiled").code(), "E705");
}

/// A view may take its shape from another tensor, which stays what it is when the view is taken again after a write.
#[test]
fn a_view_in_the_shape_of_another_tensor_keeps_that_shape() {
    let like = |op: &str, x: &Tensor, other: &Tensor| result(op, vec![of(x), of(other)]);
    let f = |x: Tensor, other: Tensor| {
        let y = &x * 1.0;
        let view = like("aten.reshape_as", &y, &other);
        let _ = y.add_(1.0);
        let _ = view.mul_(&other);
        let row = like("aten.expand_as", &y.select(0, 0).unsqueeze(0), &other);
        // the views are taken again inside of a region
        let (view, row) = checkpoint(|| {
            let _ = y.mul_(2.0);
            (&view * 1.0, &row * 1.0)
        });
        (view, row, y)
    };
    let (x, other) =
        (Tensor::from([[0.0f64, 1.0, 2.0], [3.0, 4.0, 5.0]]), Tensor::from([[1.0f64], [2.0], [3.0]]).expand([3, 2]));
    let x3 = x.transpose(0, 1).copy();
    for at_once in [true, false] {
        let got = match at_once {
            true => f(x3.copy(), other.copy()),
            false => jit(f).call((x3.copy(), other.copy())).expect("compiles"),
        };
        // x3 + 1 = [[1, 4], [2, 5], [3, 6]], times the rows' numbers, times 2
        let want = [2.0, 8.0, 8.0, 20.0, 18.0, 36.0];
        assert_eq!((got.0.shape(), data(&got.0)), (other.shape(), want.to_vec()));
        assert_eq!((got.1.shape(), data(&got.1)), (other.shape(), [2.0, 8.0, 2.0, 8.0, 2.0, 8.0].to_vec()));
        assert_eq!(data(&got.2), want);
    }
    // elements that are shown several times are not written, whatever the shape of the other tensor
    let one = Tensor::from([3.0f64]);
    let shown = like("aten.expand_as", &one, &Tensor::from([1.0f64, 2.0]));
    assert_eq!(shown.mul_(2.0).error().expect("one element twice").code(), "E714");
    assert_eq!(data(&one), [3.0]);
}
