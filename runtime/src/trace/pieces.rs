//! A list that grows without moving.

use std::ops::{Index, IndexMut};

/// The items of one piece.
const PIECE: usize = 1 << 12;

/// A list in pieces of one length. A list in one piece asks for twice its memory where it grows, and ends the program
/// if the system has not so much in one place; long traces have hundreds of thousands of items.
pub struct Pieces<T> {
    pieces: Vec<Vec<T>>,
}

impl<T> Default for Pieces<T> {
    fn default() -> Pieces<T> {
        Pieces { pieces: Vec::new() }
    }
}

impl<T> Pieces<T> {
    /// The number of items.
    pub fn len(&self) -> usize {
        self.pieces.last().map_or(0, |last| (self.pieces.len() - 1) * PIECE + last.len())
    }

    /// Adds an item at the end.
    pub fn push(&mut self, item: T) {
        match self.pieces.last_mut() {
            Some(last) if last.len() < PIECE => last.push(item),
            _ => self.pieces.push(vec![item]),
        }
    }
}

impl<T> Index<usize> for Pieces<T> {
    type Output = T;
    fn index(&self, at: usize) -> &T {
        &self.pieces[at / PIECE][at % PIECE]
    }
}

impl<T> IndexMut<usize> for Pieces<T> {
    fn index_mut(&mut self, at: usize) -> &mut T {
        &mut self.pieces[at / PIECE][at % PIECE]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_found_where_they_were_added() {
        let mut list = Pieces::default();
        for n in 0..2 * PIECE + 3 {
            assert_eq!(list.len(), n);
            list.push(n);
        }
        list[PIECE] = 7;
        assert!((0..list.len()).all(|n| list[n] == if n == PIECE { 7 } else { n }));
    }
}
