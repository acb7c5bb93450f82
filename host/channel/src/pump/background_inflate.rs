//! Inflates an object in a thread of its own, while the channel's thread decodes the inflated
//! bytes.
//!
//! Uncompressed bytes are not read in the background. They would come into the caches of another
//! core than the one that decodes them: a channel of TFRecord would get slower by a fifth to a
//! third.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pipemill_source::{Input, ReadOutcome, SourceError};

use crate::pump::object::NoInput;

/// Bytes of an object after which a thread is worth its start.
const BEGIN_AFTER: u64 = 1 << 20;
/// Bytes of a block. The second-level cache of a server's core holds it several times.
const BLOCK_BYTES: usize = 256 << 10;
/// Number of blocks: one is decoded, one is filled, and one is ready.
const BLOCKS: usize = 3;
/// Bytes of the blocks of an object that is inflated in the background.
pub const BACKGROUND_INFLATE_BYTES: u64 = (BLOCKS * BLOCK_BYTES) as u64;
/// Longest wait for bytes before the thread checks whether they are still wanted.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// The bytes of an input, inflated in the background if it is compressed and long enough.
pub(crate) struct BackgroundInflate(InflateState);

enum InflateState {
    /// The input is read here. `left` is the number of bytes until a thread begins; `None`: none
    /// will begin. `most` is the number of bytes that may be read before they are asked for.
    Here {
        input: Box<dyn Input>,
        left: Option<u64>,
        most: u64,
    },
    Background(InflatedBlocks),
}

/// A block that the thread has inflated.
#[derive(Default)]
struct InflatedBlock {
    bytes: Vec<u8>,
    /// Number of valid bytes.
    len: usize,
    /// The result that follows these bytes, if no more bytes do.
    end: Option<Result<ReadOutcome, SourceError>>,
    /// The input, if the bytes that follow are read only when they are asked for.
    rest: Option<Box<dyn Input>>,
}

/// The blocks of a thread, one after the other.
struct InflatedBlocks {
    filled: Receiver<InflatedBlock>,
    /// Blocks that were read, for the thread to fill again. None once the thread is to end.
    spent: Option<Sender<Vec<u8>>>,
    current: InflatedBlock,
    /// Bytes of the current block that were read.
    at: usize,
    is_unwanted: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl BackgroundInflate {
    /// Bytes after the first `most` ones are read only when they are asked for: a block of an
    /// object ends there, and the bytes after it would be fetched for nothing.
    pub(crate) fn new(input: Box<dyn Input>, most: Option<u64>) -> Self {
        Self::after(BEGIN_AFTER, input, most)
    }

    /// Starts the thread after this many bytes.
    fn after(bytes: u64, input: Box<dyn Input>, most: Option<u64>) -> Self {
        Self(InflateState::Here { input, left: Some(bytes), most: most.unwrap_or(u64::MAX) })
    }

    /// Counts bytes that were read here, and starts the thread after enough of them.
    fn count(&mut self, bytes: usize) {
        let InflateState::Here { input, left, most } = &mut self.0 else { return };
        *left = left.map(|left| left.saturating_sub(bytes as u64));
        *most = most.saturating_sub(bytes as u64);
        if *left != Some(0) {
            return;
        }
        if !input.is_inflated() || *most == 0 {
            *left = None;
            return;
        }
        let (input, most) = (std::mem::replace(input, Box::new(NoInput)), *most);
        self.0 = begin(input, most);
    }
}

impl Input for BackgroundInflate {
    /// The thread that inflates checks it at the end.
    fn check_unchanged(&self) -> Result<(), SourceError> {
        match &self.0 {
            InflateState::Here { input, .. } => input.check_unchanged(),
            InflateState::Background(_) => Ok(()),
        }
    }

