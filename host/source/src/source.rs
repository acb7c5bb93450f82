//! The interface of all sources: [`Source`] delivers objects in order, [`Input`] the bytes of one
//! object.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pipemill_codecs::{SeekPoint, SeekPoints};
use pipemill_types::{ListIdentity, ObjectFacts, ObjectIdentity};

use crate::cache::CacheCounters;
use crate::{Awaited, Companion, SkippedRecords, SourceError, Start, TotalSize};

/// The bytes of one object.
pub trait Input: Send {
    /// Reads available bytes into `buf`, which must not be empty. Waits at most `timeout` for the
    /// first byte; without a limit if `timeout` is `None`.
    ///
    /// # Errors
    /// The object can't be read further.
    fn read(
        &mut self,
        buf: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<ReadOutcome, SourceError>;

    /// Whether the bytes are as they are stored: reading them takes no work but a copy.
    fn is_stored(&self) -> bool {
        false
    }

    /// Whether the bytes are inflated while they are read, if that is known already.
    fn is_inflated(&self) -> bool {
        false
    }

    /// Checks that the object is still the object whose first byte was read, if its store can show
    /// that. Reading to the end checks it too; call this for an object that is not read further,
    /// and where its bytes can't be decoded.
    ///
    /// # Errors
    /// It has changed.
    fn check_unchanged(&self) -> Result<(), SourceError> {
        Ok(())
    }

    /// Adds the seek points of a compressed object to these while it is read, and uses them for
    /// [`at`](Self::at). It is called before the first read: the bytes read before it have no
    /// points. Inputs that are not inflated have none, and neither have wrapped objects.
    fn set_seek_points(&mut self, points: &SeekPoints) {
        let _ = points;
    }

    /// The bytes of the object from this offset on, to be read concurrently with this input. `None`
    /// if the object can't be read at several places concurrently. A compressed object can if its
    /// seek points are known, by [`set_seek_points`](Self::set_seek_points): it is inflated from
    /// the last one that is not after the offset.
    fn at(&self, offset: u64) -> Option<Result<Box<dyn Input>, SourceError>> {
        let _ = offset;
        None
    }

    /// These bytes of the object as it is stored, to be read concurrently with this input. More
    /// bytes may follow. A store that is asked for bytes begins to fetch them at once. `None` if
    /// the object can't be read at several places concurrently, or is inflated.
    fn range(&self, range: Range<u64>) -> Option<Result<Box<dyn Input>, SourceError>> {
        let _ = range;
        None
    }

    /// These bytes of an object that is inflated, as it is stored: as [`range`](Self::range) of
    /// others. `None` if they can't be read concurrently with this input.
    fn stored_range(&self, range: Range<u64>) -> Option<Result<Box<dyn Input>, SourceError>> {
        let _ = range;
        None
    }

    /// Number of bytes for which there is room before they are read, if it is worth requesting them
    /// by [`range`](Self::range) that early.
    fn room_ahead(&self) -> Option<u64> {
        None
    }

    /// Says that the bytes from this place on will most likely not be read: they are not requested
    /// before they are.
    fn read_ahead_to(&mut self, end: u64) {
        let _ = end;
    }

    /// The first place at or after this one at which decoding can begin, if the object tells such
    /// places. The object's end, if there is none.
    fn next_start(&self, offset: u64) -> Option<u64> {
        let _ = offset;
        None
    }
}

/// Result of one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadOutcome {
    /// Number of bytes read, at least 1.
    Bytes(usize),
    /// No byte came within the timeout.
    Nothing,
    /// The object has ended.
    End,
    /// A stop was requested.
    Stopped,
}

