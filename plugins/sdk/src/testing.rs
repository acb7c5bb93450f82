//! A small native host for tests: it decodes an input that is split as you choose. The [`Outcome`]
//! must be the same for every split; [`assert_any_split`] checks that.

mod speed;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

pub use speed::{print_passes, print_speed, print_speed_with};

use crate::{
    Codec, DecodeError, Decoder, Field, Host, Level, Next, OptionFiles, Options, Part, Piece,
    PlanRange, Progress, Records, Resume, StreamInfo, unpack,
};

/// One record: its fields; `None` is an absent field.
pub type Record = Vec<Option<Vec<u8>>>;

/// The result of decoding an input.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// The records, in order.
    pub records: Vec<Record>,
    /// The start of each record in the input.
    pub starts: Vec<u64>,
    /// The errors, in order: offset of the bad record, bytes skipped (up to the next record or the
    /// end of the input), message. Without skipping there is at most one error, with 0 bytes
    /// skipped.
    pub errors: Vec<(u64, u64, String)>,
    /// Whether the last error refuses the input: if so, no error after it is skipped.
    pub refused: bool,
    /// The schema, if the decoder set one.
    pub schema: Option<Vec<Field>>,
    /// The facts about the object that the decoder reported, sorted by key.
    pub metadata: BTreeMap<String, String>,
}

/// The settings of a stream.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Options of the decoder: names and values.
    pub options: Vec<(String, String)>,
    /// Whether to continue after errors that the decoder can skip.
    pub skip: bool,
    /// Largest record, in bytes.
    pub max_record: u64,
    /// Decompresses a block, for decoders with compressed blocks. `None` for other decoders.
    pub decompress: Option<Decompress>,
    /// The extensions of the stream info: keys and values.
    pub extensions: Vec<(String, String)>,
    /// Files that options name: the names of the options, and the content.
    pub files: Vec<(String, Vec<u8>)>,
}

/// Decompresses a whole block. The error says what is wrong with it.
pub type Decompress = fn(Codec, &[u8]) -> Result<Vec<u8>, String>;

/// Number of bytes of a block that the test host returns at a time. It is small, so that tests meet
/// blocks of several parts.
const MAX_PART_BYTES: usize = 4 << 10;

/// Number of positions at which [`assert_any_split`] restarts decoding.
const MAX_RESTARTS: usize = 6;

/// Most bytes that a decoder may save.
const MAX_SAVED: usize = 64 << 10;

impl Setup {
    /// These options. Decoding ends at the first error; records have up to 64 MiB.
    pub fn new(options: &[(&str, &str)]) -> Self {
        let options = options.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        Self {
            options,
            skip: false,
            max_record: 64 << 20,
            decompress: None,
            extensions: Vec::new(),
            files: Vec::new(),
        }
    }
    /// The same setup, with a file of this content in the option `name`.
    pub fn with_file(mut self, name: &str, content: &[u8]) -> Self {
        self.files.push((name.to_owned(), content.to_vec()));
        self
    }
    /// The same setup, with this function to decompress blocks.
    pub fn decompressing(mut self, decompress: Decompress) -> Self {
        self.decompress = Some(decompress);
        self
    }
    /// The same setup, for a stream that is shown [`parts`] of a plan.
    pub fn planned(mut self) -> Self {
        self.extensions.push(("planned".to_owned(), String::new()));
        self
    }
    /// The same setup, but decoding continues after errors.
    pub fn skipping(mut self) -> Self {
        self.skip = true;
        self
    }
}

/// Opens a decoder.
///
/// # Errors
/// The text with which the decoder, or the check of its options, refuses the setup.
pub fn open<D: Decoder>(setup: &Setup) -> Result<D, String> {
    D::open(&options::<D>(setup)?, &info(setup))
}

/// The options of the setup, with what the decoder has prepared with them.
fn options<D: Decoder>(setup: &Setup) -> Result<Options, String> {
    let mut given = setup.options.clone();
    given.extend(setup.files.iter().map(|(name, _)| (name.clone(), "sha256:".to_owned())));
    let options = Options::new(&D::options(), &given)?;
    if !D::prepares() {
        return Ok(options);
    }
    let made = D::prepare(&options, OptionFiles::new(&setup.files))?;
    Ok(options.and_prepared(made))
}

