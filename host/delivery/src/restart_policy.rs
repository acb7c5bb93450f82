//! Decides what consumers may request: a number of records, a part of the batches, and a state from
//! which they resume.

use pipemill_channel::{Comparison, RecordOrder, Resume, is_same_input};
use pipemill_config::Channel;
use pipemill_ring::protocol::{EpochLength, Hello, Rank, Resumed, State};
use pipemill_types::{Accepted, BatchAcross, BatchPosition, BatchSize, Mode};

use crate::regroup::{Round, round_of};
use crate::saved_state::fitting;
use crate::settings::{DecoderIdentity, across_word, settings, tail_word};
use crate::stream_config::{StreamConfig, is_inside};

/// Decides where a channel may restart. Its methods don't block.
pub trait RestartPolicy: Send + Sync {
    /// Checks the request of a consumer of a channel that began at `now`. Its `resumed` is that of
    /// the consumer's state, or `None`.
    ///
    /// # Errors
    /// The request is refused; the error is the reason, for people.
    fn requested(&self, now: &StreamConfig, hello: &Hello) -> Result<StreamConfig, String>;

    /// The length of each epoch of a channel with this configuration, if it is known.
    fn length(&self, now: &StreamConfig) -> Option<EpochLength> {
        let _ = now;
        None
    }

    /// Whether the channel's input can be read again, from any position on.
    fn can_restart(&self) -> bool;

    /// Whether this batch, which was filled in this run, is the last batch of the state.
    fn is_same_batch(&self, state: &Resumed, batch: &Resumed, how: Match) -> bool;
}

/// How a state is compared with a batch of this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// A fact that can't be compared counts as a difference.
    Strict,
    /// A fact that can't be compared counts as equal, such as a list that was not read to its end.
    Tolerant,
}

/// The position at which a run of the channel begins.
pub fn configured(channel: &Channel, decoders: &[DecoderIdentity]) -> StreamConfig {
    let place = |state: &&Resumed| (state.position.epoch, state.first_batch());
    let resumed = channel.resume.iter().min_by_key(place).cloned();
    let of_ranks = channel.resume.iter().filter(|_| channel.resume.len() > 1);
    let states = of_ranks.map(|state| (state.rank.number, state.clone())).collect();
    let done = channel.done.iter().copied().collect();
    // In the middle of an epoch, the batches are divided as they were, until consumers ask for
    // another number of ranks.
    let divided = resumed.as_ref().filter(|state| is_inside(state) && state.rank != Rank::ONLY);
    let (mode, consumers) = match divided {
        Some(state) => (Mode::Rank, state.rank.world),
        None => (channel.mode, channel.consumers),
    };
    let (batch, settings) = (channel.batch, settings(channel, decoders));
    StreamConfig { mode, consumers, batch, resumed, states, done, settings, round: None }
}

/// The position at which the channel's thread begins.
pub fn resume(resumed: Resumed) -> Resume {
    let Resumed { delivered, schema, position, accepted, .. } = resumed;
    let schema = Some(schema).filter(|schema| !schema.is_empty());
    Resume { position, delivered, schema, accepted }
}

/// The policy of a channel with this configuration.
pub struct ConfiguredPolicy {
    channel: Channel,
    decoders: Vec<DecoderIdentity>,
    can_restart: bool,
}

impl ConfiguredPolicy {
    /// `can_restart` says whether the channel's source can be read again.
    pub fn new(
        channel: &Channel,
        decoders: Vec<DecoderIdentity>,
        can_restart: bool,
    ) -> ConfiguredPolicy {
        ConfiguredPolicy { channel: channel.clone(), decoders, can_restart }
    }

    fn batch(&self, now: &StreamConfig, hello: &Hello) -> Result<Option<BatchSize>, String> {
        let Some(asked) = hello.batch else { return Ok(now.batch) };
        let most = BatchSize::MAX_RECORDS;
        if !(1..=most).contains(&asked.records) {
            let found = asked.records;
            return Err(format!("batch: expected 1 to {most} records, found {found}"));
        }
        if self.channel.order == RecordOrder::Any && asked.across == BatchAcross::Object {
            return Err(
                "batch: the configuration says order = \"any\", which mixes the records of \
                        objects, and this consumer asks for batch_across = \"object\"; change one \
                        of them"
                    .to_owned(),
            );
        }
        match self.channel.batch {
            Some(own) if own != asked => Err(format!(
                "batch: the configuration says {}, and this consumer asks for {}; leave one of \
                 them out",
                batch_text(own),
                batch_text(asked)
            )),
            _ => Ok(Some(asked)),
        }
    }
}

