//! A mix: a channel whose records come from several channels, drawn one by one.
//!
//! **Order**: the input of each record is drawn with the weights of the inputs (`draw`); the record
//! is the next one of that input. So the order follows from the inputs, the weights, the seed and
//! the epoch, and from nothing else: the mix waits for the input that was drawn, also while others
//! have records.
//!
//! **Way**: each input is a channel with a thread, a source and a decoder of its own (`input`), and
//! is a few batches ahead of the mix. The mix notes which records make a batch, and then each value
//! is copied once, into the batch. A window of a shuffle gets these batches as if they came from a
//! decoder.
//!
//! **Restart**: a batch's position has the positions of all inputs at its first record (`position`),
//! as the text that is an object's identity elsewhere. From there on, the same records are drawn.

mod draw;
mod input;
mod position;

use std::sync::Arc;
use std::thread;

use pipemill_source::Stop;
use pipemill_types::{BatchPosition, BatchSize, ErrorKind, Fault, Field, Position};

use self::draw::Draws;
use self::input::{InputReader, InputSink, Next, PartPlace, connect};
use crate::batch::BatchStart;
use crate::batch_builder::{BatchBuilder, field_names};
use crate::channel::{Channel, Outcome, ends_before_state, outcome, report_dropped};
use crate::cut::CutPoint;
use crate::monitor::Monitor;
use crate::observer::Observer;
use crate::picked::PickedRecords;
use crate::shuffle::WindowSink;
use crate::{ChannelStats, Failure, Resume, Shuffle, Sink, Stage, StopReason};

/// Bytes and records that go into a shuffle's window at once.
const PORTION_BYTES: usize = 1 << 20;
const PORTION_RECORDS: usize = 4_096;

/// A channel of records that are drawn from other channels.
pub struct Mix {
    /// Its name.
    pub name: String,
    /// The channels that it draws from, two or more.
    pub inputs: Vec<MixInput>,
    /// Stops the sources of the inputs, and nothing else.
    pub stop: Stop,
    /// What the order follows from. Each epoch has an order of its own.
    pub seed: u64,
    /// Where an epoch ends.
    pub until: Until,
    /// Number of epochs.
    pub epochs: u32,
    /// The number of records of each batch.
    pub batch: BatchSize,
    /// Changes the order of the records that were drawn.
    pub shuffle: Option<Shuffle>,
    /// Where to go on, if not at the beginning.
    pub resume: Option<Resume>,
    /// They get each event of the mix's thread, in this order.
    pub observers: Vec<Box<dyn Observer>>,
}

/// A channel that a mix draws from.
pub struct MixInput {
    /// The channel. Its epochs are those of the mix; with [`Until::Records`] it has no last epoch.
    pub channel: Channel,
    /// How often it is drawn, as a part of the sum of all weights; 1 or more, below 2^48.
    pub weight: u64,
    /// What the channel does.
    pub stats: Arc<ChannelStats>,
}

/// Where an epoch of a mix ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Where the first input has no more records of the epoch, and is drawn.
    First,
    /// Where no input has more records of the epoch. Each record comes once; an input that is at its
    /// end is not drawn any more.
    All,
    /// After this many records, 1 or more. Inputs go on where they were, and begin their next epoch
    /// where they end.
    Records(u64),
}

impl Mix {
    /// Runs until all epochs are over, an input fails that is drawn, or the run is stopped. `stats`
    /// belongs to this mix alone.
    pub fn run<S: Sink>(&mut self, sink: &mut S, stats: &ChannelStats) -> Outcome {
        let size = self.batch;
        match self.shuffle {
            Some(shuffle) => self.run_into(&mut WindowSink::new(sink, shuffle, size), None, stats),
            None => self.run_into(sink, Some(size), stats),
        }
    }

    /// The mix's thread has nothing more to do.
    pub fn stop(&self, stats: &ChannelStats) {
        Monitor::new(stats, &self.observers).stopped();
        for input in &self.inputs {
            input.channel.stop(&input.stats);
        }
    }

