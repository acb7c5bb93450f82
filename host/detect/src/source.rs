//! A source that examines its objects when they begin: the first one chooses the decoder, the
//! others must agree with it.
//!
//! The first bytes of an object are kept, at most [`MAX_HEAD`], until they are classified, and then
//! delivered; all bytes after them go directly to the reader. So nothing of a pipe is lost, which
//! can be read only once.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pipemill_decode::DetectionRule;
use pipemill_source::{
    Awaited, Compression, Input, Object, ReadOutcome, SeekPoint, SeekPoints, Source, SourceError,
    SourceEvent, Start, TotalSize, skip,
};
use pipemill_types::ListIdentity;

use super::bytes::{Sniffed, sniff};
use super::choice::{Choice, Refusal, RefusalKind, choose, say_it};
use super::dialect::Dialect;
use super::name::is_compressed;
use super::text::MAX_BYTES;

/// Largest number of bytes of an object that are kept for detection.
const MAX_HEAD: usize = MAX_BYTES;

/// The reason why no decoder was found.
#[derive(Debug)]
pub enum DetectError {
    /// The source has no object, can't be read, or no decoder fits the object.
    Source(SourceError),
    /// A stop was requested.
    Stopped,
}

impl From<SourceError> for DetectError {
    fn from(error: SourceError) -> Self {
        Self::Source(error)
    }
}

/// Finds the decoder of a source by its first object that is not empty, and by the options that
/// were given. Returns it with the source, which delivers all its objects and checks that they
/// agree. With `inflate`, compressed objects are detected by their first bytes, too.
///
/// # Errors
/// No decoder fits, several do, or the source can't be read.
pub fn detect(
    mut source: Box<dyn Source>,
    plugins: Vec<(String, DetectionRule)>,
    inflate: bool,
    options: &[(String, String)],
) -> Result<(Choice, Box<dyn Source>), DetectError> {
    let rules = Rules { plugins: plugins.into(), dialect: Dialect::of(options), inflate };
    let mut pending = VecDeque::new();
    // The choice by an empty object, and the choice by an object whose only row may be a header.
    let (mut of_empty, mut of_row) = (None, None::<(Choice, Vec<u8>)>);
    loop {
        match source.next()? {
            SourceEvent::Object(object) => {
                let Looked { object, sniffed, choice } = look_at(object, &rules)?;
                let name = object.name.clone();
                pending.push_back(SourceEvent::Object(object));
                if sniffed == Sniffed::Empty {
                    of_empty.get_or_insert((name, choice));
                    continue;
                }
                let choice = match of_row.take() {
                    Some((first, row)) => with_header(first, &row, &sniffed, &choice),
                    None => choice.map_err(|refusal| refusal.of(&name))?,
                };
                match only_row(&choice, &sniffed, &rules.dialect) {
                    Some(row) => of_row = Some((choice, row)),
                    None => return Ok(Detected::boxed(source, pending, choice, rules)),
                }
            }
            end => {
                pending.push_back(end);
                if let Some((choice, _)) = of_row {
                    return Ok(Detected::boxed(source, pending, choice, rules));
                }
                // All objects of the epoch are empty.
                let Some((name, choice)) = of_empty else {
                    let message = "its decoder is not known: the source has no object";
                    let error =
                        SourceError { object: None, ..SourceError::new("", message, say_it(&[])) };
                    return Err(error.into());
                };
                let choice = choice.map_err(|refusal| refusal.of(&name))?;
                return Ok(Detected::boxed(source, pending, choice, rules));
            }
        }
    }
}

/// The source, whose objects must agree with a choice that was made with others.
pub fn expecting(
    source: Box<dyn Source>,
    choice: Choice,
    plugins: Vec<(String, DetectionRule)>,
    inflate: bool,
    options: &[(String, String)],
) -> Box<dyn Source> {
    let rules = Rules { plugins: plugins.into(), dialect: Dialect::of(options), inflate };
    Detected::boxed(source, VecDeque::new(), choice, rules).1
}

/// The input of the search.
#[derive(Clone)]
struct Rules {
    plugins: Arc<[(String, DetectionRule)]>,
    dialect: Dialect,
    /// Whether compressed objects are detected by their first bytes.
    inflate: bool,
}

