//! Makes one RecordIO record of a whole object: what Amazon SageMaker calls `RecordWrapperType: RecordIO`.

use std::time::Duration;

use super::{Input, ReadOutcome, SourceError};

/// Begins every record, little-endian.
const MAGIC: u32 = 0xced7_230a;
/// A length has 29 bits; the three above say whether the record is a whole one.
const LARGEST: u64 = (1 << 29) - 1;

/// An object as one RecordIO record.
pub(super) struct Wrapped {
    name: String,
    input: Box<dyn Input>,
    state: State,
}

enum State {
    /// The length is not known before the end: the bytes are gathered.
    Gathering(Vec<u8>),
    /// Bytes that stand there, then so many of the input.
    Giving { ready: Vec<u8>, given: usize, left: u64, padding: usize },
}

impl Wrapped {
    /// `size`: the input's length, if it is known.
    pub(super) fn new(name: String, input: Box<dyn Input>, size: Option<u64>) -> Self {
        let state = match size {
            Some(size) if size <= LARGEST => {
                State::Giving { ready: header(size), given: 0, left: size, padding: padding(size) }
            }
            Some(_) | None => State::Gathering(Vec::new()),
        };
        Self { name, input, state }
    }

    /// All of the input, for which it may have to wait.
    fn gather(&mut self, wait: Option<Duration>) -> Result<Option<ReadOutcome>, SourceError> {
        let State::Gathering(bytes) = &mut self.state else { return Ok(None) };
        loop {
            let start = bytes.len();
            if start as u64 > LARGEST {
                let message = format!(
                    "is too large for one RecordIO record, which has at most {LARGEST} bytes"
                );
                let remedy = "read it without `wrap`";
                return Err(SourceError::new(&self.name, message, remedy));
            }
            bytes.resize(start + (128 << 10), 0);
            let got = self.input.read(&mut bytes[start..], wait);
            let count = if let Ok(ReadOutcome::Bytes(count)) = got { count } else { 0 };
            bytes.truncate(start + count);
            match got? {
                ReadOutcome::Bytes(_) => {}
                ReadOutcome::End => break,
                got => return Ok(Some(got)),
            }
        }
        let size = bytes.len() as u64;
        let mut ready = header(size);
        ready.append(bytes);
        self.state = State::Giving { ready, given: 0, left: 0, padding: padding(size) };
        Ok(None)
    }
}

/// The length of the record of an object of this size.
pub(super) fn length(size: u64) -> u64 {
    8 + size + padding(size) as u64
}

fn header(size: u64) -> Vec<u8> {
    // No larger one gets here.
    [MAGIC.to_le_bytes(), (size as u32).to_le_bytes()].concat()
}

/// Records are a multiple of four bytes long.
fn padding(size: u64) -> usize {
    (4 - size as usize % 4) % 4
}

impl Input for Wrapped {
    fn read(&mut self, buf: &mut [u8], wait: Option<Duration>) -> Result<ReadOutcome, SourceError> {
        if let Some(got) = self.gather(wait)? {
            return Ok(got);
        }
        let State::Giving { ready, given, left, padding } = &mut self.state else {
            return Ok(ReadOutcome::End);
        };
        if *given < ready.len() {
            let count = buf.len().min(ready.len() - *given);
            buf[..count].copy_from_slice(&ready[*given..*given + count]);
            *given += count;
            return Ok(ReadOutcome::Bytes(count));
        }
        if *left > 0 {
            let got = self.input.read(buf, wait)?;
            match got {
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
            return Ok(got);
        }
        if *padding > 0 {
            let count = buf.len().min(*padding);
            buf[..count].fill(0);
            *padding -= count;
            return Ok(ReadOutcome::Bytes(count));
        }
        // Its end tells whether its bytes were right.
        self.input.read(buf, wait)
    }
}
