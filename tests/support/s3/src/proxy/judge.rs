//! Decides which request gets which fault. The same plan and the same requests give the same faults, in
//! whatever order the requests come.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use crate::proxy::{Fault, Plan, Request};

/// What a request will suffer.
pub(crate) struct Verdict {
    pub fault: Fault,
    /// Where within a body, from 0 to 1, if the fault does not say it.
    pub place: f64,
    /// For how long: as the fault says, or else the plan.
    pub hold: Duration,
}

pub(crate) struct Judge {
    plan: Plan,
    asked: Mutex<Asked>,
}

struct Asked {
    /// How often each request was made.
    times: HashMap<u64, u32>,
    /// How many requests matched each rule.
    matched: Vec<u64>,
}

impl Judge {
    pub fn new(plan: Plan) -> Self {
        let matched = vec![0; plan.script.len()];
        Self { plan, asked: Mutex::new(Asked { times: HashMap::new(), matched }) }
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    pub fn judge(&self, request: &Request) -> Option<Verdict> {
        let key = self.key(request);
        let mut asked = self.asked.lock().expect("nothing panics while it is locked");
        let times = asked.times.entry(key).or_default();
        let mut random = fastrand::Rng::with_seed(key.wrapping_add(u64::from(*times)));
        *times += 1;
        let scripted = self.scripted(&mut asked.matched, request);
        drop(asked);
        // Drawn in any case, so that a script does not change what chance does to others.
        let (chance, place) = (random.f64(), random.f64());
        let by_chance = (chance < self.plan.probability && !self.plan.kinds.is_empty())
            .then(|| Fault::from(self.plan.kinds[random.usize(..self.plan.kinds.len())]));
        let hooked = self.plan.hook.as_ref().and_then(|hook| hook(request));
        let fault = hooked.or(scripted).or(by_chance)?;
        let hold = fault.hold.unwrap_or(self.plan.hold);
        Some(Verdict { fault, place, hold })
    }

    /// Every rule counts what it matches, also where another decides.
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

    /// Of what makes a request the same as another. Signatures in queries differ each time.
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

/// FNV-1a: the standard library's hash may change, and with it all that a seed means.
struct Fnv(u64);

impl Fnv {
    fn add(&mut self, text: &str) {
        for byte in text.bytes().chain([0xff]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
