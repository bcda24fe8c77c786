//! From lines to items: the first part of every executor that compiles several lines at once.
//!
//! Lines become *pieces* ([`graph`]: scalar operations over named loops, products, scans), and pieces are joined into
//! *items* ([`fuse`], [`items`]).
//!
//! **Invariant:** no executor is imported here; an executor states its capabilities in [`items::Ways`].

pub(crate) mod fuse;
pub(crate) mod graph;
pub(crate) mod items;
pub(crate) mod row_blocks;
mod unused;
