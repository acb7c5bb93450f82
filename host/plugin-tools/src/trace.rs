//! Decodes an input in memory, without a channel: by direct calls of the decoder, with all of their
//! results. The input's end can be passed together with its last bytes. A channel passes both
//! together only if the decoder waits for more bytes when the input ends.

use std::sync::Arc;

use pipemill_decode::{Bytes, DecodeOutcome, Resume, SavedState, Stream};
use pipemill_types::{ErrorKind, Fault};

use super::decode_run::{DecodeRun, INPUT_ENDS, PluginUnderTest, Resumed, RunError, collect};

/// How an input is passed to a decoder.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shown<'a> {
    /// Sizes of the pieces in which the input arrives. One more piece has the rest.
    pub(super) pieces: &'a [usize],
    /// Whether the last piece is passed together with the input's end.
    pub(super) end_with_last: bool,
    /// Whether decode errors are skipped.
    pub(super) skip: bool,
    /// Number of calls after which the run ends; 0 for no limit.
    pub(super) max_calls: u64,
    /// The extensions of the stream info.
    pub(super) extensions: &'a [(String, String)],
    /// Whether the decoder saves its state wherever decoding can't restart without it.
    pub(super) saves: bool,
    /// What another stream has saved at the place at which this one begins.
    pub(super) saved: Option<&'a SavedState>,
}

/// The calls of a run.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// The results of the calls.
    pub(super) run: DecodeRun,
    /// Number of calls of `decode`.
    pub(super) calls: u64,
    /// Bytes of all chunks together.
    pub(super) bytes_shown: u64,
    /// Bytes of the input that were consumed.
    pub(super) consumed: u64,
    /// Whether the decoder asked to be called again with the same chunk, as decoders of compressed
    /// blocks do.
    pub(super) has_blocks: bool,
    /// Whether a value was made by the decoder, or decompressed.
    pub(super) has_payload: bool,
    /// Number of errors before the end of the input was passed.
    pub(super) errors_before_end: usize,
    /// The positions at which the decoder says that decoding can restart.
    pub(super) restarts: Vec<Restart>,
}

/// A position at which decoding can restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Restart {
    /// Number of bytes of the input that must be passed first.
    pub(super) header: usize,
    /// The offset from which the input is passed then.
    pub(super) place: usize,
    /// Number of records before it.
    pub(super) records: usize,
    /// What the decoder has saved there. `None` if it needs nothing.
    pub(super) saved: Option<SavedState>,
}

impl PluginUnderTest {
    /// Decodes `input` by direct calls of the decoder.
    pub(super) fn trace(&self, input: &Arc<[u8]>, shown: Shown<'_>) -> Trace {
        let stream = match self.open_at(shown.extensions, shown.saved) {
            Ok(stream) => stream,
            Err(fault) => {
                let mut trace = Trace::default();
                trace.run.errors.push(error_of_fault(0, 0, &fault));
                return trace;
            }
        };
        let mut tracer = Tracer {
            stream,
            bytes: Arc::new(input.clone()),
            input,
            shown,
            pieces: shown.pieces.iter(),
            at: 0,
            available: 0,
            end: false,
            trace: Trace::default(),
        };
        tracer.run();
        tracer.trace.run.schema = tracer.stream.schema().cloned();
        tracer.trace.run.metadata = tracer.stream.metadata().clone();
        tracer.trace.consumed = tracer.at as u64;
        if !tracer.end {
            tracer.trace.errors_before_end = tracer.trace.run.errors.len();
        }
        let trace = tracer.trace;
        self.work.add(trace.calls, trace.bytes_shown, trace.run.value_sizes());
        trace
    }

    /// Decodes the first `size` bytes of `input` as a separate input, up to the first error.
    pub(super) fn trace_cut(&self, input: &[u8], size: usize) -> DecodeRun {
        self.trace(&input[..size].into(), Shown::default()).run
    }
}

/// A run.
struct Tracer<'a> {
    stream: Stream,
    bytes: Bytes,
    input: &'a Arc<[u8]>,
    shown: Shown<'a>,
    pieces: std::slice::Iter<'a, usize>,
    /// Start of the unconsumed bytes.
    at: usize,
    /// End of the part of the input that has arrived.
    available: usize,
    /// Whether the decoder gets the end.
    end: bool,
    trace: Trace,
}

