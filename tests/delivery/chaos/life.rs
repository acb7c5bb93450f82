//! One host's life: the processes around it, and what the test does to them.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use pipemill_tests::process::{LOG_FORMAT, state};
use pipemill_tests::{PATIENCE, consumer, pipemill};

use super::child::{Child, Line, Speaker, Valve, send};
use super::ledger::{Ledger, LifeEnd, Written};
use super::trace;
use super::world::World;

/// The channel that reads FIFOs, the one that reads from S3, and one in mode `broadcast` that reads the same from S3.
pub const TRAIN: &str = "train";
pub const OBJECTS: &str = "objects";
pub const BROADCAST: &str = "broadcast";
const CHANNELS: [&str; 3] = [TRAIN, OBJECTS, BROADCAST];
/// Consumers of `BROADCAST` that live from the beginning to the end.
const LASTING: usize = 2;
const SLOTS: u64 = 8;
/// How often a wait wakes those that are stopped. No outcome depends on it.
const RESUME_INTERVAL: Duration = Duration::from_millis(20);
/// The number of lines of the host's log that are shown after a failure.
const SHOWN: usize = 30;

/// A consumer. Without a child it is the host's command.
pub struct Consumer {
    child: Option<Child>,
    pub speaker: Speaker,
    pub channel: &'static str,
    pub is_stopped: bool,
    /// It must not be killed.
    pub is_lasting: bool,
}

/// The writer of one epoch's FIFO.
struct Writer {
    child: Child,
    epoch: u64,
    has_opened: bool,
    is_silent: bool,
    is_stopped: bool,
}

pub struct Life<'w> {
    pub world: &'w mut World,
    host: Child,
    host_stderr: Speaker,
    /// Whether the host's log is read.
    log_valve: Valve,
    log: Vec<String>,
    is_serving: bool,
    pub host_is_stopped: bool,
    pub consumers: Vec<Consumer>,
    writer: Option<Writer>,
    /// The number of epochs of `train`, if they end.
    epochs: Option<u64>,
    next_epoch: u64,
    pub ledger: Ledger,
    /// The number of the host's Unix sockets at its start, without those of consumers.
    own_sockets: usize,
}

impl<'w> Life<'w> {
    /// Starts a host, and waits until it serves. `epochs`: of the FIFOs, or no end.
    pub fn start(world: &'w mut World, has_command: bool, epochs: Option<u64>) -> Self {
        world.lives += 1;
        world.place.make_folder("fifos");
        let ((speaker, lines), (host_stderr, _)) = (world.new_speaker(), world.new_speaker());
        let mut command = command(world, epochs);
        if has_command {
            command.arg("--").args([consumer!(), TRAIN, &world.pace.batch_ms.to_string()]);
        }
        let mut host = Child::start(&mut command, speaker, &lines);
        let log_valve = host.listen_to_stderr(host_stderr, &lines);
        let mut life = Self {
            world,
            host,
            host_stderr,
            log_valve,
            log: Vec::new(),
            is_serving: false,
            host_is_stopped: false,
            consumers: Vec::new(),
            writer: None,
            epochs,
            next_epoch: 0,
            ledger: Ledger::default(),
            own_sockets: 0,
        };
        life.ledger.open(speaker, TRAIN);
        if has_command {
            life.consumers.push(Consumer {
                child: None,
                speaker,
                channel: TRAIN,
                is_stopped: false,
                is_lasting: false,
            });
        } else {
            life.ledger.account(speaker).killed = true;
        }
        life.wait("the host serves", |life| {
            life.is_serving && life.consumers.iter().all(|it| life.ledger.pid(it.speaker).is_some())
        });
        life.own_sockets = life.host_sockets().others;
        life.start_lasting_consumers();
        life
    }

    pub fn host_pid(&self) -> Pid {
        self.host.pid()
    }

    // ---- consumers

