//! A small native host for tests: decodes an input at the splits that you choose. Whatever they are,
//! the [`Outcome`] must be the same; [`assert_any_split`] checks that.

mod speed;

use std::cell::RefCell;
use std::rc::Rc;

pub use speed::{print_passes, print_speed, print_speed_with};

use crate::{Decoder, Field, Host, Level, Options, Records, Resume, StreamInfo};

/// One record: its fields, `None` where absent.
pub type Record = Vec<Option<Vec<u8>>>;

/// What came out of an input.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// The records, in order.
    pub records: Vec<Record>,
    /// Where each record starts in the input.
    pub starts: Vec<u64>,
    /// The bad places, in order: offset, bytes passed over (up to the next record or the end of the
    /// input), message. Without skipping there is at most one, and it is 0 long.
    pub errors: Vec<(u64, u64, String)>,
    /// The schema, if it got known.
    pub schema: Option<Vec<Field>>,
}

/// How to treat an input.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Options of the decoder.
    pub options: Vec<(String, String)>,
    /// Go on behind bad places where the decoder can.
    pub skip: bool,
    /// Largest record.
    pub max_record: u64,
}

impl Setup {
    /// These options, ending at the first error, records up to 64 MiB.
    pub fn new(options: &[(&str, &str)]) -> Self {
        let options = options.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        Self { options, skip: false, max_record: 64 << 20 }
    }
    /// The same, going on behind bad places.
    pub fn skipping(mut self) -> Self {
        self.skip = true;
        self
    }
}

/// Decodes the input shown as a whole.
pub fn decode_whole<D: Decoder>(setup: &Setup, input: &[u8]) -> Outcome {
    decode_split::<D>(setup, input, &[])
}

/// Decodes the input arriving in pieces of these sizes (the last: whatever is left).
///
/// # Panics
/// Where the decoder breaks the contract, and where it refuses its options.
pub fn decode_split<D: Decoder>(setup: &Setup, input: &[u8], sizes: &[usize]) -> Outcome {
    let info = StreamInfo {
        channel: "test".into(),
        epoch: 0,
        object: "test".into(),
        max_record: setup.max_record,
    };
    let options = Options::new(&D::options(), &setup.options).expect("options");
    let decoder = D::open(&options, &info).expect("open");
    let shared = Rc::new(RefCell::new(Collected::default()));
    let mut records = Records::new(Box::new(Collector(shared.clone())), true);
    let sizes = sizes.iter().copied().filter(|size| *size > 0).rev().collect();
    let skip = setup.skip;
    if let Some(fields) = decoder.schema() {
        records.set_schema(&fields);
    }
    let mut run = Run { decoder, records, shared, input, sizes, start: 0, shown: 0, skip };
    let errors = run.all();
    drop(run.records);
    let collected = run.shared.borrow();
    Outcome {
        records: collected.records.clone(),
        starts: collected.starts.clone(),
        errors,
        schema: collected.schema.clone(),
    }
}

/// Checks that these pieces give what the whole gives.
///
/// # Panics
/// If they do not.
pub fn assert_any_split<D: Decoder>(setup: &Setup, input: &[u8], sizes: &[usize]) -> Outcome {
    let whole = decode_whole::<D>(setup, input);
    let split = decode_split::<D>(setup, input, sizes);
    assert_eq!(whole, split, "pieces of {sizes:?} give other records than the whole");
    whole
}

/// CRC-32C, bit by bit: a reference, not for speed.
pub fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 }
        })
    })
}

#[derive(Default)]
struct Collected {
    chunk: Vec<u8>,
    base: u64,
    schema: Option<Vec<Field>>,
    records: Vec<Record>,
    starts: Vec<u64>,
}

struct Collector(Rc<RefCell<Collected>>);

fn slice(bytes: &[u8], span: u64) -> &[u8] {
    let (offset, length) = ((span << 1 >> 33) as usize, (span & 0xffff_ffff) as usize);
    &bytes[offset..offset + length]
}

