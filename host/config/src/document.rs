//! The state of one pass over the file: line starts, environment variables, and the faults so far.

use std::cell::{OnceCell, RefCell};

use toml::de::DeTable;

use super::fault::{Fault, TextPosition};
use super::presets::{Presets, Rank};
use super::values::Invalid;
use super::vars;

/// Proof that a fault was recorded: only [`Document::report`] makes one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reported(());

/// A value, or the proof that its fault was recorded.
pub(super) type ReadResult<T> = Result<T, Reported>;

/// The purpose of the channels.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The channels are decoded: each needs a decoder, and files are read for one epoch by default.
    Run,
    /// The channels are fed through FIFOs: no decoder is needed, and epochs have no end by default.
    Feed,
}

/// The file.
pub(super) struct Document<'a> {
    file: &'a str,
    lines: LineIndex<'a>,
    env: &'a dyn Fn(&str) -> Option<String>,
    faults: RefCell<Vec<Fault>>,
    purpose: Purpose,
    presets: &'a Presets,
    /// Set after the table `[rank]` was read.
    rank: OnceCell<Result<Rank, String>>,
    /// Used for each table that the file leaves out.
    empty: DeTable<'a>,
}

impl<'a> Document<'a> {
    pub(super) fn new(
        text: &'a str,
        file: &'a str,
        env: &'a dyn Fn(&str) -> Option<String>,
        purpose: Purpose,
        presets: &'a Presets,
    ) -> Document<'a> {
        let (lines, faults) = (LineIndex::of(text), RefCell::default());
        let (rank, empty) = (OnceCell::new(), DeTable::new());
        Document { file, lines, env, faults, purpose, presets, rank, empty }
    }

    /// The value of an environment variable. An empty variable counts as not set.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        (self.env)(name).filter(|value| !value.trim().is_empty())
    }

    /// Keeps the rank for [`Document::rank`]. Call it once.
    pub(super) fn set_rank(&self, rank: Result<Rank, String>) {
        // It fails only if the rank is set already, and it is read once.
        let _ = self.rank.set(rank);
    }

    /// The rank of this process, or why it is not known.
    pub(super) fn rank(&self) -> Result<Rank, String> {
        self.rank.get().cloned().unwrap_or_else(|| Err("its table [rank] is wrong".to_owned()))
    }

    pub(super) fn presets(&self) -> &'a Presets {
        self.presets
    }

    pub(super) fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// Records a fault at the byte offset `at`.
    pub(super) fn report(
        &self,
        at: usize,
        channel: Option<&str>,
        path: String,
        fault: Invalid,
    ) -> Reported {
        let Invalid { message, remedy } = fault;
        self.faults.borrow_mut().push(Fault {
            file: self.file.to_owned(),
            place: self.lines.place(at),
            channel: channel.map(str::to_owned),
            path,
            message,
            remedy: Some(remedy).filter(|remedy| !remedy.is_empty()),
        });
        Reported(())
    }

    /// The text with its variables replaced.
    ///
    /// # Errors
    /// At least one fault: see [`vars::expand`].
    pub(super) fn expand(&self, text: &str) -> Result<String, Vec<Invalid>> {
        vars::expand(text, self.env)
    }

    /// The line and column of a byte offset.
    pub(super) fn place(&self, at: usize) -> TextPosition {
        self.lines.place(at)
    }

    pub(super) fn file(&self) -> &str {
        self.file
    }

    /// A table without keys: it stands for a table that the file leaves out.
    pub(super) fn empty(&self) -> &DeTable<'a> {
        &self.empty
    }

    /// All faults, in the order of the file.
    pub(super) fn into_faults(self) -> Vec<Fault> {
        let mut faults = self.faults.into_inner();
        faults.sort_by_key(|fault| fault.place);
        faults
    }
}

/// Converts a byte offset to line and column.
struct LineIndex<'a> {
    text: &'a str,
    /// Byte offset of the start of each line.
    starts: Vec<usize>,
}

impl<'a> LineIndex<'a> {
    fn of(text: &'a str) -> LineIndex<'a> {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        LineIndex { text, starts: std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect() }
    }

    /// The place of a byte offset. An offset after the end of the text counts as the end.
    fn place(&self, at: usize) -> TextPosition {
        let at = self.text.floor_char_boundary(at);
        let line = self.starts.partition_point(|start| *start <= at);
        let column = self.text[self.starts[line - 1]..at].chars().count() + 1;
        TextPosition { line, column }
    }
}
