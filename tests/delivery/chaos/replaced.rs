//! A plugin that is replaced, while a host runs it and between two hosts. A host that has begun
//! keeps the decoder that it has loaded. A state resumes exactly, or is refused with the name of
//! what differs.

use std::fs;
use std::path::PathBuf;

use nix::sys::signal::Signal;
use pipemill_ring::protocol::Hello;
use pipemill_ring::reader::{Event, Reader, ReaderError};
use pipemill_tests::host;
use pipemill_tests::process::Process;
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::tiny::tiny;
use pipemill_tests::{consumer, pipemill, until};
use serde_json::Value;

use super::world::World;

const CHANNEL: &str = "rows";
const FILES: usize = 3;
/// The largest number of rows of a file.
const ROWS: usize = 30_000;
/// Bytes of a row, and of a record: the first or the last bytes of the row.
const ROW: usize = 16;
const RECORD: usize = 8;
/// Hosts that follow each other.
const LIVES: usize = 4;

/// A version of the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    /// The record of a row is its last bytes.
    takes_last: bool,
    /// Bytes that change nothing of what it does.
    padding: u8,
}

impl Version {
    fn any(random: &mut fastrand::Rng) -> Self {
        Self { takes_last: random.bool(), padding: random.u8(0..2) }
    }

    fn wasm(self) -> Vec<u8> {
        let mut wasm = tiny("", &rows(if self.takes_last { ROW - RECORD } else { 0 }));
        // A custom section: its kind, its size, the size of its name, its name.
        wasm.extend([0, 2, 1, b'a' + self.padding]);
        wasm
    }

    /// All records, in their order.
    fn records(self, files: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let from = if self.takes_last { ROW - RECORD } else { 0 };
        let rows = files.iter().flat_map(|file| file.chunks(ROW));
        rows.map(|row| row[from..from + RECORD].to_vec()).collect()
    }
}

/// Instructions of a decoder that emits a part of each row, from this byte of it on.
fn rows(from: usize) -> String {
    format!(
        "(local $at i32)
        (block $done (loop $again
            (br_if $done (i32.gt_u (i32.add (local.get $at) (i32.const {ROW})) (local.get $size)))
            (i64.store (i32.const 256) (i64.or (i64.const {RECORD}) (i64.shl
                (i64.extend_i32_u (i32.add (local.get $at) (i32.const {from}))) (i64.const 32))))
            (call $emit (i32.const 1) (i32.const 256) (i32.const 1)
                (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))
            (local.set $at (i32.add (local.get $at) (i32.const {ROW})))
            (br $again)))
        (global.set $top (i32.const 4096))
        (i32.store8 (i32.const 128) (i32.const 0))
        (i32.store (i32.const 136) (local.get $at))
        (i32.store (i32.const 140) (i32.const {ROW}))
        (return (i32.const 128))"
    )
}

/// The files that outlive a host here.
struct Run {
    place: TestDir,
    plugin: PathBuf,
    files: Vec<Vec<u8>>,
    config: String,
    /// The plugin that is installed, and the one that the state belongs to.
    current: Version,
    stated: Version,
    state: Option<Value>,
    /// The number of records before the state.
    given: usize,
}

impl Run {
    fn new(random: &mut fastrand::Rng) -> Self {
        let place = TestDir::new();
        let row = |file: usize, row: usize| format!("L{file:02}{row:05}R{file:02}{row:05}");
        let files: Vec<_> = (0..FILES)
            .map(|file| (0..random.usize(1..ROWS)).map(|at| row(file, at)).collect::<String>())
            .map(String::into_bytes)
            .collect();
        for (number, bytes) in files.iter().enumerate() {
            place.write(&format!("in/{number}"), bytes);
        }
        let (plugin, folder) = (place.path("rows.wasm"), place.path("in"));
        let batch = if random.bool() { "batch = 64\ntail = 'keep'\n" } else { "" };
        let config = format!(
            "[[channel]]\nname = '{CHANNEL}'\ndecoder = {plugin:?}\nsource = {{ folder = {folder:?} }}\n\
             workers = {}\n{batch}[channel.ring]\nslots = 4\nslot_size = '64KiB'\n",
            random.u8(1..4)
        );
        let current = Version::any(random);
        fs::write(&plugin, current.wasm()).expect("it is ours");
        Self { place, plugin, files, config, current, stated: current, state: None, given: 0 }
    }

