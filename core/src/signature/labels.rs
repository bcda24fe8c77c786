//! Labels: reads a text such as `bij,bjk->bik` as axes of one list.
//!
//! Every letter is an axis of the list, and so is every axis that `...` covers. The axes of the result come first, in
//! its order; the summed axes follow, in the order of the operands.

use super::sizes::joined;
use crate::{Dim, counted};
use smallvec::SmallVec;

/// Axes, or sizes.
type Dims = SmallVec<[Dim; 4]>;

/// A text of labels, read against the shapes of its operands.
#[derive(Clone, Debug, PartialEq)]
pub struct Labels {
    /// The text as given.
    pub text: String,
    /// For each operand, the axes of the list that its axes are.
    pub ins: Vec<Dims>,
    /// The axes of the list that the result's axes are.
    pub outs: Dims,
    /// The sizes of the list.
    pub sizes: Dims,
}

/// The label of one axis.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Label {
    Letter(char),
    /// An axis that `...` covers, counted from the last one.
    Rest(usize),
}

impl Labels {
    /// Reads `text` for operands of these shapes.
    ///
    /// # Errors
    /// A description of the fault in the text, or in the shapes for it.
    pub fn read(text: &str, shapes: &[&[Dim]]) -> Result<Labels, String> {
        let plain: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (left, right) = match plain.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (plain.as_str(), None),
        };
        let terms: Vec<&str> = left.split(',').collect();
        if terms.len() != shapes.len() {
            let (labelled, given) = (counted(terms.len(), "operand", "operands"), counted(shapes.len(), "is", "are"));
            return Err(format!("labels {labelled}, {given} given"));
        }
        let mut operands = Vec::new();
        for (n, (term, shape)) in terms.iter().zip(shapes).enumerate() {
            let (ahead, behind) = split(term)?;
            let letters = ahead.len() + behind.as_ref().map_or(0, Vec::len);
            if letters > shape.len() || behind.is_none() && letters < shape.len() {
                let least = if behind.is_some() { "at least " } else { "" };
                let labelled = counted(letters, "axis", "axes");
                return Err(format!("labels {least}{labelled} of operand {n}, which has {}", shape.len()));
            }
            operands.push(join(ahead, behind, shape.len() - letters));
        }
        let rest = operands.iter().flatten().map(|l| if let Label::Rest(i) = l { i + 1 } else { 0 }).max().unwrap_or(0);
        let outs = match right {
            Some(right) => {
                let (ahead, behind) = split(right)?;
                join(ahead, behind, rest)
            }
            None => implied(&operands, rest),
        };
        for (i, label) in outs.iter().enumerate() {
            if outs[..i].contains(label) {
                return Err(format!("names {} twice in the result", show(*label)));
            }
            if !operands.iter().flatten().any(|l| l == label) {
                return Err(format!("names {} in the result, which no operand has", show(*label)));
            }
        }
        let mut all = outs.clone();
        for label in operands.iter().flatten() {
            if !all.contains(label) {
                all.push(*label);
            }
        }
        let sizes = sizes(&all, &operands, shapes)?;
        let axes = |labels: &[Label]| -> Dims {
            labels.iter().filter_map(|l| all.iter().position(|a| a == l)).map(Dim::from).collect()
        };
        Ok(Labels { text: text.to_owned(), ins: operands.iter().map(|o| axes(o)).collect(), outs: axes(&outs), sizes })
    }

    /// Whether an operand is summed by itself, along an axis that neither another operand nor the result has. Beside
    /// other operands, an axis of size 1 needs no sum.
    pub fn lone(&self) -> bool {
        let within = |axis: Dim| self.ins.iter().filter(|axes| axes.contains(&axis)).count();
        let summed = |axis: &usize| !self.outs.contains(&Dim::from(*axis)) && within(Dim::from(*axis)) == 1;
        (0..self.sizes.len()).filter(summed).any(|axis| self.ins.len() == 1 || !self.sizes[axis].is(1))
    }

    /// Labels for these axes of a list with these sizes, at most 26. The text reads back as these labels, up to the
    /// order of the list's axes.
    pub fn of(ins: &[Vec<usize>], outs: &[usize], sizes: &[Dim]) -> Labels {
        let letter = |axis: &usize| char::from(b'a' + (*axis % 26) as u8);
        let term = |axes: &[usize]| axes.iter().map(letter).collect::<String>();
        let left: Vec<String> = ins.iter().map(|axes| term(axes)).collect();
        let dims = |axes: &[usize]| axes.iter().map(|&a| Dim::from(a)).collect();
        Labels {
            text: format!("{}->{}", left.join(","), term(outs)),
            ins: ins.iter().map(|axes| dims(axes)).collect(),
            outs: dims(outs),
            sizes: SmallVec::from_slice(sizes),
        }
    }
}

/// The letters before `...`, and the letters after it if it occurs.
fn split(term: &str) -> Result<(Vec<char>, Option<Vec<char>>), String> {
    let letters = |part: &str| match part.chars().find(|c| !c.is_ascii_alphabetic()) {
        Some('.') => Err(format!("has `...` twice, or some other dots, in `{term}`")),
        Some(c) => Err(format!("has `{c}` in `{term}`, where a letter, `...`, `,` or `->` can stand")),
        None => Ok(part.chars().collect()),
    };
    match term.split_once("...") {
        Some((ahead, behind)) => Ok((letters(ahead)?, Some(letters(behind)?))),
        None => Ok((letters(term)?, None)),
    }
}

