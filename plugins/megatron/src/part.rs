//! The head of a part of a plan: what its stream must know of the index.

use crate::index::{Index, type_of};

/// The first bytes of each part.
const MARK: [u8; 8] = *b"PMEGAT\0\x01";

/// Bytes of a head.
pub(crate) const HEAD: usize = MARK.len() + 2 + 4 + 8 * NUMBERS;
const NUMBERS: usize = 10;

/// What a part has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Sequences.
    Sequences,
    /// The reason why the rest of the dataset can't be decoded.
    Damaged,
    /// The reason why the dataset is refused.
    Refused,
}

/// Why a dataset, or its rest, can't be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn damaged(message: String) -> Self {
        Self { kind: Kind::Damaged, message }
    }

    pub(crate) fn refused(message: String) -> Self {
        Self { kind: Kind::Refused, message }
    }

    /// The context of a part that has this failure.
    pub(crate) fn context(&self) -> Vec<u8> {
        let text = self.message.len() as u32;
        let head = PartHead { kind: self.kind, text, ..PartHead::default() };
        [&head.bytes()[..], self.message.as_bytes()].concat()
    }
}

/// The head of a part. After it come the text of a failure; or the sizes and pointers of the
/// sequences, document indices, and the tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartHead {
    pub(crate) kind: Kind,
    /// Bytes of the text of a failure.
    pub(crate) text: u32,
    pub(crate) index: Index,
    /// Number of the first sequence in the dataset.
    pub(crate) first_sequence: u64,
    /// Number of sequences.
    pub(crate) sequences: u64,
    /// Number of the document that the first document index is of.
    pub(crate) first_document: u64,
    /// Number of document indices.
    pub(crate) indices: u64,
    /// Byte of the .bin at which the first sequence begins.
    pub(crate) begin: u64,
    /// Byte of the .bin at which the last sequence ends.
    pub(crate) end: u64,
    /// Byte of the .bin at which the tokens of the part begin, and the number of their bytes.
    /// Records of a fixed length need not begin where a sequence does.
    pub(crate) tokens_from: u64,
    pub(crate) tokens: u64,
}

impl Default for PartHead {
    fn default() -> Self {
        Self {
            kind: Kind::Sequences,
            text: 0,
            index: Index { code: 1, sequences: 0, indices: 0 },
            first_sequence: 0,
            sequences: 0,
            first_document: 0,
            indices: 0,
            begin: 0,
            end: 0,
            tokens_from: 0,
            tokens: 0,
        }
    }
}

impl PartHead {
    fn numbers(&self) -> [u64; NUMBERS] {
        [
            self.index.sequences,
            self.index.indices,
            self.first_sequence,
            self.sequences,
            self.first_document,
            self.indices,
            self.begin,
            self.end,
            self.tokens_from,
            self.tokens,
        ]
    }

    /// The head as it is written.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = MARK.to_vec();
        bytes.push(self.kind as u8);
        bytes.push(self.index.code);
        bytes.extend(self.text.to_le_bytes());
        bytes.extend(self.numbers().iter().flat_map(|number| number.to_le_bytes()));
        bytes
    }

    /// Reads a head. `None` if there is none.
    pub(crate) fn read(bytes: &[u8; HEAD]) -> Option<Self> {
        let (kind, rest) = bytes.strip_prefix(&MARK)?.split_first()?;
        let kinds = [Kind::Sequences, Kind::Damaged, Kind::Refused];
        let kind = kinds.into_iter().find(|one| *one as u8 == *kind)?;
        let (code, rest) = rest.split_first()?;
        let code = type_of(*code).map(|_| *code)?;
        let (text, rest) = rest.split_first_chunk()?;
        let (numbers, _) = rest.as_chunks::<8>();
        let numbers: [_; NUMBERS] = numbers.try_into().ok()?;
        let [
            sequences_of_all,
            indices_of_all,
            first_sequence,
            sequences,
            first_document,
            indices,
            begin,
            end,
            tokens_from,
            tokens,
        ] = numbers.map(u64::from_le_bytes);
        let index = Index { code, sequences: sequences_of_all, indices: indices_of_all };
        let head = Self {
            kind,
            text: u32::from_le_bytes(*text),
            index,
            first_sequence,
            sequences,
            first_document,
            indices,
            begin,
            end,
            tokens_from,
            tokens,
        };
        head.is_sound().then_some(head)
    }

    /// Whether its numbers fit each other, so that no sum of them is too large.
    fn is_sound(&self) -> bool {
        let within = |first: u64, count: u64, all: u64| {
            first.checked_add(count).is_some_and(|last| last <= all)
        };
        let table =
            |count: u64, bytes: u64| count.checked_mul(bytes).is_some_and(|it| it >> 60 == 0);
        let Index { sequences, indices, .. } = self.index;
        table(sequences, 12)
            && table(indices, 8)
            && within(self.first_sequence, self.sequences, sequences)
            && within(self.first_document, self.indices, indices)
            && within(self.tokens_from, self.tokens, self.end)
            && self.begin <= self.tokens_from
    }

    /// Bytes that follow the head.
    pub(crate) fn rest(&self) -> u64 {
        match self.kind {
            Kind::Sequences => (12 * self.sequences + 8 * self.indices).saturating_add(self.tokens),
            Kind::Damaged | Kind::Refused => self.text.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_is_written() {
        let head = PartHead {
            kind: Kind::Sequences,
            text: 0,
            index: Index { code: 8, sequences: 9, indices: 4 },
            first_sequence: 1,
            sequences: 2,
            first_document: 1,
            indices: 3,
            begin: 5,
            end: 90,
            tokens_from: 6,
            tokens: 80,
        };
        let bytes: [u8; HEAD] = head.bytes().try_into().unwrap();
        assert_eq!(PartHead::read(&bytes), Some(head));
        for wrong in [
            PartHead { first_sequence: 8, ..head },
            PartHead { indices: 4, ..head },
            PartHead { sequences: u64::MAX, ..head },
            PartHead { tokens: 90, ..head },
            PartHead { begin: 7, ..head },
            PartHead { index: Index { sequences: u64::MAX, ..head.index }, ..head },
            PartHead { index: Index { code: 9, ..head.index }, ..head },
        ] {
            assert_eq!(PartHead::read(&wrong.bytes().try_into().unwrap()), None, "{wrong:?}");
        }
    }
}
