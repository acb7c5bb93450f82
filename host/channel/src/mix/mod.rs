//! A mix: a channel whose records come from several channels, drawn one by one.
//!
//! **Order**: the input of each record is drawn with the weights of the inputs (`draw`). The record
//! is the next one of that input. So the order depends only on the inputs, the weights, the seed
//! and the epoch: the mix waits for the input that was drawn, even if others have records.
//!
//! **Way**: each input is a channel with a thread, a source and a decoder of its own (`input`), and
//! is a few batches ahead of the mix. The mix notes which records make a batch, and then each value
//! is copied once, into the batch. A window of a shuffle gets these batches as if they came from a
//! decoder.
//!
//! **Shards**: the inputs may be shards of an index, which give records round robin (`shards`).
//!
//! **Restart**: a batch's position has the positions of all inputs at its first record
//! (`position`), in place of an object's. From there on, the same records are drawn.
//!
//! - `mixer`: the loop of a mix: draws record after record, and fills batches with them.

mod draw;
mod input;
mod mixer;
mod position;
mod shards;

use std::sync::Arc;
use std::thread;

use pipemill_source::Stop;
use pipemill_source::cache::CacheCounters;
use pipemill_types::{
    Accepted, BatchPosition, BatchSize, ErrorKind, Fault, InputPositions, Position,
};

use self::input::{InputSink, connect};
pub use self::position::{Comparison, is_same_input};
pub use self::shards::Shards;

use self::mixer::Mixer;
use self::shards::{RoundRobin, ShardsPlace};
use crate::batch::BatchStart;
use crate::batch::writer::BatchWriter;
use crate::channel::{Channel, Outcome, no_window_thread, outcome};
use crate::shuffle::with_window;
use crate::stats::monitor::Monitor;
use crate::stats::observer::Observer;
use crate::stats::stage_timer::Activity;
use crate::stats::timed_sink::TimedSink;
use crate::{ChannelStats, Failure, Resume, Shuffle, Sink, StopReason};

/// A channel of records that are drawn from other channels.
pub struct Mix {
    /// Its name.
    pub name: String,
    /// The channels that it draws from: two or more, or any number of shards.
    pub inputs: Vec<MixInput>,
    /// Stops the sources of the inputs, and nothing else.
    pub stop: Stop,
    /// Determines the order. Each epoch has an order of its own.
    pub seed: u64,
    /// The end of an epoch.
    pub until: Until,
    /// The shards of an index that are its inputs, which give records round robin. `None`: inputs
    /// are drawn by their weights.
    pub shards: Option<Shards>,
    /// Number of epochs.
    pub epochs: u32,
    /// The number of records of each batch.
    pub batch: BatchSize,
    /// Changes the order of the records that were drawn.
    pub shuffle: Option<Shuffle>,
    /// Where to resume. `None`: at the beginning.
    pub resume: Option<Resume>,
    /// Each of them gets every event of the mix's thread, in this order.
    pub observers: Vec<Box<dyn Observer>>,
}

/// A channel that a mix draws from.
pub struct MixInput {
    /// The channel. Its epochs are those of the mix; with [`Until::Records`] it has no last epoch.
    pub channel: Channel,
    /// How often it is drawn, as a part of the sum of all weights; 1 or more, below 2^48.
    pub weight: u64,
    /// The channel's statistics.
    pub stats: Arc<ChannelStats>,
}

/// The end of an epoch of a mix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// The epoch ends when the first input has no more records of it, and is drawn.
    First,
    /// The epoch ends when no input has more records of it. Each record comes once. An input at its
    /// end is not drawn any more.
    All,
    /// After this many records, 1 or more. Inputs continue where they were, and begin their next
    /// epoch at the end of one.
    Records(u64),
}

impl Mix {
    /// Runs until all epochs are over, an input that is drawn fails, or the run is stopped. `stats`
    /// belongs to this mix alone.
    pub fn run<S: Sink + Send>(&mut self, sink: &mut S, stats: &ChannelStats) -> Outcome {
        let observers = std::mem::take(&mut self.observers);
        let monitor = Monitor::new(stats, &observers);
        let outcome = match self.shuffle {
            Some(shuffle) => self.run_with_window(sink, shuffle, monitor),
            None => {
                let mut sink = TimedSink::new(sink, monitor, Activity::Consumer);
                self.run_into(&mut sink, Some(self.batch), monitor)
            }
        };
        self.observers = observers;
        outcome
    }

    /// The counts of the caches of its inputs.
    pub fn caches(&self) -> Vec<Arc<CacheCounters>> {
        self.inputs.iter().flat_map(|input| input.channel.caches()).collect()
    }

    /// Runs with a window in a thread of its own.
    fn run_with_window<S: Sink + Send>(
        &mut self,
        sink: &mut S,
        shuffle: Shuffle,
        monitor: Monitor<'_>,
    ) -> Outcome {
        let name = format!("window-{}", self.name);
        let ran = with_window(sink, shuffle, self.batch, name, monitor, |window| {
            self.run_into(window, None, monitor)
        });
        ran.unwrap_or_else(|error| no_window_thread(&self.name, "mix", &error, monitor))
    }

