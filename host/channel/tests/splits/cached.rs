//! With a cache of records, a channel gives what it gives without one: while the cache is filled,
//! when all comes from it, and when what is in it is damaged.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use pipemill_types::{BatchAcross, BatchSize, Tail};
use proptest::prelude::*;

use crate::host::{Bad, Bytes, Job, Observed, Setup, run, run_counted};

/// Runs the job with an empty cache, with a full one, and with a damaged one.
pub fn check(job: &Job, way: &Setup, whole: &Observed) -> Result<(), TestCaseError> {
    let way = Setup { batch: None, shuffle: None, ..way.clone() };
    let folder = way.cache.as_ref().expect("it has a cache");
    for stage in ["filled", "full", "damaged"] {
        if stage == "damaged" {
            let files = files(folder);
            files.iter().enumerate().for_each(|(number, file)| damage(file, 7 * number));
        }
        let seen = run(job, &way);
        if let Some(difference) = whole.difference(&seen) {
            let message = format!("without a cache, then with one that is {stage}: {difference}");
            return Err(TestCaseError::fail(message));
        }
    }
    Ok(())
}

/// The files of a cache.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten();
        entries.map(|entry| entry.expect("it is readable").path()).collect::<Vec<_>>()
    };
    let mut files: Vec<_> =
        entries(&folder.join("v1")).iter().flat_map(|folder| entries(folder)).collect();
    files.sort();
    files
}

/// Changes a byte of a file, or cuts it there.
fn damage(path: &Path, seed: usize) {
    let file = File::options().read(true).write(true).open(path).expect("it is there");
    let size = file.metadata().expect("it is there").len();
    let (mut byte, at) = ([0], size / 2 + seed as u64 % (size - size / 2));
    if seed.is_multiple_of(3) {
        return file.set_len(at).expect("it is writable");
    }
    file.read_exact_at(&mut byte, at).expect("it is not after the end");
    file.write_all_at(&[byte[0] ^ 16], at).expect("it is writable");
}

fn lines(options: &[(&'static str, &str)]) -> Job {
    let object = |number: usize| {
        let lines = (0..20_000).map(|line| format!("{number} and {line},{line}\n"));
        Bytes(lines.collect::<String>().into_bytes())
    };
    Job {
        decoder: "lines",
        options: options.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(),
        objects: (0..3).map(object).collect(),
        on_error: Bad::Skip,
        max_record: 1 << 20,
        max_errors: 100,
    }
}

/// A full cache costs no call of the decoder, with one worker and with several, and other options
/// have other records.
#[test]
fn the_decoder_is_not_called_again() {
    for workers in [1, 3] {
        let folder = tempfile::tempdir().unwrap();
        let cache = Some(folder.path().join("cache"));
        let way = Setup { workers, section: 1_000, cache, ..Setup::in_one_piece() };
        let utf8 = [("sniff", "false"), ("utf8", "true")];
        let (without, _) = run_counted(&lines(&utf8), &Setup { cache: None, ..way.clone() });
        let (filled, calls) = run_counted(&lines(&utf8), &way);
        assert!(calls > 0);
        // The first object taught the others their fields: it is decoded as one of them, too.
        run(&lines(&utf8), &way);
        let (full, calls) = run_counted(&lines(&utf8), &way);
        assert_eq!(calls, 0);
        assert!(without.records == filled.records && without.records == full.records);
        let bytes = [("sniff", "false"), ("utf8", "false")];
        assert!(run_counted(&lines(&bytes), &way).1 > 0);
    }
}

/// A run that resumes inside of an object takes its records from the cache, also if the rest of
/// them is damaged.
#[test]
fn a_run_resumes_from_the_cache() {
    let job = lines(&[("sniff", "false")]);
    let size = BatchSize { records: 700, tail: Tail::Keep, across: BatchAcross::Epoch };
    let folder = tempfile::tempdir().unwrap();
    let way = Setup {
        batch: Some(size),
        // A run without a cache has objects with an identity, too.
        saves: Some(u64::MAX),
        cache: Some(folder.path().join("cache")),
        ..Setup::in_one_piece()
    };
    let whole = run(&job, &Setup { cache: None, ..way.clone() });
    for _ in 0..2 {
        assert_eq!(run(&job, &way).cuts.len(), whole.cuts.len());
    }
    for at in [1, 27, 40, 84] {
        let resume = Some(whole.cuts[at].resume(whole.schema.as_deref()));
        let rest = |stage: &str, expects: bool| {
            let (rest, calls) = run_counted(&job, &Setup { resume: resume.clone(), ..way.clone() });
            // The decoder of the first object is told its fields by a state alone: its records are
            // kept apart from those of other runs.
            let is_first = at < 20_000 / 700;
            let counted = is_first || (calls > 0) == expects;
            assert!(counted, "after batch {at}, {stage}: {calls} calls");
            let records = |cuts: &[crate::batches::Cut]| {
                cuts.iter().flat_map(|cut| cut.records.clone()).collect::<Vec<_>>()
            };
            let expected = records(&whole.cuts[at + 1..]);
            assert!(records(&rest.cuts) == expected, "after batch {at}: {:?}", rest.end);
        };
        rest("whole", false);
        for file in files(folder.path().join("cache").as_path()) {
            damage(&file, 1);
        }
        rest("damaged", true);
        // What is missing is decoded from its start, once.
        run(&job, &way);
        rest("whole again", false);
    }
}
