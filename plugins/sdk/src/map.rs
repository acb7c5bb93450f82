//! Decoders made of decoders: [`Map`] passes each record of an inner decoder through a function,
//! [`Tap`] observes each.

use std::any::Any;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use crate::records::SharedHost;
use crate::{
    Codec, DecodeError, Decoder, Field, Host, Level, OptionFiles, OptionSpec, Options, Progress,
    Records, Resync, StreamInfo, pack, unpack,
};

/// A function from the records of an inner decoder to other records.
///
/// ```
/// use pipemill_plugin::{Field, InnerRecord, Map, MapRecords, Options, Records, StreamInfo};
/// # use pipemill_plugin::{DecodeError, Decoder, Progress};
/// # struct Lines;
/// # impl Decoder for Lines {
/// #     fn open(_: &Options, _: &StreamInfo) -> Result<Self, String> { Ok(Lines) }
/// #     fn schema(&self) -> Option<Vec<Field>> { Some(vec![Field::bytes("line")]) }
/// #     fn decode(&mut self, chunk: &[u8], _: bool, _: &mut Records) -> Result<Progress, DecodeError> {
/// #         Ok(Progress::consumed(chunk.len()))
/// #     }
/// # }
///
/// /// Lines that begin with `#` are left out; the others get their length.
/// struct Lengths;
///
/// impl MapRecords for Lengths {
///     type Inner = Lines;
///     fn open(_: &Options, _: &StreamInfo) -> Result<Self, String> {
///         Ok(Lengths)
///     }
///     fn schema(&self, inner: &[Field]) -> Result<Vec<Field>, String> {
///         Ok([inner, &[Field::new("length", pipemill_plugin::Scalar::Uint32)]].concat())
///     }
///     fn map(&mut self, record: &InnerRecord<'_>, out: &mut Records) -> Result<(), String> {
///         let line = record.field(0).unwrap_or_default();
///         if !line.starts_with(b"#") {
///             record.pass(0, out);
///             out.u32(line.len() as u32);
///             out.end_record(record.start());
///         }
///         Ok(())
///     }
/// }
///
/// pipemill_plugin::export!(Map<Lengths>);
/// ```
pub trait MapRecords: Sized + 'static {
    /// The decoder whose records are mapped. It comes from a crate that does not export it: built-in
    /// decoders export themselves only with their feature `export`.
    type Inner: Decoder;

    /// Options in addition to those of the inner decoder. The default has none.
    fn options() -> Vec<OptionSpec> {
        Vec::new()
    }

    /// The options of the inner decoder that this map sets, with their values: the operator can't
    /// set them. The values may depend on `own`, the values of [`options`](Self::options); the
    /// names must not. The default sets none.
    fn inner_options(own: &Options) -> Vec<(&'static str, String)> {
        let _ = own;
        Vec::new()
    }

    /// Like [`Decoder::prepares`], for what [`prepare`](Self::prepare) makes.
    fn prepares() -> bool {
        false
    }

    /// Like [`Decoder::prepare`]: makes what all streams have in common, a vocabulary for example.
    /// They find it in [`Options::prepared`].
    ///
    /// # Errors
    /// The error is a message for the operator.
    fn prepare(options: &Options, files: OptionFiles<'_>) -> Result<Rc<dyn Any>, String> {
        let _ = (options, files);
        Ok(Rc::new(()))
    }

    /// Starts a stream. `options` are its own options and the inner decoder's options that the
    /// operator may set.
    ///
    /// # Errors
    /// The error is a message for the operator.
    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String>;

    /// The fields of the records that [`map`](Self::map) emits. `inner` are the fields of the inner
    /// decoder.
    ///
    /// # Errors
    /// The error is a message for the operator: the fields of the inner decoder are unsuitable.
    fn schema(&self, inner: &[Field]) -> Result<Vec<Field>, String>;

    /// Emits the result for a record: one record, several or none. It may depend on earlier
    /// records, but never on which of them came in the same call.
    ///
    /// # Errors
    /// The error says what is wrong with the record. It is then a bad record, to which the
    /// operator's policy applies.
    fn map(&mut self, record: &InnerRecord<'_>, out: &mut Records) -> Result<(), String>;

    /// Emits the rest when the input has ended: records that were held back, or a sum. `at` is the
    /// end of the input, for [`Records::end_record`]. It is called once, after the last record. It
    /// is not called if the input ends in an error, or if the inner decoder has not declared its
    /// fields, as for an empty file. The default emits nothing.
    ///
    /// # Errors
    /// The error says what is wrong with the input as a whole, for example that something is
    /// missing.
    fn end(&mut self, at: usize, out: &mut Records) -> Result<(), String> {
        let _ = (at, out);
        Ok(())
    }

    /// Whether a new value of this type, which has not seen the records so far, would emit the same
    /// for all later ones. Decoding can restart at this position only if so: see
    /// [`Decoder::restart`]. The default returns true for a type without fields, which can remember
    /// nothing.
    fn can_restart(&self) -> bool {
        size_of::<Self>() == 0
    }

    /// Like [`Decoder::carries`]: whether [`save`](Self::save) saves anything.
    fn carries() -> bool {
        false
    }

    /// Like [`Decoder::save`]: what another value of this type must know to go on after the records
    /// so far. It is asked where the inner decoder can restart with no byte before.
    fn save(&self) -> Option<Vec<u8>> {
        None
    }

    /// Like [`Decoder::load`]: goes on after the records before which another value was saved.
    ///
    /// # Errors
    /// The error is a message for the operator.
    fn load(options: &Options, info: &StreamInfo, saved: &[u8]) -> Result<Self, String> {
        let _ = (options, info, saved);
        Err("this decoder saves no state".to_owned())
    }
}

