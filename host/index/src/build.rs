//! Reads all objects of a channel once, and makes their index.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use pipemill_channel::memory_sink::{LookAtRecords, MemorySink};
use pipemill_channel::{
    Batch, Channel, ChannelStats, Event, Failure, Observer, Outcome, StopReason,
};
use pipemill_source::s3::Address;
use pipemill_source::{
    Awaited, Compression, KnownObjects, SeekPoints, Source, SourceError, SourceEvent, Start,
    TotalSize,
};
use pipemill_types::{
    ABSENT, Column, ErrorKind, Fault, Field, ListIdentity, Position, is_same_content,
    split_identity,
};

use crate::{Header, Index, IndexedList, IndexedObject, Objects, Place, ValueLengths};

/// Smallest and largest memory of a batch in bytes. A place is where a batch starts, so its memory
/// is half of the distance of places within these limits.
const BATCH_MEMORY: (u64, u64) = (4 << 10, 2 << 20);

/// Most bytes that the seek points of one object take. With more, the distance doubles.
const MAX_SEEK_POINTS: usize = 256 << 20;

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
    let source = std::mem::replace(&mut channel.source, Box::new(NoSource));
    let (distance, older) = (settings.distance, Older::of(settings.older.as_ref()));
    channel.source = Box::new(Noting { inner: source, distance, older, seen: seen.clone() });
    let places = Places { distance: settings.distance, ..Places::default() };
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
    let failed = |object: Option<&str>, message: String, remedy: &str| {
        let position = Position { object: object.map(str::to_owned), ..Position::epoch(0) };
        let fault = Fault::new(ErrorKind::Source, message, remedy);
        Box::new(Failure::new(&channel.name, channel.plugin.name(), position, fault))
    };
    let root = Root::of(&seen)
        .map_err(|(object, message, remedy)| failed(Some(object), message.to_owned(), remedy))?;
    let found = sink.looker;
    let mut objects = Objects::default();
    for (number, object) in seen.iter().enumerate() {
        let name = root.below(&object.name);
        if let Some(kept) =
            object.kept.and_then(|number| settings.older.as_ref()?.objects.get(number))
        {
            objects.push(IndexedObject { name, identity: &object.identity, ..kept });
            continue;
        }
        let mut of_object = found.objects.get(number).cloned().unwrap_or_default();
        for place in &mut of_object.places {
            let point = object.points.before(place.offset);
            place.inflate = point.map(|point| point.to_bytes().into()).unwrap_or_default();
        }
        objects.push(IndexedObject {
            name,
            identity: &object.identity,
            size: object.size,
            records: of_object.records,
            errors: errors.get(&object.name).copied().unwrap_or(0),
            places: &of_object.places,
        });
    }
    let header = Header {
        version: 0,
        decoder: settings.decoder,
        decoder_identity: channel.plugin.identity(),
        options: channel.options.clone(),
        fields: found.fields.as_deref().unwrap_or_default().to_vec(),
        lengths: found.lengths(settings.older.as_deref()),
        compression: settings.compression,
        skips_errors: settings.skips_errors,
        max_record: channel.max_record,
        sources: settings.sources,
        root: root.0,
        objects: 0,
        records: 0,
        bytes: 0,
        digest: String::new(),
        places_digest: String::new(),
    };
    Ok(Some(Index::new(header, objects)))
}

/// An object that the source has given.
struct Seen {
    name: String,
    identity: String,
    size: u64,
    /// The seek points of a compressed object.
    points: SeekPoints,
    /// The object's number in the older index, if it has not changed since.
    kept: Option<usize>,
}

/// The objects of an older index, by their names.
struct Older {
    index: Option<Arc<Index>>,
    numbers: HashMap<String, usize>,
}

