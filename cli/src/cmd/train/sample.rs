//! Text that the model writes: one character after the other, each drawn from what the model thinks likely.

use super::model::Gpt;
use fulgurite::core::philox;
use fulgurite::prelude::*;

/// Below 1 the likely becomes likelier: what a small model writes then reads better.
const TEMPERATURE: f64 = 0.8;
/// The stream of random numbers that samples use; batches use others.
const STREAM: u64 = 0x5341_4d50;

/// Writes text in a compiled function for one context length.
pub struct Writer<F> {
    logits: F,
    context: usize,
    seed: u64,
}

impl<F: FnMut(Gpt, Tensor) -> fulgurite::Result<Tensor>> Writer<F> {
    /// `logits` gives `f32[1, context, symbols]` for `i64[1, context]`.
    pub fn new(logits: F, context: usize, seed: u64) -> Writer<F> {
        Writer { logits, context, seed }
    }

    /// What follows the prompt, so many characters; the same for the same model, seed and `number`.
    ///
    /// # Errors
    /// What running reports.
    pub fn write(&mut self, model: &Gpt, prompt: &[i64], length: usize, number: u64) -> fulgurite::Result<Vec<i64>> {
        let mut tokens = if prompt.is_empty() { vec![0] } else { prompt.to_vec() };
        let first = tokens.len();
        for i in 0..length {
            let seen = &tokens[tokens.len().saturating_sub(self.context)..];
            let last = seen.len() - 1;
            // what stands after the last character can't be seen from it
            let mut window = seen.to_vec();
            window.resize(self.context, 0);
            let logits = (self.logits)(model.clone(), Tensor::from_vec(window, (1, self.context)))?;
            let logits = logits.to_vec::<f32>()?;
            let symbols = logits.len() / self.context;
            let row = logits.get(last * symbols..(last + 1) * symbols).unwrap_or_default();
            let point = f64::from(philox::uniform(self.seed, STREAM, number << 32 | i as u64, 0));
            tokens.push(draw(row, point) as i64);
        }
        Ok(tokens.split_off(first))
    }
}

/// The symbol at this point of [0, 1) when each has a stretch as long as it is likely.
fn draw(logits: &[f32], point: f64) -> usize {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weight = |x: &f32| (f64::from(x - top) / TEMPERATURE).exp();
    let mut left = logits.iter().map(weight).sum::<f64>() * point;
    for (i, x) in logits.iter().enumerate() {
        left -= weight(x);
        if left < 0.0 {
            return i;
        }
    }
    // only rounding, or a model full of NaN, comes here
    logits.len().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::draw;

    #[test]
    fn stretches_are_as_long_as_likely() {
        let logits = [0.0, f32::NEG_INFINITY, 0.8 * std::f32::consts::LN_2];
        assert_eq!([0.0, 0.3, 0.34, 0.99].map(|p| draw(&logits, p)), [0, 0, 2, 2]);
        assert_eq!(draw(&[f32::NAN; 3], 0.5), 2);
        assert_eq!(draw(&[], 0.5), 0);
    }
}
