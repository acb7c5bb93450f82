//! One `aialgs.data.Record`, read: where its parts lie.
//!
//! `Record{map<string, Value> features: 1, map<string, Value> label: 2, string uid: 3,
//! string metadata: 4}`.

use std::ops::Range;

use pipemill_parsing::protobuf::{Fault, Map, OneOf, Reader};

use crate::settings::Settings;
use crate::tensor::Tensor;
use crate::twin::Twin;

/// The record that was read last. Kept for its memory.
#[derive(Debug)]
pub(crate) struct Record {
    features: Map,
    label: Map,
    value: OneOf,
    /// One for each column.
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) uid: Option<Range<usize>>,
    pub(crate) metadata: Option<Range<usize>>,
    /// Where it lies.
    pub(crate) payload: Range<usize>,
    twin: Twin,
    /// Kept for its memory.
    holes: Vec<Range<usize>>,
}

impl Record {
    pub(crate) fn new(settings: &Settings) -> Self {
        let (features, label) = settings.columns.split_at(settings.features);
        Self {
            features: Map::new(features.iter().map(|column| column.key.as_str())),
            label: Map::new(label.iter().map(|column| column.key.as_str())),
            value: OneOf::default(),
            tensors: settings.columns.iter().map(|_| Tensor::default()).collect(),
            uid: None,
            metadata: None,
            payload: 0..0,
            twin: Twin::default(),
            holes: Vec::new(),
        }
    }

    /// Reads the record that lies there.
    #[inline]
    pub(crate) fn read(&mut self, bytes: &[u8], payload: Range<usize>) -> Result<(), Fault> {
        if self.twin.is(&bytes[payload.clone()]) && self.move_to(bytes, &payload) {
            return Ok(());
        }
        self.twin.forget();
        self.read_all(bytes, payload.clone())?;
        if self.find_holes() {
            self.twin.keep(&bytes[payload], &mut self.holes);
        }
        Ok(())
    }

    /// Moves all places from the record before to this one, which is alike. False if that is not all
    /// there is to do: then some places are wrong.
    #[inline]
    fn move_to(&mut self, bytes: &[u8], payload: &Range<usize>) -> bool {
        let (from, to) = (self.payload.start, payload.start);
        let moved = |place: &Range<usize>| place.start - from + to..place.end - from + to;
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

    /// Finds what may differ in a record that is alike. False if there can't be one.
    fn find_holes(&mut self) -> bool {
        self.holes.clear();
        for tensor in self.tensors.iter().filter(|tensor| tensor.scalar.is_some()) {
            match tensor.values.single() {
                Some(place) if !place.is_empty() && tensor.keys.is_empty() => {
                    self.holes.push(place);
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
    fn read_all(&mut self, bytes: &[u8], payload: Range<usize>) -> Result<(), Fault> {
        self.features.clear();
        self.label.clear();
        (self.uid, self.metadata, self.payload) = (None, None, payload.clone());
        let mut record = Reader::new(bytes, payload);
        while let Some(entry) = record.next()? {
            match entry.number {
                1 => self.features.add(bytes, entry.bytes()?)?,
                2 => self.label.add(bytes, entry.bytes()?)?,
                3 => self.uid = Some(entry.bytes()?),
                4 => self.metadata = Some(entry.bytes()?),
                _ => {}
            }
        }
        let features = self.features.values().chain(self.label.values());
        for (tensor, value) in self.tensors.iter_mut().zip(features) {
            tensor.read(bytes, value, &mut self.value)?;
        }
        Ok(())
    }
}
