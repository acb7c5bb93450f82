//! Decodes a part of a dataset: checks its piece of the index, and makes records of its tokens.

use pipemill_plugin::{DecodeError, Level, Records};

use crate::part::PartHead;
use crate::rules::{self, Rules};

/// Bytes of payload after which a call returns.
pub(crate) const CALL_BYTES: usize = 1 << 20;

/// A part that is decoded. Its bytes are the sizes of its sequences, their pointers, document
/// indices and the tokens.
#[derive(Debug)]
pub(crate) struct Sequences {
    head: PartHead,
    /// Bytes of the part that are not consumed.
    left: u64,
    /// Number of tokens of each sequence, as far as they were read.
    sizes: Vec<u32>,
    /// Number of pointers that were read, and the value of the next one.
    pointers: usize,
    pointer: u64,
    /// The document indices, as far as they were read.
    documents: Vec<u64>,
    /// The sequence with the next token, among those of the part, and how many of its tokens were
    /// read.
    sequence: usize,
    tokens: u64,
    /// The document of the next sequence or record, among those of the part.
    document: usize,
    /// Bytes of tokens that are not consumed.
    tokens_left: u64,
    /// The document of each token of a record.
    of_tokens: Vec<u64>,
}

/// How far a call has come.
pub(crate) enum Step {
    /// The part is over.
    Over,
    /// This many bytes are needed.
    Wants(usize),
    /// The rest of the chunk has more records.
    More,
}

/// A number of one of the tables, and the bytes after it.
struct Table<'a> {
    chunk: &'a [u8],
    at: usize,
}

impl Table<'_> {
    fn next<const BYTES: usize>(&mut self) -> Option<[u8; BYTES]> {
        let bytes = *self.chunk.get(self.at..)?.first_chunk()?;
        self.at += BYTES;
        Some(bytes)
    }
}

impl Sequences {
    pub(crate) fn new(head: PartHead) -> Self {
        Self {
            head,
            left: head.rest(),
            sizes: Vec::new(),
            pointers: 0,
            pointer: head.begin,
            documents: Vec::new(),
            sequence: 0,
            tokens: 0,
            document: 0,
            tokens_left: head.tokens,
            of_tokens: Vec::new(),
        }
    }

    /// Decodes the bytes from `at` on. Returns the end of the consumed ones.
    pub(crate) fn decode(
        &mut self,
        rules: Rules,
        chunk: &[u8],
        at: usize,
        end: bool,
        budget: &mut usize,
        out: &mut Records,
    ) -> Result<(usize, Step), DecodeError> {
        let mut table = Table { chunk, at };
        let read = self.read_index(rules, &mut table);
        self.left -= (table.at - at) as u64;
        let at = table.at;
        if let Some(bytes) = read.map_err(|message| self.error(at, message))? {
            return self.wants(chunk, at, end, bytes);
        }
        match rules.records {
            rules::Records::Sequences => self.sequences(chunk, at, end, budget, out),
            rules::Records::Documents => self.documents(chunk, at, end, budget, out),
            rules::Records::Tokens { length, drop_tail } => {
                self.windows(chunk, at, end, (length, drop_tail), budget, out)
            }
        }
    }

    /// More bytes are needed: `bytes` from `at` on.
    fn wants(
        &self,
        chunk: &[u8],
        at: usize,
        end: bool,
        bytes: usize,
    ) -> Result<(usize, Step), DecodeError> {
        if !end {
            return Ok((at, Step::Wants(bytes)));
        }
        let found = chunk.len() - at;
        let message = format!(
            "expected {bytes} more bytes of the plan of the dataset, found its end after {found}"
        );
        Err(DecodeError::fatal(at, message))
    }

    /// An error, after which the next part follows.
    fn error(&self, at: usize, message: String) -> DecodeError {
        DecodeError::skippable(at, message, self.left.saturating_add(at as u64))
    }

    /// Reads and checks the piece of the index. Returns how many bytes are needed, if it is not all
    /// there. The error is a message, at the number that was read last.
    fn read_index(&mut self, rules: Rules, table: &mut Table<'_>) -> Result<Option<usize>, String> {
        let PartHead { index, first_sequence, sequences, first_document, indices, .. } = self.head;
        while (self.sizes.len() as u64) < sequences {
            let Some(bytes) = table.next() else { return Ok(Some(4)) };
            let size = i32::from_le_bytes(bytes);
            let sequence = first_sequence + self.sizes.len() as u64;
            let size = u32::try_from(size).map_err(|_| {
                let place = index.sizes(sequence..sequence).start;
                format!(
                    "sequence {sequence}: expected its number of tokens at byte {place} of the \
                     .idx, found {size}"
                )
            })?;
            self.sizes.push(size);
        }
        while self.pointers < self.sizes.len() {
            let Some(bytes) = table.next() else { return Ok(Some(8)) };
            self.read_pointer(i64::from_le_bytes(bytes))?;
        }
        while (self.documents.len() as u64) < indices {
            let Some(bytes) = table.next() else { return Ok(Some(8)) };
            let found = u64::from_le_bytes(bytes);
            let number = first_document + self.documents.len() as u64;
            self.read_document(rules, number, found)?;
        }
        Ok(None)
    }