    fn read(
        &mut self,
        buf: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<ReadOutcome, SourceError> {
        if let InflateState::Background(blocks) = &mut self.0
            && let Some(input) = blocks.take_rest()
        {
            self.0 = InflateState::Here { input, left: None, most: 0 };
        }
        let outcome = match &mut self.0 {
            InflateState::Here { input, .. } => input.read(buf, timeout)?,
            InflateState::Background(blocks) => return blocks.read(buf, timeout),
        };
        if let ReadOutcome::Bytes(count) = outcome {
            self.count(count);
        }
        Ok(outcome)
    }
}

/// Starts the thread, which reads at most this many bytes. If it can't be started, the input is
/// read here.
fn begin(input: Box<dyn Input>, most: u64) -> InflateState {
    let (spent, to_fill) = mpsc::channel::<Vec<u8>>();
    let (finished, filled) = mpsc::channel();
    let is_unwanted = Arc::new(AtomicBool::new(false));
    let unwanted = is_unwanted.clone();
    // A thread that can't be started must not take the input with it.
    let (hand_over, input_of_thread) = mpsc::channel::<Box<dyn Input>>();
    let work = move || {
        let Ok(mut input) = input_of_thread.recv() else { return };
        let mut left = most;
        for bytes in to_fill {
            let Some(mut block) = fill(&mut *input, bytes, left, &unwanted) else { return };
            left -= block.len as u64;
            if left == 0 && block.end.is_none() {
                block.rest = Some(input);
                // Fails if the bytes are not wanted any more.
                let _ = finished.send(block);
                return;
            }
            let is_last = block.end.is_some();
            if finished.send(block).is_err() || is_last {
                return;
            }
        }
    };
    match thread::Builder::new().name("inflate".into()).spawn(work) {
        Ok(handle) => {
            // The thread waits for these.
            let _ = hand_over.send(input);
            (0..BLOCKS).for_each(|_| drop(spent.send(vec![0; BLOCK_BYTES])));
            let (spent, thread) = (Some(spent), Some(handle));
            let current = InflatedBlock::default();
            InflateState::Background(InflatedBlocks {
                filled,
                spent,
                current,
                at: 0,
                is_unwanted,
                thread,
            })
        }
        Err(error) => {
            log::debug!("can't inflate in a thread of its own: {error}");
            InflateState::Here { input, left: None, most: 0 }
        }
    }
}

/// Fills a block until it is full or has `most` bytes, or no more bytes come at once. None if they
/// are not wanted.
fn fill(
    input: &mut dyn Input,
    bytes: Vec<u8>,
    most: u64,
    is_unwanted: &AtomicBool,
) -> Option<InflatedBlock> {
    let most = usize::try_from(most).map_or(bytes.len(), |most| most.min(bytes.len()));
    let mut block = InflatedBlock { bytes, ..InflatedBlock::default() };
    while block.len < most && !is_unwanted.load(Ordering::Relaxed) {
        let wait = if block.len == 0 { LONGEST_WAIT } else { Duration::ZERO };
        match input.read(&mut block.bytes[block.len..most], Some(wait)) {
            Ok(ReadOutcome::Bytes(count)) => block.len += count,
            Ok(ReadOutcome::Nothing) if block.len == 0 => {}
            Ok(ReadOutcome::Nothing) => return Some(block),
            end => {
                block.end = Some(end);
                return Some(block);
            }
        }
    }
    (!is_unwanted.load(Ordering::Relaxed)).then_some(block)
}

impl InflatedBlocks {
    fn read(
        &mut self,
        buf: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<ReadOutcome, SourceError> {
        while self.at == self.current.len {
            if let Some(end) = &self.current.end {
                return end.clone();
            }
            if !self.next(timeout) {
                return Ok(ReadOutcome::Nothing);
            }
        }
        let rest = &self.current.bytes[self.at..self.current.len];
        let count = rest.len().min(buf.len());
        buf[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        Ok(ReadOutcome::Bytes(count))
    }

    /// The input, if all bytes were read that the thread has read.
    fn take_rest(&mut self) -> Option<Box<dyn Input>> {
        if self.at == self.current.len { self.current.rest.take() } else { None }
    }

    /// Waits for the next block. False if it does not come within the time.
    fn next(&mut self, timeout: Option<Duration>) -> bool {
        let bytes = std::mem::take(&mut self.current).bytes;
        self.at = 0;
        if let Some(spent) = self.spent.as_ref().filter(|_| !bytes.is_empty()) {
            // Fails if the thread has ended, which then needs no block.
            let _ = spent.send(bytes);
        }
        let next = match timeout {
            Some(timeout) => self.filled.recv_timeout(timeout),
            None => self.filled.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match next {
            Ok(block) => self.current = block,
            Err(RecvTimeoutError::Timeout) => return false,
            Err(RecvTimeoutError::Disconnected) => self.panic(),
        }
        true
    }

    /// Continues the panic of the thread, which has ended before its input.
    fn panic(&mut self) -> ! {
        match self.thread.take().map(JoinHandle::join) {
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            _ => unreachable!("a thread that inflates ends after the end of its input"),
        }
    }
}

impl Drop for InflatedBlocks {
    fn drop(&mut self) {
        self.is_unwanted.store(true, Ordering::Relaxed);
        self.spent = None;
        if let Some(thread) = self.thread.take() {
            // A panic was reported where the thread was joined.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use proptest::prelude::*;

    use super::*;

    /// Gives bytes in pieces; a piece of 0 bytes is a read without bytes.
    struct Pieces {
        pieces: std::vec::IntoIter<usize>,
        left: usize,
        given: u8,
        end: Result<ReadOutcome, SourceError>,
    }

    impl Input for Pieces {
        fn read(
            &mut self,
            buf: &mut [u8],
            _: Option<Duration>,
        ) -> Result<ReadOutcome, SourceError> {
            if self.left == 0 {
                match self.pieces.next() {
                    None => return self.end.clone(),
                    Some(0) => return Ok(ReadOutcome::Nothing),
                    Some(size) => self.left = size,
                }
            }
            let count = self.left.min(buf.len());
            for byte in &mut buf[..count] {
                *byte = self.given;
                self.given = self.given.wrapping_add(1);
            }
            self.left -= count;
            Ok(ReadOutcome::Bytes(count))
        }

        fn is_inflated(&self) -> bool {
            true
        }
    }

    /// All bytes, and the result after them.
    fn all(input: &mut dyn Input, most: usize) -> (Vec<u8>, Result<ReadOutcome, SourceError>) {
        let (mut read, mut buf) = (Vec::new(), vec![0; most]);
        loop {
            match input.read(&mut buf, Some(LONGEST_WAIT)) {
                Ok(ReadOutcome::Bytes(count)) => read.extend_from_slice(&buf[..count]),
                Ok(ReadOutcome::Nothing) => {}
                end => return (read, end),
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

        #[test]
        fn what_is_inflated_in_the_background_is_what_is_inflated_here(
            pieces in prop::collection::vec(0..400_000usize, 0..12),
            most in 1000..300_000usize,
            after in 0..500_000u64,
            ahead in prop::option::of(0..900_000u64),
            fails: bool,
        ) {
            let end = match fails {
                true => Err(SourceError::new("a.gz", "is corrupt", "get it again")),
                false => Ok(ReadOutcome::End),
            };
            let pieces = || Pieces {
                pieces: pieces.clone().into_iter(), left: 0, given: 0, end: end.clone(),
            };
            let mut background = BackgroundInflate::after(after, Box::new(pieces()), ahead);
            let (read, ended) = all(&mut background, most);
            let (expected, _) = all(&mut pieces(), most);
            prop_assert!(read == expected);
            prop_assert_eq!(ended.is_err(), fails);
            // It stays at its end.
            prop_assert_eq!(background.read(&mut [0], None).is_err(), fails);
        }
    }

    #[test]
    fn an_input_that_is_dropped_in_the_middle_ends_its_thread() {
        let (pieces, end) = (vec![BLOCK_BYTES; 20].into_iter(), Ok(ReadOutcome::End));
        let pieces = Pieces { pieces, left: 0, given: 0, end };
        let mut background = BackgroundInflate::after(1, Box::new(pieces), None);
        assert_eq!(background.read(&mut [0; 10], None).ok(), Some(ReadOutcome::Bytes(10)));
        assert_eq!(background.read(&mut [0; 10], None).ok(), Some(ReadOutcome::Bytes(10)));
    }

    #[test]
    fn stored_bytes_are_read_here() {
        let mut background = BackgroundInflate::after(1, Box::new(NoInput), None);
        background.count(10);
        assert!(matches!(background.0, InflateState::Here { left: None, .. }));
    }

    /// An input that counts the bytes that were read of it.
    struct Counted(Pieces, Arc<AtomicUsize>);

    impl Input for Counted {
        fn read(
            &mut self,
            buf: &mut [u8],
            wait: Option<Duration>,
        ) -> Result<ReadOutcome, SourceError> {
            let outcome = self.0.read(buf, wait)?;
            if let ReadOutcome::Bytes(count) = outcome {
                self.1.fetch_add(count, Ordering::Relaxed);
            }
            Ok(outcome)
        }

        fn is_inflated(&self) -> bool {
            true
        }
    }

    #[test]
    fn bytes_after_a_block_are_read_only_when_they_are_asked_for() {
        let (pieces, end) = (vec![BLOCK_BYTES; 20].into_iter(), Ok(ReadOutcome::End));
        let (pieces, counted) = (Pieces { pieces, left: 0, given: 0, end }, Arc::default());
        let input = Counted(pieces, Arc::clone(&counted));
        let most = 2 * BLOCK_BYTES + 100;
        let mut background = BackgroundInflate::after(1, Box::new(input), Some(most as u64));
        let (mut read, mut buf) = (0, vec![0; 10_000]);
        while read < most {
            let left = (most - read).min(buf.len());
            let outcome = background.read(&mut buf[..left], Some(LONGEST_WAIT));
            if let Ok(ReadOutcome::Bytes(count)) = outcome {
                read += count;
            }
            assert!(counted.load(Ordering::Relaxed) <= most);
        }
        assert_eq!(counted.load(Ordering::Relaxed), most);
        assert_eq!(background.read(&mut buf[..7], None).ok(), Some(ReadOutcome::Bytes(7)));
        assert_eq!(counted.load(Ordering::Relaxed), most + 7);
    }
}
