//! Shrinks a case that fails to a smaller one that still fails.

use std::sync::Arc;

use super::budget::Budget;
use super::case::{Case, Property};
use super::compare::words;

/// Number of words of a failure that must stay the same.
const KIND_WORDS: usize = 5;

/// The smallest case that fails in the same way and that is found within the budget, with its
/// failure. `fails` returns the failure of a case that fails.
pub(super) fn shrink(
    (case, broken): (Case, String),
    fails: &dyn Fn(&Case) -> Option<String>,
    budget: Budget,
) -> (Case, String) {
    let mut search = Search { fails, budget, case, broken };
    loop {
        let before = (search.case.input.clone(), search.case.property.clone());
        search.fewer_bytes();
        search.fewer_pieces();
        if before.0.len() == search.case.input.len() && before.1 == search.case.property {
            // With simpler bytes, for example in a length, more of them may be left out.
            search.simpler_bytes();
            if before.0 == search.case.input {
                return (search.case, search.broken);
            }
        }
    }
}

/// The search for a smaller case: the best one so far, and its failure.
struct Search<'a> {
    fails: &'a dyn Fn(&Case) -> Option<String>,
    budget: Budget,
    case: Case,
    broken: String,
}

impl Search<'_> {
    /// Replaces the case by the candidate if the candidate fails, too.
    fn replace_if_broken(&mut self, candidate: Case) -> bool {
        if !self.budget.take() {
            return false;
        }
        let Some(broken) = (self.fails)(&candidate) else { return false };
        if words(&broken, KIND_WORDS) != words(&self.broken, KIND_WORDS) {
            return false;
        }
        (self.case, self.broken) = (candidate, broken);
        true
    }

    /// Removes ranges of the input, large ones first.
    fn fewer_bytes(&mut self) {
        let mut step = self.case.input.len().next_power_of_two();
        while step > 0 {
            let mut at = 0;
            while at < self.case.input.len() {
                if !self.replace_if_broken(without(&self.case, at, step)) {
                    at += step;
                }
            }
            step /= 2;
        }
    }

    /// Joins and removes pieces.
    fn fewer_pieces(&mut self) {
        let mut index = 0;
        while let Property::Pieces(pieces) = &self.case.property
            && index < pieces.len()
        {
            let mut fewer = pieces.clone();
            let size = fewer.remove(index);
            // Tries to join the piece with the next one, then to remove it.
            let mut joined = fewer.clone();
            if let Some(next) = joined.get_mut(index) {
                *next += size;
            }
            let input = self.case.input.clone();
            let case = |pieces| Case { input: input.clone(), property: Property::Pieces(pieces) };
            if !self.replace_if_broken(case(joined)) && !self.replace_if_broken(case(fewer)) {
                index += 1;
            }
        }
    }

    /// Replaces bytes by 0 or `a`.
    fn simpler_bytes(&mut self) {
        for index in 0..self.case.input.len() {
            for simple in [0, b'a'] {
                let mut bytes = self.case.input.to_vec();
                if bytes[index] == simple {
                    break;
                }
                bytes[index] = simple;
                let property = self.case.property.clone();
                if self.replace_if_broken(Case { input: bytes.into(), property }) {
                    break;
                }
            }
        }
    }
}

/// The case without `count` bytes of its input from `at` on. Pieces and cut are adapted.
fn without(case: &Case, at: usize, count: usize) -> Case {
    let to = (at + count).min(case.input.len());
    let input: Arc<[u8]> = [&case.input[..at], &case.input[to..]].concat().into();
    let adapted = |offset: usize| offset - offset.saturating_sub(at).min(to - at);
    let property = match &case.property {
        Property::Cut(offset) => Property::Cut(adapted((*offset).min(case.input.len()))),
        Property::Pieces(pieces) => {
            let (mut end, mut end_before) = (0, 0);
            let ends = pieces.iter().map(|size| {
                end += size;
                adapted(end.min(case.input.len()))
            });
            let sizes = ends.map(|end| {
                let size = end - end_before;
                end_before = end;
                size
            });
            Property::Pieces(sizes.filter(|size| *size > 0).collect())
        }
        other => other.clone(),
    };
    Case { input, property }
}
