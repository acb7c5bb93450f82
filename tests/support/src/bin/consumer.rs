//! A consumer as a process, to be killed. Says each thing that it does in a line, before and after.
//!
//! `consumer CHANNEL [PAUSE_MS [about|acked N]]`: reads a channel whose records start with their number, eight
//! digits. Says `connected HOST SELF` (process ids), then for each batch `about BATCH EPOCH FIRST RECORDS` before its ACK and `acked BATCH`
//! after it, `epoch EPOCH RECORDS [early]` and, at the end, `end` (and exits with 0) or `failed WHY` (3). Pauses before each
//! ACK; stops itself, as by SIGSTOP, once it has said `about` or `acked` of N batches and one more.
//!
//! `consumer CHANNEL keep STATE LEDGER`: adds its process id to the ledger, and a line for each batch: number, epoch, and a
//! digest of its records. Keeps its state in a file, now and then.

use std::fs::{self, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use nix::sys::signal::{Signal, raise};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use pipemill_ring::reader::{Batch, Event, Reader};

/// Where it stops itself: the word, and how often it is said before.
struct Stop {
    word: String,
    left: u64,
}

impl Stop {
    fn said(&mut self, word: &str) {
        if self.word == word {
            if self.left == 0 {
                raise(Signal::SIGSTOP).expect("a process may stop itself");
            }
            self.left = self.left.wrapping_sub(1);
        }
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let channel = args.next().expect("CHANNEL");
    let socket = std::env::var_os("PIPEMILL_SOCKET").expect("PIPEMILL_SOCKET is set");
    let socket = Path::new(&socket);
    let mut args = args.peekable();
    if args.next_if(|word| word == "keep").is_some() {
        let (state, ledger) = (args.next().expect("STATE"), args.next().expect("LEDGER"));
        return end(keep(socket, &channel, Path::new(&state), Path::new(&ledger)));
    }
    let pause = args.next().map_or(0, |pause| pause.parse().expect("PAUSE_MS"));
    let word = args.next().unwrap_or_default();
    let stop = Stop { word, left: args.next().map_or(0, |count| count.parse().expect("N")) };
    end(read(socket, &channel, Duration::from_millis(pause), stop))
}

fn end(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            say(&format!("failed {why}"));
            3.into()
        }
    }
}

fn read(socket: &Path, channel: &str, pause: Duration, mut stop: Stop) -> Result<(), String> {
    let mut reader = Reader::connect(socket, channel, None).map_err(|error| error.to_string())?;
    let host = getsockopt(&reader, PeerCredentials).map_err(|error| error.to_string())?.pid();
    say(&format!("connected {host} {}", std::process::id()));
    loop {
        match reader.next().map_err(|error| error.to_string())? {
            Event::Batch(batch) => {
                check(&batch)?;
                let (number, epoch) = (batch.number(), batch.epoch());
                let (first, records) = (batch.first_record(), batch.records());
                say(&format!("about {number} {epoch} {first} {records}"));
                stop.said("about");
                std::thread::sleep(pause);
                batch.ack();
                say(&format!("acked {number}"));
                stop.said("acked");
            }
            Event::EpochEnd(end) => {
                let early = if end.early { " early" } else { "" };
                say(&format!("epoch {} {}{early}", end.epoch, end.records));
            }
            Event::StreamEnd => {
                say("end");
                return Ok(());
            }
        }
    }
}

fn keep(socket: &Path, channel: &str, state: &Path, ledger: &Path) -> Result<(), String> {
    let mut ledger = OpenOptions::new().append(true).open(ledger).map_err(|e| e.to_string())?;
    let mut note = |line: String| ledger.write_all(line.as_bytes()).map_err(|e| e.to_string());
    note(format!("{}\n", std::process::id()))?;
    let mut reader = Reader::connect(socket, channel, None).map_err(|error| error.to_string())?;
    loop {
        match reader.next().map_err(|error| error.to_string())? {
            Event::Batch(batch) => {
                let (number, digest) = (batch.number(), digest(&batch));
                note(format!("{number} {} {digest:016x}\n", batch.epoch()))?;
                batch.ack();
                if number.is_multiple_of(3) || digest.is_multiple_of(4) {
                    let kept = reader.state().map_err(|error| error.to_string())?;
                    let text = serde_json::to_string(&kept).map_err(|error| error.to_string())?;
                    let new = state.with_extension("new");
                    let kept = fs::write(&new, text).and_then(|()| fs::rename(&new, state));
                    kept.map_err(|error| error.to_string())?;
                }
            }
            Event::EpochEnd(_) => {}
            Event::StreamEnd => return Ok(()),
        }
    }
}

/// A digest of what a batch has.
fn digest(batch: &Batch) -> u64 {
    let mut hasher = DefaultHasher::new();
    (batch.records(), batch.valid()).hash(&mut hasher);
    for record in 0..batch.records() {
        for field in 0..batch.fields().len() {
            batch.field(record, field).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// The records are those that the batch says they are.
fn check(batch: &Batch) -> Result<(), String> {
    for record in 0..batch.records() {
        let expected = format!("{:08}", batch.first_record() + record as u64);
        let found = batch.field(record, 0).and_then(|bytes| bytes.get(..8)).unwrap_or_default();
        if found != expected.as_bytes() {
            let batch = batch.number();
            return Err(format!(
                "batch {batch}: expected record {expected}, found {}",
                found.escape_ascii()
            ));
        }
    }
    Ok(())
}

/// In one piece, at once: whoever kills this process wants to know how far it came.
fn say(line: &str) {
    let written = std::io::stdout().write_all(format!("{line}\n").as_bytes());
    // Nobody listens any more: then there is nobody to tell.
    let _ = written.and_then(|()| std::io::stdout().flush());
}
