//! Tests of the whole page, with invented runs: its content, and that no text from outside becomes
//! markup.

use std::time::{Duration, SystemTime};

use pipemill_channel::{DECODE_BUCKETS, EpochStats, Failure, Stage, StageTimes, StatsSnapshot};
use pipemill_ring::host::{ConsumerStatus, Ring, RingConfig, WaitTimes};
use pipemill_source::Awaited;
use pipemill_types::{ErrorKind, Fault, Mode, Position};

use super::page::Run;
use super::units;
use super::view::ChannelView;
use crate::waits::{Wait, WaitReason};
use crate::{ChannelHandle, ChannelSnapshot, ChannelState, Cores, Sample, SlotCounts};
use pipemill_config::fifo_source;

const HOSTILE: &str =
    "</td></pre></style></title>\"'><script>alert(1)</script><img src=x onerror=alert(1)>";

fn totals(seconds: u64) -> StatsSnapshot {
    StatsSnapshot {
        bytes: 250_000_000 * seconds,
        records: 12_345 * seconds,
        batches: 9 * seconds,
        objects: seconds,
        decode_errors: 0,
        stages: StageTimes::default()
            .with(Stage::Source, Duration::from_secs(seconds) / 5)
            .with(Stage::Decoder, Duration::from_secs(seconds) * 3 / 5)
            .with(Stage::Consumer, Duration::from_secs(seconds) / 5),
    }
}

/// A channel that lives as long as the test.
fn handle() -> &'static ChannelHandle {
    let ring = Ring::new(RingConfig {
        channel: "train".into(),
        slots: 4,
        slot_bytes: 4096,
        dedicated: RingConfig::FEW_DEDICATED,
        credits: 2,
        mode: Mode::Share,
        consumers: 1,
    });
    let (ring, cores) = (ring.expect("there is memory"), Cores { workers: 2, usable: 2 });
    let source = fifo_source("/opt/ml/input/data".into(), None);
    let awaited = Awaited::default();
    let handle = ChannelHandle::new("train", &source, cores, "tfrecord", ring, awaited);
    Box::leak(Box::new(handle))
}

fn view() -> ChannelView<'static> {
    let slots = SlotCounts { free: 9, filling: 1, ready: 2, granted: 4 };
    let mut calls = [0; DECODE_BUCKETS.len() + 1];
    calls[2..5].copy_from_slice(&[1, 20_000, 300]);
    let now = ChannelSnapshot {
        state: ChannelState::Ended,
        totals: totals(30),
        epochs: [0, 1]
            .map(|number| EpochStats { number, early: number == 1, totals: totals(10) })
            .into(),
        calls,
        decoder_memory: 3 << 19,
        ..handle().snapshot()
    };
    let samples = (0..=30).map(|at| Sample { totals: totals(at), slots }).collect();
    ChannelView { now, samples }
}

fn page(channels: &[ChannelView<'_>], code: u8, why: &str) -> String {
    Run {
        began: SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_305_851),
        elapsed: Duration::from_secs(31),
        host: "machine".into(),
        command: String::new(),
        code,
        why,
        config: Some("[[channel]]\n"),
        channels,
    }
    .page()
}

fn has(page: &str, parts: &[&str]) {
    let page = page.replace(['\u{a0}', '\u{202f}'], " ");
    for part in parts {
        assert!(page.contains(part), "{part} in {page}");
    }
}

#[test]
fn shows_totals_epochs_calls_and_plots() {
    let page = page(&[view()], 0, "");
    has(
        &page,
        &[
            "<h1 class=\"ended\">Ended well</h1>",
            "<dt>Began</dt><dd><time>2026-11-22 00:04:11 UTC</time></dd>",
            "<dt>Records</dt><dd><data value=\"370350\">370 350</data></dd>",
            "<dt>Throughput</dt><dd>238 MiB/s</dd>",
            "<strong>It waited 60% of the time for its decoder.</strong> Have it decode less",
            "<th scope=\"row\">0</th><td><data value=\"123450\">123 450</data></td>\
             <td>2.33 GiB</td><td>10 s</td>",
            "<th scope=\"row\">1, ended early</th>",
            "<th scope=\"row\">2, not ended</th>",
            "<th scope=\"row\">up to 1 ms</th><td><data value=\"20000\">20 000</data></td>",
            "aria-label=\"Throughput: 238 MiB/s in the mean, 238 MiB/s at most\"",
            "aria-label=\"Where the time went: source 20 %, decoder 60 %, batch 0 %, \
             consumer 20 %, cores 0 %\"",
            "2 ready, 1 being filled, 9 free</title>",
            "<line class=\"mark\" x1=\"33.33%\"",
            "<line class=\"mark\" x1=\"66.67%\"",
        ],
    );
    assert!(!page.contains("<h2>Channels</h2>"), "one channel needs no overview");
    assert!(!page.contains("Decode errors skipped"));
}

