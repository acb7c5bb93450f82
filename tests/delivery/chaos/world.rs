//! The things that outlive a host: the folder, the S3 server, the seeded choices, and the counts of
//! what was done.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use pipemill_tests::PATIENCE;
use pipemill_tests::test_dir::TestDir;

use super::child::{Line, Speaker};
use super::s3::S3;

/// The pace of the test. No outcome depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Time that a consumer takes for a batch, in milliseconds.
    pub batch_ms: u64,
    /// The number of batches to wait for between two actions, or none.
    pub batches: u64,
    /// The time that a host lives, or none: then it is some dozens of actions.
    pub life: Option<Duration>,
}

pub struct World {
    pub place: TestDir,
    pub random: fastrand::Rng,
    pub pace: Pace,
    pub s3: S3,
    /// How often each kind of process was killed or stopped.
    pub done: BTreeMap<&'static str, u64>,
    sender: Sender<Line>,
    receiver: Receiver<Line>,
    next_speaker: usize,
    /// Processes that may still print something.
    open: BTreeSet<Speaker>,
    pub lives: u64,
}

impl World {
    pub fn new(seed: u64, pace: Pace) -> Self {
        let place = TestDir::new();
        let mut random = fastrand::Rng::with_seed(seed);
        let (sender, receiver) = channel();
        let buckets = place.make_folder("s3");
        place.make_folder("tmp");
        place.make_folder("home");
        let s3 = S3::start(&buckets, &mut random, Speaker(0), &sender);
        let mut world = Self {
            place,
            random,
            pace,
            s3,
            done: BTreeMap::new(),
            sender,
            receiver,
            next_speaker: 1,
            open: BTreeSet::from([Speaker(0)]),
            lives: 0,
        };
        world.wait_for_s3();
        world
    }

    /// Waits until the S3 server listens, at another port if its own is taken.
    fn wait_for_s3(&mut self) {
        loop {
            let line =
                self.receiver.recv_timeout(PATIENCE).expect("the S3 server says its address");
            match self.note(line).text {
                Some(_) => return,
                None => {
                    let (speaker, lines) = self.new_speaker();
                    self.s3.move_away(&mut self.random, speaker, &lines);
                }
            }
        }
    }

    /// A number for another process's output, and where the output goes.
    pub fn new_speaker(&mut self) -> (Speaker, Sender<Line>) {
        let speaker = Speaker(self.next_speaker);
        self.next_speaker += 1;
        self.open.insert(speaker);
        (speaker, self.sender.clone())
    }

    fn note(&mut self, line: Line) -> Line {
        if line.text.is_none() {
            self.open.remove(&line.speaker);
        }
        line
    }

    /// Whether only the S3 server may still print something.
    pub fn is_silent(&self) -> bool {
        self.open.iter().eq([&self.s3.speaker()])
    }

    /// The output that has come already.
    pub fn heard(&mut self) -> Option<Line> {
        let line = self.receiver.try_recv().ok()?;
        Some(self.note(line))
    }

    /// The next output. None if nothing comes for this time.
    pub fn hear_next(&mut self, silence: Duration) -> Option<Line> {
        match self.receiver.recv_timeout(silence) {
            Ok(line) => Some(self.note(line)),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => unreachable!("the world holds a sender"),
        }
    }

    pub fn count(&mut self, what: &'static str) {
        *self.done.entry(what).or_default() += 1;
    }

    /// How many processes were killed.
    pub fn kills(&self) -> u64 {
        let kills = self.done.iter().filter(|(what, _)| what.starts_with("killed"));
        kills.map(|(_, count)| count).sum()
    }

    pub fn socket(&self) -> PathBuf {
        self.place.path("run/host.sock")
    }

    /// Nothing of a host's life is left: no process, no file, no descriptor of the test.
    ///
    /// # Panics
    /// Panics if something is left.
    pub fn check_leftovers(&self, socket_may_stay: bool, descriptors: usize) {
        let end = Instant::now() + PATIENCE;
        let folder = self.place.text("");
        loop {
            let found = processes_with(&folder, self.s3.pid());
            if found.is_empty() {
                break;
            }
            assert!(Instant::now() < end, "left of a host's life: {found:#?}");
            std::thread::sleep(Duration::from_millis(1));
        }
        let allowed: &[&str] = if socket_may_stay { &["host.sock"] } else { &[] };
        let run = self.place.names("run");
        assert!(run.iter().all(|name| allowed.contains(&name.as_str())), "left in run: {run:?}");
        for folder in ["tmp", "home"] {
            let names = self.place.names(folder);
            assert!(names.is_empty(), "left in {folder}: {names:?}");
        }
        let shared = std::fs::read_dir("/dev/shm").expect("Linux has it");
        let shared = shared.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let shared: Vec<_> = shared.filter(|name| name.contains("pipemill")).collect();
        assert!(shared.is_empty(), "left in /dev/shm: {shared:?}");
        assert_eq!(own_descriptors(), descriptors, "descriptors of the test itself");
    }
}

/// The number of descriptors of this process.
pub fn own_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("Linux has it").count()
}

/// Processes whose arguments or environment name this folder, except this process and one more.
fn processes_with(folder: &str, but: Pid) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("Linux has it").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if pid == std::process::id() || pid as i32 == but.as_raw() {
            continue;
        }
        // A process that has ended meanwhile, or that another user owns, has nothing to read.
        let read = |name| std::fs::read(entry.path().join(name)).unwrap_or_default();
        let [arguments, environment] = ["cmdline", "environ"].map(read);
        let names =
            |bytes: &[u8]| bytes.windows(folder.len()).any(|part| part == folder.as_bytes());
        if names(&arguments) || names(&environment) {
            found
                .push(format!("{pid}: {}", String::from_utf8_lossy(&arguments).replace('\0', " ")));
        }
    }
    found
}
