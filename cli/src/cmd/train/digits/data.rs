//! The handwritten digits: 1,797 images that are part of the program (cli/data/digits.md says where they are from).

use crate::cmd::train::task::{Source, fnv};
use fulgurite::core::philox;

/// Records of [`RECORD`] bytes: 64 pixels of 5 bits, row by row, the highest bit first; then the label.
const FILE: &[u8] = include_bytes!("../../../../data/digits.bin");
/// Bytes of an image and its label.
const RECORD: usize = PIXELS * BITS / 8 + 1;
/// Bits of a pixel.
const BITS: usize = 5;
/// Pixels along each side.
pub const SIDE: usize = 8;
/// Pixels of an image.
pub const PIXELS: usize = SIDE * SIDE;
/// The value of a pixel that is all ink; 0 is paper.
pub const INK: u8 = 16;
/// Digits.
pub const CLASSES: usize = 10;
/// One image in this many is held out.
const HELD_OUT: usize = 5;
/// The stream of random numbers that decides the split. Batches use the streams of keys.
const STREAM: u64 = 0x5350_4c49;

/// An image and its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// 0 to [`INK`], row by row from the top.
    pub pixels: [u8; PIXELS],
    /// 0 to 9.
    pub label: u8,
}

impl Image {
    /// The image moved to the right and down by this many pixels. Pixels that leave are lost, and paper comes in.
    pub fn moved(&self, right: i64, down: i64) -> Image {
        let pixel = |p: usize| {
            let (x, y) = ((p % SIDE) as i64 - right, (p / SIDE) as i64 - down);
            let inside = (0..SIDE as i64).contains(&x) && (0..SIDE as i64).contains(&y);
            if inside { self.pixels[y as usize * SIDE + x as usize] } else { 0 }
        };
        Image { pixels: std::array::from_fn(pixel), label: self.label }
    }
}

/// All images, in their order.
pub fn images() -> Vec<Image> {
    FILE.chunks_exact(RECORD).map(image).collect()
}

fn image(record: &[u8]) -> Image {
    let bit = |i: usize| record[i / 8] >> (7 - i % 8) & 1;
    let pixel = |p: usize| (0..BITS).fold(0, |value, b| value << 1 | bit(p * BITS + b));
    Image { pixels: std::array::from_fn(pixel), label: record[RECORD - 1] }
}

/// The source of the images.
pub fn source() -> Source {
    Source { path: None, name: "the handwritten digits of the UCI repository".to_owned(), hash: fnv(FILE) }
}

/// Numbers of the training images, and of the held-out ones: a permutation that the seed decides.
pub fn split(n: usize, seed: u64) -> (Vec<usize>, Vec<usize>) {
    let mut order: Vec<usize> = (0..n).collect();
    for i in (1..n).rev() {
        let point = f64::from(philox::uniform(seed, STREAM, i as u64, 0));
        order.swap(i, below(point, i + 1));
    }
    let held = order.split_off(n - n / HELD_OUT);
    (order, held)
}

/// The number below `n` that a point of [0, 1) stands for.
pub fn below(point: f64, n: usize) -> usize {
    ((point * n as f64) as usize).min(n.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_whole() {
        let images = images();
        assert_eq!((FILE.len(), images.len()), (1797 * RECORD, 1797));
        assert!(images.iter().all(|i| usize::from(i.label) < CLASSES && i.pixels.iter().all(|p| *p <= INK)));
        // what scikit-learn prints of the first image: load_digits().images[0][:2]
        assert_eq!(images[0].pixels[..16], [0, 0, 5, 13, 9, 1, 0, 0, 0, 0, 13, 15, 10, 15, 5, 0]);
        assert_eq!(images.iter().take(12).map(|i| i.label).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]);
        let count = |digit| images.iter().filter(|i| i.label == digit).count();
        assert_eq!([0, 1, 8, 9].map(count), [178, 182, 174, 180]);
    }

    #[test]
    fn images_move() {
        let image = Image { pixels: std::array::from_fn(|i| i as u8), label: 7 };
        assert_eq!(image.moved(0, 0), image);
        assert_eq!(image.moved(1, 0).pixels[..9], [0, 0, 1, 2, 3, 4, 5, 6, 0]);
        assert_eq!(image.moved(0, -1).pixels[..8], image.pixels[8..16]);
        assert_eq!(image.moved(-9, 9).pixels, [0; PIXELS]);
    }

    #[test]
    fn the_split_is_the_seeds() {
        let (training, held) = split(1797, 3);
        assert_eq!((training.len(), held.len()), (1438, 359));
        let mut all = [training.clone(), held.clone()].concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..1797));
        assert_eq!(split(1797, 3), (training, held.clone()));
        assert_ne!(split(1797, 4).1, held);
    }
}
