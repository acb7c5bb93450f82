//! Samples of the channels' statistics over time, for the plots of the report. A thread takes them
//! at an interval. The number of samples is bounded: when a channel has too many, every second one
//! is dropped and the interval doubles.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pipemill_channel::StatsSnapshot;

use super::ChannelHandle;

/// Largest number of samples that are kept of a channel.
const MAX_SAMPLES: usize = 600;
/// Interval between samples at the start of a run.
const FIRST_INTERVAL: Duration = Duration::from_millis(50);

/// The statistics of a channel at one moment. The moment is `totals.time()`, from the channel's
/// start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    /// Counts and times since the channel's start.
    pub totals: StatsSnapshot,
    /// The slots of its ring.
    pub slots: SlotCounts,
}

/// Number of slots of a ring in each state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlotCounts {
    /// They hold no batch.
    pub free: u32,
    /// The channel fills them.
    pub filling: u32,
    /// They wait for a consumer.
    pub ready: u32,
    /// Consumers hold them.
    pub granted: u32,
}

/// Samples of one channel, the oldest first. Each holds totals since the start, so dropping a
/// sample loses no counts.
#[derive(Debug, Default)]
struct Series {
    samples: Vec<Sample>,
}

impl Series {
    /// Adds a sample. It replaces the last one if the channel's time has not advanced.
    fn push(&mut self, sample: Sample) {
        match self.samples.last_mut() {
            Some(last) if last.totals.time() == sample.totals.time() => *last = sample,
            _ => self.samples.push(sample),
        }
    }

    fn is_full(&self) -> bool {
        self.samples.len() >= MAX_SAMPLES
    }

    /// Drops every second sample. The first one stays.
    fn thin(&mut self) {
        let mut keep = false;
        self.samples.retain(|_| {
            keep = !keep;
            keep
        });
    }
}

/// The thread that takes samples.
pub struct Sampler {
    stop: Sender<()>,
    thread: JoinHandle<Vec<Series>>,
}

impl Sampler {
    /// Starts to take samples of these channels, which have not started yet.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(channels: Vec<Arc<ChannelHandle>>) -> io::Result<Self> {
        let (stop, stopped) = channel();
        // The first sample is taken here, before the channels start.
        let first = |channel: &Arc<ChannelHandle>| Series { samples: vec![sample(channel)] };
        let mut all: Vec<_> = channels.iter().map(first).collect();
        let work = move || {
            let mut interval = FIRST_INTERVAL;
            let mut next = Instant::now();
            loop {
                next += interval;
                let wait = next.saturating_duration_since(Instant::now());
                if wait.is_zero() {
                    // Late, for example after SIGSTOP: missed samples are not made up for.
                    next = Instant::now();
                }
                let over = stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout);
                for (series, channel) in all.iter_mut().zip(&channels) {
                    series.push(sample(channel));
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
        let thread = thread::Builder::new().name("sampler".into()).spawn(work)?;
        Ok(Self { stop, thread })
    }

    /// Takes a last sample of each channel. Returns the samples of each channel, in the order of
    /// `start`.
    pub fn finish(self) -> Vec<Vec<Sample>> {
        // The thread receives until this arrives, so sending can't fail.
        let _ = self.stop.send(());
        let all = self.thread.join().unwrap_or_default();
        all.into_iter().map(|series| series.samples).collect()
    }
}

fn sample(channel: &ChannelHandle) -> Sample {
    let status = channel.ring.status();
    let slots = SlotCounts {
        free: status.free,
        filling: status.filling,
        ready: status.ready,
        granted: status.granted,
    };
    Sample { totals: channel.stats.snapshot(), slots }
}

#[cfg(test)]
mod tests {
    use pipemill_channel::{Stage, StageTimes};

    use super::*;

    fn at(seconds: u64) -> Sample {
        let totals = StatsSnapshot {
            stages: StageTimes::default().with(Stage::Source, Duration::from_secs(seconds)),
            bytes: seconds,
            ..StatsSnapshot::default()
        };
        Sample { totals, ..Sample::default() }
    }

    #[test]
    fn thinning_keeps_the_first_sample_and_all_counts() {
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
        assert!((MAX_SAMPLES / 2..=MAX_SAMPLES).contains(&series.samples.len()));
        assert_eq!(series.samples[0], at(0));
        let steps = series.samples.windows(2).map(|two| two[1].totals.bytes - two[0].totals.bytes);
        assert!(steps.into_iter().all(|bytes| bytes == step), "evenly apart");
    }

    #[test]
    fn a_channel_whose_time_stands_still_adds_no_samples() {
        let mut series = Series::default();
        for second in [0, 1, 1, 1] {
            series.push(at(second));
        }
        assert_eq!(series.samples, [at(0), at(1)]);
    }
}
