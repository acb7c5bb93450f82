//! Sources of bytes: FIFOs, files, S3, standard input. Each source delivers objects in order, and
//! the bytes of each object up to its end.
//!
//! The parsers of manifests are public for the fuzz targets, and hidden from all others.
//!
//! - `arranged`: the order of an epoch of a known list: of its objects, or of their blocks.
//! - `awaited`: the object that a source waits for, as other threads see it.
//! - `beside`: the places at which a file may lie that names the decoder of data.
//! - `by_places`: a compressed object that an index knows, read at several places concurrently.
//! - `cache`: keeps stored bytes of objects in S3 on a local disk.
//! - `chain`: joins several inputs into one.
//! - `companions`: the objects that lie beside an object, and are decoded with it.
//! - `container`: memory limit of the control group (cgroup) of this process, for example of its
//!   container, and the number of processes that the kernel killed because of it.
//! - `epoch_file`: a file with the number of the next epoch, so that a restarted process continues
//!   with the right FIFO.
//! - `error`: errors of sources.
//! - `fifo`: FIFOs as a source: `<dir>/<channel>_<epoch>`, one for each epoch.
//! - `file_identity`: the identity of files and of their list.
//! - `file_system`: the meaning of a file's times and sizes, which depends on its file system.
//! - `file_version`: the state of a regular file, according to its file system.
//! - `files`: files as a source: files that are named one by one, the files that match a pattern,
//!   or all files in a folder.
//! - `header_and_rest`: the first bytes of an object before a later part of it.
//! - `hidden`: names that are not data: hidden files, and the markers that Spark, Hive, Delta Lake
//!   and Hadoop write next to their data.
//! - `inflate`: inflates gzip, zlib and zstd while an object is read.
//! - `known`: objects that are known before the source lists or reads any: those of an index.
//! - `list_digest`: digest of a list of objects.
//! - `location`: the place of a single file: a path, or an address in S3.
//! - `open`: opens a path: a regular file, a FIFO, a device or standard input.
//! - `order`: order of an epoch's objects, and the part of them that this machine reads: first the
//!   list is shuffled by a seed, then it is divided.
//! - `paths`: the names of a command line as a source: files, FIFOs, folders, objects in S3,
//!   standard input.
//! - `reading`: reading options that apply to files and to objects in S3 alike.
//! - `regular_file`: the bytes of a regular file, all from the state in which it was opened.
//! - `s3`: S3 as a source: objects by prefix, by name or by manifest, prefetched in parts.
//! - `scheme`: addresses of stores that are not read: `gs://`, `https://`, `az://`, `hdfs://` and
//!   others.
//! - `selected`: the files that a folder or a pattern may select: stored regular files.
//! - `list_part`: divides an epoch's objects into parts.
//! - `skipped`: a known list without some of its records: a skip list.
//! - `skip`: begins to read in the middle of an input that can't seek: a pipe, or compressed bytes.
//! - `source`: the interface of all sources: [`Source`] gives objects in order, [`Input`] the bytes
//!   of one object.
//! - `split_mix`: the random numbers of every shuffle: SplitMix64.
//! - `start`: the start of a source: its first byte, or a byte in the middle, where an earlier
//!   process stopped.
//! - `stop`: a request to stop.
//! - `total_size`: byte counts of epochs, from which progress displays compute what is left.
//! - `wait`: waits for a file descriptor, with a timeout, until a stop is requested.
//! - `walk`: walks through a folder and its subfolders.
//! - `web`: reads one file of the web as a whole, such as a plugin.
//! - `wrap`: wraps a whole object as one RecordIO record.

#![forbid(unsafe_code)]

mod arranged;
mod awaited;
mod beside;
mod by_places;
pub mod cache;
mod chain;
mod companions;
pub mod container;
mod epoch_file;
mod error;
mod fifo;
mod file_identity;
mod file_system;
mod file_version;
mod files;
mod header_and_rest;
mod hidden;
mod inflate;
mod known;
mod list_digest;
mod list_part;
mod location;
mod open;
mod order;
mod paths;
mod reading;
mod regular_file;
pub mod s3;
mod scheme;
mod selected;
mod skip;
mod skipped;
mod source;
pub mod split_mix;
mod start;
mod stop;
mod total_size;
mod wait;
mod walk;
pub mod web;
mod wrap;

pub use awaited::{Awaited, AwaitedObject};
pub use beside::{DecoderPlaces, decoder_places};
pub use companions::Companion;
pub use error::SourceError;
pub use fifo::{FifoSettings, Fifos};
pub use file_identity::file_identity;
pub use files::{Files, Pattern};
pub use hidden::{DECODER_FILE, INDEX_NAME, LeftOut};
pub use inflate::Compression;
pub use known::{KnownFiles, KnownList, KnownObject, KnownObjects, PlaceInOrder};
pub use list_part::{Balance, ListPart};
pub use location::Location;
pub use order::Order;
pub use paths::{Paths, stdin};
pub use pipemill_codecs::{SeekPoint, SeekPoints};
pub use reading::{ReadSettings, SMALL_OBJECT, file_size, is_planned_name};
pub use scheme::{OtherAddress, other_address};
pub use skip::skip;
pub use skipped::{ListWithout, SkippedRecords};
pub use source::{
    AskedObject, Block, Input, IsCached, KnownRecords, NoSource, Object, ReadOutcome, Source,
    SourceEvent,
};
pub use start::Start;
pub use stop::Stop;
pub use total_size::TotalSize;
