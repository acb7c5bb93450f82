//! The rows of a stored array: spans of the chunk.

use pipemill_parsing::npy::{ArrayBytes, ReadHeader, read_header};
use pipemill_plugin::{DecodeError, Records};

use crate::crc32::Crc32;
use crate::errors::{cut_short, of_member, wrong_crc};
use crate::member::{Member, MemberError, Tail, header_error, read_tail, whole_size};
use crate::state::{Npz, State, Step, StoredRows, more_bytes, wants};
use crate::zip::Sizes;

impl Npz {
    /// Begins to read the rows of a stored array.
    pub(crate) fn begin_rows(
        &mut self,
        member: &Member,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Step, DecodeError> {
        let (at, held) = (member.at, chunk.len() - member.at);
        // If its size is not known yet, it follows from the array's header.
        let known = (!member.header.is_streamed()).then(|| member.sizes().compressed);
        let data = &chunk[member.data..];
        let own = known.map_or(data.len(), |size| size.min(data.len() as u64) as usize);
        let header = match read_header(&data[..own]) {
            Ok(ReadHeader::Whole(header)) => header,
            Ok(ReadHeader::Cut { need }) if known.is_some_and(|size| size < need as u64) => {
                let size = known.unwrap_or_default();
                let why = format!(
                    "expected an array, whose header has at least {need} bytes, found {size} bytes"
                );
                return Err(self.skip_bad(member, size, &why));
            }
            Ok(ReadHeader::Cut { need }) => {
                let need = member.header.size + need;
                return more_bytes(at, need, "the header of an array", held, end);
            }
            Err(error) => {
                return match (header_error(error), known) {
                    (MemberError::Refused(why), _) => {
                        Err(DecodeError::refused(at, of_member(&member.name, &why)))
                    }
                    (MemberError::Damaged(why), Some(size)) => {
                        Err(self.skip_bad(member, size, &why))
                    }
                    (MemberError::Damaged(why), None) => {
                        self.archive = None;
                        Err(DecodeError::fatal(at, of_member(&member.name, &why)))
                    }
                };
            }
        };
        // Python objects have no size, and are refused.
        let size = known.or(whole_size(&header)).unwrap_or_default();
        let layout = match self.layout(member, &header, size, out) {
            Ok(layout) => layout,
            Err(MemberError::Damaged(why)) => return Err(self.skip_bad(member, size, &why)),
            Err(MemberError::Refused(why)) => {
                return Err(DecodeError::refused(at, of_member(&member.name, &why)));
            }
        };
        let first = member.data + header.size;
        if layout.records > 0 && chunk.len() == first {
            let expected = format!("{} rows of an array", layout.records);
            return more_bytes(at, held + 1, &expected, 0, end);
        }
        let mut crc = self.verify.then(Crc32::new);
        if let Some(crc) = &mut crc {
            crc.update(&data[..header.size]);
        }
        // The value fits: max_record does.
        let (left, row) = (layout.records, layout.record as usize);
        let (sizes, descriptor) = (member.sizes(), member.descriptor());
        let rows = StoredRows {
            name: member.name.clone(),
            layout,
            left,
            row,
            size,
            crc,
            sizes,
            descriptor,
        };
        if left == 0 {
            let (size, sizes) = match read_tail(&chunk[first..], descriptor, sizes) {
                Tail::Whole(size, sizes) => (size, sizes),
                Tail::Cut { need } => {
                    return more_bytes(at, first - at + need, "what follows an array", held, end);
                }
            };
            self.begin(member);
            if let Err(why) = rows.check(sizes) {
                out.bad(at..first + size, of_member(&member.name, &why))?;
            }
            return Ok(Step::GoOn(first + size));
        }
        self.begin(member);
        self.state = State::Rows(Box::new(rows));
        Ok(Step::GoOn(first))
    }

    /// Emits the rows that are in the chunk from `at` on.
    pub(crate) fn stored_rows(
        &mut self,
        mut rows: Box<StoredRows>,
        chunk: &[u8],
        at: usize,
        end: bool,
        out: &mut Records,
    ) -> Result<Step, DecodeError> {
        let row = rows.row;
        let held = chunk.len() - at;
        // The last row is emitted when the member was checked, and another row when the byte after
        // it has arrived.
        let count = ((held.saturating_sub(1) / row) as u64).min(rows.left - 1);
        // The value fits: the rows are in the chunk.
        let last = at + count as usize * row;
        rows.emit(chunk, at..last, out)?;
        let need = if rows.left > 1 {
            row + 1
        } else if chunk.len() - last < row {
            row + rows.descriptor.map_or(1, |_| crate::zip::SIGNATURE)
        } else {
            match read_tail(&chunk[last + row..], rows.descriptor, rows.sizes) {
                Tail::Cut { need } => row + need,
                Tail::Whole(size, sizes) => {
                    let next = last + row + size;
                    if let Some(crc) = &mut rows.crc {
                        crc.update(&chunk[last..last + row]);
                    }
                    match rows.check(sizes) {
                        Ok(()) => rows.emit_one(chunk, last, out)?,
                        Err(why) => out.bad(last..next, of_member(&rows.name, &why))?,
                    }
                    return Ok(Step::GoOn(next));
                }
            }
        };
        if end {
            let expected = format!(
                "{} more rows of {row} bytes and what follows the array `{}`",
                rows.left,
                rows.name.escape_debug()
            );
            self.archive = None;
            return Err(cut_short(last, &expected, chunk.len() - last));
        }
        self.state = State::Rows(rows);
        Ok(wants(last, need))
    }
}

impl StoredRows {
    /// Emits the rows in this range of the chunk, none of which is the last one.
    fn emit(
        &mut self,
        chunk: &[u8],
        range: std::ops::Range<usize>,
        out: &mut Records,
    ) -> Result<(), DecodeError> {
        if let Some(crc) = &mut self.crc {
            crc.update(&chunk[range.clone()]);
        }
        let starts = range.step_by(self.row);
        if self.layout.is_one_span() {
            self.left -= starts.len() as u64;
            starts.for_each(|start| out.span(start, start..start + self.row));
            return Ok(());
        }
        for start in starts {
            self.emit_one(chunk, start, out)?;
            self.left -= 1;
        }
        Ok(())
    }

    fn emit_one(&self, chunk: &[u8], start: usize, out: &mut Records) -> Result<(), DecodeError> {
        match self.layout.add_fields(ArrayBytes::Chunk(chunk), start, out) {
            Ok(()) => {
                out.end_record(start);
                Ok(())
            }
            Err(error) => {
                let row = self.layout.records - self.left;
                let why = format!("row {row}: {}", self.layout.describe(error));
                out.bad(start..start + self.row, of_member(&self.name, &why))
            }
        }
    }

    /// Compares the member, which was read completely, with its checksum and sizes.
    fn check(&self, sizes: Sizes) -> Result<(), String> {
        let Sizes { crc32, compressed, plain } = sizes;
        if (compressed, plain) != (self.size, self.size) {
            return Err(format!(
                "expected sizes of {} bytes after the data, found {compressed} and {plain}",
                self.size
            ));
        }
        match self.crc.map(Crc32::value) {
            Some(found) if found != crc32 => {
                Err(wrong_crc(crc32, found, "this row or rows before it are damaged"))
            }
            _ => Ok(()),
        }
    }
}
