//! How fast a plugin is, and where the time goes: in the plugin, at the wall of the sandbox, or in the
//! host's checks.

use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use super::decode_run::PluginUnderTest;
use pipemill_decode::{CallProfiler, DecodeOutcome, Stream};
use pipemill_types::{ErrorKind, Fault, StreamInfo};

/// Bytes of a chunk, as in a channel.
const CHUNK: usize = 128 << 10;

/// What was measured.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Bytes of the input.
    pub bytes: usize,
    /// Records in it.
    pub records: u64,
    /// Passes over it.
    pub passes: usize,
    /// Time of a pass, the median.
    pub pass: Duration,
    /// Share of it spent in the plugin's code, from 0 to 1.
    pub guest: f64,
    /// Share of it spent in what the plugin asked the host for: taking and checking spans, checksums.
    pub host: f64,
    /// Share of it spent in going in and out: copying the chunk in, the calls themselves.
    pub boundary: f64,
    /// Time that copying the same chunks takes.
    pub memcpy: Duration,
}

/// Decodes the input again and again for about so long.
///
/// # Errors
/// What the decoder can't decode, or how it failed.
pub fn time(
    subject: &PluginUnderTest,
    input: &Arc<Vec<u8>>,
    patience: Duration,
) -> Result<Timing, Fault> {
    let records = pass(subject, input, None)?;
    let (mut passes, mut copies) = (Vec::new(), Vec::new());
    let until = Instant::now() + patience;
    while passes.len() < 5 || Instant::now() < until {
        let before = Instant::now();
        pass(subject, input, None)?;
        passes.push(before.elapsed());
        copies.push(copy(input));
    }
    // Watching costs time of its own, so it has a pass to itself, and gives shares only.
    let profiler = Arc::new(CallProfiler::default());
    let before = Instant::now();
    pass(subject, input, Some(&profiler))?;
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

/// Decodes the whole input; answers how many records it has.
fn pass(
    subject: &PluginUnderTest,
    input: &Arc<Vec<u8>>,
    profiler: Option<&Arc<CallProfiler>>,
) -> Result<u64, Fault> {
    let info = StreamInfo {
        channel: "bench".to_owned(),
        epoch: 0,
        object: "input".to_owned(),
        max_record: subject.max_record,
        offsets: false,
    };
    let mut stream = Stream::open(&subject.plugin, &subject.options, &info, &subject.limits)?;
    if let Some(profiler) = profiler {
        stream.profile(profiler.clone());
    }
    let bytes: Arc<dyn AsRef<[u8]> + Send + Sync> = input.clone();
    let (mut at, mut want, mut records) = (0, CHUNK, 0);
    loop {
        let to = input.len().min(at + want);
        let end = to == input.len();
        let answer = stream.decode(&bytes, at..to, end)?;
        records += stream.emitted().records as u64;
        match answer {
            DecodeOutcome::Bad { offset, message, .. } => {
                let message = format!("at byte offset {}: {message}", at + offset);
                return Err(Fault::new(ErrorKind::Decode, message, "measure with sound data"));
            }
            DecodeOutcome::Progress { consumed, need } => {
                at += consumed;
                if end && (at == input.len() || consumed == 0) {
                    return Ok(records);
                }
                want = if consumed == 0 { (want * 2).max(need) } else { CHUNK.max(need) };
            }
        }
    }
}

/// Copies the input in chunks to one place, as a chunk is copied into the sandbox.
fn copy(input: &[u8]) -> Duration {
    let mut to = vec![0u8; CHUNK];
    let before = Instant::now();
    for chunk in input.chunks(CHUNK) {
        to[..chunk.len()].copy_from_slice(chunk);
        std::hint::black_box(&mut to);
    }
    before.elapsed()
}
