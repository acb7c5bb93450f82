//! Inside the sandbox: makes a [`Decoder`] the exports of a component. Used by [`crate::export!`].

use std::any::Any;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Once;

use crate::bindings::exports::pipemill::decoder0_1_0::decoder as wit;
use crate::bindings::exports::pipemill::decoder0_3_0::plan as wit_plan;
use crate::bindings::pipemill::decoder0_1_0::{host, types};
use crate::bindings::pipemill::decoder0_3_0::{blocks, columns};
use crate::columns::column_spans;
use crate::{
    Codec, ColumnValues, Companion, DecodeError, Decoder, Field, Host, Level, Next, OptionFiles,
    OptionKind, OptionSpec, Options, Piece, PlanRange, Records, Resume, StreamInfo,
};

/// The allocator of std takes all memory by growing the module's memory. For each object, which has
/// its own instance, that would interrupt the other cores: it takes as long as decoding a short
/// object. This one first uses the memory after the module's data, which the linker adds with
/// `--initial-heap`.
#[cfg(all(target_arch = "wasm32", feature = "allocator"))]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

/// The imports of the component, as the [`Host`] of [`Records`].
struct Imports;

impl Host for Imports {
    fn set_schema(&mut self, fields: &[Field]) {
        let fields: Vec<_> = fields.iter().map(field).collect();
        host::set_schema(&fields);
    }
    fn emit(&mut self, records: usize, spans: &[u64], payload: &[u8], starts: &[u32]) {
        host::emit(records as u32, spans, payload, starts);
    }
    fn is_sandbox(&self) -> bool {
        true
    }
    fn set_metadata(&mut self, key: &str, value: &str) {
        host::set_metadata(key, value);
    }
    fn bad(&mut self, bytes: Range<usize>, message: &str) -> bool {
        host::bad(bytes.start as u32, bytes.end as u32, message)
    }
    fn check_crc32c(&mut self, spans: &[u64], expected: &[u32]) -> Option<usize> {
        host::check_crc32c(spans, expected).map(|index| index as usize)
    }
    fn check_crc32(&mut self, spans: &[u64], expected: &[u32]) -> Option<usize> {
        host::check_crc32(spans, expected).map(|index| index as usize)
    }
    fn decompress(
        &mut self,
        codec: Codec,
        span: u64,
        skip: u64,
        max: usize,
    ) -> Result<(Vec<u8>, bool), String> {
        let max = u32::try_from(max).unwrap_or(u32::MAX);
        host::decompress(codec.word(), span, skip, max).map(|part| (part.bytes, part.last))
    }
    fn log(&mut self, level: Level, message: &str) {
        let level = match level {
            Level::Debug => types::Level::Debug,
            Level::Info => types::Level::Info,
            Level::Warn => types::Level::Warn,
            Level::Error => types::Level::Error,
        };
        host::log(level, message);
    }
}

/// Passes records to the host field by field. The payload has `base` bytes before.
pub(crate) fn emit_columns(
    records: usize,
    columns: &[ColumnValues<'_>],
    made: &[u8],
    start: usize,
    base: usize,
) {
    let spans = |column| {
        let [values, offsets, present] = column_spans(column, base);
        columns::Column { values, offsets, present }
    };
    let columns: Vec<_> = columns.iter().map(spans).collect();
    columns::emit_columns(records as u32, &columns, made, start as u32);
}

/// Decompresses at most `max` bytes of a block after the first `skip`. They are not added to the
/// payload.
pub(crate) fn read_block(
    codec: Codec,
    span: u64,
    skip: u64,
    max: usize,
) -> Result<(Vec<u8>, bool), String> {
    blocks::read(codec.word(), span, skip, u32::try_from(max).unwrap_or(u32::MAX))
}

/// As [`read_block`], of a block with these spans.
pub(crate) fn read_pieces(
    codec: Codec,
    pieces: &[u64],
    skip: u64,
    max: usize,
) -> Result<(Vec<u8>, bool), String> {
    blocks::read_pieces(codec.word(), pieces, skip, u32::try_from(max).unwrap_or(u32::MAX))
}

/// The result of the exported function `options`.
pub fn options<D: Decoder>() -> Vec<wit::OptionSpec> {
    D::options().into_iter().map(option_spec).collect()
}

fn option_spec(spec: OptionSpec) -> wit::OptionSpec {
    let kind = match spec.kind {
        OptionKind::String => "string".to_owned(),
        OptionKind::Bool => "bool".to_owned(),
        OptionKind::Int => "int".to_owned(),
        OptionKind::Choice(words) => format!("choice:{}", words.join("|")),
        OptionKind::List => "list".to_owned(),
        OptionKind::File => "file".to_owned(),
    };
    wit::OptionSpec {
        name: spec.name.to_owned(),
        kind,
        default: spec.default.map(str::to_owned),
        required: spec.required,
        help: spec.help.to_owned(),
    }
}

fn field(field: &Field) -> types::Field {
    types::Field {
        name: field.name.clone(),
        scalar: field.scalar.word().to_owned(),
        shape: field.shape.clone(),
        nullable: field.nullable,
        logical: field.logical.clone(),
        categories: field.categories.clone(),
        metadata: field.metadata.clone(),
    }
}

/// Logs the text of a panic. Without this the host sees only a trap, which has no text.
fn log_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|info| host::log(types::Level::Error, &info.to_string())));
    });
}

