//! The current wait of a channel, and when it began: a pure rule of the channel's state and a
//! clock.
//!
//! A wait can only be ended by others: consumers that are not connected, a FIFO that does not
//! exist, a source that gives nothing. Back-pressure is no wait: consumers that are connected take
//! the next batch when they are done with the one before. The ring itself logs consumers that keep
//! a batch for long.

use std::time::{Duration, Instant};

use humantime::format_duration;
use pipemill_channel::Stage;
use pipemill_ring::host::Status;
use pipemill_source::AwaitedObject;

use pipemill_config::Source;

/// A source that has given nothing for less than this time is still working.
const MIN_SILENCE: Duration = Duration::from_secs(1);
/// A wait is reported after these times, and then each time that [`REPORT_INTERVAL`] has passed.
const FIRST_REPORTS: [Duration; 3] =
    [Duration::from_secs(10), Duration::from_secs(60), Duration::from_secs(5 * 60)];
const REPORT_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// The kind of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitReason {
    /// Nobody is connected, or fewer consumers than the channel needs.
    Consumers,
    /// The FIFO of the next epoch does not exist.
    Fifo,
    /// The object that is read gives no byte.
    Bytes,
    /// The source gives no object.
    Object,
}

impl WaitReason {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Consumers, Self::Fifo, Self::Bytes, Self::Object];

    /// The word for it in the status, the metrics and the log's fields.
    pub fn word(self) -> &'static str {
        match self {
            Self::Consumers => "consumers",
            Self::Fifo => "fifo",
            Self::Bytes => "bytes",
            Self::Object => "object",
        }
    }
}

/// A wait of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// Its kind.
    pub reason: WaitReason,
    /// When the wait began.
    pub since: Instant,
    /// The cause of the wait, for a person: the words after "waiting for".
    pub what: String,
    /// The remedy.
    pub remedy: String,
}

/// The state of a running channel at one moment.
pub(super) struct Observed<'a> {
    /// The channel's name.
    pub(super) channel: &'a str,
    /// Its source, as configured.
    pub(super) source: &'a Source,
    /// The stage that its thread is in.
    pub(super) stage: Option<Stage>,
    /// The object that its source waits for.
    pub(super) awaited: Option<AwaitedObject>,
    /// The object that is read.
    pub(super) object: Option<String>,
    /// The time since which the source has given nothing.
    pub(super) silent_since: Option<Instant>,
    /// Number of consumers that must be connected before the first batch is granted.
    pub(super) needed: u32,
    /// Its ring.
    pub(super) ring: &'a Status,
}

