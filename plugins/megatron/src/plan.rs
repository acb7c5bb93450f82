//! The plan of a dataset: the `.bin` in parts of some MiB, each with the piece of the index `.idx`
//! that says what its tokens are.
//!
//! A part begins where a sequence does. Where that is, the tables of the index say. Short tables are
//! read as a whole. Of long ones, single numbers are read, at places that divide the dataset evenly:
//! a plan may read 32 MiB, and the index of 10^8 sequences has more than a GiB. So such a dataset
//! has fewer, longer parts.
//!
//! The plan checks what it reads. The stream of a part checks the rest.

use std::ops::Range;

use pipemill_plugin::{Next, Part, Piece, PlanRange, StreamInfo};

use crate::index::{HEADER, Index};
use crate::part::{Failure, Kind, PartHead};
use crate::rules::{Records, Rules};

/// The number of the companion that is the index.
const INDEX: u32 = 1;
/// Tables of at most this many bytes are read as a whole.
const WHOLE: u64 = 8 << 20;
/// Bytes of tokens in a part, if the dataset is not too long for that.
const PART: u64 = 4 << 20;
/// Most sequences of a part, if the tables are read as a whole.
const PART_SEQUENCES: u64 = 1 << 16;
/// Most parts of a plan. A plan of them has less than 5 MiB.
const MAX_PARTS: u64 = 20_000;
/// Most parts of a plan that reads single numbers. 64 of them are read in a step, and there are two
/// for each part; with the other steps, there are less than 32.
const MAX_SAMPLES: u64 = 850;
/// Most ranges of a step.
const STEP: usize = 64;

/// See [`Decoder::plan`](pipemill_plugin::Decoder::plan).
pub(crate) fn plan(rules: &Rules, info: &StreamInfo, seen: &[Piece]) -> Next {
    let index_bytes = info.companions().first().copied().unwrap_or(0);
    let dataset = Seen { pieces: seen, size: info.size.unwrap_or(0), index_bytes };
    match dataset.plan(rules) {
        Ok(parts) => Next::Parts(parts),
        Err(Unplanned::Unread(ranges)) => Next::Read(ranges),
        Err(Unplanned::Failed(failure)) => Next::Parts(vec![part_of(&failure)]),
    }
}

fn part_of(failure: &Failure) -> Part {
    Part { context: failure.context(), ..Part::default() }
}

/// What was read of a dataset.
struct Seen<'a> {
    pieces: &'a [Piece],
    /// Bytes of the `.bin`.
    size: u64,
    /// Bytes of the `.idx`.
    index_bytes: u64,
}

/// Why there is no plan yet.
enum Unplanned {
    /// These bytes must be read first.
    Unread(Vec<PlanRange>),
    Failed(Failure),
}

impl From<Failure> for Unplanned {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// A place at which a part begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cut {
    /// The sequence.
    sequence: u64,
    /// The document. With records that are documents, its first sequence is `sequence`.
    document: u64,
    /// The byte of the `.bin`.
    byte: u64,
}

