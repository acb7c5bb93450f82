//! The contract of a decoder: a resumable function of a chunk. Nothing here depends on WebAssembly.

use std::any::Any;
use std::rc::Rc;

use crate::{Companion, Field, Next, OptionFiles, OptionSpec, Options, Piece, Records, Scalar};

/// A decoder of one stream: one object, or one epoch of a FIFO.
///
/// **The rule.** However the input is split into chunks, the records and the errors are the same.
/// Keep no part of a record between calls: leave its bytes unconsumed. The host passes them again,
/// followed by more bytes.
pub trait Decoder: Sized + 'static {
    /// The options that the operator may set. The host refuses other options before it opens a
    /// stream.
    fn options() -> Vec<OptionSpec> {
        Vec::new()
    }

    /// Whether [`prepare`](Self::prepare) makes anything. The default is that it does not.
    fn prepares() -> bool {
        false
    }

    /// Makes what all streams of a channel have in common: a parsed schema, a vocabulary, a table.
    /// It is called once for a channel, and streams find the result in [`Options::prepared`]. So
    /// its work is not done again for each object.
    ///
    /// `files` has the content of the files that options of the kind
    /// [`OptionKind::File`](crate::OptionKind::File) name. The values of these options are digests
    /// of the files.
    ///
    /// The result depends on nothing but the arguments. Streams only read it.
    ///
    /// # Errors
    /// The error is a message for the operator: what is wrong and what would be right.
    fn prepare(options: &Options, files: OptionFiles<'_>) -> Result<Rc<dyn Any>, String> {
        let _ = (options, files);
        Ok(Rc::new(()))
    }

    /// Starts a stream.
    ///
    /// # Errors
    /// The error is a message for the operator: what is wrong and what would be right.
    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String>;

    /// The fields of every record. Called once, after `open`. Return `None` if only the input shows
    /// the fields, as the header of a file does: then call [`Records::set_schema`] before the first
    /// record.
    fn schema(&self) -> Option<Vec<Field>>;

    /// Emits the records that are completely in `chunk` into `out`, and returns how many bytes are
    /// finished.
    ///
    /// With `end`, no byte follows `chunk`. The host then reports unconsumed bytes as an input that
    /// ends inside a record. An empty object is passed once, as an empty chunk with `end`.
    ///
    /// # Errors
    /// The bytes at [`DecodeError::offset`] are not a valid record, or the decoder refuses the
    /// input. Records emitted before stay good; the offset is not before their end.
    fn decode(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError>;

    /// Says whether decoding can restart. It is called after `open`, and after each call of
    /// `decode` for the end of the bytes that this call consumed.
    ///
    /// `Some(header)` says: a new stream that gets the first `header` bytes of the object, and then
    /// the bytes from that position on, emits the same records from there on as this one. The first
    /// `header` bytes alone hold no record. The new stream has the same options and finds
    /// [`StreamInfo::restart`], and consumes these bytes before it gets the bytes after them; only
    /// its line and record numbers in messages may differ. A format with independent records
    /// returns `Some(0)`, a format with a header the size of the header.
    ///
    /// `None`, the default, says that decoding can't restart at that position. A decoder whose state
    /// is more than the first bytes of the object can [save](Self::save) it.
    fn restart(&self) -> Option<u64> {
        None
    }

    /// Whether [`save`](Self::save) saves anything. The default is that it does not.
    fn carries() -> bool {
        false
    }

    /// What another stream must know to go on at the end of the bytes that the last call of `decode`
    /// consumed: tokens that wait for the rest of their sequence, the number of a record. It is asked
    /// once in a while where [`restart`](Self::restart) is `None`, not after the end of the input, and
    /// only if [`carries`](Self::carries) is true. `None` says that no stream can go on there.
    ///
    /// At most 64 KiB. Each batch of the channel has these bytes, and so has the state of a job: a few
    /// hundred are good. Begin them with a number that you change with their form.
    fn save(&self) -> Option<Vec<u8>> {
        None
    }

    /// Starts a stream that gets the bytes after the place at which another one was saved, and none
    /// before it. It emits the same records as that one from there on. Only line and record numbers in
    /// messages may differ. [`StreamInfo::restart`] has the place; its header is 0. The options are
    /// the same.
    ///
    /// `saved` may have been changed by others, so check it.
    ///
    /// # Errors
    /// The decoder can't go on from these bytes. The error is a message for the operator.
    fn load(options: &Options, info: &StreamInfo, saved: &[u8]) -> Result<Self, String> {
        let _ = (options, info, saved);
        Err("this decoder saves no state".to_owned())
    }

    /// Searches for the next record after an error with [`Resume::Scan`]. `chunk` starts at the
    /// position that the error named. It is called again with the bytes after the consumed ones,
    /// until it finds the start of a record or the input ends.
    ///
    /// Without an error, a new stream with [`StreamInfo::restart`] may be asked for a record from
    /// any position on, so that several workers can decode a long object. The answer is a guess
    /// there: it is compared with the position that a decoder reaches which reads the object from
    /// its start.
    fn resync(&mut self, chunk: &[u8], end: bool) -> Resync {
        let _ = end;
        Resync { consumed: chunk.len(), found: false }
    }

    /// Whether [`plan`](Self::plan) makes plans. The default is that it does not.
    fn plans() -> bool {
        false
    }

    /// The objects that lie beside each object and are decoded with it: the companion of `a.bin` is
    /// `a.idx` if a rule has the ends `.bin` and `.idx`. At most 4; their numbers in a plan are 1, 2
    /// and so on. The host opens them with the object. An object that can't be read at any place, or
    /// whose companion is missing, is refused. Only a decoder that [plans](Self::plans) has companions.
    fn companions(options: &Options) -> Vec<Companion> {
        let _ = options;
        Vec::new()
    }

    /// Chooses the bytes of an object that its streams are shown, if the format has a directory that
    /// says where the data lies. The decoder names ranges of bytes, and the host reads them. `seen`
    /// has the ranges that earlier calls have asked for, in their order; nothing in the first call.
    /// [`StreamInfo::size`] is set.
    ///
    /// The streams of an object with a plan are shown its [parts](crate::Part) one after the other, as if
    /// they were the object. Pipes and compressed objects have no plan: their streams are shown the
    /// whole object, so a decoder must know both.
    ///
    /// The answer depends on nothing but the arguments.
    ///
    /// # Errors
    /// The decoder refuses the object. The error is a message for the operator. For an object that
    /// is damaged, make a part whose context says so, and let the stream report it.
    fn plan(options: &Options, info: &StreamInfo, seen: &[Piece]) -> Result<Next, String> {
        let _ = (options, info, seen);
        Ok(Next::Whole)
    }
}