impl Observed<'_> {
    /// The channel's wait; `None` if it needs nothing from others. Missing consumers come first if
    /// there are batches to read: then the source may wait for them, too.
    pub(super) fn wait(&self, now: Instant) -> Option<Wait> {
        let consumers = self.missing_consumers();
        let has_batches = self.ring.ready + self.ring.dedicated > 0;
        if has_batches && consumers.is_some() {
            return consumers;
        }
        self.silent_source(now).or(consumers)
    }

    fn missing_consumers(&self) -> Option<Wait> {
        let Self { channel, needed, ring, .. } = *self;
        let connected = ring.consumers.len();
        if ring.started && connected > 0 {
            return self.missing_rank();
        }
        let (what, remedy) = match needed {
            _ if ring.started => (
                format!("a consumer: all that were connected to `{channel}` have left"),
                "start a consumer again, or end the run",
            ),
            ..=1 => (
                format!("a consumer: nobody has connected to `{channel}`"),
                "start what reads it, or leave the channel out",
            ),
            _ if !ring.ever_connected => (
                format!("{needed} consumers: nobody has connected to `{channel}`"),
                "start what reads it, lower `consumers`, or leave the channel out",
            ),
            _ => (
                format!("more consumers: {connected} of {needed} consumers of `{channel}`"),
                "start the others, or lower `consumers`",
            ),
        };
        let (reason, since) = (WaitReason::Consumers, ring.consumers_since);
        Some(Wait { reason, since, what, remedy: remedy.to_owned() })
    }

    /// A rank that has left, and for which the others wait. Its batches fill the slots, because all
    /// ranks get equally many.
    fn missing_rank(&self) -> Option<Wait> {
        let Self { channel, needed, ring, .. } = *self;
        let (rank, pid) = ring.left_ranks.first().filter(|_| ring.writer_waits)?;
        let others = match ring.left_ranks.len() {
            1 => String::new(),
            count => format!(", and {} more ranks", count - 1),
        };
        Some(Wait {
            reason: WaitReason::Consumers,
            since: ring.consumers_since,
            what: format!(
                "rank {rank} of the {needed} ranks of `{channel}`: its process {pid} has \
                 left{others}"
            ),
            remedy: "look at why it has left; start it again, or end the other ranks".to_owned(),
        })
    }

    fn silent_source(&self, now: Instant) -> Option<Wait> {
        if self.stage != Some(Stage::Source) {
            return None;
        }
        if let Some(AwaitedObject { name, since, remedy, .. }) = &self.awaited {
            return Some(Wait {
                reason: WaitReason::Fifo,
                since: *since,
                what: format!("the FIFO {name}, which does not exist"),
                remedy: remedy.clone(),
            });
        }
        let since = self.silent_since?;
        if now.saturating_duration_since(since) < MIN_SILENCE {
            return None;
        }
        let (reason, what) = match &self.object {
            Some(name) if name == "-" => (WaitReason::Bytes, "bytes of standard input".to_owned()),
            Some(name) => (WaitReason::Bytes, format!("bytes of {name}")),
            None => (WaitReason::Object, "the next object of its source".to_owned()),
        };
        let remedy = match self.source {
            Source::Fifo { .. } => "see whether its writer runs; `idle_timeout` limits this time",
            Source::Stdin { .. } => "see whether the program that writes it runs",
            Source::Files { .. } | Source::Index(_) => {
                "see whether the disk or file system answers"
            }
            Source::S3(_) => "see whether the server answers; `retry_timeout` limits this time",
            Source::Mix(_) => "see whether the channels that it mixes have input",
        };
        Some(Wait { reason, since, what, remedy: remedy.to_owned() })
    }
}

impl Wait {
    /// For how long the channel has waited.
    pub fn time(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }

    /// Whether it has lasted long enough to be logged.
    pub(super) fn is_long(&self, now: Instant) -> bool {
        reports_due(self.time(now)) > 0
    }

    /// For a person: the time and the cause of the wait.
    pub(super) fn words(&self, now: Instant) -> String {
        words(&self.what, self.time(now))
    }
}

/// For a person: the time and the cause of a wait.
pub fn words(what: &str, time: Duration) -> String {
    format!("it has waited {} for {what}", show_time(time))
}

/// A time for a person, in whole seconds.
pub fn show_time(time: Duration) -> String {
    format_duration(Duration::from_secs(time.as_secs())).to_string()
}

/// Number of reports of a wait up to this time.
fn reports_due(time: Duration) -> u64 {
    let first = FIRST_REPORTS.iter().filter(|report| time >= **report).count() as u64;
    first + time.as_secs() / REPORT_INTERVAL.as_secs()
}

/// Decides when the waits of one channel are reported.
#[derive(Debug, Default)]
pub(super) struct WaitReports {
    /// For each reason, the beginning of the last wait and the number of its reports so far. A
    /// channel may change between two reasons, and each of its waits continues.
    told: [Option<(Instant, u64)>; WaitReason::ALL.len()],
}

impl WaitReports {
    /// Whether to report this wait now. To be asked every second or so.
    pub(super) fn is_due(&mut self, wait: &Wait, now: Instant) -> bool {
        let last = &mut self.told[wait.reason as usize];
        let told = last.filter(|(since, _)| *since == wait.since).map_or(0, |(_, told)| told);
        let due = reports_due(wait.time(now));
        *last = Some((wait.since, due));
        due > told
    }
}

#[cfg(test)]
mod tests {
    use pipemill_ring::host::{ConsumerStatus, WaitTimes};
    use proptest::prelude::*;

    use super::*;
    use pipemill_config::fifo_source;

