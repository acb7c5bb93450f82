//! The threads of the channels, one each, and the events that they send: a failure, the end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use log::Level;
use nix::sys::eventfd::{EfdFlags, EventFd};
use pipemill_channel::{Failure, Outcome, Resume};
use pipemill_ring::host::Ring;
use pipemill_source::Stop;
use pipemill_types::log::log_with;

use super::PreparedChannel;
use super::channel_task::ChannelTask;
use pipemill_delivery::{ChannelDelivery, RingSink, error_report, resume};

enum WorkerEvent {
    Failed(Arc<Ring>, Box<Failure>),
    Ended,
}

/// The running channels.
pub(super) struct ChannelThreads {
    rings: Vec<Arc<Ring>>,
    stop: Stop,
    /// Set before `stop` if consumers should see the end of their streams.
    send_end: Arc<AtomicBool>,
    events: Receiver<WorkerEvent>,
    /// Readable when there are events.
    wakeup: Arc<EventFd>,
    running: usize,
    failed: Vec<(Arc<Ring>, Failure)>,
}

impl ChannelThreads {
    /// `consumers_first` says that each channel begins when its consumers are connected.
    pub(super) fn start(
        channels: Vec<PreparedChannel>,
        stop: Stop,
        consumers_first: bool,
    ) -> io::Result<Self> {
        let (sender, events) = channel();
        let wakeup = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let rings = channels.iter().map(|prepared| prepared.handle.ring.clone()).collect();
        let (wakeup, send_end) = (Arc::new(wakeup), Arc::new(AtomicBool::new(false)));
        let mut running = 0;
        for prepared in channels {
            let name = format!("channel-{}", prepared.task.name());
            let notifier = Notifier { events: sender.clone(), wakeup: wakeup.clone() };
            let (stop, send_end) = (stop.clone(), send_end.clone());
            let work = move || {
                if consumers_first {
                    prepared.handle.ring.wait_for_consumers();
                }
                serve(prepared, &notifier, &stop, &send_end);
            };
            thread::Builder::new().name(name).spawn(work)?;
            running += 1;
        }
        Ok(Self { rings, stop, send_end, events, wakeup, running, failed: Vec::new() })
    }

    /// Handles the events that have arrived. Does not block.
    pub(super) fn receive_events(&mut self) {
        // The read fails if there was no event: the descriptor does not block.
        let _ = self.wakeup.read();
        for event in self.events.try_iter() {
            match event {
                WorkerEvent::Failed(ring, failure) => self.failed.push((ring, *failure)),
                WorkerEvent::Ended => self.running -= 1,
            }
        }
    }

    pub(super) fn are_running(&self) -> bool {
        self.running > 0
    }

    pub(super) fn have_failed(&self) -> bool {
        !self.failed.is_empty()
    }

    pub(super) fn into_failures(self) -> Vec<Failure> {
        self.failed.into_iter().map(|(_, failure)| failure).collect()
    }

    /// Number of batches of failed channels that consumers have not ACKed. Consumers get the error
    /// after these batches.
    pub(super) fn unacked(&self) -> usize {
        let of_ring = |(ring, _): &(Arc<Ring>, Failure)| {
            let status = ring.status();
            let unacked = status.consumers.iter().map(|consumer| consumer.unacked).sum::<u32>();
            (status.ready + status.dedicated + unacked) as usize
        };
        self.failed.iter().map(of_ring).sum()
    }

    /// Whether the consumers of all failed channels got the error and disconnected.
    pub(super) fn failures_are_delivered(&self) -> bool {
        self.failed.iter().all(|(ring, _)| {
            let status = ring.status();
            status.end_sent && status.consumers.is_empty()
        })
    }

    /// Whether consumers connected to all channels, and got the end of the stream.
    pub(super) fn ends_are_delivered(&self) -> bool {
        self.rings.iter().all(|ring| {
            let status = ring.status();
            status.started && status.end_sent
        })
    }

