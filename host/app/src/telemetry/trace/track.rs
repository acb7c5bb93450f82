//! A channel's thread in the trace: a row for the stages, one for objects and one for epochs. It hears in the
//! channel's thread, and makes spans of it in the writer's.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};

use super::buffer::Buffer;
use super::json::{Out, Row};
use pipemill_channel::{Event, Observer, Stage};
use pipemill_types::ErrorKind;

/// What was heard, to be kept for the writer.
pub(super) enum Recorded {
    Enter(Stage),
    Stop,
    Read(usize),
    Placed(usize),
    Object { epoch: u32, name: Box<str> },
    ObjectEnd,
    EpochEnd { number: u32, early: bool },
    DecodeError(ErrorKind),
    Failed(Box<str>),
}

/// What a channel's thread has said.
pub(super) type Heap = Buffer<(Instant, Recorded)>;

/// Hears in the channel's thread.
pub(super) struct EventRecorder(pub(super) Arc<Heap>);

impl Observer for EventRecorder {
    fn event(&self, at: Instant, event: &Event<'_>) {
        let recorded = match *event {
            Event::StageBegins(stage) => Recorded::Enter(stage),
            Event::Stopped => Recorded::Stop,
            Event::BytesRead(bytes) => Recorded::Read(bytes),
            Event::RecordsDecoded(records) => Recorded::Placed(records),
            Event::ObjectBegins { epoch, name } => Recorded::Object { epoch, name: name.into() },
            Event::ObjectEnds => Recorded::ObjectEnd,
            Event::EpochEnds(epoch) => {
                Recorded::EpochEnd { number: epoch.number, early: epoch.early }
            }
            Event::DecodeErrorSkipped { failure, .. } => Recorded::DecodeError(failure.fault.kind),
            Event::Failed(failure) => Recorded::Failed(failure.to_string().into()),
        };
        self.0.push((at, recorded));
    }
}

/// Makes spans of what was heard. Times are nanoseconds from the trace's beginning.
pub(super) struct Track {
    row: Row,
    /// The stage that it is at, and since when.
    stage: Option<(Stage, u64)>,
    /// Bytes read at this stage.
    read: u64,
    /// Bytes that the decoder has not been called for.
    fresh: u64,
    /// A call of the decoder, from and to, whose records are not known yet.
    call: Option<(u64, u64)>,
    object: Option<(u64, u32, Box<str>)>,
    /// When the epoch began.
    epoch_from: Option<u64>,
    last: u64,
}

impl Track {
    /// Rows that a track takes.
    pub(super) const ROWS: Row = 3;

    /// The track of a channel, on three rows from this one on.
    pub(super) fn new(row: Row, channel: &str, out: &mut Out) -> Self {
        out.row(row, channel);
        out.row(row + 1, &format!("{channel}: objects"));
        out.row(row + 2, &format!("{channel}: epochs"));
        Self {
            row,
            stage: None,
            read: 0,
            fresh: 0,
            call: None,
            object: None,
            epoch_from: None,
            last: 0,
        }
    }

    pub(super) fn hear(&mut self, at: u64, recorded: Recorded, out: &mut Out) {
        self.last = at;
        match recorded {
            Recorded::Enter(stage) => {
                self.epoch_from.get_or_insert(at);
                if self.stage.is_none_or(|(now, _)| now != stage) {
                    self.end_stage(at, out);
                    self.stage = Some((stage, at));
                }
            }
            Recorded::Stop => {
                self.end_stage(at, out);
                self.end_object(at, out);
            }
            Recorded::Read(bytes) => {
                self.read += bytes as u64;
                self.fresh += bytes as u64;
            }
            Recorded::Placed(records) => self.end_call(records as u64, out),
            Recorded::Object { epoch, name } => {
                self.end_object(at, out);
                self.object = Some((at, epoch, name));
            }
            Recorded::ObjectEnd => self.end_object(at, out),
            Recorded::EpochEnd { number, early } => {
                self.end_object(at, out);
                if let Some(from) = self.epoch_from.replace(at) {
                    let name = format!("epoch {number}");
                    out.span(self.row + 2, &name, from, at, &json!({ "early": early }));
                }
            }
            Recorded::DecodeError(kind) => {
                let args = json!({ "kind": kind.word() });
                out.instant(self.row, "decode error skipped", at, &args);
            }
            Recorded::Failed(message) => {
                out.instant(self.row, "failed", at, &json!({ "message": message }));
            }
        }
    }

