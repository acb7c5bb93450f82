//! The metrics of a host, for Prometheus: names, units, help texts and values. `docs/operate.md`
//! has the same list.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use pipemill_channel::{DECODE_BUCKETS, Stage};
use pipemill_ring::host::ConsumerStatus;
use pipemill_source::cache::CacheCounts;
use pipemill_types::ErrorKind;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::waits::WaitReason;
use super::{ChannelSnapshot, ChannelState, HostSnapshot, HostState};

/// All metrics of a host as text, in the format OpenMetrics 1.0.
pub(super) fn text(host: &Arc<HostState>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(HostCollector(host.clone())));
    let mut text = String::new();
    // Writing to memory can't fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    text
}

/// The media type of [`text`].
pub(super) const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone, Copy)]
enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

/// A family of metrics of channels. `write` writes the metrics of one channel: they have the label
/// `channel`, and the other labels of the family.
struct MetricFamily {
    /// Without the unit and without `_total`: the encoder adds them.
    name: &'static str,
    kind: MetricKind,
    unit: Option<Unit>,
    help: &'static str,
    write: fn(&ChannelSnapshot<'_>, &mut MetricEncoder<'_>) -> fmt::Result,
}

const fn family(
    name: &'static str,
    kind: MetricKind,
    unit: Option<Unit>,
    help: &'static str,
    write: fn(&ChannelSnapshot<'_>, &mut MetricEncoder<'_>) -> fmt::Result,
) -> MetricFamily {
    MetricFamily { name, kind, unit, help, write }
}

static FAMILIES: [MetricFamily; 23] = [
    family(
        "pipemill_read",
        MetricKind::Counter,
        Some(Unit::Bytes),
        "Bytes read from the source, inflated",
        |now, out| count(now, out, now.totals.bytes),
    ),
    family(
        "pipemill_cache_hit",
        MetricKind::Counter,
        Some(Unit::Bytes),
        "Stored bytes that came from the cache, or bytes whose records came from it",
        |now, out| cached(now, out, |cache| cache.hit_bytes),
    ),
    family(
        "pipemill_cache_missed",
        MetricKind::Counter,
        Some(Unit::Bytes),
        "Stored bytes that the cache did not have, and that were fetched, or bytes that were \
         decoded",
        |now, out| cached(now, out, |cache| cache.missed_bytes),
    ),
    family(
        "pipemill_cache_blocks",
        MetricKind::Counter,
        None,
        "Blocks of the cache, by what happened to them",
        cache_blocks,
    ),
    family("pipemill_records", MetricKind::Counter, None, "Records decoded", |now, out| {
        count(now, out, now.totals.records)
    }),
    family(
        "pipemill_batches",
        MetricKind::Counter,
        None,
        "Batches of records put into the ring",
        |now, out| count(now, out, now.totals.batches),
    ),
    family("pipemill_objects", MetricKind::Counter, None, "Objects begun", |now, out| {
        count(now, out, now.totals.objects)
    }),
    family(
        "pipemill_errors",
        MetricKind::Counter,
        None,
        "Decode errors skipped, and the failure that ended the channel, by kind",
        errors,
    ),
    family(
        "pipemill_state",
        MetricKind::Gauge,
        None,
        "1 for the state that the channel is in",
        state,
    ),
    family(
        "pipemill_epoch",
        MetricKind::Gauge,
        None,
        "The epoch that the channel is in, from 0",
        |now, out| gauge(now, out, u64::from(now.epoch)),
    ),
    family(
        "pipemill_stage",
        MetricKind::Counter,
        Some(Unit::Seconds),
        "Time of the channel by stage: reading and waiting for the source, decoding, putting \
         batches together, waiting for consumers, waiting for a free core; together all of its \
         time",
        stages,
    ),
    family(
        "pipemill_bottleneck",
        MetricKind::Gauge,
        None,
        "1 for the stage that took the most of the channel's time",
        bottleneck,
    ),
    family(
        "pipemill_waiting",
        MetricKind::Gauge,
        Some(Unit::Seconds),
        "For how long the channel has waited for what it does not get, by reason; 0 if it does not",
        waiting,
    ),
    family(
        "pipemill_decode_call",
        MetricKind::Histogram,
        Some(Unit::Seconds),
        "Duration of one call of the decoder, which decodes one chunk",
        calls,
    ),
    family(
        "pipemill_decoder_memory",
        MetricKind::Gauge,
        Some(Unit::Bytes),
        "Linear memory of the decoder's instance",
        |now, out| gauge(now, out, now.decoder_memory),
    ),
    family("pipemill_slots", MetricKind::Gauge, None, "Slots of the ring, by state", slots),
    family(
        "pipemill_ring",
        MetricKind::Gauge,
        Some(Unit::Bytes),
        "Memory of the ring",
        |now, out| gauge(now, out, u64::from(now.slots) * now.slot_bytes),
    ),
    family(
        "pipemill_dedicated_batches",
        MetricKind::Gauge,
        None,
        "Batches in a dedicated buffer, because a record is larger than a slot",
        |now, out| gauge(now, out, u64::from(now.ring.dedicated)),
    ),
    family("pipemill_consumers", MetricKind::Gauge, None, "Consumers connected", |now, out| {
        gauge(now, out, now.ring.consumers.len() as u64)
    }),
    family(
        "pipemill_unacked_batches",
        MetricKind::Gauge,
        None,
        "Batches that consumers hold and have not ACKed",
        |now, out| {
            let consumers = &now.ring.consumers;
            gauge(now, out, consumers.iter().map(|one| u64::from(one.unacked)).sum())
        },
    ),
    family(
        "pipemill_oldest_grant",
        MetricKind::Gauge,
        Some(Unit::Seconds),
        "Age of the oldest grant that a consumer holds; 0 without one",
        |now, out| {
            let consumers = &now.ring.consumers;
            let oldest = consumers.iter().filter_map(|one| one.oldest).max().unwrap_or_default();
            let labels = [("channel", now.name)];
            out.encode_family(&labels)?.encode_gauge(&oldest.as_secs_f64())
        },
    ),
    family(
        "pipemill_consumer_wait",
        MetricKind::Gauge,
        Some(Unit::Seconds),
        "The time that 50, 95 and 99 % of a consumer's waits for its next batch did not exceed",
        consumer_waits,
    ),
    family(
        "pipemill_consumer_waited",
        MetricKind::Counter,
        Some(Unit::Seconds),
        "The sum of a consumer's waits for its batches",
        |now, out| {
            now.ring.consumers.iter().try_for_each(|one| {
                let labels = consumer_labels(now, one);
                let seconds = one.waits.total.as_secs_f64();
                out.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&seconds, None)
            })
        },
    ),
];

