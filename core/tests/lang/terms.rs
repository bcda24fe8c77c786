//! Random trees of every form of the grammar, from a seed.

use fulgurite_core::Name;
use fulgurite_core::lang::*;

/// SplitMix64: enough for choosing, the same on every machine.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    pub fn list<T>(&mut self, least: usize, most: usize, mut item: impl FnMut(&mut Random) -> T) -> Vec<T> {
        let len = least + self.below(most - least + 1);
        (0..len).map(|_| item(self)).collect()
    }

    pub fn maybe<T>(&mut self, item: impl FnOnce(&mut Random) -> T) -> Option<T> {
        if self.one_in(3) { Some(item(self)) } else { None }
    }
}

fn ident(text: &str) -> Ident {
    Ident { name: Name::new(text), span: Span::default() }
}

fn name(r: &mut Random) -> Ident {
    // `skip`, `like`, `mut`, `List`, `sum`, `all` are words only where the grammar asks for them.
    ident(
        r.pick(&[
            "x", "y", "dims", "eps", "_a1", "skip", "like", "mut", "List", "sum", "all", "ones", "unravel", "acc",
        ]),
    )
}

fn callee(r: &mut Random) -> Ident {
    ident(r.pick(&["f", "max", "gelu.vjp.x", "aten.constant_pad_nd", "sum", "where", "ravel"]))
}

fn size(r: &mut Random) -> Ident {
    ident(r.pick(&["N", "S", "CI", "K2", "T"]))
}

fn index(r: &mut Random) -> Ident {
    ident(r.pick(&["n", "s", "ci", "k2", "t", "skip", "unravel"]))
}

fn variable(r: &mut Random) -> Name {
    Name::new(r.pick(&["T", "U", "V"]))
}

fn class(r: &mut Random) -> Elem {
    match r.below(6) {
        0 => Elem::Var(variable(r)),
        1 => Elem::Index,
        2 => Elem::Key,
        3 => Elem::Acc(variable(r)),
        4 => Elem::Real(variable(r)),
        _ => Elem::Class(Name::new(r.pick(&["f32", "bool", "int", "float", "bf16", "i64", "f8", "all"]))),
    }
}

pub fn axes(r: &mut Random) -> Axes {
    let kind = match r.below(7) {
        0 => AxesKind::Names(r.list(1, 3, name)),
        1 => AxesKind::Before(name(r)),
        2 => AxesKind::From(name(r)),
        3 => AxesKind::Fn(ident(r.pick(&["unit", "swap", "ins", "outs"])), r.list(1, 2, name)),
        4 if r.one_in(2) => AxesKind::Not(Box::new(axes(r))),
        _ => AxesKind::Name(name(r)),
    };
    Axes { not: r.one_in(3), kind, span: Span::default() }
}

/// A term that may use `fuel` levels.
pub fn expr(r: &mut Random, dialect: Dialect, fuel: u32) -> Expr {
    if fuel == 0 || r.one_in(6) {
        return Expr::bare(leaf(r));
    }
    let sub = |r: &mut Random| expr(r, dialect, fuel - 1);
    let node = match r.below(14) {
        0 => Node::Tuple(r.list(2, 3, sub)),
        1 => Node::Unary(r.pick(&[UnOp::Neg, UnOp::Not]), sub(r)),
        2..=5 => Node::Binary(r.pick(&BinOp::ALL), sub(r), sub(r)),
        6 => Node::Cast(sub(r), class(r)),
        7 => Node::If(sub(r), block(r, dialect, fuel - 1), block(r, dialect, fuel - 1)),
        8 => Node::Match(name(r), r.list(1, 3, |r| (name(r), expr(r, dialect, fuel - 1)))),
        9 | 10 => Node::Call(callee(r), r.list(0, 3, |r| arg(r, dialect, fuel - 1))),
        _ if dialect == Dialect::Tensor => Node::List(r.list(0, 3, |r| match r.one_in(3) {
            true => ListItem::Spread(Expr::bare(Node::Name(size(r).name))),
            false => ListItem::One(expr(r, dialect, fuel - 1)),
        })),
        11 => Node::Reduce(reduce(r, fuel - 1)),
        _ => Node::Access(access(r, fuel - 1)),
    };
    Expr::bare(node)
}

