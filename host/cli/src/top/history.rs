//! Earlier status answers of a host, and the rates that are computed from them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use pipemill_channel::{Stage, StageTimes, StatsSnapshot};

use pipemill_telemetry::Bottleneck;
use pipemill_telemetry::status::{ChannelStatus, StatsStatus, Status};

/// Number of answers that are kept: a wide terminal can show this many.
const MAX_ANSWERS: usize = 240;
/// The current rate is the mean over this time.
const RATE_WINDOW: Duration = Duration::from_secs(5);

/// The answers of a host, from old to new.
#[derive(Default)]
pub(super) struct StatusHistory {
    answers: VecDeque<(Instant, Status)>,
}

/// The current rates of a channel.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Rates {
    /// Bytes per second.
    pub(super) bytes: f64,
    /// Records per second.
    pub(super) records: f64,
    /// Shares of the time from 0 to 1, in the order of [`Stage::ALL`]. All 0 if there was no time.
    pub(super) shares: [f64; Stage::ALL.len()],
    /// The stage that limits the channel's rate.
    pub(super) bottleneck: Option<Bottleneck>,
}

impl StatusHistory {
    pub(super) fn add(&mut self, at: Instant, status: Status) {
        if self.answers.len() == MAX_ANSWERS {
            self.answers.pop_front();
        }
        self.answers.push_back((at, status));
    }

    pub(super) fn last(&self) -> Option<&Status> {
        self.answers.back().map(|(_, status)| status)
    }

    /// The channel's rates over the last seconds. With one answer only: since the start of the
    /// host.
    pub(super) fn rates(&self, channel: &str) -> Rates {
        let Some((now, last)) = self.answers.back() else { return Rates::default() };
        let old_enough = |(at, _): &&(Instant, Status)| *now - *at >= RATE_WINDOW;
        let before = self.answers.iter().rev().find(old_enough).or(self.answers.front());
        let before = before.filter(|(at, _)| at < now);
        let Some(channel_now) = find(last, channel) else { return Rates::default() };
        let (earlier, seconds) = match before {
            Some((at, status)) => (
                find(status, channel).map_or_else(Default::default, |channel| channel.totals),
                (*now - *at).as_secs_f64(),
            ),
            None => (StatsStatus::default(), last.uptime),
        };
        rates(&channel_now.totals, &earlier, seconds)
    }

    /// The channel's bytes per second between each two answers, from old to new.
    pub(super) fn byte_rates(&self, channel: &str) -> Vec<u64> {
        let pairs = self.answers.iter().zip(self.answers.iter().skip(1));
        let rate = |((then, before), (now, after)): (&(Instant, Status), &(Instant, Status))| {
            let bytes = |status| find(status, channel).map_or(0, |channel| channel.totals.bytes);
            let seconds = (*now - *then).as_secs_f64().max(1e-3);
            (bytes(after).saturating_sub(bytes(before)) as f64 / seconds) as u64
        };
        pairs.map(rate).collect()
    }
}

fn find<'s>(status: &'s Status, channel: &str) -> Option<&'s ChannelStatus> {
    status.channels.iter().find(|status| status.name == channel)
}

fn rates(now: &StatsStatus, earlier: &StatsStatus, seconds: f64) -> Rates {
    let stages = Stage::ALL.into_iter().fold(StageTimes::default(), |times, stage| {
        let seconds = now.of(stage) - earlier.of(stage);
        times.with(stage, Duration::try_from_secs_f64(seconds).unwrap_or_default())
    });
    let totals = StatsSnapshot { stages, ..StatsSnapshot::default() };
    let all = totals.time().as_secs_f64();
    let share = |time: Duration| if all > 0.0 { time.as_secs_f64() / all } else { 0.0 };
    let seconds = seconds.max(1e-3);
    Rates {
        bytes: now.bytes.saturating_sub(earlier.bytes) as f64 / seconds,
        records: now.records.saturating_sub(earlier.records) as f64 / seconds,
        shares: Stage::ALL.map(|stage| share(totals.of(stage))),
        bottleneck: Bottleneck::of(&totals),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_computed_from_the_difference_of_two_answers() {
        let earlier = StatsStatus { bytes: 1_000, records: 10, source: 1.0, ..Default::default() };
        let now = StatsStatus {
            bytes: 5_000,
            records: 30,
            source: 2.0,
            consumer: 3.0,
            ..Default::default()
        };
        let rates = rates(&now, &earlier, 4.0);
        assert_eq!((rates.bytes, rates.records), (1_000.0, 5.0));
        assert_eq!(rates.shares, [0.25, 0.0, 0.0, 0.75, 0.0]);
        assert_eq!(rates.bottleneck.map(|bottleneck| bottleneck.percent), Some(75));
    }
}
