//! A channel delivers a whole epoch while the host's sockets are attacked. Attacks of decoders are in
//! `tests/sandbox/good_channel.rs`.

use std::any::Any;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use nix::sys::socket::{MsgFlags, send};
use pipemill_ring::protocol::{self, Hello};
use pipemill_tests::host::Host;
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{consumer, pipemill, until};

use super::crowd::silent;
use super::{lines, numbered};

/// The connections that an attack holds.
const CROWD: usize = 100;
/// The number of attacks that a repeated attack has made before the epoch begins, and again when it
/// is over.
const ROUNDS: u64 = 20;

/// An attack that continues.
struct Attack {
    /// Keeps the attack alive until it is dropped.
    _held: Box<dyn Any>,
    /// The number of its attacks so far, if it repeats itself.
    rounds: Option<Arc<AtomicU64>>,
}

impl Attack {
    /// Waits until the attack was made some more times.
    fn wait(&self, name: &str) {
        if let Some(rounds) = &self.rounds {
            let goal = rounds.load(Ordering::Relaxed) + ROUNDS;
            until(name, || rounds.load(Ordering::Relaxed) >= goal);
        }
    }
}

/// Connections that were made once.
fn crowd<T: 'static>(connect: impl Fn() -> T) -> Attack {
    let held: Vec<T> = (0..CROWD).map(|_| connect()).collect();
    Attack { _held: Box::new(held), rounds: None }
}

/// A thread that does the same again and again. It ends when this is dropped.
struct Repeater {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

fn repeat(mut round: impl FnMut() + Send + 'static) -> Attack {
    let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (its_stop, its_rounds) = (stop.clone(), rounds.clone());
    let thread = std::thread::spawn(move || {
        while !its_stop.load(Ordering::Relaxed) {
            round();
            its_rounds.fetch_add(1, Ordering::Relaxed);
        }
    });
    Attack { _held: Box::new(Repeater { stop, thread: Some(thread) }), rounds: Some(rounds) }
}

impl Drop for Repeater {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let joined = self.thread.take().map(JoinHandle::join);
        assert!(joined.is_some_and(|joined| joined.is_ok()), "the attacker has panicked");
    }
}

/// Sends a message. The host may have hung up.
fn say(socket: &OwnedFd, message: &[u8]) {
    let _ = send(socket.as_raw_fd(), message, MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT);
}

fn hello(channel: &str) -> Vec<u8> {
    protocol::hello(&Hello::new(channel, "attacker"))
}

fn slow_request(metrics: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(metrics).expect("it listens");
    // The host may have closed it already.
    let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n");
    stream
}

/// Begins an attack on the host with these sockets: its own, and that of the metrics.
type Begin = fn(&Path, &Path) -> Attack;

const ATTACKS: [(&str, Begin); 8] = [
    ("connections that say nothing", |host, _| crowd(|| silent(host))),
    ("status clients that never read", |host, _| {
        crowd(|| {
            let client = silent(host);
            say(&client, &protocol::get_status());
            client
        })
    }),
    ("consumers that never read", |host, _| {
        crowd(|| {
            let reader = silent(host);
            say(&reader, &hello("other"));
            reader
        })
    }),
    ("connections that come and go", |host, _| {
        let host = host.to_owned();
        repeat(move || drop(silent(&host)))
    }),
    ("consumers that come and go", |host, _| {
        let host = host.to_owned();
        repeat(move || say(&silent(&host), &hello("other")))
    }),
    ("messages that are none", |host, _| {
        let host = host.to_owned();
        repeat(move || {
            let socket = silent(&host);
            (0..=255).for_each(|byte| say(&socket, &[byte; 64]));
        })
    }),
    ("grants that nobody holds are released", |host, _| {
        let host = host.to_owned();
        repeat(move || {
            let socket = silent(&host);
            say(&socket, &hello("other"));
            (0..64).for_each(|grant| say(&socket, &protocol::release(u64::MAX - grant)));
        })
    }),
    ("slow clients of the metrics", |_, metrics| crowd(|| slow_request(metrics))),
];

#[test]
fn a_channel_delivers_an_epoch_during_each_attack_on_the_sockets() {
    let records = numbered(3_000, 100);
    for (name, begin) in ATTACKS {
        let place = TestDir::new();
        let (fifo, metrics) = (place.fifo("good_0"), place.path("run/metrics.sock"));
        let config = format!(
            "metrics = {metrics:?}\n{}\n[[channel]]\nname = 'good'\ndecoder = 'lines'\n\
             source = {{ fifo = {:?}, epochs = 1 }}\n\
             [channel.ring]\nslots = 4\nslot_size = '64KiB'\n",
            lines(&place, "other", &numbered(10, 10), ""),
            place.folder(),
        );
        let host = Host::start(&pipemill!(), &place, &config);
        let mut reader = host.connect("good");
        let mut writer = File::options().write(true).open(&fifo).expect("the host reads it");
        let attack = begin(&host.socket, &metrics);
        attack.wait(name);
        let text = records.join(&b'\n');
        let writes = std::thread::spawn(move || writer.write_all(&text));
        let read = consumer::read(&mut reader);
        writes.join().expect("it does not panic").expect("the host reads all");
        let epochs: Vec<_> = read.epochs.iter().map(|end| (end.epoch, end.early)).collect();
        assert_eq!(epochs, [(0, false)], "{name}");
        assert!(read.well() == records, "{name}: other records");
        attack.wait(name);
        drop(attack);
        // The other channel is whole too: batches that were granted to an attacker go to a reader.
        assert_eq!(host.read("other").well().len(), 3 * 10, "{name}");
        host.wait().with_code(0);
    }
}