/// One object to read.
pub struct Object {
    /// Number of the epoch, from 0.
    pub epoch: u32,
    /// Number of the object in the epoch's list on this machine, from 0, after they were shuffled
    /// and divided into parts.
    pub ordinal: u64,
    /// Path or URL.
    pub name: String,
    /// Shows that the object and the list that it is in are still the same: see [`ListIdentity`].
    /// FIFOs and standard input have an empty text.
    pub identity: ObjectIdentity,
    /// The facts that are known of it before it is read.
    pub facts: ObjectFacts,
    /// If only a block of it is decoded.
    pub block: Option<Block>,
    /// What an index knows of its records.
    pub known: Option<KnownRecords>,
    /// The object's bytes. With a block: its header, followed by the bytes from the block on.
    pub input: Box<dyn Input>,
    /// Its companions, if its decoder needs some.
    pub companions: Vec<Companion>,
}

/// What an index knows of the records of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownRecords {
    /// Number of its first record among those of all objects, with those that are skipped.
    pub first: u64,
    /// All records that are skipped, by their numbers among those of all objects. Empty if none of
    /// the object's is.
    pub skipped: SkippedRecords,
}

/// A block of an object: records one after the other, which are decoded without those before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Byte of the object at which it begins, after decompression.
    pub offset: u64,
    /// Bytes at the object's start that its decoder must be shown first.
    pub header: u32,
    /// Number of its first record in the object, from 0.
    pub record: u64,
    /// Number of its records.
    pub records: u64,
    /// Number of the object's records before it that are [skipped](crate::SkippedRecords): they
    /// don't count in the numbers here.
    pub skipped: u64,
    /// The records of it that are read: from this number in the object, up to but not including
    /// `read_to`.
    pub read_from: u64,
    /// See `read_from`.
    pub read_to: u64,
    /// Byte of the object at which the next block begins. `None`: it is the last one.
    pub end: Option<u64>,
}

impl Block {
    /// The rest of an object with `records` records, from the record of this number on, which
    /// begins at this byte. See the fields.
    pub fn rest(offset: u64, header: u32, record: u64, records: u64) -> Self {
        Self {
            offset,
            header,
            record,
            records: records.saturating_sub(record),
            skipped: 0,
            read_from: record,
            read_to: records,
            end: None,
        }
    }

    /// The same block up to this record, which begins at this byte.
    #[must_use]
    pub fn up_to(self, offset: u64, record: u64) -> Self {
        let records = record.saturating_sub(self.record);
        Self { records, read_to: record, end: Some(offset), ..self }
    }

    /// Of the records that are read, those from number `from` on, up to but not including `to`.
    /// They count from the first one that is read.
    #[must_use]
    pub fn part(self, from: u64, to: u64) -> Self {
        let end = self.read_to;
        Self {
            read_from: self.read_from.saturating_add(from).min(end),
            read_to: self.read_from.saturating_add(to).min(end),
            ..self
        }
    }

    /// Number of bytes of its header and of the block itself; `None` if it is the last one of its
    /// object.
    pub fn bytes(&self) -> Option<u64> {
        let bytes = |end: u64| end.saturating_sub(self.offset).saturating_add(self.header.into());
        self.end.map(bytes)
    }

    /// Number of records that are read.
    pub fn read(&self) -> u64 {
        self.read_to.saturating_sub(self.read_from)
    }
}

/// Whether the records of an object, or of a block of it, are in a cache.
pub type IsCached = Box<dyn Fn(&AskedObject<'_>) -> bool + Send + Sync>;

/// An object of which it is asked whether its records are in a cache.
#[derive(Clone, Copy)]
pub struct AskedObject<'a> {
    /// As in [`Object`].
    pub name: &'a str,
    /// Shows that its bytes are the same: its identity without that of the list.
    pub content: &'a str,
    /// As in [`Object`].
    pub facts: &'a ObjectFacts,
    /// As in [`Object`].
    pub block: Option<&'a Block>,
}

/// The next event of a source.
#[expect(clippy::large_enum_variant, reason = "most events are objects")]
pub enum SourceEvent {
    /// An object begins.
    Object(Object),
    /// The epoch with this number has ended.
    EpochEnd(u32),
    /// The last epoch has ended, or a stop was requested.
    End,
}

