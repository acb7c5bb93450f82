//! The host's state of one decoder instance: the output of the decoder, its schema, its log and its
//! limits.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use log::kv::{self, Source, VisitSource};
use pipemill_codecs::AtOnce;
use pipemill_types::log::log_with;
use pipemill_types::{ChunkMemory, Fault, Field, StreamInfo, printable};

use crate::call::decoded_records::DecodedRecords;
use crate::call::metadata::Metadata;
use crate::call::open_block::OpenBlock;
use crate::interface::field;
use crate::interface::wit::pipemill::decoder::types;
use crate::sandbox::account::Account;
use crate::sandbox::limits::{Limiter, Limits};
use crate::sandbox::log_budget::{LogBudget, MAX_LINES, Verdict};

/// Bytes that are passed to a decoder. The host keeps a clone during the call, so that its checks
/// read its own copy and not the guest's.
pub type Bytes = Arc<dyn ChunkMemory>;

/// Number of messages that a decoder may log in a stream. The rest is dropped after a notice.
const MAX_LOG_MESSAGES: u32 = 200;
/// Bytes that an error counts in addition to its message: the host's memory and work for it.
const ERROR_BYTES: u64 = 256;
/// Number of fields that a schema may have.
const MAX_FIELDS: usize = 65_536;

/// The host's state of one decoder instance.
pub(crate) struct HostState {
    /// The output of the current or last call of `decode`.
    pub(crate) decoded: Box<DecodedRecords>,
    /// The fields of the records, once the decoder has declared them.
    pub(crate) schema: Option<Arc<[Field]>>,
    /// Whether an earlier call of `decode` has emitted a record.
    pub(crate) has_emitted: bool,
    /// Facts about the object, for the consumers.
    pub(crate) metadata: Metadata,
    /// The block that the decoder is decompressing.
    pub(crate) block: Option<OpenBlock>,
    /// Decompresses blocks that it reads, if that is possible in one step.
    pub(crate) at_once: AtOnce,
    /// Memory for the bytes of a block that it reads.
    pub(crate) read_memory: Arc<Vec<u8>>,
    pub(crate) limiter: Limiter,
    /// The used part of the running call's limits.
    pub(crate) account: Account,
    /// The chunk of the running call of `decode`, and its range in these bytes.
    pub(crate) chunk: Option<(Bytes, Range<usize>)>,
    /// Number of decode errors that the running call may report with `bad` and go on.
    pub(crate) errors_left: u64,
    /// Whether the running call must return the error that it reported last.
    pub(crate) must_return: bool,
    /// Whether `emit` must say where each record starts.
    pub(crate) wants_starts: bool,
    /// The last message that was logged as an error. If the decoder traps, this is the text of its
    /// panic.
    pub(crate) last_error: Option<String>,
    context: LogContext,
    logged: u32,
}

/// The context of a decoder's log messages: the decoder, and its stream if it has one.
pub(crate) struct LogContext {
    pub(crate) decoder: String,
    pub(crate) stream: Option<StreamInfo>,
    /// The budget for log lines of all streams of the channel.
    pub(crate) budget: Arc<LogBudget>,
}

impl fmt::Display for LogContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.stream {
            Some(stream) => write!(f, "channel `{}`", stream.channel),
            None => f.write_str(&self.decoder),
        }
    }
}

impl Source for LogContext {
    fn visit<'kvs>(&'kvs self, visitor: &mut dyn VisitSource<'kvs>) -> Result<(), kv::Error> {
        if let Some(stream) = &self.stream {
            visitor.visit_pair("channel".into(), stream.channel.as_str().into())?;
            visitor.visit_pair("epoch".into(), stream.epoch.into())?;
            visitor.visit_pair("object".into(), stream.object.as_str().into())?;
        }
        visitor.visit_pair("decoder".into(), self.decoder.as_str().into())
    }
}

impl LogContext {
    /// Warns that some lines are not logged.
    fn notice(&self, text: fmt::Arguments<'_>) {
        log_with(log::Level::Warn, self, format_args!("{self}: {text}"));
    }
}

impl HostState {
    /// The state of a new instance.
    pub(crate) fn new(context: LogContext, limits: &Limits) -> Self {
        Self {
            decoded: Box::default(),
            schema: None,
            has_emitted: false,
            metadata: Metadata::default(),
            block: None,
            at_once: AtOnce::default(),
            read_memory: Arc::default(),
            limiter: Limiter::new(limits),
            account: Account::new(limits),
            chunk: None,
            errors_left: 0,
            must_return: false,
            wants_starts: context.stream.as_ref().is_some_and(|stream| stream.offsets),
            last_error: None,
            context,
            logged: 0,
        }
    }

    /// Begins another stream in the same instance. Only the instance's use of its limits stays.
    pub(crate) fn begin_stream(&mut self, info: &StreamInfo, limits: &Limits) {
        let decoder = std::mem::take(&mut self.context.decoder);
        let (stream, budget) = (Some(info.clone()), self.context.budget.clone());
        let mut next = Self::new(LogContext { decoder, stream, budget }, limits);
        std::mem::swap(&mut next.limiter, &mut self.limiter);
        next.limiter.refused = None;
        *self = next;
    }