fn info(setup: &Setup) -> StreamInfo {
    StreamInfo {
        channel: "test".into(),
        object: "test".into(),
        max_record: setup.max_record,
        extensions: setup.extensions.clone(),
        ..StreamInfo::default()
    }
}

/// The bytes of each part of a decoder's plan of an object. `None` if the object is shown whole.
/// Decode them with [`Setup::planned`].
///
/// # Errors
/// The text with which the decoder refuses the object.
///
/// # Panics
/// If the decoder breaks the contract: a range is not in the object, or a step has too many bytes
/// or ranges.
pub fn parts<D: Decoder>(setup: &Setup, object: &[u8]) -> Result<Option<Vec<Vec<u8>>>, String> {
    parts_with::<D>(setup, object, &[])
}

/// The same, of an object with these companions.
///
/// # Errors
/// The text with which the decoder refuses the object.
///
/// # Panics
/// If the decoder breaks the contract: see [`parts`].
pub fn parts_with<D: Decoder>(
    setup: &Setup,
    object: &[u8],
    companions: &[&[u8]],
) -> Result<Option<Vec<Vec<u8>>>, String> {
    let mut info = StreamInfo { size: Some(object.len() as u64), ..info(setup) };
    if !companions.is_empty() {
        let sizes: Vec<_> = companions.iter().map(|one| one.len().to_string()).collect();
        info.extensions.push(("companions".to_owned(), sizes.join(" ")));
    }
    let options = options::<D>(setup)?;
    let bytes = |PlanRange { of, bytes }: &PlanRange| {
        let object = of.checked_sub(1).map_or(object, |number| companions[number as usize]);
        &object[bytes.start as usize..bytes.end as usize]
    };
    let mut seen: Vec<Piece> = Vec::new();
    for _ in 0..32 {
        match D::plan(&options, &info, &seen)? {
            Next::Whole => return Ok(None),
            Next::Read(ranges) => {
                assert!((1..=64).contains(&ranges.len()), "{} ranges in a step", ranges.len());
                let piece = |range: &PlanRange| Piece {
                    of: range.of,
                    offset: range.bytes.start,
                    bytes: bytes(range).to_vec(),
                };
                seen.extend(ranges.iter().map(piece));
                let read: usize = seen.iter().map(|piece| piece.bytes.len()).sum();
                assert!(read <= 32 << 20, "{read} bytes are read for a plan");
            }
            Next::Parts(parts) => {
                let part = |part: &Part| {
                    let ranges: Vec<_> = part.ranges.iter().map(bytes).collect();
                    [&part.context, &ranges.concat()[..]].concat()
                };
                return Ok(Some(parts.iter().map(part).collect()));
            }
        }
    }
    panic!("there is no plan after 32 steps");
}

/// Opens a decoder, passes it one chunk that is not the end of the input, and returns the result of
/// `decode`. For tests of [`Progress::need`].
///
/// # Errors
/// The error of `decode`.
///
/// # Panics
/// If the decoder refuses the setup.
pub fn decode_once<D: Decoder>(setup: &Setup, chunk: &[u8]) -> Result<Progress, DecodeError> {
    let mut run = Run::<D>::new(setup, chunk, &[]);
    run.show_more();
    run.decode_shown(false)
}

/// Decodes the input as one chunk.
///
/// # Panics
/// The same as [`decode_split`].
pub fn decode_whole<D: Decoder>(setup: &Setup, input: &[u8]) -> Outcome {
    decode_split::<D>(setup, input, &[])
}

/// Decodes the input. It arrives in pieces of these sizes in bytes; the last piece is the rest.
///
/// # Panics
/// If the decoder breaks the contract, or refuses the setup.
pub fn decode_split<D: Decoder>(setup: &Setup, input: &[u8], sizes: &[usize]) -> Outcome {
    let mut run = Run::<D>::new(setup, input, sizes);
    run.decode_all();
    run.outcome()
}

