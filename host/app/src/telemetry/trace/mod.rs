//! `--trace`: what the channels did, moment by moment, for chrome://tracing and ui.perfetto.dev.
//!
//! `buffer` takes what happens from whoever does it; a thread of its own, here, makes events of it and writes them:
//! `track` those of a channel's thread, `slots` those of its ring, as `json`.

mod buffer;
mod json;
mod slots;
mod track;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{io, mem};

use pipemill_ring::host::BatchEvent;

use pipemill_channel::Observer;

use super::channel_handle::ChannelHandle;
use buffer::Buffer;
use json::{Out, Row};
use slots::Slots;
use track::Track;

/// How often what has happened is written.
const EVERY: Duration = Duration::from_millis(50);

/// A trace that is being written.
pub struct Trace {
    path: PathBuf,
    state: State,
}

enum State {
    /// Nothing has begun.
    New(File),
    Writing {
        stop: Sender<()>,
        writer: JoinHandle<io::Result<()>>,
    },
    Over,
}

impl Trace {
    /// A trace into this file, which is emptied.
    ///
    /// # Errors
    /// The file can't be written: why, and what to do.
    pub fn new(file: &Path) -> Result<Self, String> {
        let path = file.to_owned();
        match File::create(file) {
            Ok(file) => Ok(Self { path, state: State::New(file) }),
            Err(error) => Err(format!(
                "--trace: {}: {error}; name a file in a folder that is there and can be written",
                path.display()
            )),
        }
    }

    /// Follows these channels, which have not begun: gives the observer of each, in their order.
    pub fn watch(&mut self, channels: &[Arc<ChannelHandle>]) -> Vec<Box<dyn Observer>> {
        let State::New(file) = mem::replace(&mut self.state, State::Over) else {
            return Vec::new();
        };
        let began = Instant::now();
        let mut out = Out::new(file);
        let new =
            |(at, channel): (Row, &Arc<ChannelHandle>)| TracedChannel::new(at, channel, &mut out);
        let mut traced: Vec<_> = (0..).zip(channels).map(new).collect();
        let observers = traced.iter().map(TracedChannel::observer).collect();
        let (stop, stopped) = channel();
        let work = move || {
            loop {
                let over = stopped.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout);
                traced.iter_mut().for_each(|channel| channel.write(began, &mut out));
                if over {
                    let now = nanos(began, Instant::now());
                    traced.iter_mut().for_each(|channel| channel.finish(now, &mut out));
                    return out.finish();
                }
                out.flush();
            }
        };
        match thread::Builder::new().name("trace".into()).spawn(work) {
            Ok(writer) => self.state = State::Writing { stop, writer },
            Err(error) => log::warn!("there will be no trace: {error}"),
        }
        observers
    }

    /// The run is over. A trace that can't be written is a warning.
    pub fn finish(self) {
        let written = match self.state {
            State::New(file) => Out::new(file).finish(),
            State::Writing { stop, writer } => {
                // It listens until it is told.
                let _ = stop.send(());
                writer.join().unwrap_or_else(|_| Err(io::Error::other("its writer failed")))
            }
            State::Over => return,
        };
        let path = self.path.display();
        match written {
            Ok(()) => log::info!("the trace is in {path}"),
            Err(error) => log::warn!("the trace {path} is not whole: {error}"),
        }
    }
}

/// A channel, and how far it is written.
struct TracedChannel {
    did: Arc<track::Heap>,
    ring: Arc<slots::Heap>,
    track: Track,
    slots: Slots,
    /// Kept, so that nothing need be allocated.
    spare_did: Vec<(Instant, track::Recorded)>,
    spare_seen: Vec<(Instant, BatchEvent)>,
}

impl TracedChannel {
    fn new(at: Row, channel: &ChannelHandle, out: &mut Out) -> Self {
        let row = 1 + at * Track::ROWS;
        let (did, ring) = (Arc::new(Buffer::new()), Arc::new(Buffer::new()));
        channel.ring.set_observer(Box::new(slots::Ear(ring.clone())));
        Self {
            did,
            ring,
            track: Track::new(row, &channel.name, out),
            slots: Slots::new(row, &channel.name),
            spare_did: Buffer::room(),
            spare_seen: Buffer::room(),
        }
    }

    fn observer(&self) -> Box<dyn Observer> {
        Box::new(track::EventRecorder(self.did.clone()))
    }

    /// Writes what has happened since.
    fn write(&mut self, began: Instant, out: &mut Out) {
        let dropped = self.did.take(&mut self.spare_did);
        for (at, heard) in self.spare_did.drain(..) {
            self.track.hear(nanos(began, at), heard, out);
        }
        if dropped > 0 {
            self.track.lose(dropped, out);
        }
        let dropped = self.ring.take(&mut self.spare_seen);
        for (at, seen) in self.spare_seen.drain(..) {
            self.slots.hear(nanos(began, at), seen, out);
        }
        if dropped > 0 {
            self.slots.lose(dropped, nanos(began, Instant::now()), out);
        }
    }

    fn finish(&mut self, now: u64, out: &mut Out) {
        self.track.finish(now, out);
        self.slots.finish(now, out);
    }
}

fn nanos(began: Instant, at: Instant) -> u64 {
    at.saturating_duration_since(began).as_nanos() as u64
}
