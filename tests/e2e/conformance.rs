//! `conformance` on a sample of PyTorch's answers: tests/data/conformance/README.md says where it is from.

use super::command::{Folder, fulgurite};
use fulgurite::buffer::Buffer;
use fulgurite_core::{DType, Scalar};
use serde_json::Value as Json;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/conformance")
}

fn lines(path: &Path) -> HashMap<String, Json> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let parse = |line: &str| -> (String, Json) {
        let json: Json = serde_json::from_str(line).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        (json["id"].as_str().unwrap_or_default().to_owned(), json)
    };
    text.lines().map(parse).collect()
}

/// A tensor of the format, inline.
fn tensor(json: &Json) -> Option<Buffer> {
    let dtype = DType::from_name(json["dtype"].as_str()?)?;
    let shape: Vec<usize> =
        json["shape"].as_array()?.iter().map(|n| Some(n.as_u64()? as usize)).collect::<Option<_>>()?;
    let bytes: Vec<u8> = match json["hex"].as_str() {
        Some(hex) => {
            (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).ok()).collect::<Option<_>>()?
        }
        None => {
            let scalar = |x: &Json| match dtype.is_float() {
                true => x.as_f64().map(Scalar::Float),
                false => x.as_i64().map(Scalar::Int),
            };
            let items = json["data"].as_array()?.iter().map(|x| Buffer::number(scalar(x)?, dtype).ok());
            items.collect::<Option<Vec<_>>>()?.iter().flat_map(|b| b.as_bytes().to_vec()).collect()
        }
    };
    Buffer::from_bytes(dtype, &shape, &bytes).ok()
}

/// The distance that the format allows at an element: relative to it, and to the largest one.
fn allowed(dtype: DType, factor: f64, want: f64, largest: f64, noise: (f64, f64)) -> f64 {
    let (relative, absolute, floor) = match dtype {
        DType::F64 => (1e-9, 1e-10, 1e-12),
        DType::F32 => (1e-5, 1e-5, 1e-6),
        DType::F16 => (4e-3, 4e-3, 5e-4),
        _ => (2.4e-2, 2.4e-2, 3e-3),
    };
    let size = if want.is_finite() { want.abs() } else { 0.0 };
    factor * (relative * size + f64::max(floor, absolute * largest.min(1.0))) + 4.0 * (noise.0 + noise.1 * size)
}

/// Whether a result is the expected one; `None` in either place stands for zeros.
fn differs(got: &Json, want: &Json, exact: bool, factor: f64, noise: &Json) -> Option<String> {
    if want.is_null() {
        let zero = got.is_null() || tensor(got).is_some_and(|b| b.to_f64().iter().all(|x| *x == 0.0));
        return (!zero).then(|| "not zero".into());
    }
    if want.is_boolean() || want.is_i64() {
        return (got != want).then(|| format!("{got}, not {want}"));
    }
    let Some(want) = tensor(want) else { return Some("the expectation is no tensor".into()) };
    let values = want.to_f64();
    let got = match tensor(got) {
        Some(got) => got,
        None if values.iter().all(|x| *x == 0.0) => return None,
        None => return Some(format!("got {got}")),
    };
    if got.dtype() != want.dtype() || got.shape() != want.shape() {
        return Some(format!("{}{:?}, not {}{:?}", got.dtype(), got.shape(), want.dtype(), want.shape()));
    }
    let noise = (noise[0].as_f64().unwrap_or(0.0), noise[1].as_f64().unwrap_or(0.0));
    let largest = values.iter().filter(|x| x.is_finite()).fold(0.0f64, |m, x| m.max(x.abs()));
    let same = |g: f64, w: f64| {
        let bits = !exact || g.is_sign_negative() == w.is_sign_negative();
        let near =
            !exact && want.dtype().is_float() && (g - w).abs() <= allowed(want.dtype(), factor, w, largest, noise);
        // in halves PyTorch rounds between kernels, and overflows where one rounding of the result does not
        let half = !exact && matches!(want.dtype(), DType::F16 | DType::BF16);
        let overflowed = half && (g.is_finite() && !w.is_finite() || !g.is_nan() && w.is_nan());
        g.is_nan() && w.is_nan() || g == w && bits || g.is_finite() && w.is_finite() && near || overflowed
    };
    let got = got.to_f64();
    let at = got.iter().zip(&values).position(|(g, w)| !same(*g, *w))?;
    Some(format!("element {at} is {}, not {}", got[at], values[at]))
}

