//! Parses one `aialgs.data.Record`: finds its parts.
//!
//! `Record{map<string, Value> features: 1, map<string, Value> label: 2, string uid: 3,
//! string metadata: 4}`.

use std::ops::Range;

use pipemill_parsing::protobuf::{MessageMap, MessageReader, OneOf, WireError};

use crate::settings::Settings;
use crate::template_cache::TemplateCache;
use crate::tensor::Tensor;

/// The bytes that a record was parsed from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordBytes<'a> {
    pub(crate) bytes: &'a [u8],
    /// The start of the record in `bytes`.
    pub(crate) base: usize,
    /// Whether `bytes` are the chunk, so that fields can be spans of it. Otherwise they are joined
    /// parts.
    pub(crate) in_chunk: bool,
}

/// The last record that was parsed. One value serves all records, so that its memory is reused.
/// Ranges count in the bytes that the record was parsed from.
#[derive(Debug)]
pub(crate) struct Record {
    features: MessageMap,
    label: MessageMap,
    value: OneOf,
    /// The tensor of each column.
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) uid: Option<Range<usize>>,
    pub(crate) metadata: Option<Range<usize>>,
    /// The range of the whole record.
    pub(crate) payload: Range<usize>,
    template: TemplateCache,
    /// The ranges of all values, for the template. It is a member so that its memory is reused.
    holes: Vec<Range<usize>>,
}

impl Record {
    pub(crate) fn new(settings: &Settings) -> Self {
        let (features, label) = settings.columns.split_at(settings.features);
        Self {
            features: MessageMap::new(features.iter().map(|column| column.key.as_str())),
            label: MessageMap::new(label.iter().map(|column| column.key.as_str())),
            value: OneOf::default(),
            tensors: settings.columns.iter().map(|_| Tensor::default()).collect(),
            uid: None,
            metadata: None,
            payload: 0..0,
            template: TemplateCache::default(),
            holes: Vec::new(),
        }
    }

    /// Reads the record in this range.
    #[inline]
    pub(crate) fn read(&mut self, bytes: &[u8], payload: Range<usize>) -> Result<(), WireError> {
        if self.template.matches(&bytes[payload.clone()]) && self.move_to(bytes, &payload) {
            return Ok(());
        }
        self.template.clear();
        self.parse(bytes, payload.clone())?;
        if self.find_holes() {
            self.template.keep(&bytes[payload], &mut self.holes);
        }
        Ok(())
    }

    /// Moves all ranges from the previous record to this one, which matches the template. Returns
    /// false if the record must be parsed anyway; some ranges are wrong then.
    #[inline]
    fn move_to(&mut self, bytes: &[u8], payload: &Range<usize>) -> bool {
        let (from, to) = (self.payload.start, payload.start);
        let moved = |range: &Range<usize>| range.start - from + to..range.end - from + to;
        for tensor in self.tensors.iter_mut().filter(|tensor| tensor.scalar.is_some()) {
            if !tensor.move_by(bytes, moved) {
                return false;
            }
        }
        self.uid = self.uid.as_ref().map(moved);
        self.metadata = self.metadata.as_ref().map(moved);
        self.payload = payload.clone();
        true
    }

    /// Puts the ranges of all values into `holes`, counted from the start of the record. Returns
    /// false if the record can't be a template.
    fn find_holes(&mut self) -> bool {
        self.holes.clear();
        for tensor in self.tensors.iter().filter(|tensor| tensor.scalar.is_some()) {
            match tensor.values.single() {
                Some(range) if !range.is_empty() && tensor.keys.is_empty() => {
                    self.holes.push(range);
                }
                _ => return false,
            }
        }
        self.holes.extend([&self.uid, &self.metadata].into_iter().flatten().cloned());
        for hole in &mut self.holes {
            *hole = hole.start - self.payload.start..hole.end - self.payload.start;
        }
        true
    }

    #[inline]
    fn parse(&mut self, bytes: &[u8], payload: Range<usize>) -> Result<(), WireError> {
        self.features.clear();
        self.label.clear();
        (self.uid, self.metadata, self.payload) = (None, None, payload.clone());
        let mut record = MessageReader::new(bytes, payload);
        while let Some(field) = record.next()? {
            match field.number {
                1 => self.features.add(bytes, field.bytes()?)?,
                2 => self.label.add(bytes, field.bytes()?)?,
                3 => self.uid = Some(field.bytes()?),
                4 => self.metadata = Some(field.bytes()?),
                _ => {}
            }
        }
        let values = self.features.values().chain(self.label.values());
        for (tensor, value) in self.tensors.iter_mut().zip(values) {
            tensor.read(bytes, value, &mut self.value)?;
        }
        Ok(())
    }
}
