//! Names in signatures.

use fulgurite_core::Name;
use fulgurite_core::lang::{
    Axes, AxesKind, DimKind, DimPat, Elem, Expr, Ident, ListLen, Node, Opt, OptType, Out, Sig, Type,
};
use fulgurite_core::signature::const_eval::axis_number;

use super::{Names, defaults};
use crate::check::walk;
use crate::diag::Diag;
use crate::schema::Body;
use crate::schema::RowSource;

/// Names in a signature.
pub(super) struct SigNames {
    /// Arguments.
    pub(super) params: Vec<Name>,
    /// Arguments that are lists of tensors.
    pub(super) lists: Vec<Name>,
    /// Options.
    pub(super) opts: Vec<(Name, OptType)>,
    /// Sizes and lists of sizes that arguments or options bind.
    pub(super) given: Vec<Name>,
    /// These sizes, and those that results compute.
    pub(super) sizes: Vec<Name>,
    /// Dtype variables that arguments or options bind.
    pub(super) dtypes: Vec<Name>,
    /// Indices of results' axes.
    pub(super) axes: Vec<Name>,
    /// Whether some result is a list, so that `i` is a position in it.
    pub(super) yields_list: bool,
}

impl SigNames {
    pub(super) fn of(source: &RowSource) -> SigNames {
        let sig = &source.sig.tree;
        let mut names = SigNames {
            params: sig.params.iter().map(|param| param.name.name).collect(),
            lists: sig.params.iter().filter(|param| param.ty.list.is_some()).map(|param| param.name.name).collect(),
            opts: sig.opts.iter().map(|opt| (opt.name.name, opt.ty.clone())).collect(),
            given: Vec::new(),
            sizes: Vec::new(),
            dtypes: Vec::new(),
            axes: Vec::new(),
            yields_list: results(sig).any(|out| out.ty.list.is_some()),
        };
        names.bind_arguments(sig);
        names.sizes = names.given.clone();
        for out in results(sig) {
            for dim in out.ty.dims.iter().flatten() {
                names.bind_result(dim);
            }
        }
        names
    }

    fn bind_arguments(&mut self, sig: &Sig) {
        for param in &sig.params {
            for dim in param.ty.dims.iter().flatten() {
                self.bind_dim(dim);
            }
            param.ty.elem.iter().for_each(|elem| self.bind_elem(elem));
        }
        for opt in &sig.opts {
            match &opt.ty {
                OptType::Ints { list: name, broadcast: true, .. } => add(&mut self.given, *name),
                OptType::Dtype(name) => add(&mut self.dtypes, *name),
                ty => ty.binds().into_iter().for_each(|name| add(&mut self.given, name)),
            }
        }
    }

    fn bind_elem(&mut self, elem: &Elem) {
        if let Elem::Var(name) = elem {
            add(&mut self.dtypes, *name);
        }
    }

    /// Binds the names in a pattern of an argument.
    fn bind_dim(&mut self, dim: &DimPat) {
        match &dim.kind {
            DimKind::One { name, size, .. } => {
                name.iter().for_each(|name| add(&mut self.given, name.name));
                bind_size(&mut self.given, size);
            }
            DimKind::Broadcast(list) => add(&mut self.given, list.name),
            DimKind::List { name, axes: None, .. } => add(&mut self.given, name.name),
            DimKind::BroadcastList(inner) | DimKind::Group(inner) => inner.iter().for_each(|dim| self.bind_dim(dim)),
            DimKind::Zip { name: Some(name), .. } => add(&mut self.given, name.name),
            DimKind::List { .. } | DimKind::Zip { .. } | DimKind::Ones(_) | DimKind::Body => {}
        }
    }