    /// The channel waits for them, so no other consumer may come first.
    fn start_lasting_consumers(&mut self) {
        for _ in 0..LASTING {
            self.launch_consumer(BROADCAST, "");
            let consumer = self.consumers.last_mut().expect("it was started");
            consumer.is_lasting = true;
            self.ledger.account(consumer.speaker).is_lasting = true;
        }
        self.wait("the lasting consumers are connected", |life| {
            let mut lasting = life.consumers.iter().filter(|it| it.is_lasting);
            lasting.all(|it| life.ledger.pid(it.speaker).is_some())
        });
    }

    pub fn start_consumer(&mut self, channel: &'static str) {
        let word = ["", "about", "acked"][self.world.random.usize(0..3)];
        self.launch_consumer(channel, word);
    }

    /// Starts a consumer. It stops itself some time after it has printed this word, if there is
    /// one.
    fn launch_consumer(&mut self, channel: &'static str, word: &str) {
        let (speaker, lines) = self.world.new_speaker();
        let mut command = Command::new(consumer!());
        command.arg(channel).arg(self.world.pace.batch_ms.to_string());
        command.env("PIPEMILL_SOCKET", self.world.socket());
        if !word.is_empty() {
            command.arg(word).arg(self.world.random.u8(0..5).to_string());
        }
        let child = Some(Child::start(&mut command, speaker, &lines));
        self.ledger.open(speaker, channel);
        let (is_stopped, is_lasting) = (false, false);
        self.consumers.push(Consumer { child, speaker, channel, is_stopped, is_lasting });
    }

    fn pid(&self, at: usize) -> Option<Pid> {
        let consumer = &self.consumers[at];
        match &consumer.child {
            Some(child) => Some(child.pid()),
            None => self.ledger.pid(consumer.speaker).map(Pid::from_raw),
        }
    }

    /// Whether it stopped itself at a known place.
    pub fn stands(&self, at: usize) -> bool {
        let state = self.pid(at).and_then(state);
        !self.consumers[at].is_stopped && state.is_some_and(|(state, _)| state == 'T')
    }

    pub fn is_command(&self, at: usize) -> bool {
        self.consumers[at].child.is_none()
    }

    /// Whether it may be killed while the host lives on.
    pub fn may_die(&self, at: usize) -> bool {
        !self.is_command(at) && !self.consumers[at].is_lasting
    }

    /// Only one that is connected is stopped: the host waits ten seconds for a HELLO.
    pub fn stop_consumer(&mut self, at: usize) {
        if let Some(pid) = self.ledger.pid(self.consumers[at].speaker) {
            send(Pid::from_raw(pid), Signal::SIGSTOP);
            self.consumers[at].is_stopped = true;
            self.world.count("stopped consumer");
        }
    }

    pub fn resume_consumer(&mut self, at: usize) {
        if let Some(pid) = self.pid(at) {
            send(pid, Signal::SIGCONT);
        }
        self.consumers[at].is_stopped = false;
    }

    /// Kills a consumer that is not the command.
    pub fn kill_consumer(&mut self, at: usize) {
        let mut consumer = self.consumers.swap_remove(at);
        let Some(child) = &mut consumer.child else {
            unreachable!("the command is killed elsewhere")
        };
        // A consumer that has read everything has ended.
        let was_killed = child.kill();
        self.wait("a dead consumer's last words", |life| {
            life.ledger.account(consumer.speaker).is_silent
        });
        self.ledger.account(consumer.speaker).killed = was_killed;
        if was_killed {
            self.world.count("killed consumer");
        }
    }

    /// Kills the command, and waits for the host's end.
    pub fn kill_command(&mut self) {
        self.resume_all();
        let at = (0..self.consumers.len()).find(|at| self.is_command(*at)).expect("there is one");
        let pid = self.pid(at).expect("it is connected");
        self.ledger.account(self.consumers[at].speaker).killed = true;
        send(pid, Signal::SIGKILL);
        self.world.count("killed command");
        let code = self.wait_for_host();
        assert_eq!(code, 137, "the host ends as its command did");
    }

    // ---- the others

