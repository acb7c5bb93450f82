//! Makes the plan of the next object while the last one is read, in a thread of its own.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use pipemill_source::{SourceError, SourceEvent};

use crate::planner::Planner;

/// The next event of a planner.
pub(crate) type Next = Result<SourceEvent, SourceError>;

/// A thread that gets a planner, and gives it back with its next event. It ends when this value is
/// dropped, after the event that it looks for.
pub(crate) struct AheadThread {
    planners: Sender<Box<Planner>>,
    events: Receiver<(Box<Planner>, Next)>,
    thread: JoinHandle<()>,
}

impl AheadThread {
    /// `None` if the system has no more threads.
    pub(crate) fn new(channel_name: &str) -> Option<Self> {
        let (planners, taken) = channel::<Box<Planner>>();
        let (given, events) = channel();
        let work = move || {
            for mut planner in taken {
                let next = planner.next(0);
                if given.send((planner, next)).is_err() {
                    return;
                }
            }
        };
        let thread = Builder::new().name(format!("plans-{channel_name}")).spawn(work).ok()?;
        Some(Self { planners, events, thread })
    }

    /// Lets the thread find the next event of the planner.
    ///
    /// # Errors
    /// The thread has ended. The planner comes back.
    pub(crate) fn begin(&self, planner: Box<Planner>) -> Result<(), Box<Planner>> {
        self.planners.send(planner).map_err(|unsent| unsent.0)
    }

    /// Waits for the planner and its next event, after [`begin`](Self::begin). The thread is there
    /// again for the next one.
    pub(crate) fn end(self) -> Option<(Self, Box<Planner>, Next)> {
        if let Ok((planner, next)) = self.events.recv() {
            return Some((self, planner, next));
        }
        // It sends an event for each planner, unless it panics.
        match self.thread.join() {
            Err(panic) => resume_unwind(panic),
            Ok(()) => None,
        }
    }
}