    /// Binds the sizes that a pattern of a result computes, and the indices along its axes.
    fn bind_result(&mut self, dim: &DimPat) {
        match &dim.kind {
            DimKind::One { name, size, .. } => match (name, &*size.node) {
                (Some(name), _) => {
                    add(&mut self.sizes, name.name);
                    self.axis(name.name);
                }
                (None, Node::Name(size)) => self.axis(*size),
                (None, Node::Binary(_, left, right)) => {
                    for factor in [left, right] {
                        if let Node::Name(size) = &*factor.node {
                            self.axis(*size);
                        }
                    }
                }
                (None, Node::Access(access)) => self.axis(access.base.name),
                _ => {}
            },
            DimKind::Broadcast(list) | DimKind::List { name: list, .. } => self.axis(list.name),
            DimKind::Zip { name: Some(name), .. } => {
                add(&mut self.sizes, name.name);
                self.axis(name.name);
            }
            DimKind::BroadcastList(inner) | DimKind::Group(inner) => inner.iter().for_each(|dim| self.bind_result(dim)),
            DimKind::Zip { name: None, .. } | DimKind::Ones(_) | DimKind::Body => {}
        }
    }

    fn axis(&mut self, size: Name) {
        if size.is_size() {
            add(&mut self.axes, size.index_of_size());
        }
    }
}

/// Results, then auxiliary results.
pub(super) fn results(sig: &Sig) -> impl Iterator<Item = &Out> {
    sig.outs.iter().chain(&sig.aux)
}

fn add(names: &mut Vec<Name>, name: Name) {
    if !names.contains(&name) {
        names.push(name);
    }
}

fn bind_size(names: &mut Vec<Name>, size: &Expr) {
    match &*size.node {
        Node::Name(name) if name.is_size() => add(names, *name),
        Node::Binary(_, left, right) => {
            bind_size(names, left);
            bind_size(names, right);
        }
        Node::Access(access) if access.base.name.is_size() => add(names, access.base.name),
        _ => {}
    }
}

