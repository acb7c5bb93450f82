//! Reads the values of one column in a group of rows, page by page.

use std::ops::Range;

use pipemill_parsing::columns::NULL_ELEMENT;
use pipemill_plugin::{Codec, Records, pack};

use crate::columns::{Column, List};
use crate::footer::Chunk;
use crate::hybrid::Hybrid;
use crate::page_header::{PageForm, PageHeader};
use crate::values::{Converted, Values, encoding_name, plain, sized};

/// Levels that are read at a time.
const LEVELS: usize = 1024;

/// An error in a column.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The bytes are damaged.
    Bad(String),
    /// The decoder does not support them.
    Refused(String),
}

impl From<String> for Stop {
    fn from(message: String) -> Self {
        Self::Bad(message)
    }
}

/// The bytes of the object that a call has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a> {
    pub(crate) chunk: &'a [u8],
    /// The place of its first byte in the object.
    pub(crate) base: u64,
    pub(crate) verify: bool,
}

/// The rows of a column that are read and not emitted yet.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    values: Converted,
    absent: Vec<bool>,
    /// The next row.
    first: usize,
}

impl Rows {
    pub(crate) fn len(&self) -> usize {
        self.values.ends.len() - self.first
    }

    pub(crate) fn bytes(&self) -> usize {
        self.values.bytes.len()
    }

    /// A row's value; `None` if it is absent.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<&[u8]> {
        let at = self.first + row;
        if self.absent.get(at) == Some(&true) { None } else { self.values.get(at) }
    }

    /// Forgets the first rows.
    pub(crate) fn drop_first(&mut self, rows: usize) {
        self.first += rows;
        if self.first == self.values.ends.len() {
            self.values.bytes.clear();
            self.values.ends.clear();
            self.absent.clear();
            self.first = 0;
        } else if self.first > self.values.ends.len() / 2 {
            let from = self.values.ends[self.first - 1];
            self.values.bytes.drain(..from as usize);
            self.values.ends.drain(..self.first);
            self.values.ends.iter_mut().for_each(|end| *end -= from);
            self.absent.drain(..self.first.min(self.absent.len()));
            self.first = 0;
        }
    }

    fn push_absent(&mut self) {
        self.absent.resize(self.values.ends.len(), false);
        self.absent.push(true);
        self.values.ends.push(self.values.bytes.len() as u32);
    }
}

/// A position in a column's chunk.
#[derive(Debug)]
pub(crate) struct ColumnReader {
    /// The pages that are left, in the object.
    left: Range<u64>,
    codec: i32,
    /// Values and absent ones that are left in all.
    values_left: u64,
    dictionary: Option<Converted>,
    page: Option<Page>,
    /// The levels that were read and are not used yet, from this one on.
    definition: Vec<u32>,
    repetition: Vec<u32>,
    used: usize,
    list: Option<OpenList>,
    scratch: Vec<u32>,
}

/// A page that is being read.
#[derive(Debug)]
struct Page {
    bytes: Vec<u8>,
    definition: Option<Hybrid>,
    repetition: Option<Hybrid>,
    values: Values,
    /// Levels that are left.
    left: usize,
}

/// The list of a row that may go on.
#[derive(Debug)]
struct OpenList {
    is_open: bool,
    is_absent: bool,
    /// Whether its value begins with the offsets of its elements, which are bytes or text. They are
    /// gathered here until it ends. Other elements are in the rows already.
    has_offsets: bool,
    elements: Converted,
}

impl ColumnReader {
    /// A reader of these pages. The error says what is wrong with the chunk.
    pub(crate) fn new(chunk: &Chunk, column: &Column) -> Result<Self, Stop> {
        if chunk.is_elsewhere {
            let why = "its pages are in another file, and each file is decoded by itself";
            return Err(Stop::Refused(why.to_owned()));
        }
        if chunk.is_encrypted {
            return Err(Stop::Refused("it is encrypted; decrypt the file first".to_owned()));
        }
        let place = |from: i64| u64::try_from(from).ok();
        let (start, size) = (place(chunk.start()), place(chunk.size));
        let range = start.zip(size).and_then(|(start, size)| Some(start..start.checked_add(size)?));
        let left = range.ok_or_else(|| "the footer gives it no place in the file".to_owned())?;
        Ok(Self {
            left,
            codec: chunk.codec,
            values_left: u64::try_from(chunk.values).unwrap_or(0),
            dictionary: None,
            page: None,
            definition: Vec::new(),
            repetition: Vec::new(),
            used: 0,
            list: column.list.map(|list| OpenList {
                is_open: false,
                is_absent: false,
                has_offsets: list.has_offsets,
                elements: Converted::default(),
            }),
            scratch: Vec::new(),
        })
    }

