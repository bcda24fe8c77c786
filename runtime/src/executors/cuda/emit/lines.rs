//! Memory accesses and indices as linear functions of loops, and their text in C.

use super::literals;
use crate::executors::fusion::fuse::Form;
use crate::executors::fusion::graph::{Affine, Axis, Dim, Index, Load};
use smallvec::SmallVec;

/// A linear function `base + Σ coefficient · dim`, in elements, with one coefficient per dim of the graph.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Linear {
    pub base: i64,
    pub coefs: Vec<i64>,
}

impl Linear {
    /// The function of an index expression.
    pub fn affine(a: &Affine, dims: usize) -> Linear {
        let mut out = Linear { base: 0, coefs: vec![0; dims] };
        out.add(a, 1);
        out
    }

    /// The position of the affine indices of a load.
    pub fn load(load: &Load, form: &Form, dims: usize) -> Linear {
        Linear::indices(&load.idx, form, dims)
    }

    /// The position of affine indices into a value.
    pub fn indices(idx: &[Index], form: &Form, dims: usize) -> Linear {
        let mut out = Linear { base: form.offset, coefs: vec![0; dims] };
        for (index, stride) in idx.iter().zip(&form.strides) {
            if let Index::Affine(a) = index {
                out.add(a, *stride);
            }
        }
        out
    }

    /// The position of a result with these axes.
    pub fn axes(axes: &[Axis], form: &Form, sizes: &[usize]) -> Linear {
        let mut out = Linear { base: form.offset, coefs: vec![0; sizes.len()] };
        for (axis, stride) in axes.iter().zip(&form.strides) {
            let mut step = *stride;
            for d in axis.iter().rev() {
                out.coefs[*d as usize] += step;
                step *= sizes[*d as usize] as i64;
            }
        }
        out
    }

    fn add(&mut self, a: &Affine, k: i64) {
        self.base += a.base * k;
        for &(d, c) in &a.terms {
            self.coefs[d as usize] += c * k;
        }
    }

    /// The largest distance from zero over all dims.
    pub fn reach(&self, sizes: &[usize]) -> i64 {
        let far = |(c, n): (&i64, &usize)| c.saturating_abs().saturating_mul(*n as i64);
        self.coefs.iter().zip(sizes).map(far).fold(self.base.saturating_abs(), i64::saturating_add)
    }
}

/// A loop over dims that are contiguous in every use, slowest first.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Loop {
    pub dims: SmallVec<[Dim; 4]>,
    pub size: usize,
    /// The name of the index, if it is not the usual one.
    pub called: Option<&'static str>,
}

impl Loop {
    /// The fastest dim, which names the loop: a step of the loop is a step of this dim.
    pub fn last(&self) -> Dim {
        self.dims.last().copied().unwrap_or(0)
    }

    /// The name of the index, such as `i3`.
    pub fn name(&self) -> String {
        self.called.map_or_else(|| format!("i{}", self.last()), str::to_owned)
    }
}

/// The loops over `dims` (slowest first). Adjacent dims become one loop if every use steps over both alike.
pub(super) fn merged(dims: &[Dim], sizes: &[usize], uses: &[Linear]) -> Vec<Loop> {
    let mut loops: Vec<Loop> = Vec::new();
    for &d in dims.iter().filter(|d| sizes[**d as usize] > 1) {
        let size = sizes[d as usize];
        if let Some(slow) = loops.last_mut()
            && uses.iter().all(|u| u.coefs[slow.last() as usize] == u.coefs[d as usize] * size as i64)
        {
            slow.dims.push(d);
            slow.size *= size;
            continue;
        }
        loops.push(Loop { dims: SmallVec::from_slice(&[d]), size, called: None });
    }
    loops
}

/// The statements that compute the index of each loop from a flat index: `const int i1 = f % 8, i0 = f / 8;`
pub(super) fn decode(loops: &[Loop], flat: &str, ix: &str, indent: &str) -> String {
    let mut parts = Vec::new();
    let mut inner = 1usize;
    for (at, l) in loops.iter().enumerate().rev() {
        let slower = if inner == 1 { flat.to_owned() } else { format!("{flat} / {}", literals::size(inner)) };
        let text = if at == 0 { slower } else { format!("{slower} % {}", literals::size(l.size)) };
        if text != l.name() {
            parts.push(format!("{} = {text}", l.name()));
        }
        inner *= l.size;
    }
    if parts.is_empty() { String::new() } else { format!("{indent}const {ix} {};\n", parts.join(", ")) }
}

/// The text of a linear function of loops, such as `4096 * i0 + i1 + 3`, with more terms appended.
pub(super) fn text(linear: &Linear, loops: &[Loop], more: &[String]) -> String {
    let mut out = String::new();
    let mut term = |minus: bool, text: &str| {
        match (out.is_empty(), minus) {
            (true, false) => {}
            (true, true) => out.push('-'),
            (false, false) => out.push_str(" + "),
            (false, true) => out.push_str(" - "),
        }
        out.push_str(text);
    };
    for l in loops {
        match linear.coefs[l.last() as usize] {
            0 => {}
            1 => term(false, &l.name()),
            -1 => term(true, &l.name()),
            c => term(c < 0, &format!("{} * {}", literals::size(c.unsigned_abs()), l.name())),
        }
    }
    more.iter().for_each(|m| term(false, m));
    if linear.base != 0 {
        term(linear.base < 0, &literals::size(linear.base.unsigned_abs()));
    }
    if out.is_empty() { "0".to_owned() } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linear(base: i64, coefs: &[i64]) -> Linear {
        Linear { base, coefs: coefs.to_vec() }
    }

    fn decode(loops: &[Loop], flat: &str, ix: &str, indent: &str) -> String {
        literals::specialised(&super::decode(loops, flat, ix, indent))
    }

    fn text(linear: &Linear, loops: &[Loop], more: &[String]) -> String {
        literals::specialised(&super::text(linear, loops, more))
    }

    #[test]
    fn dims_that_lie_behind_each_other_become_one_loop() {
        let sizes = [4, 5, 6];
        let loops = merged(&[0, 1, 2], &sizes, &[linear(0, &[30, 6, 1]), linear(0, &[6, 0, 1])]);
        assert_eq!(loops.iter().map(|l| l.size).collect::<Vec<_>>(), [4, 5, 6]);
        let loops = merged(&[0, 1, 2], &sizes, &[linear(0, &[30, 6, 1])]);
        assert_eq!(loops.len(), 1);
        assert_eq!(text(&linear(2, &[60, 12, 2]), &loops, &[]), "2 * i2 + 2");
        assert_eq!(decode(&loops, "f", "int", ""), "const int i2 = f;\n");
    }

    #[test]
    fn text_of_indices() {
        let loops = merged(&[0, 1], &[3, 4], &[linear(0, &[1, 7])]);
        assert_eq!(decode(&loops, "f", "int", "  "), "  const int i1 = f % 4, i0 = f / 4;\n");
        assert_eq!(text(&linear(-1, &[-1, 3]), &loops, &["8 * v0".to_owned()]), "-i0 + 3 * i1 + 8 * v0 - 1");
        assert_eq!(text(&linear(0, &[0, 0]), &loops, &[]), "0");
    }
}