impl Names<'_> {
    /// Checks every name in the signature.
    pub(super) fn signature(&mut self) {
        self.shared();
        let source = self.source;
        let sig = &source.sig.tree;
        for param in &sig.params {
            self.ty(&param.ty, false);
        }
        for out in results(sig) {
            self.ty(&out.ty, true);
        }
        for opt in &sig.opts {
            self.option(&opt.ty, opt.name);
            let Some(default) = &opt.default else { continue };
            match (&opt.ty, &*default.node) {
                (OptType::Enum(_), Node::Name(word)) => self.word(opt.name.name, *word, &source.sig.text, default.span),
                (OptType::Dims { .. }, Node::Name(word)) if *word == "all" => {}
                (OptType::Dtype(_), Node::Name(name)) if fulgurite_core::DType::from_name(name.as_str()).is_some() => {}
                _ => self.static_expr(default, &source.sig.text, "`sig`"),
            }
            let fault = defaults::check(source, opt, default);
            self.diags.extend(fault);
        }
    }

    /// E012: an index, or a word of an option, has the name of an argument or option.
    fn shared(&mut self) {
        let source = self.source;
        let sig = &source.sig.tree;
        let named = sig.params.iter().map(|param| (param.name, "argument"));
        let named = named.chain(sig.opts.iter().map(|opt| (opt.name, "option")));
        for (ident, what) in named {
            let size = ident.name.size_of_index();
            if self.sig.sizes.contains(&size) && size.is_size() {
                let message =
                    format!("`{}` of `{}` is both an {what} and the index of `{size}`", ident.name, self.op());
                let diag = Diag::error("E012", source.sig.text.at(ident.span), message).here(format!("the {what}"));
                self.diags.push(diag.help(format!("rename the {what}, or the size `{size}`")));
            } else if ident.name == "i" && (self.sig.yields_list || !self.sig.lists.is_empty()) {
                let message = format!("`i` of `{}` is both an {what} and the position in a list", self.op());
                let diag = Diag::error("E012", source.sig.text.at(ident.span), message).here(format!("the {what}"));
                self.diags.push(diag.help(format!("rename the {what}: beside a `List`, `i` is the number of an item")));
            }
            let has = |opt: &&Opt| matches!(&opt.ty, OptType::Enum(words) if words.contains(&ident.name));
            if let Some(of) = sig.opts.iter().find(has) {
                let (name, of) = (ident.name, of.name);
                let message = format!("`{name}` of `{}` is both an {what} and a word of `{of}`", self.op());
                let diag = Diag::error("E012", source.sig.text.at(ident.span), message).here(format!("the {what}"));
                let help = format!("rename one of them: `{of} == {name}` would compare `{of}` with the {what}");
                self.diags.push(diag.label(source.sig.text.at(of.span), "its words").help(help));
            }
        }
    }

    fn ty(&mut self, ty: &Type, result: bool) {
        let source = self.source;
        for elem in &ty.elem {
            let mut unbound = None;
            walk::elem(elem, &mut |name| {
                if !self.sig.dtypes.contains(&name) {
                    unbound = Some(name);
                }
            });
            if let Some(name) = unbound {
                let message = format!("no argument or option of `{}` binds the dtype `{name}`", self.op());
                let diag = Diag::error("E102", source.sig.text.at(ty.span), message);
                self.diags.push(diag.help(format!("add an option `dtype: Dtype({name})`, or name the dtype itself")));
            }
        }
        let from_body = ty.list == Some(ListLen::Body);
        for dim in ty.dims.iter().flatten() {
            self.dim(dim, result, from_body);
        }
        if let Some(ListLen::Expr(len)) = &ty.list {
            self.static_expr(len, &source.sig.text, "`sig`");
        }
    }

    fn dim(&mut self, dim: &DimPat, result: bool, from_body: bool) {
        let source = self.source;
        let text = &source.sig.text;
        if let Some(cond) = &dim.cond {
            self.static_expr(cond, text, "`sig`");
        }
        match &dim.kind {
            DimKind::One { size, at, .. } => {
                at.iter().for_each(|at| self.anchor(at));
                // sizes that come from the body need no binding
                if !from_body {
                    self.size(size, dim, result);
                }
            }
            DimKind::Broadcast(list) | DimKind::Ones(list) => self.list(list, dim),
            DimKind::BroadcastList(inner) | DimKind::Group(inner) => {
                inner.iter().for_each(|dim| self.dim(dim, result, from_body));
            }
            DimKind::List { name, axes, keep, at } => {
                self.list(name, dim);
                axes.iter().for_each(|axes| self.axes(axes, text));
                keep.iter().chain(at).for_each(|name| self.anchor(name));
                keep.iter().for_each(|keep| self.is_truth(keep));
            }
            DimKind::Zip { size, .. } => self.size(size, dim, result),
            DimKind::Body if result && matches!(source.body, Body::Decomp(_)) => {}
            DimKind::Body => {
                let message = format!("`[_]` in `{}` is no result of a `decomp`", self.op());
                let help = "only a composite's results can have the sizes that its body gives them";
                self.diags.push(Diag::error("E102", text.at(dim.span), message).help(help));
            }
        }
    }

    fn size(&mut self, size: &Expr, dim: &DimPat, result: bool) {
        if let (true, Node::Name(name)) = (result, &*size.node)
            && name.is_size()
            && !self.sig.sizes.contains(name)
        {
            return self.unbound(*name, dim);
        }
        let source = self.source;
        self.static_expr(size, &source.sig.text, "`sig`");
    }

    fn list(&mut self, list: &Ident, dim: &DimPat) {
        if !self.sig.sizes.contains(&list.name) {
            self.unbound(list.name, dim);
        }
    }

    /// E102: nothing binds a size.
    fn unbound(&mut self, name: Name, dim: &DimPat) {
        let claim = format!("no argument or option of `{}` binds the size `{name}`", self.op());
        let known = self.sig.sizes.clone();
        let source = self.source;
        self.unknown_as("E102", &source.sig.text, dim.span, claim, name.as_str(), known);
    }

    /// Checks `@dim` and `; keepdim`, which name an option or a list argument.
    fn anchor(&mut self, name: &Ident) {
        let known: Vec<Name> =
            self.sig.opts.iter().map(|(name, _)| *name).chain(self.sig.lists.iter().copied()).collect();
        if !known.contains(&name.name) && axis_number(name.name).is_none() {
            let source = self.source;
            let claim = format!("`{}` has no option `{}`", self.op(), name.name);
            self.unknown(&source.sig.text, name.span, claim, name.name.as_str(), known);
        }
    }

    /// E005: the option that decides whether axes stay is no truth value.
    fn is_truth(&mut self, keep: &Ident) {
        let source = self.source;
        let Some(opt) = source.sig.tree.opts.iter().find(|opt| opt.name.name == keep.name) else { return };
        if !matches!(opt.ty, OptType::Bool) {
            let claim = format!("`{}` of `{}` decides whether axes stay, and is `{}`", keep.name, self.op(), opt.ty);
            let diag = Diag::error("E005", source.sig.text.at(keep.span), claim);
            let diag = diag.label(source.sig.text.at(opt.name.span), "this is neither true nor false");
            self.diags.push(diag.help(format!("write `{}: bool = false`", keep.name)));
        }
    }

    /// Checks a choice of axes, whose names are options that hold axes.
    pub(super) fn axes(&mut self, axes: &Axes, text: &crate::yaml::Text) {
        let named: Vec<Ident> = match &axes.kind {
            AxesKind::Name(name) | AxesKind::Before(name) | AxesKind::From(name) => vec![*name],
            AxesKind::Names(names) => names.clone(),
            AxesKind::Not(inner) => return self.axes(inner, text),
            AxesKind::Fn(function, args) => {
                const KNOWN: [&str; 8] = ["unit", "swap", "moved", "ins", "outs", "of", "ahead", "behind"];
                if !KNOWN.contains(&function.name.as_str()) {
                    let claim = format!("`{}` is no choice of axes", function.name);
                    let known = KNOWN[..4].iter().map(|name| Name::new(name));
                    self.unknown(text, function.span, claim, function.name.as_str(), known);
                }
                match function.name.as_str() {
                    "of" => Vec::new(),
                    "ahead" | "behind" => args.iter().take(1).copied().collect(),
                    _ => args.clone(),
                }
            }
        };
        let known: Vec<Name> = self.sig.opts.iter().map(|(name, _)| *name).collect();
        for name in named {
            if !known.contains(&name.name) && name.name != "i" && axis_number(name.name).is_none() {
                let claim = format!("`{}` has no option `{}`", self.op(), name.name);
                self.unknown(text, name.span, claim, name.name.as_str(), known.iter().copied());
            }
        }
    }

    /// Checks the sizes in the type of an option.
    fn option(&mut self, ty: &OptType, option: Ident) {
        let source = self.source;
        let text = &source.sig.text;
        let mut sizes: Vec<Name> = Vec::new();
        match ty {
            OptType::Dim(Some(name))
            | OptType::Gap(name)
            | OptType::Perm(name)
            | OptType::Labels(name)
            | OptType::Pos(name)
            | OptType::Bound(name)
            | OptType::Dims { list: name, .. } => sizes.push(*name),
            OptType::Ints { list, .. } if *list == "_" => {}
            OptType::Ints { list, axes, .. } => {
                sizes.push(*list);
                axes.iter().for_each(|axes| self.axes(axes, text));
            }
            OptType::Shape { infer, keep, like, .. } => {
                sizes.extend(infer.iter().chain(like));
                if let Some(keep) = keep.filter(|keep| !self.sig.params.contains(keep)) {
                    let claim = format!("`keep = {keep}` of `{}` names no argument", self.op());
                    let params = self.sig.params.clone();
                    self.unknown(text, option.span, claim, keep.as_str(), params);
                }
            }
            _ => {}
        }
        for size in sizes {
            if !self.sig.sizes.contains(&size) {
                let claim = format!("the type of `{}` speaks of `{size}`, which nothing binds", option.name);
                let known = self.sig.sizes.clone();
                self.unknown(text, option.span, claim, size.as_str(), known);
            }
        }
    }
}