    pub fn kill_host(&mut self) {
        assert!(self.host.kill(), "the host has ended by itself");
        self.host_is_stopped = false;
        self.world.count("killed host");
    }

    pub fn stop_host(&mut self) {
        self.host.signal(Signal::SIGSTOP);
        self.host_is_stopped = true;
        self.world.count("stopped host");
    }

    /// Nobody reads the host's log, and nothing more fits into its pipe; or the test reads it
    /// again. Everything else continues.
    pub fn block_or_read_log(&mut self) {
        if self.log_valve.is_shut() {
            self.log_valve.open();
        } else {
            self.log_valve.shut();
            self.world.count("blocked log");
        }
    }

    /// Kills a writer that has begun; one whose FIFO nobody has opened would only start again.
    pub fn kill_writer(&mut self) {
        // The last epoch ends when the life does.
        let is_last = self.epochs == Some(self.next_epoch);
        let Some(writer) = self.writer.as_mut().filter(|it| it.has_opened && !is_last) else {
            return;
        };
        if writer.child.kill() {
            self.world.count("killed writer");
        }
        self.reap_writer();
    }

    pub fn stop_writer(&mut self) {
        if let Some(writer) = &mut self.writer {
            writer.child.signal(Signal::SIGSTOP);
            writer.is_stopped = true;
            self.world.count("stopped writer");
        }
    }

    pub fn kill_s3(&mut self) {
        let (speaker, lines) = self.world.new_speaker();
        self.world.s3.restart(speaker, &lines);
        self.world.count("killed S3 server");
    }

    pub fn stop_s3(&mut self) {
        self.world.s3.stop();
        self.world.count("stopped S3 server");
    }

    /// Everything that is stopped continues, including what stopped itself.
    pub fn resume_all(&mut self) {
        for at in 0..self.consumers.len() {
            if self.consumers[at].is_stopped || self.stands(at) {
                self.resume_consumer(at);
            }
        }
        if let Some(writer) = &mut self.writer
            && std::mem::take(&mut writer.is_stopped)
        {
            writer.child.signal(Signal::SIGCONT);
        }
        self.world.s3.resume();
        if std::mem::take(&mut self.host_is_stopped) {
            self.host.signal(Signal::SIGCONT);
        }
    }

