//! Where the input of a case lies, and what brings it to a host, again in each life.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use fastrand::Rng;
use nix::fcntl::OFlag;
use pipemill_s3_test::proxy::{Kind as Fault, Plan, Proxy};
use pipemill_s3_test::servers::{S3Server, S3s};
use pipemill_tests::test_dir::TestDir;

use super::case::{Case, Kind};
use super::inputs::Input;

const BUCKET: &str = "bucket";
/// The share of the requests to S3 that suffer.
const OFTEN: f64 = 0.15;
/// How long a stalled answer is held. Nothing depends on it.
const HOLD: Duration = Duration::from_millis(5);

/// The S3 server of all cases.
pub struct Server {
    server: S3s,
    _folder: TestDir,
}

impl Server {
    pub fn start() -> Self {
        let folder = TestDir::new();
        let server = S3s::start_open(&folder.make_folder("s3"));
        server.make_bucket(BUCKET);
        Self { server, _folder: folder }
    }

    /// Removes an object, if it is there.
    pub fn delete(&self, case: &Case, input: &Input, number: usize) {
        self.server.delete(BUCKET, &key(case, input, number));
    }
}

/// What a host in one life reads from. Dropping it ends the writers and the proxy.
pub struct Origin {
    /// The source of each input, as it is written in a configuration.
    pub sources: Vec<String>,
    writers: Vec<Writer>,
    proxy: Option<Proxy>,
    pub demand: Arc<Demand>,
}

/// Puts the input of a case to where its hosts will read it.
pub fn store(case: &Case, place: &TestDir, server: Option<&Server>) {
    for input in &case.inputs {
        for (number, bytes) in input.objects.iter().enumerate() {
            match (case.kind, server) {
                (Kind::Files, _) => {
                    place.write(&format!("{}/{number}", input.name), bytes);
                }
                (Kind::S3, Some(server)) => {
                    server.server.put(BUCKET, &key(case, input, number), bytes)
                }
                (Kind::S3, None) => panic!("a case of S3 without a server"),
                (Kind::Fifos, _) => {}
            }
        }
    }
}

fn key(case: &Case, input: &Input, number: usize) -> String {
    format!("{}/{}/{number}", case.seed, input.name)
}

impl Origin {
    /// Begins to bring the input to a host. Files are below this folder. `channels` are the names of the channels that read the
    /// inputs.
    pub fn start(
        case: &Case,
        place: &TestDir,
        folder: &str,
        server: Option<&Server>,
        channels: &[&str],
        random: &mut Rng,
    ) -> Self {
        let demand = Arc::<Demand>::default();
        let proxy = server.filter(|_| case.kind == Kind::S3).map(|server| {
            let plan = faults(random.u64(..), demand.clone());
            Proxy::start(&server.server.endpoint(), plan).expect("a port is free")
        });
        let (mut sources, mut writers) = (Vec::new(), Vec::new());
        for (input, channel) in case.inputs.iter().zip(channels) {
            sources.push(match (case.kind, &proxy) {
                (Kind::Files, _) => format!("folder = \"{}\"", place.text(&format!("{folder}{}", input.name))),
                (Kind::Fifos, _) => {
                    writers.extend((0..case.epochs).map(|epoch| {
                        let path = place.make_folder("fifos").join(format!("{channel}_{epoch}"));
                        // An object is one epoch.
                        let bytes = &input.objects[epoch as usize % input.objects.len()];
                        Writer::start(path, bytes.clone(), random.u64(..))
                    }));
                    format!("fifo = \"{}\", open_timeout = \"forever\"", place.text("fifos"))
                }
                (Kind::S3, proxy) => {
                    let endpoint = proxy.as_ref().map(Proxy::endpoint).unwrap_or_default();
                    let (seed, name) = (case.seed, input.name);
                    let part_size = ["64KiB", "65KiB", "1MiB"][random.usize(..3)];
                    let concurrency = random.usize(1..6);
                    format!(
                        "s3 = \"s3://{BUCKET}/{seed}/{name}/\", endpoint = \"{endpoint}\", region = \
                         \"us-east-1\", anonymous = true, part_size = \"{part_size}\", concurrency = \
                         {concurrency}, stall_timeout = \"1h\", retry_timeout = \"24h\""
                    )
                }
            });
        }
        Self { sources, writers, proxy, demand }
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.demand.end();
        self.writers.clear();
        self.proxy = None;
    }
}

/// Faults of the requests, and some answers that come only when a consumer waits for a batch.
fn faults(seed: u64, demand: Arc<Demand>) -> Plan {
    let count = AtomicU64::new(0);
    let plan = Plan { hold: HOLD, ..Plan::random(seed, OFTEN, &Fault::ALL) };
    plan.hook(move |_| {
        let number = count.fetch_add(1, Ordering::Relaxed);
        if Rng::with_seed(seed ^ number).u8(..4) == 0 {
            demand.wait();
        }
        None
    })
}

/// Whether a consumer waits for a batch.
#[derive(Default)]
pub struct Demand {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_waiting: bool,
    is_over: bool,
}

impl Demand {
    /// A consumer begins to wait, or has got what it waited for.
    pub fn set(&self, is_waiting: bool) {
        self.state.lock().expect("nothing panics there").is_waiting = is_waiting;
        self.changed.notify_all();
    }

    /// Nobody will wait any more.
    pub fn end(&self) {
        self.state.lock().expect("nothing panics there").is_over = true;
        self.changed.notify_all();
    }

    fn wait(&self) {
        let state = self.state.lock().expect("nothing panics there");
        let done = |state: &mut State| !state.is_waiting && !state.is_over;
        drop(self.changed.wait_while(state, done).expect("nothing panics there"));
    }
}

/// Writes one epoch into its FIFO, from its start, as a platform does for a job that is started again.
struct Writer {
    path: PathBuf,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    fn start(path: PathBuf, bytes: Vec<u8>, seed: u64) -> Self {
        if !path.exists() {
            nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO can be made");
        }
        let is_over = Arc::<AtomicBool>::default();
        let thread = spawn({
            let (path, is_over) = (path.clone(), is_over.clone());
            move || write(&path, &bytes, seed, &is_over)
        });
        Self { path, is_over, thread: Some(thread) }
    }
}

/// Writes in random pieces. A reader that is killed ends it.
fn write(path: &Path, bytes: &[u8], seed: u64, is_over: &AtomicBool) {
    let mut random = Rng::with_seed(seed);
    let largest = random.usize(1..20_000);
    let mut pipe = OpenOptions::new().write(true).open(path).expect("it is there");
    let mut rest = bytes;
    while !rest.is_empty() && !is_over.load(Ordering::Acquire) {
        let (piece, later) = rest.split_at(random.usize(1..=largest).min(rest.len()));
        if pipe.write_all(piece).is_err() {
            return;
        }
        rest = later;
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return };
        while !thread.is_finished() {
            // A writer that no host has met waits for a reader.
            let nonblocking = OFlag::O_NONBLOCK.bits();
            drop(OpenOptions::new().read(true).custom_flags(nonblocking).open(&self.path));
            sleep(Duration::from_millis(1));
        }
        thread.join().expect("a writer does not panic");
    }
}
