//! The index of a dataset, a file `.idx`: a header, and three or four tables.
//!
//! ```text
//! 9 bytes   "MMIDIDX" and two zeros
//! uint64    the version, 1
//! uint8     the code of the tokens' type
//! uint64    N, the number of sequences
//! uint64    D, the number of document indices: one more than there are documents
//! int32[N]  the number of tokens of each sequence
//! int64[N]  the byte of the .bin at which each sequence begins
//! int64[D]  the number of the first sequence of each document, and at the end N
//! int8[N]   a mode of each sequence, only in datasets of several kinds of data
//! ```
//!
//! All numbers are little-endian. The source is `megatron/core/datasets/indexed_dataset.py` of
//! <https://github.com/NVIDIA/Megatron-LM>.

use std::ops::Range;

use pipemill_plugin::Scalar;

use crate::part::Failure;

/// Bytes of the header.
pub(crate) const HEADER: u64 = 34;

const MAGIC: [u8; 9] = *b"MMIDIDX\0\0";
const VERSION: u64 = 1;

/// The types of tokens, by their code.
const TYPES: [(u8, Scalar); 8] = [
    (1, Scalar::Uint8),
    (2, Scalar::Int8),
    (3, Scalar::Int16),
    (4, Scalar::Int32),
    (5, Scalar::Int64),
    (6, Scalar::Float64),
    (7, Scalar::Float32),
    (8, Scalar::Uint16),
];

/// The type with this code.
pub(crate) fn type_of(code: u8) -> Option<Scalar> {
    TYPES.iter().find(|(known, _)| *known == code).map(|(_, scalar)| *scalar)
}

/// The tables of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Index {
    /// The code of the tokens' type, which is known.
    pub(crate) code: u8,
    /// Number of sequences.
    pub(crate) sequences: u64,
    /// Number of document indices, at least 1.
    pub(crate) indices: u64,
}

impl Index {
    /// Reads the header of an index of `size` bytes. The tables are as long as it says.
    pub(crate) fn read(header: &[u8], size: u64) -> Result<Self, Failure> {
        let found = header.get(..MAGIC.len()).unwrap_or(header);
        if found != MAGIC {
            return Err(Failure::refused(format!(
                "expected an index of Megatron-LM, which begins with \"MMIDIDX\\0\\0\", in the \
                 companion .idx, found \"{}\"",
                found.escape_ascii()
            )));
        }
        let number = |at: usize| {
            let bytes = header.get(at..).and_then(|rest| rest.first_chunk()).copied();
            bytes.map(u64::from_le_bytes)
        };
        let (Some(version), Some(code), Some(sequences), Some(indices)) =
            (number(9), header.get(17).copied(), number(18), number(26))
        else {
            return Err(Failure::damaged(format!(
                "expected a header of {HEADER} bytes at the start of the .idx, found its end after \
                 {size}"
            )));
        };
        if version != VERSION {
            return Err(Failure::refused(format!(
                "expected version {VERSION} at byte 9 of the .idx, found {version}"
            )));
        }
        if type_of(code).is_none() {
            return Err(Failure::refused(format!(
                "expected the code of a type, 1 to 8, at byte 17 of the .idx, found {code}"
            )));
        }
        let index = Self { code, sequences, indices };
        if indices == 0 {
            let message = "expected at least one document index, found 0 at byte 26 of the .idx";
            return Err(Failure::damaged(message.to_owned()));
        }
        match index.bytes() {
            Some(bytes) if size == bytes || Some(size) == bytes.checked_add(sequences) => Ok(index),
            bytes => Err(Failure::damaged(format!(
                "expected an .idx of {} bytes, with modes of the sequences {sequences} more, for \
                 the {sequences} sequences and {indices} document indices of its header, found \
                 {size}",
                bytes.map_or("more than 2^64".to_owned(), |bytes| bytes.to_string())
            ))),
        }
    }

    /// Bytes of header and tables, without modes. `None` if there are more than 64 bits can count.
    fn bytes(&self) -> Option<u64> {
        let documents = self.indices.checked_mul(8)?;
        self.sequences.checked_mul(12)?.checked_add(documents)?.checked_add(HEADER)
    }

    pub(crate) fn scalar(&self) -> Scalar {
        type_of(self.code).unwrap_or(Scalar::Uint8)
    }

    /// Bytes of a token.
    pub(crate) fn token_bytes(&self) -> u64 {
        self.scalar().size() as u64
    }

    /// Where the sizes of these sequences lie.
    pub(crate) fn sizes(&self, of: Range<u64>) -> Range<u64> {
        HEADER + 4 * of.start..HEADER + 4 * of.end
    }

    /// Where the pointers of these sequences lie.
    pub(crate) fn pointers(&self, of: Range<u64>) -> Range<u64> {
        let table = HEADER + 4 * self.sequences;
        table + 8 * of.start..table + 8 * of.end
    }

    /// Where these document indices lie.
    pub(crate) fn documents(&self, of: Range<u64>) -> Range<u64> {
        let table = HEADER + 12 * self.sequences;
        table + 8 * of.start..table + 8 * of.end
    }
}