/// Observes each record of an inner decoder; the records are passed on unchanged.
pub trait TapRecords: Sized + 'static {
    /// The decoder whose records are observed, as [`MapRecords::Inner`].
    type Inner: Decoder;

    /// Options in addition to those of the inner decoder. The default has none.
    fn options() -> Vec<OptionSpec> {
        Vec::new()
    }

    /// Starts a stream. `options` are its own options and those of the inner decoder.
    ///
    /// # Errors
    /// The error is a message for the operator.
    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String>;

    /// Observes a record before it is passed on.
    ///
    /// # Errors
    /// The error says what is wrong with the record. It is then a bad record, and not passed on.
    fn record(&mut self, record: &InnerRecord<'_>) -> Result<(), String>;

    /// Like [`MapRecords::can_restart`]: whether a new value of this type would observe all later
    /// records in the same way.
    fn can_restart(&self) -> bool {
        size_of::<Self>() == 0
    }
}

/// A record of the inner decoder.
pub struct InnerRecord<'a> {
    spans: &'a [u64],
    start: usize,
    /// The start of the inner decoder's chunk in the chunk of this call.
    base: usize,
    /// The inner decoder's chunk.
    chunk: &'a [u8],
    captured: &'a Captured,
}

impl InnerRecord<'_> {
    /// The start of the record in the chunk, for [`Records::end_record`].
    pub fn start(&self) -> usize {
        self.start
    }

    /// Number of fields.
    pub fn fields(&self) -> usize {
        self.spans.len()
    }

    /// The index of the field of this name; `None` if there is no such field.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.captured.fields.iter().position(|field| field.name == name)
    }

    /// The bytes of the field of this name; `None` if it is absent.
    ///
    /// # Panics
    /// If there is no field of this name: check in [`MapRecords::schema`] that there is.
    pub fn named(&self, name: &str) -> Option<&[u8]> {
        let Some(index) = self.index_of(name) else {
            let fields = &self.captured.fields;
            let names: Vec<_> = fields.iter().map(|field| field.name.as_str()).collect();
            panic!("the inner decoder has no field `{name}`; it has {}", names.join(", "));
        };
        self.field(index)
    }

    /// The bytes of a field; `None` if it is absent.
    ///
    /// # Panics
    /// If there is no such field.
    pub fn field(&self, index: usize) -> Option<&[u8]> {
        let span = self.spans[index];
        let bytes = if span >> 63 == 1 { &self.captured.payload } else { self.chunk };
        (span != u64::MAX).then(|| &bytes[unpack(span)])
    }

    /// Adds a field to the record that `out` is making, as the next one. It is not copied if it is
    /// a part of the chunk or of a decompressed block.
    ///
    /// # Panics
    /// If there is no such field, or if it is absent and the field of `out` is not nullable.
    pub fn pass(&self, index: usize, out: &mut Records) {
        match self.spans[index] {
            u64::MAX => out.absent(),
            made if made >> 63 == 1 => match self.captured.in_host(unpack(made)) {
                Some(range) => out.payload_field(range),
                None => out.field_bytes(&self.captured.payload[unpack(made)]),
            },
            span => {
                let range = unpack(span);
                out.field(self.base + range.start..self.base + range.end);
            }
        }
    }
}

