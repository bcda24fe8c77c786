//! Draws options by their types.

use super::{Attempt, Slot};
use fulgurite_core::lang::ast::*;
use fulgurite_core::signature::labels::Labels;
use fulgurite_core::signature::{Item, Size, const_eval::At, shapes};
use fulgurite_core::{DType, Dim, Name, Scalar, Value};

fn ints(items: impl IntoIterator<Item = i64>) -> Value<Slot> {
    Value::List(items.into_iter().map(|i| Value::Num(Scalar::Int(i))).collect())
}

fn int(i: i64) -> Value<Slot> {
    Value::Num(Scalar::Int(i))
}

impl Attempt<'_> {
    /// A value for option `opt`, also bound in the environment, since shapes may use it.
    pub(super) fn option(&mut self, at: usize, opt: &Opt) -> Option<Value<Slot>> {
        let name = opt.name.name;
        Some(match &opt.ty {
            OptType::Num => self.any_number(),
            OptType::F64 => self.float(opt),
            OptType::I64 => int(self.rng.int(-2, 4)),
            OptType::Bool => {
                let b = Scalar::Bool(self.choice.truth[at]);
                self.env.items.push((name, Item::Num(b)));
                Value::Num(b)
            }
            OptType::Enum(_) => {
                let word = self.choice.word[at]?;
                self.env.items.push((name, Item::Word(word)));
                Value::Word(word)
            }
            // No row takes a text, and a signature does not say which texts are valid.
            OptType::Str => return None,
            OptType::Labels(list) => self.labels(name, *list),
            OptType::Dtype(_) => Value::DType(match self.wish.dtype {
                Some(d) if self.rng.one_in(2) => d,
                _ => *self.rng.pick(&DType::STORED),
            }),
            OptType::Dim(list) => {
                let (axis, rank) = match list {
                    Some(l) => (self.rng.below(self.rank(*l)), self.rank(*l)),
                    None => self.anchor(name)?,
                };
                self.env.items.push((name, Item::Int(Dim::from(axis))));
                int(self.sign(axis, rank.max(1)))
            }
            OptType::Gap(list) => {
                let places = self.rank(*list) + 1;
                let axis = self.rng.below(places);
                self.env.items.push((name, Item::Int(Dim::from(axis))));
                int(self.sign(axis, places))
            }
            OptType::Perm(list) => {
                let rank = self.rank(*list);
                let mut order: Vec<usize> = (0..rank).collect();
                self.rng.shuffle(&mut order);
                self.axes(name, order, rank)
            }
            OptType::Dims { list, most, .. } => {
                let rank = self.rank(*list);
                let mut order: Vec<usize> = (0..rank).collect();
                self.rng.shuffle(&mut order);
                let most = most.map_or(rank, |m| rank.min(m as usize));
                order.truncate(self.rng.below(most + 1));
                self.axes(name, order, rank)
            }
            OptType::Ints { list, axes, broadcast, .. } => {
                let n = match axes {
                    _ if *list == "_" => 2 * self.rng.below(3),
                    Some(a) => {
                        fulgurite_core::signature::const_eval::axes(&self.env, a, self.rank(*list), At::default())
                            .ok()?
                            .len()
                    }
                    None => self.rank(*list) + if *broadcast { self.rng.below(3) } else { 0 },
                };
                let small = [0, 1, 1, 1, 2, 2, 3, -1];
                let all: Vec<i64> = (0..n).map(|_| *self.rng.pick(&small)).collect();
                // One number stands for all axes.
                if !broadcast && *list != "_" && n > 0 && self.rng.one_in(4) { int(all[0]) } else { ints(all) }
            }
            OptType::Pos(size) => {
                let n = self.one(*size);
                if n == 0 {
                    return None;
                }
                int(self.rng.int(-n, n - 1))
            }
            OptType::Bound(size) => {
                let n = self.one(*size);
                int(self.rng.int(-n - 1, n + 1))
            }
            OptType::Size(size) => int(self.one(*size)),
            OptType::Shape { list, infer, keep, .. } => self.shape_option(*list, *infer, *keep),
        })
    }

    /// The axis that option `name` names, from the pattern of an argument, with that argument's rank.
    fn anchor(&mut self, name: Name) -> Option<(usize, usize)> {
        for param in &self.row.sig.params {
            let Some(dims) = &param.ty.dims else { continue };
            let anchored = |d: &DimPat| matches!(&d.kind, DimKind::One { at: Some(at), .. } if at.name == name);
            let Some(place) = dims.iter().position(anchored) else { continue };
            let at = At { axis: None, item: param.ty.list.as_ref().map(|_| 0) };
            let before = shapes::build(&mut self.env, &dims[..place], at).ok()?.len();
            let after = shapes::build(&mut self.env, &dims[place + 1..], at).ok()?.len();
            return Some((before, before + 1 + after));
        }
        None
    }

    /// Axis `axis` of `n`, counted from the front or from the back.
    fn sign(&mut self, axis: usize, n: usize) -> i64 {
        if self.rng.one_in(2) { axis as i64 - n as i64 } else { axis as i64 }
    }

    /// Labels for one to three operands: random axes, occasionally one twice; the first operand has the axes that no
    /// other has.
    fn labels(&mut self, name: Name, list: Name) -> Value<Slot> {
        let sizes: Vec<Dim> = self.sizes_of(list).into_iter().map(Dim::from).collect();
        let (n, operands) = (sizes.len(), 1 + self.rng.below(3));
        let mut ins: Vec<Vec<usize>> = Vec::new();
        for _ in 0..operands {
            let mut axes: Vec<usize> = (0..n).filter(|_| self.rng.one_in(2)).collect();
            if n > 0 && self.rng.one_in(4) {
                axes.push(self.rng.below(n));
            }
            self.rng.shuffle(&mut axes);
            ins.push(axes);
        }
        let missing = (0..n).filter(|a| ins.iter().all(|axes| !axes.contains(a))).collect::<Vec<_>>();
        ins[0].extend(missing);
        let mut outs: Vec<usize> = (0..n).filter(|_| !self.rng.one_in(3)).collect();
        self.rng.shuffle(&mut outs);
        let labels = Labels::of(&ins, &outs, &sizes);
        let text = Value::Str(labels.text.clone());
        self.env.items.push((name, Item::Labels(Box::new(labels))));
        for param in self.row.sig.params.iter().filter(|p| p.ty.list.is_some()) {
            self.env.items.push((param.name.name, Item::Tensors(0, operands)));
        }
        text
    }

    fn axes(&mut self, name: Name, order: Vec<usize>, rank: usize) -> Value<Slot> {
        let normal = order.iter().map(|&a| Dim::from(a)).collect();
        self.env.items.push((name, Item::Ints(normal)));
        ints(order.into_iter().map(|a| self.sign(a, rank)).collect::<Vec<_>>())
    }

    fn any_number(&mut self) -> Value<Slot> {
        let scalar = match self.rng.below(4) {
            0 => Scalar::Bool(self.rng.one_in(2)),
            1 => Scalar::Float(self.rng.int(-6, 12) as f64 / 4.0),
            _ => Scalar::Int(self.rng.int(-2, 5)),
        };
        Value::Num(scalar)
    }

    /// A float option: a usual number, occasionally one that is known only at run time.
    fn float(&mut self, opt: &Opt) -> Value<Slot> {
        let default = match opt.default.as_ref().map(|e| &*e.node) {
            Some(Node::Float(x)) => *x,
            Some(Node::Int(i)) => *i as f64,
            _ => 0.5,
        };
        if let Some((_, (lo, hi))) = self.domain.iter().find(|(n, _)| *n == opt.name.name) {
            return Value::Num(Scalar::Float(self.rng.float(*lo, *hi)));
        }
        if self.wish.numbers && self.rng.one_in(4) {
            let x = self.rng.int(1, 7) as f64 / 8.0;
            return Value::Tensor(Slot::Number(DType::F64, Scalar::Float(x)));
        }
        if self.odd && self.rng.one_in(4) {
            return Value::Num(Scalar::Float(-0.5));
        }
        let x = *self.rng.pick(&[default, default, 0.0, 1.0, 0.25, 0.5, 2.0]);
        Value::Num(Scalar::Float(x))
    }

    fn shape_option(&mut self, list: Name, infer: Option<Name>, keep: Option<Name>) -> Value<Slot> {
        let mut sizes = match infer {
            Some(from) => {
                let other = self.refold(from);
                self.env.bind_size(list, Size::List(other.iter().map(|&n| Dim::from(n)).collect()));
                other
            }
            None => self.sizes_of(list),
        };
        let known: i64 = sizes.iter().product();
        if !sizes.is_empty() && (infer.is_some() && known != 0 && self.rng.one_in(3)) {
            let at = self.rng.below(sizes.len());
            sizes[at] = -1;
        }
        // -1 keeps an axis of the argument: the last one, if there is any.
        if keep.is_some() && !sizes.is_empty() && self.rng.one_in(3) {
            let last = sizes.len() - 1;
            sizes[last] = -1;
        }
        ints(sizes)
    }

    /// Another shape with the number of elements of `list`: neighbours are merged, sizes are split, ones are inserted.
    fn refold(&mut self, list: Name) -> Vec<i64> {
        let mut sizes = self.sizes_of(list);
        for _ in 0..self.rng.below(3) {
            match self.rng.below(3) {
                0 if sizes.len() >= 2 => {
                    let at = self.rng.below(sizes.len() - 1);
                    let right = sizes.remove(at + 1);
                    sizes[at] *= right;
                }
                1 if sizes.len() < 4 => {
                    let at = self.rng.below(sizes.len() + 1);
                    sizes.insert(at, 1);
                }
                _ => self.rng.shuffle(&mut sizes),
            }
        }
        sizes
    }
}