/// The result of a call of [`Decoder::decode`]: how much was decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Number of bytes of the chunk that are finished. They are not passed again.
    pub consumed: usize,
    /// The smallest number of bytes, counted from the first unconsumed one, with which the next
    /// call can make progress. 0 if that is not known; 1 requests a call at once with the remaining
    /// bytes.
    pub need: usize,
    /// Whether the bytes after the consumed ones have more records than were emitted. If so,
    /// `decode` is called again with exactly these bytes, and with an empty payload. The call must
    /// have emitted a record or consumed something.
    pub more: bool,
}

impl Progress {
    /// These bytes are finished. The number of bytes that the next record needs is not known.
    pub fn consumed(bytes: usize) -> Self {
        Self { consumed: bytes, need: 0, more: false }
    }
    /// Nothing is finished, and the next call can make progress with this many bytes.
    pub fn wants(bytes: usize) -> Self {
        Self { consumed: 0, need: bytes, more: false }
    }
    /// The same progress; after the consumed bytes, the next call needs this many.
    pub fn and_wants(self, bytes: usize) -> Self {
        Self { need: bytes, ..self }
    }
    /// These bytes are finished, and the rest of the chunk has more records: see
    /// [`more`](Self::more).
    pub fn more(consumed: usize) -> Self {
        Self { consumed, need: 0, more: true }
    }
}

/// A record that can't be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    /// The start of the bad record, counted from the start of the chunk.
    pub offset: usize,
    /// Says what was expected and what was found. The host adds channel, epoch, object and
    /// position.
    pub message: String,
    /// The position at which decoding can continue if the operator chose to skip bad records.
    pub resume: Resume,
}

