//! Measures how fast a plugin decodes, and how the time is divided: between the plugin, the calls
//! into the sandbox, and the host's functions that it calls. A pass is measured in CPU time, so
//! other processes on the machine do not count.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use pipemill_decode::{Bytes, CallProfiler, DecodeOutcome, Stream};
use pipemill_types::{ErrorKind, Fault, ObjectFacts, StreamInfo};

use super::decode_run::PluginUnderTest;

/// Size of a chunk in bytes, as in a channel.
const CHUNK_BYTES: usize = 128 << 10;

/// The result of a measurement.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Size of the input in bytes.
    pub bytes: usize,
    /// Number of records in the input.
    pub records: u64,
    /// Number of passes over the input that were measured.
    pub passes: usize,
    /// Median CPU time of a pass.
    pub pass: Duration,
    /// Share of a pass in the plugin's code, from 0 to 1.
    pub guest: f64,
    /// Share of a pass in the host's functions that the plugin calls, from 0 to 1: the checks of
    /// the spans, checksums, and decompressing.
    pub host: f64,
    /// Share of a pass in the calls into the plugin, from 0 to 1: the copy of the chunk, and the
    /// transitions between host and plugin.
    pub boundary: f64,
    /// Median CPU time of copying the same chunks.
    pub memcpy: Duration,
}

/// Decodes the input repeatedly for about `duration`, but at least five times.
///
/// # Errors
/// The input has a decode error, or the decoder failed.
pub fn time(
    tested: &PluginUnderTest,
    input: &Arc<Vec<u8>>,
    duration: Duration,
) -> Result<Timing, Fault> {
    let records = pass(tested, input, None)?;
    let (mut passes, mut copies) = (Vec::new(), Vec::new());
    let until = Instant::now() + duration;
    while passes.len() < 5 || Instant::now() < until {
        let before = cpu_time();
        pass(tested, input, None)?;
        passes.push(cpu_time().saturating_sub(before));
        copies.push(copy(input));
    }
    // The profiler itself costs time, so it has a separate pass, and only its shares are used.
    let profiler = Arc::new(CallProfiler::default());
    let before = Instant::now();
    pass(tested, input, Some(&profiler))?;
    let whole = before.elapsed().as_secs_f64().max(f64::MIN_POSITIVE);
    let (guest, host) = profiler.spent();
    let (guest, host) = (guest.as_secs_f64() / whole, host.as_secs_f64() / whole);
    Ok(Timing {
        bytes: input.len(),
        records,
        passes: passes.len(),
        pass: median(passes),
        guest,
        host,
        boundary: (1.0 - guest - host).max(0.0),
        memcpy: median(copies),
    })
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Decodes the whole input once. Returns the number of its records.
fn pass(
    tested: &PluginUnderTest,
    input: &Arc<Vec<u8>>,
    profiler: Option<&Arc<CallProfiler>>,
) -> Result<u64, Fault> {
    let info = StreamInfo {
        channel: "bench".to_owned(),
        object: "input".to_owned(),
        max_record: tested.max_record,
        facts: ObjectFacts { size: Some(input.len() as u64), ..ObjectFacts::default() },
        ..StreamInfo::default()
    };
    let mut stream = Stream::open(&tested.plugin, &tested.options, &info, &tested.limits)?;
    if let Some(profiler) = profiler {
        stream.profile(profiler.clone());
    }
    let bytes: Bytes = input.clone();
    let (mut at, mut want, mut records) = (0, CHUNK_BYTES, 0);
    loop {
        let to = input.len().min(at + want);
        let end = to == input.len();
        let outcome = stream.decode(&bytes, at..to, end, 0)?;
        records += stream.decoded().records as u64;
        match outcome {
            DecodeOutcome::Bad { offset, message, .. } => {
                let message = format!("at byte offset {}: {message}", at + offset);
                return Err(Fault::new(ErrorKind::Decode, message, "measure with sound data"));
            }
            DecodeOutcome::Progress { consumed, more: true, .. } => {
                at += consumed;
                want = to - at;
            }
            DecodeOutcome::Progress { consumed, need, .. } => {
                at += consumed;
                if end && (at == input.len() || consumed == 0) {
                    return Ok(records);
                }
                want = if consumed == 0 { (want * 2).max(need) } else { CHUNK_BYTES.max(need) };
            }
        }
    }
}

/// Copies the input in chunks into one buffer, as chunks are copied into the sandbox.
fn copy(input: &[u8]) -> Duration {
    let mut to = vec![0u8; CHUNK_BYTES];
    let before = cpu_time();
    for chunk in input.chunks(CHUNK_BYTES) {
        to[..chunk.len()].copy_from_slice(chunk);
        std::hint::black_box(&mut to);
    }
    cpu_time().saturating_sub(before)
}

/// CPU time of this thread, which decodes.
pub(super) fn cpu_time() -> Duration {
    // This clock always exists.
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}
