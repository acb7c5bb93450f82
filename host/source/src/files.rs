//! Files as a source: files that are named one by one, the files that match a pattern, or all files
//! in a folder.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use glob::MatchOptions;
use pipemill_codecs::SeekPoint;
use pipemill_types::ListIdentity;

use crate::companions::take_out;
use crate::file_identity::{ListedFile, file_facts, list_identity};
use crate::file_system::FileSystems;
use crate::file_version::SizeAndTime;
use crate::hidden::{LeftOut, describes_data, is_hidden, names_hidden};
use crate::open::{Found, Opened};
use crate::reading::file_size;
use crate::selected::check_selected;
use crate::start::{ObjectStart, check_list};
use crate::walk::walk;
use crate::{
    KnownList, Object, ReadSettings, Source, SourceError, SourceEvent, Start, Stop, TotalSize,
};

/// Selects files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// One file.
    File(PathBuf),
    /// These files, in this order.
    Files(Vec<PathBuf>),
    /// All files that match a shell pattern, sorted by path.
    Glob(String),
    /// All files in a folder and its subfolders, sorted by path. Links to folders are followed,
    /// unless they lead back to a folder that they lie in.
    Folder(PathBuf),
    /// The files of an index, in the state that it knows.
    Known {
        /// The files.
        list: KnownList,
        /// The path of the index.
        index: String,
    },
}

/// A source of files. A folder or a pattern is listed once, unless it is to be listed again for
/// each epoch. Files that are named are looked at again for each epoch.
pub struct Files {
    pattern: Pattern,
    reading: ReadSettings,
    stop: Stop,
    epoch: u32,
    /// The list of this epoch, or the one that all epochs have.
    list: Option<FileList>,
    /// Indices in the list of the files of this epoch that are still to be read; `None` before they
    /// are put in order.
    rest: Option<std::iter::Enumerate<std::vec::IntoIter<usize>>>,
    /// The start in the epoch that is listed next.
    start: Option<Start>,
    /// The identity that the list of that epoch must have.
    expected: Option<ListIdentity>,
    /// Byte at which the next object begins.
    offset: u64,
    /// The point from which the object of the start is inflated.
    point: Option<Arc<SeekPoint>>,
    total_size: Option<TotalSize>,
    /// The hidden names that the last list left out.
    left_out: LeftOut,
}

impl Files {
    /// Reads the epochs from `first_epoch` up to, but not including, `reading.epochs`.
    pub fn new(pattern: Pattern, reading: ReadSettings, first_epoch: u32, stop: Stop) -> Self {
        Self {
            pattern,
            reading,
            stop,
            epoch: first_epoch,
            list: None,
            rest: None,
            start: None,
            expected: None,
            offset: 0,
            point: None,
            total_size: None,
            left_out: LeftOut::default(),
        }
    }

    /// The list of this epoch.
    fn list(&mut self) -> Result<FileList, SourceError> {
        let is_kept = self.pattern.selects() && !self.reading.relist;
        if let Some(list) = self.list.take().filter(|_| is_kept) {
            return Ok(list);
        }
        let mut left_out = LeftOut::default();
        let paths = self.pattern.list(self.reading.hidden, &mut left_out)?;
        // Most epochs have the same list, so this is logged only when it changes.
        if left_out != self.left_out {
            left_out.log(None, &self.pattern.name());
        }
        self.left_out = left_out;
        let mut files = self.pattern.look_at(paths)?;
        let identity = list_identity(&files, &self.pattern.root());
        take_out(&self.reading.companions, &mut files, |file| &file.path)?;
        Ok(FileList { files, identity })
    }