impl Host for Collector {
    fn set_schema(&mut self, fields: &[Field]) {
        self.0.borrow_mut().schema = Some(fields.to_vec());
    }
    fn emit(&mut self, spans: &[u64], payload: &[u8], starts: &[u32]) {
        let mut own = self.0.borrow_mut();
        let fields = own.schema.as_ref().expect("emit: set_schema was called before").len();
        assert_eq!(spans.len() % fields, 0, "emit: not a whole number of records");
        assert_eq!(spans.len() / fields, starts.len(), "emit: a start for each record");
        for (record, start) in spans.chunks(fields).zip(starts) {
            let field = |span: &u64| {
                (*span != u64::MAX).then(|| {
                    slice(if span >> 63 == 1 { payload } else { &own.chunk }, *span).to_vec()
                })
            };
            let record = record.iter().map(field).collect();
            let start = own.base + u64::from(*start);
            own.records.push(record);
            own.starts.push(start);
        }
    }
    fn check_crc32c(&mut self, spans: &[u64], expected: &[u32]) -> Option<usize> {
        let own = self.0.borrow();
        spans.iter().zip(expected).position(|(span, crc)| crc32c(slice(&own.chunk, *span)) != *crc)
    }
    fn log(&mut self, _: Level, _: &str) {}
}

struct Run<'a, D> {
    decoder: D,
    records: Records,
    shared: Rc<RefCell<Collected>>,
    input: &'a [u8],
    sizes: Vec<usize>,
    start: usize,
    shown: usize,
    skip: bool,
}

impl<D: Decoder> Run<'_, D> {
    fn ended(&self) -> bool {
        self.shown == self.input.len()
    }

    /// Shows the next piece.
    fn more(&mut self) {
        let step = self.sizes.pop().unwrap_or(usize::MAX);
        self.shown = self.shown.saturating_add(step).min(self.input.len());
    }

    /// Decodes to the end of the input, or to the first error that ends it.
    fn all(&mut self) -> Vec<(u64, u64, String)> {
        let mut errors = Vec::new();
        let mut last_call = false;
        loop {
            let end = last_call;
            match self.turn(end) {
                Ok(()) if end => {
                    if self.start < self.input.len() {
                        let message = "the input ends inside a record".to_owned();
                        errors.push((self.start as u64, 0, message));
                    }
                    return errors;
                }
                Ok(()) if self.ended() => last_call = true,
                Ok(()) => self.more(),
                Err(error) => {
                    let chunk = self.start;
                    let at = chunk + error.offset;
                    if !self.skip {
                        errors.push((at as u64, 0, error.message));
                        return errors;
                    }
                    self.start = match error.resume {
                        Resume::At(to) => self.reach(chunk.saturating_add(to as usize)),
                        Resume::Scan(from) => {
                            let from = self.reach(chunk.saturating_add(from as usize));
                            self.search(from)
                        }
                        Resume::None => self.reach(usize::MAX),
                    };
                    assert!(self.start > at, "no progress behind an error");
                    errors.push((at as u64, (self.start - at) as u64, error.message));
                }
            }
        }
    }

    /// Calls `decode` as long as it can get further with what is shown.
    fn turn(&mut self, end: bool) -> Result<(), crate::DecodeError> {
        loop {
            let chunk = &self.input[self.start..self.shown];
            {
                let mut shared = self.shared.borrow_mut();
                shared.chunk = chunk.to_vec();
                shared.base = self.start as u64;
            }
            let answer = self.decoder.decode(chunk, end, &mut self.records);
            self.records.flush();
            if let Err(error) = &answer {
                assert!(error.offset <= chunk.len(), "an error behind the chunk");
            }
            let progress = answer?;
            assert!(progress.consumed <= chunk.len(), "consumed more than the chunk");
            let left = chunk.len() - progress.consumed;
            self.start += progress.consumed;
            let can_go_on = (1..=left).contains(&progress.need);
            if progress.consumed == 0 {
                assert!(end || !can_go_on, "needs {} of {left} bytes, yet stands", progress.need);
                return Ok(());
            }
            if left == 0 || !(end || can_go_on) {
                return Ok(());
            }
        }
    }

    /// Shows pieces until this place is reached, or the end.
    fn reach(&mut self, place: usize) -> usize {
        let place = place.min(self.input.len());
        while self.shown < place {
            self.more();
        }
        place
    }

    /// Looks for the next record from `at` on.
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
            self.more();
        }
    }
}
