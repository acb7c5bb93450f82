//! Opens the companions of an object: objects that lie beside it, and that its decoder is shown
//! together with it. Also takes them out of lists of objects.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use pipemill_types::{CompanionRule, Companions};

use crate::file_system::FileSystem;
use crate::file_version::{FileVersion, stable_metadata};
use crate::open::open_at_once;
use crate::regular_file::RegularFile;
use crate::selected::check_selected;
use crate::{Input, SourceError, Stop};

/// A companion of an object: see [`Companions`].
pub struct Companion {
    /// Path or URL.
    pub name: String,
    /// Stored size in bytes.
    pub size: u64,
    /// Its bytes as they are stored. They can be read at any place.
    pub input: Box<dyn Input>,
}

/// A companion that is a file, and the state in which it was opened.
pub(crate) struct CompanionFile {
    pub(crate) companion: Companion,
    pub(crate) path: PathBuf,
    pub(crate) version: FileVersion,
}

/// Opens the companions of a file, in the order of their rules.
pub(crate) fn open_companions(
    companions: &Companions,
    path: &Path,
    name: &str,
    stop: &Stop,
) -> Result<Vec<CompanionFile>, SourceError> {
    let names = companions.of(path.as_os_str().as_bytes());
    let names = names.map_err(|rule| not_an_object(name, rule))?;
    let open = |beside: Vec<u8>| {
        let path = PathBuf::from(std::ffi::OsString::from_vec(beside));
        open_companion(path, name, stop)
    };
    names.into_iter().map(open).collect()
}

fn open_companion(path: PathBuf, object: &str, stop: &Stop) -> Result<CompanionFile, SourceError> {
    let name = path.to_string_lossy().into_owned();
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => missing_companion(object, &name),
        _ => SourceError::io(&*name, "can't open it", &error),
    };
    let file = open_at_once(&path).map_err(failed)?;
    let metadata = stable_metadata(&file).map_err(failed)?;
    check_selected(&name, &metadata, FileSystem::of(&file))?;
    let version = FileVersion::of(&metadata);
    let input = RegularFile::new(&path, &name, file, version, 0, stop)?;
    let companion = Companion { name, size: version.content.size, input: Box::new(input) };
    Ok(CompanionFile { companion, path, version })
}

/// The error for an object whose companion does not exist.
pub(crate) fn missing_companion(object: &str, companion: &str) -> SourceError {
    let message = format!("is not decoded without its companion {companion}, which does not exist");
    let remedy = "bring the companion to that place, or leave the object out";
    SourceError { missing: true, ..SourceError::new(object, message, remedy) }
}

/// The error for an object whose name has not the end of the rule.
pub(crate) fn not_an_object(object: &str, rule: &CompanionRule) -> SourceError {
    let message =
        format!("has no companion: its name would be the object's name with {rule} at its end");
    let remedy = match object.ends_with(&rule.companion) {
        true => "it may be the companion itself: name the object",
        false => "give the decoder such objects only, uncompressed",
    };
    SourceError::new(object, message, remedy)
}

/// The error for a companion that is listed without its object.
pub(crate) fn missing_object(companion: &str, object: &str) -> SourceError {
    let message = format!("is the companion of {object}, which is not among the objects");
    let remedy = "bring the object or name it, or take its companion away";
    SourceError { missing: true, ..SourceError::new(companion, message, remedy) }
}

/// Takes the companions out of a list of files. They are read with their objects.
///
/// # Errors
/// The object of one of them is not in the list.
pub(crate) fn take_out<T>(
    companions: &Companions,
    files: &mut Vec<T>,
    path: impl Fn(&T) -> &Path,
) -> Result<(), SourceError> {
    if companions.is_empty() {
        return Ok(());
    }
    let listed: HashSet<&OsStr> = files.iter().map(|file| path(file).as_os_str()).collect();
    for file in files.iter() {
        let file = path(file);
        let Some(object) = companions.object_of(file.as_os_str().as_bytes()) else { continue };
        let object = OsStr::from_bytes(&object);
        if !listed.contains(object) {
            let [file, object] = [file, Path::new(object)].map(Path::to_string_lossy);
            return Err(missing_object(&file, &object));
        }
    }
    files.retain(|file| companions.object_of(path(file).as_os_str().as_bytes()).is_none());
    Ok(())
}
