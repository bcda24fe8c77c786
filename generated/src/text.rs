//! Text for character-level models: symbols, a split into training and validation, random and fixed batches.
//!
//! ```
//! use fulgurite::text::Text;
//! use fulgurite::Key;
//!
//! let text = Text::new(&"to be or not to be ".repeat(40))?;
//! assert_eq!(text.symbols(), 7); // e, o, b, n, r, t and the blank
//! let (x, y) = text.batch(Key::new(1), 4, 8); // each y is the character behind its x
//! assert_eq!((x.shape(), y.shape()), (vec![4.into(), 8.into()], x.shape()));
//! # Ok::<(), fulgurite::Error>(())
//! ```

use crate::core::philox;
use crate::{Error, Key, Result, Tensor};
use std::ops::Range;

/// A text as numbers, one per character.
///
/// Of every ten blocks of characters, nine are for training and one is for validation. So both see every part of the
/// text (its end may be quite unlike its beginning), and no piece of one overlaps the other.
#[derive(Clone, Debug)]
pub struct Text {
    alphabet: Alphabet,
    tokens: Vec<u32>,
    training: Vec<Range<usize>>,
    validation: Vec<Range<usize>>,
}

/// The characters that a model knows, numbered in the order of their code points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alphabet(Vec<char>);

impl Alphabet {
    /// The characters of a text, each once.
    pub fn of(text: &str) -> Alphabet {
        let mut symbols: Vec<char> = text.chars().collect();
        symbols.sort_unstable();
        symbols.dedup();
        Alphabet(symbols)
    }

    /// The number of characters.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no characters.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All characters in order; [`Alphabet::of`] this text is an equal alphabet.
    pub fn text(&self) -> String {
        self.0.iter().collect()
    }

    /// A character's number.
    pub fn number(&self, c: char) -> Option<i64> {
        self.0.binary_search(&c).ok().map(|i| i as i64)
    }

    /// A text as numbers.
    ///
    /// # Errors
    /// The first character that the alphabet lacks.
    pub fn encode(&self, text: &str) -> std::result::Result<Vec<i64>, char> {
        text.chars().map(|c| self.number(c).ok_or(c)).collect()
    }

    /// Numbers as text; a number without a symbol is left out.
    pub fn decode(&self, tokens: &[i64]) -> String {
        tokens.iter().filter_map(|&t| self.0.get(usize::try_from(t).ok()?)).collect()
    }
}

/// Blocks in a round; the last one is for validation.
const ROUND: usize = 10;
/// Characters in a block, if the text is long enough for ten such blocks.
const BLOCK: usize = 4096;

impl Text {
    /// Numbers the characters of a text in the order of their code points.
    ///
    /// # Errors
    /// E911: the text has fewer than two characters in each block, or only one symbol, so there is nothing to predict.
    pub fn new(text: &str) -> Result<Text> {
        let length = text.chars().count();
        if length < 2 * ROUND {
            let claim = format!("a text of {length} characters is too short to learn from");
            return Err(Error::new("E911", claim).help(format!("it needs at least {}", 2 * ROUND)));
        }
        let alphabet = Alphabet::of(text);
        if let [only] = alphabet.0[..] {
            let claim = format!("a text of nothing but {only:?} leaves nothing to learn");
            return Err(Error::new("E911", claim).help("it needs two different characters at least"));
        }
        let tokens = text.chars().filter_map(|c| alphabet.number(c)).map(|i| i as u32).collect();
        let block = BLOCK.min(length / ROUND);
        let (mut training, mut validation) = (Vec::new(), Vec::new());
        for start in (0..length).step_by(ROUND * block) {
            let split = length.min(start + (ROUND - 1) * block);
            training.push(start..split);
            let end = length.min(split + block);
            if split < end {
                validation.push(split..end);
            }
        }
        Ok(Text { alphabet, tokens, training, validation })
    }

    /// The alphabet of the text.
    pub fn alphabet(&self) -> &Alphabet {
        &self.alphabet
    }

    /// The number of different characters.
    pub fn symbols(&self) -> usize {
        self.alphabet.len()
    }

    /// The number of characters, of training and validation together.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there are no characters, which never holds.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// The share of the text that is for training.
    pub fn training_share(&self) -> f64 {
        let training: usize = self.training.iter().map(Range::len).sum();
        training as f64 / self.len().max(1) as f64
    }

    /// The longest context that a batch can have.
    pub fn longest(&self) -> usize {
        self.training.iter().map(Range::len).max().unwrap_or(0).saturating_sub(1)
    }