fn leaf(r: &mut Random) -> Node {
    match r.below(7) {
        0 => Node::Int(r.pick(&[0, 1, 7, 4096, i64::MAX])),
        1 => Node::Float(r.pick(&[0.0, 1.0, 0.5, 1e-5, 1e300, 5e-324, 0.1, 1e16, 123456789.25])),
        2 => Node::Float(f64::from_bits(r.next() & !(1 << 63))).finite(),
        3 => Node::Str(r.pick(&["", "bij,bjk->bik", "it's", "say \"x\"", "π ≤ 4"]).to_owned()),
        4 => Node::Name(size(r).name),
        _ => Node::Name(name(r).name),
    }
}

trait Finite {
    fn finite(self) -> Self;
}

impl Finite for Node {
    fn finite(self) -> Node {
        match self {
            Node::Float(value) if !value.is_finite() => Node::Float(2.5),
            node => node,
        }
    }
}

fn arg(r: &mut Random, dialect: Dialect, fuel: u32) -> Arg {
    match r.below(8) {
        0 => Arg { name: None, value: Expr::bare(Node::Zip(expr(r, dialect, fuel))) },
        1 => {
            let call = Expr::bare(Node::Call(callee(r), r.list(0, 2, |r| arg(r, dialect, fuel.saturating_sub(1)))));
            Arg { name: None, value: Expr::bare(Node::Spread(call)) }
        }
        2 if dialect == Dialect::Tensor => Arg { name: Some(name(r)), value: expr(r, dialect, fuel) },
        _ => Arg { name: None, value: expr(r, dialect, fuel) },
    }
}

fn access(r: &mut Random, fuel: u32) -> TensorAccess {
    let sub = |r: &mut Random| expr(r, Dialect::Index, fuel);
    let base = ident(r.pick(&["x", "xs", "N", "w", "skip"]));
    let item = r.maybe(sub);
    let places = r.list(0, 3, |r| place(r, fuel));
    let outside = match r.below(4) {
        // Nothing is outside a tensor of rank 0.
        _ if places.is_empty() => Outside::Refuse,
        0 => Outside::Skip,
        1 => Outside::Value(sub(r)),
        _ => Outside::Refuse,
    };
    TensorAccess { base, places, outside, item }
}

fn place(r: &mut Random, fuel: u32) -> Place {
    let sub = |r: &mut Random| expr(r, Dialect::Index, fuel);
    match r.below(9) {
        0 => Place::Zip(sub(r)),
        1 => Place::List(index(r), None),
        2 => Place::List(index(r), Some(axes(r))),
        3 => {
            let args = r.list(1, 2, |r| arg(r, Dialect::Index, fuel));
            Place::Unravel(Expr::bare(Node::Call(ident("unravel"), args)))
        }
        4 => Place::Broadcast(index(r)),
        5 => Place::BroadcastZip(sub(r)),
        6 if fuel > 0 => Place::BroadcastGroup(r.list(1, 2, |r| place(r, fuel - 1))),
        _ => Place::One(sub(r)),
    }
}

fn reduce(r: &mut Random, fuel: u32) -> Reduce {
    let sub = |r: &mut Random| expr(r, Dialect::Index, fuel);
    let binds = r.below(4).checked_sub(1).map(|_| {
        r.list(1, 3, |r| match r.below(4) {
            0 => Bind { name: index(r), list: false, axes: Some(axes(r)), range: None },
            _ => Bind { name: index(r), list: r.one_in(2), axes: None, range: r.maybe(|r| (sub(r), sub(r))) },
        })
    });
    let filter = if binds.is_some() { r.maybe(sub) } else { None };
    let otherwise = r.maybe(sub);
    Reduce { red: r.pick(&Red::ALL), binds, filter, body: sub(r), otherwise, span: Span::default() }
}

/// Statements and a value.
pub fn block(r: &mut Random, dialect: Dialect, fuel: u32) -> Block {
    let stmts = match r.one_in(2) {
        true => Vec::new(),
        false => r.list(0, 2, |r| stmt(r, dialect, fuel)),
    };
    Block { stmts, value: expr(r, dialect, fuel) }
}

