//! The report's file. It is checked at the start of the run, and replaced as a whole or not at all.

use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// A file that could be written when it was checked.
#[derive(Debug)]
pub(super) struct ReportFile {
    /// The path without symbolic links.
    path: PathBuf,
    folder: PathBuf,
}

impl ReportFile {
    /// Checks that a file can be created at this path.
    pub(super) fn new(path: &Path) -> Result<Self, String> {
        let wrong = |why: &dyn std::fmt::Display, remedy: &str| {
            Err(format!("--report: {}: {why}; {remedy}", path.display()))
        };
        let path = match path.canonicalize() {
            // A device or a FIFO must not be replaced by a file.
            Ok(there) if !there.is_file() => {
                return wrong(&"it is there, and is no file", "name a file, such as report.html");
            }
            Ok(there) => there,
            Err(_) => path.to_owned(),
        };
        if path.file_name().is_none() {
            return wrong(&"this is no file’s name", "name a file, such as report.html");
        }
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let target = Self { path, folder };
        if let Err(error) = target.temporary() {
            return wrong(&error, "name a file in a folder that is there and can be written");
        }
        Ok(target)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the file by one with this text.
    pub(super) fn write(&self, text: &str) -> io::Result<()> {
        let mut file = self.temporary()?;
        file.write_all(text.as_bytes())?;
        file.persist(&self.path)?;
        Ok(())
    }

    /// A temporary file in the same folder. Dropping it removes it.
    fn temporary(&self) -> io::Result<NamedTempFile> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(".pipemill-report-");
        // The default mode of new files: the umask still applies.
        builder.permissions(Permissions::from_mode(0o666)).tempfile_in(&self.folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_no_other_file_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.html");
        for text in ["longer", "short"] {
            ReportFile::new(&path).unwrap().write(text).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        ReportFile::new(&link).unwrap().write("through the link").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "through the link");
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2);
    }

    #[test]
    fn paths_that_are_no_file_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |path: &Path| ReportFile::new(path).unwrap_err();
        assert!(refused(folder.path()).contains("is no file; name a file"));
        assert!(refused(Path::new("/dev/null")).contains("is no file"));
        assert!(refused(Path::new("")).contains("no file’s name"));
        let missing = refused(&folder.path().join("missing/report.html"));
        assert!(missing.contains("name a file in a folder that is there"), "{missing}");
    }
}
