//! The loop of a mix: draws record after record, and fills batches with them.

use std::sync::Arc;

use pipemill_types::{BatchPosition, BatchSize, ErrorKind, Fault, Field, InputPositions};

use super::draw::Draws;
use super::input::{InputReader, Next};
use super::shards::{RoundRobin, Shards};
use super::{Place, Until, failure};
use crate::batch::BatchStart;
use crate::batch::copy::picked::PickedRecords;
use crate::batch::copy::pieces::PiecePlace;
use crate::batch::cut::CutPoint;
use crate::batch::field_names::field_names;
use crate::batch::writer::BatchWriter;
use crate::channel::Outcome;
use crate::epoch_end::{end_whole, ends_before_state, report_dropped};
use crate::stats::monitor::Monitor;
use crate::stats::stage_timer::Activity;
use crate::{ChannelStats, Sink, StopReason};

/// Bytes and records that go into a shuffle's window at once.
const PORTION_BYTES: usize = 1 << 20;
const PORTION_RECORDS: usize = 4_096;

/// A record that was drawn.
#[derive(Clone, Copy)]
pub(super) struct Pick {
    input: usize,
    place: PiecePlace,
}

/// The records of a batch.
struct Picked<'a> {
    readers: &'a [InputReader],
    picks: &'a [Pick],
}

impl PickedRecords for Picked<'_> {
    fn count(&self) -> usize {
        self.picks.len()
    }

    fn value(&self, at: usize, field: usize) -> Option<&[u8]> {
        let Pick { input, place } = self.picks[at];
        self.readers[input].parts.value(place, field)
    }

    fn length(&self, at: usize, field: usize) -> u32 {
        let Pick { input, place } = self.picks[at];
        self.readers[input].parts.length(place, field)
    }

    fn start_of(&self, _: usize) -> Option<u64> {
        None
    }
}

/// The result of a draw: a record, or the event in its place.
enum Drawn {
    Record(usize),
    EpochEnd,
}

/// A running mix.
pub(super) struct Mixer<'a, 's, S: Sink> {
    pub(super) name: &'a str,
    pub(super) names: &'a [String],
    pub(super) decoders: &'a [String],
    pub(super) weights: &'a [u64],
    pub(super) stats: &'a [Arc<ChannelStats>],
    pub(super) readers: Vec<InputReader>,
    pub(super) until: Until,
    /// The shards that are its inputs, and the one that gives records now.
    pub(super) shards: Option<&'a Shards>,
    pub(super) round_robin: RoundRobin,
    pub(super) seed: u64,
    /// The number of records of each batch. `None`: portions for a window.
    pub(super) batch: Option<BatchSize>,
    /// The size of the batches that consumers get.
    pub(super) size: BatchSize,
    pub(super) writer: &'a mut BatchWriter<'s, S>,
    pub(super) monitor: Monitor<'a>,
    /// The records of the next batch, and the bytes of their values.
    pub(super) picks: Vec<Pick>,
    pub(super) bytes: usize,
    /// The position of the next batch.
    pub(super) start: BatchStart,
    /// Number of records of the epoch that were drawn.
    pub(super) drawn: u64,
    /// Whether the records of this epoch are skipped.
    pub(super) is_silent: bool,
    /// The first record is drawn only to be copied.
    pub(super) is_repeated: bool,
    /// Records to skip, because they were delivered already.
    pub(super) to_skip: u64,
}

impl<S: Sink> Mixer<'_, '_, S> {
    /// Mixes all epochs from `place` on.
    pub(super) fn mix_epochs(&mut self, place: &Place, epochs: u32) -> Result<(), StopReason> {
        self.receive_fields(place.epoch)?;
        if let (Until::Records(_), None) = (self.until, &place.inputs) {
            for epoch in 0..place.epoch {
                self.mix_epoch(epoch, 0, true)?;
            }
        }
        self.writer.skip_records(place.to_skip);
        for epoch in place.epoch..epochs {
            let first = if epoch == place.epoch { place.record } else { 0 };
            self.monitor.object_begins(epoch, &self.names.join(", "));
            self.to_skip = self.writer.take_to_skip(u64::MAX);
            let early = match self.mix_epoch(epoch, first, false) {
                Err(StopReason::EpochEnded) => true,
                other => other.map(|()| false)?,
            };
            self.end_epoch(epoch, early)?;
        }
        Ok(())
    }

    /// Waits until each input has declared the fields of its records, or has no record. So a mix of
    /// inputs that don't fit each other fails before its first batch.
    fn receive_fields(&mut self, epoch: u32) -> Result<(), StopReason> {
        self.monitor.enter(Activity::ReadingWorkers);
        for input in 0..self.readers.len() {
            match self.readers[input].next(|| Ok(()), |_, _| ())? {
                Next::Fields(fields) => self.check_fields(input, epoch, &fields)?,
                other => self.readers[input].put_back(other),
            }
        }
        Ok(())
    }