    /// Checks the pointer of the next sequence, and after the last one its end.
    fn read_pointer(&mut self, found: i64) -> Result<(), String> {
        let PartHead { index, first_sequence, end, .. } = self.head;
        let sequence = first_sequence + self.pointers as u64;
        let place = index.pointers(sequence..sequence).start;
        if u64::try_from(found) != Ok(self.pointer) {
            let why = match sequence {
                0 => "the start of the .bin",
                _ => "where the sequence before it ends",
            };
            return Err(format!(
                "sequence {sequence}: expected it to begin at byte {} of the .bin, {why}; found \
                 {found} at byte {place} of the .idx",
                self.pointer
            ));
        }
        let bytes = u64::from(self.sizes[self.pointers]) * index.token_bytes();
        self.pointer = self.pointer.saturating_add(bytes);
        self.pointers += 1;
        if self.pointers < self.sizes.len() || self.pointer == end {
            return Ok(());
        }
        let expected = match sequence + 1 == index.sequences {
            true => "the size of the .bin; it is cut short, or the .idx is of another dataset",
            false => "where the next sequence begins",
        };
        let found = self.pointer;
        Err(format!(
            "sequence {sequence}: expected it to end at byte {end} of the .bin, {expected}; its \
             pointer and its number of tokens say byte {found}"
        ))
    }

    /// Checks a document index.
    fn read_document(&mut self, rules: Rules, number: u64, found: u64) -> Result<(), String> {
        let PartHead { index, first_sequence, sequences, indices, .. } = self.head;
        let (first, end) = (first_sequence, first_sequence + sequences);
        let is_last = self.documents.len() as u64 + 1 == indices;
        let expected = match self.documents.last() {
            None if rules.records == rules::Records::Documents => first..=first,
            None => 0..=first,
            Some(before) if is_last && rules.records == rules::Records::Documents => {
                (*before).max(end)..=end
            }
            Some(before) if is_last => (*before).max(end)..=index.sequences,
            Some(before) => *before..=index.sequences,
        };
        if !expected.contains(&found) {
            let place = index.documents(number..number).start;
            let found = found as i64;
            return Err(format!(
                "document index {number}, at byte {place} of the .idx: expected {} to {}, found \
                 {found}",
                expected.start(),
                expected.end()
            ));
        }
        self.documents.push(found);
        Ok(())
    }

    /// Bytes of the next sequence or document, if the chunk has them. A part whose head is wrong may
    /// have fewer tokens than its sequences.
    fn has(&self, chunk: &[u8], at: usize, bytes: u64) -> Result<bool, DecodeError> {
        if bytes > self.tokens_left {
            return Err(DecodeError::fatal(at, "a part of the plan has too few tokens"));
        }
        Ok((chunk.len() - at) as u64 >= bytes)
    }

    /// The number of the document of this sequence, among those of the part.
    fn document_of(&mut self, sequence: usize) -> u64 {
        let sequence = self.head.first_sequence + sequence as u64;
        while self.documents.get(self.document + 1).is_some_and(|next| *next <= sequence) {
            self.document += 1;
        }
        self.head.first_document + self.document as u64
    }