/// An object whose first bytes were examined.
struct Looked {
    object: Object,
    sniffed: Sniffed,
    choice: Result<Choice, Refusal>,
}

/// Waits for the first bytes of an object and examines them.
fn look_at(mut object: Object, rules: &Rules) -> Result<Looked, DetectError> {
    let mut peek = Peek::new(&object.name, object.input, rules);
    let sniffed = loop {
        match peek.look(None)? {
            Look::Known(sniffed) => break sniffed,
            Look::NotYet(ReadOutcome::Stopped) => return Err(DetectError::Stopped),
            Look::NotYet(_) => {}
        }
    };
    let choice = choose(&object.name, &sniffed, &peek.head, &rules.plugins);
    object.input = Box::new(peek);
    Ok(Looked { object, sniffed, choice })
}

/// The only row of a table which may be a header: the next object may show it.
fn only_row(choice: &Choice, sniffed: &Sniffed, dialect: &Dialect) -> Option<Vec<u8>> {
    match sniffed {
        Sniffed::Text(text) if text.is_one_row && choice.may_have_header(dialect) => {
            Some(text.first_row.clone())
        }
        _ => None,
    }
}

/// The choice by an object with one row, after the next object: if that begins with the same row,
/// the row is a header.
fn with_header(
    first: Choice,
    row: &[u8],
    sniffed: &Sniffed,
    next: &Result<Choice, Refusal>,
) -> Choice {
    match (sniffed, next) {
        (Sniffed::Text(text), Ok(next)) if text.first_row == row && !text.is_one_row => {
            first.with_header_as(next)
        }
        _ => first,
    }
}

/// A source whose objects must agree with the first.
struct Detected {
    source: Box<dyn Source>,
    /// The events that were examined before the decoder was known.
    pending: VecDeque<SourceEvent>,
    expected: Arc<Expected>,
    /// The start; `None` after the first event from there.
    start: Option<Start>,
    /// The expected identity of that epoch's list.
    list: Option<ListIdentity>,
    /// The point from which the object of the start is inflated.
    point: Option<Arc<SeekPoint>>,
}

/// The choice with which the objects of the channel must agree.
struct Expected {
    choice: Choice,
    rules: Rules,
}

impl Detected {
    fn boxed(
        source: Box<dyn Source>,
        pending: VecDeque<SourceEvent>,
        choice: Choice,
        rules: Rules,
    ) -> (Choice, Box<dyn Source>) {
        let expected = Arc::new(Expected { choice: choice.clone(), rules });
        // Later objects must agree, too.
        let mut is_after = false;
        let checked = |event| match event {
            SourceEvent::Object(object) if is_after => {
                SourceEvent::Object(checked(object, &expected))
            }
            SourceEvent::Object(object) => {
                is_after = object.name == choice.object;
                SourceEvent::Object(object)
            }
            other => other,
        };
        let pending = pending.into_iter().map(checked).collect();
        (choice, Box::new(Self { source, pending, expected, start: None, list: None, point: None }))
    }

    /// The first event after a start in the middle of an object. This object is not compared with
    /// the first one of the channel: the process that began it has compared it. Only its first
    /// bytes show whether it is compressed, so they are read before the start.
    fn begin_in_object(&mut self, start: Start) -> Result<SourceEvent, SourceError> {
        if self.point.take().is_some() {
            // The point says that the object is compressed, and the source has it.
            return self.source.next();
        }
        if self.expected.rules.inflate {
            self.source.expect_list(self.list);
            self.source.start_at(Start { offset: 0, ..start })?;
            if let SourceEvent::Object(object) = self.source.next()? {
                let can_seek = object.facts.size.is_some() && !is_compressed(&object.name);
                let mut peek = Peek::new(&object.name, object.input, &self.expected.rules);
                while let Look::NotYet(outcome) = peek.look(None)? {
                    if outcome == ReadOutcome::Stopped {
                        return Ok(SourceEvent::End);
                    }
                }
                if peek.is_inflated || !can_seek {
                    let input = skip(&object.name, Box::new(peek), 0, start.offset);
                    return Ok(SourceEvent::Object(Object { input, ..object }));
                }
            }
        }
        self.source.expect_list(self.list.take());
        self.source.start_at(start)?;
        self.source.next()
    }
}

