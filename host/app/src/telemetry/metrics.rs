//! What is counted of a host, for Prometheus: names, units and values. `docs/operate.md` has the same list.

use std::fmt;
use std::sync::Arc;

use pipemill_ring::host::Status;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::process::Usage;
use super::{Bottleneck, ChannelHandle, HostState, State};
use pipemill_channel::{DECODE_BUCKETS, Stage, StatsSnapshot};
use pipemill_types::ErrorKind;

/// All metrics of a host, as text: OpenMetrics 1.0.
pub(super) fn text(host_state: &Arc<HostState>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Seen(host_state.clone())));
    let mut text = String::new();
    // Writing to memory can't fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    text
}

/// The media type of [`text`].
pub(super) const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A channel at the moment of the question: what all its metrics tell together.
struct Moment<'a> {
    channel: &'a ChannelHandle,
    totals: StatsSnapshot,
    ring: Status,
}

impl<'a> Moment<'a> {
    fn of(channel: &'a ChannelHandle) -> Self {
        Self { channel, totals: channel.stats.snapshot(), ring: channel.ring.status() }
    }

    fn name(&self) -> &'a str {
        &self.channel.name
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// A family of metrics, each with the channel as its label and those that `write` adds.
struct Family {
    /// Without the unit and `_total`, which are added.
    name: &'static str,
    kind: Kind,
    unit: Option<Unit>,
    help: &'static str,
    write: fn(&Moment<'_>, &mut MetricEncoder<'_>) -> fmt::Result,
}

const fn family(
    name: &'static str,
    kind: Kind,
    unit: Option<Unit>,
    help: &'static str,
    write: fn(&Moment<'_>, &mut MetricEncoder<'_>) -> fmt::Result,
) -> Family {
    Family { name, kind, unit, help, write }
}

static FAMILIES: [Family; 17] = [
    family(
        "pipemill_read",
        Kind::Counter,
        Some(Unit::Bytes),
        "Bytes read from the source, inflated",
        |now, out| count(now, out, now.totals.bytes),
    ),
    family("pipemill_records", Kind::Counter, None, "Records decoded", |now, out| {
        count(now, out, now.totals.records)
    }),
    family(
        "pipemill_batches",
        Kind::Counter,
        None,
        "Batches of records put into the ring",
        |now, out| count(now, out, now.totals.batches),
    ),
    family("pipemill_objects", Kind::Counter, None, "Objects begun", |now, out| {
        count(now, out, now.totals.objects)
    }),
    family(
        "pipemill_errors",
        Kind::Counter,
        None,
        "Decode errors skipped, and the failure that ended the channel, by kind",
        errors,
    ),
    family("pipemill_state", Kind::Gauge, None, "1 for the state that the channel is in", state),
    family(
        "pipemill_epoch",
        Kind::Gauge,
        None,
        "The epoch that the channel is in, from 0",
        |now, out| gauge(now, out, u64::from(now.channel.stats.epoch())),
    ),
    family(
        "pipemill_stage",
        Kind::Counter,
        Some(Unit::Seconds),
        "Time of the channel by stage: reading and waiting for the source, decoding, waiting for consumers; together \
         all of its time",
        stages,
    ),
    family(
        "pipemill_bottleneck",
        Kind::Gauge,
        None,
        "1 for the stage that took the most of the channel's time",
        bottleneck,
    ),
    family(
        "pipemill_decode_call",
        Kind::Histogram,
        Some(Unit::Seconds),
        "Duration of one call of the decoder, which decodes one chunk",
        calls,
    ),
    family(
        "pipemill_decoder_memory",
        Kind::Gauge,
        Some(Unit::Bytes),
        "Linear memory of the decoder's instance",
        |now, out| gauge(now, out, now.channel.stats.decoder_memory()),
    ),
    family("pipemill_slots", Kind::Gauge, None, "Slots of the ring, by state", slots),
    family("pipemill_ring", Kind::Gauge, Some(Unit::Bytes), "Memory of the ring", |now, out| {
        let config = now.channel.ring.config();
        gauge(now, out, u64::from(config.slots) * config.slot_bytes as u64)
    }),
    family(
        "pipemill_large_batches",
        Kind::Gauge,
        None,
        "Batches in a dedicated buffer, because a record is larger than a slot",
        |now, out| gauge(now, out, u64::from(now.ring.dedicated)),
    ),
    family("pipemill_consumers", Kind::Gauge, None, "Consumers connected", |now, out| {
        gauge(now, out, now.ring.consumers.len() as u64)
    }),
    family(
        "pipemill_unacked_batches",
        Kind::Gauge,
        None,
        "Batches that consumers hold and have not ACKed",
        |now, out| {
            let consumers = &now.ring.consumers;
            gauge(now, out, consumers.iter().map(|one| u64::from(one.unacked)).sum())
        },
    ),
    family(
        "pipemill_oldest_grant",
        Kind::Gauge,
        Some(Unit::Seconds),
        "Age of the oldest grant that a consumer holds; 0 without one",
        |now, out| {
            let consumers = &now.ring.consumers;
            let oldest = consumers.iter().filter_map(|one| one.oldest).max().unwrap_or_default();
            let labels = [("channel", now.name())];
            out.encode_family(&labels)?.encode_gauge(&oldest.as_secs_f64())
        },
    ),
];

struct Seen(Arc<HostState>);

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seen")
    }
}