impl Older {
    fn of(index: Option<&Arc<Index>>) -> Self {
        let list = index.map(|index| IndexedList::new(index.clone(), None));
        let names = list.iter().flat_map(|list| {
            (0..list.count()).filter_map(|number| Some((list.get(number)?.name, number as usize)))
        });
        Self { numbers: names.collect(), index: index.cloned() }
    }

    /// The number of an object of this name and content.
    fn number(&self, name: &str, content: &str) -> Option<usize> {
        let number = *self.numbers.get(name)?;
        let object = self.index.as_ref()?.objects.get(number)?;
        is_same_content(object.identity, content).then_some(number)
    }
}

/// The folder that all objects lie in; empty for objects in S3, which are named by their addresses.
struct Root(String);

impl Root {
    /// The error is an object, and what is wrong with it.
    fn of(seen: &[Seen]) -> Result<Self, (&str, &'static str, &'static str)> {
        let in_s3 = seen.iter().filter(|object| Address::is_s3_url(&object.name)).count();
        if in_s3 == seen.len() {
            return Ok(Self(String::new()));
        }
        if let Some(object) = seen.iter().find(|object| object.identity.is_empty()) {
            let message = "can be read only once, and an index is of objects that are read again";
            return Err((&object.name, message, "write it to a file, or to S3, first"));
        }
        if in_s3 > 0 {
            let message = "lies in S3, and other objects are files";
            let object = seen.iter().find(|object| Address::is_s3_url(&object.name));
            let name = object.map_or("", |object| object.name.as_str());
            return Err((name, message, "make an index of each"));
        }
        if let Some(object) = seen.iter().find(|object| object.name.contains('\u{fffd}')) {
            let message = "has a name that is not UTF-8, which an index can't hold";
            return Err((&object.name, message, "rename it"));
        }
        let folders = seen.iter().filter_map(|object| Path::new(&object.name).parent());
        let common = folders.map(PathBuf::from).reduce(|one, other| {
            let parts = one.components().zip(other.components());
            parts.take_while(|(one, other)| one == other).map(|(part, _)| part).collect()
        });
        Ok(Self(common.unwrap_or_default().to_string_lossy().into_owned()))
    }

    /// The name below the root.
    fn below<'a>(&self, name: &'a str) -> &'a str {
        let below = name.strip_prefix(self.0.as_str()).unwrap_or(name);
        if self.0.is_empty() { name } else { below.trim_start_matches('/') }
    }
}

/// A source that notes the objects that it gives.
struct Noting {
    inner: Box<dyn Source>,
    /// Least number of bytes between two seek points of an object.
    distance: u64,
    older: Older,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Source for Noting {
    fn next(&mut self) -> Result<SourceEvent, SourceError> {
        loop {
            let mut event = self.inner.next()?;
            let SourceEvent::Object(object) = &mut event else { return Ok(event) };
            let points = SeekPoints::every(self.distance, MAX_SEEK_POINTS);
            object.input.set_seek_points(&points);
            let (_, content) = split_identity(object.identity.text());
            let kept = self.older.number(&object.name, content);
            let seen = Seen {
                name: object.name.clone(),
                identity: content.to_owned(),
                size: object.facts.size.unwrap_or(0),
                points,
                kept,
            };
            let mut list = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            // The number fits: the list is in memory.
            list.truncate(object.ordinal as usize);
            list.push(seen);
            if kept.is_none() {
                return Ok(event);
            }
        }
    }

    fn start_at(&mut self, start: Start) -> Result<(), SourceError> {
        self.inner.start_at(start)
    }

    fn expect_list(&mut self, list: Option<ListIdentity>) {
        self.inner.expect_list(list);
    }

    fn can_reread(&self) -> bool {
        self.inner.can_reread()
    }

    fn end_epoch(&mut self) {
        self.inner.end_epoch();
    }

    fn total_size(&mut self) -> TotalSize {
        self.inner.total_size()
    }

    fn awaited(&self) -> Awaited {
        self.inner.awaited()
    }
}

/// Takes the place of a source that was taken out.
struct NoSource;

impl Source for NoSource {
    fn next(&mut self) -> Result<SourceEvent, SourceError> {
        Ok(SourceEvent::End)
    }