struct HostCollector(Arc<HostState>);

impl fmt::Debug for HostCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostCollector")
    }
}

impl Collector for HostCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let host = self.0.snapshot();
        for family in &FAMILIES {
            let kind = match family.kind {
                MetricKind::Counter => MetricType::Counter,
                MetricKind::Gauge => MetricType::Gauge,
                MetricKind::Histogram => MetricType::Histogram,
            };
            let (name, help, unit) = (family.name, family.help, family.unit.as_ref());
            let mut out = encoder.encode_descriptor(name, help, unit, kind)?;
            for now in &host.channels {
                (family.write)(now, &mut out)?;
            }
        }
        process(&host, &mut encoder)
    }
}

/// Writes the metrics of the host. Those named `process_` are the same as in Prometheus' client
/// libraries.
fn process(host: &HostSnapshot<'_>, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let mut gauge = |name: &str, help: &str, unit: Option<Unit>, value: f64| {
        let mut out = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
        out.encode_gauge(&value)
    };
    let (bytes, seconds) = (|| Some(Unit::Bytes), || Some(Unit::Seconds));
    let started = host.started_at.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    gauge("pipemill_memory", "Resident memory outside of rings", bytes(), host.usage.own as f64)?;
    gauge("process_resident_memory", "Resident memory", bytes(), host.usage.resident as f64)?;
    gauge(
        "process_start_time",
        "Start time of the host, in seconds since 1970",
        seconds(),
        started.as_secs_f64(),
    )?;
    let (name, help) = ("process_cpu", "CPU time of the host");
    let mut out =
        encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Counter)?;
    out.encode_counter::<NoLabelSet, _, f64>(&host.usage.cpu.as_secs_f64(), None)?;
    let (name, help) =
        ("pipemill_log_lines_dropped", "Lines of the log that nobody read, and that were dropped");
    let mut out = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    out.encode_counter::<NoLabelSet, _, u64>(&host.lost_log_lines, None)?;
    let (name, help) = ("pipemill_build", "The host's version; always 1");
    let mut out = encoder.encode_descriptor(name, help, None, MetricType::Info)?;
    out.encode_info(&[("version", env!("CARGO_PKG_VERSION"))])
}

fn count(now: &ChannelSnapshot<'_>, out: &mut MetricEncoder<'_>, value: u64) -> fmt::Result {
    count_of(&[("channel", now.name)], out, value)
}

fn count_of(labels: &impl EncodeLabelSet, out: &mut MetricEncoder<'_>, value: u64) -> fmt::Result {
    out.encode_family(labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)
}

/// Counts of a cache. Those of a channel without one are 0.
fn cached(
    now: &ChannelSnapshot<'_>,
    out: &mut MetricEncoder<'_>,
    value: fn(&CacheCounts) -> u64,
) -> fmt::Result {
    count(now, out, value(&now.cache.unwrap_or_default()))
}

fn cache_blocks(now: &ChannelSnapshot<'_>, out: &mut MetricEncoder<'_>) -> fmt::Result {
    let CacheCounts { stored, evicted, damaged, not_stored, .. } = now.cache.unwrap_or_default();
    let blocks = [
        ("stored", stored),
        ("evicted", evicted),
        ("damaged", damaged),
        ("not_stored", not_stored),
    ];
    blocks.iter().try_for_each(|(event, value)| {
        count_of(&[("channel", now.name), ("event", event)], out, *value)
    })
}

