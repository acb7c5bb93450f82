//! Slots that are as large as a channel's batches, where the file says how many records a batch has
//! and not how large a slot is. The first records say how many bytes that is.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pipemill_channel::RecordBytes;
use pipemill_decode::ReadyPlugin;
use pipemill_ring::host::{Ring, RingConfig, RingError, slots_of_ranks};
use pipemill_ring::layout::{index_room, views_room};
use pipemill_source::{LeftOut, Order, Pattern, ReadSettings, Source, Stop, s3};
use pipemill_types::{BatchSize, HUGE_PAGE, MemoryBudget, Mode};

use super::channels::new_channel;
use super::plan::{ChannelResources, DecoderResources};
use crate::factory::Sources;
use pipemill_config as config;

/// Bytes of all slots, if there are more of them than necessary, and the settings don't say more.
const USUAL_RING: usize = 256 << 20;
/// The fewest slots of a ring.
const FEWEST_SLOTS: usize = 4;
/// The largest slot.
const LARGEST_SLOT: usize = 1 << 30;
/// Bytes in a slot in addition to a batch: for its names, and for input that is read before it is
/// decoded.
const SPARE: usize = 1 << 20;
/// Bytes of the names and facts of a batch.
const TEXTS: usize = 4 << 10;
/// No records of more files are measured.
const MEASURED_FILES: usize = 256;
/// A server that does not answer for this time holds the start up no longer.
const S3_TIMEOUT: Duration = Duration::from_secs(5);

/// The slots of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FittedSlots {
    /// Their number, if consumers hold no more batches than usual.
    pub(super) count: u32,
    /// Bytes of each.
    pub(super) bytes: usize,
}

impl FittedSlots {
    /// Slots for the batches of this channel, if they are larger than its slots, and memory is
    /// there. `measured`: the first records of the channel, or of each channel that it mixes.
    pub(super) fn new(
        channel: &config::Channel,
        resources: &ChannelResources,
        measured: &[RecordBytes],
    ) -> Option<Self> {
        let BatchSize { records, tail, .. } =
            channel.batch.filter(|_| channel.ring.fits_batches)?;
        let ring = &channel.ring;
        let bytes = measured.iter().map(|one| slot_bytes(one, records)).max()?;
        let bytes = bytes.checked_next_multiple_of(HUGE_PAGE)?;
        if bytes <= ring.slot_size || bytes > LARGEST_SLOT {
            return None;
        }
        let slots = ring.slots as usize;
        let needed = match channel.mode {
            Mode::Rank => slots_of_ranks(channel.consumers, ring.credits.min(2), Some(tail)),
            // One is filled and one is ready while consumers hold the others.
            _ => ring.credits.max(channel.consumers.saturating_mul(2)).saturating_add(2),
        };
        let needed = (needed as usize).clamp(FEWEST_SLOTS, slots);
        let affordable = usize::try_from(resources.fitted_ring).unwrap_or(usize::MAX) / bytes;
        let usual = USUAL_RING.max(slots.saturating_mul(ring.slot_size));
        let count = (usual / bytes).clamp(needed, slots).min(affordable);
        (count >= needed).then_some(Self { count: count as u32, bytes })
    }

    /// Makes the ring.
    pub(super) fn ring(
        self,
        config: RingConfig,
        budget: Arc<MemoryBudget>,
    ) -> Result<Arc<Ring>, RingError> {
        let Self { count, bytes } = self;
        log::debug!("channel `{}`: {count} slots of {bytes} bytes fit its batches", config.channel);
        Ring::fitted(RingConfig { slot_bytes: bytes, ..config }, count, budget)
    }
}

/// The bytes of a slot for a batch with this many records, with its index and views.
fn slot_bytes(measured: &RecordBytes, records: usize) -> usize {
    let payload = measured.of_batch(records);
    let index = index_room(payload, TEXTS, measured.fields, records);
    let views = views_room(measured.texts, records);
    [index, views, SPARE].iter().fold(payload, |sum, bytes| sum.saturating_add(*bytes))
}