    /// The state that a test changes, at a start of its own.
    struct Case {
        start: Instant,
        source: Source,
        stage: Option<Stage>,
        awaited: Option<AwaitedObject>,
        object: Option<String>,
        silent_since: Option<Instant>,
        needed: u32,
        ring: Status,
    }

    fn case() -> Case {
        let start = Instant::now();
        let ring = Status {
            channel: "val".into(),
            free: 16,
            filling: 0,
            ready: 0,
            granted: 0,
            dedicated: 0,
            batches: 0,
            writer_waits: false,
            end_sent: false,
            grants: 0,
            started: false,
            ever_connected: false,
            consumers_since: start,
            consumers_missed: Duration::ZERO,
            consumers: Vec::new(),
            left_ranks: Vec::new(),
        };
        Case {
            start,
            source: fifo_source("/in".into(), None),
            stage: None,
            awaited: None,
            object: None,
            silent_since: None,
            needed: 1,
            ring,
        }
    }

    impl Case {
        fn at(&self, seconds: u64) -> Instant {
            self.start + Duration::from_secs(seconds)
        }

        fn connect(&mut self, count: usize, second: u64) {
            let consumer = ConsumerStatus {
                pid: 1,
                uid: 0,
                client: "tester".into(),
                credits: 2,
                held: 0,
                unacked: 0,
                oldest: None,
                rank: None,
                waits: WaitTimes::default(),
            };
            self.ring.consumers = vec![consumer; count];
            self.ring.ever_connected = true;
            self.ring.started |= count >= self.needed as usize;
            self.ring.consumers_since = self.at(second);
        }

        fn wait(&self, second: u64) -> Option<Wait> {
            let observed = Observed {
                channel: "val",
                source: &self.source,
                stage: self.stage,
                awaited: self.awaited.clone(),
                object: self.object.clone(),
                silent_since: self.silent_since,
                needed: self.needed,
                ring: &self.ring,
            };
            observed.wait(self.at(second))
        }

        /// Reason, words and beginning of the wait.
        #[track_caller]
        fn found(&self, second: u64) -> (&'static str, String, u64) {
            let wait = self.wait(second).expect("it waits");
            let began = wait.since.duration_since(self.start).as_secs();
            assert!(!wait.remedy.is_empty());
            (wait.reason.word(), wait.what, began)
        }

        fn awaits_fifo(&mut self, second: u64) {
            self.stage = Some(Stage::Source);
            let (name, since) = ("/in/val_5".to_owned(), self.at(second));
            self.awaited = Some(AwaitedObject { name, epoch: 5, since, remedy: "see".to_owned() });
        }
    }

    #[test]
    fn a_channel_that_nobody_has_connected_to() {
        let mut case = case();
        let what = "a consumer: nobody has connected to `val`".to_owned();
        assert_eq!(case.found(0), ("consumers", what.clone(), 0));
        // The same if its source has ended, and all is in the ring.
        (case.stage, case.ring.ready) = (Some(Stage::Consumer), 3);
        assert_eq!(case.found(40), ("consumers", what, 0));
        assert_eq!(
            case.wait(100).unwrap().words(case.at(100)),
            "it has waited 1m 40s for a consumer: nobody has connected to `val`"
        );
    }

    /// The others continue until the batches of the one that left fill the slots.
    #[test]
    fn ranks_of_which_one_has_left() {
        let mut case = case();
        case.needed = 3;
        case.connect(3, 5);
        assert_eq!(case.wait(6), None);
        case.connect(2, 9);
        case.ring.left_ranks = vec![(1, 4712)];
        assert_eq!(case.wait(10), None);
        case.ring.writer_waits = true;
        let what = "rank 1 of the 3 ranks of `val`: its process 4712 has left".to_owned();
        assert_eq!(case.found(20), ("consumers", what.clone(), 9));
        case.ring.left_ranks.push((2, 4713));
        assert_eq!(case.found(20).1, what + ", and 1 more ranks");
    }

