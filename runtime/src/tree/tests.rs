use super::*;
use std::collections::{BTreeMap, HashMap, VecDeque};

fn t(x: f32) -> Tensor {
    Tensor::from([x])
}

fn numbers<T: Tree>(tree: &T) -> Vec<f64> {
    flatten(tree).leaves().iter().map(|t| t.to_f64().unwrap()[0]).collect()
}

fn mark<T: Tree>(tree: &mut T) -> Fingerprint {
    let immutable = flatten(tree).fingerprint();
    let mut v = VisitorMut::default();
    tree.visit_mut(&mut v);
    assert_eq!(v.fingerprint(), immutable, "both visits see the same fixed parts");
    immutable
}

#[test]
fn leaves_and_paths_stand_in_order() {
    let tree = (
        vec![t(1.0), t(2.0)],
        [Some(t(3.0)), None],
        Box::new(Arc::new(t(4.0))),
        BTreeMap::from([("b", t(6.0)), ("a", t(5.0))]),
        HashMap::<_, _>::from([("y", t(8.0)), ("x", t(7.0))]),
        VecDeque::from([(t(9.0), ())]),
    );
    assert_eq!(numbers(&tree), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
    let (_, detail) = describe(&tree);
    let paths: Vec<&str> = detail.paths.iter().map(|p| &**p).collect();
    assert_eq!(paths, ["0.0", "0.1", "1.0", "2", "3.a", "3.b", "4.x", "4.y", "5.0.0"]);
    assert!(detail.fixed.contains(&("0".to_owned(), "2 entries".to_owned())));
    assert!(detail.fixed.contains(&("1.1".to_owned(), "None".to_owned())));
    let doubled = map(&tree, |x| t(2.0 * x.item::<f32>().unwrap()));
    assert_eq!(numbers(&doubled), [2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 18.0]);
}

#[test]
fn the_fingerprint_tells_forms_apart() {
    let mut a = vec![t(1.0)];
    let mut b = vec![t(1.0), t(2.0)];
    assert_ne!(mark(&mut a), mark(&mut b));
    assert_eq!(mark(&mut b), mark(&mut vec![t(3.0), t(4.0)]));
    assert_ne!(mark(&mut Some(t(1.0))), mark(&mut None::<Tensor>));
    assert_ne!(mark(&mut (Fixed(1), Fixed(2))), mark(&mut (Fixed(2), Fixed(1))));
    assert_ne!(mark(&mut Fixed(0.0)), mark(&mut Fixed(-0.0)));
    assert_eq!(mark(&mut Fixed(f64::NAN)), mark(&mut Fixed(f64::NAN)));
    let map = |k: &str| BTreeMap::from([(k.to_owned(), t(1.0))]);
    assert_ne!(mark(&mut map("a")), mark(&mut map("b")));
}

#[test]
fn fixed_parts_choose_how_they_are_marked() {
    // the derived code calls it in this way, and the borrows decide the choice
    #[allow(clippy::needless_borrow)]
    fn all(x: f64, words: &[&str], list: Vec<f64>) -> Fingerprint {
        let mut f = Fingerprint::default();
        (&&&FixedProbe(&x)).mark(&mut f);
        (&&&FixedProbe(words)).mark(&mut f);
        (&&&FixedProbe(&list)).mark(&mut f);
        f
    }
    assert_eq!(all(0.5, &["a"], vec![1.0]), all(0.5, &["a"], vec![1.0]));
    assert_ne!(all(0.5, &["a"], vec![1.0]), all(0.5, &["a"], vec![1.5]));
    assert_ne!(all(0.5, &["a", "b"], vec![]), all(0.5, &["ab"], vec![]));
    assert_ne!(all(0.5, &[], vec![]), all(0.25, &[], vec![]));
}

#[test]
fn what_is_shared_is_not_owned() {
    let mut alone = Arc::new(t(1.0));
    let mut v = VisitorMut::default();
    alone.visit_mut(&mut v);
    assert!(matches!(v.into_leaves().as_slice(), [LeafMut::Owned(_)]));
    let mut shared = (Fixed(3), alone.clone());
    let before = mark(&mut shared);
    drop(alone);
    assert_eq!(mark(&mut shared), before, "sharing is not part of the form");
    let mut pair = (shared.1.clone(), shared.1.clone());
    let mut v = VisitorMut::default();
    pair.visit_mut(&mut v);
    assert!(v.into_leaves().iter().all(|leaf| matches!(leaf, LeafMut::Shared(_))));
}

#[test]
fn zip_wants_equal_forms() {
    let sums = zip(&vec![t(1.0), t(2.0)], &vec![t(10.0), t(20.0)], |a, b| {
        t(a.item::<f32>().unwrap() + b.item::<f32>().unwrap())
    });
    assert_eq!(numbers(&sums), [11.0, 22.0]);
    let wrong = zip(&vec![t(1.0)], &vec![], |a, _| a.clone());
    assert_eq!(wrong[0].error().map(Error::code), Some("E748"));
}