    /// So many events behind the last one are missing: what was going on is not known any more.
    pub(super) fn lose(&mut self, events: u64, out: &mut Out) {
        out.instant(self.row, "events were dropped", self.last, &json!({ "events": events }));
        self.end_call(0, out);
        (self.stage, self.object, self.read, self.fresh) = (None, None, 0, 0);
    }

    /// The run is over, whatever is going on.
    pub(super) fn finish(&mut self, at: u64, out: &mut Out) {
        self.end_stage(at, out);
        self.end_object(at, out);
        self.end_call(0, out);
    }

    fn end_stage(&mut self, at: u64, out: &mut Out) {
        self.end_call(0, out);
        let Some((stage, from)) = self.stage.take() else { return };
        match stage {
            Stage::Source => {
                let bytes = std::mem::take(&mut self.read);
                out.span(self.row, stage.word(), from, at, &json!({ "bytes": bytes }));
            }
            // It is told behind it how many records came of it.
            Stage::Decoder => self.call = Some((from, at)),
            Stage::Consumer => {
                out.span(self.row, stage.word(), from, at, &Value::Object(<_>::default()));
            }
        }
    }

    fn end_call(&mut self, records: u64, out: &mut Out) {
        let Some((from, to)) = self.call.take() else { return };
        let bytes = std::mem::take(&mut self.fresh);
        let (epoch, object) = match &self.object {
            Some((_, epoch, object)) => (Some(*epoch), Some(object)),
            None => (None, None),
        };
        let args = json!({ "bytes": bytes, "records": records, "epoch": epoch, "object": object });
        out.span(self.row, Stage::Decoder.word(), from, to, &args);
    }

    fn end_object(&mut self, at: u64, out: &mut Out) {
        if let Some((from, epoch, name)) = self.object.take() {
            out.span(self.row + 1, &name, from, at, &json!({ "epoch": epoch }));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// What is written of these moments.
    fn written(moments: Vec<(u64, Recorded)>, lost: u64) -> Vec<Value> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut out = Out::new(file.reopen().unwrap());
        let mut track = Track::new(1, "train", &mut out);
        for (at, heard) in moments {
            track.hear(at, heard, &mut out);
        }
        if lost > 0 {
            track.lose(lost, &mut out);
        }
        track.finish(9_000, &mut out);
        out.finish().unwrap();
        let mut text = String::new();
        file.reopen().unwrap().read_to_string(&mut text).unwrap();
        let events: Vec<Value> = serde_json::from_str(&text).unwrap();
        events.into_iter().filter(|event| event["ph"] != "M").collect()
    }

    #[test]
    fn a_call_is_told_with_its_records() {
        let events = written(
            vec![
                (1_000, Recorded::Enter(Stage::Source)),
                (1_100, Recorded::Object { epoch: 2, name: "a\"b".into() }),
                (1_500, Recorded::Read(70)),
                (2_001, Recorded::Enter(Stage::Decoder)),
                (3_000, Recorded::Enter(Stage::Consumer)),
                (3_100, Recorded::Placed(7)),
                (3_200, Recorded::Enter(Stage::Consumer)),
                (4_000, Recorded::Stop),
            ],
            0,
        );
        let call = json!({
            "ph": "X", "name": "decoder", "pid": std::process::id(), "tid": 1, "ts": 2.001, "dur": 0.999,
            "args": { "bytes": 70, "records": 7, "epoch": 2, "object": "a\"b" },
        });
        assert_eq!(events[1], call);
        let spans = events.iter().map(|event| (event["name"].clone(), event["dur"].clone()));
        let expected = [
            (json!("source"), json!(1.001)),
            (json!("decoder"), json!(0.999)),
            (json!("consumer"), json!(1.0)),
            (json!("a\"b"), json!(2.9)),
        ];
        assert!(spans.eq(expected), "{events:?}");
    }

    #[test]
    fn behind_a_gap_nothing_is_made_up() {
        let events = written(vec![(1_000, Recorded::Enter(Stage::Source))], 3);
        assert_eq!(events.len(), 1, "no span whose end is not known: {events:?}");
        assert_eq!(events[0]["name"], "events were dropped");
        assert_eq!(events[0]["args"], json!({ "events": 3 }));
    }
}