    /// Puts the files of this epoch that this machine reads in order, up to the place at which the
    /// source begins.
    fn begin_epoch(&mut self) -> Result<(), SourceError> {
        let list = self.list()?;
        let FileList { files, identity } = self.list.insert(list);
        let name = self.pattern.name();
        if let Some(expected) = self.expected.take() {
            check_list(&name, self.epoch, &expected, identity)?;
        }
        let size = |index: &usize| match &files[*index] {
            ListedFile { state: Some(state), .. } => Ok(state.size),
            ListedFile { path, state: None } => file_size(path),
        };
        let order = self.reading.order.arrange((0..files.len()).collect(), self.epoch, size)?;
        // `None` if it is unknown for one of the files.
        let length = |index: &usize| {
            let ListedFile { path, state } = &files[*index];
            self.reading.length(&path.to_string_lossy(), state.as_ref()?.size)
        };
        if let Some(total_size) = &self.total_size
            && let Some(bytes) = order.iter().map(length).sum()
        {
            total_size.set(self.epoch, bytes);
        }
        let start = self.start.take().unwrap_or_default();
        start.check_list(&name, order.len() as u64)?;
        let mut rest = order.into_iter().enumerate();
        // The number fits: `check_list` has compared it with the length.
        rest.by_ref().take(start.ordinal as usize).for_each(drop);
        (self.rest, self.offset) = (Some(rest), start.offset);
        Ok(())
    }
}

/// The files of a list, and its identity.
struct FileList {
    files: Vec<ListedFile>,
    identity: ListIdentity,
}

impl Source for Files {
    fn next(&mut self) -> Result<SourceEvent, SourceError> {
        if self.epoch == self.reading.epochs {
            return Ok(SourceEvent::End);
        }
        if self.rest.is_none() {
            self.begin_epoch()?;
        }
        let next = self.rest.as_mut().and_then(Iterator::next);
        // After the early end of an epoch that was not listed, there is no list.
        let (Some((ordinal, index)), Some(list)) = (next, &self.list) else {
            self.rest = None;
            self.epoch += 1;
            return Ok(SourceEvent::EpochEnd(self.epoch - 1));
        };
        let ListedFile { path, state } = &list.files[index];
        let name = path.to_string_lossy().into_owned();
        let (offset, point) = (std::mem::take(&mut self.offset), self.point.take());
        let start = ObjectStart::after(point.as_deref(), offset);
        let found =
            if self.pattern.selects() { Found::Selected(*state) } else { Found::Listed(*state) };
        let Opened { input, version } = self.reading.open(path, &name, start, found, &self.stop)?;
        let companions = self.reading.open_companions(path, &name, version, &self.stop)?;
        let (facts, identity) = file_facts(path, version, &companions, Some(list.identity));
        let companions = companions.into_iter().map(|one| one.companion).collect();
        let (epoch, ordinal) = (self.epoch, ordinal as u64);
        Ok(SourceEvent::Object(Object {
            epoch,
            ordinal,
            name,
            identity,
            facts,
            block: None,
            known: None,
            input,
            companions,
        }))
    }

    fn start_at(&mut self, start: Start) -> Result<(), SourceError> {
        start.check_epoch(&self.pattern.name(), 0, Some(self.reading.epochs))?;
        (self.epoch, self.rest, self.start) = (start.epoch, None, Some(start));
        Ok(())
    }

    fn expect_list(&mut self, list: Option<ListIdentity>) {
        self.expected = list;
    }

    fn start_from(&mut self, point: Option<Arc<SeekPoint>>) {
        self.point = point;
    }

    fn can_reread(&self) -> bool {
        true
    }

    fn end_epoch(&mut self) {
        (self.rest, self.start, self.offset) = (Some(Vec::new().into_iter().enumerate()), None, 0);
        (self.expected, self.point) = (None, None);
    }

    fn total_size(&mut self) -> TotalSize {
        self.total_size.get_or_insert_default().clone()
    }
}