    /// Checks that all inputs have the same fields.
    fn check_fields(
        &mut self,
        input: usize,
        epoch: u32,
        fields: &Arc<[Field]>,
    ) -> Result<(), StopReason> {
        let Err(fault) = self.writer.set_schema(fields) else { return Ok(()) };
        let Some(known) = self.writer.schema() else { return Ok(()) };
        let message = format!(
            "its records have the fields {}; the mix `{}` has {} from a channel before it",
            field_names(fields),
            self.name,
            field_names(known)
        );
        let remedy = "channels that are mixed need the same fields: set the `options` of their \
                      decoders so, or take one of them out of the mix";
        let fault = Fault::new(fault.kind, message, remedy);
        Err(failure(&self.names[input], &self.decoders[input], epoch, fault).into())
    }

    /// Mixes the records of an epoch, from this one on. `is_silent`: they are skipped.
    fn mix_epoch(&mut self, epoch: u32, first: u64, is_silent: bool) -> Result<(), StopReason> {
        let draws = Draws::new(self.seed, epoch);
        (self.drawn, self.is_silent) = (first, is_silent);
        // The first record begins a round.
        self.round_robin = RoundRobin::default();
        while let Drawn::Record(input) = self.draw(&draws, epoch)? {
            self.drawn += 1;
            if self.to_skip > 0 || is_silent {
                self.readers[input].parts.take();
                self.readers[input].release_taken();
                self.to_skip = self.to_skip.saturating_sub(1);
            } else {
                self.pick(input, epoch)?;
            }
        }
        if !is_silent && !self.picks.is_empty() {
            self.fill(epoch)?;
        }
        Ok(())
    }

    /// Draws the input of the next record, which has one.
    fn draw(&mut self, draws: &Draws, epoch: u32) -> Result<Drawn, StopReason> {
        let record = self.drawn;
        if let Until::Records(count) = self.until
            && record >= count
        {
            return Ok(Drawn::EpochEnd);
        }
        if self.picks.is_empty() {
            self.note_start(epoch, record);
        }
        let mut epochs_without_record = 0;
        loop {
            let Some(input) = self.input(draws, record) else { return Ok(Drawn::EpochEnd) };
            match (self.next(input, epoch)?, self.until) {
                (Next::Fields(fields), _) => self.check_fields(input, epoch, &fields)?,
                (Next::Record, _) => {
                    self.round_robin.given();
                    return Ok(Drawn::Record(input));
                }
                (Next::EpochEnd(_), Until::First) => return Ok(Drawn::EpochEnd),
                (Next::EpochEnd(_), Until::All) => self.readers[input].has_ended = true,
                // The input has ended twice without a record between.
                (Next::EpochEnd(ended), Until::Records(_)) if epochs_without_record > 0 => {
                    let message = format!("its epoch {ended} has no record to mix");
                    let remedy = "take it out of the mix, or use until = \"all\"";
                    let fault = Fault::new(ErrorKind::Source, message, remedy);
                    return Err(self.input_failure(input, epoch, fault));
                }
                (Next::EpochEnd(_), Until::Records(_)) => epochs_without_record += 1,
                (Next::Ended(outcome), _) => return Err(self.ended(input, epoch, outcome)),
            }
        }
    }

    /// The input of this record of the epoch; `None` at the end of the epoch.
    fn input(&mut self, draws: &Draws, record: u64) -> Option<usize> {
        if let Some(shards) = self.shards {
            let is_over = shards.ends_before(record);
            let readers = &self.readers;
            let has_ended = |input: usize| readers[input].has_ended;
            let next = || self.round_robin.input(shards.per_round(), readers.len(), has_ended);
            return (!is_over).then(next).flatten();
        }
        let weight = |(reader, weight): (&InputReader, &u64)| {
            if reader.has_ended { 0 } else { *weight }
        };
        draws.input(record, self.readers.iter().zip(self.weights).map(weight))
    }

    /// Notes the position of a batch that begins with this record.
    fn note_start(&mut self, epoch: u32, record: u64) {
        if let Some(shards) = self.shards {
            self.start.position = shards.position(epoch, record);
            return;
        }
        let position = |(reader, name): (&InputReader, &String)| reader.position(name);
        let positions: Vec<_> = self.readers.iter().zip(self.names).map(position).collect();
        self.start.position = BatchPosition {
            object: self.names.join(", "),
            first_record: record,
            inputs: InputPositions::from(positions),
            ..BatchPosition::of_epoch(epoch)
        };
    }

    /// The next item of an input in this epoch.
    fn next(&mut self, input: usize, epoch: u32) -> Result<Next, StopReason> {
        let (writer, monitor, is_silent) = (&*self.writer, self.monitor, self.is_silent);
        let reader = &mut self.readers[input];
        if let Until::First | Until::All = self.until
            && reader.epoch() > epoch
        {
            return Ok(Next::EpochEnd(epoch));
        }
        if reader.parts.has_record() {
            return Ok(Next::Record);
        }
        monitor.enter(Activity::ReadingWorkers);
        let poll = || match !is_silent && writer.wants_epoch_end(epoch) {
            true => Err(StopReason::EpochEnded),
            false => Ok(()),
        };
        let next = reader.next(poll, |records, bytes| {
            monitor.bytes_read(bytes);
            monitor.records_mixed(records);
        });
        monitor.enter(Activity::Batch);
        monitor.errors_of(self.stats);
        next
    }

