//! Faults in signatures.

use fulgurite_core::Name;
use fulgurite_core::lang::{
    Access, Axes, BinOp, DimKind, DimPat, Elem, Expr, ListLen, Node, Opt, OptType, Param, Sig, Type,
};

use super::exprs;
use super::kinds::Kind;
use super::nodes::Names;

/// A signature with a fault.
pub struct FaultySig {
    /// The kind of the fault.
    pub kind: Kind,
    /// The replaced part, and its replacement.
    pub edit: (String, String),
    /// The whole signature.
    pub whole: Sig,
    /// Whether no other part of a row states this: defaults, the meaning of an empty list, optional arguments.
    pub only_here: bool,
}

struct Faults<'a> {
    sig: &'a Sig,
    /// Whether the body is a program of rows, which does not index the arguments.
    composite: bool,
    names: &'a Names,
    all: Vec<FaultySig>,
}

/// Every fault of a signature. `twice`: the body also determines the sizes of the results. `composite`: the body is a
/// program of rows, which does not state the order of the arguments' axes.
pub fn faults(sig: &Sig, names: &Names, twice: bool, composite: bool) -> Vec<FaultySig> {
    let mut faults = Faults { sig, composite, names, all: Vec::new() };
    for at in 0..sig.params.len() {
        faults.param(at);
    }
    for at in 0..sig.opts.len() {
        faults.option(at);
    }
    for at in 0..sig.outs.len() {
        let out = sig.outs[at].clone();
        for (kind, ty) in types(&out.ty, names, true) {
            let edit = (out.ty.to_string(), ty.to_string());
            // An index body computes the positions that the signature states, in that order.
            let only_here = matches!(kind, 5 | 16) && !twice;
            faults.add(kind, edit, only_here, &|sig| sig.outs[at].ty = ty.clone());
        }
    }
    if sig.named_outs && sig.outs.len() > 1 {
        let edit = (sig.outs[0].to_string(), sig.outs[1].to_string());
        faults.add(37, edit, true, &|sig| sig.outs.swap(0, 1));
    }
    faults.all.retain(|faulty| faulty.whole != *sig);
    faults.all
}

impl Faults<'_> {
    fn add(&mut self, kind: u8, edit: (String, String), only_here: bool, change: &dyn Fn(&mut Sig)) {
        let mut whole = self.sig.clone();
        change(&mut whole);
        self.all.push(FaultySig { kind: Kind(kind), edit, whole, only_here });
    }

    fn param(&mut self, at: usize) {
        let param = self.sig.params[at].clone();
        let told = |new: &Param| (param.to_string(), new.to_string());
        let mut change = |kind: u8, only_here: bool, change: &dyn Fn(&mut Param)| {
            let mut new = param.clone();
            change(&mut new);
            let edit = told(&new);
            self.add(kind, edit, only_here, &|sig| sig.params[at] = new.clone());
        };
        change(33, true, &|p| p.optional = !p.optional);
        match param.access {
            Access::Mut => change(26, false, &|p| p.access = Access::Read),
            Access::Read => change(26, false, &|p| p.access = Access::Mut),
            Access::Like => {}
        }
        for (kind, ty) in types(&param.ty, self.names, false) {
            let mut new = param.clone();
            new.ty = ty;
            let edit = told(&new);
            // The accepted shapes and dtypes are stated only here.
            let only_here = matches!(kind, 4 | 12 | 16 | 17 | 38) || kind == 5 && self.composite;
            self.add(kind, edit, only_here, &|sig| sig.params[at] = new.clone());
        }
    }

    fn option(&mut self, at: usize) {
        let opt = self.sig.opts[at].clone();
        let mut news: Vec<(u8, bool, Opt)> = Vec::new();
        if let Some(default) = &opt.default {
            if let Some(other) = default_of(&opt.ty, default) {
                news.push((32, true, Opt { default: Some(other), ..opt.clone() }));
            }
            news.push((33, true, Opt { default: None, ..opt.clone() }));
        } else {
            news.push((33, true, Opt { optional: !opt.optional, ..opt.clone() }));
        }
        news.extend(option_types(&opt.ty).into_iter().map(|(kind, only, ty)| (kind, only, Opt { ty, ..opt.clone() })));
        for (kind, only_here, new) in news {
            let edit = (opt.to_string(), new.to_string());
            self.add(kind, edit, only_here, &|sig| sig.opts[at] = new.clone());
        }
        if matches!(opt.ty, OptType::Dtype(_)) {
            self.add(14, (opt.to_string(), String::new()), false, &|sig| _ = sig.opts.remove(at));
        }
    }
}