    /// Reads until `rows` has this number of rows, or this number of bytes, or the chunk ends.
    pub(crate) fn read(
        &mut self,
        column: &Column,
        input: Input,
        out: &mut Records,
        rows: &mut Rows,
        (most, most_bytes): (usize, usize),
    ) -> Result<(), Stop> {
        while rows.len() < most && rows.bytes() < most_bytes {
            if self.used == self.definition.len() && !self.next_levels(column, input, out)? {
                self.end_list(rows);
                return Ok(());
            }
            match column.list {
                None => self.flat(column, rows, most)?,
                Some(list) => self.lists(column, list, rows, most)?,
            }
        }
        Ok(())
    }

    /// Whether all of the chunk's values were read.
    pub(crate) fn is_at_end(&self) -> bool {
        let has_page = self.page.as_ref().is_some_and(|page| page.left > 0);
        let is_open = self.list.as_ref().is_some_and(|list| list.is_open);
        self.values_left == 0 && !has_page && !is_open && self.used == self.definition.len()
    }

    /// Reads the next levels. Returns false at the end of the chunk.
    fn next_levels(
        &mut self,
        column: &Column,
        input: Input,
        out: &mut Records,
    ) -> Result<bool, Stop> {
        while self.page.as_ref().is_none_or(|page| page.left == 0) {
            self.page = None;
            if self.values_left == 0 {
                return Ok(false);
            }
            self.next_page(column, input, out)?;
        }
        let Some(page) = &mut self.page else { return Ok(false) };
        let count = page.left.min(LEVELS);
        self.definition.clear();
        self.repetition.clear();
        self.used = 0;
        for (levels, out) in [
            (&mut page.definition, &mut self.definition),
            (&mut page.repetition, &mut self.repetition),
        ] {
            match levels {
                Some(levels) => levels.take(&page.bytes, count, out)?,
                // The only level there is.
                None => out.resize(count, 0),
            }
        }
        let most = column.present;
        if let Some(level) = self.definition.iter().find(|level| **level > most) {
            return Err(format!("expected levels up to {most}, found {level}").into());
        }
        page.left -= count;
        Ok(true)
    }

    /// Values that are no lists.
    fn flat(&mut self, column: &Column, rows: &mut Rows, most: usize) -> Result<(), Stop> {
        let Some(page) = &mut self.page else { return Ok(()) };
        let mut levels = &self.definition[self.used..];
        levels = &levels[..levels.len().min(most - rows.len())];
        self.used += levels.len();
        while !levels.is_empty() {
            let run = levels.iter().take_while(|level| **level == column.present).count();
            if run > 0 {
                let (values, dictionary) = (&mut page.values, self.dictionary.as_ref());
                let (out, scratch) = (&mut rows.values, &mut self.scratch);
                values.take(run, &page.bytes, dictionary, column.convert, out, scratch)?;
            }
            levels = &levels[run..];
            let absent = levels.iter().take_while(|level| **level != column.present).count();
            (0..absent).for_each(|_| rows.push_absent());
            levels = &levels[absent..];
        }
        Ok(())
    }

    /// Lists: a row begins where the repetition level is 0.
    fn lists(
        &mut self,
        column: &Column,
        form: List,
        rows: &mut Rows,
        most: usize,
    ) -> Result<(), Stop> {
        while self.used < self.definition.len() {
            let (definition, repetition) = (self.definition[self.used], self.repetition[self.used]);
            if repetition == 0 {
                self.end_list(rows);
                if rows.len() >= most {
                    return Ok(());
                }
            }
            let (Some(page), Some(list)) = (&mut self.page, &mut self.list) else { return Ok(()) };
            if repetition == 0 {
                (list.is_open, list.is_absent) = (true, definition < form.empty);
                list.elements.bytes.clear();
                list.elements.ends.clear();
            } else if !list.is_open || definition <= form.empty {
                return Err("expected the start of a row, found the rest of a list"
                    .to_owned()
                    .into());
            }
            self.used += 1;
            if definition <= form.empty {
                continue;
            }
            if definition < column.present {
                return Err(NULL_ELEMENT.to_owned().into());
            }
            let out = if form.has_offsets { &mut list.elements } else { &mut rows.values };
            let ends = out.ends.len();
            let (values, dictionary) = (&mut page.values, self.dictionary.as_ref());
            values.take(1, &page.bytes, dictionary, column.convert, out, &mut self.scratch)?;
            if !form.has_offsets {
                out.ends.truncate(ends);
            }
        }
        Ok(())
    }

    /// Ends the row of the open list.
    fn end_list(&mut self, rows: &mut Rows) {
        let Some(list) = self.list.as_mut().filter(|list| list.is_open) else { return };
        list.is_open = false;
        if list.is_absent {
            return rows.push_absent();
        }
        if list.has_offsets {
            list.elements.append_as_list(&mut rows.values.bytes);
        }
        rows.values.ends.push(rows.values.bytes.len() as u32);
    }