    /// Whether this process is connected to a channel.
    pub(super) fn are_read_by(&self, pid: i32) -> bool {
        let is_of = |ring: &Arc<Ring>| ring.status().consumers.iter().any(|one| one.pid == pid);
        self.rings.iter().any(is_of)
    }

    /// Stops reading. Consumers still get the batches that are in the ring, and then the end of the
    /// stream.
    pub(super) fn drain(&self) {
        self.send_end.store(true, Ordering::Release);
        self.stop();
    }

    /// Stops reading. Consumers do not get the end of the stream, unless [`drain`](Self::drain) was
    /// called before.
    pub(super) fn stop(&self) {
        self.stop.request();
        self.rings.iter().for_each(|ring| ring.stop());
    }
}

impl AsFd for ChannelThreads {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }
}

/// Sends the events of one channel's thread. The drop sends the end, so that a panic sends it, too.
struct Notifier {
    events: Sender<WorkerEvent>,
    wakeup: Arc<EventFd>,
}

impl Notifier {
    fn send(&self, event: WorkerEvent) {
        // This fails only if the run is over and nobody receives events any more.
        let _ = self.events.send(event);
        let _ = self.wakeup.write(1);
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.send(WorkerEvent::Ended);
    }
}

/// Runs one channel from its start to the last ACK, or to its failure.
fn serve(prepared: PreparedChannel, notifier: &Notifier, stop: &Stop, send_end: &AtomicBool) {
    let PreparedChannel { mut task, handle, delivery, reserved: _reserved } = prepared;
    let ring = handle.ring.clone();
    if ring.is_restarting() {
        restart(&mut task, &ring, &delivery);
    }
    loop {
        let mut sink = RingSink::new(ring.clone(), task.decoder(), task.batch());
        match task.run(&mut sink, &handle.stats) {
            Outcome::Restart => {}
            Outcome::Failed(failure)
                if delivery.fail_request(&ring, &error_report(&failure), sink.is_over_budget()) =>
            {
                log_with(
                    Level::Warn,
                    &failure,
                    format_args!("the consumers that asked for this get an error: {failure}"),
                );
            }
            Outcome::Failed(failure) => {
                sink.flush();
                if ring.end_writing() {
                    handle.end(Outcome::Failed(failure.clone()));
                    log_with(Level::Error, &failure, format_args!("{failure}"));
                    ring.fail(error_report(&failure));
                    notifier.send(WorkerEvent::Failed(ring, Box::new(failure)));
                    break;
                }
            }
            // The stop is checked even if the channel ended: a source that is stopped while it
            // waits reports its end.
            _ if stop.is_requested() => {
                if send_end.load(Ordering::Acquire) {
                    sink.end_early();
                }
                task.stop(&handle.stats);
                handle.end(Outcome::Stopped);
                return;
            }
            Outcome::Ended | Outcome::Stopped => {
                handle.set_draining(true);
                ring.end_stream();
                // Returns early if the run is stopped, or the channel restarts.
                let all_read = ring.wait_drained(None);
                if ring.end_writing() {
                    task.stop(&handle.stats);
                    handle.end(if all_read { Outcome::Ended } else { Outcome::Stopped });
                    return;
                }
                handle.set_draining(false);
            }
        }
        drop(sink);
        restart(&mut task, &ring, &delivery);
    }
    task.stop(&handle.stats);
}

/// Restarts the channel where a consumer requested it.
fn restart(task: &mut ChannelTask, ring: &Ring, delivery: &ChannelDelivery) {
    let start = delivery.restarted(ring);
    let first = start.first_batch();
    let name = task.name();
    log::info!(
        channel = name, batch = first;
        "channel `{name}`: begins again with batch {first}, because a consumer asked for it"
    );
    let place = start.decoded_from().map_or_else(Resume::at_start, resume);
    task.begin_at(place, start.batch);
}