/// The places at which decoding can restart, when the input arrives in pieces of these sizes.
///
/// # Panics
/// The same as [`decode_split`].
pub fn restarts<D: Decoder>(setup: &Setup, input: &[u8], sizes: &[usize]) -> Vec<RestartPlace> {
    let mut run = Run::<D>::new(setup, input, sizes);
    run.decode_all();
    run.restarts
}

/// Asserts that decoding can restart at the places of [`restarts`]. Returns the places.
///
/// # Panics
/// The same as [`assert_restart`].
pub fn assert_restarts<D: Decoder>(
    setup: &Setup,
    input: &[u8],
    sizes: &[usize],
) -> Vec<RestartPlace> {
    let whole = decode_whole::<D>(setup, input);
    let mut restarts = restarts::<D>(setup, input, sizes);
    restarts.dedup();
    for restart in &restarts {
        assert_restart::<D>(setup, input, sizes, restart, &whole);
    }
    restarts
}

/// The places at which the decoder saves its state, when the input arrives in pieces of these sizes.
///
/// # Panics
/// The same as [`decode_split`].
pub fn saved_places<D: Decoder>(setup: &Setup, input: &[u8], sizes: &[usize]) -> Vec<SavedPlace> {
    let mut run = Run::<D>::new(setup, input, sizes);
    run.decode_all();
    run.saved
}

/// The extension that passes the fields of earlier records to the streams of later objects, and to
/// streams that begin inside this one.
pub fn schema_extension(fields: &[Field]) -> (String, String) {
    let line = |field: &Field| {
        let sizes: Vec<_> = field.shape.iter().map(u32::to_string).collect();
        let shape = if sizes.is_empty() { String::new() } else { format!("[{}]", sizes.join(",")) };
        format!("{}{shape} {}\n", field.scalar.word(), field.name)
    };
    ("schema".to_owned(), fields.iter().map(line).collect())
}

/// Asserts that decoding can restart at a place: it gives the records and the errors of `whole`
/// after that place. The input after the position arrives in pieces of these sizes. The messages of
/// errors may differ, because lines count from the place.
///
/// # Panics
/// If the position gives another result; also as [`decode_split`].
pub fn assert_restart<D: Decoder>(
    setup: &Setup,
    input: &[u8],
    sizes: &[usize],
    restart: &RestartPlace,
    whole: &Outcome,
) {
    let RestartPlace { header, place, .. } = *restart;
    let mut setup = setup.clone();
    setup.extensions.retain(|(key, _)| key != "schema");
    setup.extensions.extend(whole.schema.as_deref().map(schema_extension));
    setup.extensions.push(("restart".to_owned(), format!("{header} {place}")));
    // No record begins at the end of the object, so no stream does.
    if header > 0 && place < input.len() {
        let alone = decode_once::<D>(&setup, &input[..header]);
        let consumed = alone.map(|progress| progress.consumed);
        assert_eq!(consumed.ok(), Some(header), "consumed of the header before {restart:?}");
    }
    let shown = [&input[..header], &input[place..]].concat();
    let rest = decode_split::<D>(&setup, &shown, sizes);
    assert_rest(&rest, restart, whole);
}

/// Asserts that decoding can go on with what the decoder has saved at a place: as
/// [`assert_restart`].
///
/// # Panics
/// If the place gives another result, or the decoder refuses what it has saved; also as
/// [`decode_split`].
pub fn assert_saved<D: Decoder>(
    setup: &Setup,
    input: &[u8],
    sizes: &[usize],
    saved: &SavedPlace,
    whole: &Outcome,
) {
    let SavedPlace { at, saved } = saved;
    assert!(saved.len() <= MAX_SAVED, "{} bytes are saved at {at:?}", saved.len());
    let mut setup = setup.clone();
    setup.extensions.retain(|(key, _)| key != "schema");
    setup.extensions.extend(whole.schema.as_deref().map(schema_extension));
    setup.extensions.push(("restart".to_owned(), format!("0 {}", at.place)));
    let options = options::<D>(&setup).expect("the options are right");
    let loaded = D::load(&options, &info(&setup), saved).expect("the decoder loads what it saved");
    let mut run = Run::of(loaded, &setup, &input[at.place..], sizes);
    run.decode_all();
    assert_rest(&run.outcome(), at, whole);
}

