//! `output/failure`: the reason why the job failed. The platform shows its first 1,024 characters.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Number of characters that the platform shows.
const MAX_CHARACTERS: usize = 1_024;

/// Removes the reason of an earlier run, which the platform would take for the reason of this run.
pub(super) fn clear(base: &Path) {
    let path = base.join("output/failure");
    match std::fs::remove_file(&path) {
        Ok(()) => log::info!("{}: removed: it is of an earlier run", path.display()),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
        Err(error) => {
            log::warn!("{}: is of an earlier run, and can't be removed: {error}", path.display());
        }
    }
}

/// Writes the reason, unless the command has written one.
pub(super) fn report(base: &Path, why: &str) {
    let folder = base.join("output");
    let path = folder.join("failure");
    let shown: String = why.chars().take(MAX_CHARACTERS).collect();
    let written = std::fs::create_dir_all(&folder)
        .and_then(|()| OpenOptions::new().write(true).create_new(true).open(&path))
        .and_then(|mut file| file.write_all(shown.as_bytes()));
    match written {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            log::warn!("{}: can't write why the job failed: {error}", path.display());
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_is_kept_and_cut_to_what_the_platform_shows() {
        let base = tempfile::tempdir().unwrap();
        report(base.path(), &"ä".repeat(2_000));
        let path = base.path().join("output/failure");
        assert_eq!(std::fs::read_to_string(&path).unwrap().chars().count(), MAX_CHARACTERS);
        report(base.path(), "another");
        assert!(std::fs::read_to_string(&path).unwrap().starts_with('ä'));
        // The next run.
        clear(base.path());
        clear(base.path());
        report(base.path(), "another");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "another");
    }
}