/// A channel's source.
pub trait Source: Send {
    /// The next event. The object of the event before is finished, even if it was not read to its
    /// end.
    ///
    /// # Errors
    /// The next object can't be found or opened.
    fn next(&mut self) -> Result<SourceEvent, SourceError>;

    /// Begins at this place: the next event is the object `start.ordinal` of the epoch
    /// `start.epoch`, whose first byte read is byte `start.offset`, or the end of this epoch if it
    /// has no more objects. It is called before the first [`next`](Self::next). Sources of files
    /// and of objects in S3 can be read again, so they also allow it later.
    ///
    /// An input that can seek is read from `start.offset` on; the bytes before it are not fetched.
    /// Compressed objects are read from the point of
    /// [`start_from`](Self::start_from) on. Those without one, wrapped objects and
    /// pipes are read from their beginning. The first [`read`](Input::read) throws away the bytes
    /// before `start.offset`. If the object is shorter,
    /// the first read returns an error, so that its identity can be compared before.
    ///
    /// # Errors
    /// The source has no such epoch or can't begin there. If the epoch has fewer objects, that is
    /// an error of [`next`](Self::next).
    fn start_at(&mut self, start: Start) -> Result<(), SourceError> {
        if start == Start::default() {
            return Ok(());
        }
        let message = "this source can't begin in the middle";
        let error = SourceError::new("", message, "begin without the state");
        Err(SourceError { object: None, ..error })
    }

    /// The list of the epoch that [`start_at`](Self::start_at) names must be this one: otherwise
    /// [`next`](Self::next) returns an error before the first object, or later if a long list is
    /// read while its objects are. It is called before `start_at`, and applies to that epoch alone.
    /// Sources without a list ignore it.
    fn expect_list(&mut self, list: Option<ListIdentity>) {
        let _ = list;
    }

    /// The object at which [`start_at`](Self::start_at) begins is compressed, and can be inflated
    /// from this point on: its compressed bytes before the point are not read. It is called before
    /// `start_at`, and applies to that start alone. A point after `start.offset` is ignored, and so
    /// are points of wrapped objects, and of sources that can't seek.
    fn start_from(&mut self, point: Option<Arc<SeekPoint>>) {
        let _ = point;
    }

    /// Whether objects can be read again, so that [`start_at`](Self::start_at) may be called at any
    /// time, and concurrently: an object may be read while [`next`](Self::next) delivers others.
    /// Pipes can't.
    fn can_reread(&self) -> bool {
        false
    }

    /// Whether its objects are shown as their decoder's plans have them.
    fn is_planned(&self) -> bool {
        false
    }

    /// Skips the rest of the current epoch: the next event is its end.
    fn end_epoch(&mut self);

    /// Handle to each epoch's byte count, which stays empty if the source can't know it. After this
    /// call the source may get the metadata of each object that it lists.
    fn total_size(&mut self) -> TotalSize {
        TotalSize::default()
    }

    /// Says of which objects the records are in a cache: nothing of them is requested ahead. It is
    /// called once, before the first object is read.
    fn set_cached(&mut self, is_cached: IsCached) {
        let _ = is_cached;
    }

    /// The counts of the source's cache, if it has one.
    fn cache(&self) -> Option<Arc<CacheCounters>> {
        None
    }

    /// Handle to the object that [`next`](Self::next) waits for, which stays empty if the source
    /// never waits for others to create one.
    fn awaited(&self) -> Awaited {
        Awaited::default()
    }
}

/// Takes the place of a source that was taken out.
pub struct NoSource;

impl Source for NoSource {
    fn next(&mut self) -> Result<SourceEvent, SourceError> {
        Ok(SourceEvent::End)
    }

    fn end_epoch(&mut self) {}
}
