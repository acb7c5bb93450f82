//! The interface between a ring and the part of the host that delivers its batches: that part
//! decides which consumers are welcome, and where the channel begins for them. It learns which
//! batches come and which are done.

use std::collections::BTreeMap;

use super::config::RingConfig;
use super::table::{ConsumerId, Table};
use crate::protocol::{BatchPlace, EpochLength, Hello, Mode, Rank, Resumed, Tail};

/// Decides about consumers, and keeps a ledger of batches. Without one, a ring treats all consumers
/// as its [`RingConfig`](super::RingConfig) says.
///
/// All methods except for [`request`](Self::request) are called under the ring's lock: they must
/// not block, and must not call the ring.
pub trait Delivery: Send + Sync {
    /// Handles a consumer that wants to connect.
    ///
    /// # Errors
    /// The error is the reason why its HELLO can't be fulfilled.
    fn request<'a>(&'a self, hello: &'a Hello) -> Result<Box<dyn Request + 'a>, String>;

    /// Restarts the channel at its configured beginning, because a consumer's request has failed.
    fn restart_as_configured(&self, table: &mut Table);

    /// Records that a batch was filled, with its position and the number of its real records.
    /// Returns consumers that are refused because of it, with the reasons.
    fn filled(&self, table: &Table, batch: Resumed) -> Vec<(ConsumerId, String)>;

    /// Records that a consumer of this rank is connected. Returns the reason to refuse it, if a
    /// batch was filled before that is one.
    fn connected(&self, rank: u32) -> Option<String>;

    /// Records that the batch with this number was ACKed by all its consumers, or that nobody wants
    /// it.
    fn done(&self, batch: u64);

    /// Records that the batch after which this rank resumes has this number.
    fn found(&self, rank: u32, batch: u64);

    /// Records the end of an epoch; `next` is the position of the next batch.
    fn epoch_ended(&self, next: BatchPlace);
}

/// The request of a consumer that wants to connect.
pub trait Request {
    /// Admits the consumer. It may make the channel restart elsewhere for the consumer, with
    /// [`Table::restart`]. It is called under the ring's lock: see [`Delivery`].
    ///
    /// # Errors
    /// The error is the reason why the consumer is not welcome.
    fn admit(self: Box<Self>, ring: LockedRing<'_>) -> Result<Admitted, Denied>;
}

/// The properties of a welcome consumer.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// Its rank in mode `Rank`; 0 in other modes.
    pub rank: u32,
    /// Number of grants that it may hold at once.
    pub credits: u32,
    /// How batches are divided among consumers.
    pub mode: Mode,
    /// The state after which it resumes.
    pub resumed: Option<Resumed>,
    /// The settings on which a state of the channel depends.
    pub settings: BTreeMap<String, String>,
    /// The length of each epoch, if it is known and the same for all.
    pub length: Option<EpochLength>,
}

/// The reason why a consumer is not welcome, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// For this reason.
    Because(String),
    /// For this reason, but only while these consumers are connected.
    WhileConnected(Vec<ConsumerId>, String),
}

impl From<String> for Denied {
    fn from(reason: String) -> Denied {
        Denied::Because(reason)
    }
}

impl From<RankError> for Denied {
    fn from(error: RankError) -> Denied {
        Denied::Because(error.to_string())
    }
}

impl From<TooFewSlots> for Denied {
    fn from(error: TooFewSlots) -> Denied {
        Denied::Because(error.to_string())
    }
}

/// The reason why a consumer can't be the rank that it requests. The host adds the advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RankError {
    /// The number or the world is too large.
    #[error(
        "rank: expected a rank below the number of ranks, and at most {most} ranks; found {0}",
        most = Rank::MAX_WORLD
    )]
    OutOfRange(Rank),
    /// The channel's batches are not divided.
    #[error("rank: each consumer gets all batches of this channel")]
    NotDivided,
    /// The channel has this many ranks, and the consumer requests none.
    #[error("this channel is read by {0} ranks")]
    Missing(u32),
}

/// The error of a ring with too few slots for its ranks. The host adds the advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{world} ranks that hold {held} batches each need {needed} slots, and this channel has {slots}"
)]
pub struct TooFewSlots {
    /// Number of ranks.
    pub world: u32,
    /// Number of batches that each of them holds at once.
    pub held: u32,
    /// Number of slots that this needs.
    pub needed: u32,
    /// Number of existing slots.
    pub slots: u32,
}

/// A ring under its lock.
pub struct LockedRing<'a> {
    /// The batches and consumers.
    pub table: &'a mut Table,
    /// Whether the writer has come to its end or failed, and can't restart.
    pub writer_ended: bool,
    /// Number of batches so far, including those of earlier runs.
    pub batches: u64,
    /// The ring's settings.
    pub config: &'a RingConfig,
}