/// An open stream: the exported resource `stream`.
pub struct Stream<D> {
    state: RefCell<StreamState<D>>,
}

struct StreamState<D> {
    decoder: D,
    records: Records,
    /// The chunk of the last call, if it returned `more`, from the first byte on that it has not
    /// consumed.
    kept: Option<(Vec<u8>, usize)>,
}

impl<D: Decoder> wit::GuestStream for Stream<D> {
    fn open(given: Vec<(String, String)>, info: wit::StreamInfo) -> Result<wit::Stream, String> {
        log_panics();
        let options = prepared_options::<D>(&given)?;
        let offsets = info.offsets;
        Ok(Stream::of(D::open(&options, &stream_info(info))?, offsets))
    }

    fn decode(&self, chunk: Vec<u8>, end: bool) -> Result<wit::Progress, wit::DecodeError> {
        self.decode_and_keep(chunk, 0, end)
    }

    fn resync(&self, chunk: Vec<u8>, end: bool) -> wit::Resynced {
        let state = &mut *self.state.borrow_mut();
        let resync = state.decoder.resync(&chunk, end);
        wit::Resynced { consumed: resync.consumed as u32, found: resync.found }
    }
}

impl<D: Decoder> Stream<D> {
    /// Decodes the chunk from the byte `from` on, and keeps it if the call returns `more`.
    fn decode_and_keep(
        &self,
        chunk: Vec<u8>,
        from: usize,
        end: bool,
    ) -> Result<wit::Progress, wit::DecodeError> {
        let result = self.decode_chunk(&chunk[from..], end);
        let kept = result.as_ref().ok().filter(|progress| progress.more);
        self.state.borrow_mut().kept =
            kept.map(|progress| (chunk, from + progress.consumed as usize));
        result
    }

    /// Decodes the rest of the chunk that was kept.
    ///
    /// # Panics
    /// If the last call did not return `more`.
    pub fn decode_rest(&self, end: bool) -> Result<wit::Progress, wit::DecodeError> {
        let kept = self.state.borrow_mut().kept.take();
        let (chunk, from) = kept.expect("`rest` is called only after a call that returned `more`");
        self.decode_and_keep(chunk, from, end)
    }

    /// The stream of a decoder that was just opened, or loaded.
    fn of(decoder: D, offsets: bool) -> wit::Stream {
        let mut records = Records::new(Box::new(Imports), offsets);
        if let Some(fields) = decoder.schema() {
            records.set_schema(&fields);
        }
        records.tell_restart(decoder.restart());
        let state = RefCell::new(StreamState { decoder, records, kept: None });
        wit::Stream::new(Stream { state })
    }

    /// The exported function `save`.
    pub fn save(&self) -> Option<Vec<u8>> {
        self.state.borrow().decoder.save()
    }

    fn decode_chunk(&self, chunk: &[u8], end: bool) -> Result<wit::Progress, wit::DecodeError> {
        let state = &mut *self.state.borrow_mut();
        state.records.begin_call();
        let result = state.decoder.decode(chunk, end, &mut state.records);
        state.records.flush();
        state.records.tell_restart(state.decoder.restart());
        match result {
            Ok(progress) => Ok(wit::Progress {
                consumed: progress.consumed as u32,
                need: u32::try_from(progress.need).unwrap_or(u32::MAX),
                more: progress.more,
            }),
            Err(error) => Err(decode_error(error)),
        }
    }

    /// Decodes a chunk in the window: `length` bytes at the address `at`.
    ///
    /// # Safety
    /// The bytes belong to the plugin, and nobody changes them during the call.
    #[cfg(target_arch = "wasm32")]
    pub unsafe fn decode_in_window(
        &self,
        at: u32,
        length: u32,
        end: bool,
    ) -> Result<wit::Progress, wit::DecodeError> {
        // SAFETY: the caller vouches for it. The host passes a chunk only after memory was
        // reserved, so the address is not 0.
        let chunk = unsafe { std::slice::from_raw_parts(at as *const u8, length as usize) };
        self.state.borrow_mut().kept = None;
        self.decode_chunk(chunk, end)
    }
}

