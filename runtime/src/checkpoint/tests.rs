use super::*;
use crate::tensor::Key;
use std::fs;
use std::path::PathBuf;

/// A folder of its own for each test, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("fulgurite-checkpoint-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

type Model = (Vec<(Tensor, Option<Tensor>)>, Key, Tensor, crate::tree::Fixed<usize>);

fn model(x: f32) -> Model {
    let layer = |i: usize| {
        let w = Tensor::from_vec((0..6 * i).map(|k| x + k as f32).collect(), (i, 6usize));
        (w, i.is_multiple_of(2).then(|| Tensor::from([x as f64, 2.0, 3.0])))
    };
    ((1..4).map(layer).collect(), Key::new(7), Tensor::from([true, false, true]), crate::tree::Fixed(4))
}

fn numbers(m: &Model) -> Vec<f64> {
    crate::tree::flatten(m).leaves().iter().flat_map(|t| t.to_f64().unwrap()).collect()
}

#[test]
fn what_was_saved_is_loaded() {
    let folder = Folder::new("round");
    let path = folder.file("model.safetensors");
    let saved = model(1.5);
    let step = Metadata::from([("step".to_owned(), "7".to_owned())]);
    save_with(&path, &saved, &step).unwrap();
    let mut loaded = model(0.0);
    let kept = loaded.0[0].0.clone();
    assert_eq!(load(&path, &mut loaded).unwrap(), step);
    assert_eq!(numbers(&loaded), numbers(&saved));
    assert_eq!(loaded.1.parts(), saved.1.parts());
    assert_eq!(kept.to_vec::<f32>().unwrap()[0], 0.0, "other handles of the old tensors keep their values");
    let left: Vec<_> = fs::read_dir(&folder.0).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert_eq!(left, ["model.safetensors"], "nothing temporary stays");
    assert_eq!(inspect(&path).unwrap().entry("0.1.0").unwrap().ty.to_string(), "f32[2, 6]");
}

#[test]
fn one_tensor_and_numbers_are_trees_too() {
    let folder = Folder::new("single");
    let path = folder.file("x.safetensors");
    save(&path, &Tensor::from(2.5)).unwrap();
    let mut x = Tensor::from(0.0);
    load(&path, &mut x).unwrap();
    assert_eq!(x.item::<f64>().unwrap(), 2.5);
    assert_eq!(x.ty().unwrap().to_string(), "f64", "a run-time number stays one");
}

#[test]
fn other_programs_read_it() {
    let folder = Folder::new("other");
    let path = folder.file("x.safetensors");
    save(&path, &model(1.0)).unwrap();
    let bytes = fs::read(&path).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(file.tensor("0.2.0").unwrap().shape(), [3, 6]);
    assert_eq!(file.tensor("2").unwrap().data(), [1, 0, 1]);
    let first = f32::from_le_bytes(file.tensor("0.0.0").unwrap().data()[..4].try_into().unwrap());
    assert_eq!(first, 1.0);
}

#[test]
fn we_read_what_other_programs_write() {
    let folder = Folder::new("theirs");
    let path = folder.file("x.safetensors");
    let data: Vec<u8> = [1.0f32, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let view = safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![2], &data).unwrap();
    safetensors::serialize_to_file([("value", view)], None, &path).unwrap();
    let mut x = Tensor::from([0.0f32, 0.0]);
    load(&path, &mut x).unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 2.0]);
}

#[test]
fn a_cut_file_says_what_is_missing() {
    let folder = Folder::new("cut");
    let (whole, cut) = (folder.file("step-1.safetensors"), folder.file("step-2.safetensors"));
    save(&whole, &model(1.0)).unwrap();
    let bytes = fs::read(&whole).unwrap();
    fs::write(&cut, &bytes[..bytes.len() - 100]).unwrap();
    let mut m = model(0.0);
    let error = load(&cut, &mut m).unwrap_err();
    assert_eq!(error.code(), "E901");
    let text = error.to_string();
    assert!(text.contains("is cut short: 87 of 187 data bytes (46 %)"), "{text}");
    assert!(text.contains("first tensor not whole: `0.1.0` f32[2, 6], data bytes 64..112"), "{text}");
    assert!(text.contains("nothing was loaded; the model in memory is unchanged"), "{text}");
    assert!(text.contains("step-1.safetensors`"), "{text}");
    assert_eq!(numbers(&m), numbers(&model(0.0)));
}