fn stmt(r: &mut Random, dialect: Dialect, fuel: u32) -> Stmt {
    if dialect == Dialect::Tensor && r.one_in(4) {
        return Stmt::Write(name(r), expr(r, dialect, fuel));
    }
    let pattern = match r.below(4) {
        0 => Pattern::Tuple(r.list(1, 3, name)),
        1 if dialect == Dialect::Index => Pattern::Axes(index(r), axes(r)),
        _ => Pattern::Name(name(r)),
    };
    let value = expr(r, dialect, fuel);
    Stmt::Let(pattern, if r.one_in(4) { Expr::bare(Node::Zip(value)) } else { value })
}

/// A signature.
pub fn sig(r: &mut Random) -> Sig {
    let params = r.list(0, 3, |r| Param {
        access: r.pick(&[Access::Read, Access::Mut, Access::Like]),
        name: name(r),
        ty: ty(r),
        optional: r.one_in(3),
    });
    let opts = r.list(0, 3, |r| Opt {
        name: name(r),
        ty: opt_type(r),
        optional: r.one_in(3),
        default: r.maybe(|r| expr(r, Dialect::Index, 2)),
    });
    let out = |r: &mut Random| Out { name: name(r), ty: ty(r) };
    let named_outs = r.one_in(2);
    let (outs, aux) = match named_outs {
        true => (r.list(1, 3, out), r.list(0, 2, out)),
        false => (vec![Out { name: ident("out"), ty: ty(r) }], Vec::new()),
    };
    Sig { params, opts, outs, aux, named_outs }
}

fn ty(r: &mut Random) -> Type {
    Type {
        elem: r.list(1, 2, class),
        dims: if r.one_in(4) { None } else { Some(r.list(0, 3, |r| dim(r, 2))) },
        list: r.maybe(|r| match r.below(3) {
            0 => ListLen::Any,
            1 => ListLen::Body,
            _ => ListLen::Expr(expr(r, Dialect::Index, 2)),
        }),
        span: Span::default(),
    }
}

fn dim(r: &mut Random, fuel: u32) -> DimPat {
    let sub = |r: &mut Random| expr(r, Dialect::Index, fuel);
    let kind = match r.below(9) {
        0 => DimKind::Broadcast(size(r)),
        8 => DimKind::Body,
        1 if fuel > 0 => DimKind::BroadcastList(r.list(1, 2, |r| dim(r, fuel - 1))),
        2 if fuel > 0 => DimKind::Group(r.list(1, 2, |r| dim(r, fuel - 1))),
        3 => DimKind::Zip { name: r.maybe(size), size: sub(r) },
        4 => DimKind::Ones(size(r)),
        5 => {
            let axes = r.maybe(axes);
            let keep = if axes.is_some() { r.maybe(name) } else { None };
            DimKind::List { name: size(r), axes, keep, at: r.maybe(name) }
        }
        _ => DimKind::One { name: r.maybe(size), size: sub(r), at: r.maybe(name) },
    };
    DimPat { kind, cond: r.maybe(sub), span: Span::default() }
}

fn opt_type(r: &mut Random) -> OptType {
    let list = size(r).name;
    match r.below(17) {
        0 => OptType::Num,
        1 => OptType::F64,
        2 => OptType::I64,
        3 => OptType::Bool,
        4 => OptType::Str,
        5 => OptType::Dtype(variable(r)),
        6 => OptType::Enum(r.list(1, 3, |r| name(r).name)),
        7 => OptType::Dim(r.maybe(|r| size(r).name)),
        8 => OptType::Gap(list),
        9 => OptType::Perm(list),
        10 => OptType::Labels(list),
        11 => OptType::Pos(list),
        12 => OptType::Bound(list),
        13 => OptType::Dims { list, empty_all: r.one_in(2), most: r.maybe(|_| 1) },
        14 => {
            let axes = r.maybe(axes);
            let broadcast = axes.is_none() && r.one_in(2);
            OptType::Ints { list, axes, broadcast, fill: r.maybe(|r| r.pick(&[0, -1, 3])) }
        }
        15 => OptType::Size(list),
        _ => {
            let (mut infer, mut keep, mut like) = (None, None, None);
            match r.below(4) {
                0 => infer = Some(size(r).name),
                1 => keep = Some(name(r).name),
                2 => like = Some(size(r).name),
                _ => {}
            }
            OptType::Shape { list, infer, keep, like }
        }
    }
}
