//! The host's side of the wall: the four functions that a decoder may call, and what they keep.

use std::fmt;
use std::sync::Arc;

use log::kv::{self, Source, VisitSource};
use pipemill_types::{ErrorKind, Fault, Field, StreamInfo};
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, WasmList};

use super::call_time::CallTime;
use super::decoded_records::DecodedRecords;
use super::limits::Limiter;
use super::wit::pipemill::decoder::types;
use super::{INTERFACE, INTERFACE_VERSION, Limits};
use pipemill_types::log::log_with;

/// Bytes that decoder and host look at in a call. Shared, so that checks read the host's copy.
pub type Bytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Lines that a decoder may log in a stream; a flood is cut off with a notice.
const LOG_LINES: u32 = 200;
/// Bytes kept of a line.
const LOG_BYTES: usize = 1000;
/// Fields that a schema may have.
const FIELDS: usize = 65_536;

/// What the host keeps for one decoder instance.
pub(super) struct HostState {
    pub(super) emitted: Box<DecodedRecords>,
    pub(super) schema: Option<Arc<[Field]>>,
    pub(super) limiter: Limiter,
    pub(super) call_time: CallTime,
    /// The chunk of the running call of `decode`, and where it stands in its memory.
    pub(super) chunk: Option<(Bytes, std::ops::Range<usize>)>,
    pub(super) want_starts: bool,
    pub(super) output: u64,
    /// The last line that was logged as an error: a panic's text, if the decoder traps.
    pub(super) last_error: Option<String>,
    context: LogContext,
    logged: u32,
}

/// Whose words are logged: a decoder's, in a stream or by itself.
pub(super) struct LogContext {
    pub(super) decoder: String,
    pub(super) stream: Option<StreamInfo>,
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

impl HostState {
    pub(super) fn new(context: LogContext, limits: &Limits, want_starts: bool) -> Self {
        Self {
            emitted: Box::default(),
            schema: None,
            limiter: Limiter::new(limits),
            call_time: CallTime::new(limits.call_timeout),
            chunk: None,
            want_starts,
            output: limits.output,
            last_error: None,
            context,
            logged: 0,
        }
    }

    fn log(&mut self, level: types::Level, message: &str) {
        let line = printable(message);
        if matches!(level, types::Level::Error) {
            self.last_error = Some(line.clone());
        }
        self.logged += 1;
        let level = match level {
            _ if self.logged > LOG_LINES => return,
            types::Level::Trace => log::Level::Trace,
            types::Level::Debug => log::Level::Debug,
            types::Level::Info => log::Level::Info,
            types::Level::Warn => log::Level::Warn,
            types::Level::Error => log::Level::Error,
        };
        let context = &self.context;
        log_with(level, context, format_args!("{context}: decoder says: {line}"));
        if self.logged == LOG_LINES {
            let rest = format_args!(
                "{context}: decoder has logged {LOG_LINES} lines; the rest is left out"
            );
            log_with(log::Level::Warn, context, rest);
        }
    }

    fn set_schema(&mut self, fields: Vec<types::Field>) -> Result<(), Fault> {
        if self.schema.is_some() {
            return Err(Fault::contract("declared its schema twice"));
        }
        if fields.is_empty() || fields.len() > FIELDS {
            let count = fields.len();
            return Err(Fault::contract(format!(
                "declared {count} fields; 1 to {FIELDS} are possible"
            )));
        }
        let mut names = std::collections::HashSet::new();
        for field in &fields {
            if !names.insert(field.name.as_str()) {
                let name = printable(&field.name);
                return Err(Fault::contract(format!("declared the field `{name}` twice")));
            }
        }
        let fields: Arc<[Field]> = fields.into_iter().map(Field::from).collect();
        self.emitted.set_fields(&fields);
        self.schema = Some(fields);
        Ok(())
    }
}

/// A guest's text for a terminal: one line, no control characters, not endless.
pub fn printable(text: &str) -> String {
    let mut line = String::new();
    for c in text.chars() {
        if line.len() >= LOG_BYTES {
            line.push('…');
            break;
        }
        match c {
            '\n' | '\r' | '\t' => line.push(' '),
            c if c.is_control() => line.extend(c.escape_default()),
            c => line.push(c),
        }
    }
    line
}

/// Defines the imports by hand where the generated ones would copy: a list that a guest passes is
/// read where it lies, inside the call, never after.
pub(super) fn link(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    linker.instance(&format!("{INTERFACE}/types@{INTERFACE_VERSION}"))?;
    let mut host = linker.instance(&format!("{INTERFACE}/host@{INTERFACE_VERSION}"))?;
    host.func_wrap(
        "log",
        |mut store: StoreContextMut<'_, HostState>, (level, message): (types::Level, String)| {
            store.data_mut().log(level, &message);
            Ok(())
        },
    )?;
    host.func_wrap(
        "set-schema",
        |mut store: StoreContextMut<'_, HostState>, (fields,): (Vec<types::Field>,)| {
            Ok(store.data_mut().set_schema(fields)?)
        },
    )?;
    host.func_wrap("emit", emit)?;
    host.func_wrap("check-crc32c", check_crc32c)?;
    Ok(())
}

type Lists = (WasmList<u64>, WasmList<u8>, WasmList<u32>);

fn emit(
    mut store: StoreContextMut<'_, HostState>,
    (spans, payload, starts): Lists,
) -> wasmtime::Result<()> {
    let state = store.data_mut();
    let Some((_, range)) = &state.chunk else {
        return Err(Fault::contract("emitted records outside of `decode`").into());
    };
    if state.schema.is_none() {
        return Err(Fault::contract("emitted records before it declared its schema").into());
    }
    let (chunk, want_starts, output) = (range.len(), state.want_starts, state.output);
    let mut emitted = std::mem::take(&mut state.emitted);
    let payload = payload.as_le_slice(&store);
    let taken = if emitted.payload.len() as u64 + payload.len() as u64 > output {
        Err(Fault::new(
            ErrorKind::Limit,
            format!("the decoder emitted more than {output} bytes in one call"),
            "if its records are really that large, raise `limits.output`",
        ))
    } else {
        let (spans, starts) = (spans.as_le_slice(&store), starts.as_le_slice(&store));
        emitted.take(chunk, spans, payload, starts, want_starts)
    };
    store.data_mut().emitted = emitted;
    Ok(taken?)
}

fn check_crc32c(
    store: StoreContextMut<'_, HostState>,
    (spans, expected): (WasmList<u64>, WasmList<u32>),
) -> wasmtime::Result<(Option<u32>,)> {
    let Some((bytes, range)) = &store.data().chunk else {
        return Err(Fault::contract("asked for checksums outside of `decode`").into());
    };
    let chunk = &(**bytes).as_ref()[range.clone()];
    let (spans, expected) = (spans.as_le_slice(&store), expected.as_le_slice(&store));
    if spans.len() != expected.len() {
        let (spans, expected) = (spans.len(), expected.len());
        let message = format!("asked for {spans} checksums but expects {expected}");
        return Err(Fault::contract(message).into());
    }
    for (index, (span, expected)) in spans.iter().zip(expected).enumerate() {
        let (offset, length) = ((span >> 32) as usize, (span & 0xffff_ffff) as usize);
        let Some(bytes) = chunk.get(offset..offset.saturating_add(length)) else {
            let message =
                format!("asked for the checksum of a span at {offset}, outside its chunk");
            return Err(Fault::contract(message).into());
        };
        if crc32c::crc32c(bytes) != *expected {
            return Ok((Some(index as u32),));
        }
    }
    Ok((None,))
}
