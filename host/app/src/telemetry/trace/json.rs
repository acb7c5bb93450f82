//! Events in the form of Chrome's tracing, and the file that they go to: a JSON array to which a line is added for
//! each, so that what was written before a SIGKILL can be loaded.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};

use serde_json::Value;

/// Bytes that are gathered before they are written.
const GATHERED: usize = 64 << 10;

/// Where an event is shown: a number for each row.
pub(super) type Row = u32;

/// The file, and what is not in it yet.
pub(super) struct Out {
    file: File,
    text: String,
    /// This process.
    pid: u32,
    /// The first error; nothing is written after it.
    error: Option<io::Error>,
}

impl Out {
    /// Begins a trace in an empty file.
    pub(super) fn new(file: File) -> Self {
        let pid = std::process::id();
        let mut out = Self { file, text: "[\n".to_owned(), pid, error: None };
        let _ = write!(
            out.text,
            "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{pid},\"args\":{{\"name\":\"pipemill\"}}}}"
        );
        out
    }

    /// A row has this name.
    pub(super) fn row(&mut self, row: Row, name: &str) {
        let args = serde_json::json!({ "name": name });
        self.event("M", "thread_name", row, "", &args);
        self.event("M", "thread_sort_index", row, "", &serde_json::json!({ "sort_index": row }));
    }

    /// Something took from one moment to another, in nanoseconds.
    pub(super) fn span(&mut self, row: Row, name: &str, from: u64, to: u64, args: &Value) {
        let time = format!("\"ts\":{},\"dur\":{},", Micros(from), Micros(to.saturating_sub(from)));
        self.event("X", name, row, &time, args);
    }

    /// Something happened.
    pub(super) fn instant(&mut self, row: Row, name: &str, at: u64, args: &Value) {
        self.event("i", name, row, &format!("\"s\":\"t\",\"ts\":{},", Micros(at)), args);
    }

    /// Something that is no matter of one thread begins (`b`), ends (`e`) or has news (`n`).
    pub(super) fn apart(&mut self, phase: &str, what: &Apart<'_>, at: u64, args: &Value) {
        let Apart { row, category, id, name } = what;
        let more = format!("\"cat\":\"{category}\",\"id\":\"{id}\",\"ts\":{},", Micros(at));
        self.event(phase, name, *row, &more, args);
    }

    fn event(&mut self, phase: &str, name: &str, row: Row, more: &str, args: &Value) {
        let (pid, name) = (self.pid, Value::from(name));
        let _ = write!(
            self.text,
            ",\n{{\"ph\":\"{phase}\",\"name\":{name},\"pid\":{pid},\"tid\":{row},{more}\"args\":{args}}}"
        );
        if self.text.len() >= GATHERED {
            self.flush();
        }
    }

    /// Writes what was gathered.
    pub(super) fn flush(&mut self) {
        if self.error.is_none() {
            self.error = self.file.write_all(self.text.as_bytes()).err();
        }
        self.text.clear();
    }

    /// Ends the trace.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.text.push_str("\n]\n");
        self.flush();
        self.error.map_or(Ok(()), Err)
    }
}

/// Something that is no matter of one thread: it has an identity in its category.
pub(super) struct Apart<'a> {
    pub(super) row: Row,
    pub(super) category: &'static str,
    pub(super) id: &'a str,
    pub(super) name: &'a str,
}

/// Nanoseconds as the microseconds of the format.
struct Micros(u64);

impl std::fmt::Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}