impl Collector for Seen {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let moments: Vec<_> = self.0.channels.iter().map(|channel| Moment::of(channel)).collect();
        for family in &FAMILIES {
            let kind = match family.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            };
            let (name, help, unit) = (family.name, family.help, family.unit.as_ref());
            let mut out = encoder.encode_descriptor(name, help, unit, kind)?;
            for now in &moments {
                (family.write)(now, &mut out)?;
            }
        }
        process(&self.0, &mut encoder)
    }
}

/// What is not of a channel; the names are those that Prometheus' own clients use.
fn process(host_state: &HostState, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let usage = Usage::now();
    let mut gauge = |name: &str, help: &str, unit: Option<Unit>, value: f64| {
        let mut out = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
        out.encode_gauge(&value)
    };
    let (bytes, seconds) = (|| Some(Unit::Bytes), || Some(Unit::Seconds));
    let began = host_state.began_at().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    gauge("pipemill_memory", "Resident memory outside of rings", bytes(), usage.own as f64)?;
    gauge("process_resident_memory", "Resident memory", bytes(), usage.resident as f64)?;
    gauge(
        "process_start_time",
        "Start time of the host, in seconds since 1970",
        seconds(),
        began.as_secs_f64(),
    )?;
    let (name, help) = ("process_cpu", "CPU time of the host");
    let mut out =
        encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Counter)?;
    out.encode_counter::<NoLabelSet, _, f64>(&usage.cpu.as_secs_f64(), None)?;
    let (name, help) = ("pipemill_build", "The host's version; always 1");
    let mut out = encoder.encode_descriptor(name, help, None, MetricType::Info)?;
    out.encode_info(&[("version", env!("CARGO_PKG_VERSION"))])
}

fn count(now: &Moment<'_>, out: &mut MetricEncoder<'_>, value: u64) -> fmt::Result {
    count_of(&[("channel", now.name())], out, value)
}

fn count_of(labels: &impl EncodeLabelSet, out: &mut MetricEncoder<'_>, value: u64) -> fmt::Result {
    out.encode_family(labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)
}

fn gauge(now: &Moment<'_>, out: &mut MetricEncoder<'_>, value: u64) -> fmt::Result {
    out.encode_family(&[("channel", now.name())])?.encode_gauge(&value)
}

fn errors(now: &Moment<'_>, out: &mut MetricEncoder<'_>) -> fmt::Result {
    let failed = match now.channel.state() {
        State::Failed(failure) => Some(failure.fault.kind),
        _ => None,
    };
    let mut words: Vec<_> = ErrorKind::ALL.iter().map(|kind| kind.word()).collect();
    words.dedup();
    let decode_errors = now.channel.stats.decode_errors();
    for word in words {
        let passed = decode_errors.iter().filter(|(kind, _)| kind.word() == word);
        let count = passed.map(|(_, count)| count).sum::<u64>()
            + u64::from(failed.is_some_and(|kind| kind.word() == word));
        count_of(&[("channel", now.name()), ("kind", word)], out, count)?;
    }
    Ok(())
}

fn state(now: &Moment<'_>, out: &mut MetricEncoder<'_>) -> fmt::Result {
    let current = now.channel.state().word();
    for word in State::WORDS {
        let labels = [("channel", now.name()), ("state", word)];
        out.encode_family(&labels)?.encode_gauge(&u64::from(word == current))?;
    }
    Ok(())
}

fn stages(now: &Moment<'_>, out: &mut MetricEncoder<'_>) -> fmt::Result {
    for stage in Stage::ALL {
        let labels = [("channel", now.name()), ("stage", stage.word())];
        let seconds = now.totals.of(stage).as_secs_f64();
        out.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&seconds, None)?;
    }
    Ok(())
}

fn bottleneck(now: &Moment<'_>, out: &mut MetricEncoder<'_>) -> fmt::Result {
    let bottleneck = Bottleneck::of(&now.totals);
    for stage in Stage::ALL {
        let labels = [("channel", now.name()), ("stage", stage.word())];
        let it_is = bottleneck.is_some_and(|bottleneck| bottleneck.stage == stage);
        out.encode_family(&labels)?.encode_gauge(&u64::from(it_is))?;
    }
    Ok(())
}

fn calls(now: &Moment<'_>, out: &mut MetricEncoder<'_>) -> fmt::Result {
    let counts = now.channel.stats.calls();
    let bounds = DECODE_BUCKETS.iter().map(|bound| bound.as_secs_f64()).chain([f64::INFINITY]);
    let buckets: Vec<_> = bounds.zip(counts).collect();
    let labels = [("channel", now.name()), ("decoder", now.channel.decoder.as_str())];
    let sum = now.channel.stats.call_time().as_secs_f64();
    out.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
        sum,
        counts.iter().sum(),
        &buckets,
        None,
    )
}

fn slots(now: &Moment<'_>, out: &mut MetricEncoder<'_>) -> fmt::Result {
    let status = &now.ring;
    let states = [
        ("free", status.free),
        ("filling", status.filling),
        ("ready", status.ready),
        ("granted", status.granted),
    ];
    for (state, slots) in states {
        let labels = [("channel", now.name()), ("state", state)];
        out.encode_family(&labels)?.encode_gauge(&u64::from(slots))?;
    }
    Ok(())
}
