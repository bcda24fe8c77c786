//! `--device`: the same program elsewhere, and what is said where there is no such device.

use super::command::{Folder, fulgurite};
use fulgurite::executors::cuda::device::host::Host;

#[test]
fn the_kernels_of_a_device_give_what_the_processor_gives() {
    if !Host::is_available() {
        eprintln!("skipped: there is no C++ compiler (`c++`, or what CXX names)");
        return;
    }
    let f = Folder::new("device");
    // exact in any order: a fusion with a reduction, a product, a gather with its gradient, a sort
    for expression in [
        "sum(square([[1, 2, 3], [4, 5, 6]]), dims = [1])",
        "matmul([[1, 2], [3, 4]], [[5, 6], [7, 8]])",
        "embedding([[1, 2], [3, 4]], [1, 0, 1] as i64)",
        "topk([3, 1, 2], 2)",
    ] {
        let args = ["eval", expression, "--grad"];
        let here = fulgurite(&f.0, &args).fine();
        let there = fulgurite(&f.0, &[args.as_slice(), &["--device", "host"]].concat()).fine();
        assert_eq!(here.out, there.out, "{expression}");
    }
    let wrong = fulgurite(&f.0, &["eval", "embedding([[1, 2], [3, 4]], [2] as i64)", "--device", "host"]);
    assert_eq!(wrong.status, Some(1), "{}", wrong.err);
    assert!(wrong.err.contains("error[E80") || wrong.err.contains("error[E705]"), "{}", wrong.err);
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let f = Folder::new("no-device");
    for (device, says) in [("gpu", "`gpu` is no device"), ("cuda:x", "`cuda:x` is no device"), ("cuda:99", "cuda:99")] {
        let ran = fulgurite(&f.0, &["eval", "[1] + 1", "--device", device]);
        assert_eq!(ran.status, Some(2), "{}", ran.err);
        assert!(ran.err.starts_with("error[E809]") && ran.err.contains(says), "{}", ran.err);
        assert!(ran.err.contains("help: "), "{}", ran.err);
    }
}
