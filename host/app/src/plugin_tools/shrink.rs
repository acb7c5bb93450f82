//! From an input that shows a fault to the smallest one that still shows one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::check::{Case, Property};
use super::decode_run::PluginUnderTest;

/// The smallest case found in `patience` that breaks its property, and how it does.
pub(super) fn shrink(
    subject: &PluginUnderTest,
    case: Case,
    broken: String,
    patience: Duration,
) -> (Case, String) {
    let mut search = Search { subject, until: Instant::now() + patience, case, broken };
    loop {
        let before = (search.case.input.len(), search.case.property.clone());
        search.fewer_bytes();
        search.fewer_pieces();
        if before == (search.case.input.len(), search.case.property.clone()) {
            search.simpler_bytes();
            return (search.case, search.broken);
        }
    }
}

struct Search<'a> {
    subject: &'a PluginUnderTest,
    until: Instant,
    case: Case,
    broken: String,
}

impl Search<'_> {
    /// Takes the candidate if it is broken, too.
    fn take(&mut self, candidate: Case) -> bool {
        if Instant::now() > self.until {
            return false;
        }
        match candidate.check(self.subject) {
            Ok(_) => false,
            Err(broken) => {
                (self.case, self.broken) = (candidate, broken);
                true
            }
        }
    }

    fn fewer_bytes(&mut self) {
        let mut step = self.case.input.len().next_power_of_two();
        while step > 0 {
            let mut at = 0;
            while at < self.case.input.len() {
                if !self.take(without(&self.case, at, step)) {
                    at += step;
                }
            }
            step /= 2;
        }
    }

    fn fewer_pieces(&mut self) {
        let mut index = 0;
        while let Property::Pieces(pieces) = &self.case.property
            && index < pieces.len()
        {
            let mut fewer = pieces.clone();
            let size = fewer.remove(index);
            // First without the cut behind the piece, then without the piece.
            let mut joined = fewer.clone();
            if let Some(next) = joined.get_mut(index) {
                *next += size;
            }
            let input = self.case.input.clone();
            let case = |pieces| Case { input: input.clone(), property: Property::Pieces(pieces) };
            if !self.take(case(joined)) && !self.take(case(fewer)) {
                index += 1;
            }
        }
    }

    fn simpler_bytes(&mut self) {
        for index in 0..self.case.input.len() {
            for simple in [0, b'a'] {
                let mut bytes = self.case.input.to_vec();
                if bytes[index] == simple {
                    break;
                }
                bytes[index] = simple;
                let property = self.case.property.clone();
                if self.take(Case { input: bytes.into(), property }) {
                    break;
                }
            }
        }
    }
}

/// The case without `count` bytes of its input from `at` on, and pieces to match.
fn without(case: &Case, at: usize, count: usize) -> Case {
    let to = (at + count).min(case.input.len());
    let input: Arc<[u8]> = [&case.input[..at], &case.input[to..]].concat().into();
    let moved = |place: usize| place - place.saturating_sub(at).min(to - at);
    let property = match &case.property {
        Property::Cut(place) => Property::Cut(moved((*place).min(case.input.len()))),
        Property::Pieces(pieces) => {
            let (mut end, mut end_before) = (0, 0);
            let ends = pieces.iter().map(|size| {
                end += size;
                moved(end.min(case.input.len()))
            });
            let sizes = ends.map(|end| {
                let size = end - end_before;
                end_before = end;
                size
            });
            Property::Pieces(sizes.filter(|size| *size > 0).collect())
        }
    };
    Case { input, property }
}
