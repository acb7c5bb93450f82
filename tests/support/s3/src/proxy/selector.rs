//! Selects the fault for each request. The same plan and the same requests give the same faults,
//! whatever the order of the requests.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use crate::proxy::{Fault, Plan, Request};

/// The fault that a request will get.
pub(crate) struct SelectedFault {
    pub fault: Fault,
    /// The place within the body, from 0 to 1, if the fault does not give it.
    pub place: f64,
    /// The duration of a stall or a slow start: from the fault, or else from the plan.
    pub hold: Duration,
}

pub(crate) struct FaultSelector {
    plan: Plan,
    counts: Mutex<RequestCounts>,
}

struct RequestCounts {
    /// How often each request was made, by its hash.
    times: HashMap<u64, u32>,
    /// How many requests have matched each rule.
    matched: Vec<u64>,
}

impl FaultSelector {
    pub fn new(plan: Plan) -> Self {
        let matched = vec![0; plan.script.len()];
        Self { plan, counts: Mutex::new(RequestCounts { times: HashMap::new(), matched }) }
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    pub fn select(&self, request: &Request) -> Option<SelectedFault> {
        let key = self.key(request);
        let mut counts = self.counts.lock().expect("nothing panics while it is locked");
        let times = counts.times.entry(key).or_default();
        let mut random = fastrand::Rng::with_seed(key.wrapping_add(u64::from(*times)));
        *times += 1;
        let by_script = self.scripted(&mut counts.matched, request);
        drop(counts);
        // Always drawn, so that a script does not change the random faults of other requests.
        let (chance, place) = (random.f64(), random.f64());
        let by_chance = (chance < self.plan.probability && !self.plan.kinds.is_empty())
            .then(|| Fault::from(self.plan.kinds[random.usize(..self.plan.kinds.len())]));
        let by_hook = self.plan.hook.as_ref().and_then(|hook| hook(request));
        let fault = by_hook.or(by_script).or(by_chance)?;
        let hold = fault.hold.unwrap_or(self.plan.hold);
        Some(SelectedFault { fault, place, hold })
    }

    /// The fault of the first rule that applies. Every rule counts its matches, even if another
    /// rule decides.
    fn scripted(&self, matched: &mut [u64], request: &Request) -> Option<Fault> {
        let mut fault = None;
        for (rule, count) in self.plan.script.iter().zip(matched) {
            if (rule.matches)(request) {
                let applies = *count >= rule.from && *count - rule.from < rule.count;
                *count += 1;
                if applies && fault.is_none() {
                    fault = Some(rule.fault.clone());
                }
            }
        }
        fault
    }

    /// A hash that is equal for equal requests. It omits signatures in queries, which always
    /// differ.
    fn key(&self, request: &Request) -> u64 {
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        let mut hash =
            Fnv(0xcbf2_9ce4_8422_2325 ^ self.plan.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        hash.add(&request.method);
        hash.add(path);
        for pair in query.split('&').filter(|pair| !pair.starts_with("X-Amz-")) {
            hash.add(pair);
        }
        hash.add(request.range.as_deref().unwrap_or_default());
        hash.0
    }
}

/// FNV-1a. The standard library's hash may change with its version, and a seed would then give
/// other faults.
struct Fnv(u64);

impl Fnv {
    fn add(&mut self, text: &str) {
        for byte in text.bytes().chain([0xff]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
