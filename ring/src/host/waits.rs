//! How long a consumer waited for each batch: counted in buckets, in little memory.

use std::time::{Duration, Instant};

/// Bits of a time, after its highest one, that tell its bucket: an octave has 16 buckets. So a
/// percentile is at most 1/16 above the true one.
const BITS: u32 = 4;

/// The waits of one consumer. It waits from the moment at which it has ACKed all that it was
/// granted, to the next grant. A grant that comes before that is a wait of no time.
#[derive(Debug, Default)]
pub(super) struct ConsumerWaits {
    /// Since when it has nothing to read. `None` also after the end of an epoch, because nobody
    /// knows when it goes on.
    idle_since: Option<Instant>,
    count: u64,
    total: Duration,
    longest: Duration,
    /// How many waits fall into each bucket.
    buckets: Vec<u32>,
}

/// The waits of a consumer in short.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WaitTimes {
    /// Number of batches that it was granted.
    pub count: u64,
    /// The sum of all waits.
    pub total: Duration,
    /// The longest wait.
    pub longest: Duration,
    /// 50 % of the waits were not longer.
    pub p50: Duration,
    /// 95 % of the waits were not longer.
    pub p95: Duration,
    /// 99 % of the waits were not longer.
    pub p99: Duration,
}

impl ConsumerWaits {
    /// The consumer has nothing to read from now on.
    pub(super) fn idle(&mut self, now: Instant) {
        self.idle_since.get_or_insert(now);
    }

    /// The consumer was told of an end.
    pub(super) fn ended(&mut self) {
        self.idle_since = None;
    }

    /// The consumer is granted a batch.
    pub(super) fn granted(&mut self, now: Instant) {
        let since = self.idle_since.take();
        let wait = since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        self.count += 1;
        self.total += wait;
        self.longest = self.longest.max(wait);
        let bucket = bucket_of(wait);
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] = self.buckets[bucket].saturating_add(1);
    }

    /// The waits in short.
    pub(super) fn times(&self) -> WaitTimes {
        let [p50, p95, p99] = [50, 95, 99].map(|percent| self.percentile(percent));
        let Self { count, total, longest, .. } = *self;
        WaitTimes { count, total, longest, p50, p95, p99 }
    }

    fn percentile(&self, percent: u64) -> Duration {
        let mut left = (self.count * percent).div_ceil(100);
        for (bucket, count) in self.buckets.iter().enumerate() {
            left = left.saturating_sub(u64::from(*count));
            if left == 0 {
                return end_of(bucket).min(self.longest);
            }
        }
        self.longest
    }
}

fn bucket_of(wait: Duration) -> usize {
    let nanos = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
    let shift = nanos.checked_ilog2().unwrap_or(0).saturating_sub(BITS);
    ((u64::from(shift) << BITS) + (nanos >> shift)) as usize
}

/// The longest time of a bucket.
fn end_of(bucket: usize) -> Duration {
    let bucket = bucket as u64;
    let shift = (bucket >> BITS).saturating_sub(1);
    let next = u128::from(bucket - (shift << BITS) + 1) << shift;
    Duration::from_nanos(u64::try_from(next - 1).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_wait_runs_from_the_last_ack_to_the_next_grant() {
        let (mut waits, start) = (ConsumerWaits::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        waits.idle(at(0));
        // It stays idle.
        waits.idle(at(1));
        waits.granted(at(3));
        // It is granted more before it has ACKed all.
        waits.granted(at(4));
        waits.idle(at(10));
        waits.granted(at(11));
        waits.idle(at(20));
        waits.ended();
        waits.granted(at(30));
        let times = waits.times();
        assert_eq!((times.count, times.total.as_secs(), times.longest.as_secs()), (4, 4, 3));
        assert_eq!((times.p50, times.p99), (Duration::ZERO, Duration::from_secs(3)));
    }

    proptest! {
        #[test]
        fn percentiles_are_at_most_a_sixteenth_too_long(
            mut nanos in prop::collection::vec(0u64..1 << 45, 1..300),
        ) {
            let (mut waits, start) = (ConsumerWaits::default(), Instant::now());
            for wait in &nanos {
                waits.idle(start);
                waits.granted(start + Duration::from_nanos(*wait));
            }
            nanos.sort_unstable();
            let times = waits.times();
            for (percent, found) in [(50, times.p50), (95, times.p95), (99, times.p99)] {
                let right = nanos[(nanos.len() * percent).div_ceil(100) - 1];
                let found = found.as_nanos() as u64;
                prop_assert!((right..=right + right / 16).contains(&found), "{right} {found}");
            }
            prop_assert_eq!(times.longest.as_nanos() as u64, nanos[nanos.len() - 1]);
        }

        #[test]
        fn a_time_lies_in_its_bucket(nanos in any::<u64>()) {
            let wait = Duration::from_nanos(nanos);
            let bucket = bucket_of(wait);
            prop_assert!(wait <= end_of(bucket));
            prop_assert!(bucket == 0 || wait > end_of(bucket - 1));
        }
    }
}