    /// A record was emitted that has these bytes.
    fn advance(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes as u64);
        self.tokens_left -= bytes as u64;
    }

    /// Emits the next bytes of the chunk as a record of a document. Returns the place after them.
    fn emit(
        &mut self,
        at: usize,
        bytes: usize,
        document: u64,
        budget: &mut usize,
        out: &mut Records,
    ) -> usize {
        out.field(at..at + bytes);
        out.u64(document);
        out.end_record(at);
        self.advance(bytes);
        *budget = budget.saturating_sub(8);
        at + bytes
    }

    fn sequences(
        &mut self,
        chunk: &[u8],
        mut at: usize,
        end: bool,
        budget: &mut usize,
        out: &mut Records,
    ) -> Result<(usize, Step), DecodeError> {
        let token = self.head.index.token_bytes();
        while let Some(size) = self.sizes.get(self.sequence).copied() {
            if *budget == 0 {
                return Ok((at, Step::More));
            }
            let bytes = u64::from(size) * token;
            if !self.has(chunk, at, bytes)? {
                return self.wants(chunk, at, end, usize::try_from(bytes).unwrap_or(usize::MAX));
            }
            let document = self.document_of(self.sequence);
            at = self.emit(at, bytes as usize, document, budget, out);
            self.sequence += 1;
        }
        self.over(at)
    }

    fn documents(
        &mut self,
        chunk: &[u8],
        mut at: usize,
        end: bool,
        budget: &mut usize,
        out: &mut Records,
    ) -> Result<(usize, Step), DecodeError> {
        let token = self.head.index.token_bytes();
        while let Some([first, last]) =
            self.documents.get(self.document..).and_then(|it| it.first_chunk())
        {
            if *budget == 0 {
                return Ok((at, Step::More));
            }
            let from = (first - self.head.first_sequence) as usize;
            let to = (last - self.head.first_sequence) as usize;
            let Some(sizes) = self.sizes.get(from..to) else {
                return Err(DecodeError::fatal(at, "a part of the plan has too few sequences"));
            };
            let tokens: u64 = sizes.iter().map(|size| u64::from(*size)).sum();
            let bytes = tokens * token;
            if !self.has(chunk, at, bytes)? {
                return self.wants(chunk, at, end, usize::try_from(bytes).unwrap_or(usize::MAX));
            }
            let document = self.head.first_document + self.document as u64;
            at = self.emit(at, bytes as usize, document, budget, out);
            self.document += 1;
        }
        self.over(at)
    }

    fn windows(
        &mut self,
        chunk: &[u8],
        mut at: usize,
        end: bool,
        (length, drop_tail): (u32, bool),
        budget: &mut usize,
        out: &mut Records,
    ) -> Result<(usize, Step), DecodeError> {
        let token = self.head.index.token_bytes();
        let record = u64::from(length) * token;
        if self.tokens_left == self.head.tokens && self.sequence == 0 && self.tokens == 0 {
            // The first record begins inside of the sequences.
            self.skip((self.head.tokens_from - self.head.begin) / token);
        }
        while self.tokens_left >= record {
            if *budget == 0 {
                return Ok((at, Step::More));
            }
            if !self.has(chunk, at, record)? {
                return self.wants(chunk, at, end, usize::try_from(record).unwrap_or(usize::MAX));
            }
            let mut of_tokens = std::mem::take(&mut self.of_tokens);
            of_tokens.clear();
            self.take(u64::from(length), &mut of_tokens);
            if of_tokens.len() != length as usize {
                return Err(DecodeError::fatal(at, "a part of the plan has too few sequences"));
            }
            let next = at + record as usize;
            out.field(at..next);
            out.u64s(&of_tokens);
            out.end_record(at);
            self.of_tokens = of_tokens;
            self.advance(next - at);
            at = next;
            *budget = budget.saturating_sub(8 * length as usize);
        }
        if self.tokens_left == 0 {
            return self.over(at);
        }
        let (bytes, tokens) = (self.tokens_left as usize, self.tokens_left / token);
        if !drop_tail {
            return Err(DecodeError::fatal(
                at,
                format!(
                    "expected {length} tokens (option `length`), found the end of the .bin after \
                     {tokens}; set tail = \"drop\" to leave them out, or length to a divisor of the \
                     number of tokens"
                ),
            ));
        }
        if !self.has(chunk, at, bytes as u64)? {
            return self.wants(chunk, at, end, bytes);
        }
        let message = format!(
            "the last {tokens} tokens of the object are left out: a record has {length} (option \
             `tail`)"
        );
        out.log(Level::Info, &message);
        self.advance(bytes);
        self.over(at + bytes)
    }

    /// Skips tokens.
    fn skip(&mut self, mut tokens: u64) {
        while let Some(size) = self.sizes.get(self.sequence) {
            let left = u64::from(*size) - self.tokens;
            if tokens < left {
                self.tokens += tokens;
                return;
            }
            tokens -= left;
            (self.sequence, self.tokens) = (self.sequence + 1, 0);
        }
    }

    /// Adds the document of each of the next tokens.
    fn take(&mut self, mut tokens: u64, documents: &mut Vec<u64>) {
        while tokens > 0
            && let Some(size) = self.sizes.get(self.sequence)
        {
            let left = u64::from(*size) - self.tokens;
            let taken = left.min(tokens);
            let document = self.document_of(self.sequence);
            documents.extend(std::iter::repeat_n(document, taken as usize));
            tokens -= taken;
            self.tokens += taken;
            if taken == left {
                (self.sequence, self.tokens) = (self.sequence + 1, 0);
            }
        }
    }

    /// All records of the part were emitted.
    fn over(&self, at: usize) -> Result<(usize, Step), DecodeError> {
        match self.left {
            0 => Ok((at, Step::Over)),
            _ => Err(DecodeError::fatal(at, "a part of the plan has tokens of no sequence")),
        }
    }
}
