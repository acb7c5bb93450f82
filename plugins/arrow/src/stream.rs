//! The messages of a stream.

use std::ops::Range;

use pipemill_plugin::{DecodeError, Field, Level, Progress, Records};

use crate::array::{LoadError, Loader};
use crate::batch::Batch;
use crate::columns::Layout;
use crate::dictionaries::Dictionaries;
use crate::footer::Footer;
use crate::message::{
    BatchHeader, Framing, HeaderError, Message, MessageKind, Prefix, end_without_prefix,
    is_without_prefix,
};
use crate::schema::{self, SchemaError};
use crate::{Arrow, Call, FILE_HEAD, State, Step};

/// The oldest version of the metadata that is read, the fourth, and the newest one.
pub(crate) const VERSIONS: Range<i16> = 3..5;

/// A stream whose messages are read.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) is_file: bool,
    /// How its messages begin. `None` before the first one.
    framing: Option<Framing>,
    /// `None` before the schema.
    layout: Option<Layout>,
    pub(crate) dictionaries: Dictionaries,
    /// Number of batches so far.
    batches: u64,
    /// The batch whose rows are emitted, and the size of its message.
    open: Option<(Batch, usize)>,
}

impl Stream {
    pub(crate) fn new(is_file: bool) -> Self {
        Self {
            is_file,
            framing: None,
            layout: None,
            dictionaries: Dictionaries::new(),
            batches: 0,
            open: None,
        }
    }

    /// The stream of a part of a file that begins with this batch.
    pub(crate) fn of_part(batch: u64) -> Self {
        Self { batches: batch, ..Self::new(true) }
    }

    /// Whether rows of a batch are left.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    pub(crate) fn framing(&self) -> Option<Framing> {
        self.framing
    }

    pub(crate) fn layout(&self) -> Option<&Layout> {
        self.layout.as_ref()
    }

    /// The word for it.
    fn word(&self) -> &'static str {
        if self.is_file { "file" } else { "stream" }
    }

    /// The error of a message whose size may be damaged: the next batch is searched for. With
    /// dictionaries it is not, because one may be lost.
    pub(crate) fn damaged(&self, at: usize, why: String) -> DecodeError {
        let has_dictionaries = self
            .layout
            .as_ref()
            .is_none_or(|layout| layout.columns.iter().any(|one| one.values.dictionary.is_some()));
        match has_dictionaries {
            true => DecodeError::fatal(at, why),
            false => DecodeError::searchable(at, why, at as u64 + 1),
        }
    }
}

/// A message that is completely in the chunk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whole {
    /// Bytes before the body, and in all.
    pub(crate) body: usize,
    pub(crate) size: usize,
}

impl Arrow {
    /// Reads the next message, or emits more rows of the open batch.
    pub(crate) fn message(
        &mut self,
        call: &mut Call,
        out: &mut Records,
    ) -> Result<Step, DecodeError> {
        let State::Messages(stream) = &mut self.state else { return Ok(Step::GoOn) };
        if stream.open.is_some() {
            return self.rows(call, out);
        }
        let (at, rest) = (call.at, call.rest());
        if rest.is_empty() {
            // The error has led to the end. The host may call then, or not.
            let has_failed = self.has_failed && at == 0;
            return stream.ends(has_failed, call, out);
        }
        if stream.layout.is_none() && rest.len() < FILE_HEAD && !call.end {
            return Ok(call.wants(FILE_HEAD));
        }
        if stream.is_file && stream.layout.is_none() && is_without_prefix(rest) {
            stream.framing = Some(Framing::Marked);
            return self.schema_without_prefix(call, out);
        }
        stream.framing = stream.framing.or_else(|| Framing::of(rest));
        let framing = stream.framing.unwrap_or(Framing::Marked);
        let place = match framing.read(rest, self.limits.metadata) {
            Prefix::Metadata(place) if place.end <= rest.len() => place,
            Prefix::End(size) => {
                if stream.layout.is_none() {
                    let word = stream.word();
                    let why = format!("expected the schema of the {word}, found its end mark");
                    return Err(DecodeError::fatal(at, why));
                }
                call.at += size;
                self.state = match stream.is_file {
                    true => State::Footer(Footer::default()),
                    false => State::Between,
                };
                return Ok(Step::GoOn);
            }
            Prefix::Metadata(Range { end: size, .. }) | Prefix::Cut(size) => {
                if !call.end {
                    return Ok(call.wants(size));
                }
                let (found, word) = (rest.len(), stream.word());
                return Err(stream.damaged(
                    at,
                    format!(
                        "expected a message of at least {size} bytes, found {found} and the end; \
                         the {word} is cut short"
                    ),
                ));
            }
            Prefix::Bad(_) if stream.layout.is_none() => {
                let found = rest[..rest.len().min(FILE_HEAD)].escape_ascii();
                return Err(stream.damaged(
                    at,
                    format!("expected the schema of an Arrow stream or file, found `{found}`"),
                ));
            }
            Prefix::Bad(why) => return Err(stream.damaged(at, why)),
        };
        let message = match Message::read(&rest[place.clone()]) {
            Ok(message) => message,
            Err(what) => {
                let why = format!(
                    "expected {} in the metadata of a message, found something else",
                    what.0
                );
                return Err(stream.damaged(at, why));
            }
        };
        self.read(&message, place.end, call, out)
    }