    /// Puts another version, or the same one again, in the plugin's place.
    fn replace(&mut self, version: Version, random: &mut fastrand::Rng) {
        self.current = version;
        if random.bool() {
            // The replacement is atomic, as an installer's is.
            let other = self.place.path("other.wasm");
            fs::write(&other, version.wasm()).expect("it is ours");
            fs::rename(&other, &self.plugin).expect("it is ours");
        } else {
            fs::write(&self.plugin, version.wasm()).expect("it is ours");
        }
    }

    /// A host that resumes at the state, and its consumer. The error is the reason of a refusal.
    /// `None`: the host had nothing left to deliver, and ended before it answered.
    fn start(&self, random: &mut fastrand::Rng) -> Result<Option<(Process, Reader)>, String> {
        let socket = self.place.path("run/host.sock");
        let mut command = host::command(&pipemill!(), &self.place, &self.config);
        let mut hello = Hello { credits: Some(2), ..Hello::new(CHANNEL, "chaos") };
        match &self.state {
            Some(state) if random.bool() => {
                command.arg("--resume").arg(self.place.write("state", state.to_string()));
            }
            state => hello.state = state.clone(),
        }
        let mut process = Process::start(&mut command);
        let mut connected = None;
        until("the host serves or has ended", || {
            connected = match Reader::connect_as(&socket, &hello, false) {
                Err(ReaderError::Connect { .. }) => None,
                other => Some(other),
            };
            connected.is_some() || !process.runs()
        });
        match connected {
            Some(Ok(reader)) => Ok(Some((process, reader))),
            Some(Err(ReaderError::Refused(why))) => {
                kill(process);
                Err(why)
            }
            // It may have connected while the host ended, and said HELLO after that.
            None | Some(Err(ReaderError::HostDied { .. })) => match process.wait() {
                ended if ended.code == Some(0) => Ok(None),
                ended => Err(ended.with_code(64).stderr),
            },
            Some(Err(error)) => panic!("{error}"),
        }
    }

    /// Reads some batches of a host, or all, while the plugin may be replaced. Whether all were
    /// read.
    fn read(&mut self, reader: &mut Reader, world: &mut World) -> bool {
        // A replacement from here on does not change the decoder that the host has loaded.
        let loaded = self.current;
        let expected = loaded.records(&self.files);
        let (batches, replaced_after) = (world.random.u32(0..60), world.random.u32(0..90));
        for number in 0.. {
            if number == replaced_after {
                let version = Version::any(&mut world.random);
                self.replace(version, &mut world.random);
                world.count("plugin replaced under a host");
            }
            if number == batches {
                break;
            }
            match reader.next().expect("the host is well") {
                Event::Batch(batch) => {
                    let records = consumer::records(&batch);
                    let end = self.given + records.len();
                    assert!(expected.get(self.given..end) == Some(&records), "{loaded:?}");
                    self.given = end;
                }
                Event::EpochEnd(_) => {}
                Event::StreamEnd => {
                    assert_eq!(self.given, expected.len());
                    return true;
                }
            }
        }
        let state = reader.state().expect("it reads alone");
        (self.state, self.stated) = (Some(serde_json::to_value(state).expect("JSON")), loaded);
        false
    }
}

fn kill(process: Process) {
    process.signal(Signal::SIGKILL);
    process.wait();
}

/// Hosts that follow each other at their states, while the plugin is replaced.
pub fn live(world: &mut World) {
    let mut run = Run::new(&mut world.random);
    for _ in 0..LIVES {
        if world.random.bool() {
            let version = Version::any(&mut world.random);
            run.replace(version, &mut world.random);
            world.count("plugin replaced between hosts");
        }
        let is_other = run.state.is_some() && run.current != run.stated;
        match run.start(&mut world.random) {
            Ok(None) => {
                let all = run.current.records(&run.files).len();
                assert!(!is_other && run.given == all, "{} of {all}", run.given);
                return;
            }
            Ok(Some((process, mut reader))) => {
                assert!(!is_other, "{:?} goes on after {:?}", run.current, run.stated);
                let is_whole = run.read(&mut reader, world);
                drop(reader);
                kill(process);
                if is_whole {
                    return;
                }
            }
            Err(why) => {
                assert!(is_other && why.contains("decoder"), "{is_other}: {why}");
                world.count("states that were refused for another plugin");
                run.replace(run.stated, &mut world.random);
            }
        }
    }
}
