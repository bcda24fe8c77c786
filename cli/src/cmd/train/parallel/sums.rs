//! A stage's gradients, summed over all copies while the backward of other stages still runs.

use fulgurite::comm::{FIRST_TAG, Ranks, Reduction, Tag};
use fulgurite::prelude::*;
use fulgurite::{Error, tree};

/// Numbers of one reduction: 1 MiB of f32.
const BUCKET: usize = 1 << 18;
/// At most this many reductions per stage, because each has a tag of its own. A stage of more than 64 MiB has larger
/// buckets.
const TAGS: usize = 64;
/// Tags of sums, which follow those of commands.
const BASE: Tag = FIRST_TAG + 64;

/// Sums of a stage's gradients that are under way.
pub struct Sum {
    pub stage: usize,
    buckets: Vec<Reduction>,
}

impl Sum {
    /// Begins to sum `numbers` over the ranks of `group`.
    ///
    /// # Errors
    /// E773: the communicator refuses.
    pub fn start(ranks: &mut Ranks, stage: usize, group: &[usize], numbers: &[f32]) -> Result<Sum, Error> {
        let tag = |bucket: usize| BASE + (stage * TAGS + bucket) as Tag;
        let one = |(i, bucket): (usize, &[f32])| Reduction::start(ranks, group, tag(i), bucket.to_vec());
        let size = BUCKET.max(numbers.len().div_ceil(TAGS));
        let buckets = numbers.chunks(size).enumerate().map(one).collect::<Result<_, _>>()?;
        Ok(Sum { stage, buckets })
    }

    /// Takes the messages that have arrived, without waiting.
    ///
    /// # Errors
    /// E773: a message does not fit.
    pub fn advance(&mut self, ranks: &mut Ranks) -> Result<(), Error> {
        self.buckets.iter_mut().try_for_each(|bucket| bucket.advance(ranks).map(|_| ()))
    }

    /// Waits for the sum.
    ///
    /// # Errors
    /// E770 to E773: a rank fails.
    pub fn finish(self, ranks: &mut Ranks) -> Result<Vec<f32>, Error> {
        let what = format!("the gradients of stage {}", self.stage);
        let mut all = Vec::new();
        for bucket in self.buckets {
            all.extend(bucket.finish(ranks, &what)?);
        }
        Ok(all)
    }
}

/// The numbers of a tree, leaf after leaf.
///
/// # Errors
/// E773: a leaf is not f32.
pub fn numbers<M: Tree>(tree: &M) -> Result<Vec<f32>, Error> {
    let mut all = Vec::new();
    for leaf in tree::flatten(tree).leaves() {
        let buffer = leaf.buffer()?;
        let part = buffer.as_slice::<f32>();
        all.extend(part.ok_or_else(|| Error::new("E773", format!("ranks exchange f32, not {}", buffer.dtype())))?);
    }
    Ok(all)
}

/// A tree of the form of `like` with these numbers.
///
/// # Errors
/// E773: the tree has more or fewer numbers.
pub fn tree_of<M: Tree>(like: &M, numbers: &[f32]) -> Result<M, Error> {
    let mut rest = numbers;
    let mut fits = true;
    let made = tree::map(like, |leaf| match leaf.buffer() {
        Ok(buffer) => match rest.split_at_checked(buffer.len()) {
            Some((own, behind)) => {
                rest = behind;
                Tensor::from_slice(own, buffer.shape())
            }
            None => {
                fits = false;
                leaf.clone()
            }
        },
        Err(e) => Tensor::poisoned(e),
    });
    if fits && rest.is_empty() {
        return Ok(made);
    }
    Err(Error::new("E773", format!("{} numbers came for a part of the model that has others", numbers.len())))
}