impl Pattern {
    /// The selected files, sorted by path if they are not named one by one; at least one. Without
    /// `hidden`, a folder and a wildcard don't select hidden names and markers, which belong to
    /// tools and not to the data: they are added to `left_out`.
    ///
    /// # Errors
    /// The shell pattern is invalid, a folder can't be listed, or no file is selected.
    pub fn list(&self, hidden: bool, left_out: &mut LeftOut) -> Result<Vec<PathBuf>, SourceError> {
        let (mut files, counted) = (Vec::new(), (!hidden).then_some(&mut *left_out));
        match self {
            Self::File(path) => files.push(path.clone()),
            Self::Files(paths) => return Ok(paths.clone()),
            Self::Glob(pattern) => files = matching(pattern, counted)?,
            Self::Folder(folder) => walk(folder, counted, &mut |path| files.push(path))?,
            Self::Known { list, .. } => {
                let known = (0..list.0.count()).filter_map(|number| list.0.get(number));
                return Ok(known.map(|object| object.name.into()).collect());
            }
        }
        if files.is_empty() {
            let reason = match self {
                Self::Glob(_) => "no file matches",
                _ => "the folder holds no file",
            };
            let error = SourceError::no_objects(self.name(), reason);
            return Err(match left_out.describe() {
                Some(remedy) => SourceError { remedy, ..error },
                None => error,
            });
        }
        files.sort();
        Ok(files)
    }

    /// Whether its files can be opened and read again. A pipe or a device that is named can't: what
    /// was read of it is gone. A folder and a shell pattern select regular files only.
    pub fn can_reread(&self) -> bool {
        let is_regular = |file: &PathBuf| std::fs::metadata(file).is_ok_and(|file| file.is_file());
        match self {
            Self::File(file) => is_regular(file),
            Self::Files(files) => files.iter().all(is_regular),
            Self::Glob(_) | Self::Folder(_) | Self::Known { .. } => true,
        }
    }

    /// Whether it selects files by a pattern or folder, not by their names.
    fn selects(&self) -> bool {
        matches!(self, Self::Glob(_) | Self::Folder(_))
    }

    /// The listed state of each of these files.
    ///
    /// # Errors
    /// The pattern has selected something that is not a regular file.
    fn look_at(&self, paths: Vec<PathBuf>) -> Result<Vec<ListedFile>, SourceError> {
        let mut file_systems = FileSystems::default();
        let mut look = |path: PathBuf| {
            let Ok(file) = std::fs::metadata(&path) else {
                return Ok(ListedFile { path, state: None });
            };
            if self.selects() {
                let file_system = file_systems.of(&path, &file);
                check_selected(&path.to_string_lossy(), &file, file_system)?;
            }
            let state = file.is_file().then(|| SizeAndTime::of(&file));
            Ok(ListedFile { path, state })
        };
        paths.into_iter().map(&mut look).collect()
    }

    /// The folder to which the names of its files are relative: the identity of the list stays the
    /// same if that folder is moved.
    fn root(&self) -> PathBuf {
        let folder = |path: &PathBuf| path.parent().map(Path::to_owned).unwrap_or_default();
        match self {
            Self::Folder(folder) => folder.clone(),
            Self::Glob(pattern) => {
                let root = folder_of(pattern);
                if root == Path::new(".") { PathBuf::new() } else { root }
            }
            Self::File(path) => folder(path),
            Self::Files(paths) => {
                let folders = paths.iter().map(folder);
                folders.reduce(|one, other| common(&one, &other)).unwrap_or_default()
            }
            Self::Known { .. } => PathBuf::new(),
        }
    }

    /// Its text for messages.
    pub fn name(&self) -> String {
        match self {
            Self::Glob(pattern) => pattern.clone(),
            Self::Known { index, .. } => index.clone(),
            Self::Files(paths) => match paths.as_slice() {
                [only] => only.to_string_lossy().into_owned(),
                [first, rest @ ..] => {
                    format!("{} and {} more", first.to_string_lossy(), rest.len())
                }
                [] => String::new(),
            },
            Self::Folder(path) | Self::File(path) => path.to_string_lossy().into_owned(),
        }
    }
}

