//! The processes of the test, and what happens to them. Channel `train` is a FIFO, whose epochs end when its writer
//! does; channel `objects` reads the same objects of S3 over and over. The host's command is one of `train`'s
//! consumers.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pipemill_s3_test::servers::open_server;
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{consumer, host, pipemill, until, writer};

use super::actor::Actor;
use super::ledger::Ledger;

const CHANNELS: [&str; 2] = ["train", "objects"];
const TRAIN: usize = 0;
const OBJECTS: usize = 1;
/// Consumers of each channel, without the command.
const CONSUMERS: usize = 2;
/// Objects in the bucket, and their lines.
const OBJECT_COUNT: u64 = 3;
const LINES: u64 = 10_000;
/// What the host may have more at the end of its life: descriptors, and bytes of its own memory.
const MAX_MORE_DESCRIPTORS: usize = 8;
const MAX_MORE_MEMORY: u64 = 48 << 20;

/// One thing that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    KillConsumer(usize),
    StopConsumer(usize),
    StopCommand,
    StopHost,
    KillWriter,
    StopWriter,
    KillServer,
    StopServer,
}

const ACTIONS: [Action; 12] = [
    Action::KillConsumer(TRAIN),
    Action::KillConsumer(TRAIN),
    Action::KillConsumer(OBJECTS),
    Action::KillConsumer(OBJECTS),
    Action::StopConsumer(TRAIN),
    Action::StopConsumer(OBJECTS),
    Action::StopCommand,
    Action::StopHost,
    Action::KillWriter,
    Action::StopWriter,
    Action::KillServer,
    Action::StopServer,
];

/// How the life of a host ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    HostKilled,
    /// The host ends with its command.
    CommandKilled,
    /// All input was read.
    Good,
}

/// What stays from one host to the next.
pub struct Scene {
    place: TestDir,
    random: Rng,
    /// The server's own address of this machine: nobody else takes its port while it is dead.
    address: String,
    port: u16,
    server: Option<Actor>,
    lives: usize,
    kills: usize,
    stops: usize,
    batches: usize,
    again: u64,
}

/// The life of one host.
struct Life {
    host: Actor,
    writer: Option<Actor>,
    /// The epoch of `train` that the writer writes.
    epoch: u64,
    /// Lines that writers said to have written, by epoch.
    written: BTreeMap<u64, u64>,
    consumers: [Vec<Actor>; 2],
    ledgers: [Ledger; 2],
    acked: [Arc<AtomicU64>; 2],
}

impl Scene {
    /// A bucket with its server, and no host yet.
    pub fn new(seed: u64) -> Self {
        let place = TestDir::new();
        for object in 0..OBJECT_COUNT {
            let line = |number| format!("{number:08}{}\n", "y".repeat(number as usize % 5 * 40));
            let lines: String = (0..LINES).map(line).collect();
            place.write(&format!("s3/bucket/object-{object}"), lines);
        }
        let process = std::process::id();
        let address = format!("127.{}.{}.1", 1 + process / 250 % 250, 1 + process % 250);
        let mut scene = Self {
            place,
            random: Rng::with_seed(seed),
            address,
            port: 0,
            server: None,
            lives: 0,
            kills: 0,
            stops: 0,
            batches: 0,
            again: 0,
        };
        scene.start_server();
        scene
    }

    /// What happened, for a person.
    pub fn summary(&self) -> String {
        let Self { lives, kills, stops, batches, again, .. } = self;
        format!(
            "{lives} hosts, {kills} kills, {stops} stops; {batches} batches, {again} came again"
        )
    }

    /// Starts a host and all others, does `actions` things to them, and checks what was said of it.
    pub fn live(&mut self, actions: usize, ending: Ending) {
        let script: Vec<_> =
            (0..actions).map(|_| ACTIONS[self.random.usize(..ACTIONS.len())]).collect();
        let epoch = self.next_epoch();
        let epochs = match ending {
            Ending::Good => {
                let killed = script.iter().filter(|action| **action == Action::KillWriter).count();
                format!(", epochs = {}", epoch + killed as u64 + 1)
            }
            _ => String::new(),
        };
        let mut life = self.start(epoch, &epochs);
        life.wait(TRAIN, 5);
        life.wait(OBJECTS, 5);
        let before = (life.descriptors(), life.memory());
        for action in script {
            self.act(&mut life, action);
        }
        until("the host has closed what belonged to the dead", || {
            life.descriptors() <= before.0 + MAX_MORE_DESCRIPTORS
        });
        let grown = life.memory().saturating_sub(before.1);
        assert!(grown < MAX_MORE_MEMORY, "the host's own memory grew by {grown} bytes");
        self.lives += 1;
        self.end(life, ending);
    }