#[test]
fn another_model_is_refused_with_all_differences() {
    let folder = Folder::new("other-model");
    let path = folder.file("x.safetensors");
    save(&path, &model(1.0)).unwrap();
    let mut m = model(0.0);
    m.0.pop();
    m.0[0].0 = Tensor::from([[0f64; 6]; 1]);
    m.3.0 = 8;
    let text = load(&path, &mut m).unwrap_err().to_string();
    assert!(text.contains("E905") && text.contains("holds another model: 4 differences"), "{text}");
    assert!(text.contains("`0.0.0` is f32[1, 6] in the file, f64[1, 6] here"), "{text}");
    assert!(text.contains("`0.2.0` f32[3, 6] of the file has no place here"), "{text}");
    assert!(text.contains("fixed part `3` is 4 in the file, 8 here"), "{text}");
    assert!(text.contains("fixed part `0` is 3 entries in the file, 2 entries here"), "{text}");
    let mut many: Vec<Tensor> = (0..50).map(|_| Tensor::from([0f32])).collect();
    let text = load(&path, &mut many).unwrap_err().to_string();
    assert!(text.contains("and 34 more"), "{text}");
    let mut eight = model(0.0);
    eight.3.0 = 8;
    load_with(&path, &mut eight, &Load { fixed: false }).unwrap();
    assert_eq!(eight.3.0, 8);
}

#[test]
fn unusable_paths_and_leaves_are_errors() {
    let folder = Folder::new("paths");
    assert_eq!(load(folder.file("none"), &mut model(0.0)).unwrap_err().code(), "E904");
    assert_eq!(save(folder.file("no/such/folder"), &model(0.0)).unwrap_err().code(), "E904");
    assert_eq!(save("/", &model(0.0)).unwrap_err().code(), "E904");
    let poisoned = Tensor::poisoned(Error::new("E701", "sizes"));
    assert_eq!(save(folder.file("x"), &poisoned).unwrap_err().code(), "E701");
    assert!(!folder.file("x").exists());
}

