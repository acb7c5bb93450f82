//! The file as a whole while it is read: where things are in it, the variables around it, and what
//! is wrong with it so far.

use std::cell::{OnceCell, RefCell};

use toml::de::DeTable;

use super::Presets;
use super::fault::{Fault, Place};
use super::rank::Rank;
use super::values::Invalid;
use super::vars;

/// Proof that a fault was written down; only [`Document::report`] makes one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reported(());

pub(super) type Read<T> = Result<T, Reported>;

/// What is done with the channels.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// They are decoded: each has a decoder, and ends after its epochs.
    Run,
    /// They are fed through FIFOs, as they are and for ever, if nothing else is said.
    Feed,
}

/// The file as a whole: where things are in it, what surrounds it, and what is wrong with it.
pub(super) struct Document<'a> {
    file: &'a str,
    lines: Lines<'a>,
    env: &'a dyn Fn(&str) -> Option<String>,
    faults: RefCell<Vec<Fault>>,
    purpose: Purpose,
    presets: &'a Presets,
    /// Known once the top of the file was read.
    rank: OnceCell<Result<Rank, String>>,
    /// Stands in for a table that the file leaves out.
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
        let (lines, faults) = (Lines::of(text), RefCell::default());
        let (rank, empty) = (OnceCell::new(), DeTable::new());
        Document { file, lines, env, faults, purpose, presets, rank, empty }
    }

    /// An environment variable; one that is empty is not set.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        (self.env)(name).filter(|value| !value.trim().is_empty())
    }

    pub(super) fn set_rank(&self, rank: Result<Rank, String>) {
        // It is read once.
        let _ = self.rank.set(rank);
    }

    /// Which of several machines this is, or why that is not known.
    pub(super) fn rank(&self) -> Result<Rank, String> {
        self.rank.get().cloned().unwrap_or_else(|| Err("its table [rank] is wrong".to_owned()))
    }

    pub(super) fn presets(&self) -> &'a Presets {
        self.presets
    }

    pub(super) fn purpose(&self) -> Purpose {
        self.purpose
    }

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

    pub(super) fn expand(&self, text: &str) -> Result<String, Vec<Invalid>> {
        vars::expand(text, self.env)
    }

    pub(super) fn place(&self, at: usize) -> Place {
        self.lines.place(at)
    }

    pub(super) fn file(&self) -> &str {
        self.file
    }

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

/// The text and where its lines start.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Lines<'a> {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Lines { text, starts: std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect() }
    }

    /// The place of a byte offset; one behind the end is the end.
    fn place(&self, at: usize) -> Place {
        let at = self.text.floor_char_boundary(at);
        let line = self.starts.partition_point(|start| *start <= at);
        let column = self.text[self.starts[line - 1]..at].chars().count() + 1;
        Place { line, column }
    }
}