    /// Starts the next writer, if there is none and another epoch follows.
    fn ensure_writer(&mut self) {
        if self.writer.as_ref().is_some_and(|writer| writer.is_silent) {
            self.reap_writer();
        }
        if self.writer.is_some() || self.epochs.is_some_and(|epochs| self.next_epoch >= epochs) {
            return;
        }
        let epoch = self.next_epoch;
        self.next_epoch += 1;
        let fifo = self.world.place.path(&format!("fifos/{TRAIN}_{epoch}"));
        mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR).expect("its folder is there");
        let (speaker, lines) = self.world.new_speaker();
        let mut command = Command::new(env!("CARGO_BIN_EXE_writer"));
        command.arg(fifo).stderr(Stdio::null());
        if self.epochs != Some(self.next_epoch) && self.world.random.bool() {
            command.arg(self.world.random.u16(0..2000).to_string());
        }
        let child = Child::start(&mut command, speaker, &lines);
        let (has_opened, is_silent, is_stopped) = (false, false, false);
        self.writer = Some(Writer { child, epoch, has_opened, is_silent, is_stopped });
        self.ledger.written.insert((TRAIN, epoch), Written { least: 0, most: WORD_EVERY });
    }

    /// Waits for the last words of a writer that has ended.
    fn reap_writer(&mut self) {
        self.wait("a dead writer's last words", |life| {
            life.writer.as_ref().is_none_or(|writer| writer.is_silent)
        });
        if let Some(mut writer) = self.writer.take() {
            writer.child.kill();
            let fifo = format!("fifos/{TRAIN}_{}", writer.epoch);
            std::fs::remove_file(self.world.place.path(&fifo)).expect("it is ours");
        }
    }

    /// Consumers that have read everything are gone; others still run.
    fn reap_consumers(&mut self) {
        for at in (0..self.consumers.len()).rev() {
            let Some(child) = &mut self.consumers[at].child else { continue };
            let Some(code) = child.try_wait() else { continue };
            let consumer = self.consumers.swap_remove(at);
            self.wait("a consumer's last words", |life| {
                life.ledger.account(consumer.speaker).is_silent
            });
            let account = self.ledger.account(consumer.speaker);
            assert!(
                code == 0 && account.end == Some(Ok(())),
                "the host lives, and a consumer ended with code {code}: {account:?}"
            );
        }
    }

    /// There is at least one consumer for each channel that continues, and a writer.
    fn ensure_all(&mut self) {
        self.reap_consumers();
        self.ensure_writer();
        for channel in CHANNELS {
            let is_read = self.consumers.iter().any(|consumer| consumer.channel == channel);
            if !is_read && !self.ledger.has_ended(channel) {
                self.start_consumer(channel);
            }
        }
    }

    /// Lets everything continue, and waits until `batches` more batches of a channel are begun.
    pub fn progress(&mut self, channel: &'static str, batches: u64) {
        self.resume_all();
        let goal = self.ledger.begun(channel) + batches;
        self.wait(&format!("{batches} batches of {channel}"), |life| {
            life.ensure_all();
            life.ledger.begun(channel) >= goal || life.ledger.has_ended(channel)
        });
    }

    // ---- the end

    /// Waits until all epochs are over, everything is read, and every process has ended.
    pub fn end_well(&mut self) {
        self.wait("all epochs", |life| {
            life.ensure_all();
            // Most writers never end.
            life.kill_writer();
            life.epochs == Some(life.next_epoch)
                && life.writer.as_ref().is_some_and(|writer| writer.has_opened)
        });
        // The last one doesn't end either.
        if let Some(writer) = &mut self.writer {
            writer.child.kill();
            self.world.count("killed writer");
            self.reap_writer();
        }
        self.wait("the last consumers end", |life| {
            life.reap_consumers();
            life.consumers.is_empty()
        });
        let code = self.wait_for_host();
        assert_eq!(code, 0, "all was read");
    }

    fn wait_for_host(&mut self) -> i32 {
        let mut code = None;
        self.wait("the host's end", |life| {
            code = life.host.try_wait();
            code.is_some()
        });
        code.expect("it has ended")
    }

    /// Waits until no process is left, and compares all reports.
    pub fn finish(mut self, end: LifeEnd, descriptors: usize) {
        self.log_valve.open();
        // Its FIFO may have no reader any more, and then the writer waits for one.
        if let Some(writer) = &mut self.writer {
            writer.child.kill();
            self.reap_writer();
        }
        self.wait("everybody's end", |life| {
            let ended = |consumer: &mut Consumer| {
                consumer.child.as_mut().is_none_or(|child| child.try_wait().is_some())
            };
            life.consumers.iter_mut().all(ended) && life.world.is_silent()
        });
        let file = self.world.place.path("trace.json");
        let text = std::fs::read(&file).expect("the host has written its trace");
        let mut traces = trace::read(&String::from_utf8_lossy(&text), BROADCAST);
        for channel in CHANNELS {
            let trace = traces.remove(channel).unwrap_or_default();
            if trace.has_gap {
                self.world.count("gaps in traces");
            }
            let host = self.host.pid().as_raw();
            if channel == BROADCAST {
                self.ledger.check_broadcast(host, end, channel, SLOTS, &trace);
            } else {
                self.ledger.check(host, end, channel, SLOTS, &trace);
            }
            *self.world.done.entry("batches").or_default() += self.ledger.begun(channel);
        }
        // After a failure, the files stay for inspection.
        std::fs::remove_file(file).expect("it is ours");
        std::fs::remove_dir_all(self.world.place.path("fifos")).expect("it is ours");
        self.world.check_leftovers(end == LifeEnd::Killed, descriptors);
    }

    // ---- listening

    /// Waits until a condition holds. Every stopped process is woken now and then, even while
    /// others print: so no wait is for a stopped one.
    ///
    /// # Panics
    /// Panics if it does not hold after a very long time.
    fn wait(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        let mut next_resume = Instant::now() + RESUME_INTERVAL;
        loop {
            while let Some(line) = self.world.heard() {
                self.hear(line);
            }
            if is_so(self) {
                return;
            }
            let now = Instant::now();
            assert!(now < end, "waited in vain: {what}; {}", self.describe());
            if now >= next_resume {
                self.resume_all();
                next_resume = now + RESUME_INTERVAL;
            }
            if let Some(line) = self.world.hear_next(RESUME_INTERVAL) {
                self.hear(line);
            }
        }
    }

    /// The processes that run, and the host's own status: for the message of a failed wait.
    fn describe(&self) -> String {
        let mut text = format!("host {}", self.host.pid());
        for (at, consumer) in self.consumers.iter().enumerate() {
            let pid = self.pid(at);
            let state = pid.and_then(state).map(|(state, _)| state);
            text += &format!("\nconsumer of {}: {pid:?}, state {state:?}", consumer.channel);
        }
        if let Some(writer) = &self.writer {
            let (pid, opened) = (writer.child.pid(), writer.has_opened);
            text += &format!("\nwriter of epoch {}: {pid}, opened: {opened}", writer.epoch);
        }
        let mut top = Command::new(pipemill!());
        let top = top.args(["top", "--json", "--socket"]).arg(self.world.socket()).output();
        let top = top.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let (sockets, own) = (self.host_sockets(), self.own_sockets);
        text += &format!("\nthe host has {sockets:?}, without consumers {own} at its start");
        let open = descriptors(self.host.pid()).join(", ");
        text += &format!("\nits descriptors: {open}");
        format!("{text}\n{}", top.unwrap_or_default())
    }

    fn hear(&mut self, line: Line) {
        let Line { speaker, text } = line;
        if speaker == self.host_stderr {
            self.is_serving |= text.as_ref().is_some_and(|text| text.contains("serving "));
            self.log.extend(text.filter(|text| !text.is_empty()));
        } else if let Some(writer) = self.writer.as_mut().filter(|it| it.child.speaker == speaker) {
            let Some(text) = text else {
                writer.is_silent = true;
                return;
            };
            let (word, count) = text.split_once(' ').unwrap_or((&text, ""));
            let count = count.parse().unwrap_or_default();
            let written = match word {
                "opened" => {
                    writer.has_opened = true;
                    return;
                }
                "wrote" => Written { least: count, most: count + WORD_EVERY },
                "written" => Written { least: count, most: count },
                // The host has died.
                _ => return,
            };
            self.ledger.written.insert((TRAIN, writer.epoch), written);
        } else if self.ledger.knows(speaker) {
            self.ledger.hear(speaker, text.as_deref());
        }
    }

    // ---- descriptors

    /// The Unix sockets that the host has open.
    fn host_sockets(&self) -> HostSockets {
        let all = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
        let rows: Vec<Vec<_>> =
            all.lines().map(|line| line.split_ascii_whitespace().collect()).collect();
        // The path at which it was bound, before it got its name.
        let socket = self.world.socket();
        let name = socket.file_name().unwrap_or_default().to_string_lossy();
        let path = socket.with_file_name(format!(".{name}"));
        let mut found = HostSockets::default();
        for target in descriptors(self.host.pid()) {
            let inode = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
            let row = rows.iter().find(|row| inode.is_some() && row.get(6).copied() == inode);
            match row {
                // A connection has the path of the socket that accepted it.
                Some(row) if row[5] == CONNECTED && row.get(7).copied() == path.to_str() => {
                    found.connections += 1;
                }
                Some(_) => found.others += 1,
                None => {}
            }
        }
        found
    }

    /// Waits until the host has no descriptors but those of its channels and of the consumers that are connected.
    pub fn check_descriptors(&mut self) {
        self.wait("the host has closed what it does not need", |life| {
            life.ensure_all();
            let connected =
                life.consumers.iter().filter(|it| life.ledger.pid(it.speaker).is_some());
            let memory = descriptors(life.host.pid());
            let memory = memory.iter().filter(|target| target.contains("memfd:pipemill:")).count();
            let sockets = life.host_sockets();
            // A channel that has ended needs fewer sockets: that of S3 closes one, which its library uses for signals.
            sockets.connections == connected.count()
                && sockets.others <= life.own_sockets
                // One for each channel, and at most two dedicated buffers for each of S3, which are open twice while they are
                // filled.
                && (CHANNELS.len()..=CHANNELS.len() + 8).contains(&memory)
        });
    }
}

