//! Promotion against tables recorded from PyTorch (`tests/data/promotion-*.txt`).

use fulgurite_core::dtype::DType;
use fulgurite_core::promote::{Kind, Operand, join, join_dtypes, promote};
use fulgurite_core::scalar::Scalar;

fn lines(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().filter(|l| !l.starts_with('#')).map(|l| l.split(' ').collect())
}

fn dtype(name: &str) -> DType {
    DType::from_name(name).unwrap_or_else(|| panic!("{name} is no dtype"))
}

fn operand(text: &str) -> Operand {
    let (name, class) = text.split_once(':').expect("dtype:class");
    match class {
        "S" => Operand::Number(dtype(name)),
        class => Operand::Tensor { dtype: dtype(name), rank0: class == "Z" },
    }
}

fn check_joins(text: &str, count: usize) {
    let mut seen = 0;
    for line in lines(text) {
        let (expected, operands) = line.split_last().expect("operands and a result");
        let operands: Vec<_> = operands.iter().map(|o| operand(o)).collect();
        assert_eq!(join(&operands), DType::from_name(expected), "{line:?}");
        let reversed: Vec<_> = operands.iter().rev().copied().collect();
        assert_eq!(join(&reversed), join(&operands), "order matters for {line:?}");
        seen += 1;
    }
    assert_eq!(seen, count);
}

#[test]
fn every_pair_equals_torch() {
    check_joins(include_str!("data/promotion-768.txt"), 768);
}

#[test]
fn every_triple_of_ranks_equals_torch() {
    check_joins(include_str!("data/promotion-triples.txt"), 576);
}

#[test]
fn kinds_equal_torch() {
    for line in lines(include_str!("data/promotion-kinds.txt")) {
        let kind = Kind::from_name(line[0]).expect("a kind");
        assert_eq!(kind.apply(dtype(line[1])), (dtype(line[2]), dtype(line[3])), "{line:?}");
    }
}

#[test]
fn kinds_of_this_project() {
    for d in DType::ALL {
        assert_eq!(Kind::Equal.apply(d), Kind::Default.apply(d));
        assert_eq!(Kind::Join.apply(d), Kind::Default.apply(d));
    }
    assert_eq!(Kind::LongIfInt.apply(DType::U8), (DType::I64, DType::I64));
    assert_eq!(Kind::LongIfInt.apply(DType::F16), (DType::F32, DType::F16));
    for kind in Kind::ALL {
        assert_eq!(Kind::from_name(kind.name()), Some(kind));
    }
    assert_eq!(Kind::from_name("prim"), None);
}

#[test]
fn the_join_is_a_semilattice() {
    for a in DType::ALL {
        assert_eq!(promote(a, a), a);
        for b in DType::ALL {
            assert_eq!(promote(a, b), promote(b, a));
            for c in DType::ALL {
                assert_eq!(promote(promote(a, b), c), promote(a, promote(b, c)), "{a} {b} {c}");
            }
        }
    }
}

#[test]
fn nothing_has_no_dtype() {
    assert_eq!(join(&[]), None);
    assert_eq!(join_dtypes([]), None);
    assert_eq!(join(&[Scalar::Int(3).into()]), Some(DType::I64));
}
