//! Text that the model writes: one character after the other, each drawn by the probabilities that the model gives.
//!
//! Keys and values of earlier characters are kept, so that a step computes one row instead of all. Positions are
//! learned, so a full window can't slide by one: its later half becomes the beginning of a new window, which is read
//! in one pass.

use fulgurite::core::philox;
use fulgurite::prelude::*;
use fulgurite_demo::gpt::{Gpt, Memory};

/// The stream of random numbers that samples use. Batches use others.
const STREAM: u64 = 0x5341_4d50;

/// Rule by which the next character is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// Below 1, likely characters become likelier.
    pub temperature: f64,
    /// Only this many of the likeliest characters can be chosen.
    pub top_k: Option<usize>,
}

impl Default for Choice {
    /// Text of a small model reads better a little below 1.
    fn default() -> Choice {
        Choice { temperature: 0.8, top_k: None }
    }
}

/// Reads a whole window: maps `i64[1, context]` and the place of the last character to the logits after it, `f32[1,
/// symbols]`, and the memory of the blocks.
type Read = Box<dyn Fn(Gpt, Tensor, Tensor) -> fulgurite::Result<(Tensor, Vec<Memory>)>>;
/// Reads one more character at a place, and updates the memory.
type Next = Box<dyn Fn(&mut Vec<Memory>, Gpt, Tensor, Tensor) -> fulgurite::Result<Tensor>>;

/// Writes text with models of one context length. It compiles only two functions.
pub struct Writer {
    read: Read,
    next: Next,
    context: usize,
    seed: u64,
    choice: Choice,
}

impl Writer {
    /// A writer for models of this context.
    pub fn new(context: usize, seed: u64, choice: Choice) -> Writer {
        let read = jit(|model: Gpt, x: Tensor, last: Tensor| model.read(&x, &last)).named("read");
        let next = jit(|memory: Vec<Memory>, (model, token, at): (Gpt, Tensor, Tensor)| {
            let (logits, memory) = model.next(&memory, &token, &at);
            (memory, logits)
        });
        let next = next.named("next");
        Writer {
            read: Box::new(move |model, x, last| read.call((model, x, last))),
            next: Box::new(move |memory, model, token, at| next.update(memory, (model, token, at))),
            context,
            seed,
            choice,
        }
    }

    /// Writes `length` characters after the prompt. Model, seed and `number` determine them. Each is handed to `each`
    /// at once; if that returns `false`, writing ends.
    ///
    /// # Errors
    /// Errors of the model.
    pub fn write(
        &mut self,
        model: &Gpt,
        prompt: &[i64],
        length: usize,
        number: u64,
        mut each: impl FnMut(i64) -> bool,
    ) -> fulgurite::Result<Vec<i64>> {
        let mut tokens = if prompt.is_empty() { vec![0] } else { prompt.to_vec() };
        let first = tokens.len();
        // the window's first character, and the memory of the blocks from there on
        let mut window: Option<(usize, Vec<Memory>)> = None;
        for i in 0..length {
            let start = start(tokens.len(), self.context);
            let at = tokens.len() - 1 - start;
            let logits = match &mut window {
                Some((begin, memory)) if *begin == start => {
                    let token = Tensor::from_vec(vec![tokens[tokens.len() - 1]], (1, 1));
                    (self.next)(memory, model.clone(), token, place(at))?
                }
                _ => {
                    let mut seen = tokens[start..].to_vec();
                    // the last character can't see positions after it
                    seen.resize(self.context, 0);
                    let seen = Tensor::from_vec(seen, (1, self.context));
                    let (logits, memory) = (self.read)(model.clone(), seen, place(at))?;
                    window = Some((start, memory));
                    logits
                }
            };
            let point = f64::from(philox::uniform(self.seed, STREAM, number << 32 | i as u64, 0));
            let token = draw(&logits.to_vec::<f32>()?, self.choice, point) as i64;
            tokens.push(token);
            if !each(token) {
                break;
            }
        }
        Ok(tokens.split_off(first))
    }
}

/// A position in the form that the model takes.
fn place(at: usize) -> Tensor {
    Tensor::from_vec(vec![at as i64], 1)
}

