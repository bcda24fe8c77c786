//! The free sizes of a signature: arguments and options bind them, other sizes are computed from them.

use fulgurite_core::Name;
use fulgurite_core::lang::{DimKind, DimPat, Expr, Node, OptType};
use fulgurite_core::row::Row;

/// The free sizes of a signature, in order of appearance.
#[derive(Default)]
pub(super) struct Free {
    /// Lists of sizes.
    pub(super) lists: Vec<Name>,
    /// Single sizes.
    pub(super) singles: Vec<Name>,
    /// Sizes of which each item of a list argument has its own: `N[i]`.
    pub(super) each: Vec<Name>,
}

impl Free {
    /// The free sizes of `row`.
    pub(super) fn of(row: &Row) -> Free {
        let mut free = Free::default();
        for param in &row.sig.params {
            free.dims(param.ty.dims.as_deref().unwrap_or(&[]), row);
        }
        for opt in &row.sig.opts {
            match &opt.ty {
                OptType::Size(size) => free.single(*size),
                OptType::Shape { list, infer: None, .. } => free.list(*list),
                OptType::Ints { list, broadcast: true, .. } => free.list(*list),
                _ => {}
            }
        }
        free
    }

    fn list(&mut self, name: Name) {
        if !self.lists.contains(&name) {
            self.lists.push(name);
        }
    }

    fn single(&mut self, name: Name) {
        if name.is_size() && !self.singles.contains(&name) && !self.lists.contains(&name) {
            self.singles.push(name);
        }
    }

    fn dims(&mut self, dims: &[DimPat], row: &Row) {
        let lists: Vec<Name> =
            row.sig.params.iter().filter(|param| param.ty.list.is_some()).map(|param| param.name.name).collect();
        for dim in dims {
            match &dim.kind {
                DimKind::One { size, at: Some(at), .. } if lists.contains(&at.name) => {
                    if let Node::Name(name) = &*size.node {
                        self.list(*name);
                    }
                }
                DimKind::One { size, .. } => self.sizes(size),
                DimKind::List { name, .. } | DimKind::Broadcast(name) | DimKind::Ones(name) => self.list(name.name),
                DimKind::BroadcastList(inner) | DimKind::Group(inner) => self.dims(inner, row),
                // the sizes in a zip are bound elsewhere
                DimKind::Zip { .. } | DimKind::Body => {}
            }
        }
    }

    fn sizes(&mut self, size: &Expr) {
        match &*size.node {
            Node::Name(name) => self.single(*name),
            Node::Binary(_, left, right) => {
                self.sizes(left);
                self.sizes(right);
            }
            Node::Access(access) if access.base.name.is_size() && !self.each.contains(&access.base.name) => {
                self.each.push(access.base.name);
            }
            _ => {}
        }
    }
}