impl Source for Detected {
    fn next(&mut self) -> Result<SourceEvent, SourceError> {
        if let Some(event) = self.pending.pop_front() {
            return Ok(event);
        }
        if let Some(start) = self.start.take() {
            return self.begin_in_object(start);
        }
        let event = self.source.next()?;
        let SourceEvent::Object(object) = event else { return Ok(event) };
        Ok(SourceEvent::Object(checked(object, &self.expected)))
    }

    fn start_at(&mut self, start: Start) -> Result<(), SourceError> {
        self.point = self.point.take().filter(|_| start.offset > 0);
        self.source.expect_list(self.list);
        self.source.start_from(self.point.clone());
        self.source.start_at(start)?;
        self.pending.clear();
        self.start = (start.offset > 0).then_some(start);
        Ok(())
    }

    fn expect_list(&mut self, list: Option<ListIdentity>) {
        self.list = list;
    }

    fn start_from(&mut self, point: Option<Arc<SeekPoint>>) {
        self.point = point;
    }

    fn can_reread(&self) -> bool {
        self.source.can_reread()
    }

    fn end_epoch(&mut self) {
        self.start = None;
        self.pending.retain(|event| !matches!(event, SourceEvent::Object(_)));
        if self.pending.is_empty() {
            self.source.end_epoch();
        }
    }

    fn total_size(&mut self) -> TotalSize {
        self.source.total_size()
    }

    fn awaited(&self) -> Awaited {
        self.source.awaited()
    }
}

/// The object, which is compared with the first one when it is read.
fn checked(object: Object, expected: &Arc<Expected>) -> Object {
    let peek = Peek::new(&object.name, object.input, &expected.rules);
    let input = Checked { peek, expected: expected.clone(), is_checked: false };
    Object { input: Box::new(input), ..object }
}

/// The known facts of an object's first bytes.
enum Look {
    Known(Sniffed),
    /// The last read gave no bytes.
    NotYet(ReadOutcome),
}

/// An input whose first bytes can be examined before they are read.
struct Peek {
    name: String,
    input: Box<dyn Input>,
    /// The first bytes, as they will be read.
    head: Vec<u8>,
    /// Number of bytes of `head` that were read.
    sent: usize,
    ended: bool,
    /// The dialect that splits rows.
    dialect: Dialect,
    /// Whether compressed bytes are inflated.
    inflate: bool,
    /// Whether the first bytes showed that they are compressed.
    is_inflated: bool,
    /// The seek points of the object, if its reader wants them.
    points: Option<SeekPoints>,
}

impl Peek {
    fn new(name: &str, input: Box<dyn Input>, rules: &Rules) -> Self {
        Self {
            name: name.to_owned(),
            input,
            head: Vec::new(),
            sent: 0,
            ended: false,
            dialect: rules.dialect.clone(),
            // An object that the source inflates is not inflated again.
            inflate: rules.inflate && !is_compressed(name),
            is_inflated: false,
            points: None,
        }
    }

    /// Reads until the first bytes can be classified.
    fn look(&mut self, timeout: Option<Duration>) -> Result<Look, SourceError> {
        loop {
            match sniff(&self.head, self.ended, &self.dialect) {
                Some(Sniffed::Compressed(kind)) if self.inflate => self.inflate(kind),
                Some(sniffed) => return Ok(Look::Known(sniffed)),
                None => {}
            }
            let start = self.head.len();
            self.head.resize(MAX_HEAD, 0);
            let outcome = self.input.read(&mut self.head[start..], timeout);
            let count = if let Ok(ReadOutcome::Bytes(count)) = outcome { count } else { 0 };
            self.head.truncate(start + count);
            match outcome? {
                ReadOutcome::Bytes(_) => {}
                ReadOutcome::End => self.ended = true,
                outcome => return Ok(Look::NotYet(outcome)),
            }
        }
    }

    /// Reads the compressed bytes of the object from now on.
    fn inflate(&mut self, kind: Compression) {
        let name = &self.name;
        log::info!(object = name; "{name}: compressed with {kind}, which its name does not say");
        let head = std::mem::take(&mut self.head);
        let nothing = Box::new(Nothing);
        let input = std::mem::replace(&mut self.input, nothing);
        let stored = Self {
            name: String::new(),
            input,
            head,
            sent: 0,
            ended: self.ended,
            dialect: Dialect::default(),
            inflate: false,
            is_inflated: false,
            points: None,
        };
        self.input = kind.inflate(&self.name, Box::new(stored));
        if let Some(points) = &self.points {
            self.input.set_seek_points(points);
        }
        (self.ended, self.inflate, self.is_inflated) = (false, false, true);
    }
}