    /// Runs with a sink that gets batches of this size, or portions for a window.
    fn run_into<S: Sink>(
        &mut self,
        sink: &mut S,
        size: Option<BatchSize>,
        stats: &ChannelStats,
    ) -> Outcome {
        let observers = std::mem::take(&mut self.observers);
        let monitor = Monitor::new(stats, &observers);
        let mut builder = BatchBuilder::of_picked(sink, size);
        // A mix that begins again goes on counting.
        builder.counts().granted = stats.snapshot().batches;
        let mixed = match self.place() {
            Ok(place) => self.mix(place, &mut builder, monitor),
            Err(fault) => Err(self.failure(0, fault).into()),
        };
        let outcome = outcome(mixed.map(|()| None), &mut builder, monitor);
        self.observers = observers;
        outcome
    }

    /// Where the mix begins.
    fn place(&mut self) -> Result<Place, Fault> {
        let resume = self.resume.take().unwrap_or_else(Resume::at_start);
        let BatchPosition { epoch, first_record, records, identity, .. } = &resume.position;
        let mut place = Place {
            epoch: *epoch,
            record: first_record.saturating_sub(*records),
            passed_over: resume.passed_over(),
            inputs: None,
            schema: resume.schema.clone(),
        };
        if !identity.is_empty() {
            let names = self.inputs.iter().map(|input| input.channel.name.as_str());
            let positions = position::of_text(identity, names)?;
            place.inputs = Some(positions.into_iter().map(|at| (at.position, at.ended)).collect());
        }
        Ok(place)
    }

    /// Starts the inputs, and mixes all epochs from this place on.
    fn mix<S: Sink>(
        &mut self,
        place: Place,
        builder: &mut BatchBuilder<'_, S>,
        monitor: Monitor<'_>,
    ) -> Result<(), StopReason> {
        let (names, weights): (Vec<_>, Vec<_>) =
            self.inputs.iter().map(|input| (input.channel.name.clone(), input.weight)).unzip();
        let starts = self.starts(&place);
        let stats: Vec<_> = self.inputs.iter().map(|input| input.stats.clone()).collect();
        let decoders: Vec<_> =
            self.inputs.iter().map(|input| input.channel.plugin.name().to_owned()).collect();
        thread::scope(|scope| {
            let mut readers = Vec::new();
            for (input, (position, has_ended)) in self.inputs.iter_mut().zip(starts) {
                let (sink, mut reader) = connect();
                reader.begin_at(position.clone(), has_ended);
                readers.push(reader);
                let (given, schema) = (0, place.schema.clone());
                input.channel.resume = Some(Resume { position, given, schema });
                let name = format!("channel-{}", input.channel.name);
                let work = || run_input(input, sink);
                if let Err(error) = thread::Builder::new().name(name).spawn_scoped(scope, work) {
                    self.stop.request();
                    let fault = Fault::new(ErrorKind::Host, error.to_string(), "");
                    return Err(failure(&self.name, &decoders[0], place.epoch, fault).into());
                }
            }
            let mut mixer = Mixer {
                name: &self.name,
                names: &names,
                decoders: &decoders,
                weights: &weights,
                stats: &stats,
                readers,
                until: self.until,
                seed: self.seed,
                batch: self.shuffle.is_none().then_some(self.batch),
                dropped_of: self.batch,
                builder,
                monitor,
                picks: Vec::new(),
                bytes: 0,
                start: BatchStart::default(),
                drawn: 0,
                is_silent: false,
                passed_over: 0,
            };
            let mixed = mixer.mix_epochs(&place, self.epochs);
            // A mix that begins again needs its sources again: they can be read again, so none of
            // them waits for long.
            if !matches!(mixed, Err(StopReason::BeginsAgain)) {
                self.stop.request();
            }
            mixed
        })
    }

