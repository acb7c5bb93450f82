//! The requests of a consumer when it connects.

use std::ffi::c_char;
use std::time::Duration;

use pipemill_ring::protocol::{BatchAcross, BatchSize, Hello, Rank, Tail};
use serde_json::Value;

use crate::error::Error;
use crate::text;

/// The library's name in the host's log.
const CLIENT: &str = concat!("c, pipemill ", env!("CARGO_PKG_VERSION"));
/// Number of grants that a program may hold by default. A loop over batches needs two.
const CREDITS: u32 = 4;
/// Milliseconds.
const WAIT: i32 = 10_000;

/// The requests of a consumer. 0 or null is the default of each: begin with `pipemill_options
/// options = {0};`.
#[repr(C)]
pub struct Options {
    /// Number of batches that the program may hold at once. 0: four. A loop needs two, the current
    /// one and the next one; with four it seldom waits for the host.
    pub credits: u32,
    /// Number of records of each batch, 1 to 1,048,576, if the channel's configuration does not set
    /// it. The first consumer of a channel decides. 0: the channel's setting.
    pub batch_records: u32,
    /// The fate of the last records if they do not fill a batch: "keep", "drop" or "pad". Null:
    /// "keep". It applies only with `batch_records`.
    pub tail: *const c_char,
    /// The unit whose last records these are: each "epoch" or each "object". Null: "epoch". It
    /// applies only with `batch_records`.
    pub batch_across: *const c_char,
    /// With `world`: this program gets the batches whose number modulo `world` is `rank`.
    pub rank: u32,
    /// Number of programs that divide the batches, at most 256. 0: they are not divided in this
    /// way.
    pub world: u32,
    /// The value that `pipemill_state` returned, in this or another process: the first batch is the
    /// next one after it. Null: the current position of the channel.
    pub state: *const c_char,
    /// Milliseconds to wait for a host that has not started yet. 0: ten seconds. -1: not at all.
    pub wait_ms: i32,
    /// Milliseconds to wait for the release of a batch, if the program holds as many as its credits
    /// allow and asks for another. 0: ten seconds. -1: for ever.
    pub hold_ms: i32,
    /// Whether the host may belong to any user. By default it must belong to this user or to root:
    /// a host's memory is trusted.
    pub allow_other_users: bool,
}

/// The checked options.
pub(crate) struct Wishes {
    pub(crate) hello: Hello,
    /// `None`: not at all.
    pub(crate) wait: Option<Duration>,
    /// `None`: for ever.
    pub(crate) hold: Option<Duration>,
    pub(crate) allow_other_users: bool,
}

impl Wishes {
    pub(crate) fn new(channel: &str, options: Option<&Options>) -> Result<Wishes, Error> {
        let hello = Hello { credits: Some(CREDITS), ..Hello::new(channel, CLIENT) };
        let (wait, hold) = (duration("", 0)?, duration("", 0)?);
        let mut wishes = Wishes { hello, wait, hold, allow_other_users: false };
        let Some(options) = options else { return Ok(wishes) };
        wishes.allow_other_users = options.allow_other_users;
        if options.credits > 0 {
            wishes.hello.credits = Some(options.credits);
        }
        wishes.hello.batch = batch_size(options)?;
        if options.world > 0 {
            wishes.hello.rank = Some(Rank { number: options.rank, world: options.world });
        } else if options.rank > 0 {
            let rank = options.rank;
            return Err(Error::argument(format!(
                "options: rank is {rank} and world is 0; world is the number of programs that \
                 divide the batches"
            )));
        }
        if let Some(state) = text::optional("options: state", options.state)? {
            let parsed: Value = serde_json::from_str(state).map_err(|error| {
                Error::argument(format!(
                    "options: state: expected the JSON that pipemill_state returned: {error}"
                ))
            })?;
            wishes.hello.state = Some(parsed);
        }
        wishes.wait = duration("wait_ms", options.wait_ms)?;
        wishes.hold = duration("hold_ms", options.hold_ms)?;
        Ok(wishes)
    }
}

fn duration(name: &str, milliseconds: i32) -> Result<Option<Duration>, Error> {
    let milliseconds = if milliseconds == 0 { WAIT } else { milliseconds };
    match (u64::try_from(milliseconds), milliseconds) {
        (Ok(milliseconds), _) => Ok(Some(Duration::from_millis(milliseconds))),
        (_, -1) => Ok(None),
        _ => Err(Error::argument(format!(
            "options: {name} is {milliseconds}; expected a number of milliseconds, 0 or -1"
        ))),
    }
}

fn batch_size(options: &Options) -> Result<Option<BatchSize>, Error> {
    let tail = text::optional("options: tail", options.tail)?;
    let across = text::optional("options: batch_across", options.batch_across)?;
    if options.batch_records == 0 {
        return match tail.or(across) {
            None => Ok(None),
            Some(_) => Err(Error::argument(
                "options: tail and batch_across are about batch_records, which is 0",
            )),
        };
    }
    let tail = match tail {
        None | Some("keep") => Tail::Keep,
        Some("drop") => Tail::Drop,
        Some("pad") => Tail::Pad,
        Some(other) => {
            let message = format!("options: tail is {other:?}; expected keep, drop or pad");
            return Err(Error::argument(message));
        }
    };
    let across = match across {
        None | Some("epoch") => BatchAcross::Epoch,
        Some("object") => BatchAcross::Object,
        Some(other) => {
            let message = format!("options: batch_across is {other:?}; expected epoch or object");
            return Err(Error::argument(message));
        }
    };
    Ok(Some(BatchSize { records: options.batch_records as usize, tail, across }))
}
