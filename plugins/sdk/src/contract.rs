//! What a decoder is: a function of a chunk that can be asked again with more bytes. Nothing here
//! knows of WebAssembly.

use crate::{OptionSpec, Options, Records};

/// A decoder of one stream: one object, or one epoch of a FIFO.
///
/// **The rule.** However the input is split into chunks, the records are the same. Keep no part of a
/// record between calls: leave its bytes unconsumed, and they are shown again with more behind them.
pub trait Decoder: Sized + 'static {
    /// The options that the operator may set. The host refuses others before it opens a stream.
    fn options() -> Vec<OptionSpec> {
        Vec::new()
    }

    /// Starts a stream. An error is for the operator: say what is wrong and what would be right.
    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String>;

    /// The fields of every record, asked once behind `open`. `None` where only the input tells them, as
    /// the header of a file does: then say them by [`Records::set_schema`] before the first record.
    fn schema(&self) -> Option<Vec<Field>>;

    /// Emits the records that lie whole in `chunk` into `out` and says how far it came.
    ///
    /// With `end`, no byte follows `chunk`. What is left unconsumed then is reported by the host as
    /// an input that ends inside a record.
    fn decode(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError>;

    /// After an error with [`Resume::Scan`]: looks for the next record. `chunk` starts at the place
    /// that the error named. Called again with what follows the consumed bytes, until a start is
    /// found or the input ends.
    fn resync(&mut self, chunk: &[u8], end: bool) -> Resync {
        let _ = end;
        Resync { consumed: chunk.len(), found: false }
    }
}

/// How far a call of [`Decoder::decode`] came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the chunk that are done with.
    pub consumed: usize,
    /// The least number of bytes, counted from there, with which the next call can get further.
    /// 0 if that is not known. 1 asks to be called again at once with what is left.
    pub need: usize,
}

/// A place that can't be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    /// Where in the chunk the record with the error starts.
    pub offset: usize,
    /// What was expected and what stood there. The host adds channel, epoch, object and place.
    pub message: String,
    /// How decoding can go on if the operator chose to skip bad records.
    pub resume: Resume,
}

impl DecodeError {
    /// An error after which the rest of the object can't be decoded.
    pub fn fatal(offset: usize, message: impl Into<String>) -> Self {
        Self { offset, message: message.into(), resume: Resume::None }
    }
    /// An error after which the next record starts at `resume`, counted from the start of the chunk.
    pub fn skippable(offset: usize, message: impl Into<String>, resume: u64) -> Self {
        Self { offset, message: message.into(), resume: Resume::At(resume) }
    }
    /// An error after which the next record has to be searched by [`Decoder::resync`], from the place
    /// `from` on, counted from the start of the chunk.
    pub fn searchable(offset: usize, message: impl Into<String>, from: u64) -> Self {
        Self { offset, message: message.into(), resume: Resume::Scan(from) }
    }
}

/// How decoding can go on behind an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    /// At this place, counted from the start of the chunk; it may lie behind its end.
    At(u64),
    /// Where [`Decoder::resync`] finds the next record, searching from this place on.
    Scan(u64),
    /// Not in this object.
    None,
}

/// What [`Decoder::resync`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resync {
    /// Bytes in which no record starts.
    pub consumed: usize,
    /// Whether a record starts right behind them.
    pub found: bool,
}

/// What stream is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamInfo {
    /// The channel's name.
    pub channel: String,
    /// The epoch, from 0.
    pub epoch: u32,
    /// The object: a path, or a FIFO's path.
    pub object: String,
    /// Largest record that the channel takes, in bytes.
    pub max_record: u64,
}

/// Type of one element of a field. Numbers are little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// Uninterpreted bytes.
    Bytes,
    /// UTF-8 text.
    Utf8,
    /// One byte, 0 or 1.
    Boolean,
    /// Signed, 4 bytes.
    Int32,
    /// Signed, 8 bytes.
    Int64,
    /// IEEE 754, 4 bytes.
    Float32,
    /// IEEE 754, 8 bytes.
    Float64,
}

/// One field of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Name by which consumers ask for it; unique in its schema.
    pub name: String,
    /// Type of an element.
    pub scalar: Scalar,
    /// Empty for a single element. A dimension of 0 is told by the length of each field.
    pub shape: Vec<u32>,
}

impl Field {
    /// A field of one element.
    pub fn new(name: impl Into<String>, scalar: Scalar) -> Self {
        Self { name: name.into(), scalar, shape: Vec::new() }
    }
    /// A field of uninterpreted bytes.
    pub fn bytes(name: impl Into<String>) -> Self {
        Self::new(name, Scalar::Bytes)
    }
    /// The same field with a shape.
    pub fn shaped(mut self, shape: impl Into<Vec<u32>>) -> Self {
        self.shape = shape.into();
        self
    }
}