/// Reserves memory for the window. Returns its address, or 0 if there is none. Memory that the
/// plugin allocates later is elsewhere.
#[cfg(target_arch = "wasm32")]
pub fn set_aside(bytes: u32) -> u32 {
    const PAGE: usize = 64 << 10;
    match std::arch::wasm32::memory_grow::<0>((bytes as usize).div_ceil(PAGE)) {
        usize::MAX => 0,
        pages => (pages * PAGE) as u32,
    }
}

fn stream_info(info: wit::StreamInfo) -> StreamInfo {
    StreamInfo {
        channel: info.channel,
        epoch: info.epoch,
        object: info.object,
        max_record: info.max_record,
        size: info.size,
        content_type: info.content_type,
        etag: info.etag,
        extensions: info.extensions,
    }
}

thread_local! {
    /// What the decoder has prepared.
    static PREPARED: RefCell<Option<Rc<dyn Any>>> = const { RefCell::new(None) };
}

/// The exported function `prepare`.
pub fn prepare<D: Decoder>(
    given: &[(String, String)],
    files: &[(String, Vec<u8>)],
) -> Result<(), String> {
    log_panics();
    let options = Options::new(&D::options(), given)?;
    let made = D::prepare(&options, OptionFiles::new(files))?;
    PREPARED.set(Some(made));
    Ok(())
}

/// The options of a stream. A host that knows only an earlier version of the interface has not
/// called `prepare`.
fn prepared_options<D: Decoder>(given: &[(String, String)]) -> Result<Options, String> {
    let options = Options::new(&D::options(), given)?;
    if !D::prepares() {
        return Ok(options);
    }
    if PREPARED.with_borrow(Option::is_none) {
        prepare::<D>(given, &[])?;
    }
    Ok(match PREPARED.with_borrow(Clone::clone) {
        Some(made) => options.and_prepared(made),
        None => options,
    })
}

/// The exported function `load`.
pub fn load<D: Decoder>(
    given: &[(String, String)],
    info: wit::StreamInfo,
    saved: &[u8],
) -> Result<wit::Stream, String> {
    log_panics();
    let options = prepared_options::<D>(given)?;
    let offsets = info.offsets;
    Ok(Stream::of(D::load(&options, &stream_info(info), saved)?, offsets))
}

/// The exported function `companions` of plans.
pub fn companions<D: Decoder>(
    given: &[(String, String)],
) -> Result<Vec<wit_plan::Companion>, String> {
    log_panics();
    let options = Options::new(&D::options(), given)?;
    let companion = |Companion { object, companion }| wit_plan::Companion {
        object: str::to_owned(object),
        companion: str::to_owned(companion),
    };
    Ok(D::companions(&options).into_iter().map(companion).collect())
}

/// The exported function `step` of plans.
pub fn step<D: Decoder>(
    given: &[(String, String)],
    info: wit::StreamInfo,
    seen: Vec<wit_plan::Piece>,
) -> Result<wit_plan::Next, String> {
    log_panics();
    let options = prepared_options::<D>(given)?;
    let piece = |wit_plan::Piece { of, offset, bytes }| Piece { of, offset, bytes };
    let seen: Vec<_> = seen.into_iter().map(piece).collect();
    let next = D::plan(&options, &stream_info(info), &seen)?;
    Ok(match next {
        Next::Read(wanted) => wit_plan::Next::Read(wanted.iter().map(range).collect()),
        Next::Parts(parts) => wit_plan::Next::Parts(parts.into_iter().map(part).collect()),
        Next::Whole => wit_plan::Next::Whole,
    })
}

fn part(part: crate::Part) -> wit_plan::Part {
    let ranges = part.ranges.iter().map(range).collect();
    wit_plan::Part { context: part.context, ranges, records: part.records }
}

fn range(range: &PlanRange) -> wit_plan::Range {
    let PlanRange { of, bytes } = range;
    let length = bytes.end.saturating_sub(bytes.start);
    wit_plan::Range { of: *of, offset: bytes.start, length }
}

fn decode_error(error: DecodeError) -> wit::DecodeError {
    let resume = match error.resume {
        Resume::At(at) => wit::Resume::At(at),
        Resume::Scan(from) => wit::Resume::Scan(from),
        Resume::None => wit::Resume::None,
        Resume::Refused => wit::Resume::Refused,
    };
    wit::DecodeError { offset: error.offset as u32, message: error.message, resume }
}
