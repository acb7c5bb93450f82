//! No misdeed, but all that the contract allows in one record: fields in the chunk, whole, in part and
//! empty, one in another, made ones, larger than the input or empty, and absent ones.
//!
//! A record is `u16 length · three bytes that tell how each field is made · payload`.

use pipemill_plugin::bindings::exports::pipemill::decoder0_1_0::decoder::Progress;
use pipemill_plugin::bindings::pipemill::decoder0_1_0::host;

use crate::plugin::{progress, span};

/// Bit of a span that says: in the payload.
const IN_PAYLOAD: u64 = 1 << 63;
/// Bytes before the payload.
const HEADER: usize = 5;
/// Records handed over at a time, so that a call of `decode` has several of `emit`.
const BLOCK: usize = 5;

#[derive(Default)]
struct Block {
    spans: Vec<u64>,
    payload: Vec<u8>,
    starts: Vec<u32>,
    /// Bytes of payload that were handed over in this call of `decode`.
    handed_over: usize,
}

impl Block {
    fn hand_over(&mut self) {
        let records = self.starts.len() as u32;
        host::emit(records, &self.spans, &self.payload, &self.starts);
        let handed_over = self.handed_over + self.payload.len();
        *self = Self { handed_over, ..Self::default() };
    }
}

/// Emits the records that lie whole in the chunk.
pub fn records(chunk: &[u8]) -> Progress {
    let (mut at, mut block) = (0, Block::default());
    let need = loop {
        let Some(header) = chunk[at..].first_chunk::<HEADER>() else { break HEADER };
        let length = usize::from(u16::from_le_bytes([header[0], header[1]]));
        let payload = at + HEADER..at + HEADER + length;
        if payload.end > chunk.len() {
            break HEADER + length;
        }
        for how in &header[2..] {
            let (from, size) = (payload.start as u32, length as u32);
            block.spans.push(match how & 3 {
                0 => u64::MAX,
                1 => span(from, size),
                2 => span(from + size / 2, size / 3),
                _ => {
                    let made = (block.handed_over + block.payload.len()) as u32;
                    let bytes = chunk[payload.clone()].repeat(usize::from(how >> 2 & 7));
                    block.payload.extend_from_slice(&bytes);
                    IN_PAYLOAD | span(made, bytes.len() as u32)
                }
            });
        }
        block.starts.push(at as u32);
        if block.starts.len() == BLOCK {
            block.hand_over();
        }
        at = payload.end;
    };
    if !block.starts.is_empty() {
        block.hand_over();
    }
    progress(at as u32, need as u32)
}