    /// Reads the schema of a file whose first message has no prefix.
    fn schema_without_prefix(
        &mut self,
        call: &mut Call,
        out: &mut Records,
    ) -> Result<Step, DecodeError> {
        let (at, rest) = (call.at, call.rest());
        let most = self.limits.metadata;
        let window = &rest[..rest.len().min(most)];
        let Some(size) = end_without_prefix(window, most) else {
            if !call.end && rest.len() < most {
                return Ok(Step::Return(Progress::consumed(at)));
            }
            let found = window.len();
            let why =
                format!("expected the schema of the file, found no end of it in {found} bytes");
            return Err(DecodeError::fatal(at, why));
        };
        let message = Message::read(&rest[..size]).ok();
        match message.filter(|one| one.kind == MessageKind::Schema && one.body == 0) {
            Some(message) => {
                // Without the next message, it is not known where the schema ends.
                self.can_restart = false;
                self.read(&message, size, call, out)
            }
            None => {
                let why = format!("expected the schema of the file, found {size} other bytes");
                Err(DecodeError::fatal(at, why))
            }
        }
    }

    /// Reads a message whose metadata ends at `body`.
    pub(crate) fn read(
        &mut self,
        message: &Message,
        body: usize,
        call: &mut Call,
        out: &mut Records,
    ) -> Result<Step, DecodeError> {
        let State::Messages(stream) = &mut self.state else { return Ok(Step::GoOn) };
        let at = call.at;
        if !VERSIONS.contains(&message.version) {
            let version = i32::from(message.version) + 1;
            let why = format!(
                "the metadata has version {version}, which is not supported; write the file again \
                 with Arrow 0.8 or later"
            );
            return Err(match stream.layout {
                None => DecodeError::refused(at, why),
                Some(_) => stream.damaged(at, why),
            });
        }
        let is_schema = message.kind == MessageKind::Schema;
        if let (MessageKind::Other(4 | 5), None) = (message.kind, &stream.layout) {
            return Err(DecodeError::refused(at, "it is a tensor, and only tables are read"));
        }
        if is_schema != stream.layout.is_none() || matches!(message.kind, MessageKind::Other(_)) {
            let expected =
                if is_schema { "a batch of rows" } else { "a schema or a batch of rows" };
            let found = message.kind.name();
            return Err(stream.damaged(at, format!("expected {expected}, found {found}")));
        }
        let size = message.body.saturating_add(body as u64);
        if size > self.limits.max_record && !(is_schema && message.body == 0) {
            let most = self.limits.max_record;
            let why = format!(
                "the message has {size} bytes, more than max_record ({most} bytes); raise \
                 max_record, or write smaller batches"
            );
            return Err(stream.damaged(at, why));
        }
        let layout = stream.layout.as_ref().map(|layout| layout.size).unwrap_or_default();
        // All that the metadata says is checked before the body is there.
        let header = match message.kind {
            MessageKind::Batch => Some(BatchHeader::read(&message.header, layout)),
            _ => None,
        };
        let header = match header.transpose() {
            Ok(header) => header,
            Err(HeaderError::Refused(why)) if stream.batches == 0 => {
                return Err(DecodeError::refused(at, why));
            }
            Err(HeaderError::Refused(why) | HeaderError::Bad(why)) => {
                return Err(stream.damaged(at, why));
            }
        };
        if header.is_some() && self.header.is_none() {
            self.header = self.position.map(|position| position + at as u64);
        }
        if (call.rest().len() as u64) < size {
            let needed = usize::try_from(size).unwrap_or(usize::MAX);
            if !call.end {
                return Ok(call.wants(needed));
            }
            let (found, word) = (call.rest().len(), stream.word());
            return Err(stream.damaged(
                at,
                format!(
                    "expected a message of {size} bytes, found {found} and the end; the {word} is \
                     cut short"
                ),
            ));
        }
        // The value fits: the chunk is not shorter.
        let whole = Whole { body, size: size as usize };
        match (message.kind, header) {
            (MessageKind::Batch, Some(header)) => self.begin_batch(&header, whole, call, out),
            (MessageKind::Dictionary, _) => {
                match self.read_dictionary(message, at, whole, call, out)? {
                    Step::GoOn => {
                        call.at += whole.size;
                        Ok(Step::GoOn)
                    }
                    step => Ok(step),
                }
            }
            _ => self.read_schema(message, whole, call, out),
        }
    }

