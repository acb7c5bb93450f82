//! The identity of files and of their list: see [`ListIdentity`].

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crc_fast::CrcAlgorithm::Crc64Nvme;
use pipemill_types::{Companions, ListIdentity, ObjectFacts, ObjectIdentity, with_companions};

use crate::SourceError;
use crate::companions::{CompanionFile, missing_companion, not_an_object};
use crate::file_system::FileSystem;
use crate::file_version::{FileVersion, SizeAndTime, stable_metadata};
use crate::list_digest::ListDigest;
use crate::open::open_at_once;
use crate::selected::check_selected;

/// Files of at most this many bytes are read as a whole for their identity.
const MAX_WHOLE: u64 = 128 << 10;
/// Bytes of a block of a longer file.
const BLOCK: u64 = 4 << 10;
/// Smallest and largest number of blocks that are read of a longer file: one for each `MAX_WHOLE`
/// bytes within these limits.
const BLOCKS: (u64, u64) = (8, 16);

/// The facts and the identity of a file that was opened in this state, with these companions. A
/// file without a state is a FIFO, a device or standard input.
pub(super) fn file_facts(
    path: &Path,
    opened: Option<FileVersion>,
    companions: &[CompanionFile],
    list: Option<ListIdentity>,
) -> (ObjectFacts, ObjectIdentity) {
    let Some(opened) = opened else {
        return (ObjectFacts::default(), ObjectIdentity::default());
    };
    let path = path.to_owned();
    let of_companion = |one: &CompanionFile| (one.path.clone(), one.version);
    let companions: Vec<_> = companions.iter().map(of_companion).collect();
    let identity = ObjectIdentity::later(move || {
        let list = list.map(|list| format!("{list};")).unwrap_or_default();
        let contents = companions.iter().map(|(path, version)| content(path, version));
        format!("{list}{}", with_companions(content(&path, &opened), contents))
    });
    (ObjectFacts { size: Some(opened.content.size), ..ObjectFacts::default() }, identity)
}

/// The size of a regular file, and the text that identifies its content and that of its companions:
/// see [`ListIdentity`].
///
/// # Errors
/// It can't be read, is no regular file, or lacks a companion.
pub fn file_identity(path: &Path, companions: &Companions) -> Result<(u64, String), SourceError> {
    let name = path.to_string_lossy();
    let (size, content) = single_identity(path, &name)?;
    let names = companions.of(path.as_os_str().as_bytes());
    let mut contents = Vec::new();
    for beside in names.map_err(|rule| not_an_object(&name, rule))? {
        let beside = PathBuf::from(OsString::from_vec(beside));
        let found = single_identity(&beside, &beside.to_string_lossy());
        contents.push(match found {
            Err(error) if error.missing => {
                return Err(missing_companion(&name, &beside.to_string_lossy()));
            }
            found => found?.1,
        });
    }
    Ok((size, with_companions(content, contents.into_iter())))
}

/// The size of a regular file, and the text that identifies its content alone.
fn single_identity(path: &Path, name: &str) -> Result<(u64, String), SourceError> {
    let failed = |error| SourceError::io(name, "can't open it", &error);
    let file = open_at_once(path).map_err(failed)?;
    let metadata = stable_metadata(&file).map_err(failed)?;
    check_selected(name, &metadata, FileSystem::of(&file))?;
    let version = FileVersion::of(&metadata);
    Ok((version.content.size, content(path, &version)))
}

/// The text that identifies the content of a file in this state.
fn content(path: &Path, file: &FileVersion) -> String {
    let SizeAndTime { size, modified } = file.content;
    let text = format!("size:{size},mtime:{modified}");
    // Without blocks, the modification time alone identifies the file.
    match blocks(path, file) {
        Some(digest) => format!("{text},blocks:{digest:016x}"),
        None => text,
    }
}

/// Digest of some blocks of the file: the first one, the last one, and some between. `None` if it
/// can't be read or is not in this state any more.
fn blocks(path: &Path, expected: &FileVersion) -> Option<u64> {
    let file = open_at_once(path).ok()?;
    expected.check(file.metadata(), &file, "").ok()?;
    let size = expected.content.size;
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

/// A path of a list, and the state in which its file was listed. A path without a state is a FIFO,
/// or it is missing: reading it reports that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListedFile {
    pub(super) path: PathBuf,
    pub(super) state: Option<SizeAndTime>,
}

/// The identity of a list of files whose names count below this root.
pub(super) fn list_identity(files: &[ListedFile], root: &Path) -> ListIdentity {
    let mut digest = ListDigest::default();
    for ListedFile { path, state } in files {
        let name = path.strip_prefix(root).unwrap_or(path).as_os_str().as_bytes();
        match state {
            Some(SizeAndTime { size, modified }) => {
                digest.add_file(name, *size, modified.to_string().as_bytes());
            }
            None => digest.add(name, b""),
        }
    }
    digest.identity(true)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, FileTimes};
    use std::time::{Duration, SystemTime};

    use pipemill_types::{is_same_content, split_identity};
    use proptest::prelude::*;

    use super::*;

    fn version(path: &Path) -> Option<FileVersion> {
        Some(FileVersion::of(&fs::metadata(path).unwrap()))
    }

    fn text(path: &Path) -> String {
        file_facts(path, version(path), &[], None).1.text().to_owned()
    }

    fn listed(path: PathBuf) -> ListedFile {
        let state = Some(SizeAndTime::of(&fs::metadata(&path).unwrap()));
        ListedFile { path, state }
    }

    fn touch(path: &Path, seconds: u64) {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let file = File::options().write(true).open(path).unwrap();
        file.set_times(FileTimes::new().set_modified(time)).unwrap();
    }

    /// docs/security.md states this size, with the file's index in the order of an epoch: lists of
    /// files are not part of the memory budget.
    #[test]
    fn a_listed_file_takes_64_bytes() {
        assert_eq!(size_of::<ListedFile>() + size_of::<usize>(), 64);
    }

    #[test]
    fn a_file_that_is_replaced_before_it_is_read_is_known_by_its_time_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, "one").unwrap();
        let (_, identity) = file_facts(&path, version(&path), &[], None);
        fs::write(folder.path().join("y"), "two").unwrap();
        fs::rename(folder.path().join("y"), &path).unwrap();
        assert!(!identity.text().contains("blocks"));
        assert!(!is_same_content(identity.text(), &text(&path)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// The change has the size of a row. In a long file, not every such change is noticed.
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
            let files = ["a", "b"].map(|file| listed(root.join(file)));
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
        let list = list_identity(&[listed(path.clone())], folder.path());
        let (_, identity) = file_facts(&path, version(&path), &[], Some(list));
        let (found, content) = split_identity(identity.text());
        assert_eq!(found, Some(list));
        assert!(content.starts_with("size:1,mtime:"), "{content}");
    }
}