    /// Where the inputs begin.
    fn starts(&self, place: &Place) -> Vec<(BatchPosition, bool)> {
        let start = || {
            // The place of an input in a later epoch follows from all records before.
            let epoch = if let Until::Records(_) = self.until { 0 } else { place.epoch };
            (BatchPosition { epoch, ..BatchPosition::default() }, false)
        };
        let given = place.inputs.clone();
        given.unwrap_or_else(|| self.inputs.iter().map(|_| start()).collect())
    }

    fn failure(&self, epoch: u32, fault: Fault) -> Failure {
        let decoder = self.inputs.first().map_or("", |input| input.channel.plugin.name());
        failure(&self.name, decoder, epoch, fault)
    }
}

/// Where a mix begins.
struct Place {
    epoch: u32,
    /// Number of the first record that is drawn, in its epoch.
    record: u64,
    /// Records from there on that were given already.
    passed_over: u64,
    /// The positions of the inputs, and whether they have ended in this epoch. `None`: at the start
    /// of the epoch.
    inputs: Option<Vec<(BatchPosition, bool)>>,
    schema: Option<String>,
}

fn run_input(input: &mut MixInput, mut sink: InputSink) {
    let outcome = input.channel.run(&mut sink, &input.stats);
    input.channel.stop(&input.stats);
    sink.end(outcome);
}

fn failure(channel: &str, decoder: &str, epoch: u32, fault: Fault) -> Failure {
    Failure {
        fault,
        channel: channel.to_owned(),
        position: Position::epoch(epoch),
        decoder: decoder.to_owned(),
        bytes: Vec::new(),
        missing: false,
    }
}

/// A record that was drawn.
#[derive(Clone, Copy)]
struct Pick {
    input: usize,
    place: PartPlace,
}

/// The records of a batch.
struct Picked<'a> {
    readers: &'a [InputReader],
    picks: &'a [Pick],
}

impl PickedRecords for Picked<'_> {
    fn len(&self) -> usize {
        self.picks.len()
    }

    fn value(&self, at: usize, field: usize) -> Option<&[u8]> {
        let Pick { input, place } = self.picks[at];
        self.readers[input].value(place, field)
    }

    fn length(&self, at: usize, field: usize) -> u32 {
        let Pick { input, place } = self.picks[at];
        self.readers[input].length(place, field)
    }

    fn start_of(&self, _: usize) -> Option<u64> {
        None
    }
}

/// What there is in the place of a record.
enum Drawn {
    Record(usize),
    EpochEnd,
}

/// A mix that runs.
struct Mixer<'a, 's, S: Sink> {
    name: &'a str,
    names: &'a [String],
    decoders: &'a [String],
    weights: &'a [u64],
    stats: &'a [Arc<ChannelStats>],
    readers: Vec<InputReader>,
    until: Until,
    seed: u64,
    /// The number of records of each batch. `None`: portions for a window.
    batch: Option<BatchSize>,
    /// What the batches have that consumers get.
    dropped_of: BatchSize,
    builder: &'a mut BatchBuilder<'s, S>,
    monitor: Monitor<'a>,
    /// The records of the next batch, and the bytes of their values.
    picks: Vec<Pick>,
    bytes: usize,
    /// Where the next batch comes from.
    start: BatchStart,
    /// Number of records of the epoch that were drawn.
    drawn: u64,
    /// The records of this epoch are left out.
    is_silent: bool,
    /// Records that are left out, because they were given already.
    passed_over: u64,
}

impl<S: Sink> Mixer<'_, '_, S> {
    /// Mixes all epochs from the place on.
    fn mix_epochs(&mut self, place: &Place, epochs: u32) -> Result<(), StopReason> {
        self.receive_fields(place.epoch)?;
        if let (Until::Records(_), None) = (self.until, &place.inputs) {
            for epoch in 0..place.epoch {
                self.mix_epoch(epoch, 0, true)?;
            }
        }
        self.builder.pass_over(place.passed_over);
        for epoch in place.epoch..epochs {
            let first = if epoch == place.epoch { place.record } else { 0 };
            self.monitor.object_begins(epoch, &self.names.join(", "));
            self.passed_over = self.builder.take_passed_over();
            let early = match self.mix_epoch(epoch, first, false) {
                Err(StopReason::EpochEnded) => true,
                other => other.map(|()| false)?,
            };
            self.end_epoch(epoch, early)?;
        }
        Ok(())
    }