/// Compares the outcome of the bytes from a place on, after its header, with the whole.
fn assert_rest(rest: &Outcome, restart: &RestartPlace, whole: &Outcome) {
    let RestartPlace { header, place, records, errors } = *restart;
    // Positions in the input. The header gives no record.
    let moved = |at: u64| at as i64 - header as i64 + place as i64;
    let starts: Vec<_> = rest.starts.iter().map(|start| moved(*start)).collect();
    let whole_starts: Vec<_> = whole.starts[records..].iter().map(|start| *start as i64).collect();
    assert_eq!(rest.records, whole.records[records..], "records after {restart:?}");
    assert_eq!(starts, whole_starts, "starts after {restart:?}");
    let found: Vec<_> = rest.errors.iter().map(|(at, skipped, _)| (moved(*at), *skipped)).collect();
    let expected = whole.errors[errors..].iter();
    let expected: Vec<_> = expected.map(|(at, skipped, _)| (*at as i64, *skipped)).collect();
    assert_eq!(found, expected, "errors after {restart:?}");
    if !rest.records.is_empty() {
        assert_eq!(rest.schema, whole.schema, "schema after {restart:?}");
    }
}

/// Asserts that the input in pieces of these sizes gives the same outcome as the whole input, and
/// that decoding can restart at some of the places that the decoder names, and go on at some of
/// those at which it saves its state. Returns the outcome.
///
/// # Panics
/// If the outcomes differ; also as [`decode_split`], [`assert_restart`] and [`assert_saved`].
pub fn assert_any_split<D: Decoder>(setup: &Setup, input: &[u8], sizes: &[usize]) -> Outcome {
    let whole = decode_whole::<D>(setup, input);
    let split = decode_split::<D>(setup, input, sizes);
    assert_eq!(whole, split, "pieces of {sizes:?} give another outcome than the whole input");
    let places = restarts::<D>(setup, input, sizes);
    let step = places.len().div_ceil(MAX_RESTARTS).max(1);
    for place in places.iter().step_by(step).chain(places.last()) {
        assert_restart::<D>(setup, input, &sizes[sizes.len() / 2..], place, &whole);
    }
    let saved = saved_places::<D>(setup, input, sizes);
    let step = saved.len().div_ceil(MAX_RESTARTS).max(1);
    for saved in saved.iter().step_by(step).chain(saved.last()) {
        assert_saved::<D>(setup, input, &sizes[sizes.len() / 2..], saved, &whole);
    }
    whole
}

/// Asserts that the input gives the same outcome as a whole, byte by byte and for every split in
/// two, and returns that outcome. For inputs of up to some thousand bytes.
///
/// # Panics
/// The same as [`assert_any_split`].
pub fn assert_all_splits<D: Decoder>(setup: &Setup, input: &[u8]) -> Outcome {
    let whole = assert_any_split::<D>(setup, input, &vec![1; input.len()]);
    for split in 1..input.len() {
        assert_eq!(whole, decode_split::<D>(setup, input, &[split]), "split at {split}");
    }
    whole
}

/// The CRC-32C of `bytes`, computed bit by bit: a slow reference.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc(bytes, 0x82f6_3b78)
}

/// The CRC-32 of `bytes`, as gzip has it, computed bit by bit: a slow reference.
pub fn crc32(bytes: &[u8]) -> u32 {
    crc(bytes, 0xedb8_8320)
}

fn crc(bytes: &[u8], polynomial: u32) -> u32 {
    !bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { crc >> 1 ^ polynomial } else { crc >> 1 }
        })
    })
}

/// The calls that the decoder made of its host.
#[derive(Default)]
struct Collected {
    /// The chunk of the decoder.
    chunk: Vec<u8>,
    /// The start of the chunk in the input.
    base: u64,
    /// The payload of the running call.
    payload: Vec<u8>,
    schema: Option<Vec<Field>>,
    metadata: BTreeMap<String, String>,
    /// The decoder's last answer whether decoding can restart.
    restart: Option<u64>,
    records: Vec<Record>,
    starts: Vec<u64>,
    errors: Vec<(u64, u64, String)>,
    /// Whether errors are skipped.
    skip: bool,
    decompress: Option<Decompress>,
    /// The block that was decompressed last, and its decompressed bytes.
    block: Option<(Vec<u8>, Vec<u8>)>,
}

