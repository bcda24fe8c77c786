//! Scores: the share of refuted mutants among those that differ from their rows.

use std::fmt;

use serde_json::json;

use super::Mutant;
use super::judge::Verdict;

/// Mutants of one class.
#[derive(Clone, Copy, Debug, Default)]
pub struct Share {
    /// The mutants that are refuted.
    pub refuted: usize,
    /// The mutants that are neither refuted nor equivalent to their rows.
    pub survived: usize,
    /// The mutants that are equivalent to their rows.
    pub equivalent: usize,
}

/// The two scores.
#[derive(Clone, Copy, Debug, Default)]
pub struct Score {
    /// Facts that a row states or implies twice: refuted by `check`.
    pub stated: Share,
    /// Facts that a row states once: refuted by any evidence.
    pub meaning: Share,
}

impl Score {
    /// The scores of these mutants.
    pub fn of(mutants: &[Mutant], verdicts: &[Verdict]) -> Score {
        let mut score = Score::default();
        for (mutant, verdict) in mutants.iter().zip(verdicts) {
            let share = if mutant.meaning { &mut score.meaning } else { &mut score.stated };
            match verdict {
                Verdict::Equivalent(_) => share.equivalent += 1,
                Verdict::Check(_) => share.refuted += 1,
                Verdict::Recorded(_) | Verdict::Downstream(_) if mutant.meaning => share.refuted += 1,
                Verdict::Recorded(_) | Verdict::Downstream(_) | Verdict::Survived(_) | Verdict::Crashed => {
                    share.survived += 1
                }
            }
        }
        score
    }
}

impl Share {
    /// The share of refuted mutants among those that differ; 1 if there are none.
    pub fn share(&self) -> f64 {
        let all = self.refuted + self.survived;
        if all == 0 { 1.0 } else { self.refuted as f64 / all as f64 }
    }

    /// The counts as a JSON object.
    pub fn json(&self) -> serde_json::Value {
        json!({"refuted": self.refuted, "survived": self.survived, "equivalent": self.equivalent})
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (refuted, all) = (self.refuted, self.refuted + self.survived);
        write!(f, "{:.4}: {refuted} of {all} refuted, {} equivalent", self.share(), self.equivalent)
    }
}