fn judge(want: &Json, got: &Json) -> Vec<String> {
    if want["status"] == "error" {
        return if got["status"] == "error" { vec![] } else { vec![format!("accepted: {}", got["status"])] };
    }
    if got["status"] != "ok" || !got["unsupported"].is_null() {
        return vec![format!("{} {} {}", got["status"], got["message"], got["reason"])];
    }
    let mut wrong = Vec::new();
    let mut check = |what: String, why: Option<String>| wrong.extend(why.map(|why| format!("{what}: {why}")));
    for (n, out) in want["out"].as_array().into_iter().flatten().enumerate() {
        let exact = want["cmp"][n] == "exact";
        check(format!("output {n}"), differs(&got["out"][n], out, exact, 1.0, &want["noise"]["out"][n]));
    }
    let maps =
        [(&want["grad"], &got["grad"], "gradient", 2.0), (&want["second"]["x"], &got["second"]["x"], "second", 4.0)];
    let more = [(&want["second"]["ct"], &got["second"]["ct"], "second by cotangent", 4.0)];
    for (want, got, what, factor) in maps.into_iter().chain(more) {
        for (n, value) in want.as_object().into_iter().flatten() {
            check(format!("{what} {n}"), differs(&got[n], value, false, factor, &Json::Null));
        }
    }
    for (n, value) in want["jvp"].as_array().into_iter().flatten().enumerate() {
        check(format!("jvp {n}"), differs(&got["jvp"][n], value, false, 2.0, &Json::Null));
    }
    wrong
}

#[test]
fn a_sample_of_pytorch_s_answers_is_met() {
    let f = Folder::new("conformance");
    // both parts, each case once
    let mut want = HashMap::new();
    let mut cases = HashMap::new();
    for part in ["more-", "model-", "changed-", ""] {
        want.extend(lines(&sample().join(format!("{part}expect.jsonl"))));
        cases.extend(lines(&sample().join(format!("{part}cases.jsonl"))));
    }
    let text: String = cases.values().map(|case| format!("{case}\n")).collect();
    std::fs::write(f.0.join("cases.jsonl"), text).expect("written");
    let (cases, out) = (f.0.display().to_string(), f.0.join("out"));
    let ran = fulgurite(&f.0, &["conformance", "--cases", &cases, "--out", &out.display().to_string()]);
    assert!(ran.status == Some(0), "{:?} {} {}", ran.status, ran.out, ran.err);
    let got = lines(&out.join("results.jsonl"));
    assert!(want.len() > 1900 && want.len() == got.len(), "{} expectations, {} results", want.len(), got.len());
    let mut wrong: Vec<String> = want
        .iter()
        .flat_map(|(id, want)| judge(want, &got[id]).into_iter().map(move |why| format!("{id} {why}")))
        .collect();
    wrong.sort();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_is_no_case_is_named_with_its_line() {
    let f = Folder::new("conformance-wrong");
    let out = f.0.join("out").display().to_string();
    let here = f.0.display().to_string();
    let ran = fulgurite(&f.0, &["conformance", "--cases", &here, "--out", &out]);
    assert!(ran.status == Some(2) && ran.err.contains("E910"), "{:?} {}", ran.status, ran.err);
    std::fs::write(f.0.join("cases.jsonl"), "{\"id\":\"a\",\"op\":\"aten.exp.default\"}\n[1]\n").expect("written");
    let ran = fulgurite(&f.0, &["conformance", "--cases", &here, "--out", &out]);
    assert!(ran.status == Some(2) && ran.err.contains("cases.jsonl:2"), "{:?} {}", ran.status, ran.err);
}
