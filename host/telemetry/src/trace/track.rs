//! A channel's thread in the trace: one row for the stages, one for objects and one for epochs. The
//! observer runs in the channel's thread, and the spans are made in the writer's thread.

use std::sync::Arc;
use std::time::Instant;

use pipemill_channel::{Event, Observer, Stage};
use pipemill_types::ErrorKind;
use serde_json::{Value, json};

use super::buffer::Buffer;
use super::json::{Row, TraceFile};

/// An [`Event`] of a channel's thread, with only the parts that the writer needs.
pub(super) enum ChannelEvent {
    StageBegins(Stage),
    Stopped,
    BytesRead(usize),
    RecordsDecoded(usize),
    ObjectBegins { epoch: u32, name: Box<str> },
    ObjectEnds,
    EpochEnds { number: u32, early: bool },
    DecodeErrorSkipped(ErrorKind),
    Failed(Box<str>),
}

/// Events of a channel's thread, each with its time.
pub(super) type ChannelBuffer = Buffer<(Instant, ChannelEvent)>;

/// Observer of a channel that keeps its events for the writer.
pub(super) struct ChannelRecorder(pub(super) Arc<ChannelBuffer>);

impl Observer for ChannelRecorder {
    fn event(&self, at: Instant, event: &Event<'_>) {
        let event = match *event {
            Event::StageBegins(stage) => ChannelEvent::StageBegins(stage),
            Event::Stopped => ChannelEvent::Stopped,
            Event::BytesRead(bytes) => ChannelEvent::BytesRead(bytes),
            Event::RecordsDecoded(records) => ChannelEvent::RecordsDecoded(records),
            Event::ObjectBegins { epoch, name } => {
                ChannelEvent::ObjectBegins { epoch, name: name.into() }
            }
            Event::ObjectEnds => ChannelEvent::ObjectEnds,
            Event::EpochEnds(epoch) => {
                ChannelEvent::EpochEnds { number: epoch.number, early: epoch.early }
            }
            Event::DecodeErrorSkipped { failure, .. } => {
                ChannelEvent::DecodeErrorSkipped(failure.fault.kind)
            }
            Event::Failed(failure) => ChannelEvent::Failed(failure.to_string().into()),
        };
        self.0.push((at, event));
    }
}

/// Makes spans of a channel's events. All times are in nanoseconds from the trace's start.
pub(super) struct ChannelTrack {
    row: Row,
    /// The current stage, and when it began.
    stage: Option<(Stage, u64)>,
    /// Bytes that were read in the current stage.
    read: u64,
    /// Bytes that were read since the last call of the decoder.
    undecoded: u64,
    /// Begin and end of a call of the decoder whose number of records is not known yet.
    call: Option<(u64, u64)>,
    object: Option<(u64, u32, Box<str>)>,
    /// When the current epoch began.
    epoch_from: Option<u64>,
    /// Time of the last event.
    last: u64,
}

impl ChannelTrack {
    /// Number of rows of a track.
    pub(super) const ROWS: Row = 3;

    /// The track of a channel. `row` is its first row.
    pub(super) fn new(row: Row, channel: &str, out: &mut TraceFile) -> Self {
        out.row(row, channel);
        out.row(row + 1, &format!("{channel}: objects"));
        out.row(row + 2, &format!("{channel}: epochs"));
        Self {
            row,
            stage: None,
            read: 0,
            undecoded: 0,
            call: None,
            object: None,
            epoch_from: None,
            last: 0,
        }
    }

    pub(super) fn write(&mut self, at: u64, event: ChannelEvent, out: &mut TraceFile) {
        self.last = at;
        match event {
            ChannelEvent::StageBegins(stage) => {
                self.epoch_from.get_or_insert(at);
                if self.stage.is_none_or(|(now, _)| now != stage) {
                    self.end_stage(at, out);
                    self.stage = Some((stage, at));
                }
            }
            ChannelEvent::Stopped => {
                self.end_stage(at, out);
                self.end_object(at, out);
            }
            ChannelEvent::BytesRead(bytes) => {
                // These bytes belong to the next call.
                self.end_call(0, out);
                self.read += bytes as u64;
                self.undecoded += bytes as u64;
            }
            ChannelEvent::RecordsDecoded(records) => self.end_call(records as u64, out),
            ChannelEvent::ObjectBegins { epoch, name } => {
                self.end_object(at, out);
                self.object = Some((at, epoch, name));
            }
            ChannelEvent::ObjectEnds => self.end_object(at, out),
            ChannelEvent::EpochEnds { number, early } => {
                self.end_object(at, out);
                if let Some(from) = self.epoch_from.replace(at) {
                    let name = format!("epoch {number}");
                    out.span(self.row + 2, &name, from, at, &json!({ "early": early }));
                }
            }
            ChannelEvent::DecodeErrorSkipped(kind) => {
                let args = json!({ "kind": kind.word() });
                out.instant(self.row, "decode error skipped", at, &args);
            }
            ChannelEvent::Failed(message) => {
                out.instant(self.row, "failed", at, &json!({ "message": message }));
            }
        }
    }

