//! Reads the values of one column in a group of rows.

use pipemill_parsing::columns::NULL_ELEMENT;
use pipemill_plugin::Records;

use crate::columns::{Column, List};
use crate::footer::Chunk;
use crate::pages::{Input, Pages, Stop};
use crate::rows::Rows;
use crate::values::Converted;

/// Levels that are read at a time, and values whose sizes differ: after them, the bytes are counted.
const LEVELS: usize = 1024;

/// A position in a column's chunk.
#[derive(Debug)]
pub(crate) struct ColumnReader {
    pages: Pages,
    /// The levels of lists that were read and are not used yet, from this one on.
    definition: Vec<u32>,
    repetition: Vec<u32>,
    used: usize,
    list: Option<OpenList>,
    /// Values that come next and are there, of those that are no lists.
    present: usize,
    scratch: Vec<u32>,
    /// The error after the rows that were read.
    stop: Option<Stop>,
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
        Ok(Self {
            pages: Pages::new(chunk)?,
            definition: Vec::new(),
            repetition: Vec::new(),
            used: 0,
            list: column.list.map(|list| OpenList {
                is_open: false,
                is_absent: false,
                has_offsets: list.has_offsets,
                elements: Converted::default(),
            }),
            present: 0,
            scratch: Vec::new(),
            stop: None,
        })
    }

    /// Reads until `rows` has this number of rows, or at least one and this number of bytes, or the
    /// chunk ends, or there is an error, which [`stop`](Self::stop) returns then.
    pub(crate) fn read(
        &mut self,
        column: &Column,
        input: Input,
        out: &mut Records,
        rows: &mut Rows,
        limits: (usize, usize),
    ) {
        if self.stop.is_none() {
            self.stop = self.read_rows(column, input, out, rows, limits).err();
        }
    }

    /// The error after the rows that were read.
    pub(crate) fn stop(&self) -> Option<&Stop> {
        self.stop.as_ref()
    }

    fn read_rows(
        &mut self,
        column: &Column,
        input: Input,
        out: &mut Records,
        rows: &mut Rows,
        (most, most_bytes): (usize, usize),
    ) -> Result<(), Stop> {
        while rows.len() < most && (rows.len() == 0 || rows.byte_count() < most_bytes) {
            let has_more = match column.list {
                None => self.pages.advance(column, input, out)?,
                Some(_) => self.next_levels(column, input, out)?,
            };
            if !has_more {
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
        let has_page = self.pages.page.as_ref().is_some_and(|page| page.left > 0);
        let is_open = self.list.as_ref().is_some_and(|list| list.is_open);
        self.pages.values_left == 0 && !has_page && !is_open && self.used == self.definition.len()
    }

    /// Reads some values that are no lists, of the open page.
    fn flat(&mut self, column: &Column, rows: &mut Rows, most: usize) -> Result<(), Stop> {
        let Pages { page: Some(page), dictionary, .. } = &mut self.pages else { return Ok(()) };
        let most = most - rows.len();
        if self.present == 0 {
            let (level, run) = match &mut page.definition {
                Some(definition) => definition.take_run(&page.bytes, page.left.min(most))?,
                // The only level there is.
                None => (column.present, page.left),
            };
            check_level(level, column)?;
            if level < column.present {
                page.left -= run;
                rows.push_absent(run);
                return Ok(());
            }
            self.present = run;
        }
        let at_once = if column.size().is_some() { most } else { most.min(LEVELS) };
        let count = self.present.min(at_once);
        self.present -= count;
        page.left -= count;
        let (dictionary, scratch) = (dictionary.as_ref(), &mut self.scratch);
        let (bytes, sink) = (&page.bytes, &mut rows.sink());
        let taken = page.values.take(count, bytes, dictionary, column.convert, sink, scratch);
        rows.note_present();
        Ok(taken?)
    }

    /// Reads the next levels of lists. Returns false at the end of the chunk.
    fn next_levels(
        &mut self,
        column: &Column,
        input: Input,
        out: &mut Records,
    ) -> Result<bool, Stop> {
        if self.used < self.definition.len() {
            return Ok(true);
        }
        if !self.pages.advance(column, input, out)? {
            return Ok(false);
        }
        let Some(page) = &mut self.pages.page else { return Ok(false) };
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
        self.definition.iter().try_for_each(|level| check_level(*level, column))?;
        page.left -= count;
        Ok(true)
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
            let Some(list) = &mut self.list else { return Ok(()) };
            if repetition == 0 {
                (list.is_open, list.is_absent) = (true, definition < form.empty);
                list.elements.bytes.clear();
                list.elements.ends.clear();
            } else if !list.is_open || definition <= form.empty {
                return Err("expected the start of a row, found the rest of a list"
                    .to_owned()
                    .into());
            }
            if definition <= form.empty {
                self.used += 1;
                continue;
            }
            if definition < column.present {
                return Err(NULL_ELEMENT.to_owned().into());
            }
            self.elements(column, form, rows)?;
        }
        Ok(())
    }

    /// Reads the next elements of the open list.
    fn elements(&mut self, column: &Column, form: List, rows: &mut Rows) -> Result<(), Stop> {
        let Pages { page: Some(page), dictionary, .. } = &mut self.pages else { return Ok(()) };
        let Some(list) = &mut self.list else { return Ok(()) };
        let next = self.used + 1;
        let levels = self.definition[next..].iter().zip(&self.repetition[next..]);
        let count = 1 + levels.take_while(|levels| *levels == (&column.present, &1)).count();
        self.used += count;
        let mut sink = if form.has_offsets { list.elements.sink() } else { rows.sink() };
        if !form.has_offsets {
            // The row ends later.
            sink.ends = None;
        }
        let (dictionary, scratch) = (dictionary.as_ref(), &mut self.scratch);
        let bytes = &page.bytes;
        Ok(page.values.take(count, bytes, dictionary, column.convert, &mut sink, scratch)?)
    }

    /// Ends the row of the open list.
    fn end_list(&mut self, rows: &mut Rows) {
        let Some(list) = self.list.as_mut().filter(|list| list.is_open) else { return };
        list.is_open = false;
        if list.is_absent {
            return rows.push_absent(1);
        }
        let mut sink = rows.sink();
        if list.has_offsets {
            list.elements.append_as_list(sink.bytes);
        }
        sink.end_value();
        rows.note_present();
    }
}

fn check_level(level: u32, column: &Column) -> Result<(), Stop> {
    let most = column.present;
    if level <= most {
        return Ok(());
    }
    Err(format!("expected levels up to {most}, found {level}").into())
}
