//! The trace's file, in Chrome's trace event format: a JSON array with one line for each event.
//! Lines are only appended, so that the file can be loaded after a SIGKILL.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};

use pipemill_types::json;
use serde_json::Value;

/// Bytes that are collected before they are written to the file.
const FLUSH_BYTES: usize = 64 << 10;

/// Number of the row that an event is shown in: a thread id of the format.
pub(super) type Row = u32;

/// The file, and text that is not written yet.
pub(super) struct TraceFile {
    file: File,
    text: String,
    /// Process id of the host.
    pid: u32,
    /// The first error. Nothing is written after it.
    error: Option<io::Error>,
}

impl TraceFile {
    /// Begins a trace in this empty file.
    pub(super) fn new(file: File) -> Self {
        let pid = std::process::id();
        let mut file = Self { file, text: "[\n".to_owned(), pid, error: None };
        let _ = write!(
            file.text,
            "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{pid},\
             \"args\":{{\"name\":\"pipemill\"}}}}"
        );
        file
    }

    /// Names a row.
    pub(super) fn row(&mut self, row: Row, name: &str) {
        let args = serde_json::json!({ "name": name });
        self.event("M", "thread_name", row, "", &args);
        self.event("M", "thread_sort_index", row, "", &serde_json::json!({ "sort_index": row }));
    }

    /// Adds an event with a duration. `from` and `to` are in nanoseconds from the trace's start.
    pub(super) fn span(&mut self, row: Row, name: &str, from: u64, to: u64, args: &Value) {
        let time = format!("\"ts\":{},\"dur\":{},", Micros(from), Micros(to.saturating_sub(from)));
        self.event("X", name, row, &time, args);
    }

    /// Adds an event without a duration, `at` nanoseconds after the trace's start.
    pub(super) fn instant(&mut self, row: Row, name: &str, at: u64, args: &Value) {
        self.event("i", name, row, &format!("\"s\":\"t\",\"ts\":{},", Micros(at)), args);
    }

    /// Adds an event that belongs to no thread. The phase is `b` for its begin, `e` for its end,
    /// and `n` for an instant between them. `at` is in nanoseconds from the trace's start.
    pub(super) fn async_event(
        &mut self,
        phase: &str,
        event: &AsyncEvent<'_>,
        at: u64,
        args: &Value,
    ) {
        let AsyncEvent { row, category, id, name } = event;
        let more = format!("\"cat\":\"{category}\",\"id\":\"{id}\",\"ts\":{},", Micros(at));
        self.event(phase, name, *row, &more, args);
    }

    fn event(&mut self, phase: &str, name: &str, row: Row, more: &str, args: &Value) {
        let (pid, name, args) = (self.pid, Json(&Value::from(name)), Json(args));
        let _ = write!(
            self.text,
            ",\n{{\"ph\":\"{phase}\",\"name\":{name},\"pid\":{pid},\"tid\":{row},\
             {more}\"args\":{args}}}"
        );
        if self.text.len() >= FLUSH_BYTES {
            self.flush();
        }
    }

    /// Writes the collected text.
    pub(super) fn flush(&mut self) {
        if self.error.is_none() {
            self.error = self.file.write_all(self.text.as_bytes()).err();
        }
        self.text.clear();
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// The first error of any write.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.text.push_str("\n]\n");
        self.flush();
        self.error.map_or(Ok(()), Err)
    }
}

/// Identifies an event without a thread: the id is unique within the category.
pub(super) struct AsyncEvent<'a> {
    pub(super) row: Row,
    pub(super) category: &'static str,
    pub(super) id: &'a str,
    pub(super) name: &'a str,
}

/// JSON for a file that people read: it escapes names from the input.
struct Json<'a>(&'a Value);

impl std::fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&json::escape(&self.0.to_string()))
    }
}

/// Nanoseconds, shown as the microseconds of the format.
struct Micros(u64);

impl std::fmt::Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}