/// The records of an inner decoder, each passed through a function. See [`MapRecords`].
pub struct Map<M: MapRecords> {
    inner: M::Inner,
    map: M,
    /// The inner decoder's side of [`Records`]; `None` until the first call.
    records: Option<Records>,
    captured: Rc<RefCell<Captured>>,
    /// Whether `out` has its schema.
    has_schema: bool,
    /// In a chunk that the inner decoder has not finished: the end of the last bad place.
    bad_end: Option<usize>,
    /// Whether the input has ended, and the map knows it.
    has_ended: bool,
}

/// What a map and its inner decoder have prepared.
struct PreparedMap {
    inner: Rc<dyn Any>,
    map: Rc<dyn Any>,
}

impl<M: MapRecords> Decoder for Map<M> {
    fn options() -> Vec<OptionSpec> {
        let mut options = M::options();
        let own: Vec<_> = options.iter().map(|option| option.name).collect();
        // Without the values of required options this is empty, but only the names are needed.
        let standard = Options::new(&options, &[]).unwrap_or_default();
        let set: Vec<_> = M::inner_options(&standard).into_iter().map(|(name, _)| name).collect();
        let inner = M::Inner::options().into_iter().filter(|option| !set.contains(&option.name));
        options.extend(inner.filter(|option| !own.contains(&option.name)));
        options
    }

    fn prepares() -> bool {
        M::prepares() || M::Inner::prepares()
    }

    fn prepare(options: &Options, files: OptionFiles<'_>) -> Result<Rc<dyn Any>, String> {
        let inner = options.for_inner(&M::Inner::options(), M::inner_options(options))?;
        let prepared = PreparedMap {
            inner: M::Inner::prepare(&inner, files)?,
            map: M::prepare(options, files)?,
        };
        Ok(Rc::new(prepared))
    }

    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        Self::of(options, info, |own| M::open(own, info))
    }

    fn schema(&self) -> Option<Vec<Field>> {
        None
    }

    fn decode(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let mut at = 0;
        loop {
            let result = self.decode_inner(&chunk[at..], end, out);
            let decoded = match &result {
                Ok(progress) => progress.consumed,
                Err(error) => error.offset,
            };
            let more = result.as_ref().is_ok_and(|progress| progress.more);
            let emitted = self.map_all(chunk, at..at + decoded, more, out)?;
            match result {
                // Nothing was emitted, which the host would take for a standstill.
                Ok(Progress { consumed, more: true, .. }) if !emitted => at += consumed,
                Ok(Progress { consumed, more: true, .. }) => {
                    let consumed = at + consumed;
                    self.bad_end = self.bad_end.map(|end| end.saturating_sub(consumed));
                    return Ok(Progress::more(consumed));
                }
                Ok(progress) => {
                    let consumed = at + progress.consumed;
                    if end && consumed == chunk.len() {
                        self.end(consumed, out)?;
                    }
                    return Ok(Progress { consumed, ..progress });
                }
                Err(error) => return Err(error.later_by(at)),
            }
        }
    }

    fn restart(&self) -> Option<u64> {
        self.inner.restart().filter(|_| self.map.can_restart() && !self.has_ended)
    }

    fn carries() -> bool {
        M::carries()
    }

    fn save(&self) -> Option<Vec<u8>> {
        let begins_anywhere = self.inner.restart() == Some(0) && !self.has_ended;
        if begins_anywhere { self.map.save() } else { None }
    }

    fn load(options: &Options, info: &StreamInfo, saved: &[u8]) -> Result<Self, String> {
        Self::of(options, info, |own| M::load(own, info, saved))
    }

    fn resync(&mut self, chunk: &[u8], end: bool) -> Resync {
        self.inner.resync(chunk, end)
    }
}

