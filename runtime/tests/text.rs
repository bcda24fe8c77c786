//! Traces print as programs and parse back; what is no trace is refused with its place.

#![allow(missing_docs)]

mod common;

use common::{database, files::plain};
use fulgurite_core::loc::Loc;
use fulgurite_core::{DType, Name, TensorTy, Value};
use fulgurite_runtime::trace::{PrintOptions, ProxyTy, RegionKind, Trace};
use fulgurite_runtime::{Builder, ErrorKind};

fn tensor(dtype: DType, shape: &[i64]) -> ProxyTy {
    ProxyTy::tensor(TensorTy::new(dtype, shape))
}

fn round_trip(text: &str) {
    database();
    let trace = Trace::parse(text).unwrap_or_else(|e| panic!("{text}\n{e}"));
    assert_eq!(plain(&trace), text);
}

#[test]
fn programs_round_trip() {
    round_trip(
        "\
fn forward(x: f32[32, 64], w: f32[64, 128], k: key) {
  h: f32[32, 128] = matmul(x, w)
  no_grad {
    (var: f32[32], mean: f32[32]) = var_mean(h, dims=[1])
  }
  y: f32[32, 128] = gelu(h, approximate=tanh)
  scope \"block[2]\" {
    autocast(bf16) {
      (d: f32[32, 128]; mask: bool[32, 128]) = dropout(y, k, p=0.25)
    }
  }
  c: f64[32, 128] = cast(d, dtype=f64)
  v: f32[32] = matmul.mv(x, z)
  return c, mean; save x, h
}
"
        .replace("  v: f32[32] = matmul.mv(x, z)\n", "")
        .as_str(),
    );
    round_trip(
        "\
fn f(x: f32[2]) {
  y: f32[2] #must_save = mul(x, 2.5) #recompute
  (_, m: f32[]) = var_mean(y)
  f: f32[3] = full(shape=[3], value=-inf)
  return
}
",
    );
}

#[test]
fn a_region_that_is_opened_twice_stays_one() {
    round_trip(
        "\
fn f(x: f32[2]) {
  checkpoint 1 {
    a: f32[2] = sin(x)
  }
  b: f32[2] = cos(x)
  checkpoint 1 {
    c: f32[2] = sin(b)
  }
  return a, c
}
",
    );
}

#[test]
fn like_arguments_hold_types_only() {
    round_trip(
        "\
fn f(g: f32[2]) {
  x: f32[2, 3] = sum.vjp.x(g, f32[2, 3], dims=[1], keepdim=false)
  return x
}
",
    );
}

#[test]
fn places_and_heads_are_printed() {
    database();
    let mut b = Builder::new("forward");
    let x = b.input("0.x", tensor(DType::F32, &[2]));
    let loc = |line| Loc { file: "a.rs", line, column: 1 };
    let sin = fulgurite_runtime::intrinsics::get("sin").unwrap();
    let y = b.bind(sin, vec![Value::Tensor(x)], loc(3)).unwrap()[0];
    let z = b.within(RegionKind::NoGrad, loc(4), |b| b.bind(sin, vec![Value::Tensor(y)], loc(4)).unwrap()[0]);
    let trace = b.finish(&[z]);
    let options = PrintOptions { provenance: false, ..PrintOptions::default() };
    let text = trace.print(&options);
    assert_eq!(
        text,
        "\
fn forward(in0.x: f32[2]) {
  sin: f32[2] = sin(in0.x)                          // a.rs:3:1
  no_grad {
    sin.1: f32[2] = sin(sin)                        // …:4:1
  }
  return sin.1
}
"
    );
    let again = Trace::parse(&text).unwrap();
    assert_eq!(again.print(&options), text);
    assert_eq!(again.lines()[1].place.loc.line, 4);
    assert!(trace.to_string().starts_with("# trace forward   1 inputs, 2 lines   made by: acquire ("));
}

