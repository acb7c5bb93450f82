//! Reads and writes indexes in files and in S3.

use pipemill_source::Location;
use pipemill_source::s3::{LazyS3Runtime, S3Runtime, Settings, read_object, write_object};
use std::sync::Arc;

use crate::{Index, IndexError};

/// Reads and writes indexes in files and in S3.
pub struct Storage {
    /// How S3 is reached. Their selection is not used.
    settings: Settings,
    runtime: LazyS3Runtime,
}

/// The state in which an index was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Its ETag, if it is in S3.
    etag: Option<String>,
}

impl Storage {
    /// Reaches S3 with these settings. Their selection is not used.
    pub fn new(settings: Settings) -> Self {
        Self { settings, runtime: LazyS3Runtime::new(None) }
    }

    /// Reads an index as a whole, and checks its checksum.
    ///
    /// # Errors
    /// It can't be read, is damaged, or is no index of this version.
    pub fn read(&mut self, location: &Location) -> Result<(Index, Version), IndexError> {
        let address = match location {
            Location::File(path) => return Ok((Index::read(path)?, Version { etag: None })),
            Location::S3(address) => address,
        };
        let s3 = self.start(location)?;
        let read = read_object(&s3, &self.settings, address);
        let read = read.map_err(|error| IndexError::of_s3(location, error))?;
        Ok((Index::of_bytes(location, read.bytes)?, Version { etag: read.etag }))
    }

    /// Reads a text as a whole, such as a skip list.
    ///
    /// # Errors
    /// It can't be read, or is not UTF-8; the error says why.
    pub fn read_text(&mut self, location: &Location) -> Result<String, String> {
        let address = match location {
            Location::File(path) => {
                return std::fs::read_to_string(path).map_err(|error| error.to_string());
            }
            Location::S3(address) => address,
        };
        let s3 = self.start(location).map_err(|error| error.message)?;
        let read = read_object(&s3, &self.settings, address).map_err(|error| error.message)?;
        String::from_utf8(read.bytes).map_err(|error| error.utf8_error().to_string())
    }

    /// Writes an index as a whole or not at all: an older one stays until the new one is complete.
    /// With `replaces`, an index in S3 is replaced only if it is still in this state.
    ///
    /// # Errors
    /// It can't be written, or it has changed since it was read.
    pub fn write(
        &mut self,
        index: &Index,
        location: &Location,
        replaces: Option<&Version>,
    ) -> Result<(), IndexError> {
        let address = match location {
            Location::File(path) => return index.write(path),
            Location::S3(address) => address,
        };
        let failed = |error| IndexError::io(location, "can't be written", &error);
        let bytes = index.to_bytes().map_err(failed)?;
        let s3 = self.start(location)?;
        let etag = replaces.and_then(|version| version.etag.as_deref());
        write_object(&s3, &self.settings, address, bytes.into(), etag).map_err(|error| {
            let message = format!("can't be written: {}", error.message);
            let missing = error.missing;
            IndexError { missing, ..IndexError::new(location, message, error.remedy) }
        })
    }

    fn start(&mut self, location: &Location) -> Result<Arc<S3Runtime>, IndexError> {
        self.runtime.get().map_err(|error| IndexError::io(location, "can't start", &error))
    }
}
