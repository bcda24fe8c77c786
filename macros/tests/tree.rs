//! What `#[derive(Tree)]` writes, used as users use it (through the name `fulgurite`).

extern crate fulgurite_runtime as fulgurite;

use fulgurite::tensor::{Key, Tensor};
use fulgurite::tree::{Tree, VisitorMut, describe, flatten, map};
use fulgurite_macros::Tree;

#[derive(Tree, Clone, Debug)]
struct Linear {
    w: Tensor,
    b: Option<Tensor>,
}

#[derive(Clone, Debug, PartialEq)]
struct NoHash(Vec<f64>);

#[derive(Tree, Clone, Debug)]
struct Model<N> {
    layers: Vec<Linear>,
    norm: N,
    #[tree(fixed)]
    heads: usize,
    #[tree(fixed)]
    eps: f64,
    #[tree(fixed)]
    other: NoHash,
    key: Key,
    r#type: Pair,
}

#[derive(Tree, Clone, Debug)]
struct Pair(Tensor, #[tree(fixed)] &'static str);

#[derive(Tree, Clone, Debug)]
enum Act {
    None,
    Scale(Tensor),
    Affine { w: Tensor, b: Tensor },
}

#[derive(Tree, Clone, Debug)]
struct Unit;

fn t(x: f32) -> Tensor {
    Tensor::from([x])
}

fn model() -> Model<Act> {
    Model {
        layers: vec![Linear { w: t(1.0), b: Some(t(2.0)) }, Linear { w: t(3.0), b: None }],
        norm: Act::Affine { w: t(4.0), b: t(5.0) },
        heads: 4,
        eps: 1e-5,
        other: NoHash(vec![0.5]),
        key: Key::new(7),
        r#type: Pair(t(6.0), "p"),
    }
}

#[test]
fn paths_follow_the_fields() {
    let (leaves, detail) = describe(&model());
    let paths: Vec<&str> = detail.paths.iter().map(|p| &**p).collect();
    assert_eq!(paths, ["layers.0.w", "layers.0.b", "layers.1.w", "norm.w", "norm.b", "key", "type.0"]);
    assert_eq!(leaves.len(), 7);
    let fixed = |path: &str| detail.fixed.iter().find(|(p, _)| p == path).map(|(_, text)| text.as_str());
    assert_eq!(fixed("heads"), Some("4"));
    assert_eq!(fixed("eps"), Some("1e-5"));
    assert_eq!(fixed("norm"), Some("Affine"));
    assert_eq!(fixed("type.1"), Some("\"p\""));
}

#[test]
fn fixed_parts_and_variants_are_marked() {
    let mark = |m: &mut Model<Act>| {
        let visited = flatten(m).fingerprint();
        let mut v = VisitorMut::default();
        m.visit_mut(&mut v);
        assert_eq!(v.fingerprint(), visited);
        visited
    };
    let base = mark(&mut model());
    assert_eq!(base, mark(&mut model()));
    let changes: [fn(&mut Model<Act>); 6] = [
        |m| m.heads = 8,
        |m| m.eps = 1e-6,
        |m| m.other.0[0] = 0.25,
        |m| m.norm = Act::Scale(t(0.0)),
        |m| m.layers[1].b = Some(t(0.0)),
        |m| m.r#type.1 = "q",
    ];
    let marks: Vec<_> = changes
        .iter()
        .map(|change| {
            let mut m = model();
            change(&mut m);
            mark(&mut m)
        })
        .collect();
    for (i, m) in marks.iter().enumerate() {
        assert_ne!(*m, base, "change {i}");
        assert!(marks[..i].iter().all(|other| other != m));
    }
}

#[test]
fn rebuilt_around_other_leaves() {
    let twice = map(&model(), |x| match x.to_vec::<f32>() {
        Ok(v) => t(v[0] * 2.0),
        Err(_) => x.clone(),
    });
    assert_eq!(twice.layers[1].w.item::<f32>().unwrap(), 6.0);
    assert_eq!((twice.heads, twice.other.clone(), twice.r#type.1), (4, NoHash(vec![0.5]), "p"));
    assert!(matches!(map(&Act::None, |x| x.clone()), Act::None));
    let Unit = map(&Unit, |x| x.clone());
}