/// The writer says a word after this number of lines.
const WORD_EVERY: u64 = 32;

/// The descriptors of a process, by kind.
pub fn descriptors(pid: Pid) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let target = |entry: std::io::Result<std::fs::DirEntry>| {
        Some(std::fs::read_link(entry.ok()?.path()).ok()?.to_string_lossy().into_owned())
    };
    entries.filter_map(target).collect()
}

/// Unix sockets of a host: connections of consumers, and all others.
#[derive(Debug, Default)]
struct HostSockets {
    connections: usize,
    others: usize,
}

/// A connected socket in `/proc/net/unix`.
const CONNECTED: &str = "03";

/// The host, with its log as lines on its standard error.
fn command(world: &World, epochs: Option<u64>) -> Command {
    let place = &world.place;
    let (socket, fifos) = (world.socket(), place.path("fifos"));
    let (endpoint, ends) = (world.s3.endpoint(), epochs.is_some());
    let epochs = epochs.map_or_else(String::new, |epochs| format!(", epochs = {epochs}"));
    let s3_epochs = if ends { 3 } else { 1_000_000 };
    // No wait ends by a time limit.
    let s3 = format!(
        "source = {{ s3 = 's3://bucket/data/', endpoint = '{endpoint}', region = 'us-east-1', anonymous = true, \
         concurrency = 2, part_size = '64KiB', stall_timeout = '1h', retry_timeout = '24h', epochs = {s3_epochs} }}"
    );
    let ring = format!("[channel.ring]\nslots = {SLOTS}\nslot_size = '64KiB'");
    let config = format!(
        "socket = {socket:?}\n\
         [[channel]]\nname = '{TRAIN}'\ndecoder = 'lines'\n\
         source = {{ fifo = {fifos:?}, open_timeout = 'forever'{epochs} }}\n{ring}\n\
         [[channel]]\nname = '{OBJECTS}'\ndecoder = 'lines'\n{s3}\n{ring}\n\
         [[channel]]\nname = '{BROADCAST}'\ndecoder = 'lines'\n{s3}\n\
         mode = 'broadcast'\nconsumers = {LASTING}\n{ring}\n"
    );
    let file = place.write("pipemill.toml", config);
    let mut command = Command::new(pipemill!());
    command.arg("run").arg("--config").arg(file).arg("--trace").arg(place.path("trace.json"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("AWS_") {
            command.env_remove(name);
        }
    }
    command.env_remove("PIPEMILL_SOCKET").env_remove("PIPEMILL_LOG").env(LOG_FORMAT, "human");
    command.env("AWS_EC2_METADATA_DISABLED", "true");
    for (name, folder) in [("HOME", "home"), ("XDG_CACHE_HOME", "home"), ("TMPDIR", "tmp")] {
        command.env(name, place.path(folder));
    }
    command.stderr(Stdio::piped());
    command
}

impl Drop for Life<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let from = self.log.len().saturating_sub(SHOWN);
            eprintln!("the host's log ends so:\n{}", self.log[from..].join("\n"));
            let kept = self.world.place.path("trace.json");
            let copy = std::env::temp_dir().join("pipemill-chaos-trace.json");
            if std::fs::copy(kept, &copy).is_ok() {
                eprintln!("its trace is in {}", copy.display());
            }
        }
        // A stopped process can't end.
        self.log_valve.open();
        self.resume_all();
    }
}
