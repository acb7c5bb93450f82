//! The baseline of decoding: the same decoder, compiled natively. It decodes in place in the slots
//! of a ring, writes the same index, delivers batches to the same consumer, and has none of the
//! host's checks.

use std::cell::RefCell;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Result, ensure};
use pipemill_plugin::{Decoder, Field, Host, Level, Options, Records, StreamInfo};
use pipemill_ring::host::{BatchInfo, Ring, Writer};
use pipemill_ring::layout::index_room;
use pipemill_types::{self as types, Column};

pub const SLOT: usize = 4 << 20;
pub const SLOTS: usize = 16;
const READ: usize = 256 << 10;
/// Largest number of bytes of a slot for the batch's names.
const NAMES: usize = 256;

/// Collects the records that the decoder emits, in a slot of the ring.
struct Index {
    slot: RefCell<Writer>,
    state: RefCell<NativeState>,
}

#[derive(Default)]
struct NativeState {
    /// The start of the chunk in the slot.
    chunk: (usize, usize),
    columns: Vec<Column>,
    records: u64,
    /// The fields, once the decoder has declared them.
    fields: Option<Vec<Field>>,
}

struct Shared(Rc<Index>);

impl Host for Shared {
    fn set_schema(&mut self, fields: &[Field]) {
        let state = &mut *self.0.state.borrow_mut();
        state.columns.resize_with(fields.len(), Default::default);
        state.fields = Some(fields.to_vec());
    }
    fn emit(&mut self, _: usize, spans: &[u64], payload: &[u8], _: &[u32]) {
        let state = &mut *self.0.state.borrow_mut();
        assert!(payload.is_empty(), "the bench's inputs need no copies");
        let (at, fields) = (state.chunk.0 as u32, state.columns.len());
        for (field, column) in state.columns.iter_mut().enumerate() {
            let spans = spans[field..].iter().step_by(fields);
            let (offsets, lengths) = column.lists();
            offsets.extend(spans.clone().map(|span| (span >> 32) as u32 + at));
            lengths.extend(spans.map(|span| *span as u32));
        }
        state.records += (spans.len() / fields) as u64;
    }
    fn check_crc32c(&mut self, spans: &[u64], expected: &[u32]) -> Option<usize> {
        let (at, end) = self.0.state.borrow().chunk;
        let slot = self.0.slot.borrow();
        let chunk = &(*slot).as_ref()[at..end];
        spans.iter().zip(expected).position(|(span, crc)| {
            let (offset, length) = ((span >> 32) as usize, *span as u32 as usize);
            crc_fast::crc32_iscsi(&chunk[offset..offset + length]) != *crc
        })
    }
    fn log(&mut self, _: Level, _: &str) {}
}

/// Decodes the file `times` times into the ring. Returns the number of records.
pub fn run<D: Decoder>(
    ring: &Arc<Ring>,
    path: &Path,
    options: &[(String, String)],
    times: u32,
) -> Result<u64> {
    let options = Options::new(&D::options(), options).map_err(anyhow::Error::msg)?;
    let index = Rc::new(Index {
        slot: RefCell::new(ring.acquire().map_err(anyhow::Error::msg)?),
        state: RefCell::new(NativeState::default()),
    });
    for _ in 0..times {
        decode_file::<D>(ring, &index, path, &options)?;
    }
    ring.end_stream();
    let records = index.state.borrow().records;
    Ok(records)
}

fn decode_file<D: Decoder>(
    ring: &Arc<Ring>,
    index: &Rc<Index>,
    path: &Path,
    options: &Options,
) -> Result<()> {
    let info = StreamInfo {
        channel: "bench".into(),
        object: "bench".into(),
        max_record: 64 << 20,
        ..StreamInfo::default()
    };
    let mut decoder = D::open(options, &info).map_err(anyhow::Error::msg)?;
    let mut records = Records::new(Box::new(Shared(index.clone())), false);
    if let Some(fields) = decoder.schema() {
        records.set_schema(&fields);
    }
    let mut file = File::open(path)?;
    let (mut at, mut end) = (0, 0);
    loop {
        let count = {
            let mut slot = index.slot.borrow_mut();
            let room = slot.payload();
            let to = (end + READ).min(room.len());
            file.read(&mut room[end..to])?
        };
        end += count;
        index.state.borrow_mut().chunk = (at, end);
        let progress = {
            let slot = index.slot.borrow();
            decoder.decode(&(*slot).as_ref()[at..end], count == 0, &mut records)
        };
        records.flush();
        let progress = progress.map_err(|error| anyhow::Error::msg(error.message))?;
        at += progress.consumed;
        let is_full = {
            let state = index.state.borrow();
            let records = state.columns.first().map_or(0, |column| column.len());
            let index = index_room(end, NAMES, state.columns.len(), records + records / 8);
            SLOT < end + index + READ
        };
        if count == 0 {
            ensure!(at == end, "the input ends inside a record");
        }
        if count == 0 || is_full {
            (at, end) = hand_over(ring, index, at, end)?;
        }
        if count == 0 {
            return Ok(());
        }
    }
}

/// Grants the slot's records. The bytes from `at` up to `end` are copied to the start of the next
/// slot. Returns their range there.
fn hand_over(ring: &Arc<Ring>, index: &Index, at: usize, end: usize) -> Result<(usize, usize)> {
    let state = &mut *index.state.borrow_mut();
    if let Some(fields) = state.fields.take() {
        let field =
            |field: &Field| types::Field::new(&field.name, types::Scalar::Bytes, Vec::new());
        ring.set_schema(fields.iter().map(field).collect())?;
    }
    let mut next = ring.acquire().map_err(anyhow::Error::msg)?;
    let rest = end - at;
    next.payload()[..rest].copy_from_slice(&(*index.slot.borrow()).as_ref()[at..end]);
    let full = index.slot.replace(next);
    if state.columns.first().is_some_and(|column| !column.is_empty()) {
        let info = BatchInfo { payload_bytes: at, ..BatchInfo::default() };
        full.grant(&info, &state.columns)?;
    }
    state.columns.iter_mut().for_each(Column::clear);
    Ok((0, rest))
}