    /// Waits until each input has said which fields its records have, or has no record: so a mix
    /// that does not fit fails before its first batch.
    fn receive_fields(&mut self, epoch: u32) -> Result<(), StopReason> {
        self.monitor.enter(Stage::Source);
        for input in 0..self.readers.len() {
            match self.readers[input].next(|| Ok(()), |_, _| ())? {
                Next::Fields(fields) => self.check_fields(input, epoch, &fields)?,
                other => self.readers[input].put_back(other),
            }
        }
        Ok(())
    }

    /// All inputs are to have the same fields.
    fn check_fields(
        &mut self,
        input: usize,
        epoch: u32,
        fields: &Arc<[Field]>,
    ) -> Result<(), StopReason> {
        let Err(fault) = self.builder.set_schema(fields) else { return Ok(()) };
        let Some(known) = self.builder.schema() else { return Ok(()) };
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

    /// Mixes the records of an epoch, from this one on. `is_silent`: they are left out.
    fn mix_epoch(&mut self, epoch: u32, first: u64, is_silent: bool) -> Result<(), StopReason> {
        let draws = Draws::new(self.seed, epoch);
        (self.drawn, self.is_silent) = (first, is_silent);
        while let Drawn::Record(input) = self.draw(&draws, epoch)? {
            self.drawn += 1;
            if self.passed_over > 0 || is_silent {
                self.readers[input].take();
                self.readers[input].release_taken();
                self.passed_over = self.passed_over.saturating_sub(1);
            } else {
                self.pick(input, epoch)?;
            }
        }
        if !is_silent && !self.picks.is_empty() {
            self.fill(epoch)?;
        }
        Ok(())
    }

    /// The input of the next record: it has one.
    fn draw(&mut self, draws: &Draws, epoch: u32) -> Result<Drawn, StopReason> {
        let record = self.drawn;
        if let Until::Records(count) = self.until
            && record >= count
        {
            return Ok(Drawn::EpochEnd);
        }
        if self.picks.is_empty() {
            self.note_start(record);
        }
        let mut epochs_without_record = 0;
        loop {
            let weight = |(reader, weight): (&InputReader, &u64)| {
                if reader.has_ended { 0 } else { *weight }
            };
            let weights = self.readers.iter().zip(self.weights).map(weight);
            let Some(input) = draws.input(record, weights) else { return Ok(Drawn::EpochEnd) };
            match (self.next(input, epoch)?, self.until) {
                (Next::Fields(fields), _) => self.check_fields(input, epoch, &fields)?,
                (Next::Record, _) => return Ok(Drawn::Record(input)),
                (Next::EpochEnd(_), Until::First) => return Ok(Drawn::EpochEnd),
                (Next::EpochEnd(_), Until::All) => self.readers[input].has_ended = true,
                // The second end without a record between them.
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

    /// Notes where the batch comes from that begins with this record.
    fn note_start(&mut self, record: u64) {
        let position = |(reader, name): (&InputReader, &String)| reader.position(name);
        let positions: Vec<_> = self.readers.iter().zip(self.names).map(position).collect();
        self.start.object = self.names.join(", ");
        self.start.identity = position::to_text(&positions);
        self.start.first_record = record;
    }

    /// What an input has next in this epoch.
    fn next(&mut self, input: usize, epoch: u32) -> Result<Next, StopReason> {
        let (builder, monitor, is_silent) = (&*self.builder, self.monitor, self.is_silent);
        let reader = &mut self.readers[input];
        if let Until::First | Until::All = self.until
            && reader.epoch() > epoch
        {
            return Ok(Next::EpochEnd(epoch));
        }
        if reader.has_record() {
            return Ok(Next::Record);
        }
        monitor.enter(Stage::Source);
        let poll = || match !is_silent && builder.wants_epoch_end(epoch) {
            true => Err(StopReason::EpochEnded),
            false => Ok(()),
        };
        let next = reader.next(poll, |records, bytes| {
            monitor.bytes_read(bytes);
            monitor.records_mixed(records);
        });
        monitor.enter(Stage::Consumer);
        monitor.errors_of(self.stats);
        next
    }

    /// Adds the next record of an input to the batch.
    fn pick(&mut self, input: usize, epoch: u32) -> Result<(), StopReason> {
        let reader = &mut self.readers[input];
        let place = reader.take();
        self.bytes += reader.bytes(place);
        self.picks.push(Pick { input, place });
        let is_full = match self.batch {
            Some(size) => self.picks.len() >= size.records,
            None => self.picks.len() >= PORTION_RECORDS || self.bytes >= PORTION_BYTES,
        };
        if is_full { self.fill(epoch) } else { Ok(()) }
    }

    /// Copies the records to a batch, which leaves if it is full.
    fn fill(&mut self, epoch: u32) -> Result<(), StopReason> {
        if self.builder.wants_epoch_end(epoch) {
            return Err(StopReason::EpochEnded);
        }
        let picked = Picked { readers: &self.readers, picks: &self.picks };
        self.builder.fill(epoch, &self.start, 0, &picked)?;
        self.drop_picks();
        let point = if self.batch.is_some() { CutPoint::Decoded } else { CutPoint::NoRoom };
        self.builder.cut_at(point)?;
        self.monitor.batches_granted(self.builder.granted());
        Ok(())
    }

    fn drop_picks(&mut self) {
        self.picks.clear();
        self.bytes = 0;
        self.readers.iter_mut().for_each(InputReader::release_taken);
    }

    /// Ends an epoch, and lets the inputs go on to the next one.
    fn end_epoch(&mut self, epoch: u32, early: bool) -> Result<(), StopReason> {
        self.monitor.enter(Stage::Consumer);
        self.drop_picks();
        if self.passed_over > 0 {
            // Else a window passes over what is left.
            self.builder.pass_over(self.passed_over);
        }
        let left = self.builder.left_to_pass_over();
        if !early && left > 0 {
            let fault = ends_before_state(epoch, left);
            return Err(failure(self.name, &self.decoders[0], epoch, fault).into());
        }
        self.builder.end_epoch(epoch, early)?;
        self.builder.pass_over(0);
        self.passed_over = 0;
        let dropped = self.builder.take_dropped();
        report_dropped(self.name, Some(self.dropped_of), epoch, dropped);
        self.monitor.object_ends();
        self.monitor.epoch_ends(epoch, early);
        match self.until {
            Until::First | Until::All => self.skip_rest(epoch),
            // The records of the next epoch do not depend on when this one was ended.
            Until::Records(_) if early => self.mix_rest(epoch),
            Until::Records(_) => Ok(()),
        }
    }

    /// The inputs go on to the next epoch.
    fn skip_rest(&mut self, epoch: u32) -> Result<(), StopReason> {
        self.monitor.enter(Stage::Source);
        for input in 0..self.readers.len() {
            self.readers[input].has_ended = false;
            if let Some(outcome) = self.readers[input].skip_epoch(epoch)? {
                return Err(self.ended(input, epoch, outcome));
            }
        }
        Ok(())
    }

    /// Leaves out the records of an epoch that was ended early.
    fn mix_rest(&mut self, epoch: u32) -> Result<(), StopReason> {
        let first = self.drawn;
        self.mix_epoch(epoch, first, true)
    }

    /// Why an input has no more records of any epoch.
    fn ended(&self, input: usize, epoch: u32, outcome: Outcome) -> StopReason {
        match outcome {
            Outcome::Failed(failure) => failure.into(),
            Outcome::Stopped | Outcome::BeginsAgain => StopReason::Stopped,
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
