//! The pages of one column in a group of rows.

use std::ops::Range;

use pipemill_plugin::{Codec, Records, pack};

use crate::columns::Column;
use crate::footer::Chunk;
use crate::hybrid::Hybrid;
use crate::page_header::{PageForm, PageHeader};
use crate::values::{Converted, Values, encoding_name, plain, sized};

/// Most bytes of a page. Twice as many could not be addressed, to which a growing buffer may grow.
const MAX_PAGE: i32 = 1 << 30;

/// An error in a column.
#[derive(Debug, Clone)]
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

/// A position in the pages of a column's chunk.
#[derive(Debug)]
pub(crate) struct Pages {
    /// The pages that are left, in the object.
    left: Range<u64>,
    codec: i32,
    /// Values and absent ones that are left in all.
    pub(crate) values_left: u64,
    pub(crate) dictionary: Option<Converted>,
    pub(crate) page: Option<Page>,
}

/// A page that is being read.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) bytes: Vec<u8>,
    pub(crate) definition: Option<Hybrid>,
    pub(crate) repetition: Option<Hybrid>,
    pub(crate) values: Values,
    /// Levels that are left.
    pub(crate) left: usize,
}

impl Pages {
    /// The pages of this chunk. The error says what is wrong with it.
    pub(crate) fn new(chunk: &Chunk) -> Result<Self, Stop> {
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
        let values_left = u64::try_from(chunk.values).unwrap_or(0);
        Ok(Self { left, codec: chunk.codec, values_left, dictionary: None, page: None })
    }

    /// Opens the next page that has values, unless one is open. Returns false at the end of the
    /// chunk.
    pub(crate) fn advance(
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
        Ok(true)
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
        let count = header.values as usize;
        let mut dictionary = Converted { size: column.element_size(), ..Converted::default() };
        let mut values = plain(0, column.physical);
        let (sink, scratch) = (&mut dictionary.sink(), &mut Vec::new());
        values.take(count, &bytes, None, column.convert, sink, scratch)?;
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
        if size > MAX_PAGE {
            return Err(Stop::Refused(format!(
                "a page has {size} bytes, and {MAX_PAGE} are possible; write the file again with \
                 smaller pages"
            )));
        }
        match codec {
            None => bytes.extend_from_slice(&input.chunk[stored]),
            Some(codec) => {
                let blocks = match self.codec {
                    5 => hadoop_blocks(input.chunk, stored, size),
                    _ => vec![stored],
                };
                for block in blocks {
                    // One byte more shows that it is too long.
                    let most = (size as usize).saturating_sub(bytes.len()) + 1;
                    let (read, is_whole) = out.read_block(codec, block, most)?;
                    if !is_whole && read.len() < most {
                        return Err(format!(
                            "a page has {size} bytes, more than one call may produce; raise \
                             limits.output"
                        )
                        .into());
                    }
                    match bytes.is_empty() {
                        true => bytes = read,
                        false => bytes.extend_from_slice(&read),
                    }
                }
            }
        }
        if bytes.len() != size as usize {
            let found = match bytes.len() {
                more if more > size as usize => "more".to_owned(),
                fewer => fewer.to_string(),
            };
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