    fn read_schema(
        &mut self,
        message: &Message,
        whole: Whole,
        call: &mut Call,
        out: &mut Records,
    ) -> Result<Step, DecodeError> {
        let State::Messages(stream) = &mut self.state else { return Ok(Step::GoOn) };
        let at = call.at;
        let nodes =
            schema::read(&message.header, message.version).map_err(|error| match error {
                SchemaError::Bad(why) => DecodeError::fatal(at, why),
                SchemaError::Refused(why) => DecodeError::refused(at, why),
            })?;
        let layout = Layout::new(&nodes, self.wanted.as_deref());
        let layout = layout.map_err(|why| DecodeError::refused(at, why))?;
        let fields: Vec<Field> = layout.columns.iter().map(|one| one.field.clone()).collect();
        match &self.fields {
            None => {
                out.set_schema(&fields);
                self.fields = Some(fields);
            }
            Some(before) if *before != fields => {
                return Err(DecodeError::refused(
                    at,
                    "another stream follows, whose records have other fields; all streams of an \
                     object must have the same",
                ));
            }
            Some(_) => {}
        }
        stream.layout = Some(layout);
        call.at += whole.size;
        Ok(Step::GoOn)
    }

    /// Loads the columns of a batch, and emits its first rows.
    fn begin_batch(
        &mut self,
        header: &BatchHeader,
        whole: Whole,
        call: &mut Call,
        out: &mut Records,
    ) -> Result<Step, DecodeError> {
        let is_missing = self.misses_dictionary();
        // Decompressed bytes are payload: what fits must not depend on what came before.
        if (header.codec.is_some() || is_missing) && call.spent > 0 {
            return Ok(call.again());
        }
        if is_missing && let step @ Step::Return(_) = self.look_ahead(whole.size, call, out)? {
            return Ok(step);
        }
        let State::Messages(stream) = &mut self.state else { return Ok(Step::GoOn) };
        let Some(layout) = &stream.layout else { return Ok(Step::GoOn) };
        let mut loader = loader(header, call.at, whole, call, out);
        let loaded = Batch::load(layout, &mut loader);
        call.spent += loader.decompressed;
        match loaded {
            Ok(batch) => {
                stream.open = Some((batch, whole.size));
                self.rows(call, out)
            }
            Err((column, why)) => {
                let why = stream.lost(column, why.message(), header.rows);
                stream.batches += 1;
                Err(DecodeError::skippable(call.at, why, (call.at + whole.size) as u64))
            }
        }
    }

    /// Emits rows of the open batch.
    fn rows(&mut self, call: &mut Call, out: &mut Records) -> Result<Step, DecodeError> {
        let State::Messages(stream) = &mut self.state else { return Ok(Step::GoOn) };
        let Some((mut batch, size)) = stream.open.take() else { return Ok(Step::GoOn) };
        let Some(layout) = &stream.layout else { return Ok(Step::GoOn) };
        // A call that has only decompressed emits a row at least.
        let most = self.limits.output.saturating_sub(call.spent).max(1);
        let place = (call.chunk, call.at);
        match batch.emit(layout, &stream.dictionaries, place, most, out) {
            Ok(spent) => call.spent += spent,
            Err((column, why)) => {
                let why = stream.lost(column, why, batch.rows - batch.row);
                stream.batches += 1;
                return Err(DecodeError::skippable(call.at, why, (call.at + size) as u64));
            }
        }
        if batch.row < batch.rows {
            stream.open = Some((batch, size));
            return Ok(call.again());
        }
        stream.batches += 1;
        call.at += size;
        match call.spent >= self.limits.output && !call.rest().is_empty() {
            true => Ok(call.again()),
            false => Ok(Step::GoOn),
        }
    }
}

impl Stream {
    /// The end of the input, or more of it is needed.
    fn ends(&self, has_failed: bool, call: &Call, out: &mut Records) -> Result<Step, DecodeError> {
        if !call.end {
            return Ok(call.wants(self.framing.map_or(4, Framing::prefix)));
        }
        if has_failed {
            return Ok(Step::Return(Progress::consumed(call.at)));
        }
        if self.is_file || self.layout.is_none() {
            let wanted =
                if self.layout.is_none() { "its schema" } else { "its end mark and footer" };
            let word = self.word();
            return Err(DecodeError::fatal(
                call.at,
                format!("expected {wanted}, found the end; the {word} is cut short"),
            ));
        }
        out.log(
            Level::Warn,
            "the stream has no end mark: its writer was not closed, or batches are missing",
        );
        Ok(Step::Return(Progress::consumed(call.at)))
    }

    /// The message for the last rows of a batch.
    fn lost(&self, column: usize, why: String, rows: usize) -> String {
        let columns = self.layout.as_ref().map(|layout| &layout.columns[..]).unwrap_or_default();
        let path = columns.get(column).map(|column| column.path.as_str()).unwrap_or_default();
        let number = self.batches;
        format!(
            "column `{path}` in record batch {number}: {why}; the last {rows} rows of the batch \
             can't be decoded"
        )
    }
}

impl LoadError {
    pub(crate) fn message(self) -> String {
        match self {
            Self::Bad(why) | Self::NoRoom(why) => why,
        }
    }
}

/// Loads the buffers of the message that begins at `at`.
pub(crate) fn loader<'a, 'b>(
    header: &'a BatchHeader<'a>,
    at: usize,
    whole: Whole,
    call: &Call<'a>,
    out: &'b mut Records,
) -> Loader<'a, 'b> {
    Loader {
        header,
        message: at..at + whole.size,
        body: whole.body,
        chunk: call.chunk,
        out,
        decompressed: 0,
    }
}
