//! From lines to items: what every executor that compiles several lines at once begins with.
//!
//! Lines become *pieces* ([`graph`]: scalar operations over named loops, products, scans), and pieces are joined into
//! *items* ([`fuse`], [`items`]).
//!
//! **Invariant:** no executor is imported here; what one can run it says by [`items::Ways`].

pub(crate) mod fuse;
pub(crate) mod graph;
pub(crate) mod items;
