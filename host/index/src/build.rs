//! Reads all objects of a channel once, and makes their index.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use pipemill_channel::memory_sink::MemorySink;
use pipemill_channel::{Channel, ChannelStats, Event, Failure, Observer, Outcome};
use pipemill_source::{Compression, ListPart, NoSource};
use pipemill_types::{AddedField, ErrorKind, Fault, Position};

use crate::by_plan::CountedByPlan;
use crate::noting::{Noting, Older, Reading, Seen};
use crate::places::{FoundPlaces, Places};
use crate::root::Root;
use crate::saver::Saver;
use crate::{Header, Index, IndexedObject, Objects, Part, Progress};

/// Smallest and largest memory of a batch in bytes. A place is where a batch starts, so its memory
/// is half of the distance of places within these limits. In less, a worker has no room for what it
/// reads at once beside its index.
const BATCH_MEMORY: (u64, u64) = (16 << 10, 2 << 20);

/// How an index is made.
#[derive(Debug)]
pub struct BuildSettings {
    /// The decoder as the user has named it.
    pub decoder: String,
    /// The sources as the user has named them.
    pub sources: Vec<String>,
    /// How the objects are compressed.
    pub compression: Compression,
    /// Whether errors are skipped.
    pub skips_errors: bool,
    /// Least number of bytes between two places of an object.
    pub distance: u64,
    /// Older indexes. What they know of objects that have not changed is kept, and only the others
    /// are decoded. They must be of the same decoder with the same options, and their fields must
    /// be those that the channel knows.
    pub older: Vec<Arc<Index>>,
    /// Where the build saves what it has found. It goes on after what `older` has then, which is
    /// what this has.
    pub progress: Option<Progress>,
    /// Fields that the index adds to the records, unless a channel names its own. Each object must
    /// have their values.
    pub add_fields: Vec<AddedField>,
    /// If objects are counted by their plans, and not read, where these say how many records each
    /// part has: how many plans are made at once. Nothing is saved in `progress` then, which is
    /// `None`.
    pub by_plan: Option<usize>,
    /// The part of the objects that is read: every `count`-th one, from number `index` on.
    pub part: Option<ListPart>,
}

/// Decodes all objects of the channel, and makes their index. Also returns what it has saved, which
/// is to be removed once the index is written. `None` if the run was stopped.
///
/// # Errors
/// The channel failed, or an object can't be named in an index.
pub fn build(
    mut channel: Channel,
    mut settings: BuildSettings,
    stats: &ChannelStats,
) -> Result<Option<(Index, Option<Progress>)>, Box<Failure>> {
    let seen = Arc::<Mutex<Vec<Seen>>>::default();
    let errors = Arc::<ErrorCounts>::default();
    channel.observers.push(Box::new(ErrorCounter(errors.clone())));
    let noting = Box::new(Noting {
        inner: std::mem::replace(&mut channel.source, Box::new(NoSource)),
        distance: settings.distance,
        older: Older::of(&settings.older),
        resumed: match settings.progress {
            Some(_) => settings.older.iter().map(|older| older.objects.count()).sum(),
            None => 0,
        },
        part: settings.part,
        added: settings.add_fields.clone(),
        seen: seen.clone(),
    });
    let counted = CountedByPlan::default();
    channel.source = match settings.by_plan {
        Some(at_once) => counted.without(noting, &channel, settings.distance, at_once),
        None => noting,
    };
    let header = header(&channel, &settings);
    let progress = settings.progress.take();
    let saver =
        progress.map(|progress| Saver::new(progress, header.clone(), seen.clone(), errors.clone()));
    let places = Places::at_distance(settings.distance, saver);
    let memory = (settings.distance / 2).clamp(BATCH_MEMORY.0, BATCH_MEMORY.1);
    let mut sink = MemorySink::new(places, memory as usize);
    let outcome = channel.run(&mut sink, stats);
    channel.stop(stats);
    match outcome {
        Outcome::Failed(failure) => return Err(Box::new(failure)),
        Outcome::Stopped | Outcome::Restart => return Ok(None),
        Outcome::Ended => {}
    }
    let seen = std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
    let errors = errors.lock().unwrap_or_else(PoisonError::into_inner);
    let mut found = sink.looker;
    let progress = found.take_progress();
    let counts_plans = counted.add_to(&mut found.objects);
    let by_plan = counts_plans || settings.older.iter().any(|older| older.header.by_plan);
    // Without a record, no fields have come.
    let fields = found.fields.clone();
    let fields = fields.or_else(|| channel.declared_fields().filter(|_| counts_plans));
    let fields = fields.unwrap_or_default();
    if let Err(fault) = AddedField::after(&fields, &settings.add_fields) {
        let (name, position) = (channel.plugin.name(), Position::epoch(0));
        return Err(Box::new(Failure::new(&channel.name, name, position, fault)));
    }
    let objects = objects(&seen, 0..seen.len(), &found.objects, &errors, &settings.older);
    let (root, objects) = objects.map_err(|(object, message, remedy)| {
        let position = Position::object(0, object);
        let fault = Fault::new(ErrorKind::Source, message, remedy);
        Box::new(Failure::new(&channel.name, channel.plugin.name(), position, fault))
    })?;
    let part = settings.part.map(|part| {
        let list = seen.iter().map(|object| (object.name.as_str(), object.identity.as_str()));
        Part::of(part.index, part.count, list)
    });
    let header = Header {
        fields: fields.to_vec(),
        // Nobody has seen the values.
        lengths: if by_plan { Vec::new() } else { found.lengths(&settings.older) },
        by_plan,
        part,
        root: root.0,
        ..header
    };
    Ok(Some((Index::new(header, objects), progress)))
}