    /// The epoch at which a new host goes on.
    fn next_epoch(&self) -> u64 {
        let text = fs::read_to_string(self.place.path("epoch")).unwrap_or_default();
        if text.is_empty() && self.lives == 0 { 0 } else { text.parse().expect("the next epoch") }
    }

    fn start_server(&mut self) {
        let mut command = open_server(&self.place.path("s3"), &self.address, self.port);
        let server = Actor::start(&mut command, &Arc::default());
        until("the server listens", || server.has_said("listening on "));
        self.port = server.port();
        self.server = Some(server);
    }

    fn start(&self, epoch: u64, epochs: &str) -> Life {
        let (folder, epoch_file) = (self.place.folder(), self.place.path("epoch"));
        let ring = "[channel.ring]\nslots = 8\nslot_size = '64KiB'\n";
        let config = format!(
            "[[channel]]\nname = 'train'\ndecoder = 'lines'\n\
             source = {{ fifo = {folder:?}, epoch_file = {epoch_file:?}{epochs} }}\n{ring}\
             [[channel]]\nname = 'objects'\ndecoder = 'lines'\n\
             source = {{ s3 = 's3://bucket/', anonymous = true, epochs = 1000000, concurrency = 2, \
             stall_timeout = '1h', retry_timeout = '24h' }}\n{ring}"
        );
        let mut command = host::command(&pipemill!(), &self.place, &config);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("AWS_") {
                command.env_remove(name);
            }
        }
        command.env("AWS_ENDPOINT_URL", format!("http://{}:{}", self.address, self.port));
        command.env("AWS_REGION", "us-east-1").env("AWS_EC2_METADATA_DISABLED", "true");
        command.env("HOME", folder);
        let log = fs::File::options().append(true).create(true).open(self.place.path("host.log"));
        command.stderr(log.expect("a log")).args(["--", consumer!(), "train", "1"]);
        let acked: [Arc<AtomicU64>; 2] = Default::default();
        let host = Actor::start(&mut command, &acked[TRAIN]);
        until("the command has connected", || host.has_said("connected"));
        let mut life = Life {
            host,
            writer: Some(self.writer(epoch)),
            epoch,
            written: BTreeMap::new(),
            consumers: Default::default(),
            ledgers: Default::default(),
            acked,
        };
        for _ in 0..CONSUMERS {
            CHANNELS.iter().enumerate().for_each(|(channel, _)| self.connect(&mut life, channel));
        }
        life
    }

    fn writer(&self, epoch: u64) -> Actor {
        let fifo = self.place.path(&format!("train_{epoch}"));
        Actor::start(Command::new(writer!()).arg(fifo), &Arc::default())
    }

    /// Starts a consumer, which will connect.
    fn consumer(&self, life: &mut Life, channel: usize) {
        let mut command = Command::new(consumer!());
        command.args([CHANNELS[channel], "1"]).env("PIPEMILL_SOCKET", self.socket());
        life.consumers[channel].push(Actor::start(&mut command, &life.acked[channel]));
    }

    /// Starts a consumer, and waits until it has connected.
    fn connect(&self, life: &mut Life, channel: usize) {
        self.consumer(life, channel);
        life.all_connected(channel);
    }

    fn socket(&self) -> PathBuf {
        self.place.path("run/host.sock")
    }

    fn act(&mut self, life: &mut Life, action: Action) {
        let enough = self.random.u64(1..10);
        match action {
            Action::KillConsumer(channel) => {
                // The new one first, so that there is always somebody to end an epoch.
                self.connect(life, channel);
                life.wait(channel, enough);
                self.kill_consumer(life, channel);
            }
            Action::StopConsumer(channel) => {
                let consumer = self.random.usize(..CONSUMERS);
                let pid = life.consumers[channel][consumer].pid();
                self.stopped(pid, || life.wait(TRAIN, enough));
            }
            Action::StopCommand => self.stopped(life.command(), || life.wait(TRAIN, enough)),
            Action::StopHost => {
                let channel = self.random.usize(..CHANNELS.len());
                life.host.signal(Signal::SIGSTOP);
                self.stops += 1;
                // One dies and one comes, and the host learns it when it goes on.
                self.kill_consumer(life, channel);
                self.consumer(life, channel);
                life.host.signal(Signal::SIGCONT);
                life.all_connected(channel);
                life.wait(channel, enough);
            }
            Action::KillWriter => {
                self.kills += 1;
                life.kill_writer();
                life.wait(OBJECTS, enough);
                life.epoch += 1;
                life.writer = Some(self.writer(life.epoch));
                life.wait(TRAIN, enough);
            }
            Action::StopWriter => {
                let pid = life.writer.as_ref().expect("it runs").pid();
                self.stopped(pid, || life.wait(OBJECTS, enough));
            }
            Action::KillServer => {
                self.kills += 1;
                self.server.take().expect("it runs").kill();
                life.wait(TRAIN, enough);
                self.start_server();
                life.wait(OBJECTS, enough);
            }
            Action::StopServer => {
                let pid = self.server.as_ref().expect("it runs").pid();
                self.stopped(pid, || life.wait(TRAIN, enough));
            }
        }
    }

    /// Stops a process, while others go on.
    fn stopped(&mut self, pid: Pid, others: impl FnOnce()) {
        self.stops += 1;
        kill(pid, Signal::SIGSTOP).expect("it is ours, and runs");
        others();
        kill(pid, Signal::SIGCONT).expect("it is ours, and is stopped");
    }

    fn kill_consumer(&mut self, life: &mut Life, channel: usize) {
        self.kills += 1;
        let victim = self.random.usize(..life.consumers[channel].len());
        let said = life.consumers[channel].swap_remove(victim).kill();
        life.ledgers[channel].add(&said);
    }

    /// Ends a host's life, and checks what was said of it.
    fn end(&mut self, mut life: Life, ending: Ending) {
        let host = match ending {
            Ending::HostKilled => {
                self.kills += 1;
                life.host.kill()
            }
            Ending::CommandKilled => {
                self.kills += 1;
                kill(life.command(), Signal::SIGKILL).expect("it is the host's child, and runs");
                let (status, said) = life.host.ended();
                assert_eq!(status.code(), Some(128 + Signal::SIGKILL as i32), "the host's end");
                said
            }
            Ending::Good => {
                life.writer.as_mut().expect("it runs").tell_to_end();
                let (status, said) = life.host.ended();
                assert_eq!(status.code(), Some(0), "the host's end");
                said
            }
        };
        life.ledgers[TRAIN].add(&host);
        if let Some(writer) = life.writer.take() {
            let (_, said) = writer.ended();
            life.written.insert(life.epoch, lines(&said));
        }
        for (channel, consumers) in life.consumers.into_iter().enumerate() {
            let is_good = ending == Ending::Good && channel == TRAIN;
            for consumer in consumers {
                let (status, said) = consumer.ended();
                let expected = if is_good { (0, "end") } else { (3, "failed") };
                let last = said.last().map_or("", String::as_str);
                assert!(
                    status.code() == Some(expected.0) && last.starts_with(expected.1),
                    "{last:?}"
                );
                life.ledgers[channel].add(&said);
            }
            life.ledgers[channel].check(is_good);
            self.batches += life.ledgers[channel].batches();
            self.again += life.ledgers[channel].again();
        }
        for (epoch, records) in life.ledgers[TRAIN].epochs() {
            // Whoever dies between a line and its word has written it, but could not say so.
            let written = life.written[epoch];
            assert!((written..=written + 1).contains(records), "{records} of {written} in {epoch}");
        }
        let all = OBJECT_COUNT * LINES;
        assert!(life.ledgers[OBJECTS].epochs().values().all(|records| *records == all));
        if ending == Ending::Good {
            assert_eq!(life.ledgers[TRAIN].epochs().len(), life.written.len(), "epochs that ended");
        }
    }
}