fn join(ahead: Vec<char>, behind: Option<Vec<char>>, rest: usize) -> Vec<Label> {
    let some = behind.is_some();
    let dots = (0..rest).rev().filter(|_| some).map(Label::Rest);
    let letters = |l: Vec<char>| l.into_iter().map(Label::Letter);
    letters(ahead).chain(dots).chain(letters(behind.unwrap_or_default())).collect()
}

/// The result where `->` is missing: the axes of `...`, then the letters that occur once, in the order of their codes.
fn implied(operands: &[Vec<Label>], rest: usize) -> Vec<Label> {
    let count = |l: &Label| operands.iter().flatten().filter(|o| *o == l).count();
    let mut letters: Vec<char> = operands
        .iter()
        .flatten()
        .filter(|l| count(l) == 1)
        .filter_map(|l| if let Label::Letter(c) = l { Some(*c) } else { None })
        .collect();
    letters.sort_unstable();
    (0..rest).rev().map(Label::Rest).chain(letters.into_iter().map(Label::Letter)).collect()
}

/// The size of each label, to which operands of size 1 broadcast.
fn sizes(all: &[Label], operands: &[Vec<Label>], shapes: &[&[Dim]]) -> Result<Dims, String> {
    let one = Dim::from(1);
    let mut sizes: Dims = SmallVec::from_elem(one, all.len());
    for (n, (labels, shape)) in operands.iter().zip(shapes).enumerate() {
        for (axis, (label, size)) in labels.iter().zip(shape.iter()).enumerate() {
            // A diagonal does not broadcast.
            let twin = labels[..axis].iter().position(|l| l == label);
            if let Some(twin) = twin.filter(|t| shape[*t] != *size) {
                let label = show(*label);
                return Err(format!("names {label} twice in operand {n}, where it is {} and {size}", shape[twin]));
            }
            let Some(at) = all.iter().position(|a| a == label) else { continue };
            let Some(together) = joined(sizes[at], *size) else {
                let label = show(*label);
                return Err(format!("gives {label} the size {size} in operand {n}, but {} before", sizes[at]));
            };
            sizes[at] = together;
        }
    }
    Ok(sizes)
}

fn show(label: Label) -> String {
    match label {
        Label::Letter(c) => format!("`{c}`"),
        Label::Rest(_) => "an axis of `...`".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, shapes: &[&[i64]]) -> Result<Labels, String> {
        let shapes: Vec<Vec<Dim>> = shapes.iter().map(|s| s.iter().map(|&d| Dim::from(d)).collect()).collect();
        Labels::read(text, &shapes.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    fn axes(l: &Dims) -> Vec<i64> {
        l.iter().map(|d| d.value()).collect()
    }

    #[test]
    fn the_axes_of_the_result_come_first() {
        let l = read("ij, jk -> ik", &[&[2, 3], &[3, 5]]).unwrap();
        assert_eq!((axes(&l.ins[0]), axes(&l.ins[1]), axes(&l.outs)), (vec![0, 2], vec![2, 1], vec![0, 1]));
        assert_eq!(axes(&l.sizes), [2, 5, 3]);
    }

    #[test]
    fn an_implied_result_is_in_the_order_of_letters() {
        let l = read("ba", &[&[2, 3]]).unwrap();
        assert_eq!((axes(&l.ins[0]), axes(&l.outs), axes(&l.sizes)), (vec![1, 0], vec![0, 1], vec![3, 2]));
        assert_eq!(axes(&read("ii", &[&[4, 4]]).unwrap().outs), [0; 0]);
    }

    #[test]
    fn dots_are_aligned_at_the_right_and_broadcast() {
        let l = read("...ij,...jk", &[&[7, 1, 2, 3], &[5, 3, 2]]).unwrap();
        assert_eq!((axes(&l.outs), axes(&l.sizes)), (vec![0, 1, 2, 3], vec![7, 5, 2, 2, 3]));
        assert_eq!((axes(&l.ins[0]), axes(&l.ins[1])), (vec![0, 1, 2, 4], vec![1, 4, 3]));
        let summed = read("a...->a", &[&[2, 3]]).unwrap();
        assert_eq!((axes(&summed.outs), axes(&summed.ins[0])), (vec![0], vec![0, 1]));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let said = |text, shapes: &[&[i64]]| read(text, shapes).unwrap_err();
        assert_eq!(said("ij,j", &[&[2, 3]]), "labels 2 operands, 1 is given");
        assert_eq!(said("ij", &[&[2]]), "labels 2 axes of operand 0, which has 1");
        assert_eq!(said("i...j", &[&[2]]), "labels at least 2 axes of operand 0, which has 1");
        assert_eq!(said("i->ii", &[&[2]]), "names `i` twice in the result");
        assert_eq!(said("i->j", &[&[2]]), "names `j` in the result, which no operand has");
        assert_eq!(said("ii", &[&[2, 1]]), "names `i` twice in operand 0, where it is 2 and 1");
        assert_eq!(said("i,i", &[&[2], &[3]]), "gives `i` the size 3 in operand 1, but 2 before");
        assert_eq!(said("i1", &[&[2, 1]]), "has `1` in `i1`, where a letter, `...`, `,` or `->` can stand");
    }

    #[test]
    fn what_is_written_reads_back() {
        let made = Labels::of(&[vec![0, 2], vec![2, 1]], &[0, 1], &[2, 5, 3].map(Dim::from));
        assert_eq!(made.text, "ac,cb->ab");
        assert_eq!(read(&made.text, &[&[2, 3], &[3, 5]]), Ok(made));
    }
}
