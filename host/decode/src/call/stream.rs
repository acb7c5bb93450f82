//! A stream of a decoder, which decodes one object or a section of one. It is called once for each
//! chunk.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use pipemill_types::{Fault, Field, StreamInfo, printable};
use wasmtime::component::ResourceAny;

use crate::call::carry::SavedState;
use crate::call::decoded_records::{DecodedRecords, error_inside_record};
use crate::call::host_state::Bytes;
use crate::call::instance::DecoderInstance;
use crate::call::store::{MAX_RETURNED_BYTES, begin_call, limit_returned};
use crate::call::window::{Decoded, NoWindow};
use crate::interface::wit::exports::pipemill::decoder::decoder as exports;
use crate::plugin::Plugin;
use crate::sandbox::call_profiler::CallProfiler;
use crate::sandbox::limits::Limits;

pub use crate::interface::wit::exports::pipemill::decoder::decoder::Resume;

/// The checked result of a call of `decode`. Positions are bytes from the start of the chunk.
#[derive(Debug, Clone)]
pub enum DecodeOutcome {
    /// The decoder consumed bytes, or wants more of them.
    Progress {
        /// Bytes of the chunk that are decoded and must not be passed again.
        consumed: usize,
        /// Smallest chunk, in bytes after the consumed ones, with which the decoder makes progress;
        /// 0 if it is unknown.
        need: usize,
        /// The decoder must be called again at once, with the bytes after the consumed ones and no
        /// others.
        more: bool,
    },
    /// The decoder met bytes that it can't decode.
    Bad {
        /// Position of the error.
        offset: usize,
        /// The error's text: what was expected and what was found.
        message: String,
        /// The position at which decoding can continue.
        resume: Resume,
    },
}

/// A stream in an instance of a decoder: it decodes one object, or a section of one.
pub struct Stream {
    instance: DecoderInstance,
    handle: ResourceAny,
    /// The input of the next call, if the last call asked for the rest of the same chunk.
    rest: Option<Rest>,
    /// Whether the decoder has kept the last chunk.
    is_kept: bool,
    /// Bytes of the object that were consumed or skipped.
    position: u64,
    /// The position at which decoding can restart: see [`restart`](Self::restart).
    restart: Option<u64>,
}

/// The chunk of a call that continues another one, without the bytes that were consumed.
struct Rest {
    /// Its length in bytes.
    size: usize,
    /// Offset at which the records that were emitted so far end.
    records_end: u64,
}

impl Stream {
    /// Makes an instance of the decoder and opens a stream in it.
    ///
    /// # Errors
    /// The decoder refuses its options, fails, or exceeds a limit.
    pub fn open(
        plugin: &Plugin,
        options: &[(String, String)],
        info: &StreamInfo,
        limits: &Limits,
    ) -> Result<Self, Fault> {
        Self::of(DecoderInstance::new(plugin, info, limits)?, options, info, None)
    }

    /// Makes an instance of the decoder and opens a stream in it that goes on where another one was
    /// [saved](Self::save).
    ///
    /// # Errors
    /// As [`open`](Self::open); also if the decoder refuses what was saved.
    pub fn load(
        plugin: &Plugin,
        options: &[(String, String)],
        info: &StreamInfo,
        limits: &Limits,
        saved: &SavedState,
    ) -> Result<Self, Fault> {
        Self::of(DecoderInstance::new(plugin, info, limits)?, options, info, Some(saved))
    }

