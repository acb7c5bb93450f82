//! Reads all objects of a channel once, and makes their index.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use pipemill_channel::memory_sink::MemorySink;
use pipemill_channel::{Channel, ChannelStats, Event, Failure, Observer, Outcome};
use pipemill_source::{Compression, ListPart};
use pipemill_types::{ErrorKind, Fault, Position};

use crate::noting::{NoSource, Noting, Older, Reading, Seen};
use crate::places::Places;
use crate::root::Root;
use crate::{Header, Index, IndexedObject, Objects, Part};

/// Smallest and largest memory of a batch in bytes. A place is where a batch starts, so its memory
/// is half of the distance of places within these limits.
const BATCH_MEMORY: (u64, u64) = (4 << 10, 2 << 20);

/// How an index is made.
#[derive(Debug, Clone)]
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
    /// An older index. What it knows of objects that have not changed is kept, and only the others
    /// are decoded. It must be of the same decoder with the same options, and its fields must be
    /// those that the channel knows.
    pub older: Option<Arc<Index>>,
    /// The part of the objects that is read: every `count`-th one, from number `index` on.
    pub part: Option<ListPart>,
}

/// Decodes all objects of the channel, and makes their index. `None` if the run was stopped.
///
/// # Errors
/// The channel failed, or an object can't be named in an index.
pub fn build(
    mut channel: Channel,
    settings: BuildSettings,
    stats: &ChannelStats,
) -> Result<Option<Index>, Box<Failure>> {
    let seen = Arc::<Mutex<Vec<Seen>>>::default();
    let errors = Arc::<ErrorCounts>::default();
    channel.observers.push(Box::new(ErrorCounter(errors.clone())));
    channel.source = Box::new(Noting {
        inner: std::mem::replace(&mut channel.source, Box::new(NoSource)),
        distance: settings.distance,
        older: Older::of(settings.older.as_ref()),
        part: settings.part,
        seen: seen.clone(),
    });
    let places = Places::at_distance(settings.distance);
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
    let found = sink.looker;
    let objects = objects(&seen, &found, &errors, settings.older.as_deref());
    let (root, objects) = objects.map_err(|(object, message, remedy)| {
        let position = Position::object(0, object);
        let fault = Fault::new(ErrorKind::Source, message, remedy);
        Box::new(Failure::new(&channel.name, channel.plugin.name(), position, fault))
    })?;
    let header = Header {
        version: 0,
        objects_only: false,
        decoder: settings.decoder,
        decoder_identity: channel.plugin.identity(),
        options: channel.options.clone(),
        fields: found.fields.as_deref().unwrap_or_default().to_vec(),
        lengths: found.lengths(settings.older.as_deref()),
        compression: settings.compression,
        skips_errors: settings.skips_errors,
        max_record: channel.max_record,
        sources: settings.sources,
        part: settings.part.map(|part| {
            let list = seen.iter().map(|object| (object.name.as_str(), object.identity.as_str()));
            Part::of(part.index, part.count, list)
        }),
        root: root.0,
        objects: 0,
        records: 0,
        bytes: 0,
        digest: String::new(),
        places_digest: String::new(),
    };
    Ok(Some(Index::new(header, objects)))
}

/// The objects of the index, and their root. The error is an object, what is wrong with it, and
/// what to do.
fn objects(
    seen: &[Seen],
    found: &Places,
    errors: &HashMap<String, u64>,
    older: Option<&Index>,
) -> Result<(Root, Objects), (String, &'static str, &'static str)> {
    if let Some(object) = seen.iter().find(|object| object.identity.is_empty()) {
        let message = "can be read only once, and an index is of objects that are read again";
        return Err((object.name.clone(), message, "write it to a file, or to S3, first"));
    }
    let own = |object: &&Seen| object.reading != Reading::OtherPart;
    let names: Vec<_> = seen.iter().filter(own).map(|object| object.name.as_str()).collect();
    let root = Root::of(&names)?;
    let mut objects = Objects::default();
    for (number, object) in seen.iter().enumerate() {
        let (name, identity) = (root.below(&object.name), object.identity.as_str());
        if let Reading::Kept(number) = object.reading
            && let Some(kept) = older.and_then(|older| older.objects.get(number))
        {
            objects.push(IndexedObject { name, identity, ..kept });
        }
        if object.reading != Reading::Read {
            continue;
        }
        let mut of_object = found.objects.get(number).cloned().unwrap_or_default();
        for place in &mut of_object.places {
            let point = object.points.before(place.offset);
            place.inflate = point.map(|point| point.to_bytes().into()).unwrap_or_default();
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
type ErrorCounts = Mutex<HashMap<String, u64>>;

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