    /// Adds the next record of an input to the batch.
    fn pick(&mut self, input: usize, epoch: u32) -> Result<(), StopReason> {
        let reader = &mut self.readers[input];
        let place = reader.parts.take();
        self.bytes += reader.parts.bytes(place);
        self.picks.push(Pick { input, place });
        let is_full = match self.batch {
            Some(size) => self.picks.len() >= size.records,
            None => self.picks.len() >= PORTION_RECORDS || self.bytes >= PORTION_BYTES,
        };
        if is_full { self.fill(epoch) } else { Ok(()) }
    }

    /// Copies the records to a batch, which leaves if it is full.
    fn fill(&mut self, epoch: u32) -> Result<(), StopReason> {
        if self.writer.wants_epoch_end(epoch) {
            return Err(StopReason::EpochEnded);
        }
        if !std::mem::take(&mut self.is_repeated) {
            let picked = Picked { readers: &self.readers, picks: &self.picks };
            self.writer.fill(&self.start, 0, &picked)?;
            let point = if self.batch.is_some() { CutPoint::Decoded } else { CutPoint::NoRoom };
            self.writer.cut_at(point)?;
        }
        if let Some(shards) = self.shards.filter(|it| it.copies_after() == Some(self.drawn)) {
            self.fill_with_copies(shards.position_of_copies(epoch))?;
        }
        self.drop_picks();
        self.monitor.batches_granted(self.writer.granted());
        Ok(())
    }

    /// Lets a batch of copies of the last record leave. None of its records is real.
    fn fill_with_copies(&mut self, position: BatchPosition) -> Result<(), StopReason> {
        let last = self.picks.len().saturating_sub(1)..;
        let picked = Picked { readers: &self.readers, picks: &self.picks[last] };
        let start = BatchStart { position, ..self.start.clone() };
        self.writer.fill(&start, 0, &picked)?;
        self.writer.leave_as_copies()
    }

    fn drop_picks(&mut self) {
        self.picks.clear();
        self.bytes = 0;
        self.readers.iter_mut().for_each(InputReader::release_taken);
    }

    /// Ends an epoch, and moves the inputs on to the next one.
    fn end_epoch(&mut self, epoch: u32, early: bool) -> Result<(), StopReason> {
        self.monitor.enter(Activity::Batch);
        self.drop_picks();
        if self.to_skip > 0 {
            // A window skips the records that are left.
            self.writer.skip_records(self.to_skip);
        }
        let (name, decoder) = (self.name, &self.decoders[0]);
        let early = early
            || !end_whole(self.writer, epoch, |left| {
                failure(name, decoder, epoch, ends_before_state(epoch, left)).into()
            })?;
        if early {
            self.writer.end_epoch(epoch, true)?;
        }
        self.writer.skip_records(0);
        self.to_skip = 0;
        let left_out = self.shards.filter(|_| !early).map_or(0, Shards::left_out);
        let dropped = self.writer.take_dropped() + left_out;
        report_dropped(self.name, Some(self.size), epoch, dropped);
        self.monitor.object_ends();
        self.monitor.epoch_ends(epoch, early);
        match self.until {
            Until::First | Until::All => self.skip_rest(epoch),
            // The records of the next epoch do not depend on when this one was ended.
            Until::Records(_) if early => self.mix_rest(epoch),
            Until::Records(_) => Ok(()),
        }
    }

    /// Moves all inputs on to the next epoch.
    fn skip_rest(&mut self, epoch: u32) -> Result<(), StopReason> {
        self.monitor.enter(Activity::ReadingWorkers);
        for input in 0..self.readers.len() {
            self.readers[input].has_ended = false;
            if let Some(outcome) = self.readers[input].skip_epoch(epoch)? {
                return Err(self.ended(input, epoch, outcome));
            }
        }
        Ok(())
    }

    /// Draws and skips the rest of an epoch that was ended early.
    fn mix_rest(&mut self, epoch: u32) -> Result<(), StopReason> {
        let first = self.drawn;
        self.mix_epoch(epoch, first, true)
    }

    /// The reason to stop for a mix of which an input has no more records in any epoch.
    fn ended(&self, input: usize, epoch: u32, outcome: Outcome) -> StopReason {
        match outcome {
            Outcome::Failed(failure) => failure.into(),
            Outcome::Stopped | Outcome::Restart => StopReason::Stopped,
            Outcome::Ended => {
                let message = format!("it ended before epoch {epoch} of the mix `{}`", self.name);
                let remedy = "give the mix fewer `epochs`, or the channel more input";
                self.input_failure(input, epoch, Fault::new(ErrorKind::Source, message, remedy))
            }
        }
    }

    fn input_failure(&self, input: usize, epoch: u32, fault: Fault) -> StopReason {
        failure(&self.names[input], &self.decoders[input], epoch, fault).into()
    }
}