/// The longest common beginning of two paths.
fn common(one: &Path, other: &Path) -> PathBuf {
    let parts = one.components().zip(other.components());
    parts.take_while(|(one, other)| one == other).map(|(part, _)| part).collect()
}

/// The files that match a shell pattern. Names that are not UTF-8 are compared as they are
/// displayed, with U+FFFD for invalid bytes. Hidden names that the pattern does not name itself are
/// added to `left_out`, or selected without it.
fn matching(pattern: &str, left_out: Option<&mut LeftOut>) -> Result<Vec<PathBuf>, SourceError> {
    let compiled = compile(pattern, pattern)?;
    let mut files = Vec::new();
    if pattern.split('/').any(|part| part == "**") {
        let options = MatchOptions { require_literal_separator: true, ..MatchOptions::new() };
        let folder = folder_of(pattern);
        if folder.is_dir() {
            // The pattern may name a hidden folder itself.
            walk(&folder, None, &mut |path| {
                let path = path.strip_prefix("./").map(Path::to_owned).unwrap_or(path);
                if compiled.matches_with(&path.to_string_lossy(), options) {
                    files.push(path);
                }
            })?;
        }
        leave_out(&mut files, left_out, |path| is_hidden_below(path, &folder, pattern));
        return Ok(files);
    }
    let root = if pattern.starts_with('/') { Path::new("/") } else { Path::new("") };
    let parts: Vec<_> = pattern.split('/').filter(|part| !part.is_empty()).collect();
    expand(pattern, root, &parts, &mut files)?;
    // A pattern with `/` at its end is for folders only.
    let is_data = |path: &Path| !path.is_dir() && !describes_data(path.as_os_str().as_bytes());
    files.retain(|path| !pattern.ends_with('/') && is_data(path));
    leave_out(&mut files, left_out, |path| is_hidden_match(path, pattern));
    Ok(files)
}

/// Moves the hidden files from `files` to `left_out`.
fn leave_out(
    files: &mut Vec<PathBuf>,
    left_out: Option<&mut LeftOut>,
    is_hidden: impl Fn(&Path) -> bool,
) {
    let Some(left_out) = left_out else { return };
    files.retain(|path| {
        let hidden = is_hidden(path);
        if hidden {
            left_out.add(|| path.to_string_lossy().into_owned());
        }
        !hidden
    });
}

fn compile(part: &str, pattern: &str) -> Result<glob::Pattern, SourceError> {
    glob::Pattern::new(part).map_err(|error| {
        let message = format!("is not a pattern: {error}");
        SourceError::new(pattern, message, "see `*`, `?`, `[…]` and `**` in a shell")
    })
}

/// Adds what matches these parts of a pattern, below a folder, to `found`. The parts have no `**`.
/// `glob` has a function for this, but it skips names that are not UTF-8.
fn expand(
    pattern: &str,
    folder: &Path,
    parts: &[&str],
    found: &mut Vec<PathBuf>,
) -> Result<(), SourceError> {
    let [part, rest @ ..] = parts else { return Ok(()) };
    let mut matched = Vec::new();
    if has_wildcard(part) {
        let compiled = compile(part, pattern)?;
        let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        if !listed.is_dir() {
            return Ok(());
        }
        let failed = |error| SourceError::io(listed.to_string_lossy(), "can't list it", &error);
        for entry in std::fs::read_dir(listed).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            if compiled.matches(&name.to_string_lossy()) {
                matched.push(folder.join(name));
            }
        }
    } else {
        matched.extend(Some(folder.join(part)).filter(|path| path.exists()));
    }
    if rest.is_empty() {
        found.extend(matched);
        return Ok(());
    }
    matched.iter().try_for_each(|path| expand(pattern, path, rest, found))
}

fn has_wildcard(part: &str) -> bool {
    part.contains(['*', '?', '['])
}