    /// Reads the next page. A dictionary is kept.
    fn next_page(&mut self, column: &Column, input: Input, out: &mut Records) -> Result<(), Stop> {
        let (header, body) = self.next_body(input, out)?;
        match header.form {
            PageForm::Other => Ok(()),
            PageForm::Dictionary => self.read_dictionary(column, input, &header, body, out),
            PageForm::Data { definition, repetition } => {
                self.begin(&header)?;
                let bytes = self.decompressed(input, body, header.size, out)?;
                self.open_data(column, &header, bytes, (definition, repetition))
            }
            PageForm::Data2 { definition, repetition, is_compressed } => {
                self.begin(&header)?;
                let (repetition, definition) = (repetition as usize, definition as usize);
                let at = repetition + definition;
                if at > body.len() || at > header.size as usize {
                    return Err("its levels are cut short".to_owned().into());
                }
                let mut bytes = input.chunk[body.start..body.start + at].to_vec();
                let values = body.start + at..body.end;
                let size = header.size - at as i32;
                match is_compressed && size > 0 {
                    true => bytes.extend(self.decompressed(input, values, size, out)?),
                    false => bytes.extend_from_slice(&input.chunk[values]),
                }
                let levels = |range: Range<usize>, most: u32| match most {
                    0 => Ok(None),
                    _ => Hybrid::new(range, Hybrid::width_of(most)).map(Some),
                };
                let list = u32::from(column.list.is_some());
                let levels =
                    (levels(repetition..at, column.present)?, levels(0..repetition, list)?);
                self.open(column, &header, bytes, at, levels)
            }
        }
    }

    /// The header of the next page, and the place of its body in the chunk.
    fn next_body(
        &mut self,
        input: Input,
        out: &mut Records,
    ) -> Result<(PageHeader, Range<usize>), Stop> {
        let at = self.left.start.checked_sub(input.base).and_then(|at| usize::try_from(at).ok());
        let end = self.left.end.saturating_sub(input.base).min(input.chunk.len() as u64) as usize;
        let head = at.and_then(|at| input.chunk.get(at..end)).filter(|bytes| !bytes.is_empty());
        let (Some(at), Some(head)) = (at, head) else {
            return Err(format!(
                "expected {} more values, found the end of its pages",
                self.values_left
            )
            .into());
        };
        let (header, size) = PageHeader::read(head).map_err(|what| {
            format!("expected {} in the header of a page, found something else", what.0)
        })?;
        let body = at + size..at + size + header.stored as usize;
        if body.end > end {
            let (most, found) = (end - body.start, header.stored);
            return Err(format!("expected a page of at most {most} bytes, found {found}").into());
        }
        self.left.start = input.base + body.end as u64;
        if let Some(crc) = header.crc.filter(|_| input.verify)
            && out.check_crc32(&[pack(body.clone())], &[crc as u32]).is_some()
        {
            let expected = format!("expected a page with the CRC-32 {:08x}", crc as u32);
            return Err(format!("{expected}, found another one; it is damaged").into());
        }
        Ok((header, body))
    }

    /// Opens a page of version 1, whose levels are before the values, with these encodings.
    fn open_data(
        &mut self,
        column: &Column,
        header: &PageHeader,
        bytes: Vec<u8>,
        (definition, repetition): (i32, i32),
    ) -> Result<(), Stop> {
        let mut at = 0;
        let mut levels = |encoding: i32, most: u32| match most {
            0 => Ok(None),
            _ if encoding != 3 => Err(Stop::Refused(format!(
                "its levels have the encoding {}, which is not supported; write the file again \
                 with a newer library",
                encoding_name(encoding)
            ))),
            _ => {
                let size = sized(&bytes, at).ok_or("its levels are cut short".to_owned())?.len();
                let range = at + 4..at + 4 + size;
                at = range.end;
                Ok(Some(Hybrid::new(range, Hybrid::width_of(most))?))
            }
        };
        let repetition = levels(repetition, u32::from(column.list.is_some()))?;
        let definition = levels(definition, column.present)?;
        self.open(column, header, bytes, at, (definition, repetition))
    }

    /// Counts the values of a page.
    fn begin(&mut self, header: &PageHeader) -> Result<(), Stop> {
        let (left, found) = (self.values_left, header.values);
        self.values_left = left
            .checked_sub(found as u64)
            .ok_or_else(|| format!("expected a page of at most {left} values, found {found}"))?;
        Ok(())
    }