fn gauge(now: &ChannelSnapshot<'_>, out: &mut MetricEncoder<'_>, value: u64) -> fmt::Result {
    out.encode_family(&[("channel", now.name)])?.encode_gauge(&value)
}

fn errors(now: &ChannelSnapshot<'_>, out: &mut MetricEncoder<'_>) -> fmt::Result {
    let failed = match now.state {
        ChannelState::Failed(failure) => Some(failure.fault.kind),
        _ => None,
    };
    let mut words: Vec<_> = ErrorKind::ALL.iter().map(|kind| kind.word()).collect();
    words.dedup();
    for word in words {
        let skipped = now.decode_errors.iter().filter(|(kind, _)| kind.word() == word);
        let count = skipped.map(|(_, count)| count).sum::<u64>()
            + u64::from(failed.is_some_and(|kind| kind.word() == word));
        count_of(&[("channel", now.name), ("kind", word)], out, count)?;
    }
    Ok(())
}

fn state(now: &ChannelSnapshot<'_>, out: &mut MetricEncoder<'_>) -> fmt::Result {
    let current = now.state.word();
    for word in ChannelState::WORDS {
        let labels = [("channel", now.name), ("state", word)];
        out.encode_family(&labels)?.encode_gauge(&u64::from(word == current))?;
    }
    Ok(())
}

fn stages(now: &ChannelSnapshot<'_>, out: &mut MetricEncoder<'_>) -> fmt::Result {
    for stage in Stage::ALL {
        let labels = [("channel", now.name), ("stage", stage.word())];
        let seconds = now.totals.of(stage).as_secs_f64();
        out.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&seconds, None)?;
    }
    Ok(())
}

fn bottleneck(now: &ChannelSnapshot<'_>, out: &mut MetricEncoder<'_>) -> fmt::Result {
    let bottleneck = now.bottleneck();
    for stage in Stage::ALL {
        let labels = [("channel", now.name), ("stage", stage.word())];
        let is_bottleneck = bottleneck.is_some_and(|bottleneck| bottleneck.stage == stage);
        out.encode_family(&labels)?.encode_gauge(&u64::from(is_bottleneck))?;
    }
    Ok(())
}

fn waiting(now: &ChannelSnapshot<'_>, out: &mut MetricEncoder<'_>) -> fmt::Result {
    for reason in WaitReason::ALL {
        let labels = [("channel", now.name), ("reason", reason.word())];
        let wait = now.wait.as_ref().filter(|wait| wait.reason == reason);
        let seconds = wait.map_or(0.0, |wait| wait.time(now.at).as_secs_f64());
        out.encode_family(&labels)?.encode_gauge(&seconds)?;
    }
    Ok(())
}

fn calls(now: &ChannelSnapshot<'_>, out: &mut MetricEncoder<'_>) -> fmt::Result {
    let bounds = DECODE_BUCKETS.iter().map(|bound| bound.as_secs_f64()).chain([f64::INFINITY]);
    let buckets: Vec<_> = bounds.zip(now.calls).collect();
    let labels = [("channel", now.name), ("decoder", now.decoder)];
    out.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
        now.call_time.as_secs_f64(),
        now.calls.iter().sum(),
        &buckets,
        None,
    )
}

/// The channel, and the labels that distinguish its consumers. The rank is empty unless batches are
/// dealt to ranks.
fn consumer_labels<'a>(
    now: &ChannelSnapshot<'a>,
    one: &ConsumerStatus,
) -> [(&'static str, Cow<'a, str>); 3] {
    let rank = one.rank.map_or_else(String::new, |rank| rank.to_string());
    [("channel", now.name.into()), ("pid", one.pid.to_string().into()), ("rank", rank.into())]
}

fn consumer_waits(now: &ChannelSnapshot<'_>, out: &mut MetricEncoder<'_>) -> fmt::Result {
    for one in &now.ring.consumers {
        let [channel, pid, rank] = consumer_labels(now, one);
        let times = [("0.5", one.waits.p50), ("0.95", one.waits.p95), ("0.99", one.waits.p99)];
        for (quantile, time) in times {
            let labels =
                [channel.clone(), pid.clone(), rank.clone(), ("quantile", quantile.into())];
            out.encode_family(&labels)?.encode_gauge(&time.as_secs_f64())?;
        }
    }
    Ok(())
}

fn slots(now: &ChannelSnapshot<'_>, out: &mut MetricEncoder<'_>) -> fmt::Result {
    let status = &now.ring;
    let states = [
        ("free", status.free),
        ("filling", status.filling),
        ("ready", status.ready),
        ("granted", status.granted),
    ];
    for (state, slots) in states {
        let labels = [("channel", now.name), ("state", state)];
        out.encode_family(&labels)?.encode_gauge(&u64::from(slots))?;
    }
    Ok(())
}
