//! The threads of the channels, and what they have to tell: a failure, their end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use log::Level;
use nix::sys::eventfd::{EfdFlags, EventFd};
use pipemill_ring::host::Ring;

use super::PreparedChannel;
use crate::ring_sink::{RingSink, report};
use crate::telemetry::State;
use pipemill_channel::Failure;
use pipemill_source::Stop;
use pipemill_types::log::log_with;

enum WorkerEvent {
    Failed(Arc<Ring>, Box<Failure>),
    Ended,
}

/// The channels at work.
pub(super) struct ChannelThreads {
    rings: Vec<Arc<Ring>>,
    stop: Stop,
    /// When they are stopped, consumers are told that this is the end.
    tell: Arc<AtomicBool>,
    events: Receiver<WorkerEvent>,
    /// Readable when there is events.
    wakeup: Arc<EventFd>,
    at_work: usize,
    failed: Vec<(Arc<Ring>, Failure)>,
}

impl ChannelThreads {
    pub(super) fn start(lines: Vec<PreparedChannel>, stop: Stop) -> io::Result<Self> {
        let (sender, events) = channel();
        let wakeup = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let rings = lines.iter().map(|line| line.channel_handle.ring.clone()).collect();
        let (wakeup, tell) = (Arc::new(wakeup), Arc::new(AtomicBool::new(false)));
        let mut at_work = 0;
        for line in lines {
            let name = format!("mill-{}", line.channel.name);
            let notifier = Notifier { events: sender.clone(), wakeup: wakeup.clone() };
            let (stop, tell) = (stop.clone(), tell.clone());
            let work = move || serve(line, &notifier, &stop, &tell);
            thread::Builder::new().name(name).spawn(work)?;
            at_work += 1;
        }
        Ok(Self { rings, stop, tell, events, wakeup, at_work, failed: Vec::new() })
    }

    /// Takes what they have told.
    pub(super) fn hear(&mut self) {
        // Nothing to read: it was not rung.
        let _ = self.wakeup.read();
        for events in self.events.try_iter() {
            match events {
                WorkerEvent::Failed(ring, failure) => self.failed.push((ring, *failure)),
                WorkerEvent::Ended => self.at_work -= 1,
            }
        }
    }

    pub(super) fn are_at_work(&self) -> bool {
        self.at_work > 0
    }

    pub(super) fn have_failed(&self) -> bool {
        !self.failed.is_empty()
    }

    pub(super) fn into_failures(self) -> Vec<Failure> {
        self.failed.into_iter().map(|(_, failure)| failure).collect()
    }

    /// Batches of failed channels that consumers have not ACKed: what stands between them and the error.
    pub(super) fn unread(&self) -> usize {
        let of_ring = |(ring, _): &(Arc<Ring>, Failure)| {
            let status = ring.status();
            let unacked = status.consumers.iter().map(|consumer| consumer.unacked).sum::<u32>();
            (status.ready + status.dedicated + unacked) as usize
        };
        self.failed.iter().map(of_ring).sum()
    }

    /// Whether consumers of all failed channels were told, and have gone.
    pub(super) fn failures_are_told(&self) -> bool {
        self.failed.iter().all(|(ring, _)| {
            let status = ring.status();
            status.end_sent && status.consumers.is_empty()
        })
    }

    /// Nothing more is read. What was granted is still consumed, and behind it comes the stream's end.
    pub(super) fn drain(&self) {
        self.tell.store(true, Ordering::Release);
        self.halt();
    }

    /// Nothing more is read.
    pub(super) fn halt(&self) {
        self.stop.ask();
        self.rings.iter().for_each(|ring| ring.stop());
    }
}

impl AsFd for ChannelThreads {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }
}

/// A channel's thread's way to tell. Its end it tells even if it panics.
struct Notifier {
    events: Sender<WorkerEvent>,
    wakeup: Arc<EventFd>,
}

impl Notifier {
    fn tell(&self, events: WorkerEvent) {
        // Nobody listens any more where the run is over.
        let _ = self.events.send(events);
        let _ = self.wakeup.write(1);
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.tell(WorkerEvent::Ended);
    }
}

/// One channel from its start to the last ACK, or to its failure.
fn serve(line: PreparedChannel, notifier: &Notifier, stop: &Stop, tell: &AtomicBool) {
    let PreparedChannel { mut channel, channel_handle } = line;
    let ring = channel_handle.ring.clone();
    let mut sink = RingSink::new(ring.clone(), channel.plugin.name());
    let outcome = channel.run(&mut sink, &channel_handle.stats);
    channel_handle.end(outcome);
    match channel_handle.state() {
        State::Failed(failure) => {
            log_with(Level::Error, failure, format_args!("{failure}"));
            ring.fail(report(failure));
            notifier.tell(WorkerEvent::Failed(ring, Box::new(failure.clone())));
        }
        // A source that was stopped while it waited looks as if it was at its end.
        _ if stop.is_asked() => {
            if tell.load(Ordering::Acquire) {
                sink.end_early();
            }
        }
        _ => {
            ring.end_stream();
            // Ends also when the run is stopped.
            ring.wait_drained(None);
        }
    }
    channel.stop(&channel_handle.stats);
}
