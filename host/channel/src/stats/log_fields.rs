//! A failure and a channel's totals as fields of a log record.

use log::kv::{Error, Source, Value, VisitSource};
use pipemill_types::log::optional;

use crate::{Failure, Stage, StatsSnapshot};

/// Channel, position, decoder and kind of the failure. A field that is not known is null.
impl Source for Failure {
    fn visit<'kvs>(&'kvs self, visitor: &mut dyn VisitSource<'kvs>) -> Result<(), Error> {
        let fields: [(&str, Value); 7] = [
            ("channel", Value::from(&*self.channel)),
            ("epoch", self.position.epoch.into()),
            ("object", optional(self.position.object.as_deref())),
            ("offset", optional(self.position.offset)),
            ("record", optional(self.position.record)),
            ("decoder", Value::from(&*self.decoder)),
            ("kind", self.fault.kind.word().into()),
        ];
        let mut pairs = fields.into_iter();
        pairs.try_for_each(|(key, value)| visitor.visit_pair(key.into(), value))
    }
}

impl Source for StatsSnapshot {
    fn visit<'kvs>(&'kvs self, visitor: &mut dyn VisitSource<'kvs>) -> Result<(), Error> {
        let fields: [(&str, Value); 11] = [
            ("records", self.records.into()),
            ("batches", self.batches.into()),
            ("bytes", self.bytes.into()),
            ("objects", self.objects.into()),
            ("decode_errors", self.decode_errors.into()),
            ("seconds", self.time().as_secs_f64().into()),
            ("source_seconds", self.of(Stage::Source).as_secs_f64().into()),
            ("decoder_seconds", self.of(Stage::Decoder).as_secs_f64().into()),
            ("batch_seconds", self.of(Stage::Batch).as_secs_f64().into()),
            ("consumer_seconds", self.of(Stage::Consumer).as_secs_f64().into()),
            ("cores_seconds", self.of(Stage::Cores).as_secs_f64().into()),
        ];
        let mut pairs = fields.into_iter();
        pairs.try_for_each(|(key, value)| visitor.visit_pair(key.into(), value))
    }
}
