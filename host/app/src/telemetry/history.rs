//! How channels went over time: a thread that looks at their meters every so often. It keeps a bounded number of
//! samples, of a short run dense ones, of a long run those further apart.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::ChannelHandle;
use pipemill_channel::StatsSnapshot;

/// Samples of a channel that are kept, at most.
const MOST: usize = 600;
/// How often is looked at first.
const FIRST: Duration = Duration::from_millis(50);

/// How a channel stood at a moment. The moment is `totals.time()`, counted from the channel's start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    /// What it had done by then.
    pub totals: StatsSnapshot,
    /// Its slots.
    pub slots: Slots,
}

/// Slots by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slots {
    /// They hold nothing.
    pub free: u32,
    /// Being filled.
    pub filling: u32,
    /// They wait for a consumer.
    pub ready: u32,
    /// With consumers.
    pub granted: u32,
}

/// Samples of one channel, the oldest first. Since each holds what was done from the start on, one that is left out
/// takes nothing of the sum with it.
#[derive(Debug, Default)]
struct Series {
    samples: Vec<Sample>,
}

impl Series {
    /// Adds a sample; the same moment again is none.
    fn push(&mut self, sample: Sample) {
        match self.samples.last_mut() {
            Some(last) if last.totals.time() == sample.totals.time() => *last = sample,
            _ => self.samples.push(sample),
        }
    }

    fn is_full(&self) -> bool {
        self.samples.len() >= MOST
    }

    /// Every second one is left out; the first stays.
    fn thin(&mut self) {
        let mut keep = false;
        self.samples.retain(|_| {
            keep = !keep;
            keep
        });
    }
}

/// A run's history while it is being written.
pub struct History {
    stop: Sender<()>,
    thread: JoinHandle<Vec<Series>>,
}

impl History {
    /// Begins to look at these channels, which have not begun.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(channels: Vec<Arc<ChannelHandle>>) -> io::Result<Self> {
        let (stop, stopped) = channel();
        // The first sample before anything is done.
        let first = |channel: &Arc<ChannelHandle>| Series { samples: vec![look(channel)] };
        let mut all: Vec<_> = channels.iter().map(first).collect();
        let work = move || {
            let mut interval = FIRST;
            let mut next = Instant::now();
            loop {
                next += interval;
                let wait = next.saturating_duration_since(Instant::now());
                if wait.is_zero() {
                    // Behind, as after SIGSTOP: not to be made up for.
                    next = Instant::now();
                }
                let over = stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout);
                for (series, channel) in all.iter_mut().zip(&channels) {
                    series.push(look(channel));
                }
                if over {
                    return all;
                }
                if all.iter().any(Series::is_full) {
                    all.iter_mut().for_each(Series::thin);
                    interval *= 2;
                }
            }
        };
        let thread = thread::Builder::new().name("history".into()).spawn(work)?;
        Ok(Self { stop, thread })
    }

    /// Looks a last time; the samples of each channel, in the order of the start.
    pub fn finish(self) -> Vec<Vec<Sample>> {
        // It listens until it is told.
        let _ = self.stop.send(());
        let all = self.thread.join().unwrap_or_default();
        all.into_iter().map(|series| series.samples).collect()
    }
}

fn look(channel: &ChannelHandle) -> Sample {
    let status = channel.ring.status();
    let slots = Slots {
        free: status.free,
        filling: status.filling,
        ready: status.ready,
        granted: status.granted,
    };
    Sample { totals: channel.stats.snapshot(), slots }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Sample {
        let totals = StatsSnapshot {
            source: Duration::from_secs(seconds),
            bytes: seconds,
            ..StatsSnapshot::default()
        };
        Sample { totals, ..Sample::default() }
    }

    #[test]
    fn thinning_keeps_the_first_and_the_sum() {
        let mut series = Series::default();
        let mut step = 1;
        for second in 0..100_000 {
            if second % step == 0 {
                series.push(at(second));
            }
            if series.is_full() {
                series.thin();
                step *= 2;
            }
        }
        assert!((MOST / 2..=MOST).contains(&series.samples.len()));
        assert_eq!(series.samples[0], at(0));
        let steps = series.samples.windows(2).map(|two| two[1].totals.bytes - two[0].totals.bytes);
        assert!(steps.into_iter().all(|bytes| bytes == step), "evenly apart");
    }

    #[test]
    fn a_channel_that_stands_adds_nothing() {
        let mut series = Series::default();
        for second in [0, 1, 1, 1] {
            series.push(at(second));
        }
        assert_eq!(series.samples, [at(0), at(1)]);
    }
}