/// The first objects of a channel that decodes, if their records are to be measured for the channel
/// `of` that is served. `None` for a source that can be read only once, and for one that can't be
/// read: the channel itself will report that.
pub(super) fn first_objects(
    of: &config::Channel,
    (channel, resources): (&config::Channel, &DecoderResources),
    sources: &mut Sources,
    stop: &Stop,
) -> Option<Box<dyn Source>> {
    let is_known = known_bytes(of, channel, resources).is_some();
    let is_wanted = of.ring.fits_batches && of.batch.is_some() && !is_known;
    let source = is_wanted.then(|| first_of(&channel.source)).flatten()?;
    sources.open_until(&channel.name, source, stop.clone()).ok()
}

/// Whether values are copied into the batches of the channel `of` that is served.
fn are_copied(of: &config::Channel, resources: &DecoderResources) -> bool {
    resources.workers > 1
        || of.window_shuffle().is_some()
        || matches!(of.source, config::Source::Mix(_))
}

/// The bytes of a channel's records, if they are copied into batches and an index knows them: then
/// no record has to be measured.
fn known_bytes(
    of: &config::Channel,
    channel: &config::Channel,
    resources: &DecoderResources,
) -> Option<RecordBytes> {
    let indexed = channel.indexed.as_ref().filter(|_| are_copied(of, resources))?;
    RecordBytes::known(&indexed.fields, indexed.all.total_records(), indexed.value_bytes?)
}

/// A source of the first objects of another one, in the order of their list.
fn first_of(source: &config::Source) -> Option<config::Source> {
    let in_order = |reading: &ReadSettings| ReadSettings {
        epochs: 1,
        order: Order::default(),
        ..reading.clone()
    };
    match source {
        config::Source::Files { pattern, reading } => {
            let files = first_files(pattern, reading.hidden)?;
            let (pattern, reading) = (Pattern::Files(files), in_order(reading));
            Some(config::Source::Files { pattern, reading })
        }
        config::Source::S3(settings) => Some(config::Source::S3(Box::new(s3::Settings {
            reading: in_order(&settings.reading),
            concurrency: 1,
            stall_timeout: settings.stall_timeout.min(S3_TIMEOUT),
            retry_timeout: settings.retry_timeout.min(S3_TIMEOUT),
            ..*settings.clone()
        }))),
        _ => None,
    }
}

/// The first files of a pattern. `None` if they can be read only once: what is read of a pipe or of
/// a device would be lost for the channel.
fn first_files(pattern: &Pattern, hidden: bool) -> Option<Vec<PathBuf>> {
    if !pattern.can_reread() {
        return None;
    }
    let mut files = match pattern {
        Pattern::Known { list, .. } => {
            let known = (0..MEASURED_FILES as u64).map_while(|number| list.0.get(number));
            known.map(|object| object.name.into()).collect()
        }
        // The channel itself will say what is left out.
        _ => pattern.list(hidden, &mut LeftOut::default()).ok()?,
    };
    files.truncate(MEASURED_FILES);
    Some(files)
}

/// Measures the first records of `source`, the first objects of a channel that decodes, for batches
/// of the channel `of` that is served.
pub(super) fn measure(
    of: &config::Channel,
    channel: &config::Channel,
    resources: &DecoderResources,
    plugin: &ReadyPlugin,
    source: Option<Box<dyn Source>>,
) -> Option<RecordBytes> {
    let records = of.batch.filter(|_| of.ring.fits_batches)?.records;
    if let Some(known) = known_bytes(of, channel, resources) {
        return Some(known);
    }
    let (source, are_copied) = (source?, are_copied(of, resources));
    let measured = new_channel(channel, source, plugin.clone(), 1);
    measured.measure(records, are_copied, of.ring.slot_size)
}

#[cfg(test)]
mod tests {
    use pipemill_config::parse;
    use pipemill_types::MemoryPart;

    use super::*;
    use crate::plan::{Machine, ResourcePlan};