/// Whether a wildcard of the pattern stands for a hidden name. The pattern has no `**`.
fn is_hidden_match(path: &Path, pattern: &str) -> bool {
    let wanted = pattern.rsplit('/').filter(|part| !matches!(*part, "" | "."));
    let mut names = path.components().rev().zip(wanted);
    names.any(|(name, wanted)| match name {
        Component::Normal(name) => {
            is_hidden(name.as_bytes()) && !names_hidden(wanted.as_bytes(), name.as_bytes())
        }
        _ => false,
    })
}

/// Whether a name below the folder of a pattern with `**` is hidden, and no part of the pattern
/// names it.
fn is_hidden_below(path: &Path, folder: &Path, pattern: &str) -> bool {
    let below = path.strip_prefix(folder).unwrap_or(path);
    let is_named = |name: &[u8]| {
        let mut parts = pattern.split('/').filter(|part| *part != "**");
        parts.any(|part| {
            let matches = |pattern: glob::Pattern| pattern.matches(&String::from_utf8_lossy(name));
            names_hidden(part.as_bytes(), name) && glob::Pattern::new(part).is_ok_and(matches)
        })
    };
    below.components().any(|name| match name {
        Component::Normal(name) => is_hidden(name.as_bytes()) && !is_named(name.as_bytes()),
        _ => false,
    })
}

