//! The file of states that `pipemill run --resume` reads, such as a checkpoint.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use pipemill_config::{Channel, Config};
use pipemill_ring::protocol::{Resumed, State};
use pipemill_types::Accepted;
use serde_json::Value;

use crate::saved_state::fitting;
use crate::settings::{DecoderIdentity, differences, is_of_decoder, settings};

/// The largest size of a file of states, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Reads a file of states, and makes the channels that it names resume from them. Whether their
/// decoders are still the same is checked when these are loaded: see [`check_decoders`].
///
/// # Errors
/// All faults: the file can't be read or has another form, or a state does not fit its channel.
pub fn resume_from(
    file: &Path,
    accepted: Accepted,
    config: &mut Config,
) -> Result<(), Vec<String>> {
    let name = file.display();
    let values = read(file).map_err(|why| vec![format!("{name}: {why}")])?;
    let mut faults = Vec::new();
    for value in values {
        match State::of_json(&value) {
            Ok(state) => faults.extend(apply(state, accepted, config)),
            Err(error) => faults.push(format!("is no state of a channel: {error}")),
        }
    }
    if faults.is_empty() {
        faults.extend(config.channels.iter().filter_map(check_ranks));
    }
    if faults.is_empty() {
        return Ok(());
    }
    Err(faults.into_iter().map(|fault| format!("{name}: {fault}")).collect())
}

/// The states in the file of `run --resume`: of one channel, or a list of them.
fn read(file: &Path) -> Result<Vec<Value>, String> {
    let size = std::fs::metadata(file).map_err(|error| format!("can't read it: {error}"))?.len();
    if size > MAX_FILE_BYTES {
        return Err(format!("has {size} bytes; a file of states has at most {MAX_FILE_BYTES}"));
    }
    let mut text = Vec::new();
    // A file that is not a regular file, or that grows, may have any number of bytes.
    let read =
        std::fs::File::open(file).and_then(|file| file.take(MAX_FILE_BYTES).read_to_end(&mut text));
    read.map_err(|error| format!("can't read it: {error}"))?;
    match serde_json::from_slice(&text) {
        Ok(Value::Array(states)) => Ok(states),
        Ok(state) => Ok(vec![state]),
        Err(error) => Err(format!("is not JSON: {error}")),
    }
}

/// Whether the states of a channel are one state, or one for each rank.
fn check_ranks(channel: &Channel) -> Option<String> {
    let states = &channel.resume;
    let world = states.first().map_or(1, |state| state.rank.world);
    let is_of_world = |state: &Resumed| state.rank.world == world;
    let ranks: BTreeSet<_> = states.iter().map(|state| state.rank.number).collect();
    let is_whole = states.iter().all(is_of_world) && ranks.len() == states.len();
    if states.len() < 2 || is_whole && states.len() == world as usize {
        return None;
    }
    let given: Vec<_> = states.iter().map(|state| state.rank.to_string()).collect();
    Some(format!(
        "has {} states of `{}`, those of {}; give the state of one rank, or one of each",
        states.len(),
        channel.name,
        given.join(", ")
    ))
}

/// Makes the state's channel resume from it. Returns the mismatches.
fn apply(state: State, accepted: Accepted, config: &mut Config) -> Vec<String> {
    let known: Vec<_> = config.channels.iter().map(|channel| channel.name.clone()).collect();
    let Some(channel) = config.channels.iter_mut().find(|channel| channel.name == state.channel)
    else {
        let known = known.join("`, `");
        return vec![format!("has a state of `{}`; the channels are `{known}`", state.channel)];
    };
    let (now, is_compared) = (settings(channel, &[]), |name: &str| !is_of_decoder(name));
    match fitting(&state, channel, &now, accepted, is_compared) {
        Ok(resumed) => {
            channel.resume.push(resumed);
            channel.resume_settings.push(state.settings);
            channel.done.extend(state.done.unwrap_or_default());
            Vec::new()
        }
        Err(faults) => faults,
    }
}

/// The differences between the decoders of a channel and those of the states from which it resumes.
pub fn check_decoders(channel: &Channel, decoders: &[DecoderIdentity]) -> Vec<String> {
    let now = settings(channel, decoders);
    let states = channel.resume.iter().zip(&channel.resume_settings);
    let faults = states.flat_map(|(state, then)| {
        differences(&channel.name, then, &now, state.accepted, is_of_decoder)
    });
    // The differences of several ranks usually are the same.
    faults.collect::<BTreeSet<_>>().into_iter().collect()
}