impl<M: MapRecords> Map<M> {
    /// The inner decoder, and the map that `make` makes of its options.
    fn of(
        options: &Options,
        info: &StreamInfo,
        make: impl FnOnce(&Options) -> Result<M, String>,
    ) -> Result<Self, String> {
        let mut own = options.clone();
        let set = M::inner_options(options);
        let mut of_inner = options.for_inner(&M::Inner::options(), set)?;
        if Self::prepares() {
            let prepared = options.prepared::<PreparedMap>();
            own = own.and_prepared(prepared.map.clone());
            of_inner = of_inner.and_prepared(prepared.inner.clone());
        }
        let inner = M::Inner::open(&of_inner, info)?;
        let map = make(&own)?;
        let captured = Rc::new(RefCell::new(Captured::default()));
        if let Some(fields) = inner.schema() {
            map.schema(&fields)?;
            captured.borrow_mut().fields = fields;
        }
        let (records, has_schema, bad_end, has_ended) = (None, false, None, false);
        Ok(Self { inner, map, records, captured, has_schema, bad_end, has_ended })
    }

    /// Lets the inner decoder decode a chunk; its records are captured.
    fn decode_inner(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let records = self.records.get_or_insert_with(|| {
            let capture = Capture { captured: self.captured.clone(), host: out.host() };
            let mut records = Records::new(Box::new(capture), true);
            if let Some(fields) = self.inner.schema() {
                records.set_schema(&fields);
            }
            records
        });
        self.captured.borrow_mut().clear();
        let inner = &mut self.inner;
        out.lend_host(|| {
            records.begin_call();
            let result = inner.decode(chunk, end, records);
            records.flush();
            result
        })
    }

    /// Makes the map emit the rest at the end of the input, once.
    fn end(&mut self, at: usize, out: &mut Records) -> Result<(), DecodeError> {
        if std::mem::replace(&mut self.has_ended, true) || !self.has_schema {
            return Ok(());
        }
        self.map.end(at, out).map_err(|why| DecodeError::fatal(at, why))
    }

    /// Maps the captured records of the bytes `decoded` of the chunk. `more` says that the inner
    /// decoder has not finished the chunk. Returns whether that made any records.
    fn map_all(
        &mut self,
        chunk: &[u8],
        decoded: Range<usize>,
        more: bool,
        out: &mut Records,
    ) -> Result<bool, DecodeError> {
        let captured = &*self.captured.borrow();
        let base = decoded.start;
        if !self.has_schema && !captured.fields.is_empty() {
            let fields = self.map.schema(&captured.fields);
            out.set_schema(&fields.map_err(|why| DecodeError::refused(base, why))?);
            self.has_schema = true;
        }
        let (before, starts) = (out.count(), &captured.starts);
        // Records of a block begin where the block does, even records of other calls.
        let in_block = more || self.bad_end.is_some();
        let mut bad_end = self.bad_end.take().unwrap_or(0);
        let rows = captured.spans.chunks_exact(captured.fields.len().max(1));
        for (index, (spans, start)) in rows.zip(&captured.starts).enumerate() {
            let start = base + *start as usize;
            let record = InnerRecord { spans, start, base, chunk: &chunk[base..], captured };
            let Err(why) = self.map.map(&record, out) else { continue };
            let next = starts.get(index + 1).map_or(decoded.end, |next| base + *next as usize);
            let is_shared = next == start || index > 0 && starts[index - 1] == starts[index];
            if !in_block && !is_shared && next > start {
                out.bad(start..next, why)?;
                continue;
            }
            // Each bad record of a block gets its own byte.
            let place = start.max(bad_end);
            bad_end = place + 1;
            if bad_end > chunk.len() || !out.takes_bad(place..bad_end, &why) {
                return Err(DecodeError::fatal(place.min(chunk.len()), why));
            }
        }
        self.bad_end = more.then_some(bad_end);
        Ok(out.count() > before)
    }
}

/// The records of an inner decoder, unchanged, each observed before. See [`TapRecords`].
pub type Tap<T> = Map<TapAll<T>>;

/// Passes each record on, after [`TapRecords::record`] has seen it.
pub struct TapAll<T>(T);

impl<T: TapRecords> MapRecords for TapAll<T> {
    type Inner = T::Inner;

