//! Compares a state that a program or a checkpoint has kept with the channel as it is now.

use pipemill_channel::RecordOrder;
use pipemill_config::Channel;
use pipemill_ring::protocol::{Rank, Resumed, State};
use pipemill_types::Accepted;

use crate::settings::{Settings, differences};
use crate::stream_config::is_inside;

/// The state as the position at which the channel resumes, or the mismatches. `is_compared` decides
/// which settings are compared.
pub(crate) fn fitting(
    state: &State,
    channel: &Channel,
    now: &Settings,
    accepted: Accepted,
    is_compared: impl Fn(&str) -> bool,
) -> Result<Resumed, Vec<String>> {
    check_form(state, channel).map_err(|fault| vec![fault])?;
    // At the start of an epoch, objects can be divided in another way.
    let is_inside = is_inside(&state.place);
    let is_due = |name: &str| is_compared(name) && (is_inside || !name.ends_with("part"));
    let faults = differences(&state.channel, &state.settings, now, accepted, is_due);
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut place = Resumed { accepted, ..state.place.clone() };
    if accepted.schema {
        place.schema.clear();
    }
    Ok(place)
}

/// Whether the form of the state is one that this host reads.
fn check_form(state: &State, channel: &Channel) -> Result<(), String> {
    let Resumed { position, rank, passed, delivered, .. } = &state.place;
    let name = &state.channel;
    if state.version != State::VERSION {
        return Err(format!(
            "the state of `{name}` has version {}; this host reads version {}",
            state.version,
            State::VERSION
        ));
    }
    if channel.order == RecordOrder::Any && is_inside(&state.place) {
        return Err(format!(
            "channel `{name}` has order = \"any\": no place inside of an epoch says what came \
             before it; give a state that was taken between two epochs"
        ));
    }
    if u64::from(position.header) > position.offset {
        return Err(format!(
            "the state of `{name}` has header {} and offset {}; expected a header of at most the \
             offset",
            position.header, position.offset
        ));
    }
    if *passed >= u64::from(Rank::MAX_WORLD) || *passed > 0 && *delivered == 0 {
        return Err(format!(
            "the state of `{name}` has passed {passed} and delivered {delivered}; expected a \
             number below the largest number of ranks, and 0 at the start of an epoch"
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