    fn end_epoch(&mut self) {}
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

/// Looks at the records of all objects, for their numbers and places.
#[derive(Default)]
struct Places {
    distance: u64,
    fields: Option<Arc<[Field]>>,
    lengths: Vec<ValueLengths>,
    /// By the object's number.
    objects: Vec<FoundPlaces>,
}

impl Places {
    /// The lengths of all values, with those of an older index.
    fn lengths(self, older: Option<&Index>) -> Vec<ValueLengths> {
        let older = older.map_or(&[][..], |older| &older.header.lengths);
        let none = ValueLengths::of_none();
        let older = older.iter().copied().chain(std::iter::repeat(none));
        let add = |(own, older): (ValueLengths, ValueLengths)| own.with(older).finished();
        self.lengths.into_iter().zip(older).map(add).collect()
    }
}

/// The records and places of one object.
#[derive(Default, Clone)]
struct FoundPlaces {
    records: u64,
    places: Vec<Place>,
}

impl LookAtRecords for Places {
    fn schema(&mut self, fields: &Arc<[Field]>) {
        self.lengths = vec![ValueLengths::of_none(); fields.len()];
        self.fields = Some(fields.clone());
    }

    fn batch(&mut self, _: &[u8], batch: &Batch) -> Result<(), StopReason> {
        let position = &batch.start.position;
        // The number fits: the list is in memory.
        let number = position.object_number as usize;
        if self.objects.len() <= number {
            self.objects.resize(number + 1, FoundPlaces::default());
        }
        let object = &mut self.objects[number];
        object.records = position.first_record + batch.records as u64;
        let last = object.places.last().map_or(0, |place| place.offset);
        if position.offset >= last + self.distance.max(1) {
            object.places.push(Place {
                record: position.record_at_offset(),
                offset: position.offset,
                header: position.header,
                inflate: Box::default(),
            });
        }
        let fields = self.fields.as_deref().unwrap_or_default();
        for ((lengths, column), field) in self.lengths.iter_mut().zip(&batch.columns).zip(fields) {
            match field.fixed_size().and_then(|size| u32::try_from(size).ok()) {
                // All values have this size.
                Some(size) if !batch.absent => lengths.add(size, batch.records),
                _ => lengths.measure(column),
            }
        }
        Ok(())
    }
}

impl ValueLengths {
    /// Without a value.
    fn of_none() -> Self {
        Self { min: u32::MAX, max: 0, sum: 0, absent: 0 }
    }

    /// After the last value.
    fn finished(self) -> Self {
        Self { min: self.min.min(self.max), ..self }
    }

    /// With other values.
    fn with(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
            sum: self.sum.saturating_add(other.sum),
            absent: self.absent.saturating_add(other.absent),
        }
    }

    /// Adds values of this size.
    fn add(&mut self, size: u32, values: usize) {
        (self.min, self.max) = (self.min.min(size), self.max.max(size));
        self.sum += u64::from(size) * values as u64;
    }

    /// Adds the lengths of a column's values.
    fn measure(&mut self, column: &Column) {
        let lengths = self;
        let absent = column.offsets.iter().filter(|offset| **offset == ABSENT).count();
        lengths.absent += absent as u64;
        lengths.sum += column.lengths.iter().map(|length| u64::from(*length)).sum::<u64>();
        lengths.max = lengths.max.max(column.lengths.iter().copied().max().unwrap_or(0));
        let smallest = if absent == 0 {
            column.lengths.iter().copied().min()
        } else {
            let present = column.lengths.iter().zip(&column.offsets);
            present.filter(|(_, offset)| **offset != ABSENT).map(|(length, _)| *length).min()
        };
        lengths.min = lengths.min.min(smallest.unwrap_or(u32::MAX));
    }
}