#[test]
fn bad_texts_are_answered_with_their_place() {
    database();
    let at = |text: &str, line: u32, column: u32, code: &str| match Trace::parse(text) {
        Ok(t) => panic!("{text} parsed:\n{t:?}"),
        Err(e) => {
            assert_eq!(e.code(), code, "{e}");
            assert_eq!(*e.kind(), ErrorKind::TraceText { line, column }, "{e}");
        }
    };
    at("", 1, 1, "E731");
    at("fn f(x: f32[2])", 1, 16, "E731");
    at("fn f(x: f33[2]) {\n  return x\n}", 1, 9, "E731");
    at("fn f(x: f32[2]) {\n  y: f32[2] = sinn(x)\n  return y\n}", 2, 3, "E731");
    at("fn f(x: f32[2]) {\n  y: f32[3] = sin(x)\n  return y\n}", 2, 3, "E732");
    at("fn f(x: f32[2]) {\n  y: f32[2] = sin(z)\n  return y\n}", 2, 19, "E731");
    at("fn f(x: f32[2]) {\n  x: f32[2] = sin(x)\n  return x\n}", 2, 3, "E731");
    at("fn f(x: f32[2]) {\n  return y\n}", 2, 10, "E731");
    at("fn f(x: f32[2]) {\n  y: f32[2] = sin(x) $\n  return y\n}", 2, 22, "E731");
    at("fn f(x: f32[2]) {\n  y: f32[2] = sin(x) #nonsense\n  return y\n}", 2, 23, "E731");
    let deep = format!("fn f() {{\n{}", "no_grad {\n".repeat(1000));
    assert_eq!(Trace::parse(&deep).unwrap_err().code(), "E731");
    let deep = format!("fn f() {{\n y: f32[] = sum({}", "[".repeat(100_000));
    assert_eq!(Trace::parse(&deep).unwrap_err().code(), "E731");
    // every prefix is answered
    let text = "fn f(x: f32[2]) {\n  y: f32[2] = sin(x)\n  return y\n}\n";
    for end in 0..text.len() {
        let _ = Trace::parse(&text[..end]);
    }
}

#[test]
fn a_call_that_no_overload_accepts_names_what_met_what() {
    database();
    let mut b = Builder::new("f");
    let a = b.input("a", tensor(DType::F32, &[32, 64, 384]));
    let w = b.input("w", tensor(DType::F32, &[128, 384]));
    let matmul = fulgurite_runtime::intrinsics::get("matmul").unwrap();
    let error = b.bind(matmul, vec![Value::Tensor(a), Value::Tensor(w)], Loc::caller()).unwrap_err();
    assert_eq!(error.code(), "E701");
    assert!(
        matches!(error.kind(), ErrorKind::ShapeMismatch { op, shapes, .. } if *op == "matmul" && shapes.len() == 2)
    );
    let text = error.to_string();
    assert!(text.contains("a: f32[32, 64, 384]   `a`"), "{text}");
    assert!(text.contains("tests/text.rs:"), "{text}");
    assert!(text.contains("^^^"), "{text}");
    let error = b.call_row(Name::new("no_such"), vec![], vec![]).unwrap_err();
    assert_eq!(error.code(), "E710");
    // an overload takes the call that its base refuses
    let v = b.input("v", tensor(DType::F32, &[384]));
    let m = b.input("m", tensor(DType::F32, &[5, 384]));
    let out = b.bind(matmul, vec![Value::Tensor(m), Value::Tensor(v)], Loc::caller()).unwrap();
    assert_eq!(b.lines().last().unwrap().symbol.name(), "matmul.mv");
    assert_eq!(b.arena().tensor_ty(out[0]), Some(TensorTy::new(DType::F32, &[5i64])));
}

/// Numbers that are the same on every machine.
struct Drawn(u64);

impl Drawn {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % n.max(1) as u64) as usize
    }
}