impl Input for Peek {
    fn is_inflated(&self) -> bool {
        self.input.is_inflated()
    }

    fn range(&self, range: Range<u64>) -> Option<Result<Box<dyn Input>, SourceError>> {
        self.input.range(range)
    }

    fn room_ahead(&self) -> Option<u64> {
        self.input.room_ahead()
    }

    fn check_unchanged(&self) -> Result<(), SourceError> {
        self.input.check_unchanged()
    }

    fn set_seek_points(&mut self, points: &SeekPoints) {
        self.points = Some(points.clone());
        self.input.set_seek_points(points);
    }

    fn read(
        &mut self,
        buf: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<ReadOutcome, SourceError> {
        let rest = &self.head[self.sent..];
        if !rest.is_empty() {
            let count = rest.len().min(buf.len());
            buf[..count].copy_from_slice(&rest[..count]);
            self.sent += count;
            return Ok(ReadOutcome::Bytes(count));
        }
        if self.ended {
            return Ok(ReadOutcome::End);
        }
        if !self.head.is_empty() {
            (self.head, self.sent) = (Vec::new(), 0);
        }
        self.input.read(buf, timeout)
    }
}

/// An input without bytes.
struct Nothing;

impl Input for Nothing {
    fn read(&mut self, _: &mut [u8], _: Option<Duration>) -> Result<ReadOutcome, SourceError> {
        Ok(ReadOutcome::End)
    }
}

/// An object that must agree with the first one of its channel. It is examined when it is read, so
/// that a source that fetches ahead is not delayed.
struct Checked {
    peek: Peek,
    expected: Arc<Expected>,
    is_checked: bool,
}

impl Input for Checked {
    fn is_inflated(&self) -> bool {
        self.peek.is_inflated()
    }

    fn range(&self, range: Range<u64>) -> Option<Result<Box<dyn Input>, SourceError>> {
        self.peek.range(range)
    }

    fn room_ahead(&self) -> Option<u64> {
        self.peek.room_ahead()
    }

    fn check_unchanged(&self) -> Result<(), SourceError> {
        self.peek.check_unchanged()
    }

    fn set_seek_points(&mut self, points: &SeekPoints) {
        self.peek.set_seek_points(points);
    }

    fn read(
        &mut self,
        buf: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<ReadOutcome, SourceError> {
        if !self.is_checked {
            match self.peek.look(timeout)? {
                Look::NotYet(outcome) => return Ok(outcome),
                Look::Known(sniffed) => {
                    self.expected.check(&self.peek.name, &sniffed, &self.peek.head)?
                }
            }
            self.is_checked = true;
        }
        self.peek.read(buf, timeout)
    }
}

impl Expected {
    /// Refuses an object of another format than the first.
    fn check(&self, name: &str, sniffed: &Sniffed, head: &[u8]) -> Result<(), SourceError> {
        let expected = &self.choice.format;
        let found = match choose(name, sniffed, head, &self.rules.plugins) {
            Ok(found) if expected.agrees_with(&found.format) => return Ok(()),
            Ok(found) => found.format.to_string(),
            // An empty object has no records in every format.
            Err(Refusal { kind: RefusalKind::Unsure, .. }) if *sniffed == Sniffed::Empty => {
                return Ok(());
            }
            Err(Refusal { kind: RefusalKind::Unsure, .. }) => match sniffed {
                Sniffed::Text(_) if expected.is_text() => return Ok(()),
                Sniffed::Text(_) => "text".to_owned(),
                _ => "something else".to_owned(),
            },
            Err(refusal) => return Err(refusal.of(name)),
        };
        let first = &self.choice.object;
        let message = format!(
            "it is {found}, but the channel's first object, {first}, is {expected}: one channel \
             reads one format"
        );
        let remedy = "leave it out, read it in another channel, or, if it is the same format, say \
                      which decoder reads all of them: `-d NAME`, in a file `decoder = \"NAME\"`";
        Err(SourceError::new(name, message, remedy))
    }
}
