//! The plans that were made last. Blocks of an object have one plan, however they are shuffled.

use std::collections::HashMap;
use std::sync::Arc;

use crate::plan::Plan;

/// Bytes that the plans take in memory, unless one alone takes more.
pub const KEPT_PLAN_BYTES: u64 = 8 << 20;
/// Bytes of an entry that count in addition to its plan and its texts.
const ENTRY_BYTES: usize = 256;

/// An object with this content, and with companions of these sizes. Their content is part of the
/// identity.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PlanKey {
    pub(crate) name: String,
    pub(crate) identity: String,
    pub(crate) sizes: Vec<u64>,
}

/// What a decoder has answered for an object.
#[derive(Debug, Clone)]
pub(crate) enum Made {
    Plan(Arc<Plan>),
    /// The object is shown as without a plan.
    Whole,
}

/// The plans that were used last.
#[derive(Debug, Default)]
pub(crate) struct PlanCache {
    kept: HashMap<PlanKey, Kept>,
    /// Bytes of all of them.
    bytes: usize,
    /// Number of uses so far.
    uses: u64,
}

#[derive(Debug)]
struct Kept {
    made: Made,
    bytes: usize,
    /// The number of the last use.
    used: u64,
}

impl PlanCache {
    /// The answer for this object, if it is still there.
    pub(crate) fn get(&mut self, key: &PlanKey) -> Option<Made> {
        self.uses += 1;
        let kept = self.kept.get_mut(key)?;
        kept.used = self.uses;
        Some(kept.made.clone())
    }

    /// Keeps the answer for an object, and as many of the last ones before it as there is room for.
    /// An object without an identity may be another one the next time.
    pub(crate) fn keep(&mut self, key: PlanKey, made: Made) {
        if key.identity.is_empty() {
            return;
        }
        let plan = match &made {
            Made::Plan(plan) => plan.memory(),
            Made::Whole => 0,
        };
        let bytes = plan + key.name.len() + key.identity.len() + ENTRY_BYTES;
        let room = (KEPT_PLAN_BYTES as usize).saturating_sub(bytes);
        while self.bytes > room
            && let Some(oldest) = self.oldest()
        {
            let kept = self.kept.remove(&oldest);
            self.bytes -= kept.map_or(0, |kept| kept.bytes);
        }
        self.uses += 1;
        let before = self.kept.insert(key, Kept { made, bytes, used: self.uses });
        self.bytes += bytes;
        self.bytes -= before.map_or(0, |before| before.bytes);
    }

    fn oldest(&self) -> Option<PlanKey> {
        self.kept.iter().min_by_key(|(_, kept)| kept.used).map(|(key, _)| key.clone())
    }
}

#[cfg(test)]
mod tests {
    use pipemill_decode::PlanPart;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn key(number: usize) -> PlanKey {
        let (name, identity) = (number.to_string(), format!("etag:{number}"));
        PlanKey { name, identity, sizes: vec![1] }
    }

    fn plan(bytes: usize) -> Made {
        let part = PlanPart { context: vec![0; bytes], ranges: Vec::new(), records: None };
        Made::Plan(Arc::new(Plan::of(&[part], &[1]).expect("it has no ranges")))
    }

    proptest! {
        #[test]
        fn the_plans_that_were_used_last_are_kept(
            uses in vec((0_usize..12, 0_usize..(3 << 20)), 1..60),
        ) {
            let mut cache = PlanCache::default();
            let mut last: Vec<(usize, usize)> = Vec::new();
            for (number, size) in uses {
                let known = last.iter().position(|(one, _)| *one == number);
                let found = cache.get(&key(number)).map(|made| match made {
                    Made::Plan(plan) => plan.size(),
                    Made::Whole => 0,
                });
                let known = known.map(|at| last.remove(at));
                prop_assert_eq!(found, known.map(|(_, size)| size as u64));
                let size = known.map_or(size, |(_, size)| size);
                if found.is_none() {
                    cache.keep(key(number), plan(size));
                }
                last.push((number, size));
                prop_assert!(cache.bytes <= KEPT_PLAN_BYTES as usize);
                while !cache.kept.contains_key(&key(last[0].0)) {
                    last.remove(0);
                }
                prop_assert_eq!(cache.kept.len(), last.len());
                let all: usize = cache.kept.values().map(|kept| kept.bytes).sum();
                prop_assert_eq!(cache.bytes, all);
            }
        }
    }

    #[test]
    fn another_object_of_the_same_name_has_another_plan() {
        let mut cache = PlanCache::default();
        cache.keep(key(1), Made::Whole);
        assert!(cache.get(&key(1)).is_some());
        assert!(cache.get(&PlanKey { identity: "etag:2".to_owned(), ..key(1) }).is_none());
        assert!(cache.get(&PlanKey { sizes: vec![1, 2], ..key(1) }).is_none());
        let unknown = PlanKey { identity: String::new(), ..key(1) };
        cache.keep(unknown.clone(), Made::Whole);
        assert!(cache.get(&unknown).is_none());
    }
}
