//! The directory of a file: its footer, found and checked, with the columns that become fields.

use std::ops::Range;

use pipemill_parsing::paths::WantedPath;
use pipemill_plugin::DecodeError;

use crate::columns::{self, Column};
use crate::footer::{ENCRYPTED, Footer, MAGIC, TAIL};
use crate::part::PartHead;

/// The directory of a file, or of a part of one.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) footer: Footer,
    pub(crate) columns: Vec<Column>,
    /// For each group, the place of the first byte that it and those after it need; then the end.
    pub(crate) needed_from: Vec<u64>,
}

impl Directory {
    /// The directory of a whole file.
    pub(crate) fn of_file(file: &[u8], wanted: Option<&[WantedPath]>) -> Result<Self, DecodeError> {
        let size = file.len() as u64;
        let place = footer_place(&file[file.len().saturating_sub(TAIL)..], size)?;
        let footer = read_footer(&file[place.start as usize..place.end as usize], place.start)?;
        if let Some(gap) = gap(&footer, &place) {
            let at_gap = file.get(start_in(&gap)).unwrap_or_default();
            check_single(at_gap, &file[gap.start as usize..gap.end as usize])?;
        }
        Self::of(footer, wanted, size)
    }

    /// The directory of a part.
    pub(crate) fn of_part(
        head: &PartHead,
        part: &[u8],
        wanted: Option<&[WantedPath]>,
    ) -> Result<Self, DecodeError> {
        let mut footer = read_footer(head.footer(part), part.len() as u64)?;
        let from = head.columns_from() as i64;
        for chunk in footer.groups.iter_mut().flat_map(|group| &mut group.chunks) {
            chunk.data = chunk.data.saturating_add(from);
            chunk.dictionary = chunk.dictionary.map(|at| at.saturating_add(from));
        }
        Self::of(footer, wanted, part.len() as u64)
    }

    /// Finds the columns, and checks that the groups fit the schema and the `size` bytes.
    pub(crate) fn of(
        footer: Footer,
        wanted: Option<&[WantedPath]>,
        size: u64,
    ) -> Result<Self, DecodeError> {
        let refused = |why: String| DecodeError::refused(0, why);
        let columns = columns::columns(&footer.schema, wanted).map_err(refused)?;
        let needed_from = check_groups(&footer, &columns, size)?;
        Ok(Self { footer, columns, needed_from })
    }
}

fn fatal(why: String) -> DecodeError {
    DecodeError::fatal(0, why)
}

/// The place of the footer in a file of `size` bytes that ends with these bytes.
pub(crate) fn footer_place(tail: &[u8], size: u64) -> Result<Range<u64>, DecodeError> {
    let cut = || {
        fatal(format!(
            "expected `PAR1` at the end of a Parquet file of {size} bytes, found something else; the \
             file was cut short, or is still being written"
        ))
    };
    if size < (MAGIC.len() + TAIL) as u64 || tail.len() < TAIL {
        return Err(cut());
    }
    let (length, magic) = tail[tail.len() - TAIL..].split_at(4);
    if magic == ENCRYPTED {
        let why = "the footer of the Parquet file is encrypted; decrypt the file first";
        return Err(DecodeError::refused(0, why));
    }
    if magic != MAGIC {
        return Err(cut());
    }
    let length = length.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
    let end = size - TAIL as u64;
    let at = end.checked_sub(length).filter(|at| *at >= MAGIC.len() as u64);
    let at = at.ok_or_else(|| {
        let most = end - MAGIC.len() as u64;
        fatal(format!("expected a footer of at most {most} bytes, found {length}"))
    })?;
    Ok(at..end)
}

/// Reads a footer, which begins at byte `at` of its file.
pub(crate) fn read_footer(bytes: &[u8], at: u64) -> Result<Footer, DecodeError> {
    let footer = Footer::read(bytes, at).map_err(|what| {
        fatal(format!(
            "expected {} in the footer at {at}, found something else; it is damaged",
            what.0
        ))
    })?;
    if footer.is_encrypted {
        let why = "columns of the Parquet file are encrypted; decrypt the file first";
        return Err(DecodeError::refused(0, why));
    }
    Ok(footer)
}

/// The bytes before the footer of which it says nothing. `None` if there are none.
pub(crate) fn gap(footer: &Footer, place: &Range<u64>) -> Option<Range<u64>> {
    // The pages begin after the first mark.
    let end = footer.end().max(MAGIC.len() as u64);
    (end < place.start).then_some(end..place.start)
}

/// Two marks are here if another file is before this one: places in a footer count from the start
/// of its own file, so all bytes of the other one are in the gap, though not where they lie.
pub(crate) fn start_in(gap: &Range<u64>) -> Range<usize> {
    let other = (gap.end - gap.start) as usize;
    let mark = MAGIC.len();
    other.saturating_sub(mark)..other.saturating_add(mark)
}

/// Checks that no other file is before this one. `at_start` has the bytes at [`start_in`].
pub(crate) fn check_single(at_start: &[u8], gap: &[u8]) -> Result<(), DecodeError> {
    let pair = [MAGIC, MAGIC].concat();
    if at_start == pair || gap.windows(pair.len()).any(|bytes| bytes == pair) {
        let why = "several Parquet files follow each other in this object, and only the last one \
                   can be found; read each file as an object of its own";
        return Err(DecodeError::refused(0, why));
    }
    Ok(())
}

/// Checks that the groups fit the schema and the `size` bytes. Returns [`Directory::needed_from`].
fn check_groups(footer: &Footer, columns: &[Column], size: u64) -> Result<Vec<u64>, DecodeError> {
    let all = footer.schema.iter().skip(1).filter(|node| node.children <= 0).count();
    let mut rows = 0i64;
    let mut needed_from = vec![size];
    for (number, group) in footer.groups.iter().enumerate().rev() {
        let found = group.chunks.len();
        if found != all || group.rows < 0 {
            return Err(fatal(format!(
                "expected {all} columns in row group {number}, found {found} columns of {} rows; the \
                 footer is damaged",
                group.rows
            )));
        }
        rows = rows.saturating_add(group.rows);
        let mut first = *needed_from.last().unwrap_or(&0);
        // A group without rows may have no pages.
        for column in columns.iter().filter(|_| group.rows > 0) {
            let one = &group.chunks[column.number];
            let start = u64::try_from(one.start()).unwrap_or(u64::MAX);
            let end = start.saturating_add(u64::try_from(one.size).unwrap_or(u64::MAX));
            if start < MAGIC.len() as u64 || end > size {
                return Err(fatal(format!(
                    "expected the pages of column `{}` in row group {number} inside of the file of \
                     {size} bytes, found them at {} with {} bytes",
                    column.path,
                    one.start(),
                    one.size
                )));
            }
            first = first.min(start);
        }
        needed_from.push(first);
    }
    // A writer has left the number out.
    if rows != footer.rows && footer.rows != 0 {
        let expected = footer.rows;
        return Err(fatal(format!(
            "the footer says that the file has {expected} rows, and its row groups have {rows}"
        )));
    }
    needed_from.reverse();
    Ok(needed_from)
}