impl DecodeError {
    /// An error after which the rest of the object can't be decoded.
    pub fn fatal(offset: usize, message: impl Into<String>) -> Self {
        Self { offset, message: message.into(), resume: Resume::None }
    }
    /// An error after which the next record starts at `resume`, counted from the start of the
    /// chunk.
    pub fn skippable(offset: usize, message: impl Into<String>, resume: u64) -> Self {
        Self { offset, message: message.into(), resume: Resume::At(resume) }
    }
    /// An error after which [`Decoder::resync`] must find the next record. The search starts at
    /// `from`, counted from the start of the chunk.
    pub fn searchable(offset: usize, message: impl Into<String>, from: u64) -> Self {
        Self { offset, message: message.into(), resume: Resume::Scan(from) }
    }
    /// An input that the decoder does not support, or that does not fit the options: an unknown
    /// codec, a column that the header does not have. The channel fails, regardless of the
    /// operator's policy for bad records.
    pub fn refused(offset: usize, message: impl Into<String>) -> Self {
        Self { offset, message: message.into(), resume: Resume::Refused }
    }
    /// The same error in a chunk that begins `bytes` earlier.
    pub fn later_by(self, bytes: usize) -> Self {
        let later = |place: u64| place.saturating_add(bytes as u64);
        let resume = match self.resume {
            Resume::At(place) => Resume::At(later(place)),
            Resume::Scan(place) => Resume::Scan(later(place)),
            other => other,
        };
        Self { offset: self.offset + bytes, resume, ..self }
    }
}

/// The position at which decoding can continue after an error. Positions count from the start of
/// the chunk and may be after its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    /// The next record starts at this position.
    At(u64),
    /// [`Decoder::resync`] searches for the next record from this position on.
    Scan(u64),
    /// The rest of the object can't be decoded.
    None,
    /// The decoder does not support the input, or the input does not fit the options. The channel
    /// fails, regardless of the operator's policy for bad records.
    Refused,
}

/// The result of a call of [`Decoder::resync`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resync {
    /// Number of bytes of the chunk in which no record starts.
    pub consumed: usize,
    /// Whether a record starts right after the consumed bytes.
    pub found: bool,
}

/// The context of a stream, for [`Decoder::open`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamInfo {
    /// Name of the channel.
    pub channel: String,
    /// Number of the epoch, from 0.
    pub epoch: u32,
    /// Name of the object: a path or a URL; for a FIFO, the FIFO's path.
    pub object: String,
    /// Largest record that the channel accepts, in bytes.
    pub max_record: u64,
    /// Stored size of the object in bytes, if it is known. A compressed object has more bytes. In a
    /// stream of a plan's parts it is the number of their bytes.
    pub size: Option<u64>,
    /// Content type of the object, if its store has reported one.
    pub content_type: Option<String>,
    /// Entity tag of the object, if its store has reported one.
    pub etag: Option<String>,
    /// More facts about the stream, as keys and values. Ignore keys that you do not know.
    pub extensions: Vec<(String, String)>,
}

impl StreamInfo {
    /// The beginning of the stream, if it is not the object's start: see [`Decoder::restart`].
    pub fn restart(&self) -> Option<Restart> {
        let (header, place) = self.extension("restart")?.split_once(' ')?;
        Some(Restart { header: header.parse().ok()?, place: place.parse().ok()? })
    }

    /// The fields of the channel's objects before this one, or of the stream that this one
    /// continues: only their names, types and shapes. `None` if there is no such object, or if the
    /// host has types that this SDK does not know.
    pub fn fields_before(&self) -> Option<Vec<Field>> {
        self.extension("schema")?.split_terminator('\n').map(field_before).collect()
    }

    /// Whether the stream is shown the parts of the object's plan, and not its bytes as they are
    /// stored: see [`Decoder::plan`].
    pub fn is_planned(&self) -> bool {
        self.extension("planned").is_some()
    }

    /// The sizes of the object's companions in bytes, in their order, for [`Decoder::plan`].
    pub fn companions(&self) -> Vec<u64> {
        let sizes = self.extension("companions").unwrap_or_default();
        sizes.split(' ').filter_map(|size| size.parse().ok()).collect()
    }

    fn extension(&self, key: &str) -> Option<&str> {
        self.extensions.iter().find(|(other, _)| other == key).map(|(_, value)| value.as_str())
    }
}

/// A line of the extension `schema`, such as `float32[2,3] image`.
fn field_before(line: &str) -> Option<Field> {
    let (element, name) = line.split_once(' ')?;
    let (word, sizes) = match element.split_once('[') {
        Some((word, sizes)) => (word, Some(sizes.strip_suffix(']')?)),
        None => (element, None),
    };
    let sizes = sizes.into_iter().flat_map(|sizes| sizes.split(','));
    let shape: Vec<u32> = sizes.map(|size| size.parse().ok()).collect::<Option<_>>()?;
    Some(Field::new(name, Scalar::from_word(word)?).shaped(shape))
}

/// The beginning of a stream that is not the object's start. The stream gets the first `header`
/// bytes of the object, and then the bytes from `place` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restart {
    /// The value that [`Decoder::restart`] returned at that position.
    pub header: u64,
    /// Number of bytes of the object before that position.
    pub place: u64,
}
