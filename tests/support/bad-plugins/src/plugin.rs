//! The exports: a decoder to which each byte is a record, until its misdeed is due.

use std::cell::{Cell, RefCell};

use pipemill_plugin::bindings::exports::pipemill::decoder0_1_0::decoder::{
    DecodeError, Guest, GuestStream, OptionSpec, Progress, Resynced, Stream, StreamBorrow,
    StreamInfo,
};
use pipemill_plugin::bindings::exports::pipemill::decoder0_2_0::window;
use pipemill_plugin::bindings::exports::pipemill::decoder0_3_0::{carry, plan, preparing, rest};
use pipemill_plugin::bindings::pipemill::decoder0_1_0::host;
use pipemill_plugin::bindings::pipemill::decoder0_1_0::types::{Field, Level};

use crate::{framed, misdeeds, plans, prepare, saves};

struct Plugin;

impl Guest for Plugin {
    type Stream = Bad;

    fn options() -> Vec<OptionSpec> {
        let option = |name: &str, default: &str, help: &str| OptionSpec {
            name: name.to_owned(),
            kind: "string".to_owned(),
            default: Some(default.to_owned()),
            required: false,
            help: help.to_owned(),
        };
        vec![
            option("do", "nothing", "the misdeed"),
            OptionSpec {
                kind: "file".to_owned(),
                default: None,
                ..option("file", "", "a file whose content is emitted by `prepare-tells`")
            },
            option("detect.endings", ".deed", "endings of names that this decoder reads"),
            option("detect.magic", "a0dEED", "first bytes of what this decoder reads"),
        ]
    }
}

/// It has no window: chunks are copied to it.
impl window::Guest for Plugin {
    fn set_aside(_: u32) -> u32 {
        0
    }

    fn decode(_: StreamBorrow<'_>, _: u32, _: u32, _: bool) -> Result<Progress, DecodeError> {
        unreachable!("no window was set aside")
    }
}

impl plan::Guest for Plugin {
    fn plans() -> bool {
        true
    }

    fn companions(options: Vec<(String, String)>) -> Result<Vec<plan::Companion>, String> {
        let (misdeed, _) = deed(options);
        plans::companions(&misdeed)
    }

    fn step(
        options: Vec<(String, String)>,
        info: StreamInfo,
        seen: Vec<plan::Piece>,
    ) -> Result<plan::Next, String> {
        std::panic::set_hook(Box::new(|info| host::log(Level::Error, &info.to_string())));
        let (misdeed, _) = deed(options);
        let next = plans::step(&misdeed, info.size.unwrap_or(0), &seen)?;
        Ok(next.unwrap_or(plan::Next::Whole))
    }
}

impl rest::Guest for Plugin {
    fn decode(stream: StreamBorrow<'_>, end: bool) -> Result<Progress, DecodeError> {
        let stream: &Bad = stream.get();
        let rest = stream.rest.take().expect("the last call returned `more`");
        stream.decode_and_keep(rest, end)
    }
}

impl preparing::Guest for Plugin {
    fn prepares() -> bool {
        true
    }

    fn prepare(
        options: Vec<(String, String)>,
        files: Vec<(String, Vec<u8>)>,
    ) -> Result<(), String> {
        std::panic::set_hook(Box::new(|info| host::log(Level::Error, &info.to_string())));
        let (misdeed, file) = deed(options);
        assert_eq!(file.is_empty(), files.is_empty(), "a file, if and only if its option is set");
        prepare::prepare(&misdeed, &file, files)
    }
}

impl carry::Guest for Plugin {
    fn carries() -> bool {
        true
    }

    fn save(stream: StreamBorrow<'_>) -> Option<Vec<u8>> {
        let stream: &Bad = stream.get();
        assert!(!stream.busy.get(), "saved after it died");
        saves::save(&stream.misdeed, &stream.framed)
    }

    fn load(
        options: Vec<(String, String)>,
        info: StreamInfo,
        saved: Vec<u8>,
    ) -> Result<Stream, String> {
        std::panic::set_hook(Box::new(|info| host::log(Level::Error, &info.to_string())));
        let (misdeed, _) = deed(options);
        let framed = framed::Framed::new(&misdeed, info.max_record);
        saves::load(&misdeed, &framed, &info, &saved)?;
        host::set_schema(&[field("byte")]);
        Ok(Stream::new(Bad { misdeed, framed, busy: Cell::new(false), rest: RefCell::new(None) }))
    }
}

