//! Runs each target on its committed corpus, and on a number of mutants of it. The mutants are the
//! same in each run.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use pipemill_fuzz::{TARGETS, target};

/// Number of mutants of a target.
const MUTANTS: usize = 500;
/// Longest mutant, in bytes.
const MAX_BYTES: usize = 4096;

fn corpus(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/corpus")).join(name)
}

/// The inputs of a target's corpus, in the order of their names.
fn inputs(name: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(corpus(name)).unwrap_or_else(|why| panic!("corpus/{name}: {why}"));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a name").path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("an input can be read")).collect()
}

/// Runs the target on one input. If it panics, the input is written to a file.
fn check(name: &str, run: fn(&[u8]), bytes: &[u8]) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(bytes))) {
        let file =
            std::env::temp_dir().join(format!("pipemill-fuzz-{name}-{}", std::process::id()));
        fs::write(&file, bytes).expect("the input can be kept");
        eprintln!("{name}: the input of this failure is in {}", file.display());
        std::panic::resume_unwind(panic);
    }
}

/// Changes some bytes.
fn mutate(random: &mut fastrand::Rng, inputs: &[Vec<u8>]) -> Vec<u8> {
    let pick = |random: &mut fastrand::Rng| inputs[random.usize(..inputs.len())].clone();
    let mut bytes = pick(random);
    for _ in 0..random.usize(1..=4) {
        let at = random.usize(..=bytes.len());
        let end = random.usize(at..=bytes.len().min(at + 64));
        match random.u8(..7) {
            0 => bytes.insert(at, random.u8(..)),
            1 => drop(bytes.drain(at..end)),
            2 => bytes.extend_from_within(at..end),
            3 => bytes[at..end].fill([0, 0xff, b'0', b'"'][random.usize(..4)]),
            4 if at < bytes.len() => bytes[at] ^= 1 << random.u8(..8),
            5 if at < bytes.len() => bytes[at] = random.u8(..),
            // The start of one input, the end of another.
            _ => {
                let other = pick(random);
                let from = random.usize(..=other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
        }
    }
    bytes.truncate(MAX_BYTES);
    bytes
}

/// Runs a target on its corpus and on mutants of it.
fn replay(name: &str) {
    let run = target(name).expect("the name of a target").run;
    let inputs = inputs(name);
    assert!(!inputs.is_empty(), "corpus/{name} is empty");
    inputs.iter().for_each(|input| check(name, run, input));
    let mut random = fastrand::Rng::with_seed(MUTANTS as u64);
    for _ in 0..MUTANTS {
        check(name, run, &mutate(&mut random, &inputs));
    }
}

/// A test for each target, so that they run concurrently.
macro_rules! replays {
    ($($test:ident: $name:literal,)*) => {
        $(#[test] fn $test() { replay($name); })*

        #[test]
        fn every_target_is_replayed_and_has_a_corpus() {
            let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(names, [$($name),*]);
            let folders = fs::read_dir(corpus("")).expect("the folder is there");
            let mut folders: Vec<_> = folders.map(|folder| folder.expect("a name").file_name()).collect();
            folders.sort();
            let mut sorted = names;
            sorted.sort_unstable();
            assert_eq!(folders, sorted);
        }
    };
}

replays! {
    array_record: "array-record",
    arrow: "arrow",
    augmented_manifest: "augmented-manifest",
    avro: "avro",
    csv: "csv",
    fixed: "fixed",
    jsonl: "jsonl",
    length_prefixed: "length-prefixed",
    lines: "lines",
    mds: "mds",
    megatron: "megatron",
    msgpack: "msgpack",
    npy: "npy",
    npz: "npz",
    parquet: "parquet",
    recordio: "recordio",
    recordio_protobuf: "recordio-protobuf",
    tf_example: "tf-example",
    tfrecord: "tfrecord",
    tokens: "tokens",
    webdataset: "webdataset",
    block: "block",
    inflate: "inflate",
    seek_point: "seek-point",
    config: "config",
    sagemaker: "sagemaker",
    manifest: "manifest",
    messages: "messages",
    hello: "hello",
    emit: "emit",
    budget: "budget",
    component: "component",
    table: "table",
}