/// A default other than the option's own.
fn default_of(ty: &OptType, default: &Expr) -> Option<Expr> {
    let node = match (&*default.node, ty) {
        (Node::Int(n), _) => Node::Int(n + 1),
        (Node::Float(x), _) => Node::Float(x * 2.0),
        (Node::Unary(_, inner), _) => return Some(inner.clone()),
        (Node::Name(word), OptType::Enum(words)) => {
            let at = words.iter().position(|w| w == word)?;
            Node::Name(words[(at + 1) % words.len()])
        }
        (Node::Name(word), _) => match word.as_str() {
            "true" => Node::Name(Name::new("false")),
            "false" => Node::Name(Name::new("true")),
            "f32" => Node::Name(Name::new("f64")),
            "i64" => Node::Name(Name::new("i32")),
            _ => return None,
        },
        _ => return None,
    };
    Some(Expr::bare(node))
}

/// Other types of an option, each with its kind and whether no other part states the type.
fn option_types(ty: &OptType) -> Vec<(u8, bool, OptType)> {
    match ty {
        OptType::Dims { list, empty_all, most } => {
            let dims = |empty_all, most| OptType::Dims { list: *list, empty_all, most };
            let mut all = vec![(32, true, dims(!empty_all, *most))];
            if most.is_some() {
                all.push((15, true, dims(*empty_all, None)));
            }
            all
        }
        // The type states the accepted numbers, and that negative ones count from the end.
        OptType::Dim(_) | OptType::Pos(_) | OptType::Bound(_) => vec![(17, true, OptType::I64)],
        OptType::Ints { list, axes, broadcast, fill } if *list != "_" => {
            let other = fill.map_or(Some(1), |fill| Some(fill + 1));
            vec![(32, true, OptType::Ints { list: *list, axes: axes.clone(), broadcast: *broadcast, fill: other })]
        }
        OptType::Shape { list, infer, keep, like } => {
            let shape = |infer, keep, like| OptType::Shape { list: *list, infer, keep, like };
            let mut all = Vec::new();
            if infer.is_some() {
                all.push((17, true, shape(None, *keep, *like)));
            }
            if keep.is_some() {
                all.push((17, true, shape(*infer, None, *like)));
            }
            if like.is_some() {
                all.push((33, true, shape(*infer, *keep, None)));
            }
            all
        }
        OptType::F64 => vec![(38, true, OptType::I64)],
        OptType::I64 => vec![(38, true, OptType::F64)],
        OptType::Num => vec![(38, true, OptType::F64)],
        OptType::Enum(words) if words.len() > 1 => {
            vec![(32, true, OptType::Enum(words.iter().rev().copied().collect()))]
        }
        _ => Vec::new(),
    }
}

