//! What a ring asks of the part of the host that delivers its batches: who is welcome, and where
//! the channel begins for them. It is told which batches come and which are done.

use std::collections::BTreeMap;

use super::config::RingConfig;
use super::table::{ConsumerId, Table};
use crate::protocol::{BatchPlace, Hello, Mode, Rank, Resumed, Tail};

/// Decides about consumers, and keeps account of batches. Without one, a ring gives all consumers
/// what its [`RingConfig`](super::RingConfig) says.
///
/// All methods but [`request`](Self::request) are called under the ring's lock: they must not wait,
/// and must not call the ring.
pub trait Delivery: Send + Sync {
    /// A consumer wants to connect.
    ///
    /// # Errors
    /// Why its HELLO asks for what can't be.
    fn request<'a>(&'a self, hello: &'a Hello) -> Result<Box<dyn Request + 'a>, String>;

    /// Lets the channel restart where it is configured to begin, because what a consumer requested
    /// has failed.
    fn restart_as_configured(&self, table: &mut Table);

    /// A batch was filled, whose place this is, with the number of its real records. Returns
    /// consumers that are refused because of it, with the reasons.
    fn filled(&self, table: &Table, batch: Resumed) -> Vec<(ConsumerId, String)>;

    /// The batch of this number is ACKed by all who get it, or nobody wants it.
    fn done(&self, batch: u64);

    /// The batch after which this rank goes on has this number.
    fn found(&self, rank: u32, batch: u64);

    /// An epoch is at its end, and this is the place of the next batch.
    fn epoch_ended(&self, next: BatchPlace);
}

/// The request of a consumer that wants to connect.
pub trait Request {
    /// Lets the consumer in. The channel may be made to restart elsewhere for it, with
    /// [`Table::restart`]. Called under the ring's lock: see [`Delivery`].
    ///
    /// # Errors
    /// Why the consumer is not welcome.
    fn admit(self: Box<Self>, ring: LockedRing<'_>) -> Result<Admitted, Denied>;
}

/// What a welcome consumer gets.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// Its rank in mode `Rank`; 0 in the others.
    pub rank: u32,
    /// Grants that it may hold at once.
    pub credits: u32,
    /// How batches are divided among consumers.
    pub mode: Mode,
    /// The state after which it goes on.
    pub resumed: Option<Resumed>,
    /// The settings that a state of the channel depends on.
    pub settings: BTreeMap<String, String>,
}

/// Why a consumer is not welcome, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// For this reason.
    Because(String),
    /// For this reason, as long as these consumers are connected.
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

/// Why a consumer can't be the rank that it says. What to do about it is for the host to say.
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
    /// The channel has this many ranks, and the consumer says none.
    #[error("this channel is read by {0} ranks")]
    Missing(u32),
}

/// A ring has too few slots for its ranks. What to do about it is for the host to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{world} ranks that hold {held} batches each need {needed} slots, and this channel has {slots}"
)]
pub struct TooFewSlots {
    /// Number of ranks.
    pub world: u32,
    /// Batches that each of them holds at once.
    pub held: u32,
    /// Slots that this needs.
    pub needed: u32,
    /// Slots that there are.
    pub slots: u32,
}

/// A ring under its lock.
pub struct LockedRing<'a> {
    /// The batches and consumers.
    pub table: &'a mut Table,
    /// The writer has come to its end or failed, and can't restart.
    pub writer_ended: bool,
    /// Number of batches so far, with those of the runs before this one.
    pub batches: u64,
    /// The ring's settings.
    pub config: &'a RingConfig,
}

/// The delivery of a ring without one.
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

    fn done(&self, _: u64) {}

    fn found(&self, _: u32, _: u64) {}

    fn epoch_ended(&self, _: BatchPlace) {}
}

/// The refusal of a consumer that asks for something else.
const ONLY_AS_CONFIGURED: &str = "this host can't go on at a state, and can't change its batches";

/// Of a consumer that takes the batches as they are configured.
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
        Ok(Admitted { rank, credits, mode, resumed: None, settings: BTreeMap::new() })
    }
}

/// Whether a consumer can be this rank of a channel that is divided among `world` consumers.
///
/// # Errors
/// Why not.
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
/// The consumer that has it stands in the way.
pub fn check_rank_is_free(table: &Table, rank: Rank) -> Result<(), Denied> {
    let Some(taken) = table.consumer_of(rank.number) else { return Ok(()) };
    let why = format!("rank: another consumer is connected as {rank}; each rank connects once");
    Err(Denied::WhileConnected(vec![taken], why))
}

/// The number of grants that a consumer may hold at once that wants `wanted`, in a ring with this
/// number of slots. One slot is left for the writer, and in mode `Rank` those of the batches that
/// wait until their round is known.
///
/// # Errors
/// The slots are too few for that many ranks.
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

/// Number of slots that a channel needs whose batches are dealt to `world` ranks, if each of them
/// holds `held` batches. One is left to be filled, and batches wait until it is known whether their
/// round is full: all of it with [`Tail::Drop`], otherwise one.
pub fn slots_of_ranks(world: u32, held: u32, tail: Option<Tail>) -> u32 {
    let waiting = if tail == Some(Tail::Drop) { world } else { 1 };
    world.saturating_mul(held).saturating_add(waiting).saturating_add(1)
}
