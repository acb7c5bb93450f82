//! The identity of files and of their list: see [`ListIdentity`].

use std::fs::{File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crc_fast::CrcAlgorithm::Crc64Nvme;
use pipemill_types::{ListIdentity, ObjectFacts, ObjectIdentity};

use crate::list_digest::ListDigest;

/// Files of at most this many bytes are read as a whole for their identity.
const MAX_WHOLE: u64 = 128 << 10;
/// Bytes of a block of a longer file.
const BLOCK: u64 = 4 << 10;
/// Numbers of blocks that are read of a longer file: one for each `MAX_WHOLE` bytes within these.
const BLOCKS: (u64, u64) = (8, 16);

/// What the file system tells of a file, a FIFO or standard input, and its identity. It is called
/// before the file is opened: if the file is replaced in between, its identity is that of the old
/// one, and so the new one is refused when a later process begins in its middle.
pub(super) fn file_facts(path: &Path, list: Option<ListIdentity>) -> (ObjectFacts, ObjectIdentity) {
    let Some(file) = std::fs::metadata(path).ok().filter(Metadata::is_file) else {
        return (ObjectFacts::default(), ObjectIdentity::default());
    };
    let (size, path) = (file.len(), path.to_owned());
    let identity = ObjectIdentity::later(move || {
        let list = list.map(|list| format!("{list};")).unwrap_or_default();
        format!("{list}{}", content(&path, &file))
    });
    (ObjectFacts { size: Some(size), ..ObjectFacts::default() }, identity)
}

/// What stands for the content of a file that had this metadata.
fn content(path: &Path, file: &Metadata) -> String {
    let (seconds, nanoseconds, size) = (file.mtime(), file.mtime_nsec(), file.len());
    let text = format!("size:{size},mtime:{seconds}.{nanoseconds:09}");
    // Without its blocks the file is known by its time alone.
    match blocks(path, file) {
        Some(digest) => format!("{text},blocks:{digest:016x}"),
        None => text,
    }
}

/// Digest of some blocks of the file: the first one, the last one, and some between. `None` if it
/// can't be read or is another file now.
fn blocks(path: &Path, expected: &Metadata) -> Option<u64> {
    let file = File::open(path).ok()?;
    let found = file.metadata().ok()?;
    let known =
        |file: &Metadata| (file.dev(), file.ino(), file.len(), file.mtime(), file.mtime_nsec());
    if known(&found) != known(expected) {
        return None;
    }
    let size = found.len();
    let mut digest = crc_fast::Digest::new(Crc64Nvme);
    let mut buffer = vec![0; size.min(MAX_WHOLE) as usize];
    if size <= MAX_WHOLE {
        file.read_exact_at(&mut buffer, 0).ok()?;
        digest.update(&buffer);
        return Some(digest.finalize());
    }
    let count = (size / MAX_WHOLE).clamp(BLOCKS.0, BLOCKS.1);
    let block = &mut buffer[..BLOCK as usize];
    for number in 0..count {
        // No product is larger than 16 times the size of a file.
        let at = u128::from(size - BLOCK) * u128::from(number) / u128::from(count - 1);
        file.read_exact_at(block, at as u64).ok()?;
        digest.update(block);
    }
    Some(digest.finalize())
}

/// The identity of a list of files whose names count below this root.
pub(super) fn list_identity(files: &[PathBuf], root: &Path) -> ListIdentity {
    let mut digest = ListDigest::default();
    for path in files {
        let name = path.strip_prefix(root).unwrap_or(path).as_os_str().as_bytes();
        match std::fs::metadata(path) {
            Ok(file) if file.is_file() => {
                let time = format!("{}.{:09}", file.mtime(), file.mtime_nsec());
                digest.add_file(name, file.len(), time.as_bytes());
            }
            // A FIFO, or a file that is missing: reading it says so.
            _ => digest.add(name, b""),
        }
    }
    digest.identity(true)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, FileTimes};
    use std::time::{Duration, SystemTime};

    use pipemill_types::{is_same_content, split_identity};
    use proptest::prelude::*;

    use super::*;

    fn text(path: &Path) -> String {
        file_facts(path, None).1.text().to_owned()
    }

    fn touch(path: &Path, seconds: u64) {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let file = File::options().write(true).open(path).unwrap();
        file.set_times(FileTimes::new().set_modified(time)).unwrap();
    }

    #[test]
    fn a_file_that_is_replaced_before_it_is_read_is_known_by_its_time_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, "one").unwrap();
        let (_, identity) = file_facts(&path, None);
        fs::write(folder.path().join("y"), "two").unwrap();
        fs::rename(folder.path().join("y"), &path).unwrap();
        assert!(!identity.text().contains("blocks"));
        assert!(!is_same_content(identity.text(), &text(&path)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// The size of the change is that of a row. Of a long file not every one is noticed.
        #[test]
        fn a_copy_is_the_same_and_a_rewritten_file_is_another(
            size in prop_oneof![0usize..300_000, 4_000_000usize..4_100_000], seed: u64
        ) {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut bytes: Vec<u8> = (0..size).map(|_| random.u8(..)).collect();
            let folder = tempfile::tempdir().unwrap();
            let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
            fs::write(&one, &bytes).unwrap();
            fs::write(&two, &bytes).unwrap();
            touch(&two, 1);
            prop_assert_ne!(text(&one), text(&two));
            prop_assert!(is_same_content(&text(&one), &text(&two)));
            bytes.iter_mut().for_each(|byte| *byte ^= 1);
            fs::write(&two, &bytes).unwrap();
            touch(&two, 1);
            prop_assert_eq!(is_same_content(&text(&one), &text(&two)), size == 0);
            bytes.push(0);
            fs::write(&two, &bytes).unwrap();
            prop_assert!(!is_same_content(&text(&one), &text(&two)));
        }
    }

    #[test]
    fn a_list_is_known_below_its_root_and_files_that_change_places_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let list = |name: &str| {
            let root = folder.path().join(name);
            let files = ["a", "b"].map(|file| root.join(file));
            list_identity(&files, &root)
        };
        for (name, times) in [("one", [1, 2]), ("moved", [1, 2]), ("copied", [3, 4])] {
            let root = folder.path().join(name);
            fs::create_dir(&root).unwrap();
            for (file, time) in ["a", "b"].iter().zip(times) {
                fs::write(root.join(file), "same size").unwrap();
                touch(&root.join(file), time);
            }
        }
        assert_eq!(list("one"), list("moved"));
        assert_eq!(ListIdentity::check(&list("one"), &list("copied")), Ok(()));
        let root = folder.path().join("moved");
        for (from, to) in [("a", "c"), ("b", "a"), ("c", "b")] {
            fs::rename(root.join(from), root.join(to)).unwrap();
        }
        assert!(ListIdentity::check(&list("one"), &list("moved")).is_err());
        fs::write(folder.path().join("one/a"), "another size").unwrap();
        assert!(ListIdentity::check(&list("copied"), &list("one")).is_err());
    }

    #[test]
    fn the_text_says_list_and_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "x").unwrap();
        let list = list_identity(std::slice::from_ref(&path), folder.path());
        let (_, identity) = file_facts(&path, Some(list));
        let (found, content) = split_identity(identity.text());
        assert_eq!(found, Some(list));
        assert!(content.starts_with("size:1,mtime:"), "{content}");
    }
}