/// The first of `n` characters that is in the window. A window grows up to the context; then its later half begins a
/// new one.
fn start(n: usize, context: usize) -> usize {
    let step = (context - context / 2).max(1);
    n.saturating_sub(context).div_ceil(step) * step
}

/// The symbol at this point of [0, 1), where the stretch of each symbol is its probability.
fn draw(logits: &[f32], choice: Choice, point: f64) -> usize {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let least = choice.top_k.map_or(f32::NEG_INFINITY, |k| kth(logits, k));
    let weight = |x: f32| if x < least { 0.0 } else { (f64::from(x - top) / choice.temperature).exp() };
    let mut left = logits.iter().map(|x| weight(*x)).sum::<f64>() * point;
    for (i, x) in logits.iter().enumerate() {
        left -= weight(*x);
        if left < 0.0 {
            return i;
        }
    }
    // only rounding errors or logits that are NaN lead here
    logits.len().saturating_sub(1)
}

/// The `k`th largest number. Numbers that equal it can be chosen too.
fn kth(logits: &[f32], k: usize) -> f32 {
    let mut sorted = logits.to_vec();
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    sorted.get(k.max(1) - 1).copied().unwrap_or(f32::NEG_INFINITY)
}

#[cfg(test)]
mod tests {
    use super::super::GptSizes;
    use super::*;

    #[test]
    fn stretches_are_as_long_as_likely() {
        let choice = Choice::default();
        let logits = [0.0, f32::NEG_INFINITY, 0.8 * std::f32::consts::LN_2];
        assert_eq!([0.0, 0.3, 0.34, 0.99].map(|p| draw(&logits, choice, p)), [0, 0, 2, 2]);
        assert_eq!(draw(&[f32::NAN; 3], choice, 0.5), 2);
        assert_eq!(draw(&[], choice, 0.5), 0);
    }

    #[test]
    fn only_the_likeliest_are_chosen_from() {
        let logits = [1.0, 3.0, 2.0, 2.5];
        let choose = |k| {
            let choice = Choice { temperature: 5.0, top_k: Some(k) };
            (0..100).map(move |p| draw(&logits, choice, f64::from(p) / 100.0))
        };
        assert!(choose(1).all(|i| i == 1));
        assert!(choose(2).all(|i| i == 1 || i == 3) && choose(2).any(|i| i == 3));
        assert!((0..4).all(|i| choose(9).any(|j| i == j)));
    }

    #[test]
    fn windows_fit_the_context() {
        for context in 1..9 {
            for n in 1..40 {
                let start = start(n, context);
                assert!(start < n && n - start <= context, "{n} in {context}: from {start}");
                assert!(n <= context || n - start > context / 2, "{n} in {context}: from {start}");
            }
        }
    }

    /// The text is longer than two contexts, so that windows begin anew.
    #[test]
    fn memory_changes_nothing() {
        let sizes = GptSizes { depth: 2, width: 16, heads: 2, context: 8, precision: Default::default() };
        let model = super::super::model::model(&mut Key::new(3), &sizes, 11);
        let choice = Choice { temperature: 1.0, top_k: None };
        let (prompt, length) = ([3, 1, 4], 24);
        let mut streamed = Vec::new();
        let mut writer = Writer::new(sizes.context, 7, choice);
        let keep = |token| {
            streamed.push(token);
            true
        };
        let written = writer.write(&model, &prompt, length, 5, keep).expect("runs");
        assert_eq!((streamed.len(), &streamed), (length, &written));

        let mut plain = prompt.to_vec();
        for i in 0..length {
            let seen = plain[start(plain.len(), sizes.context)..].to_vec();
            let n = seen.len();
            let (x, last) = (Tensor::from_vec(seen, (1, n)), Tensor::from_vec(vec![n as i64 - 1], 1));
            let logits = model.read(&x, &last).0.to_vec::<f32>().expect("runs");
            let point = f64::from(philox::uniform(7, STREAM, 5 << 32 | i as u64, 0));
            plain.push(draw(&logits, choice, point) as i64);
        }
        assert_eq!(written, plain[prompt.len()..]);
    }
}
