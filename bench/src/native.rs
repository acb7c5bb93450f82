//! The baseline of decoding: the same decoder, compiled natively, which decodes in paths. It reads
//! into slots, writes an index after each slot's data, and has none of the host's checks.

use std::cell::RefCell;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use anyhow::{Result, ensure};
use pipemill_plugin::{Decoder, Field, Host, Level, Options, Records, StreamInfo};

pub const SLOT: usize = 4 << 20;
pub const SLOTS: usize = 16;
const READ: usize = 256 << 10;

/// Collects the records that the decoder emits.
struct Index {
    memory: RefCell<Vec<u8>>,
    state: RefCell<NativeState>,
}

#[derive(Default)]
struct NativeState {
    fields: usize,
    chunk: (usize, usize),
    columns: Vec<(Vec<u32>, Vec<u32>)>,
    records: u64,
}

struct Shared(Rc<Index>);

impl Host for Shared {
    fn set_schema(&mut self, fields: &[Field]) {
        let state = &mut *self.0.state.borrow_mut();
        state.fields = fields.len();
        state.columns.resize_with(fields.len(), Default::default);
    }
    fn emit(&mut self, _: usize, spans: &[u64], payload: &[u8], _: &[u32]) {
        let state = &mut *self.0.state.borrow_mut();
        assert!(payload.is_empty(), "the bench's inputs need no copies");
        let at = state.chunk.0 as u32;
        for (field, (offsets, lengths)) in state.columns.iter_mut().enumerate() {
            let spans = spans[field..].iter().step_by(state.fields);
            offsets.extend(spans.clone().map(|span| (span >> 32) as u32 + at));
            lengths.extend(spans.map(|span| *span as u32));
        }
        state.records += (spans.len() / state.fields) as u64;
    }
    fn check_crc32c(&mut self, spans: &[u64], expected: &[u32]) -> Option<usize> {
        let (at, end) = self.0.state.borrow().chunk;
        let memory = self.0.memory.borrow();
        let chunk = &memory[at..end];
        spans.iter().zip(expected).position(|(span, crc)| {
            let (offset, length) = ((span >> 32) as usize, *span as u32 as usize);
            crc32c::crc32c(&chunk[offset..offset + length]) != *crc
        })
    }
    fn log(&mut self, _: Level, _: &str) {}
}

/// Decodes the file. Gives the seconds that it took, and the number of records.
pub fn run<D: Decoder>(path: &Path, options: &[(String, String)]) -> Result<(f64, u64)> {
    let index = Rc::new(Index {
        memory: RefCell::new(vec![1; SLOT * SLOTS]),
        state: RefCell::new(NativeState::default()),
    });
    let options = Options::new(&D::options(), options).map_err(anyhow::Error::msg)?;
    let info = StreamInfo {
        channel: "bench".into(),
        object: "bench".into(),
        max_record: 64 << 20,
        ..StreamInfo::default()
    };
    let started = Instant::now();
    let mut decoder = D::open(&options, &info).map_err(anyhow::Error::msg)?;
    let mut records = Records::new(Box::new(Shared(index.clone())), false);
    if let Some(fields) = decoder.schema() {
        records.set_schema(&fields);
    }
    let mut file = File::open(path)?;
    let (mut slot, mut at, mut end) = (0, 0, 0);
    loop {
        let count =
            file.read(&mut index.memory.borrow_mut()[slot + end..slot + (end + READ).min(SLOT)])?;
        end += count;
        index.state.borrow_mut().chunk = (slot + at, slot + end);
        let progress = {
            let memory = index.memory.borrow();
            decoder.decode(&memory[slot + at..slot + end], count == 0, &mut records)
        };
        records.flush();
        let progress = progress.map_err(|error| anyhow::Error::msg(error.message))?;
        at += progress.consumed;
        if count == 0 {
            ensure!(at == end, "the input ends inside a record");
            break;
        }
        let state = &mut *index.state.borrow_mut();
        let index_bytes: usize = state.columns.iter().map(|(offsets, _)| offsets.len() * 8).sum();
        if SLOT < end + index_bytes + READ + READ / 4 {
            let next = (slot + SLOT) % (SLOT * SLOTS);
            let memory = &mut *index.memory.borrow_mut();
            write_index(&mut memory[slot + end..slot + SLOT], &mut state.columns);
            memory.copy_within(slot + at..slot + end, next);
            (end, at, slot) = (end - at, 0, next);
        }
    }
    let records = index.state.borrow().records;
    Ok((started.elapsed().as_secs_f64(), records))
}

fn write_index(memory: &mut [u8], columns: &mut [(Vec<u32>, Vec<u32>)]) {
    let mut bytes = memory.chunks_exact_mut(4);
    for (offsets, lengths) in columns {
        for (value, bytes) in offsets.iter().chain(&*lengths).zip(&mut bytes) {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
        offsets.clear();
        lengths.clear();
    }
}
