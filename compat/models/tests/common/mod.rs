//! What the tests of models share.
#![allow(dead_code, reason = "each test uses a part")]

use fulgurite::Tensor;
use fulgurite::checkpoint;
use fulgurite_models::{Model, import};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A file of the folder `data`.
pub fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(name)
}

pub fn model(name: &str) -> Model {
    import(file(name)).unwrap_or_else(|e| panic!("{e}"))
}

/// The tensors of a file by name.
pub fn values(name: &str) -> BTreeMap<String, Tensor> {
    checkpoint::tensors(file(name)).expect("the values are committed")
}

/// Asserts that the largest difference is at most `share` of the largest expected element.
pub fn close(what: &str, found: &Tensor, expected: &Tensor, share: f64) {
    let (a, b) = (found.to_f64().expect("runs"), expected.to_f64().expect("is there"));
    assert_eq!(found.ty(), expected.ty(), "{what}");
    let largest = b.iter().fold(1e-30, |m: f64, x| m.max(x.abs()));
    let worst = a.iter().zip(&b).fold(0.0, |m: f64, (a, b)| m.max((a - b).abs() / largest));
    assert!(worst <= share, "{what}: {worst:e}");
}

/// A file with these bytes, which is removed when it is dropped.
pub struct Temporary(pub PathBuf);

impl Temporary {
    pub fn new(name: &str, bytes: &[u8]) -> Temporary {
        let path = std::env::temp_dir().join(format!("fulgurite-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).expect("the folder for temporary files can be written");
        Temporary(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A small generator of numbers: a test needs the same ones in every run.
pub struct Draws(pub u64);

impl Draws {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}