impl Collected {
    /// The bytes of a span.
    fn slice(&self, span: u64) -> &[u8] {
        &(if span >> 63 == 1 { &self.payload } else { &self.chunk })[unpack(span)]
    }
}

struct Collector(Rc<RefCell<Collected>>);

impl Host for Collector {
    fn set_schema(&mut self, fields: &[Field]) {
        self.0.borrow_mut().schema = Some(fields.to_vec());
    }
    fn emit(&mut self, records: usize, spans: &[u64], payload: &[u8], starts: &[u32]) {
        let own = &mut *self.0.borrow_mut();
        own.payload.extend_from_slice(payload);
        let fields = own.schema.as_ref().expect("emit: set_schema was called before").len();
        assert_eq!(spans.len(), records * fields, "emit: a span for each field of each record");
        assert_eq!(starts.len(), records, "emit: a start for each record");
        for (record, start) in spans.chunks(fields).zip(starts) {
            let field = |span: &u64| (*span != u64::MAX).then(|| own.slice(*span).to_vec());
            let record = record.iter().map(field).collect();
            let start = own.base + u64::from(*start);
            own.records.push(record);
            own.starts.push(start);
        }
    }
    fn set_metadata(&mut self, key: &str, value: &str) {
        let own = &mut *self.0.borrow_mut();
        if key == "pipemill.restart" {
            own.restart = value.parse().ok();
            return;
        }
        assert!(own.records.is_empty(), "set_metadata: only before the first record");
        own.metadata.insert(key.to_owned(), value.to_owned());
    }
    fn bad(&mut self, bytes: Range<usize>, message: &str) -> bool {
        let own = &mut *self.0.borrow_mut();
        assert!(!bytes.is_empty() && bytes.end <= own.chunk.len(), "bad: {bytes:?}");
        if own.skip {
            let (offset, length) = (own.base + bytes.start as u64, bytes.len() as u64);
            own.errors.push((offset, length, message.to_owned()));
        }
        own.skip
    }
    fn check_crc32c(&mut self, spans: &[u64], expected: &[u32]) -> Option<usize> {
        let own = self.0.borrow();
        spans.iter().zip(expected).position(|(span, crc)| crc32c(own.slice(*span)) != *crc)
    }
    fn check_crc32(&mut self, spans: &[u64], expected: &[u32]) -> Option<usize> {
        let own = self.0.borrow();
        spans.iter().zip(expected).position(|(span, crc)| crc32(own.slice(*span)) != *crc)
    }
    fn decompress(
        &mut self,
        codec: Codec,
        span: u64,
        skip: u64,
        max: usize,
    ) -> Result<(Vec<u8>, bool), String> {
        let (bytes, last) = self.read_pieces(codec, &[span], skip, max)?;
        self.0.borrow_mut().payload.extend_from_slice(&bytes);
        Ok((bytes, last))
    }
    fn read_pieces(
        &mut self,
        codec: Codec,
        pieces: &[u64],
        skip: u64,
        max: usize,
    ) -> Result<(Vec<u8>, bool), String> {
        let own = &mut *self.0.borrow_mut();
        let pieces: Vec<_> = pieces.iter().copied().map(unpack).collect();
        assert!(
            pieces.is_sorted_by(|one, next| one.end <= next.start),
            "read_pieces: {pieces:?} are not in order, or overlap"
        );
        let block: Vec<_> = pieces.into_iter().map(|piece| &own.chunk[piece]).collect();
        let block = block.concat();
        // The first block may be empty, but it is decompressed anyway.
        if own.block.as_ref().is_none_or(|(known, _)| *known != block) {
            let decompress = own.decompress.expect("Setup::decompress is set");
            let bytes = decompress(codec, &block)?;
            own.block = Some((block, bytes));
        }
        let bytes = own.block.as_ref().map_or(&[][..], |(_, bytes)| bytes);
        let from = usize::try_from(skip).unwrap_or(usize::MAX);
        let Some(rest) = bytes.get(from..) else {
            return Err(format!("the block has {} bytes, not {skip}", bytes.len()));
        };
        let size = rest.len().min(max).min(MAX_PART_BYTES);
        Ok((rest[..size].to_vec(), size == rest.len()))
    }
    fn log(&mut self, _: Level, _: &str) {}
}