/// A file made of this header and `data` bytes of data.
fn file(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

#[test]
fn hostile_headers_are_refused() {
    let folder = Folder::new("hostile");
    let path = folder.file("x.safetensors");
    let t = |body: &str| format!("{{\"value\":{{{body}}}}}");
    let cases = [
        (t(r#""dtype":"F32","shape":[2],"data_offsets":[0,8]"#), 8, ""),
        (t(r#""dtype":"F32","shape":[2],"data_offsets":[0,8]"#), 9, "1 bytes stand after its last tensor"),
        (t(r#""dtype":"F32","shape":[2],"data_offsets":[0,8]"#), 7, "cut short"),
        (t(r#""dtype":"F32","shape":[2],"data_offsets":[4,12]"#), 12, "leaves a hole"),
        (t(r#""dtype":"F32","shape":[2],"data_offsets":[8,0]"#), 8, "can't have the data"),
        (t(r#""dtype":"F32","shape":[3],"data_offsets":[0,8]"#), 8, "can't have the data"),
        (t(r#""dtype":"F6_E2M3","shape":[8],"data_offsets":[0,8]"#), 8, "has the dtype F6_E2M3"),
        (t(r#""dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,0]"#), 0, "can't have the data"),
        (t(r#""dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,0]"#), 0, "not made of sizes"),
        (t(r#""dtype":"F32","shape":[-1],"data_offsets":[0,8]"#), 8, "not made of sizes"),
        (t(r#""dtype":"F32","shape":[1.5],"data_offsets":[0,8]"#), 8, "not made of sizes"),
        (t(r#""dtype":"F32","shape":[2],"data_offsets":[0,8,9]"#), 8, "has no data offsets"),
        (t(r#""dtype":"F32","shape":[2],"data_offsets":["0",8]"#), 8, "not numbers of bytes"),
        (t(r#""dtype":"F32","data_offsets":[0,8]"#), 8, "has no shape"),
        (t(r#""shape":[2],"data_offsets":[0,8]"#), 8, "has no dtype"),
        (
            r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}}"#.into(),
            6,
            "overlaps",
        ),
        (r#"{"value":7}"#.into(), 0, "has no dtype"),
        (r#"{"__metadata__":{"a":7}}"#.into(), 0, "not texts"),
        (r#"{"value":"#.into(), 0, "not JSON"),
        (format!("{{\"value\":{}", "[".repeat(100_000)), 0, "not JSON"),
        ("[]".into(), 0, "does not start with a header"),
    ];
    for (header, data, wanted) in cases {
        fs::write(&path, file(&header, data)).unwrap();
        let mut x = Tensor::from([0f32, 0.0]);
        match load(&path, &mut x) {
            Ok(_) => assert_eq!(wanted, "", "{header}"),
            Err(e) => assert!(!wanted.is_empty() && e.to_string().contains(wanted), "{header}: {e}"),
        }
    }
    for claim in [u64::MAX, u64::MAX - 8, 1 << 40, LONGEST_PLUS_ONE] {
        fs::write(&path, [claim.to_le_bytes().as_slice(), b"{}"].concat()).unwrap();
        assert_eq!(load(&path, &mut Tensor::from([0f32])).unwrap_err().code(), "E902");
    }
}

const LONGEST_PLUS_ONE: u64 = header::LONGEST + 1;

/// Truncated files and changed bytes neither panic nor load half a model.
#[test]
fn damaged_files_never_half_load() {
    let folder = Folder::new("fuzz");
    let path = folder.file("x.safetensors");
    let original = model(1.0);
    save(&path, &original).unwrap();
    let bytes = fs::read(&path).unwrap();
    let start = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let untouched = numbers(&model(0.0));
    let attempt = |damaged: &[u8]| {
        fs::write(&path, damaged).unwrap();
        let mut m = model(0.0);
        let done = load(&path, &mut m).is_ok();
        if !done {
            assert_eq!(numbers(&m), untouched);
        }
        done
    };
    for n in (0..bytes.len()).step_by(11).chain([7, 8, 9, start - 1, start, start + 1, bytes.len() - 1]) {
        assert!(!attempt(&bytes[..n]), "cut to {n} of {}", bytes.len());
    }
    // a linear congruential generator is random enough to choose positions and bytes
    let mut state = 1u64;
    let mut next = move |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    for round in 0..20_000 {
        let mut damaged = bytes.clone();
        for _ in 0..1 + next(3) {
            let at = next(start);
            damaged[at] = match next(3) {
                0 => next(256) as u8,
                1 => b"0123456789[]{}\",:-"[next(18)],
                _ => damaged[next(start)],
            };
        }
        match round % 64 {
            0 => _ = attempt(&damaged),
            _ => _ = header::Header::parse(&damaged[8..start], (bytes.len() - start) as u64).is_ok(),
        }
    }
}

/// Names keep their dots: a part without a name adds none, and a name may end with one.
#[test]
fn names_with_dots_are_kept() {
    let path = std::env::temp_dir().join(format!("fulgurite-dots-{}.safetensors", std::process::id()));
    let names = ["a.", "b", "c..", ".d", "e.f"];
    let tree: std::collections::BTreeMap<String, Tensor> =
        names.iter().enumerate().map(|(n, name)| ((*name).to_owned(), Tensor::from([n as f32]))).collect();
    save(&path, &tree).expect("the folder can be written");
    let read = tensors(&path).expect("what was written can be read");
    std::fs::remove_file(&path).expect("it is there");
    assert_eq!(read.keys().collect::<Vec<_>>(), tree.keys().collect::<Vec<_>>());
    for (n, name) in names.iter().enumerate() {
        assert_eq!(read[*name].to_vec::<f32>().expect("floats"), [n as f32], "{name}");
    }
}