/// Whatever a scope is called, its name is read as it was printed.
#[test]
fn names_of_scopes_round_trip() {
    database();
    let parts = [
        "block",
        "[",
        "]",
        "0",
        " ",
        "\"",
        "\\",
        "\n",
        "\t",
        "\r",
        "\0",
        "'",
        "{",
        "}",
        "#",
        "//",
        "|",
        "é",
        "e\u{301}",
        "\u{200b}",
        "\u{85}",
        "\u{2028}",
        "\u{1f600}",
        "\u{7f}",
        "=",
        ":",
        "fn",
        "return",
        "% ",
        "\\u{41}",
    ];
    let mut drawn = Drawn(17);
    for turn in 0..400 {
        let name: String = (0..drawn.below(6)).map(|_| parts[drawn.below(parts.len())]).collect();
        let mut b = Builder::new("f");
        let x = b.input("x", tensor(DType::F32, &[2]));
        let sin = fulgurite_runtime::intrinsics::get("sin").unwrap();
        let kind = RegionKind::Named(name.as_str().into());
        let y = b.within(kind.clone(), Loc::NOWHERE, |b| b.bind(sin, vec![Value::Tensor(x)], Loc::NOWHERE).unwrap()[0]);
        let text = plain(&b.finish(&[y]));
        let again = Trace::parse(&text).unwrap_or_else(|e| panic!("{turn}: {name:?}\n{text}\n{e}"));
        assert_eq!(plain(&again), text, "{turn}: {name:?}");
        let region = again.lines()[0].region;
        assert_eq!(again.arena.region(region).kind, kind, "{turn}: {text}");
    }
}

/// A text that is read prints as what is read again and prints the same: programs with a few letters lost, doubled, or put
/// elsewhere.
#[test]
fn what_is_read_prints_as_it_is_read() {
    database();
    let programs = [
        "fn f(x: f32[2], k: key) {\n  scope \"block[0]\" {\n    a: f32[2] = sin(x)\n    (d: f32[2]; mask: bool[2]) = dropout(a, k, p=0.25) site=7\n  }\n  scope \"model\" 2 #must_save {\n    b: f32[2] = mul(d, 2.5) #backward\n  }\n  c: f32[2] = add(a, b)   // a.rs:3\n  scope \"model\" 2 #must_save {\n    e: f32[2] #no_save = exp(c)\n  }\n  x <- e   backward\n  return e, c; save x, a\n}\n",
        "fn f[n = 4](x: f32[n, 2]) {\n  checkpoint 1 {\n    autocast(bf16) {\n      a: f32[n, 2] = sin(x)\n    }\n  }\n  no_grad {\n    s: f32[] = sum(a, dims=[0, 1])\n  }\n  checkpoint 1 {\n    c: f32[n, 2] = cos(a)\n  }\n  f: f32[3] = full(shape=[3], value=-inf)\n  return a, c, s, f\n}\n",
    ];
    let marks: Vec<char> = "[](){}\" #;:=,.0123456789-+@_/<|\\nxabs\n".chars().collect();
    let mut drawn = Drawn(5);
    let mut read = 0;
    for turn in 0..60_000 {
        let mut text: Vec<char> = programs[turn % 2].chars().collect();
        for _ in 0..1 + drawn.below(3) {
            let (at, other) = (drawn.below(text.len()), drawn.below(text.len()));
            match drawn.below(5) {
                0 => _ = text.remove(at),
                1 => text.insert(at, marks[drawn.below(marks.len())]),
                2 => text[at] = marks[drawn.below(marks.len())],
                3 => text.swap(at, other),
                _ => {
                    let (from, to) = (at, (at + drawn.below(12)).min(text.len()));
                    let part: Vec<char> = text[from..to].to_vec();
                    let other = other.min(text.len());
                    text.splice(other..other, part);
                }
            }
        }
        let text: String = text.into_iter().collect();
        let Ok(trace) = Trace::parse(&text) else { continue };
        read += 1;
        let options = PrintOptions { provenance: false, ..PrintOptions::default() };
        let printed = trace.print(&options);
        let again = Trace::parse(&printed).unwrap_or_else(|e| panic!("{turn}: {text}\nprints as\n{printed}\n{e}"));
        assert_eq!(again.print(&options), printed, "{turn}: {text}");
    }
    assert!(read > 1_000, "{read} texts were read");
}