    /// Logs a message of the decoder, as one line without control characters.
    pub(crate) fn log(&mut self, level: types::Level, line: String) {
        if matches!(level, types::Level::Error) {
            self.last_error = Some(line.clone());
        }
        let level = match level {
            types::Level::Trace => log::Level::Trace,
            types::Level::Debug => log::Level::Debug,
            types::Level::Info => log::Level::Info,
            types::Level::Warn => log::Level::Warn,
            types::Level::Error => log::Level::Error,
        };
        if level > log::max_level() || self.logged == MAX_LOG_MESSAGES {
            return;
        }
        self.logged += 1;
        let context = &self.context;
        let verdict = context.budget.take(Instant::now());
        if verdict == Verdict::LeftOut {
            return;
        }
        if let Verdict::Logged { left_out: left_out @ 1.. } = verdict {
            context.notice(format_args!("{left_out} lines of the decoder were left out"));
        }
        log_with(level, context, format_args!("{context}: decoder says: {line}"));
        if verdict == Verdict::Last {
            context.notice(format_args!(
                "decoder has logged {MAX_LINES} lines within an hour; the rest of the hour is left \
                 out"
            ));
        } else if self.logged == MAX_LOG_MESSAGES {
            context.notice(format_args!(
                "decoder has logged {MAX_LOG_MESSAGES} lines; the rest is left out"
            ));
        }
    }

    /// Receives the schema that the decoder declares. The number of fields is checked already.
    ///
    /// # Errors
    /// Two fields have the same name, or a field breaks a rule of the interface.
    pub(crate) fn set_schema(&mut self, fields: Vec<types::Field>) -> Result<(), Fault> {
        let mut names = HashSet::new();
        for field in &fields {
            if !names.insert(field.name.as_str()) {
                let name = printable(&field.name);
                return Err(Fault::contract(format!("declared the field `{name}` twice")));
            }
        }
        let fields: Result<Arc<[Field]>, String> = fields.into_iter().map(field).collect();
        let fields = fields.map_err(Fault::contract)?;
        self.decoded.set_fields(&fields);
        self.schema = Some(fields);
        Ok(())
    }

    /// Checks that the decoder may declare a schema of `count` fields.
    ///
    /// # Errors
    /// It declared one before, or the number of fields is not allowed.
    pub(crate) fn check_new_schema(&self, count: usize) -> Result<(), Fault> {
        if self.schema.is_some() {
            return Err(Fault::contract("declared its schema twice"));
        }
        if count == 0 || count > MAX_FIELDS {
            return Err(Fault::contract(format!(
                "declared {count} fields; 1 to {MAX_FIELDS} are possible"
            )));
        }
        Ok(())
    }

    /// Checks that the decoder may still set a fact about the object.
    ///
    /// # Errors
    /// Records were emitted before.
    pub(crate) fn check_metadata(&self) -> Result<(), Fault> {
        if self.has_emitted || self.decoded.records > 0 {
            return Err(Fault::contract("set metadata after its first record"));
        }
        Ok(())
    }

    /// The chunk of the running call, to which the decoder may add records.
    ///
    /// # Errors
    /// No call of `decode` is running, it was told to return its error, or the decoder has declared
    /// no schema.
    pub(crate) fn chunk_of_records(&self) -> Result<(Bytes, Range<usize>), Fault> {
        let Some(chunk) = &self.chunk else {
            return Err(Fault::contract("emitted records outside of `decode`"));
        };
        if self.schema.is_none() {
            return Err(Fault::contract("emitted records before it declared its schema"));
        }
        self.check_not_ended()?;
        Ok(chunk.clone())
    }

    /// Receives a decode error from `offset` to `end` in the chunk. Returns whether the decoder
    /// continues after it.
    ///
    /// # Errors
    /// No call of `decode` is running, the error does not come after the records of the call, or
    /// the call has produced too much.
    pub(crate) fn bad(&mut self, offset: u32, end: u32, message: String) -> Result<bool, Fault> {
        let Some((_, range)) = &self.chunk else {
            return Err(Fault::contract("reported bad bytes outside of `decode`"));
        };
        self.check_not_ended()?;
        let (offset, end) = (offset as usize, end as usize);
        self.decoded.check_error(range.len(), offset, end)?;
        if self.errors_left == 0 {
            self.must_return = true;
            return Ok(false);
        }
        self.errors_left -= 1;
        self.account.charge(0, ERROR_BYTES + message.len() as u64)?;
        self.decoded.add_error(offset, end, message);
        Ok(true)
    }

    /// Whether the decoder has declared its schema, or set metadata.
    pub(crate) fn has_output(&self) -> bool {
        self.schema.is_some() || self.metadata.is_set()
    }

    /// Checks that the running call was not told to return its error.
    pub(crate) fn check_not_ended(&self) -> Result<(), Fault> {
        if self.must_return {
            return Err(Fault::contract("went on after an error that it was to return"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::ResourceLimiter;

    use super::*;

    #[test]
    fn a_stream_knows_nothing_of_what_the_one_before_was_refused() {
        let limits = Limits { memory: 2 << 20, ..Limits::default() };
        let context =
            LogContext { decoder: "csv".to_owned(), stream: None, budget: Arc::default() };
        let mut state = HostState::new(context, &limits);
        let mut grow = |to| state.limiter.memory_growing(0, to, None).expect("it answers");
        assert!(grow(1 << 20) && !grow(3 << 20));
        assert_eq!(state.limiter.refused, Some(3 << 20));
        state.begin_stream(&StreamInfo { offsets: true, ..StreamInfo::default() }, &limits);
        assert_eq!((state.limiter.refused, state.limiter.held()), (None, 1 << 20));
        assert!(state.wants_starts);
        assert_eq!(state.context.decoder, "csv");
    }
}