    /// Ends the last stage of the mix's thread.
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
        monitor: Monitor<'_>,
    ) -> Outcome {
        let mut writer = BatchWriter::new(sink, size);
        // A restarted mix continues its counts.
        writer.counts().granted.set(monitor.totals().batches);
        let mixed = match self.place() {
            Ok(place) => self.mix(place, &mut writer, monitor),
            Err(fault) => Err(self.failure(0, fault).into()),
        };
        outcome(mixed.map(|()| None), &mut writer, monitor)
    }

    /// The place at which the mix begins.
    fn place(&mut self) -> Result<Place, Fault> {
        let resume = self.resume.take().unwrap_or_else(Resume::at_start);
        let BatchPosition { epoch, inputs, .. } = &resume.position;
        let mut place = Place {
            epoch: *epoch,
            record: resume.record(),
            to_skip: resume.to_skip(),
            inputs: None,
            is_repeated: false,
            schema: resume.schema.clone(),
            accepted: resume.accepted,
        };
        // At the start of an epoch there is no object.
        let is_inside = resume.delivered > 0 || !resume.position.object.is_empty();
        if let Some(shards) = self.shards.as_ref().filter(|_| is_inside) {
            let names = self.inputs.iter().map(|input| input.channel.name.as_str());
            let ShardsPlace { record, inputs, is_repeated } = shards.resume(&resume, names);
            (place.record, place.to_skip, place.is_repeated) = (record, 0, is_repeated);
            place.inputs = Some(InputPositions::from(inputs));
        } else if !resume.position.object.is_empty() {
            let names = self.inputs.iter().map(|input| input.channel.name.as_str());
            position::check_inputs(inputs, names)?;
            place.inputs = Some(inputs.clone());
        }
        Ok(place)
    }

    /// Starts the inputs, and mixes all epochs from this place on.
    fn mix<S: Sink>(
        &mut self,
        place: Place,
        writer: &mut BatchWriter<'_, S>,
        monitor: Monitor<'_>,
    ) -> Result<(), StopReason> {
        let (names, weights): (Vec<_>, Vec<_>) =
            self.inputs.iter().map(|input| (input.channel.name.clone(), input.weight)).unzip();
        let starts = self.starts(&place);
        let stats: Vec<_> = self.inputs.iter().map(|input| input.stats.clone()).collect();
        monitor.waits_for_workers(&stats);
        let decoders: Vec<_> =
            self.inputs.iter().map(|input| input.channel.plugin.name().to_owned()).collect();
        // A mix that is restarted has stopped its sources.
        self.stop.take_back();
        thread::scope(|scope| {
            let mut readers = Vec::new();
            for (input, (position, has_ended)) in self.inputs.iter_mut().zip(starts) {
                let (sink, mut reader) = connect();
                reader.begin_at(position.clone(), has_ended);
                readers.push(reader);
                let (delivered, schema, accepted) = (0, place.schema.clone(), place.accepted);
                // A position of a mix has the positions of all inputs, so they must be short.
                let plugin = input.channel.plugin.clone();
                input.channel.plugin = plugin.with_save_distance(None);
                input.channel.resume = Some(Resume { position, delivered, schema, accepted });
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
                shards: self.shards.as_ref(),
                round_robin: RoundRobin::default(),
                seed: self.seed,
                batch: self.shuffle.is_none().then_some(self.batch),
                size: self.batch,
                writer,
                monitor,
                picks: Vec::new(),
                bytes: 0,
                start: BatchStart::default(),
                drawn: 0,
                is_silent: false,
                is_repeated: place.is_repeated,
                to_skip: 0,
            };
            let mixed = mixer.mix_epochs(&place, self.epochs);
            // Some inputs may wait for bytes that the mix does not need.
            self.stop.request();
            mixed
        })
    }

    /// The positions at which the inputs begin, and whether each has ended.
    fn starts(&self, place: &Place) -> Vec<(BatchPosition, bool)> {
        let start = || {
            // The place of an input in a later epoch depends on all records before it.
            let epoch = if let Until::Records(_) = self.until { 0 } else { place.epoch };
            (BatchPosition::of_epoch(epoch), false)
        };
        match &place.inputs {
            Some(inputs) => inputs.iter().map(|at| (at.position.clone(), at.ended)).collect(),
            None => self.inputs.iter().map(|_| start()).collect(),
        }
    }

    fn failure(&self, epoch: u32, fault: Fault) -> Failure {
        let decoder = self.inputs.first().map_or("", |input| input.channel.plugin.name());
        failure(&self.name, decoder, epoch, fault)
    }
}

/// The place at which a mix begins.
struct Place {
    epoch: u32,
    /// Number of the first record that is drawn, in its epoch.
    record: u64,
    /// Records from there on that were delivered already.
    to_skip: u64,
    /// The positions of the inputs. `None`: at the start of the epoch.
    inputs: Option<InputPositions>,
    /// The first record was delivered: it is drawn again only to be copied.
    is_repeated: bool,
    schema: Option<String>,
    accepted: Accepted,
}

fn run_input(input: &mut MixInput, mut sink: InputSink) {
    let outcome = input.channel.run(&mut sink, &input.stats);
    input.channel.stop(&input.stats);
    sink.end(outcome);
}

fn failure(channel: &str, decoder: &str, epoch: u32, fault: Fault) -> Failure {
    Failure::new(channel, decoder, Position::epoch(epoch), fault)
}