    fn open(
        &mut self,
        column: &Column,
        header: &PageHeader,
        bytes: Vec<u8>,
        at: usize,
        (definition, repetition): (Option<Hybrid>, Option<Hybrid>),
    ) -> Result<(), Stop> {
        let (encoding, most) = (header.encoding, header.values as u64);
        let values = Values::new(encoding, column.physical, &bytes, at..bytes.len(), most);
        let values = values.ok_or_else(|| {
            Stop::Refused(format!(
                "its values have the encoding {}, which is not supported for them",
                encoding_name(encoding)
            ))
        })??;
        let left = header.values as usize;
        self.page = Some(Page { bytes, definition, repetition, values, left });
        Ok(())
    }

    fn read_dictionary(
        &mut self,
        column: &Column,
        input: Input,
        header: &PageHeader,
        body: Range<usize>,
        out: &mut Records,
    ) -> Result<(), Stop> {
        if !matches!(header.encoding, 0 | 2) {
            let name = encoding_name(header.encoding);
            return Err(Stop::Refused(format!("its dictionary has the encoding {name}")));
        }
        let bytes = self.decompressed(input, body, header.size, out)?;
        let (mut dictionary, count) = (Converted::default(), header.values as usize);
        let mut values = plain(0, column.physical);
        let scratch = &mut self.scratch;
        values.take(count, &bytes, None, column.convert, &mut dictionary, scratch)?;
        self.dictionary = Some(dictionary);
        Ok(())
    }

    /// The bytes of a page, which must be `size`.
    fn decompressed(
        &self,
        input: Input,
        stored: Range<usize>,
        size: i32,
        out: &mut Records,
    ) -> Result<Vec<u8>, Stop> {
        let codec = match self.codec {
            0 => None,
            1 => Some(Codec::Snappy),
            2 => Some(Codec::Gzip),
            4 => Some(Codec::Brotli),
            5 | 7 => Some(Codec::Lz4Block),
            6 => Some(Codec::Zstd),
            other => {
                let name = if other == 3 { "LZO" } else { "an unknown codec" };
                return Err(Stop::Refused(format!(
                    "it is compressed with {name}; supported are SNAPPY, GZIP, ZSTD, LZ4 and \
                     BROTLI: write the file again with one of them"
                )));
            }
        };
        let mut bytes = Vec::new();
        match codec {
            None => bytes.extend_from_slice(&input.chunk[stored]),
            Some(codec) => {
                let blocks = match self.codec {
                    5 => hadoop_blocks(input.chunk, stored, size),
                    _ => vec![stored],
                };
                for block in blocks {
                    let block = out.decompress(codec, block)?;
                    if !block.last {
                        return Err(format!(
                            "a page has {size} bytes, more than one call may produce; raise \
                             limits.output"
                        )
                        .into());
                    }
                    bytes.extend_from_slice(&block.bytes);
                }
            }
        }
        if bytes.len() != size as usize {
            let found = bytes.len();
            return Err(format!("expected a page of {size} bytes, found {found}").into());
        }
        Ok(bytes)
    }
}

/// The LZ4 blocks of a page of the older kind `LZ4`. Hadoop wrote before each block its size before
/// and after it was compressed, other writers wrote one block and nothing else.
fn hadoop_blocks(chunk: &[u8], page: Range<usize>, size: i32) -> Vec<Range<usize>> {
    let (mut blocks, mut at, mut bytes) = (Vec::new(), page.start, 0u64);
    let number = |at: usize| {
        let bytes = chunk.get(at..page.end.min(at + 4))?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    while let (Some(whole), Some(stored)) = (number(at), number(at + 4)) {
        let block = at + 8..(at + 8).saturating_add(stored as usize);
        if block.end > page.end {
            break;
        }
        bytes += u64::from(whole);
        at = block.end;
        blocks.push(block);
    }
    let is_hadoop = at == page.end && bytes == size as u64;
    if is_hadoop { blocks } else { vec![page] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_hadoop_are_found_and_others_are_one_block() {
        let block = |whole: u32, stored: &[u8]| {
            [&whole.to_be_bytes()[..], &(stored.len() as u32).to_be_bytes(), stored].concat()
        };
        let page = [&[9; 3], &block(10, b"abc")[..], &block(7, b"defgh")].concat();
        assert_eq!(hadoop_blocks(&page, 3..page.len(), 17), [11..14, 22..27]);
        // Another size, or bytes that are left.
        let assert_whole = |page: &[u8], block: Range<usize>, size| {
            assert_eq!(hadoop_blocks(page, block.clone(), size), vec![block]);
        };
        assert_whole(&page, 3..page.len(), 18);
        assert_whole(&page, 3..page.len() - 1, 17);
        for page in [&b""[..], b"abc", &[0xff; 40]] {
            assert_whole(page, 0..page.len(), 40);
        }
    }
}