/// A stream that is being decoded.
struct Run<'a, D> {
    decoder: D,
    records: Records,
    collected: Rc<RefCell<Collected>>,
    input: &'a [u8],
    /// Sizes of the pieces that were not passed yet, the last one first.
    sizes: Vec<usize>,
    /// The start of the next chunk: all bytes before it are consumed.
    start: usize,
    /// The end of the input that arrived.
    shown: usize,
    skip: bool,
    /// Whether the decoder refused the input.
    refused: bool,
    /// The place where decoding can restart.
    restarts: Vec<RestartPlace>,
    /// The places at which the decoder has saved its state.
    saved: Vec<SavedPlace>,
}

/// A place at which decoding can restart: see [`Decoder::restart`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartPlace {
    /// Number of bytes of the input that are passed first.
    pub header: usize,
    /// The position from which the input is passed then.
    pub place: usize,
    /// Number of records before it.
    pub records: usize,
    /// Number of errors before it.
    pub errors: usize,
}

/// A place at which the decoder has saved its state: see [`Decoder::save`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedPlace {
    /// The place. Its header is 0.
    pub at: RestartPlace,
    /// What the decoder has saved.
    pub saved: Vec<u8>,
}

impl<'a, D: Decoder> Run<'a, D> {
    fn new(setup: &Setup, input: &'a [u8], sizes: &[usize]) -> Self {
        Self::of(open::<D>(setup).expect("the decoder opens"), setup, input, sizes)
    }

    fn of(decoder: D, setup: &Setup, input: &'a [u8], sizes: &[usize]) -> Self {
        let collected =
            Collected { skip: setup.skip, decompress: setup.decompress, ..Collected::default() };
        let collected = Rc::new(RefCell::new(collected));
        let mut records = Records::new(Box::new(Collector(collected.clone())), true);
        if let Some(fields) = decoder.schema() {
            records.set_schema(&fields);
        }
        records.tell_restart(decoder.restart());
        let sizes = sizes.iter().copied().filter(|size| *size > 0).rev().collect();
        Run {
            decoder,
            records,
            collected,
            input,
            sizes,
            start: 0,
            shown: 0,
            skip: setup.skip,
            refused: false,
            restarts: Vec::new(),
            saved: Vec::new(),
        }
    }

    fn outcome(&self) -> Outcome {
        let collected = self.collected.borrow();
        Outcome {
            records: collected.records.clone(),
            starts: collected.starts.clone(),
            errors: collected.errors.clone(),
            refused: self.refused,
            schema: collected.schema.clone(),
            metadata: collected.metadata.clone(),
        }
    }

    fn ended(&self) -> bool {
        self.shown == self.input.len()
    }

    /// Makes the next piece arrive.
    fn show_more(&mut self) {
        let step = self.sizes.pop().unwrap_or(usize::MAX);
        self.shown = self.shown.saturating_add(step).min(self.input.len());
    }

    /// Adds an error of `length` bytes.
    fn error(&mut self, offset: usize, length: usize, message: String) {
        self.collected.borrow_mut().errors.push((offset as u64, length as u64, message));
    }

    /// Decodes to the end of the input, or to the error that ends it.
    fn decode_all(&mut self) {
        let mut last_call = false;
        loop {
            let end = last_call;
            match self.decode_available(end) {
                Ok(()) if end => {
                    if self.start < self.input.len() {
                        self.error(self.start, 0, "the input ends inside a record".to_owned());
                    }
                    return;
                }
                Ok(()) if self.ended() => last_call = true,
                Ok(()) => self.show_more(),
                Err(error) => {
                    let chunk = self.start;
                    let at = chunk + error.offset;
                    if !self.skip {
                        self.refused = error.resume == Resume::Refused;
                        return self.error(at, 0, error.message);
                    }
                    self.start = match error.resume {
                        Resume::At(to) => self.show_up_to(chunk.saturating_add(to as usize)),
                        Resume::Scan(from) => {
                            let from = self.show_up_to(chunk.saturating_add(from as usize));
                            self.search(from)
                        }
                        Resume::None => self.show_up_to(usize::MAX),
                        Resume::Refused => {
                            self.refused = true;
                            return self.error(at, 0, error.message);
                        }
                    };
                    let nothing_left = self.start == self.input.len();
                    assert!(self.start > at || nothing_left, "no progress after an error");
                    self.error(at, self.start - at, error.message);
                    // As in the host, the decoder is not called again after the rest was given up,
                    // nor after an error at the end.
                    if error.resume == Resume::None || (end && nothing_left) {
                        return;
                    }
                }
            }
        }
    }