/// The folder that all matches of a pattern lie in: its parts before the first with a wildcard.
pub(crate) fn folder_of(pattern: &str) -> PathBuf {
    let plain = |part: &&str| !has_wildcard(part);
    let parts: Vec<_> = pattern.split('/').take_while(plain).collect();
    match parts.as_slice() {
        [] => ".".into(),
        [""] => "/".into(),
        parts => parts.join("/").into(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Names of the listed files, below the folder.
    fn list(pattern: Pattern, folder: &Path) -> Vec<String> {
        let name = |path: PathBuf| path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
        pattern.list(false, &mut LeftOut::default()).unwrap().into_iter().map(name).collect()
    }

    /// Without a check for loops, there are 2^40 ways through these links.
    #[test]
    fn links_to_a_folder_itself_are_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path();
        fs::create_dir_all(folder.join("sub/deep")).unwrap();
        for file in ["b.csv", "sub/a.csv", "sub/deep/c.txt"] {
            fs::write(folder.join(file), file).unwrap();
        }
        for (target, link) in [(".", "x"), (".", "y"), ("..", "sub/up"), ("../..", "sub/deep/up")] {
            symlink(target, folder.join(link)).unwrap();
        }
        let all = ["b.csv", "sub/a.csv", "sub/deep/c.txt"];
        assert_eq!(list(Pattern::Folder(folder.into()), folder), all);
        let glob =
            |pattern: &str| list(Pattern::Glob(format!("{}/{pattern}", folder.display())), folder);
        assert_eq!(glob("**/*"), all);
        assert_eq!(glob("**/*.csv"), all[..2]);
        assert_eq!(glob("sub/**/*.txt"), all[2..]);
        assert_eq!(glob("*.csv"), all[..1]);
        let missing = Pattern::Glob(format!("{}/no/**/*", folder.display()));
        assert!(missing.list(false, &mut LeftOut::default()).is_err());
    }

    #[test]
    fn hidden_files_are_left_out_unless_they_are_named() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path();
        fs::create_dir_all(folder.join(".ipynb_checkpoints")).unwrap();
        for file in ["a.csv", ".DS_Store", ".b.csv", ".ipynb_checkpoints/a.csv"] {
            fs::write(folder.join(file), file).unwrap();
        }
        let all = [".DS_Store", ".b.csv", ".ipynb_checkpoints/a.csv", "a.csv"];
        let with = |pattern: &Pattern| {
            let name = |path: PathBuf| path.strip_prefix(folder).unwrap().display().to_string();
            pattern
                .list(true, &mut LeftOut::default())
                .unwrap()
                .into_iter()
                .map(name)
                .collect::<Vec<_>>()
        };
        let glob = |pattern: &str| Pattern::Glob(format!("{}/{pattern}", folder.display()));
        assert_eq!(list(Pattern::Folder(folder.into()), folder), ["a.csv"]);
        assert_eq!(with(&Pattern::Folder(folder.into())), all);
        assert_eq!(list(glob("*"), folder), ["a.csv"]);
        assert_eq!(with(&glob("*")), [".DS_Store", ".b.csv", "a.csv"]);
        assert_eq!(list(glob("**/*.csv"), folder), ["a.csv"]);
        assert_eq!(with(&glob("**/*.csv")), all[1..]);
        assert_eq!(list(glob(".*.csv"), folder), [".b.csv"]);
        assert_eq!(list(glob(".ipynb_checkpoints/*"), folder), [".ipynb_checkpoints/a.csv"]);
    }

    #[test]
    fn markers_are_left_out_and_counted_unless_they_are_named() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path();
        for path in
            ["_delta_log/0.json", "sub/_b", "_year=1/c", "_SUCCESS", "_committed_1", "a", "a.crc"]
        {
            fs::create_dir_all(folder.join(path).parent().unwrap()).unwrap();
            fs::write(folder.join(path), path).unwrap();
        }
        let glob = |pattern: &str| Pattern::Glob(format!("{}/{pattern}", folder.display()));
        let folder_list = Pattern::Folder(folder.into());
        assert_eq!(list(folder_list.clone(), folder), ["_year=1/c", "a"]);
        assert_eq!(list(glob("*"), folder), ["a"]);
        assert_eq!(list(glob("**/*"), folder), ["_year=1/c", "a"]);
        assert_eq!(list(glob("_*"), folder), ["_SUCCESS", "_committed_1"]);
        assert_eq!(list(glob("**/_*"), folder), ["_SUCCESS", "_committed_1", "sub/_b"]);
        assert_eq!(list(glob("*.crc"), folder), ["a.crc"]);
        assert_eq!(list(glob("_delta_log/*"), folder), ["_delta_log/0.json"]);
        assert_eq!(list(glob("_delta_log/**/*"), folder), ["_delta_log/0.json"]);
        assert_eq!(list(glob("*/_b"), folder), ["sub/_b"]);
        let count = |pattern: &Pattern| {
            let mut left_out = LeftOut::default();
            pattern.list(false, &mut left_out).unwrap();
            left_out.describe().unwrap_or_default()
        };
        // A folder counts only once.
        assert!(count(&folder_list).starts_with("left out 5 hidden files and markers"));
        assert!(count(&glob("*")).starts_with("left out 3 hidden files and markers"));
        assert_eq!(count(&glob("_*")), "");
        let only = Pattern::Glob(format!("{}/sub/*", folder.display()));
        let error = only.list(false, &mut LeftOut::default()).unwrap_err();
        assert!(error.remedy.starts_with("left out 1 hidden file or marker"), "{error}");
    }

    #[test]
    fn links_to_other_folders_are_followed() {
        let place = tempfile::tempdir().unwrap();
        let [folder, other] = ["folder", "other"].map(|name| place.path().join(name));
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir_all(&other).unwrap();
        fs::write(other.join("1"), "1").unwrap();
        symlink(&other, folder.join("b")).unwrap();
        symlink(&other, folder.join("a")).unwrap();
        assert_eq!(list(Pattern::Folder(folder.clone()), &folder), ["a/1", "b/1"]);
        let pattern = format!("{}/**/*", folder.display());
        assert_eq!(list(Pattern::Glob(pattern), &folder), ["a/1", "b/1"]);
    }

    #[test]
    fn the_folder_of_a_pattern_is_before_its_first_wildcard() {
        for (pattern, folder) in [
            ("**/a", "."),
            ("/**/a", "/"),
            ("a/b*/**", "a"),
            ("/a/b/**/c", "/a/b"),
            ("../**", ".."),
        ] {
            assert_eq!(folder_of(pattern), Path::new(folder), "{pattern}");
        }
    }
}
