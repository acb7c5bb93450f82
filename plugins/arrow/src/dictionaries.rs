//! Batches of dictionaries: each replaces a dictionary, or adds values to it. In a file, they may come
//! after the batches that need them, as polars writes them: they are looked for there.

use std::collections::BTreeMap;

use pipemill_plugin::{DecodeError, Progress, Records};

use crate::columns::{DictionaryRef, Layout};
use crate::dictionary::Dictionary;
use crate::flatbuffer::Malformed;
use crate::message::{BatchHeader, Framing, HeaderError, Message, MessageKind, Prefix};
use crate::stream::{Stream, Whole, loader};
use crate::{Arrow, Call, State, Step};

/// The dictionaries by their numbers. `None` is one that was damaged.
pub(crate) type Dictionaries = BTreeMap<i64, Option<Dictionary>>;

impl Stream {
    /// The dictionaries that wanted columns refer to.
    fn wanted(&self) -> impl Iterator<Item = &DictionaryRef> {
        let columns = self.layout().into_iter().flat_map(|layout: &Layout| &layout.columns);
        columns.filter_map(|column| column.values.dictionary.as_ref())
    }
}

impl Arrow {
    /// Whether a dictionary may come after the batch that needs it.
    pub(crate) fn misses_dictionary(&self) -> bool {
        let State::Messages(stream) = &self.state else { return false };
        stream.is_file
            && stream.wanted().any(|wanted| !stream.dictionaries.contains_key(&wanted.id))
    }

    /// Reads the missing dictionaries after the batch of `size` bytes. They are read again when it
    /// is their turn.
    pub(crate) fn look_ahead(
        &mut self,
        size: usize,
        call: &mut Call,
        out: &mut Records,
    ) -> Result<Step, DecodeError> {
        let framing = match &self.state {
            State::Messages(stream) => stream.framing().unwrap_or(Framing::Marked),
            _ => return Ok(Step::GoOn),
        };
        let most = self.limits.max_record;
        let start = call.at;
        let is_too_far = |at: usize, size: u64| size.saturating_add((at - start) as u64) > most;
        let too_far = || {
            let why = format!(
                "the batch needs a dictionary that comes later in the file, after more than \
                 max_record ({most} bytes); raise max_record, or write dictionaries before the \
                 batches, as a stream has them"
            );
            Err(DecodeError::refused(start, why))
        };
        let wait = Ok(Step::Return(Progress::consumed(start)));
        let mut at = start + size;
        while self.misses_dictionary() {
            let rest = &call.chunk[at..];
            let prefix = framing.read(rest, self.limits.metadata);
            let (metadata, needed) = match prefix {
                Prefix::Metadata(place) => (place.clone(), place.end),
                Prefix::Cut(needed) => (0..0, needed),
                // The batch says what it lacks.
                _ => break,
            };
            match rest.len() < needed {
                _ if is_too_far(at, needed as u64) => return too_far(),
                true if call.end => break,
                true => return wait,
                false => {}
            }
            let Ok(message) = Message::read(&rest[metadata]) else { break };
            let size = message.body.saturating_add(needed as u64);
            match (rest.len() as u64) < size {
                _ if is_too_far(at, size) => return too_far(),
                true if call.end => break,
                true => return wait,
                false => {}
            }
            let whole = Whole { body: needed, size: size as usize };
            if message.kind == MessageKind::Dictionary {
                // An error of it is reported when it is its turn.
                let _ = self.read_dictionary(&message, at, whole, call, out);
            }
            at += whole.size;
        }
        Ok(Step::GoOn)
    }

    /// Reads the dictionary that begins at `at`.
    pub(crate) fn read_dictionary(
        &mut self,
        message: &Message,
        at: usize,
        whole: Whole,
        call: &mut Call,
        out: &mut Records,
    ) -> Result<Step, DecodeError> {
        let State::Messages(stream) = &mut self.state else { return Ok(Step::GoOn) };
        let id = match message.header.i64(0, 0) {
            Ok(id) => id,
            Err(what) => {
                let why = format!("expected {} in a dictionary, found something else", what.0);
                return Err(stream.damaged(at, why));
            }
        };
        let Some(reference) = stream.wanted().find(|wanted| wanted.id == id).cloned() else {
            return Ok(Step::GoOn);
        };
        let is_turn = at == call.at;
        if is_turn && self.header.is_some() {
            self.can_restart = false;
        }
        let next = (at + whole.size) as u64;
        let header = header(message, &reference);
        if let Ok((_, header)) = &header
            && header.codec.is_some()
            && call.spent > 0
            && is_turn
        {
            return Ok(call.again());
        }
        let before = stream.dictionaries.remove(&id);
        let read = match header {
            Ok((is_delta, header)) => {
                self.values(&reference, (is_delta, &header), before, (at, whole), call, out)
            }
            Err(HeaderError::Refused(why) | HeaderError::Bad(why)) => Err(why),
        };
        let State::Messages(stream) = &mut self.state else { return Ok(Step::GoOn) };
        match read {
            Ok(dictionary) => {
                stream.dictionaries.insert(id, Some(dictionary));
                Ok(Step::GoOn)
            }
            Err(why) => {
                stream.dictionaries.insert(id, None);
                self.can_restart = false;
                Err(DecodeError::skippable(at, format!("dictionary {id}: {why}"), next))
            }
        }
    }

    /// The dictionary with the values of a batch.
    fn values(
        &self,
        reference: &DictionaryRef,
        (is_delta, header): (bool, &BatchHeader),
        before: Option<Option<Dictionary>>,
        (at, whole): (usize, Whole),
        call: &mut Call,
        out: &mut Records,
    ) -> Result<Dictionary, String> {
        let mut dictionary = match (is_delta, before) {
            (true, Some(None)) => return Err("it adds to one that was damaged".to_owned()),
            (true, Some(Some(before))) => before,
            _ => Dictionary::default(),
        };
        let mut loader = loader(header, at, whole, call, out);
        let stored = loader.values(&reference.values);
        call.spent += loader.decompressed;
        let stored = stored.map_err(|why| why.message())?;
        if stored.validity.rows != header.rows {
            let (rows, found) = (header.rows, stored.validity.rows);
            return Err(format!("expected {rows} values, found {found}"));
        }
        let most = self.limits.max_record.saturating_mul(2);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let message = &call.chunk[at..at + whole.size];
        let values = stored.open(reference.values.storage, message);
        dictionary.add(&values, reference.values.convert, most)?;
        Ok(dictionary)
    }
}

/// Whether a batch of a dictionary adds values, and its header.
fn header<'a>(
    message: &Message<'a>,
    reference: &DictionaryRef,
) -> Result<(bool, BatchHeader<'a>), HeaderError> {
    let is_delta = message.header.bool(2, false)?;
    let batch = message.header.table(1)?.ok_or(Malformed("a batch of values"))?;
    Ok((is_delta, BatchHeader::read(&batch, reference.size)?))
}