    fn options() -> Vec<OptionSpec> {
        T::options()
    }
    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        T::open(options, info).map(Self)
    }
    fn schema(&self, inner: &[Field]) -> Result<Vec<Field>, String> {
        Ok(inner.to_vec())
    }
    fn can_restart(&self) -> bool {
        self.0.can_restart()
    }
    fn map(&mut self, record: &InnerRecord<'_>, out: &mut Records) -> Result<(), String> {
        self.0.record(record)?;
        (0..record.fields()).for_each(|field| record.pass(field, out));
        out.end_record(record.start());
        Ok(())
    }
}

/// The records that the inner decoder has emitted in a call.
#[derive(Default)]
struct Captured {
    fields: Vec<Field>,
    spans: Vec<u64>,
    starts: Vec<u32>,
    /// The inner decoder's payload.
    payload: Vec<u8>,
    /// The parts of it that were decompressed: their starts in it, and their starts in the host's
    /// payload.
    decompressed: Vec<(Range<usize>, usize)>,
}

impl Captured {
    fn clear(&mut self) {
        self.spans.clear();
        self.starts.clear();
        self.payload.clear();
        self.decompressed.clear();
    }

    /// The position of these bytes of the payload in the host's payload. `None` if it does not have
    /// them in one piece.
    fn in_host(&self, bytes: Range<usize>) -> Option<Range<usize>> {
        let after = self.decompressed.partition_point(|(part, _)| part.start <= bytes.start);
        let (part, at) = self.decompressed.get(after.checked_sub(1)?)?;
        let start = bytes.start - part.start + at;
        (bytes.end <= part.end).then(|| start..start + bytes.len())
    }
}

/// The host of the inner decoder: it keeps the records, and forwards everything else.
struct Capture {
    captured: Rc<RefCell<Captured>>,
    host: SharedHost,
}

impl Capture {
    /// The same spans in the host's coordinates.
    fn spans_in_host(&self, spans: &[u64]) -> Vec<u64> {
        let captured = self.captured.borrow();
        let in_host = |span: &u64| match span >> 63 {
            1 => captured.in_host(unpack(*span)).map_or(*span, |range| 1 << 63 | pack(range)),
            _ => *span,
        };
        spans.iter().map(in_host).collect()
    }
}

impl Host for Capture {
    fn set_schema(&mut self, fields: &[Field]) {
        self.captured.borrow_mut().fields = fields.to_vec();
    }
    fn set_metadata(&mut self, key: &str, value: &str) {
        self.host.borrow_mut().host.set_metadata(key, value);
    }
    fn emit(&mut self, _: usize, spans: &[u64], payload: &[u8], starts: &[u32]) {
        let captured = &mut *self.captured.borrow_mut();
        captured.spans.extend_from_slice(spans);
        captured.payload.extend_from_slice(payload);
        captured.starts.extend_from_slice(starts);
    }
    fn is_in_sandbox(&self) -> bool {
        self.host.borrow().host.is_in_sandbox()
    }
    /// The error is returned by the inner decoder: its records before it must be mapped first.
    fn bad(&mut self, _: Range<usize>, _: &str) -> bool {
        false
    }
    fn check_crc32c(&mut self, spans: &[u64], expected: &[u32]) -> Option<usize> {
        let spans = self.spans_in_host(spans);
        self.host.borrow_mut().host.check_crc32c(&spans, expected)
    }
    fn check_crc32(&mut self, spans: &[u64], expected: &[u32]) -> Option<usize> {
        let spans = self.spans_in_host(spans);
        self.host.borrow_mut().host.check_crc32(&spans, expected)
    }
    fn decompress(
        &mut self,
        codec: Codec,
        span: u64,
        skip: u64,
        max: usize,
    ) -> Result<(Vec<u8>, bool), String> {
        let link = &mut *self.host.borrow_mut();
        let at = link.payload;
        let (bytes, last) = link.decompress(codec, span, skip, max)?;
        let captured = &mut *self.captured.borrow_mut();
        let start = captured.payload.len();
        captured.decompressed.push((start..start + bytes.len(), at));
        captured.payload.extend_from_slice(&bytes);
        Ok((bytes, last))
    }
    fn read_pieces(
        &mut self,
        codec: Codec,
        pieces: &[u64],
        skip: u64,
        max: usize,
    ) -> Result<(Vec<u8>, bool), String> {
        self.host.borrow_mut().host.read_pieces(codec, pieces, skip, max)
    }
    fn log(&mut self, level: Level, message: &str) {
        self.host.borrow_mut().host.log(level, message);
    }
}