/// The facts that are known before the first record.
fn header(channel: &Channel, settings: &BuildSettings) -> Header {
    Header {
        decoder: settings.decoder.clone(),
        decoder_identity: channel.plugin.identity(),
        options: channel.options.clone(),
        add_fields: settings.add_fields.iter().map(AddedField::word).collect(),
        companions: channel.plugin.companions().clone(),
        compression: settings.compression,
        skips_errors: settings.skips_errors,
        max_record: channel.max_record,
        sources: settings.sources.clone(),
        ..Header::default()
    }
}

/// These objects of the list, as an index has them, and their root. The error is an object, what is
/// wrong with it, and what to do.
pub(crate) fn objects(
    seen: &[Seen],
    range: Range<usize>,
    found: &[FoundPlaces],
    errors: &HashMap<String, u64>,
    older: &[Arc<Index>],
) -> Result<(Root, Objects), (String, &'static str, &'static str)> {
    let seen = || range.clone().zip(seen.get(range.clone()).unwrap_or_default());
    if let Some((_, object)) = seen().find(|(_, object)| object.identity.is_empty()) {
        let message = "can be read only once, and an index is of objects that are read again";
        return Err((object.name.clone(), message, "write it to a file, or to S3, first"));
    }
    let own = seen().filter(|(_, object)| object.reading != Reading::OtherPart);
    let names: Vec<_> = own.map(|(_, object)| object.name.as_str()).collect();
    let root = Root::of(&names)?;
    let mut objects = Objects::default();
    for (number, object) in seen() {
        let (name, identity) = (root.below(&object.name), object.identity.as_str());
        if let Reading::Kept(kept) = object.reading
            && let Some(older) = older.get(kept.index)
            && let Some(kept) = older.objects.get(kept.number)
        {
            objects.push(IndexedObject { name, identity, ..kept });
        }
        if object.reading != Reading::Read {
            continue;
        }
        let mut of_object = found.get(number).cloned().unwrap_or_default();
        if object.points.is_inflated() {
            // Without a seek point, all bytes before the place would have to be decompressed.
            of_object.places.retain_mut(|place| match object.points.before(place.offset) {
                Some(point) => {
                    place.inflate = point.to_bytes().into();
                    true
                }
                None => false,
            });
        }
        objects.push(IndexedObject {
            name,
            identity,
            size: object.size,
            records: of_object.records,
            errors: errors.get(&object.name).copied().unwrap_or(0),
            places: &of_object.places,
        });
    }
    Ok((root, objects))
}

/// Number of errors that were skipped in each object.
pub(crate) type ErrorCounts = Mutex<HashMap<String, u64>>;

struct ErrorCounter(Arc<ErrorCounts>);

impl Observer for ErrorCounter {
    fn event(&self, _: Instant, event: &Event<'_>) {
        if let Event::DecodeErrorSkipped { failure, .. } = event
            && let Some(object) = &failure.position.object
        {
            let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *counts.entry(object.clone()).or_default() += 1;
        }
    }
}
