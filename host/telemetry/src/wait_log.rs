//! Logs the waits of the channels: after ten seconds, then rarely. A thread checks every second.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use log::{Level, kv};
use pipemill_types::log::log_with;

use super::ChannelHandle;
use super::waits::{Wait, WaitReports};

/// How often the channels are checked.
const INTERVAL: Duration = Duration::from_secs(1);

/// The thread that logs waits. Dropping it ends the thread.
pub struct WaitLog {
    // `drop` drops this first: that ends the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl WaitLog {
    /// Logs the waits of these channels from now on.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(channels: Vec<Arc<ChannelHandle>>) -> io::Result<Self> {
        let (stop, stopped) = channel::<()>();
        let mut all: Vec<_> = channels.into_iter().map(WatchedChannel::new).collect();
        let work = move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(INTERVAL) {
                let now = Instant::now();
                for watched in &mut all {
                    if let Some(wait) = watched.due_report(now) {
                        watched.report(&wait, now);
                    }
                }
            }
            // The report shows it.
            all.iter().for_each(|watched| drop(watched.channel.look_at_wait(Instant::now())));
        };
        let thread = Builder::new().name("wait-log".into()).spawn(work)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for WaitLog {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // Fails only if the thread panicked: then there are no more lines.
            let _ = thread.join();
        }
    }
}

/// A channel, and the reports of its waits.
struct WatchedChannel {
    channel: Arc<ChannelHandle>,
    reports: WaitReports,
}

impl WatchedChannel {
    fn new(channel: Arc<ChannelHandle>) -> Self {
        Self { channel, reports: WaitReports::default() }
    }

    /// The wait that is to be reported now, if any.
    fn due_report(&mut self, now: Instant) -> Option<Wait> {
        let wait = self.channel.look_at_wait(now)?;
        self.reports.is_due(&wait, now).then_some(wait)
    }

    fn report(&self, wait: &Wait, now: Instant) {
        let fields: [&dyn kv::Source; 3] = [
            &("channel", &self.channel.name),
            &("waits_for", wait.reason.word()),
            &("seconds", wait.time(now).as_secs_f64()),
        ];
        log_with(Level::Info, &fields, format_args!("{}", self.line(wait, now)));
    }

    fn line(&self, wait: &Wait, now: Instant) -> String {
        format!("channel `{}`: {}; {}", self.channel.name, wait.words(now), wait.remedy)
    }
}

#[cfg(test)]
mod tests {
    use pipemill_channel::Outcome;
    use pipemill_ring::host::{Ring, RingConfig};
    use pipemill_source::Awaited;
    use pipemill_types::Mode;

    use super::*;
    use crate::Cores;
    use pipemill_config::fifo_source;

    fn channel() -> Arc<ChannelHandle> {
        let ring = Ring::new(RingConfig {
            channel: "val".into(),
            slots: 4,
            slot_bytes: 4096,
            dedicated: RingConfig::FEW_DEDICATED,
            credits: 2,
            mode: Mode::Broadcast,
            consumers: 2,
        });
        let (source, ring) = (fifo_source("/in".into(), None), ring.expect("there is memory"));
        Arc::new(ChannelHandle::new(
            "val",
            &source,
            Cores { workers: 1, usable: 1 },
            "lines",
            ring,
            Awaited::default(),
        ))
    }

    #[test]
    fn a_wait_is_told_once_and_kept_for_the_report() {
        let channel = channel();
        let since = channel.ring.status().consumers_since;
        let at = |seconds| since + Duration::from_secs(seconds);
        let mut watched = WatchedChannel::new(channel.clone());
        assert_eq!(watched.due_report(at(9)), None);
        assert_eq!(channel.last_wait(at(9)), None, "it is too short");
        let wait = watched.due_report(at(11)).expect("it is long enough");
        assert_eq!(
            watched.line(&wait, at(11)),
            "channel `val`: it has waited 11s for 2 consumers: nobody has connected to `val`; \
             start what reads it, lower `consumers`, or leave the channel out"
        );
        assert_eq!(watched.due_report(at(12)), None);
        channel.end(Outcome::Stopped);
        assert_eq!(watched.due_report(at(60)), None, "it does not run");
        assert_eq!(channel.last_wait(at(60)), Some(wait));
    }
}