    /// Opens a stream in an instance that had another one before. With `saved`, it goes on where
    /// another one was saved.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn open_in(
        mut instance: DecoderInstance,
        options: &[(String, String)],
        info: &StreamInfo,
        saved: Option<&SavedState>,
    ) -> Result<Self, Fault> {
        instance.begin_stream(info);
        Self::of(instance, options, info, saved)
    }

    fn of(
        mut instance: DecoderInstance,
        options: &[(String, String)],
        info: &StreamInfo,
        saved: Option<&SavedState>,
    ) -> Result<Self, Fault> {
        let handle = match saved {
            Some(saved) => instance.load_stream(options, info, &saved.bytes)?,
            None => instance.open_stream(options, info)?,
        };
        let position = saved.map_or(0, |saved| saved.offset);
        Ok(Self { instance, handle, rest: None, is_kept: false, position, restart: None })
    }

    /// Ends the stream. Returns its instance, if another stream may be opened in it.
    pub fn close(self) -> Option<DecoderInstance> {
        self.instance.after(self.handle)
    }

    /// The fields of the records; `None` until the decoder has declared them. It has declared them
    /// before its first record.
    pub fn schema(&self) -> Option<&Arc<[Field]>> {
        self.instance.store.data().schema.as_ref()
    }

    /// Facts about the object that the decoder reported, sorted by key.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        self.instance.store.data().metadata.facts()
    }

    /// Whether decoding can restart at the end of the bytes that the last call of
    /// [`decode`](Self::decode) consumed: `Some(header)` if another stream that gets the first
    /// `header` bytes of the object, and then the bytes from that position on, emits the same
    /// records from there on. The other stream has the same options, and the extensions `schema`
    /// and `restart` ([`restart_extension`](pipemill_types::restart_extension)).
    pub fn restart(&self) -> Option<u64> {
        self.restart
    }

    /// As [`restart`](Self::restart), for the place at which the stream began: what the decoder has
    /// said in `open`.
    pub fn restart_at_start(&self) -> Option<u64> {
        self.instance.store.data().metadata.restart()
    }

    /// Asks the decoder what another stream must know to go on at the end of the bytes that the
    /// last call of [`decode`](Self::decode) consumed, without an error and without `more`. `None`
    /// if it can't go on there, or if the decoder saves no state.
    ///
    /// # Errors
    /// The decoder fails, exceeds a limit, or saves too much. The stream must not be called again.
    pub fn save(&mut self) -> Result<Option<SavedState>, Fault> {
        let offset = self.position;
        Ok(self.instance.save(self.handle)?.map(|bytes| SavedState { bytes, offset }))
    }

    /// Instructions that the instance has run so far, if its engine counts them.
    pub(super) fn instructions(&self) -> Option<u64> {
        self.instance.store.get_fuel().ok().map(|left| u64::MAX - left)
    }

    /// Size of the instance's linear memory, in bytes.
    pub fn memory_held(&self) -> u64 {
        self.instance.memory_held()
    }

    /// Lets `profiler` measure all later calls of this stream.
    pub fn profile(&mut self, profiler: Arc<CallProfiler>) {
        self.instance.store.call_hook(move |store, transition| {
            profiler.record(transition);
            limit_returned(store, transition, MAX_RETURNED_BYTES);
            Ok(())
        });
    }

    /// The records of the last call of [`decode`](Self::decode). They are valid even if the call
    /// failed.
    pub fn decoded(&self) -> &DecodedRecords {
        &self.instance.store.data().decoded
    }

    /// As [`decoded`](Self::decoded), to add fields to the records, or to remove some.
    pub fn decoded_mut(&mut self) -> &mut DecodedRecords {
        &mut self.instance.store.data_mut().decoded
    }

    /// Passes a chunk to the decoder: the bytes in this range of `bytes`. `end` says that the
    /// object ends with it. The decoder may report up to `max_errors` decode errors in
    /// [`DecodedRecords::errors`] and continue; the next one ends the call. After a fault the
    /// stream must not be called again.
    ///
    /// # Errors
    /// The decoder failed, broke its contract, or exceeded a limit.
    pub fn decode(
        &mut self,
        bytes: &Bytes,
        chunk: Range<usize>,
        end: bool,
        max_errors: u64,
    ) -> Result<DecodeOutcome, Fault> {
        let state = self.instance.store.data_mut();
        state.has_emitted |= state.decoded.records > 0;
        state.decoded.clear();
        let rest = self.rest.take().filter(|rest| rest.size == chunk.len());
        match &rest {
            Some(rest) => state.decoded.end = rest.records_end,
            None => state.block = None,
        }
        state.errors_left = max_errors;
        state.must_return = false;
        let size = chunk.len();
        let is_kept = rest.is_some() && self.is_kept;
        let DecoderInstance { store, rest: go_on, .. } = &mut self.instance;
        let result = match go_on {
            Some(go_on) if is_kept => go_on.decode(store, self.handle, (bytes, chunk), end),
            _ => self.call_decode(bytes, chunk, end)?,
        };
        self.instance.store.data_mut().chunk = None;
        let outcome = match result {
            Ok(Ok(progress)) => self.check_progress(size, progress, end)?,
            Ok(Err(error)) => check_error(size, self.decoded().end, error)?,
            Err(error) => return Err(self.instance.explain(&error)),
        };
        self.follow(&outcome)?;
        Ok(outcome)
    }

    /// Passes the chunk to the decoder: in place if possible, otherwise as a copy.
    fn call_decode(
        &mut self,
        bytes: &Bytes,
        chunk: Range<usize>,
        end: bool,
    ) -> Result<Decoded, Fault> {
        let (start, size) = (chunk.start, chunk.len());
        let placed = self.instance.window.place(
            &mut self.instance.store,
            bytes.shared(),
            (start, size),
            self.instance.plugin.window_from,
        );
        let placed = placed.map_err(|error| match error {
            NoWindow::Broken(fault) => fault,
            NoWindow::Trapped(error) => self.instance.explain(&error),
        })?;
        begin_call(&mut self.instance.store, size);
        self.instance.store.data_mut().chunk = Some((bytes.clone(), chunk.clone()));
        // A chunk in the window lies where the next one will.
        self.is_kept = placed.is_none() && self.instance.rest.is_some();
        if let Some(placed) = placed {
            return Ok(placed.decode(&mut self.instance.store, self.handle, end));
        }
        let chunk = &(**bytes).as_ref()[chunk];
        let guest = self.instance.bindings.pipemill_decoder_decoder();
        Ok(guest.stream().call_decode(&mut self.instance.store, self.handle, chunk, end))
    }

    /// Counts the bytes that a call has consumed, or that are skipped after its error.
    ///
    /// # Errors
    /// To restart, the decoder would need more bytes than it has seen before its records.
    fn follow(&mut self, outcome: &DecodeOutcome) -> Result<(), Fault> {
        self.restart = None;
        let (bytes, can_restart) = match *outcome {
            DecodeOutcome::Progress { consumed, more, .. } => (consumed as u64, !more),
            DecodeOutcome::Bad { resume: Resume::At(to) | Resume::Scan(to), .. } => (to, false),
            DecodeOutcome::Bad { .. } => (0, false),
        };
        self.position = self.position.saturating_add(bytes);
        let Some(header) = self.instance.store.data().metadata.restart().filter(|_| can_restart)
        else {
            return Ok(());
        };
        let position = self.position;
        if header <= position {
            self.restart = Some(header);
            return Ok(());
        }
        let state = self.instance.store.data();
        if state.has_emitted || state.decoded.records > 0 {
            return Err(Fault::contract(format!(
                "set the metadata `pipemill.restart` to {header}, but has emitted a record before \
                 byte {position}; expected at most the bytes before the first record"
            )));
        }
        Ok(())
    }

    /// Lets the decoder search a chunk for the start of a record. Returns the number of bytes
    /// before that start, or of bytes that hold none, and whether a start was found.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn resync(
        &mut self,
        bytes: &Bytes,
        chunk: Range<usize>,
        end: bool,
    ) -> Result<(usize, bool), Fault> {
        begin_call(&mut self.instance.store, chunk.len());
        let chunk = &(**bytes).as_ref()[chunk];
        let guest = self.instance.bindings.pipemill_decoder_decoder();
        let result = guest.stream().call_resync(&mut self.instance.store, self.handle, chunk, end);
        let resynced = result.map_err(|error| self.instance.explain(&error))?;
        let consumed = resynced.consumed as usize;
        if consumed > chunk.len() {
            let size = chunk.len();
            return Err(Fault::contract(format!("searched {consumed} of {size} bytes")));
        }
        self.position = self.position.saturating_add(consumed as u64);
        Ok((consumed, resynced.found))
    }

    /// Checks the progress that the decoder reports for a chunk of `size` bytes.
    fn check_progress(
        &mut self,
        size: usize,
        progress: exports::Progress,
        end: bool,
    ) -> Result<DecodeOutcome, Fault> {
        let exports::Progress { consumed, need, more } = progress;
        let (consumed, need) = (consumed as usize, need as usize);
        self.instance.store.data().check_not_ended()?;
        if consumed > size {
            return Err(Fault::contract(format!("consumed {consumed} bytes of a chunk of {size}")));
        }
        let (records, records_end) = (self.decoded().records, self.decoded().end);
        if more {
            return self.go_on_in_chunk(size, consumed, records, records_end);
        }
        if (consumed as u64) < records_end {
            return Err(Fault::contract(format!(
                "emitted a record that ends at {records_end}, but consumed only {consumed} bytes"
            )));
        }
        // At the end there may be nothing left to consume: the decoder is not called again then.
        let is_over = end && size == 0;
        if consumed == 0 && records > 0 && !is_over {
            return Err(Fault::contract("emitted records but consumed nothing"));
        }
        if consumed == 0 && !end && (1..=size).contains(&need) {
            return Err(Fault::contract(format!(
                "asks for {need} bytes and was shown {size}, but got no further"
            )));
        }
        Ok(DecodeOutcome::Progress { consumed, need, more })
    }

    /// The decoder wants to be called again with the rest of a chunk of `size` bytes.
    fn go_on_in_chunk(
        &mut self,
        size: usize,
        consumed: usize,
        records: usize,
        records_end: u64,
    ) -> Result<DecodeOutcome, Fault> {
        if consumed == 0 && records == 0 {
            return Err(Fault::contract(
                "asks to be called again with the same chunk, but emitted and consumed nothing",
            ));
        }
        let records_end = records_end.saturating_sub(consumed as u64);
        self.rest = Some(Rest { size: size - consumed, records_end });
        let state = self.instance.store.data_mut();
        state.block = state.block.take().and_then(|block| block.after(consumed));
        Ok(DecodeOutcome::Progress { consumed, need: 0, more: true })
    }
}

/// Checks the error that the decoder reports for a chunk of `size` bytes, after records that end at
/// `records_end`.
fn check_error(
    size: usize,
    records_end: u64,
    error: exports::DecodeError,
) -> Result<DecodeOutcome, Fault> {
    let offset = error.offset as usize;
    if offset > size {
        return Err(Fault::contract(format!(
            "reports an error at {offset}, beyond its chunk of {size} bytes"
        )));
    }
    if (offset as u64) < records_end {
        return Err(error_inside_record(offset, records_end));
    }
    match error.resume {
        Resume::At(to) | Resume::Scan(to) if to <= offset as u64 => {
            Err(Fault::contract(format!("wants to go on at {to}, not after its error at {offset}")))
        }
        resume => Ok(DecodeOutcome::Bad { offset, message: printable(&error.message), resume }),
    }
}