/// The default delivery of a ring.
pub(super) struct AsConfigured;

impl Delivery for AsConfigured {
    fn request<'a>(&'a self, hello: &'a Hello) -> Result<Box<dyn Request + 'a>, String> {
        if hello.batch.is_some() || hello.state.is_some() {
            return Err(ONLY_AS_CONFIGURED.into());
        }
        Ok(Box::new(hello))
    }

    fn restart_as_configured(&self, _: &mut Table) {}

    fn filled(&self, _: &Table, _: Resumed) -> Vec<(ConsumerId, String)> {
        Vec::new()
    }

    fn connected(&self, _: u32) -> Option<String> {
        None
    }

    fn done(&self, _: u64) {}

    fn found(&self, _: u32, _: u64) {}

    fn epoch_ended(&self, _: BatchPlace) {}
}

/// The refusal of a consumer with another request.
const ONLY_AS_CONFIGURED: &str = "this host can't go on at a state, and can't change its batches";

/// The refusal of a consumer that takes the batches as they are configured.
impl Request for &Hello {
    fn admit(self: Box<Self>, ring: LockedRing<'_>) -> Result<Admitted, Denied> {
        let (mode, world) = ring.table.division();
        check_rank(mode, world, self.rank)?;
        if !is_same_division(mode, world, &self) {
            return Err(Denied::Because(ONLY_AS_CONFIGURED.into()));
        }
        let wanted = self.credits.unwrap_or(ring.config.credits);
        let credits = credits(ring.config.slots, wanted, mode, world, None)?;
        if mode == Mode::Rank {
            check_rank_is_free(ring.table, self.rank.unwrap_or_default())?;
        }
        let rank = self.rank.map_or(0, |rank| rank.number);
        Ok(Admitted { rank, credits, mode, resumed: None, settings: BTreeMap::new(), length: None })
    }
}

/// Whether a consumer can be this rank of a channel that is divided among `world` consumers.
///
/// # Errors
/// The error is the reason why it can't.
pub fn check_rank(mode: Mode, world: u32, rank: Option<Rank>) -> Result<(), RankError> {
    match (mode, rank) {
        (_, Some(rank)) if rank.number >= rank.world || rank.world > Rank::MAX_WORLD => {
            Err(RankError::OutOfRange(rank))
        }
        (Mode::Broadcast, Some(_)) => Err(RankError::NotDivided),
        (Mode::Rank, None) => Err(RankError::Missing(world)),
        _ => Ok(()),
    }
}

/// Whether the consumer wants the batches divided as they are.
pub fn is_same_division(mode: Mode, world: u32, hello: &Hello) -> bool {
    hello.rank.is_none_or(|rank| mode == Mode::Rank && rank.world == world)
}

/// Whether no consumer has this rank.
///
/// # Errors
/// The error names the consumer that has it.
pub fn check_rank_is_free(table: &Table, rank: Rank) -> Result<(), Denied> {
    let Some(taken) = table.consumer_of(rank.number) else { return Ok(()) };
    let why = format!("rank: another consumer is connected as {rank}; each rank connects once");
    Err(Denied::WhileConnected(vec![taken], why))
}

/// The number of grants that a consumer may hold at once if it requests `wanted`, in a ring with
/// this number of slots. One slot is left for the writer and, in mode `Rank`, the slots of the
/// batches that wait until their round is known.
///
/// # Errors
/// The slots are too few for this number of ranks.
pub fn credits(
    slots: u32,
    wanted: u32,
    mode: Mode,
    world: u32,
    tail: Option<Tail>,
) -> Result<u32, TooFewSlots> {
    if mode != Mode::Rank {
        return Ok(wanted.min(slots - 1));
    }
    let (held, needed) = (wanted.min(2), slots_of_ranks(world, wanted.min(2), tail));
    if slots < needed {
        return Err(TooFewSlots { world, held, needed, slots });
    }
    let waiting = slots_of_ranks(world, 0, tail);
    Ok(wanted.min((slots - waiting) / world))
}

/// Number of slots that a channel needs if its batches are divided among `world` ranks, each of
/// which holds `held` batches. One is left to be filled, and batches wait until it is known whether
/// their round is full: all of it with [`Tail::Drop`], otherwise one.
pub fn slots_of_ranks(world: u32, held: u32, tail: Option<Tail>) -> u32 {
    let waiting = if tail == Some(Tail::Drop) { world } else { 1 };
    world.saturating_mul(held).saturating_add(waiting).saturating_add(1)
}