    #[test]
    fn a_broadcast_that_lacks_consumers() {
        let mut case = case();
        (case.needed, case.ring.ready) = (2, 16);
        let what = "2 consumers: nobody has connected to `val`".to_owned();
        assert_eq!(case.found(7), ("consumers", what, 0));
        case.connect(1, 8);
        let what = "more consumers: 1 of 2 consumers of `val`".to_owned();
        assert_eq!(case.found(9), ("consumers", what, 8));
        case.connect(2, 10);
        assert_eq!(case.wait(11), None);
        // It does not wait for a consumer that has left.
        case.connect(1, 20);
        assert_eq!(case.wait(1000), None);
        case.connect(0, 30);
        let what = "a consumer: all that were connected to `val` have left".to_owned();
        assert_eq!(case.found(31), ("consumers", what, 30));
    }

    #[test]
    fn back_pressure_is_no_wait() {
        let mut case = case();
        case.connect(1, 0);
        (case.stage, case.ring.ready, case.ring.granted) = (Some(Stage::Consumer), 14, 2);
        case.ring.writer_waits = true;
        assert_eq!(case.wait(100_000), None);
    }

    #[test]
    fn a_fifo_that_does_not_exist() {
        let mut case = case();
        case.connect(1, 1);
        case.awaits_fifo(2);
        let what = "the FIFO /in/val_5, which does not exist".to_owned();
        assert_eq!(case.found(2), ("fifo", what.clone(), 2));
        // Without consumers and without batches, it is still the FIFO that is missing.
        case.connect(0, 3);
        assert_eq!(case.found(4), ("fifo", what, 2));
        case.ring.ready = 1;
        assert_eq!(case.found(4).0, "consumers");
    }

    #[test]
    fn a_source_that_is_silent() {
        let mut case = case();
        case.connect(1, 0);
        (case.stage, case.silent_since) = (Some(Stage::Source), Some(case.at(10)));
        assert_eq!(case.wait(10), None, "it is at work");
        let what = "the next object of its source".to_owned();
        assert_eq!(case.found(11), ("object", what, 10));
        case.object = Some("/in/val_0".to_owned());
        assert_eq!(case.found(11), ("bytes", "bytes of /in/val_0".to_owned(), 10));
        case.object = Some("-".to_owned());
        assert_eq!(case.found(11), ("bytes", "bytes of standard input".to_owned(), 10));
        // The thread does something else.
        case.stage = Some(Stage::Decoder);
        assert_eq!(case.wait(100), None);
    }

    #[test]
    fn reports_become_rare() {
        let mut case = case();
        case.awaits_fifo(0);
        let mut reports = WaitReports::default();
        let mut report =
            |second: &u64| reports.is_due(&case.wait(*second).unwrap(), case.at(*second));
        let told: Vec<_> = (0..3600).filter(&mut report).collect();
        assert_eq!(told, [10, 60, 300, 600, 1200, 1800, 2400, 3000]);
    }

    #[test]
    fn a_wait_that_is_interrupted_by_another_is_not_told_again() {
        let mut nobody = case();
        nobody.ring.ready = 1;
        let mut fifo = case();
        fifo.start = nobody.start;
        fifo.awaits_fifo(0);
        let mut reports = WaitReports::default();
        let told = (0..60).filter(|second| {
            let case = if second % 2 == 0 { &nobody } else { &fifo };
            reports.is_due(&case.wait(*second).unwrap(), case.at(*second))
        });
        assert_eq!(told.collect::<Vec<_>>(), [10, 11]);
    }

    proptest! {
        /// However late the clock is read: each wait is reported once it is long, and rarely.
        #[test]
        fn each_long_wait_is_told(
            steps in prop::collection::vec((1u64..700, any::<bool>()), 1..60),
        ) {
            let mut case = case();
            let mut reports = WaitReports::default();
            let (mut now, mut since, mut told) = (0, 0, 0);
            for (step, ends) in steps {
                if ends {
                    (since, told) = (now, 0);
                }
                now += step;
                case.awaits_fifo(since);
                let wait = case.wait(now).unwrap();
                told += u64::from(reports.is_due(&wait, case.at(now)));
                prop_assert_eq!(told > 0, now - since >= 10);
                prop_assert_eq!(told > 0, wait.is_long(case.at(now)));
                prop_assert!(told <= 3 + (now - since) / 600);
            }
        }
    }
}
