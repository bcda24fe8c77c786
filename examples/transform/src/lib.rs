//! A transform of one's own: division by a number becomes multiplication by its inverse.
//!
//! A transform maps a trace to a trace. [`Rewriter::each`] goes through the lines; each is kept, or others are recorded
//! in its place, and [`Rewriter::bind`] says which new value stands for which old one. Ids, names, tags, places and
//! regions follow from that; what a transform does not mention is not touched.
//!
//! ```
//! use fulgurite::prelude::*;
//! use fulgurite::transforms::At;
//! use fulgurite_transform::{reciprocal, Reciprocals};
//!
//! let f = jit(|x: Tensor| grad(&x, |x| (x / 4).sum()))
//!     .transform(At::Acquired, Reciprocals::NAME, reciprocal)
//!     .keep_traces();
//! assert_eq!(f.call(Tensor::from([1.0f32, 2.0]))?.to_vec::<f32>()?, [0.25, 0.25]);
//! println!("{}", f.trace(Reciprocals::NAME).expect("a stage of that name"));
//! # Ok::<(), fulgurite::Error>(())
//! ```

use fulgurite::Error;
use fulgurite::bind::Rewriter;
use fulgurite::core::{Name, Scalar, Value};
use fulgurite::trace::{BoundSymbol, Carrier, Policies, Policy, ProxyId, Tag, TagDecl, Trace};

/// What this crate adds to a pipeline.
pub struct Reciprocals;

impl Reciprocals {
    /// The stage that [`reciprocal`] is.
    pub const NAME: &str = "reciprocal";

    /// A kind of tag of this crate's own: a line that must stay a division. It goes along when the line is cloned or
    /// becomes its body, and gradients do not have it.
    ///
    /// # Errors
    /// E724 if another crate has declared the name otherwise.
    pub fn exact() -> Result<Tag, Error> {
        use Policy::{All, Drop, Keep, Union};
        // replace, decompose, vjp, recompute, fuse, merge, unroll, functionalise
        let policies = Policies::both([Keep, All, Drop, All, Keep, Union, All, Keep]);
        Tag::declare(TagDecl {
            name: "exact_division",
            carrier: Carrier::Line,
            inherit: false,
            must_survive: false,
            policies,
        })
    }
}

/// Divisions of a tensor by a literal number as multiplications, but for those tagged [`Reciprocals::exact`]. The last
/// bit of a result may differ, unless the number is a power of two.
///
/// # Errors
/// What binding the new lines reports.
pub fn reciprocal(trace: &Trace) -> Result<Trace, Error> {
    let exact = Reciprocals::exact()?;
    Rewriter::each(trace, Reciprocals::NAME, |rewriter, line| {
        let exactly = trace.arena.effective_tags(line, trace.root).contains(exact);
        match inverse(line) {
            Some((x, inverse)) if !exactly => {
                let args = vec![Value::Tensor(x), Value::Num(Scalar::Float(inverse))];
                let made = rewriter.emit(Name::new("mul"), args, vec![])?;
                rewriter.bind(line.outs[0], made.outs[0])
            }
            _ => rewriter.keep(),
        }
    })
}

/// The dividend, and the inverse of the divisor, of a division by a number.
fn inverse(line: &BoundSymbol) -> Option<(ProxyId, f64)> {
    if line.symbol.name() != "div" {
        return None;
    }
    match (line.args.first()?, line.args.get(1)?) {
        (Value::Tensor(x), Value::Num(by)) if by.as_f64() != 0.0 => Some((*x, 1.0 / by.as_f64())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Reciprocals, reciprocal};
    use fulgurite::prelude::*;
    use fulgurite::transforms::At;

    #[test]
    fn divisions_become_products_before_differentiation() -> Result<()> {
        for at in [At::Acquired, At::Joint, At::Simplified] {
            let f =
                jit(|x: Tensor| grad(&x, |x| (x / 4).sum())).transform(at, Reciprocals::NAME, reciprocal).keep_traces();
            assert_eq!(f.call(Tensor::from([1.0f32, 2.0]))?.to_vec::<f32>()?, [0.25, 0.25]);
            let compiled = f.trace("simplified").unwrap_or_default() + &f.trace(Reciprocals::NAME).unwrap_or_default();
            assert!(at != At::Acquired || !compiled.contains("div("), "{compiled}");
        }
        Ok(())
    }

    #[test]
    fn a_tagged_line_stays() -> Result<()> {
        let exact = Reciprocals::exact()?;
        let f = jit(move |x: Tensor| tagged(exact, || &x / 3) + &x / 3).transform(
            At::Acquired,
            Reciprocals::NAME,
            reciprocal,
        );
        let f = f.keep_traces();
        let _ = f.call(Tensor::from([1.0f32]))?;
        let text = f.trace(Reciprocals::NAME).unwrap_or_default();
        assert_eq!((text.matches("div(").count(), text.matches("mul(").count()), (1, 1), "{text}");
        Ok(())
    }
}