    /// Writes that this number of events after the last one was dropped. The open spans are not
    /// written, because their ends are not known.
    pub(super) fn write_gap(&mut self, events: u64, out: &mut TraceFile) {
        out.instant(self.row, "events were dropped", self.last, &json!({ "events": events }));
        self.end_call(0, out);
        (self.stage, self.object, self.read, self.undecoded) = (None, None, 0, 0);
    }

    /// Ends all spans that are open, at the end of the run.
    pub(super) fn finish(&mut self, at: u64, out: &mut TraceFile) {
        self.end_stage(at, out);
        self.end_object(at, out);
        self.end_call(0, out);
    }

    fn end_stage(&mut self, at: u64, out: &mut TraceFile) {
        let Some((stage, from)) = self.stage.take() else { return };
        match stage {
            Stage::Source => {
                let bytes = std::mem::take(&mut self.read);
                out.span(self.row, stage.word(), from, at, &json!({ "bytes": bytes }));
            }
            // The event with the number of its records comes later, perhaps after other stages.
            Stage::Decoder => {
                self.end_call(0, out);
                self.call = Some((from, at));
            }
            Stage::Batch | Stage::Consumer | Stage::Cores => {
                out.span(self.row, stage.word(), from, at, &Value::Object(<_>::default()));
            }
        }
    }

    fn end_call(&mut self, records: u64, out: &mut TraceFile) {
        let Some((from, to)) = self.call.take() else { return };
        let bytes = std::mem::take(&mut self.undecoded);
        let (epoch, object) = match &self.object {
            Some((_, epoch, object)) => (Some(*epoch), Some(object)),
            None => (None, None),
        };
        let args = json!({ "bytes": bytes, "records": records, "epoch": epoch, "object": object });
        out.span(self.row, Stage::Decoder.word(), from, to, &args);
    }

    fn end_object(&mut self, at: u64, out: &mut TraceFile) {
        if let Some((from, epoch, name)) = self.object.take() {
            out.span(self.row + 1, &name, from, at, &json!({ "epoch": epoch }));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// The trace events of these events, with `lost` dropped events after them.
    fn written(recorded: Vec<(u64, ChannelEvent)>, lost: u64) -> Vec<Value> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut out = TraceFile::new(file.reopen().unwrap());
        let mut track = ChannelTrack::new(1, "train", &mut out);
        for (at, event) in recorded {
            track.write(at, event, &mut out);
        }
        if lost > 0 {
            track.write_gap(lost, &mut out);
        }
        track.finish(9_000, &mut out);
        out.finish().unwrap();
        let mut text = String::new();
        file.reopen().unwrap().read_to_string(&mut text).unwrap();
        let events: Vec<Value> = serde_json::from_str(&text).unwrap();
        events.into_iter().filter(|event| event["ph"] != "M").collect()
    }

    #[test]
    fn a_call_of_the_decoder_has_its_records() {
        let events = written(
            vec![
                (1_000, ChannelEvent::StageBegins(Stage::Source)),
                (1_100, ChannelEvent::ObjectBegins { epoch: 2, name: "a\"b".into() }),
                (1_500, ChannelEvent::BytesRead(70)),
                (2_001, ChannelEvent::StageBegins(Stage::Decoder)),
                (3_000, ChannelEvent::StageBegins(Stage::Batch)),
                (3_050, ChannelEvent::StageBegins(Stage::Consumer)),
                (3_100, ChannelEvent::RecordsDecoded(7)),
                (3_200, ChannelEvent::StageBegins(Stage::Consumer)),
                (4_000, ChannelEvent::Stopped),
            ],
            0,
        );
        let call = json!({
            "ph": "X", "name": "decoder", "pid": std::process::id(), "tid": 1,
            "ts": 2.001, "dur": 0.999,
            "args": { "bytes": 70, "records": 7, "epoch": 2, "object": "a\"b" },
        });
        assert_eq!(events[2], call);
        let spans = events.iter().map(|event| (event["name"].clone(), event["dur"].clone()));
        let expected = [
            (json!("source"), json!(1.001)),
            (json!("batch"), json!(0.05)),
            (json!("decoder"), json!(0.999)),
            (json!("consumer"), json!(0.95)),
            (json!("a\"b"), json!(2.9)),
        ];
        assert!(spans.eq(expected), "{events:?}");
    }

    #[test]
    fn after_dropped_events_no_span_is_made_up() {
        let events = written(vec![(1_000, ChannelEvent::StageBegins(Stage::Source))], 3);
        assert_eq!(events.len(), 1, "no span whose end is not known: {events:?}");
        assert_eq!(events[0]["name"], "events were dropped");
        assert_eq!(events[0]["args"], json!({ "events": 3 }));
    }
}