fn batch_text(size: BatchSize) -> String {
    let BatchSize { records, tail, across } = size;
    format!(
        "{records} records, tail = \"{}\", batch_across = \"{}\"",
        tail_word(tail),
        across_word(across)
    )
}

/// The state after which a consumer goes on that is one of `world` ranks, and the round before
/// which all of them go on, if the state is of another number of ranks. It is the consumer's own
/// state, or that of the channel.
///
/// # Errors
/// It does not say where all ranks go on.
fn round_before<'a>(
    own: Option<&'a Resumed>,
    now: &'a StreamConfig,
    world: u32,
) -> Result<Option<(&'a Resumed, Round)>, String> {
    let Some(state) = own.or(now.resumed.as_ref()) else { return Ok(None) };
    if !is_inside(state) || state.rank.world == world {
        return Ok(None);
    }
    if own.is_none() && !now.done.is_empty() {
        return Err(format!(
            "rank: the checkpoint of epoch {} has batches after its place that are done, because \
             several consumers divided the channel, and this consumer is one of {world}; start as \
             many as there were, or go on where an epoch begins",
            state.position.epoch
        ));
    }
    let states = now.states.values().filter(|_| own.is_none()).filter(|state| is_inside(state));
    let round = match round_of(states)? {
        Some(round) => round,
        None => Round::after(state),
    };
    Ok(Some((state, round)))
}

impl RestartPolicy for ConfiguredPolicy {
    fn requested(&self, now: &StreamConfig, hello: &Hello) -> Result<StreamConfig, String> {
        let batch = self.batch(now, hello)?;
        let (mode, consumers) = match hello.rank {
            Some(Rank { world, .. }) => (Mode::Rank, world),
            None => (now.mode, now.consumers),
        };
        let configured = self.channel.consumers;
        if self.channel.mode == Mode::Rank && consumers != configured {
            return Err(format!(
                "rank: the configuration says consumers = {configured}, and this consumer is one \
                 of {consumers}; change one of them"
            ));
        }
        let channel = Channel { batch, ..self.channel.clone() };
        let resumed = match &hello.state {
            Some(state) => {
                let state = State::of_json(state)
                    .map_err(|error| format!("state: not a state of pipemill: {error}"))?;
                let accepted = Accepted::of_words(&hello.accept)?;
                let now = settings(&channel, &self.decoders);
                let is_compared = |_: &str| true;
                let resumed = fitting(&state, &channel, &now, accepted, is_compared);
                Some(resumed.map_err(|faults| faults.join("; "))?)
            }
            None => None,
        };
        let rank = match (mode, hello.rank) {
            (Mode::Rank, Some(rank)) => rank,
            (Mode::Rank, None) => Rank { number: 0, world: consumers },
            _ => Rank::ONLY,
        };
        let (resumed, round) = match round_before(resumed.as_ref(), now, rank.world)? {
            Some((state, round)) => (Some(round.resumed_by(rank, state)), Some(round)),
            None => (resumed, None),
        };
        let settings = settings(&channel, &self.decoders);
        let (states, done) = Default::default();
        Ok(StreamConfig { mode, consumers, batch, resumed, states, done, settings, round })
    }

    fn length(&self, now: &StreamConfig) -> Option<EpochLength> {
        let ranks = if now.mode == Mode::Rank { now.consumers } else { 1 };
        self.channel.epoch_length(now.batch, ranks)
    }

    fn can_restart(&self) -> bool {
        self.can_restart
    }

    fn is_same_batch(&self, state: &Resumed, batch: &Resumed, how: Match) -> bool {
        let has_window = self.channel.shuffle.is_some_and(|shuffle| shuffle.window.is_some());
        let comparison = match how {
            Match::Strict => Comparison::Whole,
            Match::Tolerant if has_window => Comparison::Lists,
            Match::Tolerant => Comparison::Known,
        };
        let place = |at: &Resumed| {
            let BatchPosition { epoch, object_number, first_record, .. } = at.position;
            let record = (object_number, first_record);
            (at.delivered, epoch, if comparison == Comparison::Lists { (0, 0) } else { record })
        };
        let (then, now) = (&state.position, &batch.position);
        place(state) == place(batch)
            && (state.accepted.objects || is_same_input(then, now, comparison))
    }
}
