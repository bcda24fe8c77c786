//! Trees made of trees by the standard library's containers. Users can't implement these (the orphan rule), so they are
//! here.

use super::{Leaves, Tree, Visitor, VisitorMut};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Display;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;
use std::sync::Arc;

macro_rules! tuple {
    ($($t:ident $i:tt),+) => {
        impl<$($t: Tree),+> Tree for ($($t,)+) {
            fn visit<'a>(&'a self, v: &mut Visitor<'a>) {
                $(v.part($i, &self.$i);)+
            }
            fn visit_mut<'a>(&'a mut self, v: &mut VisitorMut<'a>) {
                $(v.part(&mut self.$i);)+
            }
            fn rebuild(&self, leaves: &mut Leaves) -> Self {
                ($(self.$i.rebuild(leaves),)+)
            }
        }
    };
}
tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);

impl Tree for () {
    fn visit<'a>(&'a self, _: &mut Visitor<'a>) {}
    fn visit_mut<'a>(&'a mut self, _: &mut VisitorMut<'a>) {}
    fn rebuild(&self, _: &mut Leaves) {}
}

impl<T> Tree for PhantomData<T> {
    fn visit<'a>(&'a self, _: &mut Visitor<'a>) {}
    fn visit_mut<'a>(&'a mut self, _: &mut VisitorMut<'a>) {}
    fn rebuild(&self, _: &mut Leaves) -> Self {
        PhantomData
    }
}

/// The length is part of the type, so it is not marked.
impl<T: Tree, const N: usize> Tree for [T; N] {
    fn visit<'a>(&'a self, v: &mut Visitor<'a>) {
        self.iter().enumerate().for_each(|(i, item)| v.part(i, item));
    }
    fn visit_mut<'a>(&'a mut self, v: &mut VisitorMut<'a>) {
        self.iter_mut().for_each(|item| v.part(item));
    }
    fn rebuild(&self, leaves: &mut Leaves) -> Self {
        std::array::from_fn(|i| self[i].rebuild(leaves))
    }
}

macro_rules! sequence {
    ($($of:ident),*) => {$(
        impl<T: Tree> Tree for $of<T> {
            fn visit<'a>(&'a self, v: &mut Visitor<'a>) {
                v.length(self.len());
                self.iter().enumerate().for_each(|(i, item)| v.part(i, item));
            }
            fn visit_mut<'a>(&'a mut self, v: &mut VisitorMut<'a>) {
                v.form(self.len());
                self.iter_mut().for_each(|item| v.part(item));
            }
            fn rebuild(&self, leaves: &mut Leaves) -> Self {
                self.iter().map(|item| item.rebuild(leaves)).collect()
            }
        }
    )*};
}
sequence!(Vec, VecDeque);

impl<T: Tree> Tree for Option<T> {
    fn visit<'a>(&'a self, v: &mut Visitor<'a>) {
        v.variant(self.is_some() as usize, if self.is_some() { "Some" } else { "None" });
        if let Some(inner) = self {
            inner.visit(v);
        }
    }
    fn visit_mut<'a>(&'a mut self, v: &mut VisitorMut<'a>) {
        v.form(self.is_some() as usize);
        if let Some(inner) = self {
            inner.visit_mut(v);
        }
    }
    fn rebuild(&self, leaves: &mut Leaves) -> Self {
        self.as_ref().map(|inner| inner.rebuild(leaves))
    }
}

impl<T: Tree> Tree for Box<T> {
    fn visit<'a>(&'a self, v: &mut Visitor<'a>) {
        (**self).visit(v);
    }
    fn visit_mut<'a>(&'a mut self, v: &mut VisitorMut<'a>) {
        (**self).visit_mut(v);
    }
    fn rebuild(&self, leaves: &mut Leaves) -> Self {
        Box::new((**self).rebuild(leaves))
    }
}

/// A value that two pointers share is two parts of the tree; after a rebuild they are separate.
impl<T: Tree> Tree for Arc<T> {
    fn visit<'a>(&'a self, v: &mut Visitor<'a>) {
        (**self).visit(v);
    }
    fn visit_mut<'a>(&'a mut self, v: &mut VisitorMut<'a>) {
        // `get_mut` is called twice, because the borrow of a failed attempt would last
        if Arc::get_mut(self).is_some() {
            if let Some(inner) = Arc::get_mut(self) {
                inner.visit_mut(v);
            }
        } else {
            v.shared(&**self);
        }
    }
    fn rebuild(&self, leaves: &mut Leaves) -> Self {
        Arc::new((**self).rebuild(leaves))
    }
}

impl<K: Ord + Hash + Display + Clone, T: Tree> Tree for BTreeMap<K, T> {
    fn visit<'a>(&'a self, v: &mut Visitor<'a>) {
        v.length(self.len());
        for (key, item) in self {
            v.fixed(key, "key", |f| key.hash(f));
            v.part(key, item);
        }
    }
    fn visit_mut<'a>(&'a mut self, v: &mut VisitorMut<'a>) {
        v.form(self.len());
        for (key, item) in self {
            v.fixed(|f| key.hash(f));
            v.part(item);
        }
    }
    fn rebuild(&self, leaves: &mut Leaves) -> Self {
        self.iter().map(|(key, item)| (key.clone(), item.rebuild(leaves))).collect()
    }
}

/// Entries are visited in the order of the keys.
impl<K: Ord + Hash + Display + Clone, T: Tree, S: BuildHasher + Default> Tree for HashMap<K, T, S> {
    fn visit<'a>(&'a self, v: &mut Visitor<'a>) {
        v.length(self.len());
        let mut items: Vec<_> = self.iter().collect();
        items.sort_unstable_by_key(|(key, _)| *key);
        for (key, item) in items {
            v.fixed(key, "key", |f| key.hash(f));
            v.part(key, item);
        }
    }
    fn visit_mut<'a>(&'a mut self, v: &mut VisitorMut<'a>) {
        v.form(self.len());
        let mut items: Vec<_> = self.iter_mut().collect();
        items.sort_unstable_by(|a, b| a.0.cmp(b.0));
        for (key, item) in items {
            v.fixed(|f| key.hash(f));
            v.part(item);
        }
    }
    fn rebuild(&self, leaves: &mut Leaves) -> Self {
        let mut items: Vec<_> = self.iter().collect();
        items.sort_unstable_by_key(|(key, _)| *key);
        items.into_iter().map(|(key, item)| (key.clone(), item.rebuild(leaves))).collect()
    }
}