impl Seen<'_> {
    /// These bytes of the index, if they were read.
    fn bytes(&self, range: &Range<u64>) -> Option<&[u8]> {
        self.pieces.iter().find_map(|piece| {
            let from = usize::try_from(range.start.checked_sub(piece.offset)?).ok()?;
            let length = usize::try_from(range.end - range.start).ok()?;
            piece.bytes.get(from..from.checked_add(length)?)
        })
    }

    /// Asks for the first of these ranges of the index that were not read.
    fn need(&self, ranges: impl Iterator<Item = Range<u64>>) -> Result<(), Unplanned> {
        let is_unread = |range: &Range<u64>| !range.is_empty() && self.bytes(range).is_none();
        let of_index = |bytes| PlanRange { of: INDEX, bytes };
        let unread: Vec<_> = ranges.filter(is_unread).take(STEP).map(of_index).collect();
        if unread.is_empty() { Ok(()) } else { Err(Unplanned::Unread(unread)) }
    }

    /// The number at this place of the index, which was read.
    fn number(&self, range: &Range<u64>) -> u64 {
        let bytes = self.bytes(range).and_then(|bytes| bytes.first_chunk()).copied();
        bytes.map_or(0, u64::from_le_bytes)
    }

    fn plan(&self, rules: &Rules) -> Result<Vec<Part>, Unplanned> {
        let header = 0..HEADER.min(self.index_bytes);
        self.need(std::iter::once(header.clone()))?;
        let index = Index::read(self.bytes(&header).unwrap_or_default(), self.index_bytes)?;
        self.check_bin(&index)?;
        let table = |range: Range<u64>| (range.end - range.start <= WHOLE).then_some(range);
        let documents = table(index.documents(0..index.indices));
        let pointers = table(index.pointers(0..index.sequences));
        self.need([&documents, &pointers].into_iter().flatten().cloned())?;
        let documents = match documents {
            Some(range) => Some(self.document_indices(&index, &range)?),
            None => None,
        };
        let cuts = match (&documents, &pointers) {
            (Some(documents), Some(_)) => self.cuts_by_bytes(rules, &index, documents)?,
            _ => self.sampled_cuts(rules, &index, documents.as_deref())?,
        };
        Ok(Planner { index, size: self.size, rules, documents: documents.as_deref() }.parts(&cuts))
    }

    /// Checks what the header tells of the `.bin`.
    fn check_bin(&self, index: &Index) -> Result<(), Failure> {
        let (size, token) = (self.size, index.token_bytes());
        if !size.is_multiple_of(token) {
            return Err(Failure::damaged(format!(
                "expected a .bin of tokens of {token} bytes, found {size} bytes, which is no \
                 multiple of it; it is cut short, or the .idx is of another dataset"
            )));
        }
        if index.sequences == 0 && size > 0 {
            return Err(Failure::damaged(format!(
                "expected an empty .bin, because the .idx has no sequence, found {size} bytes"
            )));
        }
        Ok(())
    }

    /// The document indices, which were read as a whole, and are checked.
    fn document_indices(&self, index: &Index, table: &Range<u64>) -> Result<Vec<u64>, Failure> {
        let (numbers, _) = self.bytes(table).unwrap_or_default().as_chunks::<8>();
        let numbers: Vec<_> = numbers.iter().map(|number| u64::from_le_bytes(*number)).collect();
        let mut least = 0;
        for (document, number) in (0..).zip(&numbers) {
            check_document(index, document, *number, least)?;
            least = *number;
        }
        Ok(numbers)
    }

    /// Cuts a dataset whose tables were read as a whole.
    fn cuts_by_bytes(
        &self,
        rules: &Rules,
        index: &Index,
        documents: &[u64],
    ) -> Result<Vec<Cut>, Unplanned> {
        let table = self.bytes(&index.pointers(0..index.sequences)).unwrap_or_default();
        let (pointers, _) = table.as_chunks::<8>();
        let target = PART.max(self.size.div_ceil(MAX_PARTS));
        let mut cuts = Vec::new();
        let mut add = |sequence: u64, document: u64| {
            let byte = pointers.get(sequence as usize).copied().map(u64::from_le_bytes);
            let Some(byte) = byte.or((sequence == index.sequences).then_some(self.size)) else {
                return;
            };
            let is_due = cuts.last().is_none_or(|last: &Cut| {
                byte.saturating_sub(last.byte) >= target
                    || sequence - last.sequence >= PART_SEQUENCES
                    || document - last.document >= PART_SEQUENCES
            });
            if is_due {
                cuts.push(Cut { sequence, document, byte });
            }
        };
        match rules.records {
            Records::Documents => {
                let documents = &documents[..documents.len().saturating_sub(1)];
                (0..).zip(documents).for_each(|(document, sequence)| add(*sequence, document));
            }
            Records::Sequences | Records::Tokens { .. } => {
                (0..index.sequences).for_each(|sequence| add(sequence, 0));
            }
        }
        Ok(cuts)
    }

    /// Cuts a dataset with a table of which single numbers are read.
    fn sampled_cuts(
        &self,
        rules: &Rules,
        index: &Index,
        documents: Option<&[u64]>,
    ) -> Result<Vec<Cut>, Unplanned> {
        let count = self.size.div_ceil(PART).clamp(1, MAX_SAMPLES);
        let place = |all: u64| {
            move |number: u64| (u128::from(all) * u128::from(number) / u128::from(count)) as u64
        };
        let is_by_sequence = documents.is_some() && rules.records != Records::Documents;
        let mut cuts: Vec<Cut> = if is_by_sequence {
            let sequences = (0..count).map(place(index.sequences));
            sequences.map(|sequence| Cut { sequence, document: 0, byte: 0 }).collect()
        } else {
            let at = |document: u64| index.documents(document..document + 1);
            let numbers: Vec<_> = (0..=count).map(place(index.indices - 1)).collect();
            self.need(numbers.iter().map(|document| at(*document)))?;
            let mut least = 0;
            for document in &numbers {
                let sequence = self.number(&at(*document));
                check_document(index, *document, sequence, least)?;
                least = sequence;
            }
            let cut = |document: &u64| {
                let sequence = self.number(&at(*document));
                Cut { sequence, document: *document, byte: 0 }
            };
            numbers[..count as usize].iter().map(cut).collect()
        };
        cuts.dedup_by_key(|cut| match rules.records {
            Records::Documents => (cut.document, 0),
            Records::Sequences | Records::Tokens { .. } => (cut.sequence, 1),
        });
        let at = |cut: &Cut| index.pointers(cut.sequence..cut.sequence + 1);
        let is_inside = |cut: &&Cut| cut.sequence < index.sequences;
        self.need(cuts.iter().filter(is_inside).map(at))?;
        for cut in &mut cuts {
            let is_inside = cut.sequence < index.sequences;
            cut.byte = if is_inside { self.number(&at(cut)) } else { self.size };
        }
        Ok(cuts)
    }
}

