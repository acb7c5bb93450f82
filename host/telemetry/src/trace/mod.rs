//! `--trace`: a trace of the channels' stages and batches, for chrome://tracing and
//! ui.perfetto.dev.
//!
//! Observers put events of the channels' threads and of the rings into a `buffer`. The writer's
//! thread, in this file, makes trace events of them: `track` those of a channel's thread, `slots`
//! those of its ring. `json` is the format.

mod buffer;
mod json;
mod slots;
mod track;

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{io, mem};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use pipemill_channel::Observer;
use pipemill_ring::host::BatchEvent;

use super::channel_handle::ChannelHandle;
use super::unread;
use buffer::Buffer;
use json::{Row, TraceFile};
use slots::{BatchBuffer, BatchRecorder, SlotTrack};
use track::{ChannelBuffer, ChannelEvent, ChannelRecorder, ChannelTrack};

/// Interval at which the events of the buffers are written.
const WRITE_INTERVAL: Duration = Duration::from_millis(50);

/// A trace of a run.
pub struct Trace {
    path: PathBuf,
    state: TraceState,
}

enum TraceState {
    /// The channels have not started.
    New(File),
    Writing {
        stop: Sender<()>,
        writer: JoinHandle<io::Result<()>>,
        /// The file that it writes to.
        to: File,
    },
    /// The writer's thread could not be started.
    Failed,
}

impl Trace {
    /// Creates the trace's file, or empties it.
    ///
    /// # Errors
    /// The file can't be written. The message says why, and what to do.
    pub fn new(file: &Path) -> Result<Self, String> {
        let path = file.to_owned();
        match create(file) {
            Ok(file) => Ok(Self { path, state: TraceState::New(file) }),
            Err(error) if error.raw_os_error() == Some(Errno::ENXIO as i32) => Err(format!(
                "--trace: {}: nobody reads this FIFO; start its reader first, or name a file",
                path.display()
            )),
            Err(error) => Err(format!(
                "--trace: {}: {error}; name a file in a folder that is there and can be written",
                path.display()
            )),
        }
    }

    /// Starts to trace these channels, which have not started yet. Returns an observer for each, in
    /// their order.
    pub fn watch(&mut self, channels: &[Arc<ChannelHandle>]) -> Vec<Box<dyn Observer>> {
        let TraceState::New(file) = mem::replace(&mut self.state, TraceState::Failed) else {
            return Vec::new();
        };
        let to = match file.try_clone() {
            Ok(to) => to,
            Err(error) => {
                log::warn!("there will be no trace: {error}");
                return Vec::new();
            }
        };
        let began = Instant::now();
        let mut out = TraceFile::new(file);
        let new =
            |(at, channel): (Row, &Arc<ChannelHandle>)| TracedChannel::new(at, channel, &mut out);
        let mut traced: Vec<_> = (0..).zip(channels).map(new).collect();
        let observers = traced.iter().map(TracedChannel::observer).collect();
        let (stop, stopped) = channel();
        let work = move || {
            loop {
                let over = stopped.recv_timeout(WRITE_INTERVAL) != Err(RecvTimeoutError::Timeout);
                traced.iter_mut().for_each(|channel| channel.write(began, &mut out));
                if over {
                    let now = nanos_since(began, Instant::now());
                    traced.iter_mut().for_each(|channel| channel.finish(now, &mut out));
                    return out.finish();
                }
                out.flush();
            }
        };
        match thread::Builder::new().name("trace".into()).spawn(work) {
            Ok(writer) => self.state = TraceState::Writing { stop, writer, to },
            Err(error) => log::warn!("there will be no trace: {error}"),
        }
        observers
    }

    /// Ends the trace after the run. If it can't be written, a warning is logged.
    pub fn finish(self) {
        let written = match self.state {
            TraceState::New(file) => TraceFile::new(file).finish(),
            TraceState::Writing { stop, writer, to } => {
                // The thread receives until this arrives, so sending can't fail.
                let _ = stop.send(());
                match unread::join(writer, &to) {
                    Some(joined) => {
                        joined.unwrap_or_else(|_| Err(io::Error::other("its writer failed")))
                    }
                    None => Err(io::Error::other("nobody reads it")),
                }
            }
            TraceState::Failed => return,
        };
        let path = self.path.display();
        match written {
            Ok(()) => log::info!("the trace is in {path}"),
            Err(error) => log::warn!("the trace {path} is not whole: {error}"),
        }
    }
}

/// Creates or empties a file. A FIFO without a reader is an error: the host would wait for a
/// reader, and handle no signal.
fn create(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    let file = options.custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    // From here on, writes wait for the reader: only the writer's thread writes.
    fcntl(&file, FcntlArg::F_SETFL(OFlag::empty()))?;
    Ok(file)
}

/// A channel in the trace: its buffers, and the state of its tracks.
struct TracedChannel {
    channel_events: Arc<ChannelBuffer>,
    batch_events: Arc<BatchBuffer>,
    track: ChannelTrack,
    slots: SlotTrack,
    /// Empty lists to swap with those of the buffers, so that nothing is allocated.
    spare_channel: Vec<(Instant, ChannelEvent)>,
    spare_batch: Vec<(Instant, BatchEvent)>,
}

impl TracedChannel {
    fn new(at: Row, channel: &ChannelHandle, out: &mut TraceFile) -> Self {
        let row = 1 + at * ChannelTrack::ROWS;
        let (channel_events, batch_events) = (Arc::new(Buffer::new()), Arc::new(Buffer::new()));
        channel.ring.set_observer(Box::new(BatchRecorder(batch_events.clone())));
        Self {
            channel_events,
            batch_events,
            track: ChannelTrack::new(row, &channel.name, out),
            slots: SlotTrack::new(row, &channel.name),
            spare_channel: Buffer::empty_list(),
            spare_batch: Buffer::empty_list(),
        }
    }

    fn observer(&self) -> Box<dyn Observer> {
        Box::new(ChannelRecorder(self.channel_events.clone()))
    }

    /// Writes the events of the buffers.
    fn write(&mut self, began: Instant, out: &mut TraceFile) {
        let dropped = self.channel_events.take(&mut self.spare_channel);
        for (at, event) in self.spare_channel.drain(..) {
            self.track.write(nanos_since(began, at), event, out);
        }
        if dropped > 0 {
            self.track.write_gap(dropped, out);
        }
        let dropped = self.batch_events.take(&mut self.spare_batch);
        for (at, event) in self.spare_batch.drain(..) {
            self.slots.write(nanos_since(began, at), event, out);
        }
        if dropped > 0 {
            self.slots.write_gap(dropped, nanos_since(began, Instant::now()), out);
        }
    }

    fn finish(&mut self, now: u64, out: &mut TraceFile) {
        self.track.finish(now, out);
        self.slots.finish(now, out);
    }
}

fn nanos_since(began: Instant, at: Instant) -> u64 {
    at.saturating_duration_since(began).as_nanos() as u64
}