    /// Calls `decode` until it needs more bytes than have arrived.
    fn decode_available(&mut self, end: bool) -> Result<(), DecodeError> {
        loop {
            let chunk = &self.input[self.start..self.shown];
            let before = self.collected.borrow().records.len();
            let progress = self.decode_shown(end)?;
            if progress.more {
                // The rest of the chunk, with no byte after it, is passed at once.
                let emitted = self.collected.borrow().records.len() > before;
                assert!(emitted || progress.consumed > 0, "more, but nothing emitted or consumed");
                self.start += progress.consumed;
                continue;
            }
            let left = chunk.len() - progress.consumed;
            self.start += progress.consumed;
            self.note_restart(end);
            let can_go_on = (1..=left).contains(&progress.need);
            if progress.consumed == 0 {
                let need = progress.need;
                assert!(end || !can_go_on, "no progress with {left} bytes, though need is {need}");
                return Ok(());
            }
            if left == 0 || !(end || can_go_on) {
                return Ok(());
            }
        }
    }

    /// Notes the place up to which the input was consumed, if decoding can restart there, also with
    /// what the decoder saves.
    fn note_restart(&mut self, end: bool) {
        let (records, errors, header) = {
            let collected = self.collected.borrow();
            (collected.records.len(), collected.errors.len(), collected.restart)
        };
        let Some(header) = header.and_then(|header| usize::try_from(header).ok()) else {
            let at = RestartPlace { header: 0, place: self.start, records, errors };
            let saved = if D::carries() && !end { self.decoder.save() } else { None };
            self.saved.extend(saved.map(|saved| SavedPlace { at, saved }));
            return;
        };
        if header > self.start {
            assert_eq!(records, 0, "restart: a record before the end of the header at {header}");
            return;
        }
        self.restarts.push(RestartPlace { header, place: self.start, records, errors });
    }

    /// Calls `decode` once, with all bytes that have arrived and are not consumed.
    fn decode_shown(&mut self, end: bool) -> Result<Progress, DecodeError> {
        let chunk = &self.input[self.start..self.shown];
        {
            let mut collected = self.collected.borrow_mut();
            collected.chunk = chunk.to_vec();
            collected.payload.clear();
            collected.base = self.start as u64;
        }
        self.records.begin_call();
        let result = self.decoder.decode(chunk, end, &mut self.records);
        self.records.flush();
        self.records.tell_restart(self.decoder.restart());
        match &result {
            Ok(progress) => {
                assert!(progress.consumed <= chunk.len(), "consumed more than the chunk");
            }
            Err(error) => assert!(error.offset <= chunk.len(), "an error after the chunk"),
        }
        result
    }

    /// Makes pieces arrive up to `place` or the end of the input. Returns the position that was
    /// reached.
    fn show_up_to(&mut self, place: usize) -> usize {
        let place = place.min(self.input.len());
        while self.shown < place {
            self.show_more();
        }
        place
    }

    /// Calls `resync` until it finds a record or the input ends. Returns the offset at which it
    /// ended.
    fn search(&mut self, mut at: usize) -> usize {
        loop {
            let resync = self.decoder.resync(&self.input[at..self.shown], self.ended());
            assert!(resync.consumed <= self.shown - at, "resync consumed more than the chunk");
            at += resync.consumed;
            if resync.found {
                return at;
            }
            if self.ended() {
                return self.input.len();
            }
            self.show_more();
        }
    }
}
