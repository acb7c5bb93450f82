//! Records in pieces of memory, which are taken one by one. The memory of a piece is given back
//! once all of its records were taken and are not needed any more.

use std::collections::VecDeque;

use pipemill_types::ABSENT;

use crate::batch::Batch;
use crate::batch::block_memory::BlockMemory;

/// Records that lie in one piece of memory.
struct Piece {
    memory: BlockMemory,
    batch: Batch,
}

/// The place of a record: the number of its piece, and its number in the piece.
#[derive(Clone, Copy)]
pub(crate) struct PiecePlace {
    piece: u64,
    record: usize,
}

/// Pieces in the order in which they were added.
#[derive(Default)]
pub(crate) struct PieceQueue {
    /// Only the last piece can have a next record. All records of the others were taken.
    pieces: VecDeque<Piece>,
    /// Number of the first of `pieces`.
    first: u64,
    /// Number of the next record in the last piece.
    next: usize,
}

impl PieceQueue {
    /// Adds a piece. All records of the earlier pieces must have been taken.
    pub(crate) fn push(&mut self, memory: BlockMemory, batch: Batch) {
        self.next = 0;
        self.pieces.push_back(Piece { memory, batch });
    }

    /// Whether there is a next record.
    pub(crate) fn has_record(&self) -> bool {
        self.pieces.back().is_some_and(|piece| self.next < piece.batch.records)
    }

    /// Number of records of the last piece that were taken.
    pub(crate) fn taken(&self) -> u64 {
        self.next as u64
    }

    /// Takes the next record. There must be one.
    pub(crate) fn take(&mut self) -> PiecePlace {
        let piece = self.first + self.pieces.len() as u64 - 1;
        self.next += 1;
        PiecePlace { piece, record: self.next - 1 }
    }

    /// Gives back the memory of records that were taken: they are not needed any more.
    pub(crate) fn release_taken(&mut self, give_back: impl FnMut(BlockMemory)) {
        let is_used_up = self.pieces.back().is_some_and(|piece| self.next == piece.batch.records);
        self.release(usize::from(!is_used_up), give_back);
    }

    /// Gives back all memory: no record is needed any more.
    pub(crate) fn clear(&mut self, give_back: impl FnMut(BlockMemory)) {
        self.release(0, give_back);
    }

    /// Gives back the memory of all pieces but the last `kept`.
    fn release(&mut self, kept: usize, mut give_back: impl FnMut(BlockMemory)) {
        while self.pieces.len() > kept {
            let Some(piece) = self.pieces.pop_front() else { return };
            self.first += 1;
            if !piece.memory.is_dedicated() {
                give_back(piece.memory);
            }
        }
    }

    /// The value of a field of a record that was taken; `None` if the record does not have it.
    pub(crate) fn value(&self, place: PiecePlace, field: usize) -> Option<&[u8]> {
        let Piece { memory, batch } = self.piece(place);
        let column = &batch.columns[field];
        let (from, length) = column.get(place.record);
        (from != ABSENT).then(|| &memory.as_ref()[from as usize..][..length as usize])
    }

    /// The length of this value: 0 if the record does not have it.
    pub(crate) fn length(&self, place: PiecePlace, field: usize) -> u32 {
        self.piece(place).batch.columns[field].get(place.record).1
    }

    /// Bytes of the record's values.
    pub(crate) fn bytes(&self, place: PiecePlace) -> usize {
        let columns = &self.piece(place).batch.columns;
        columns.iter().map(|column| column.get(place.record).1 as usize).sum()
    }

    fn piece(&self, place: PiecePlace) -> &Piece {
        &self.pieces[(place.piece - self.first) as usize]
    }
}
