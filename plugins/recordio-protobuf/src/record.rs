//! One `aialgs.data.Record`, read: where its parts lie.
//!
//! `Record{map<string, Value> features: 1, map<string, Value> label: 2, string uid: 3,
//! string metadata: 4}`.

use std::ops::Range;

use pipemill_protobuf::{Fault, Map, OneOf, Reader};

use crate::settings::Settings;
use crate::tensor::Tensor;

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
        }
    }

    /// Reads the record that lies there.
    #[inline]
    pub(crate) fn read(&mut self, bytes: &[u8], payload: Range<usize>) -> Result<(), Fault> {
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
