//! Wraps a whole object as one RecordIO record. Amazon SageMaker calls this
//! `RecordWrapperType: RecordIO`.

use std::time::Duration;

use crate::{Input, ReadOutcome, SourceError};

/// First word of every record, little-endian.
const MAGIC: u32 = 0xced7_230a;
/// Largest payload of a record in bytes: its length has 29 bits. The 3 bits above them are 0 in a
/// record that is not split.
const MAX_PAYLOAD: u64 = (1 << 29) - 1;

/// An object as one RecordIO record.
pub(super) struct Wrapped {
    name: String,
    input: Box<dyn Input>,
    state: WrapState,
}

enum WrapState {
    /// The length is not known before the end, so all bytes are read before the header is written.
    Buffering(Vec<u8>),
    /// Delivers `ready`, of which `sent` bytes are delivered already, then `left` bytes of the
    /// input, then `padding` zeros.
    Sending { ready: Vec<u8>, sent: usize, left: u64, padding: usize },
}

impl Wrapped {
    /// `size` is the input's length in bytes, if it is known.
    pub(super) fn new(name: String, input: Box<dyn Input>, size: Option<u64>) -> Self {
        let state = match size {
            Some(size) if size <= MAX_PAYLOAD => WrapState::Sending {
                ready: header(size),
                sent: 0,
                left: size,
                padding: padding(size),
            },
            Some(_) | None => WrapState::Buffering(Vec::new()),
        };
        Self { name, input, state }
    }

    /// Reads the whole input if its length is not known. Returns `None` when that is done,
    /// otherwise the outcome of a read without bytes.
    fn buffer(&mut self, timeout: Option<Duration>) -> Result<Option<ReadOutcome>, SourceError> {
        let WrapState::Buffering(bytes) = &mut self.state else { return Ok(None) };
        loop {
            let start = bytes.len();
            if start as u64 > MAX_PAYLOAD {
                let message = format!(
                    "is too large for one RecordIO record, which has at most {MAX_PAYLOAD} bytes"
                );
                let remedy = "read it without `wrap`";
                return Err(SourceError::new(&self.name, message, remedy));
            }
            bytes.resize(start + (128 << 10), 0);
            let outcome = self.input.read(&mut bytes[start..], timeout);
            let count = if let Ok(ReadOutcome::Bytes(count)) = outcome { count } else { 0 };
            bytes.truncate(start + count);
            match outcome? {
                ReadOutcome::Bytes(_) => {}
                ReadOutcome::End => break,
                outcome => return Ok(Some(outcome)),
            }
        }
        let size = bytes.len() as u64;
        let mut ready = header(size);
        ready.append(bytes);
        self.state = WrapState::Sending { ready, sent: 0, left: 0, padding: padding(size) };
        Ok(None)
    }
}

/// Length in bytes of the record of an object of `size` bytes.
pub(super) fn length(size: u64) -> u64 {
    8 + size + padding(size) as u64
}

fn header(size: u64) -> Vec<u8> {
    // The length fits: larger objects are refused earlier.
    [MAGIC.to_le_bytes(), (size as u32).to_le_bytes()].concat()
}

/// Zeros after the payload: the length of a record is a multiple of 4 bytes.
fn padding(size: u64) -> usize {
    (4 - size as usize % 4) % 4
}

impl Input for Wrapped {
    fn is_inflated(&self) -> bool {
        self.input.is_inflated()
    }

    fn check_unchanged(&self) -> Result<(), SourceError> {
        self.input.check_unchanged()
    }

    fn read(
        &mut self,
        buf: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<ReadOutcome, SourceError> {
        if let Some(outcome) = self.buffer(timeout)? {
            return Ok(outcome);
        }
        let WrapState::Sending { ready, sent, left, padding } = &mut self.state else {
            return Ok(ReadOutcome::End);
        };
        if *sent < ready.len() {
            let count = buf.len().min(ready.len() - *sent);
            buf[..count].copy_from_slice(&ready[*sent..*sent + count]);
            *sent += count;
            return Ok(ReadOutcome::Bytes(count));
        }
        if *left > 0 {
            let outcome = self.input.read(buf, timeout)?;
            match outcome {
                ReadOutcome::Bytes(count) if count as u64 <= *left => *left -= count as u64,
                ReadOutcome::Bytes(_) | ReadOutcome::End => {
                    let message = "its length has changed since its record was begun";
                    return Err(SourceError::new(
                        &self.name,
                        message,
                        "don't change it while it is read",
                    ));
                }
                ReadOutcome::Nothing | ReadOutcome::Stopped => {}
            }
            return Ok(outcome);
        }
        if *padding > 0 {
            let count = buf.len().min(*padding);
            buf[..count].fill(0);
            *padding -= count;
            return Ok(ReadOutcome::Bytes(count));
        }
        // The input checks its bytes, for example a checksum, when its end is read.
        self.input.read(buf, timeout)
    }
}