/// Checks a document index: the number of a document's first sequence.
fn check_document(index: &Index, document: u64, found: u64, least: u64) -> Result<(), Failure> {
    let (most, place) = (index.sequences, index.documents(document..document).start);
    let expected = match document {
        0 if found != 0 => "0".to_owned(),
        _ if document + 1 == index.indices && found != most => {
            format!("{most}, the number of sequences: the last document ends with the last of them")
        }
        _ if !(least..=most).contains(&found) => format!("{least} to {most}"),
        _ => return Ok(()),
    };
    let found = found as i64;
    Err(Failure::damaged(format!(
        "document index {document}, at byte {place} of the .idx: expected {expected}, found {found}"
    )))
}

/// Makes the parts.
struct Planner<'a> {
    index: Index,
    size: u64,
    rules: &'a Rules,
    documents: Option<&'a [u64]>,
}

impl Planner<'_> {
    /// The parts between these cuts. A cut that can't be is the end of the plan.
    fn parts(&self, cuts: &[Cut]) -> Vec<Part> {
        let last = Cut {
            sequence: self.index.sequences,
            document: self.index.indices - 1,
            byte: self.size,
        };
        let mut parts = Vec::with_capacity(cuts.len());
        let all: Vec<_> = cuts.iter().copied().chain([last]).collect();
        for number in 0..cuts.len() {
            if let Err(failure) = self.check(&all, number) {
                parts.push(part_of(&failure));
                break;
            }
            parts.extend(self.part(&all, number));
        }
        parts
    }

    /// Checks the places of the cut with this number and of the next one.
    fn check(&self, cuts: &[Cut], number: usize) -> Result<(), Failure> {
        let least = cuts[number].byte;
        for cut in &cuts[number..=number + 1] {
            let expected = match cut.sequence {
                0 if cut.byte != 0 => "0".to_owned(),
                _ if !(least..=self.size).contains(&cut.byte) => {
                    format!("{} to {}, the size of the .bin", least.min(self.size), self.size)
                }
                _ => continue,
            };
            let Cut { sequence, byte, .. } = *cut;
            let place = self.index.pointers(sequence..sequence).start;
            let byte = byte as i64;
            return Err(Failure::damaged(format!(
                "sequence {sequence} begins at byte {byte} of the .bin, as byte {place} of the .idx \
                 says; expected {expected}; the .bin is cut short, or the .idx is damaged"
            )));
        }
        Ok(())
    }

    /// The part from the cut with this number on. `None` if no record begins in it.
    fn part(&self, cuts: &[Cut], number: usize) -> Option<Part> {
        let (cut, next) = (cuts[number], cuts[number + 1]);
        let (tokens, end) = match self.rules.records {
            Records::Sequences | Records::Documents => (cut.byte..next.byte, next),
            Records::Tokens { length, .. } => {
                let record = u64::from(length).checked_mul(self.index.token_bytes())?;
                let start = |cut: &Cut| match cut.byte {
                    byte if byte == self.size => self.size,
                    byte => byte
                        .checked_next_multiple_of(record)
                        .map_or(self.size, |it| it.min(self.size)),
                };
                let tokens = start(&cut)..start(&next);
                if tokens.is_empty() {
                    return None;
                }
                // The last record goes on in the sequences of later cuts.
                let is_end = |cut: &&Cut| cut.byte >= tokens.end;
                let end = cuts[number + 1..].iter().find(is_end).copied()?;
                (tokens, end)
            }
        };
        let sequences = cut.sequence..end.sequence;
        let documents = self.documents_of(cut, end);
        let head = PartHead {
            kind: Kind::Sequences,
            text: 0,
            index: self.index,
            first_sequence: sequences.start,
            sequences: sequences.end - sequences.start,
            first_document: documents.start,
            indices: documents.end - documents.start,
            begin: cut.byte,
            end: end.byte,
            tokens_from: tokens.start,
            tokens: tokens.end - tokens.start,
        };
        let of_index = [
            self.index.sizes(sequences.clone()),
            self.index.pointers(sequences),
            self.index.documents(documents),
        ];
        let of_index = of_index.map(|bytes| PlanRange { of: INDEX, bytes });
        let ranges = of_index.into_iter().chain([tokens.into()]).collect();
        let records = match self.rules.records {
            Records::Sequences => head.sequences,
            Records::Documents => head.indices.saturating_sub(1),
            Records::Tokens { length, .. } => {
                head.tokens / (u64::from(length) * self.index.token_bytes())
            }
        };
        Some(Part { context: head.bytes(), ranges, records: Some(records) })
    }

    /// The document indices that tell the documents of the sequences between two cuts.
    fn documents_of(&self, cut: Cut, end: Cut) -> Range<u64> {
        match (self.rules.records, self.documents) {
            (Records::Sequences | Records::Tokens { .. }, Some(documents)) => {
                let first = documents.partition_point(|first| *first <= cut.sequence);
                let last = documents.partition_point(|first| *first < end.sequence);
                (first as u64).saturating_sub(1)..(last as u64 + 1).min(self.index.indices)
            }
            _ => cut.document..end.document + 1,
        }
    }
}
