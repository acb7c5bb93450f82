//! A state of a channel that a program has kept, or a host in a checkpoint, and the comparison with
//! the channel as it is now.

use pipemill_channel::RecordOrder;
use pipemill_config::Channel;
use pipemill_ring::protocol::{Rank, Resumed, State};
use pipemill_types::{Accepted, BatchPosition};
use serde::Deserialize;

use crate::settings::{Settings, differences};

/// Version of the states that this host reads.
const VERSION: u32 = State::VERSION;

/// The state of one channel, as Python's `Stream.state_dict()` makes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedState {
    version: u32,
    pub(crate) channel: String,
    pub(crate) settings: Settings,
    schema: String,
    /// Part of the batches that the program was given: those whose number modulo `world` is `rank`.
    rank: u32,
    world: u32,
    /// Real records of the last batch that the program was given.
    given: u64,
    /// Numbers of batches after that one that are done, too: in a checkpoint of the host.
    #[serde(default)]
    pub(crate) done: Vec<u64>,
    #[serde(flatten)]
    position: BatchPosition,
}

/// The state as the place where the channel goes on, or what does not fit. Of the settings, those
/// are compared that `is_compared` says.
pub(crate) fn fitting(
    state: &SavedState,
    channel: &Channel,
    now: &Settings,
    accepted: Accepted,
    is_compared: impl Fn(&str) -> bool,
) -> Result<Resumed, Vec<String>> {
    check_form(state, channel).map_err(|fault| vec![fault])?;
    // Objects can be divided in another way where an epoch begins.
    let is_inside = state.given > 0;
    let is_due = |name: &str| is_compared(name) && (is_inside || !name.ends_with("part"));
    let faults = differences(&state.channel, &state.settings, now, accepted, is_due);
    if !faults.is_empty() {
        return Err(faults);
    }
    let rank = Rank { number: state.rank, world: state.world };
    let SavedState { schema, given, position, .. } = state.clone();
    let schema = if accepted.schema { String::new() } else { schema };
    Ok(Resumed { given, schema, rank, position, accepted })
}

/// Whether the state has the form of one that this host reads.
fn check_form(state: &SavedState, channel: &Channel) -> Result<(), String> {
    let (name, rank) = (&state.channel, Rank { number: state.rank, world: state.world });
    if state.version != VERSION {
        return Err(format!(
            "the state of `{name}` has version {}; this host reads version {VERSION}",
            state.version
        ));
    }
    if channel.order == RecordOrder::Any && state.given > 0 {
        return Err(format!(
            "channel `{name}` has order = \"any\": no place inside of an epoch says what came \
             before it; give a state that was taken between two epochs"
        ));
    }
    if state.position.header > state.position.offset {
        return Err(format!(
            "the state of `{name}` has header {} and offset {}; expected a header of at most the \
             offset",
            state.position.header, state.position.offset
        ));
    }
    if rank.number >= rank.world || rank.world > Rank::MAX_WORLD {
        let most = Rank::MAX_WORLD;
        return Err(format!(
            "the state of `{name}` says {rank}; expected a rank below the number of ranks, at most \
             {most}"
        ));
    }
    Ok(())
}