/// Faulty types in place of a type; `result` marks the type of a result.
fn types(ty: &Type, names: &Names, result: bool) -> Vec<(u8, Type)> {
    let mut all = Vec::new();
    let class = |name: &str| Elem::Class(Name::new(name));
    for (at, elem) in ty.elem.iter().enumerate() {
        let others = match elem {
            Elem::Var(name) if *name == "T" => vec![(12, class(if result { "f32" } else { "float" }))],
            Elem::Var(_) => vec![(14, Elem::Var(Name::new("T")))],
            Elem::Index => vec![(38, Elem::Var(Name::new("T")))],
            Elem::Class(name) if *name == "bool" => vec![(38, Elem::Var(Name::new("T"))), (38, class("u8"))],
            Elem::Class(name) if *name == "i64" => vec![(38, Elem::Var(Name::new("T"))), (38, class("i32"))],
            Elem::Class(_) => vec![(38, Elem::Var(Name::new("T")))],
            Elem::Acc(name) | Elem::Real(name) => vec![(13, Elem::Var(*name))],
            Elem::Key => Vec::new(),
        };
        for (kind, elem) in others {
            let mut new = ty.clone();
            new.elem[at] = elem;
            all.push((kind, new));
        }
    }
    if let Some(ListLen::Expr(len)) = &ty.list {
        for faulty in exprs::exprs(len, names) {
            all.push((16, Type { list: Some(ListLen::Expr(faulty.whole)), ..ty.clone() }));
        }
    }
    let Some(dims) = &ty.dims else { return all };
    all.extend(patterns(dims, names).into_iter().map(|(kind, dims)| (kind, Type { dims: Some(dims), ..ty.clone() })));
    all
}

/// Faulty lists of axes in place of a list.
fn patterns(dims: &[DimPat], names: &Names) -> Vec<(u8, Vec<DimPat>)> {
    let mut all = Vec::new();
    for at in 1..dims.len() {
        let mut new = dims.to_vec();
        new.swap(at - 1, at);
        all.push((5, new));
    }
    for at in 0..dims.len() {
        let mut fewer = dims.to_vec();
        fewer.remove(at);
        all.push((16, fewer));
        if dims[at].cond.is_some() {
            let mut new = dims.to_vec();
            new[at].cond = None;
            all.push((33, new));
        }
        for (kind, dim) in kinds(&dims[at].kind, names) {
            let mut new = dims.to_vec();
            new[at].kind = dim;
            all.push((kind, new));
        }
    }
    all
}

fn kinds(kind: &DimKind, names: &Names) -> Vec<(u8, DimKind)> {
    match kind {
        DimKind::One { name, size, at } => {
            let one = |size: Expr, at| DimKind::One { name: *name, size, at };
            let mut all: Vec<(u8, DimKind)> = sizes(size, names).into_iter().map(|e| (16, one(e, *at))).collect();
            if at.is_some() {
                all.push((17, one(size.clone(), None)));
            }
            all
        }
        DimKind::Zip { name, size } => {
            sizes(size, names).into_iter().map(|size| (16, DimKind::Zip { name: *name, size })).collect()
        }
        DimKind::Broadcast(name) => vec![(4, DimKind::List { name: *name, axes: None, keep: None, at: None })],
        DimKind::List { name, axes: Some(axes), keep, at } => {
            let list = |axes: Option<Axes>, keep| DimKind::List { name: *name, axes, keep, at: *at };
            let mut all = vec![(5, list(Some(Axes { not: !axes.not, ..axes.clone() }), *keep))];
            if keep.is_some() {
                all.push((16, list(Some(axes.clone()), None)));
            }
            all
        }
        DimKind::List { name, axes: None, .. } => vec![(4, DimKind::Broadcast(*name))],
        DimKind::Group(inner) => {
            patterns(inner, names).into_iter().map(|(kind, dims)| (kind, DimKind::Group(dims))).collect()
        }
        DimKind::BroadcastList(inner) => {
            patterns(inner, names).into_iter().map(|(kind, dims)| (kind, DimKind::BroadcastList(dims))).collect()
        }
        DimKind::Ones(_) | DimKind::Body => Vec::new(),
    }
}

/// Faulty sizes in place of a size; the last one is larger by one.
fn sizes(size: &Expr, names: &Names) -> Vec<Expr> {
    let mut all: Vec<Expr> = exprs::exprs(size, names).into_iter().map(|faulty| faulty.whole).collect();
    let more = Node::Binary(BinOp::Add, size.clone(), Expr::bare(Node::Int(1)));
    all.push(Expr::bare(more));
    all
}
