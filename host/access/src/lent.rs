//! The memory of answers: the client has it until it says that it does not read it any more. Then
//! it has another answer.

use std::collections::VecDeque;

use pipemill_ring::host::{RingError, SealedBatch, SealedMemory};

/// The name of an answer's memory in `/proc/PID/maps`.
const NAME: &str = "pipemill:access";
/// Most answers whose memory may be used again when the client gives it back, and most memories
/// that wait for another answer.
const KEPT: usize = 3;
/// Most bytes of memory that is used again.
const MAX_SIZE: usize = 64 << 20;

/// The memory of answers.
#[derive(Default)]
pub(crate) struct Lent {
    /// The memory of the last answers that the client has, by their numbers.
    lent: VecDeque<(u64, SealedMemory)>,
    free: VecDeque<SealedMemory>,
}

impl Lent {
    /// A batch to fill: see [`SealedBatch::create`].
    ///
    /// # Errors
    /// The kernel does not grant the memory.
    pub(crate) fn batch(
        &mut self,
        payload: usize,
        texts: usize,
        fields: usize,
        records: usize,
    ) -> Result<SealedBatch, RingError> {
        let needed = SealedBatch::size(payload, texts, fields, records)?;
        let fits = |memory: &SealedMemory| (needed..=2 * needed).contains(&memory.size());
        match self.free.iter().position(fits).and_then(|at| self.free.remove(at)) {
            Some(memory) => Ok(SealedBatch::again(NAME, memory)),
            None => SealedBatch::create(NAME, payload, texts, fields, records),
        }
    }

    /// Notes that the client has this answer.
    pub(crate) fn lend(&mut self, number: u64, memory: SealedMemory) {
        if memory.size() > MAX_SIZE {
            return;
        }
        if self.lent.len() == KEPT {
            // If the client gives it back, the kernel frees it.
            self.lent.pop_front();
        }
        self.lent.push_back((number, memory));
    }

    /// Notes that the client does not read this answer any more.
    pub(crate) fn give_back(&mut self, number: u64) {
        let at = self.lent.iter().position(|(lent, _)| *lent == number);
        let Some((_, memory)) = at.and_then(|at| self.lent.remove(at)) else { return };
        if self.free.len() == KEPT {
            self.free.pop_front();
        }
        self.free.push_back(memory);
    }
}
