//! What machines are told, as fields, of a place and of what was done.

use log::kv::{Error, Source, Value, VisitSource};

use super::log::known;
use crate::channel::{Failure, Totals};

/// Its place, as far as it is known.
impl Source for Failure {
    fn visit<'kvs>(&'kvs self, visitor: &mut dyn VisitSource<'kvs>) -> Result<(), Error> {
        let fields: [(&str, Value); 7] = [
            ("channel", Value::from(&*self.channel)),
            ("epoch", self.epoch.into()),
            ("object", known(self.object.as_deref())),
            ("offset", known(self.offset)),
            ("record", known(self.record)),
            ("decoder", Value::from(&*self.decoder)),
            ("kind", self.fault.kind.word().into()),
        ];
        let mut pairs = fields.into_iter();
        pairs.try_for_each(|(key, value)| visitor.visit_pair(key.into(), value))
    }
}

impl Source for Totals {
    fn visit<'kvs>(&'kvs self, visitor: &mut dyn VisitSource<'kvs>) -> Result<(), Error> {
        let fields: [(&str, Value); 9] = [
            ("records", self.records.into()),
            ("batches", self.batches.into()),
            ("bytes", self.bytes.into()),
            ("objects", self.objects.into()),
            ("bad_places", self.bad_places.into()),
            ("seconds", self.time().as_secs_f64().into()),
            ("source_seconds", self.source.as_secs_f64().into()),
            ("decoder_seconds", self.decoder.as_secs_f64().into()),
            ("consumer_seconds", self.consumer.as_secs_f64().into()),
        ];
        let mut pairs = fields.into_iter();
        pairs.try_for_each(|(key, value)| visitor.visit_pair(key.into(), value))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::decode::{Fault, FaultKind};
    use crate::telemetry::json::tests::object;

    #[test]
    fn a_failure_tells_its_place() {
        let failure = Failure {
            fault: Fault::new(FaultKind::Decode, "what", "remedy"),
            channel: "train".to_owned(),
            epoch: 1,
            object: Some("a.csv".to_owned()),
            offset: Some(6),
            record: None,
            decoder: "csv".to_owned(),
            bytes: vec![1],
            missing: false,
        };
        let both: [&dyn Source; 2] = [&failure, &("length", 7)];
        assert_eq!(
            object("x", &both),
            json!({"level": "warn", "message": "x", "channel": "train", "epoch": 1,
                   "object": "a.csv", "offset": 6, "decoder": "csv", "kind": "decode", "length": 7})
        );
    }
}
