//! Files that change while a host reads them: the records are those of one state of each file, or
//! the run ends with an error that names the file.

use std::fs::{self, File, FileTimes, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use flate2::Compression;
use flate2::write::GzEncoder;
use pipemill_ring::reader::{Event, ReaderError};
use pipemill_tests::host::Host;
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{consumer, pipemill};

use super::world::World;

/// Files that the host reads.
const FILES: usize = 3;
/// Lines of a file, at most.
const LINES: usize = 3_000;

/// A file, and all content that it ever had.
struct Changing {
    number: usize,
    path: PathBuf,
    is_compressed: bool,
    states: Vec<Vec<u8>>,
}

impl Changing {
    fn new(place: &TestDir, number: usize, random: &mut fastrand::Rng) -> Self {
        let is_compressed = random.u8(0..3) == 0;
        let name = format!("in/{number}.txt{}", if is_compressed { ".gz" } else { "" });
        let mut file = Self { number, path: place.path(&name), is_compressed, states: Vec::new() };
        let stored = file.next_state(random.usize(1..LINES));
        place.write(&name, stored);
        file
    }

    /// The bytes to store of a new state, which has this many lines.
    fn next_state(&mut self, lines: usize) -> Vec<u8> {
        let (number, state) = (self.number, self.states.len());
        let mut random = fastrand::Rng::with_seed(state as u64);
        let mut bytes = Vec::new();
        for line in 0..lines {
            write!(bytes, "{number} {state:04} {line:08} ").expect("memory");
            bytes.extend((0..300).map(|_| random.digit(36) as u8));
            bytes.push(b'\n');
        }
        self.add(bytes)
    }

    fn add(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        self.states.push(bytes);
        let bytes = self.states.last().expect("it was added");
        if !self.is_compressed {
            return bytes.clone();
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    }

    fn lines(&self) -> usize {
        self.states.last().map_or(0, |bytes| bytes.iter().filter(|byte| **byte == b'\n').count())
    }

    /// Changes the file in one of several ways.
    fn change(&mut self, random: &mut fastrand::Rng) -> &'static str {
        let Ok(file) = File::options().write(true).open(&self.path) else { return "removed file" };
        let length = file.metadata().expect("it is open").len();
        match random.u8(0..8) {
            0 => {
                // No whole member of compressed data is left.
                file.set_len(random.u64(0..=length)).expect("it is ours");
                let left = file.metadata().expect("it is open").len() as usize;
                let last = self.states.last().expect("it has one");
                if !self.is_compressed || left as u64 == length {
                    let left = last[..left.min(last.len())].to_vec();
                    self.states.push(left);
                }
                "cut file"
            }
            how @ (1 | 2) => {
                let time = file.metadata().and_then(|file| file.modified()).expect("it is open");
                let lines = self.lines();
                let stored = self.next_state(lines.max(1));
                file.write_all_at(&stored, 0).expect("it is ours");
                file.set_len(stored.len() as u64).expect("it is ours");
                if how == 1 {
                    return "file written over";
                }
                file.set_times(FileTimes::new().set_modified(time)).expect("it is ours");
                "file written over in secret"
            }
            3 => {
                let more = format!("{} and one more line\n", self.number).into_bytes();
                let whole = [self.states.last().expect("it has one"), &more[..]].concat();
                let stored = self.add(whole);
                // A second member where it is compressed.
                let stored = if self.is_compressed { stored } else { more };
                let at = if self.is_compressed { 0 } else { length };
                file.write_all_at(&stored, at).expect("it is ours");
                "file that grew"
            }
            4 => {
                let stored = self.next_state(random.usize(1..LINES));
                replace(&self.path, &stored);
                "replaced file"
            }
            5 => {
                fs::remove_file(&self.path).expect("it is ours");
                "removed file"
            }
            6 => {
                let now = FileTimes::new().set_modified(SystemTime::now());
                file.set_times(now).expect("it is ours");
                "touched file"
            }
            _ => {
                let mode = Permissions::from_mode(0o600 | random.u32(0..0o100));
                fs::set_permissions(&self.path, mode).expect("it is ours");
                "file with another mode"
            }
        }
    }

    /// Whether these are the lines of one of its states.
    fn has(&self, records: &[&[u8]]) -> bool {
        self.states.iter().any(|state| {
            let lines = state.strip_suffix(b"\n").unwrap_or(state);
            match state.is_empty() {
                true => records.is_empty(),
                false => lines.split(|byte| *byte == b'\n').eq(records.iter().copied()),
            }
        })
    }
}

fn replace(path: &Path, bytes: &[u8]) {
    // Not in the folder that is listed.
    let other = path.parent().and_then(Path::parent).expect("it lies in a folder").join("other");
    fs::write(&other, bytes).expect("it is ours");
    fs::rename(&other, path).expect("it is ours");
}

/// A host reads files, and some of them change after some of its batches.
pub fn live(world: &mut World) {
    let (place, random) = (TestDir::new(), &mut world.random);
    let mut files: Vec<_> = (0..FILES).map(|at| Changing::new(&place, at, random)).collect();
    let (workers, folder) = (random.u8(1..4), place.path("in"));
    let batch = if random.bool() { "batch = 64\ntail = 'keep'\n" } else { "" };
    let config = format!(
        "[[channel]]\nname = 'files'\ndecoder = 'lines'\nsource = {{ folder = {folder:?} }}\n\
         workers = {workers}\n{batch}[channel.ring]\nslots = 4\nslot_size = '64KiB'\n"
    );
    let host = Host::start(&pipemill!(), &place, &config);
    let mut reader = host.connect("files");
    let (mut records, mut batches, mut done) = (Vec::new(), 0, Vec::new());
    let mut changes: Vec<_> = (0..random.usize(0..3)).map(|_| random.u32(0..60)).collect();
    let error = loop {
        match reader.next() {
            Ok(Event::Batch(batch)) => records.extend(consumer::records(&batch)),
            Ok(Event::EpochEnd(_)) => {}
            Ok(Event::StreamEnd) => break None,
            Err(error) => break Some(error),
        }
        if changes.extract_if(.., |at| *at == batches).count() > 0 {
            let at = random.usize(0..FILES);
            done.push((at, files[at].change(random)));
        }
        batches += 1;
    };
    drop(reader);
    let ended = host.wait();
    for (_, what) in &done {
        world.count(what);
    }
    let about = format!("{workers} workers, {batch:?}, after {done:?}: {error:?}, {ended:#?}");
    let Some(error) = error else {
        assert_eq!(ended.code, Some(0), "{about}");
        for file in &files {
            let first = file.number.to_string().into_bytes();
            let own = records.iter().map(Vec::as_slice).filter(|line| line.starts_with(&first));
            assert!(file.has(&own.collect::<Vec<_>>()), "file {}: {about}", file.number);
        }
        return;
    };
    assert!(matches!(ended.code, Some(65 | 66)), "{about}");
    let ReaderError::Failed(report) = error else { panic!("{about}") };
    let names = |at: &usize| report.message.contains(files[*at].path.to_str().expect("UTF-8"));
    assert!(done.iter().any(|(at, _)| names(at)), "{} names none: {about}", report.message);
    world.count("runs that have ended because a file changed");
}