    /// `b` random pieces of the training text, and these pieces shifted by one character: `i64[b, t]` both. Equal keys
    /// give equal batches. Both tensors carry an error where no piece has `t` characters (E912), and where there is no
    /// memory for the batch (E743).
    #[track_caller]
    pub fn batch(&self, key: Key, b: usize, t: usize) -> (Tensor, Tensor) {
        let starts = self.training.iter().map(|r| r.len().saturating_sub(t));
        let total: usize = starts.clone().sum();
        let Some((seed, stream)) = key.parts() else {
            return (key.handle().clone(), key.handle().clone());
        };
        if total == 0 || t == 0 {
            return poisoned(self.too_long(t));
        }
        // The memory is requested first: a failed allocation of a vector ends the process.
        if let Err(e) = Vec::<i64>::new().try_reserve_exact(b.saturating_mul(t)) {
            let error = Error::new("E743", format!("a batch of {b} pieces of {t} characters can't be made: {e}"));
            return poisoned(error.help("take a smaller batch or a shorter context"));
        }
        let draw = |i: usize, draw| f64::from(philox::uniform(seed as u64, stream as u64, i as u64, draw));
        let start = |i: usize| {
            // 48 random bits: the remainder's bias is below 2^-16 for texts up to 2^32 characters
            let bits = (draw(i, 0) * BITS_24) as u64 * (1 << 24) + (draw(i, 1) * BITS_24) as u64;
            let mut at = (bits % total as u64) as usize;
            for (piece, n) in self.training.iter().zip(starts.clone()) {
                if at < n {
                    return piece.start + at;
                }
                at -= n;
            }
            self.training[0].start
        };
        let starts: Vec<usize> = (0..b).map(start).collect();
        (self.pieces(&starts, t, 0), self.pieces(&starts, t, 1))
    }

    /// Batches of consecutive pieces of the validation text, at most `most` of them. They are equal in every call, and
    /// spread over the whole text.
    #[track_caller]
    pub fn validation(&self, b: usize, t: usize, most: usize) -> Vec<(Tensor, Tensor)> {
        let t = t.max(1);
        let pieces = |r: &Range<usize>| r.clone().step_by(t).filter(move |s| t < r.end - s).collect::<Vec<_>>();
        let all: Vec<usize> = self.validation.iter().flat_map(|r| pieces(&r.clone())).collect();
        let wanted = b.max(1).saturating_mul(most).min(all.len() / b.max(1) * b.max(1));
        let chosen: Vec<usize> = (0..wanted).map(|i| all[i * all.len() / wanted]).collect();
        chosen.chunks_exact(b.max(1)).map(|starts| (self.pieces(starts, t, 0), self.pieces(starts, t, 1))).collect()
    }

    #[track_caller]
    fn pieces(&self, starts: &[usize], t: usize, shift: usize) -> Tensor {
        let piece = |s: &usize| self.tokens[s + shift..s + shift + t].iter().map(|&x| i64::from(x));
        Tensor::from_vec(starts.iter().flat_map(piece).collect(), (starts.len(), t))
    }

    fn too_long(&self, t: usize) -> Error {
        let longest = self.longest();
        Error::new("E912", format!("pieces of {t} characters don't fit the text, whose longest part has {longest}"))
            .help("take a longer text or a shorter context")
    }
}

/// 2^24, the resolution of [`philox::uniform`].
const BITS_24: f64 = 16_777_216.0;

#[track_caller]
fn poisoned(error: Error) -> (Tensor, Tensor) {
    let error = error.at(crate::core::loc::Loc::caller());
    (Tensor::poisoned(error.clone()), Tensor::poisoned(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits(n: usize) -> Text {
        Text::new(&(0..n).map(|i| char::from(b'0' + (i % 10) as u8)).collect::<String>()).expect("long enough")
    }

    #[test]
    fn the_target_is_the_next_character() {
        let text = digits(5000);
        assert_eq!((text.symbols(), text.len()), (10, 5000));
        let (x, y) = text.batch(Key::new(1), 8, 16);
        let (x, y) = (x.to_vec::<i64>().expect("data"), y.to_vec::<i64>().expect("data"));
        assert_eq!(x.len(), 8 * 16);
        assert!(x.iter().zip(&y).all(|(x, y)| (x + 1) % 10 == *y));
        assert_ne!(x[..16], x[16..32]);
    }

    #[test]
    fn the_key_decides() {
        let text = digits(5000);
        let of = |seed| text.batch(Key::new(seed), 4, 8).0.to_vec::<i64>().expect("data");
        assert_eq!(of(3), of(3));
        assert_ne!(of(3), of(4));
    }

    #[test]
    fn training_and_validation_share_nothing() {
        for n in [20, 21, 399, 5000, 40_961, 100_000] {
            let text = digits(n);
            let mut seen = vec![0; n];
            text.training.iter().chain(&text.validation).flat_map(Clone::clone).for_each(|i| seen[i] += 1);
            assert!(seen.iter().all(|s| *s == 1), "{n}");
            assert!((0.85..0.95).contains(&text.training_share()), "{n} {}", text.training_share());
        }
        let batches = digits(50_000).validation(4, 64, 3);
        assert_eq!(batches.len(), 3);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert_eq!(Text::new("").expect_err("empty").code(), "E911");
        assert_eq!(digits(100).batch(Key::new(1), 2, 1000).0.check().expect_err("too long").code(), "E912");
        assert!(digits(100).validation(4, 64, 3).is_empty());
        let digits = digits(100);
        assert_eq!(digits.alphabet().encode("12x"), Err('x'));
        assert_eq!(digits.alphabet().encode("120"), Ok(vec![1, 2, 0]));
        assert_eq!(digits.alphabet().decode(&[1, -1, 99, 3]), "13");
        assert_eq!(&Alphabet::of(&digits.alphabet().text()), digits.alphabet());
    }
}