    #[test]
    fn a_pipe_is_not_read_to_measure_its_records() {
        let folder = std::env::temp_dir().join(format!("pipemill-slots-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (pipe, file) = (folder.join("pipe"), folder.join("file"));
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::fs::write(&file, "1\n").unwrap();
        let measured = |pattern| first_files(&pattern, false);
        assert_eq!(measured(Pattern::File(pipe.clone())), None);
        assert_eq!(measured(Pattern::Files(vec![file.clone(), pipe])), None);
        assert_eq!(measured(Pattern::File("/dev/null".into())), None);
        assert_eq!(measured(Pattern::File(file.clone())), Some(vec![file]));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    const KIB: usize = 1 << 10;
    const MIB: usize = 1 << 20;

    /// The slots for records of one field of a fixed size, on a machine with this much memory.
    fn fitted(more: &str, batch: usize, record: usize, memory: Option<u64>) -> Option<FittedSlots> {
        let text = format!(
            "[[channel]]\nname = 'a'\nsource = {{ file = 'x' }}\ndecoder = 'lines'\n\
             batch = {batch}\n{more}"
        );
        let config = parse(&text, "pipemill.toml", &|_| None).expect("it is right");
        let plan = ResourcePlan::of(&config, &[], Machine { cores: 4, memory });
        let (channel, resources) = (&config.channels[0], &plan.channels[0]);
        let (payload, fields) = (10 * record, 1);
        let measured = RecordBytes { records: 10, payload, fields, texts: 0, is_fixed: true };
        let slots = FittedSlots::new(channel, resources, &[measured])?;
        // There is as much memory for larger batches.
        let taken = u64::from(slots.count) * slots.bytes as u64;
        assert!(taken <= resources.fitted_ring, "{slots:?}");
        assert!(resources.fitted_ring <= resources.memory.of(MemoryPart::Batches) / 2);
        assert!(slots.bytes > batch * record && slots.bytes.is_multiple_of(HUGE_PAGE));
        Some(slots)
    }

    #[test]
    fn a_batch_fits_a_slot_and_slots_fit_the_memory() {
        let of = |batch, record| fitted("", batch, record, None).map(|one| (one.count, one.bytes));
        assert_eq!(of(512, KIB), None);
        // With the spare bytes of a slot, it is just too large.
        assert_eq!(of(3 * KIB, KIB), Some((16, 6 * MIB)));
        assert_eq!(of(256, 150 * KIB), Some((6, 40 * MIB)));
        assert_eq!(of(256, 80 * KIB), Some((11, 22 * MIB)));
        // Half of the memory for batches holds fewer than a consumer needs.
        assert_eq!(of(256, 150 * 4 * KIB), None);
    }

    #[test]
    fn the_settings_say_how_many() {
        let of = |more: &str| fitted(more, 256, 150 * KIB, None).map(|one| one.count);
        assert_eq!(of("[channel.ring]\nslot_size = '4MiB'\n"), None);
        assert_eq!(of("[channel.ring]\nslots = 5\n"), Some(5));
        assert_eq!(of("[channel.ring]\nslots = 100\n"), Some(10));
        assert_eq!(of("[channel.ring]\ncredits = 9\n"), Some(11));
        assert_eq!(of("mode = 'rank'\nconsumers = 4\ntail = 'pad'\n"), Some(10));
        assert_eq!(of("[channel.limits]\nbatches = '500MiB'\n"), Some(6));
        assert_eq!(of("[channel.limits]\nbatches = '460MiB'\n"), None);
        assert_eq!(of("mode = 'rank'\nconsumers = 4\ntail = 'drop'\n"), Some(13));
    }

    #[test]
    fn a_small_container_has_fewer() {
        let of = |memory: u64| fitted("", 256, 80 * KIB, Some(memory << 20)).map(|one| one.count);
        assert_eq!((of(10_000), of(300), of(150)), (Some(11), Some(6), None));
    }

    #[test]
    fn views_and_differences_count() {
        let fixed =
            RecordBytes { records: 100, payload: 6400, fields: 1, texts: 0, is_fixed: true };
        let texts = RecordBytes { texts: 1, is_fixed: false, ..fixed };
        let of = |one: &RecordBytes| slot_bytes(one, 100_000) - SPARE;
        assert!((72 * 100_000..73 * 100_000).contains(&of(&fixed)));
        assert!((104 * 100_000..105 * 100_000).contains(&of(&texts)));
    }
}
