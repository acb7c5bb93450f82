//! A checked plan: which bytes follow each other, and where each part begins.

use std::ops::Range;
use std::sync::Arc;

use pipemill_decode::PlanPart;
use pipemill_types::{PlanParts, PlannedPart};

/// The bytes of an object that its decoder is shown, in order.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The contexts of all parts.
    contexts: Vec<u8>,
    /// Not empty ones, in order and without a gap.
    runs: Vec<Run>,
    /// Those that have bytes.
    parts: Arc<PlanParts>,
}

/// Bytes that follow each other in the place where they come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// Place of the first one in the plan.
    pub(crate) at: u64,
    pub(crate) length: u64,
    pub(crate) from: Origin,
}

/// Where bytes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The contexts, from this place on.
    Contexts(usize),
    /// The object (0) or one of its companions, from this byte on.
    Object { of: usize, offset: u64 },
}

impl Run {
    pub(crate) fn end(&self) -> u64 {
        self.at + self.length
    }
}

impl Plan {
    /// The plan of an object and its companions of these sizes. `None` if a range is not in them,
    /// or if all bytes together are more than 64 bits can count.
    pub(crate) fn of(parts: &[PlanPart], sizes: &[u64]) -> Option<Self> {
        let mut plan = Self { contexts: Vec::new(), runs: Vec::new(), parts: Arc::default() };
        let mut with_bytes = Vec::with_capacity(parts.len());
        for (number, part) in parts.iter().enumerate() {
            let start = plan.end();
            let context = plan.contexts.len();
            plan.contexts.extend_from_slice(&part.context);
            plan.push(part.context.len() as u64, Origin::Contexts(context))?;
            for range in &part.ranges {
                let (of, bytes) = (usize::try_from(range.of).ok()?, range.within(sizes)?);
                let from = Origin::Object { of, offset: bytes.start };
                plan.push(bytes.end - bytes.start, from)?;
            }
            if plan.end() > start {
                with_bytes.push(PlannedPart { number, start, records: part.records });
            }
        }
        plan.parts = Arc::new(PlanParts::new(with_bytes, plan.end()));
        Some(plan)
    }

    /// The end of its last run.
    fn end(&self) -> u64 {
        self.runs.last().map_or(0, Run::end)
    }

    /// Adds bytes at the end.
    fn push(&mut self, length: u64, from: Origin) -> Option<()> {
        let at = self.end();
        at.checked_add(length)?;
        let last = self.runs.last_mut();
        match (last, from) {
            _ if length == 0 => {}
            (
                Some(Run { length: before, from: Origin::Object { of, offset }, .. }),
                Origin::Object { of: next_of, offset: next },
            ) if *of == next_of && *offset + *before == next => {
                *before += length;
            }
            _ => self.runs.push(Run { at, length, from }),
        }
        Some(())
    }

    /// Its parts.
    pub(crate) fn parts(&self) -> &Arc<PlanParts> {
        &self.parts
    }

    /// Number of its bytes.
    pub(crate) fn size(&self) -> u64 {
        self.parts.size()
    }

    /// Bytes that it takes in memory.
    pub(crate) fn memory(&self) -> usize {
        self.contexts.len() + size_of_val(&self.runs[..]) + size_of_val(self.parts.all())
    }

    /// The run that has this byte; `None` at the end.
    pub(crate) fn run_with(&self, offset: u64) -> Option<&Run> {
        let run = self.runs.partition_point(|run| run.end() <= offset);
        self.runs.get(run)
    }

    /// Bytes of the contexts.
    pub(crate) fn context(&self, range: Range<usize>) -> &[u8] {
        &self.contexts[range]
    }
}

#[cfg(test)]
mod tests {
    use pipemill_decode::PlanRange;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn part((context, ranges): (Vec<u8>, Vec<(u32, u64, u64)>)) -> PlanPart {
        let range = |(of, offset, length)| PlanRange { of, offset, length };
        let records = context.first().map(|first| u64::from(*first));
        PlanPart { context, ranges: ranges.into_iter().map(range).collect(), records }
    }

    proptest! {
        #[test]
        fn runs_have_each_byte_of_the_parts_in_order(
            parts in vec(
                (vec(any::<u8>(), 0..4), vec((0_u32..3, 0_u64..60, 0_u64..40), 0..4)), 0..6,
            ),
        ) {
            let objects: [Vec<u8>; 3] = [0, 50, 100].map(|first| (first..first + 100).collect());
            let parts: Vec<_> = parts.into_iter().map(part).collect();
            let (mut expected, mut starts) = (Vec::new(), Vec::new());
            for (number, part) in parts.iter().enumerate() {
                let start = expected.len();
                expected.extend_from_slice(&part.context);
                for range in &part.ranges {
                    let from = range.offset as usize;
                    let object = &objects[range.of as usize];
                    expected.extend_from_slice(&object[from..from + range.length as usize]);
                }
                if expected.len() > start {
                    let (start, records) = (start as u64, part.records);
                    starts.push(PlannedPart { number, start, records });
                }
            }
            let plan = Plan::of(&parts, &[100; 3]).expect("all ranges are in the objects");
            prop_assert_eq!(plan.size(), expected.len() as u64);
            let (mut found, mut at) = (Vec::new(), 0);
            while let Some(run) = plan.run_with(at) {
                prop_assert_eq!(run.at, at);
                let length = run.length as usize;
                found.extend_from_slice(match run.from {
                    Origin::Contexts(from) => plan.context(from..from + length),
                    Origin::Object { of, offset } => &objects[of][offset as usize..][..length],
                });
                at = run.end();
            }
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!(plan.parts().all(), &starts);
            for offset in 0..=plan.size() {
                let next = starts.iter().find(|part| part.start >= offset).map(|part| part.start);
                prop_assert_eq!(plan.parts().next_start(offset), next.unwrap_or(plan.size()));
            }
            let all = starts.iter().map(|part| part.records).sum();
            prop_assert_eq!(plan.parts().records(), all);
        }
    }

    #[test]
    fn ranges_outside_of_the_object_are_no_plan() {
        for (of, offset, length) in [
            (0, 0, 101),
            (0, 100, 1),
            (0, 101, 0),
            (0, u64::MAX, 1),
            (0, 1, u64::MAX),
            (1, 0, 51),
            (2, 0, 0),
            (u32::MAX, 0, 0),
        ] {
            let parts = [part((vec![], vec![(of, offset, length)]))];
            assert!(Plan::of(&parts, &[100, 50]).is_none(), "{of} {offset} {length}");
        }
        let all = vec![(0, 0, u64::MAX); 2];
        assert!(Plan::of(&[part((vec![], all))], &[u64::MAX]).is_none());
    }
}