#[test]
fn shows_failures_and_decode_errors() {
    let fault = Fault::new(ErrorKind::Decode, "expected int32, found \"x\"", "look");
    let failure = Failure {
        fault,
        channel: "train".into(),
        position: Position {
            epoch: 3,
            object: Some("part-7".into()),
            offset: Some(1_000_000),
            record: Some(17),
        },
        decoder: "csv".into(),
        bytes: vec![0x78, 0x2c],
        missing: false,
    };
    let mut failed = view();
    failed.now.state = ChannelState::Failed(&failure);
    failed.now.totals.decode_errors = 5;
    failed.now.decode_errors[ErrorKind::TooLarge as usize].1 = 5;
    let page = page(&[failed, view()], 65, "why");
    has(
        &page,
        &[
            "<h1 class=\"failed\">Failed</h1>\n<p class=\"why\">why</p>",
            "<h2>Channels</h2>",
            "<a href=\"#channel-1\">train</a>",
            "<p>expected int32, found &quot;x&quot;</p>",
            "<dt>What to do</dt><dd>look</dd>",
            "<dt>Byte offset</dt><dd><data value=\"1000000\">1 000 000</data></dd>",
            "<code>78 2c</code>",
            "a record is larger than max_record</th><td><data value=\"5\">5</data>",
        ],
    );
}

#[test]
fn says_how_long_each_consumer_waited_also_if_it_has_left() {
    let consumer = |rank, pid, count| ConsumerStatus {
        pid,
        uid: 0,
        client: "python <3>".into(),
        credits: 2,
        held: 0,
        unacked: 0,
        oldest: None,
        rank,
        waits: WaitTimes {
            count,
            p50: Duration::from_millis(2),
            p95: Duration::from_millis(30),
            p99: Duration::from_millis(400),
            longest: Duration::from_secs(5),
            total: Duration::from_secs(60),
        },
    };
    let mut view = view();
    view.now.left_consumers = vec![consumer(Some(1), 7, 1234), consumer(None, 9, 0)];
    view.now.ring.consumers = vec![consumer(Some(0), 8, 1235)];
    let page = page(&[view], 0, "");
    let row = |name: &str, count: u64| {
        let count = units::counted(count);
        let seconds = [0.002, 0.03, 0.4, 5.0, 60.0];
        let times = seconds.map(|seconds| units::time(Duration::from_secs_f64(seconds)));
        let cells = times.map(|time| format!("<td>{time}</td>")).concat();
        format!("<tr><th scope=\"row\">{name}, python &lt;3&gt;</th><td>{count}</td>{cells}</tr>\n")
    };
    let both = row("rank 0, process 8", 1235) + &row("rank 1, process 7", 1234);
    has(&page, &[&both.replace(['\u{a0}', '\u{202f}'], " ")]);
    assert!(!page.contains("process 9"), "it has read nothing");
}

#[test]
fn says_which_signal_ended_it_and_needs_no_channels() {
    has(&page(&[], 143, "ended by signal 15"), &["Ended by SIGTERM"]);
    has(&page(&[], 127, "no such command"), &["<h1 class=\"failed\">Failed</h1>"]);
}

#[test]
fn a_channel_that_was_never_read_has_not_ended_well() {
    let time = Duration::from_secs(99);
    let unread = || {
        let mut view = view();
        let now = &mut view.now;
        (now.ring.batches, now.ring.consumers_missed) = (1, time);
        now.totals = StatsSnapshot {
            stages: StageTimes::default().with(Stage::Consumer, time),
            ..totals(1)
        };
        // A clock may not have run for so long yet.
        let since = now.at;
        now.at += Duration::from_secs(40);
        now.last_wait = Some(Wait {
            reason: WaitReason::Consumers,
            since,
            what: "more consumers: 1 of 2 consumers of `val`".into(),
            remedy: String::new(),
        });
        view
    };
    let mut val = unread();
    val.now.name = "val";
    let one = page(&[view(), val], 0, "");
    has(
        &one,
        &[
            "<h1 class=\"never-read\">Ended, but val was never read</h1>",
            "<span class=\"state never-read\">never read</span>",
            "No consumer has read any of it.",
            "When the run ended, it had waited 40s for more consumers: 1 of 2",
            "for its consumers.</strong> For most of that none was connected",
        ],
    );
    assert!(!one.contains("nothing to do here") && !one.contains("Ended well"), "{one}");
    has(&page(&[unread(), unread()], 0, ""), &["Ended, but 2 channels were never read"]);
    has(&page(&[unread()], 65, "why"), &["<h1 class=\"failed\">Failed</h1>"]);
}

#[test]
fn shows_a_run_without_any_time() {
    let empty = ChannelView { now: handle().snapshot(), samples: vec![Sample::default()] };
    has(&page(&[empty], 0, ""), &["too short a time to plot", ">cut off<"]);
}

#[test]
fn text_from_outside_is_never_markup() {
    let failure = Failure {
        fault: Fault::new(ErrorKind::Decode, HOSTILE, HOSTILE),
        channel: HOSTILE.into(),
        position: Position { epoch: 0, object: Some(HOSTILE.into()), offset: None, record: None },
        decoder: HOSTILE.into(),
        bytes: Vec::new(),
        missing: false,
    };
    let source = fifo_source(HOSTILE.into(), None);
    let mut view = view();
    (view.now.name, view.now.decoder, view.now.source) = (HOSTILE, HOSTILE, &source);
    view.now.state = ChannelState::Failed(&failure);
    let run = Run {
        began: SystemTime::UNIX_EPOCH,
        elapsed: Duration::ZERO,
        host: HOSTILE.into(),
        command: HOSTILE.into(),
        code: 65,
        why: HOSTILE,
        config: Some(HOSTILE),
        channels: &[view],
    };
    let page = run.page();
    assert!(page.matches("alert").count() >= 20, "it is there");
    for part in ["<script", "<img", "onerror=alert(1)>", "'>"] {
        assert!(!page.contains(part), "{part}");
    }
}
