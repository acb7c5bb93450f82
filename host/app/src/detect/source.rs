//! A source whose objects are looked at when they begin: the first one chooses the decoder, the
//! others must agree with it.
//!
//! The first bytes of an object are kept until they are known, at most [`MAX_HEAD`], and then handed
//! on; all bytes after them go straight to the reader. So nothing is lost of a pipe, which can be
//! read only once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use pipemill_decode::DetectionRule;
use pipemill_source::{
    Awaited, Compression, Input, Object, ReadOutcome, Source, SourceError, SourceEvent, Start,
    TotalSize, skip,
};
use pipemill_types::ListIdentity;

use super::bytes::{Sniffed, sniff};
use super::choice::{Choice, Refusal, RefusalKind, choose, say_it};
use super::name::is_compressed;
use super::text::MAX_BYTES;

/// Bytes of an object that are kept to look at.
const MAX_HEAD: usize = MAX_BYTES;

/// Why no decoder was found.
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

/// Finds the decoder of a source by its first object that is not empty. Returns it with the source,
/// which gives all its objects, and checks that they agree. With `inflate`, compressed objects are
/// known by their first bytes, too.
///
/// # Errors
/// No decoder fits, several do, or the source can't be read.
pub fn detect(
    mut source: Box<dyn Source>,
    plugins: Vec<(String, DetectionRule)>,
    inflate: bool,
) -> Result<(Choice, Box<dyn Source>), DetectError> {
    let plugins: Arc<[_]> = plugins.into();
    let mut pending = VecDeque::new();
    let mut of_empty = None;
    loop {
        match source.next()? {
            SourceEvent::Object(mut object) => {
                let mut peek = Peek::new(&object.name, object.input, inflate);
                let sniffed = loop {
                    match peek.look(None)? {
                        Look::Known(sniffed) => break sniffed,
                        Look::NotYet(ReadOutcome::Stopped) => return Err(DetectError::Stopped),
                        Look::NotYet(_) => {}
                    }
                };
                let choice = choose(&object.name, &sniffed, &peek.head, &plugins);
                let name = object.name.clone();
                object.input = Box::new(peek);
                pending.push_back(SourceEvent::Object(object));
                if sniffed == Sniffed::Empty {
                    of_empty.get_or_insert((name, choice));
                    continue;
                }
                let choice = choice.map_err(|refusal| refusal.of(&name))?;
                return Ok(Detected::boxed(source, pending, choice, plugins, inflate));
            }
            end => {
                // All objects of the epoch are empty.
                let Some((name, choice)) = of_empty else {
                    let message = "its decoder is not known: the source has no object";
                    let error =
                        SourceError { object: None, ..SourceError::new("", message, say_it(&[])) };
                    return Err(error.into());
                };
                pending.push_back(end);
                let choice = choice.map_err(|refusal| refusal.of(&name))?;
                return Ok(Detected::boxed(source, pending, choice, plugins, inflate));
            }
        }
    }
}

/// The source, whose objects have to agree with a choice that was made with others.
pub fn expecting(
    source: Box<dyn Source>,
    choice: Choice,
    plugins: Vec<(String, DetectionRule)>,
    inflate: bool,
) -> Box<dyn Source> {
    Detected::boxed(source, VecDeque::new(), choice, plugins.into(), inflate).1
}

/// A source whose objects must agree with the first.
struct Detected {
    source: Box<dyn Source>,
    /// The events that were looked at before the decoder was known.
    pending: VecDeque<SourceEvent>,
    expected: Arc<Expected>,
    inflate: bool,
    /// Where to begin; `None` after the first event from there.
    start: Option<Start>,
    /// What the list of that epoch has to be.
    list: Option<ListIdentity>,
}

/// What the objects of the channel must agree with.
struct Expected {
    choice: Choice,
    plugins: Arc<[(String, DetectionRule)]>,
}

impl Detected {
    fn boxed(
        source: Box<dyn Source>,
        pending: VecDeque<SourceEvent>,
        choice: Choice,
        plugins: Arc<[(String, DetectionRule)]>,
        inflate: bool,
    ) -> (Choice, Box<dyn Source>) {
        let expected = Arc::new(Expected { choice: choice.clone(), plugins });
        (choice, Box::new(Self { source, pending, expected, inflate, start: None, list: None }))
    }

    /// The first event after a start in the middle of an object. This object is not compared with
    /// the first one of the channel: the process that began it has done so. But only its first
    /// bytes say whether it is compressed, so they are read before the place is gone to.
    fn begin_in_object(&mut self, start: Start) -> Result<SourceEvent, SourceError> {
        if self.inflate {
            self.source.expect_list(self.list);
            self.source.start_at(Start { offset: 0, ..start })?;
            if let SourceEvent::Object(object) = self.source.next()? {
                let can_seek = object.facts.size.is_some() && !is_compressed(&object.name);
                let mut peek = Peek::new(&object.name, object.input, true);
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
        let peek = Peek::new(&object.name, object.input, self.inflate);
        let input = Checked { peek, expected: self.expected.clone(), is_checked: false };
        Ok(SourceEvent::Object(Object { input: Box::new(input), ..object }))
    }

    fn start_at(&mut self, start: Start) -> Result<(), SourceError> {
        self.source.expect_list(self.list);
        self.source.start_at(start)?;
        self.pending.clear();
        self.start = (start.offset > 0).then_some(start);
        Ok(())
    }

    fn expect_list(&mut self, list: Option<ListIdentity>) {
        self.list = list;
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

/// What is known of an object's first bytes.
enum Look {
    Known(Sniffed),
    /// The last read gave no bytes.
    NotYet(ReadOutcome),
}

/// An input whose first bytes can be looked at before they are read.
struct Peek {
    name: String,
    input: Box<dyn Input>,
    /// The first bytes, as they will be read.
    head: Vec<u8>,
    /// How many bytes of `head` were read.
    sent: usize,
    ended: bool,
    /// Whether compressed bytes are inflated.
    inflate: bool,
    /// Whether the first bytes showed that they are compressed.
    is_inflated: bool,
}

impl Peek {
    fn new(name: &str, input: Box<dyn Input>, inflate: bool) -> Self {
        // What the source has inflated is not inflated again.
        let inflate = inflate && !is_compressed(name);
        let (name, head) = (name.to_owned(), Vec::new());
        Self { name, input, head, sent: 0, ended: false, inflate, is_inflated: false }
    }

    /// Reads until it is known what the first bytes are.
    fn look(&mut self, timeout: Option<Duration>) -> Result<Look, SourceError> {
        loop {
            match sniff(&self.head, self.ended) {
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
        let stored = Self { head, ended: self.ended, ..Self::new("", input, false) };
        self.input = kind.inflate(&self.name, Box::new(stored));
        (self.ended, self.inflate, self.is_inflated) = (false, false, true);
    }
}

impl Input for Peek {
    fn is_inflated(&self) -> bool {
        self.input.is_inflated()
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

/// An object that must agree with the first one of its channel. It is looked at when it is read, so
/// that a source that fetches ahead is not held up.
struct Checked {
    peek: Peek,
    expected: Arc<Expected>,
    is_checked: bool,
}

impl Input for Checked {
    fn is_inflated(&self) -> bool {
        self.peek.is_inflated()
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
        let found = match choose(name, sniffed, head, &self.plugins) {
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
