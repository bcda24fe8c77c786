//! Encodes values as words, by which equal values are found.

use super::types::{ProxyId, ProxyTy};
use fulgurite_core::{Dim, TensorTy, Value};

/// Words that differ for different values.
#[derive(Default)]
pub(crate) struct Words {
    /// The words so far.
    pub words: Vec<u64>,
    /// Whether a symbolic size is among the words; code that relies on its value must add a guard each time.
    pub symbolic: bool,
}

impl Words {
    /// Adds a number.
    pub fn push(&mut self, word: u64) {
        self.words.push(word);
    }

    /// Adds a value; `tensor` adds the words of a tensor.
    pub fn value(&mut self, value: &Value<ProxyId>, tensor: &mut dyn FnMut(ProxyId, &mut Words)) {
        match value {
            Value::Tensor(p) => {
                self.push(1);
                tensor(*p, self);
            }
            Value::Type(ty) => {
                self.push(2);
                self.tensor_ty(ty);
            }
            Value::Num(number) => {
                let (kind, bits) = number.key_bits();
                self.words.extend([3, u64::from(kind), bits]);
            }
            Value::Size(dim) => {
                self.push(4);
                self.dim(*dim);
            }
            Value::DType(dtype) => self.words.extend([5, *dtype as u64]),
            Value::Word(word) => {
                self.push(6);
                self.text(word.as_str());
            }
            Value::Str(s) => {
                self.push(7);
                self.text(s);
            }
            Value::List(items) => {
                self.words.extend([8, items.len() as u64]);
                items.iter().for_each(|i| self.value(i, tensor));
            }
            Value::Absent => self.push(9),
        }
    }

    /// Adds the parts of a type that signatures see.
    pub fn ty(&mut self, ty: &ProxyTy) {
        match ty {
            ProxyTy::Tensor(t) => {
                self.push(1);
                self.tensor_ty(&t.ty);
            }
            ProxyTy::Number(dtype) => self.words.extend([2, *dtype as u64]),
            ProxyTy::Key => self.push(3),
        }
    }

    fn tensor_ty(&mut self, ty: &TensorTy) {
        self.words.extend([ty.dtype as u64, ty.shape.len() as u64]);
        ty.shape.iter().for_each(|d| self.dim(*d));
    }

    fn dim(&mut self, dim: Dim) {
        if dim.is_const() {
            self.words.extend([0, dim.value() as u64]);
        } else {
            self.symbolic = true;
            self.words.extend([1, dim.symbol_word() as u64]);
        }
    }

    fn text(&mut self, text: &str) {
        self.push(text.len() as u64);
        self.words.extend(text.as_bytes().chunks(8).map(|c| c.iter().fold(0, |word, b| word << 8 | u64::from(*b))));
    }
}
