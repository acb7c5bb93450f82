//! Learns the fields of a channel's records before its own objects are read: from the first objects
//! of the whole source. So all hosts have the same fields, whichever parts they read, and in
//! whichever order.

use std::mem::{replace, swap};
use std::sync::Arc;

use pipemill_decode::Stream;
use pipemill_source::{Source, Start};
use pipemill_types::{Field, StreamInfo};

use crate::batch::Batch;
use crate::batch::writer::BatchWriter;
use crate::channel::Channel;
use crate::sink::grow_private;
use crate::stats::monitor::Monitor;
use crate::{ChannelStats, ErrorPolicy, OnError, Resume, SinkDelivery, SinkMemory, StopReason};

/// Bytes of memory for the records that are read to learn the fields.
const MEMORY: usize = 1 << 20;

/// How the fields of a channel's records are learned.
#[derive(Default)]
pub enum Learning {
    /// From the first object that the channel reads.
    #[default]
    FromOwn,
    /// From the first objects of this source.
    From {
        /// It has one epoch.
        source: Box<dyn Source>,
        /// Whether its list is that of the channel's own source.
        lists_all: bool,
    },
    /// The fields are known: those of the decoder, and then those that are added.
    Known(Arc<[Field]>),
}

impl Channel {
    /// The fields of the channel's records, if they are learned before its objects are read.
    ///
    /// # Errors
    /// The first objects can't be read or decoded, or the run is being stopped.
    pub(crate) fn learn(&mut self) -> Result<Option<Arc<[Field]>>, StopReason> {
        if matches!(self.learning, Learning::From { .. }) && self.declared_fields().is_some() {
            self.learning = Learning::FromOwn;
        }
        self.expect_list_of_state()?;
        let source = match &mut self.learning {
            Learning::FromOwn => return Ok(None),
            Learning::Known(fields) => return Ok(Some(fields.clone())),
            Learning::From { source, .. } => source,
        };
        let mut sink = FieldsSink { fields: None };
        let stats = ChannelStats::default();
        let skips = !matches!(self.policy.on_error(), OnError::Fail);
        let on_error = if skips { OnError::Skip } else { OnError::Fail };
        let mut policy = ErrorPolicy::new(on_error, self.policy.on_plugin_error(), 0);
        swap(&mut self.source, source);
        swap(&mut self.policy, &mut policy);
        let (resume, inflates) =
            (self.resume.take(), replace(&mut self.inflates_in_background, false));
        let mut writer = BatchWriter::new(&mut sink, None);
        let read = self.decode_objects(&mut writer, Monitor::new(&stats, &[]));
        (self.resume, self.inflates_in_background, self.policy) = (resume, inflates, policy);
        if let Learning::From { source, .. } = &mut self.learning {
            swap(&mut self.source, source);
        }
        match (sink.fields, read) {
            (Some(fields), _) => {
                self.learning = Learning::Known(fields.clone());
                Ok(Some(fields))
            }
            // The whole source has no record.
            (None, Ok(_)) => Ok(None),
            (None, Err(why)) => Err(why),
        }
    }

    /// Requires the objects that are learned from to be those of the state, if it names a list.
    fn expect_list_of_state(&mut self) -> Result<(), StopReason> {
        let list = self.resume.as_ref().and_then(Resume::list);
        let Learning::From { source, lists_all: true } = &mut self.learning else { return Ok(()) };
        if list.is_none() {
            return Ok(());
        }
        source.expect_list(list);
        source.start_at(Start::default()).map_err(|error| {
            let (parts, resume) = self.parts();
            let failure = parts.decoding.source_failure(0, error);
            self.resume = resume;
            failure.into()
        })
    }

    /// The fields that the decoder declares before it has seen a byte: then there is nothing to
    /// learn. `None` if it declares none.
    pub fn declared_fields(&self) -> Option<Arc<[Field]>> {
        let info = StreamInfo {
            channel: self.name.clone(),
            max_record: self.max_record,
            ..StreamInfo::default()
        };
        let opened = Stream::open(&self.plugin, &self.options, &info, &self.limits);
        opened.ok().and_then(|stream| stream.schema().cloned())
    }
}

/// A sink that takes the fields, and no record.
struct FieldsSink {
    fields: Option<Arc<[Field]>>,
}

impl FieldsSink {
    fn memory_of(&self, bytes: usize) -> Result<Vec<u8>, StopReason> {
        if self.fields.is_some() { Err(StopReason::Stopped) } else { Ok(vec![0; bytes]) }
    }
}

impl SinkMemory for FieldsSink {
    type Memory = Vec<u8>;

    fn memory(&mut self) -> Result<Vec<u8>, StopReason> {
        self.memory_of(MEMORY)
    }

    fn dedicated_memory(&mut self, payload: usize, _: usize) -> Result<Vec<u8>, StopReason> {
        self.memory_of(payload)
    }

    fn grow(&mut self, memory: &mut Vec<u8>, payload: usize) -> Result<(), StopReason> {
        grow_private(memory, payload);
        Ok(())
    }

    fn room(&self, memory: &Vec<u8>, _: usize, _: usize, _: usize) -> Option<usize> {
        Some(memory.len())
    }
}

impl SinkDelivery for FieldsSink {
    fn schema(&mut self, fields: &Arc<[Field]>) {
        self.fields = Some(fields.clone());
    }

    fn grant(&mut self, _: Vec<u8>, _: &mut Batch) -> Result<(), StopReason> {
        Err(StopReason::Stopped)
    }

    fn has_demand(&self) -> bool {
        true
    }

    fn wants_epoch_end(&self, _: u32) -> bool {
        false
    }

    fn end_epoch(&mut self, _: u32, _: bool) -> Result<(), StopReason> {
        Ok(())
    }
}