impl Tracer<'_> {
    fn run(&mut self) {
        let mut need = 0;
        loop {
            self.show_more();
            if self.end {
                break;
            }
            if self.available - self.at >= need {
                match self.decode_available() {
                    Some(wanted) => need = wanted,
                    None => return,
                }
            }
            // The end may have come during a search.
            if self.end {
                break;
            }
        }
        self.decode_available();
    }

    /// Makes the next piece available, or the end.
    fn show_more(&mut self) {
        let size = self.input.len();
        if self.available == size {
            self.show_end();
            return;
        }
        let piece = self.pieces.next().map_or(size, |piece| (*piece).max(1));
        self.available = self.available.saturating_add(piece).min(size);
        if self.shown.end_with_last && self.available == size {
            self.show_end();
        }
    }

    fn show_end(&mut self) {
        if !self.end {
            self.trace.errors_before_end = self.trace.run.errors.len();
        }
        self.end = true;
    }

    /// Calls the decoder as long as it makes progress with the available bytes. Returns the bytes
    /// that it needs; `None` if the run is over.
    fn decode_available(&mut self) -> Option<usize> {
        loop {
            if self.shown.max_calls > 0 && self.trace.calls == self.shown.max_calls {
                return None;
            }
            self.trace.calls += 1;
            self.trace.bytes_shown += (self.available - self.at) as u64;
            let max_errors = if self.shown.skip { u64::MAX } else { 0 };
            let range = self.at..self.available;
            let outcome = self.stream.decode(&self.bytes, range, self.end, max_errors);
            self.take_records();
            match outcome {
                Err(fault) => {
                    let end = self.at as u64 + self.stream.decoded().end;
                    let records = self.trace.run.records.len();
                    self.trace.run.errors.push(error_of_fault(end, records, &fault));
                    return None;
                }
                Ok(DecodeOutcome::Bad { offset, message, resume }) => {
                    self.skip_error(offset, message, resume)?;
                    if self.at == self.available {
                        return Some(0);
                    }
                }
                Ok(DecodeOutcome::Progress { consumed, more: true, .. }) => {
                    self.trace.has_blocks = true;
                    self.at += consumed;
                }
                Ok(DecodeOutcome::Progress { consumed, need, .. }) => {
                    self.at += consumed;
                    self.note_restart()?;
                    let left = self.available - self.at;
                    if self.end && consumed == 0 && left > 0 {
                        self.add_error(0, INPUT_ENDS.to_owned(), ErrorKind::Decode, Resumed::No);
                        return None;
                    }
                    if consumed == 0 || left == 0 || !(self.end || (1..=left).contains(&need)) {
                        return Some(need);
                    }
                }
            }
        }
    }

    /// Records the position up to which the input was consumed, if decoding can restart there.
    /// Returns `None` if the decoder fails when it saves its state.
    fn note_restart(&mut self) -> Option<()> {
        let header = self.stream.restart().and_then(|header| usize::try_from(header).ok());
        let (place, records) = (self.at, self.trace.run.records.len());
        if let Some(header) = header {
            self.trace.restarts.push(Restart { header, place, records, saved: None });
            return Some(());
        }
        if !self.shown.saves || self.end {
            return Some(());
        }
        match self.stream.save() {
            Ok(None) => {}
            Ok(saved) => self.trace.restarts.push(Restart { header: 0, place, records, saved }),
            Err(fault) => {
                self.trace.run.errors.push(error_of_fault(place as u64, records, &fault));
                return None;
            }
        }
        Some(())
    }

    /// Takes the records and the errors that the decoder reported and continued after.
    fn take_records(&mut self) {
        let decoded = self.stream.decoded();
        let before = self.trace.run.records.len();
        self.trace.has_payload |= decoded.has_payload;
        collect(decoded, self.input, self.at, &mut self.trace.run.records);
        for error in &decoded.errors {
            self.trace.run.errors.push(RunError {
                offset: (self.at + error.offset) as u64,
                message: error.message.clone(),
                kind: ErrorKind::Decode,
                records: before + error.records,
                resumed: Resumed::At((self.at + error.end) as u64),
            });
        }
    }

    /// Adds an error `offset` bytes into the chunk, and continues where the decoder says. Returns
    /// `None` if the run is over.
    fn skip_error(&mut self, offset: usize, message: String, resume: Resume) -> Option<()> {
        let chunk = self.at as u64;
        let (kind, mut resumed) = match resume {
            Resume::Refused => (ErrorKind::Refused, Resumed::No),
            Resume::None => (ErrorKind::Decode, Resumed::No),
            Resume::At(to) => (ErrorKind::Decode, Resumed::At(chunk.saturating_add(to))),
            Resume::Scan(from) => {
                let from = chunk.saturating_add(from);
                (ErrorKind::Decode, Resumed::Found { from, at: from })
            }
        };
        let place = resumed.place().filter(|_| self.shown.skip);
        let Some(place) = place else {
            self.add_error(offset, message, kind, resumed);
            return None;
        };
        let (index, before) = (self.trace.run.errors.len(), self.at);
        self.add_error(offset, message, kind, resumed);
        self.discard_to(usize::try_from(place).unwrap_or(usize::MAX));
        if let Resumed::Found { from, .. } = resumed {
            self.resync(before + offset)?;
            resumed = Resumed::Found { from, at: self.at as u64 };
            if let Some(error) = self.trace.run.errors.get_mut(index) {
                error.resumed = resumed;
            }
        }
        Some(())
    }

    /// Drops the bytes before this offset, or all.
    fn discard_to(&mut self, place: usize) {
        self.at = place.min(self.input.len());
        while self.available < self.at || (place > self.at && !self.end) {
            self.show_more();
        }
    }

    /// Lets the decoder search for the next record. Returns `None` if it fails.
    fn resync(&mut self, error: usize) -> Option<()> {
        loop {
            let found = self.stream.resync(&self.bytes, self.at..self.available, self.end);
            let (count, found) = match found {
                Ok(found) => found,
                Err(fault) => {
                    let records = self.trace.run.records.len();
                    self.trace.run.errors.push(error_of_fault(error as u64, records, &fault));
                    return None;
                }
            };
            self.at += count;
            if found {
                return Some(());
            }
            if self.end {
                self.at = self.input.len();
                return Some(());
            }
            self.show_more();
        }
    }

    fn add_error(&mut self, offset: usize, message: String, kind: ErrorKind, resumed: Resumed) {
        self.trace.run.errors.push(RunError {
            offset: (self.at + offset) as u64,
            message,
            kind,
            records: self.trace.run.records.len(),
            resumed,
        });
    }
}

fn error_of_fault(offset: u64, records: usize, fault: &Fault) -> RunError {
    let (message, kind) = (fault.message.clone(), fault.kind);
    RunError { offset, message, kind, records, resumed: Resumed::No }
}