impl Life {
    /// Waits until so many more batches were ACKed.
    fn wait(&self, channel: usize, more: u64) {
        let enough = self.acked[channel].load(Ordering::Acquire) + more;
        let what = format!("{more} batches of {}", CHANNELS[channel]);
        until(&what, || self.acked[channel].load(Ordering::Acquire) >= enough);
    }

    fn all_connected(&self, channel: usize) {
        until("all have connected", || {
            self.consumers[channel].iter().all(|consumer| consumer.has_said("connected"))
        });
    }

    /// Kills the writer inside an epoch, and so ends the epoch.
    fn kill_writer(&mut self) {
        let writer = self.writer.take().expect("it runs");
        until("it has written something", || writer.has_said("wrote "));
        self.written.insert(self.epoch, lines(&writer.kill()));
    }

    /// The host's command.
    fn command(&self) -> Pid {
        let threads = fs::read_dir(format!("/proc/{}/task", self.host.pid())).expect("it runs");
        let children = threads.map(|thread| {
            // A thread may end meanwhile.
            fs::read_to_string(thread.expect("an entry").path().join("children"))
                .unwrap_or_default()
        });
        Pid::from_raw(children.collect::<String>().trim().parse().expect("one child"))
    }

    /// Number of the host's open descriptors.
    fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.host.pid())).expect("it runs").count()
    }

    /// Bytes of the host that are its own, and no shared memory.
    fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.host.pid()));
        let status = status.expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.expect("a number of kB") << 10
    }
}

/// Lines that a writer said to have written.
fn lines(said: &[String]) -> u64 {
    let last = said.iter().rev().find_map(|line| line.strip_prefix("wrote "));
    last.map_or(0, |count| count.parse().expect("a number"))
}
