//! Reading options that apply to files and to objects in S3 alike.

use std::fs::Metadata;
use std::path::{Path, PathBuf};

use pipemill_types::Companions;

use crate::cache::CacheSettings;
use crate::companions::{CompanionFile, open_companions};
use crate::file_version::FileVersion;
use crate::open::{self, Found, Opened};
use crate::s3::{Address, SharedInventories};
use crate::skip::skip;
use crate::start::ObjectStart;
use crate::wrap::{self, Wrapped};
use crate::{Compression, Order, SourceError, Stop};

/// How objects are read: epochs, compression, order, part, wrapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadSettings {
    /// Number of epochs, 1 or more.
    pub epochs: u32,
    /// How the objects are compressed.
    pub compression: Compression,
    /// Order of the objects, and the part that this machine reads.
    pub order: Order,
    /// Whether each object is wrapped as one RecordIO record.
    pub wrap: bool,
    /// Whether folders, shell patterns and prefixes select hidden files, markers of other tools
    /// such as `_SUCCESS`, and what is in hidden folders.
    pub hidden: bool,
    /// Whether folders, shell patterns and prefixes are listed again for each epoch. Otherwise all
    /// epochs have the objects of the first list.
    pub relist: bool,
    /// The manifest of an S3 Inventory that has the lists of prefixes. `None`: the bucket is asked
    /// for them.
    pub inventory: Option<Box<Address>>,
    /// The inventories that other sources with these settings have read. `None`: each source reads
    /// its own, which is dropped when the list ends.
    pub inventories: Option<SharedInventories>,
    /// Whether bytes of objects in a store are requested when they are read, and not before: their
    /// decoder chooses them. `None`: not known, so the names of the objects decide.
    pub on_demand: Option<bool>,
    /// Compressed objects of an index that have more stored bytes than this are read at several
    /// places concurrently. `None`: no object is.
    pub divided_from: Option<u64>,
    /// The companions that the decoder needs of each object. They are opened with their object, and
    /// lists have no objects of their own for them.
    pub companions: Companions,
    /// The cache of the records of objects on a local disk, if there is one.
    pub records: Option<CacheSettings>,
}

/// An object in a store of at most this many bytes is fetched as a whole, before it is read: one
/// request costs less than several that wait for each other.
pub const SMALL_OBJECT: u64 = 1 << 20;

/// Endings of the names of objects whose decoder chooses the bytes that it is shown.
const PLANNED_ENDINGS: [&str; 5] = [".parquet", ".parq", ".arrow", ".feather", ".ipc"];
/// Ending of the names of Arrow streams, which have no directory: they are fetched from their
/// start.
const STREAM_ENDING: &str = ".arrows";

/// Whether the built-in decoder of objects with this name chooses the bytes that it is shown.
pub fn is_planned_name(name: &str) -> bool {
    PLANNED_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

impl Default for ReadSettings {
    fn default() -> Self {
        Self {
            epochs: 1,
            compression: Compression::Auto,
            order: Order::default(),
            wrap: false,
            hidden: false,
            relist: false,
            inventory: None,
            inventories: None,
            on_demand: None,
            divided_from: None,
            companions: Companions::default(),
            records: None,
        }
    }
}

impl ReadSettings {
    /// Whether the bytes of this object of `size` bytes are requested when they are read, and not
    /// before. A block of an object is counted in the bytes that its decoder chooses.
    pub(super) fn is_on_demand(&self, name: &str, size: u64, is_block: bool) -> bool {
        if size <= SMALL_OBJECT && !is_block || name.ends_with(STREAM_ENDING) {
            return false;
        }
        self.on_demand.unwrap_or_else(|| is_planned_name(name)) && !self.wrap
    }

    /// Opens a file, a FIFO or standard input. Messages call it `name`: a path need not be UTF-8.
    /// The read begins at `start`.
    pub(super) fn open(
        &self,
        path: &Path,
        name: &str,
        start: ObjectStart,
        found: Found,
        stop: &Stop,
    ) -> Result<Opened, SourceError> {
        let compression = self.compression.resolve(name);
        if !self.wrap {
            return open::open(path, name, compression, start, found, stop);
        }
        let Opened { input, version } =
            open::open(path, name, compression, ObjectStart::default(), found, stop)?;
        // The length of a compressed file or of a pipe is not known before its end.
        let size = version.filter(|_| self.is_plain(name)).map(|file| file.content.size);
        let wrapped = Wrapped::new(name.to_owned(), input, size);
        Ok(Opened { input: skip(name, Box::new(wrapped), 0, start.offset), version })
    }

    /// Opens the companions of a file that was opened in this state. Pipes and devices have none.
    pub(super) fn open_companions(
        &self,
        path: &Path,
        name: &str,
        version: Option<FileVersion>,
        stop: &Stop,
    ) -> Result<Vec<CompanionFile>, SourceError> {
        match version {
            Some(_) => open_companions(&self.companions, path, name, stop),
            None => Ok(Vec::new()),
        }
    }

    /// The files that this machine reads in this epoch, in the epoch's order.
    ///
    /// # Errors
    /// The metadata of a file can't be read. They are read only to balance parts by size.
    pub fn share(&self, files: Vec<PathBuf>, epoch: u32) -> Result<Vec<PathBuf>, SourceError> {
        self.order.arrange(files, epoch, |path| file_size(path))
    }

    /// Whether an object is uncompressed, judged by its name.
    fn is_plain(&self, name: &str) -> bool {
        self.compression.is_plain_name(name)
    }

    /// Number of bytes that will be read of an object of `stored` bytes; `None` for a compressed
    /// one.
    pub(super) fn length(&self, name: &str, stored: u64) -> Option<u64> {
        let wrapped = || if self.wrap { wrap::length(stored) } else { stored };
        self.is_plain(name).then(wrapped)
    }

    /// Number of bytes that will be read of all these files; `None` if it is unknown for one of
    /// them.
    pub(super) fn length_of_all(&self, files: &[PathBuf]) -> Option<u64> {
        let length = |path: &PathBuf| {
            let file = std::fs::metadata(path).ok().filter(Metadata::is_file)?;
            self.length(&path.to_string_lossy(), file.len())
        };
        files.iter().map(length).sum()
    }
}

/// Stored size of a file in bytes.
///
/// # Errors
/// The file's metadata can't be read.
pub fn file_size(path: &Path) -> Result<u64, SourceError> {
    let file = std::fs::metadata(path);
    let file = file
        .map_err(|error| SourceError::io(path.to_string_lossy(), "can't get its metadata", &error));
    Ok(file?.len())
}
