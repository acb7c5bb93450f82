//! What a host told before, and the rates that follow from it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::telemetry::Bottleneck;
use crate::telemetry::status::{ChannelStatus, StatsStatus, Status};
use pipemill_channel::StatsSnapshot;

/// Answers kept: what a wide terminal can show.
const KEPT: usize = 240;
/// What is now is what was in so long.
const WINDOW: Duration = Duration::from_secs(5);

/// The answers of a host, the last at the end.
#[derive(Default)]
pub(super) struct History {
    answers: VecDeque<(Instant, Status)>,
}

/// What a channel does now.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) bytes: f64,
    pub(super) records: f64,
    /// Shares of the time: source, decoder, consumer. Zeroes if there was none.
    pub(super) shares: [f64; 3],
    /// Which stage holds it back.
    pub(super) bottleneck: Option<Bottleneck>,
}

impl History {
    pub(super) fn add(&mut self, at: Instant, status: Status) {
        if self.answers.len() == KEPT {
            self.answers.pop_front();
        }
        self.answers.push_back((at, status));
    }

    pub(super) fn last(&self) -> Option<&Status> {
        self.answers.back().map(|(_, status)| status)
    }

    /// Of a channel, over the last seconds; since its start if it was asked for the first time just now.
    pub(super) fn rates(&self, channel: &str) -> Rates {
        let Some((now, last)) = self.answers.back() else { return Rates::default() };
        let old_enough = |(at, _): &&(Instant, Status)| *now - *at >= WINDOW;
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

    /// Bytes a second of a channel between any two answers, the last at the end.
    pub(super) fn line(&self, channel: &str) -> Vec<u64> {
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
    status.channels.iter().find(|one| one.name == channel)
}

fn rates(now: &StatsStatus, earlier: &StatsStatus, seconds: f64) -> Rates {
    let stage =
        |now: f64, earlier: f64| Duration::try_from_secs_f64(now - earlier).unwrap_or_default();
    let totals = StatsSnapshot {
        source: stage(now.source, earlier.source),
        decoder: stage(now.decoder, earlier.decoder),
        consumer: stage(now.consumer, earlier.consumer),
        ..StatsSnapshot::default()
    };
    let all = totals.time().as_secs_f64();
    let share = |time: Duration| if all > 0.0 { time.as_secs_f64() / all } else { 0.0 };
    let seconds = seconds.max(1e-3);
    Rates {
        bytes: now.bytes.saturating_sub(earlier.bytes) as f64 / seconds,
        records: now.records.saturating_sub(earlier.records) as f64 / seconds,
        shares: [totals.source, totals.decoder, totals.consumer].map(share),
        bottleneck: Bottleneck::of(&totals),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_last_seconds() {
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
        assert_eq!(rates.shares, [0.25, 0.0, 0.75]);
        assert_eq!(rates.bottleneck.map(|bottleneck| bottleneck.percent), Some(75));
    }
}