/// The values of the options: the misdeed, and the file.
fn deed(options: Vec<(String, String)>) -> (String, String) {
    let mut deed = (String::new(), String::new());
    for (name, value) in options {
        match name.as_str() {
            "do" => deed.0 = value,
            "file" => deed.1 = value,
            _ => panic!("the option {name} is unknown"),
        }
    }
    deed
}

/// An open stream.
pub struct Bad {
    misdeed: String,
    framed: framed::Framed,
    /// Set while a call runs, and so for ever in an instance that died in one.
    busy: Cell<bool>,
    /// The bytes that the last call has not consumed, if it returned `more`.
    rest: RefCell<Option<Vec<u8>>>,
}

impl Bad {
    fn decode_and_keep(&self, chunk: Vec<u8>, end: bool) -> Result<Progress, DecodeError> {
        assert!(!self.busy.replace(true), "called again after it died");
        let answer = match chunk.as_slice() {
            [] if self.misdeed != framed::COUNTS_AT_END => Ok(progress(0, 1)),
            chunk if prepare::knows(&self.misdeed) => Ok(prepare::tell(chunk)),
            chunk if framed::knows(&self.misdeed) => framed::decode(&self.framed, chunk, end),
            chunk => misdeeds::at_decode(&self.misdeed, chunk, end)
                .unwrap_or_else(|| Ok(every_byte(chunk))),
        };
        self.busy.set(false);
        let more = answer.as_ref().ok().filter(|progress| progress.more);
        let rest = more.and_then(|more| chunk.get(more.consumed as usize..));
        self.rest.replace(rest.map(<[u8]>::to_vec));
        answer
    }
}

impl GuestStream for Bad {
    fn open(options: Vec<(String, String)>, info: StreamInfo) -> Result<Stream, String> {
        std::panic::set_hook(Box::new(|info| host::log(Level::Error, &info.to_string())));
        let (misdeed, _) = deed(options);
        misdeeds::at_open(&misdeed)?;
        if !misdeed.ends_with("-schema") {
            host::set_schema(&[field("byte")]);
        }
        let framed = framed::Framed::new(&misdeed, info.max_record);
        Ok(Stream::new(Bad { misdeed, framed, busy: Cell::new(false), rest: RefCell::new(None) }))
    }

    fn decode(&self, chunk: Vec<u8>, end: bool) -> Result<Progress, DecodeError> {
        let rest = self.rest.borrow();
        assert!(rest.is_none(), "bytes that were kept are copied again");
        drop(rest);
        self.decode_and_keep(chunk, end)
    }

    fn resync(&self, chunk: Vec<u8>, end: bool) -> Resynced {
        match framed::knows(&self.misdeed) {
            true => framed::resync(&self.framed, &chunk, end),
            false => misdeeds::at_resync(&self.misdeed, &chunk),
        }
    }
}

/// What a good decoder of this kind would do.
pub fn every_byte(chunk: &[u8]) -> Progress {
    let size = chunk.len() as u32;
    let spans: Vec<u64> = (0..size).map(|at| span(at, 1)).collect();
    let starts: Vec<u32> = (0..size).collect();
    emit(&spans, &[], &starts);
    progress(size, 1)
}

/// Emits records of one field.
pub fn emit(spans: &[u64], payload: &[u8], starts: &[u32]) {
    host::emit(spans.len() as u32, spans, payload, starts);
}

/// A span of the chunk.
pub fn span(offset: u32, length: u32) -> u64 {
    u64::from(offset) << 32 | u64::from(length)
}

/// What `decode` returns.
pub fn progress(consumed: u32, need: u32) -> Progress {
    Progress { consumed, need, more: false }
}

/// A field of bytes.
pub fn field(name: impl Into<String>) -> Field {
    typed(name, "bytes")
}

/// A field of bytes that a record may lack.
pub fn nullable(name: &str) -> Field {
    Field { nullable: true, ..field(name) }
}

/// A field of one element.
pub fn typed(name: impl Into<String>, scalar: &str) -> Field {
    Field {
        name: name.into(),
        scalar: scalar.to_owned(),
        shape: Vec::new(),
        nullable: false,
        logical: String::new(),
        categories: Vec::new(),
        metadata: Vec::new(),
    }
}

pipemill_plugin::bindings::export!(Plugin with_types_in pipemill_plugin::bindings);
