//! The setup of most tests: a ring with a server in a temporary folder, and batches whose contents
//! can be checked.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pipemill_ring::host::{
    BatchInfo, Column, Ring, RingConfig, Server, ServerConfig, Status, WriteError, Writer,
};
use pipemill_ring::protocol::{Field, Mode, Scalar};
use pipemill_ring::reader::{Batch, Event, Reader};
use pipemill_types::BatchPosition;
use tempfile::TempDir;

/// Only a failing test waits this long, so it is long enough for the slowest machine.
pub const HANG_TIMEOUT: Duration = Duration::from_secs(60);
/// Number of records of a batch that fits a slot.
pub const RECORDS: u64 = 10;

pub struct Host {
    pub ring: Arc<Ring>,
    pub server: Option<Server>,
    pub socket: PathBuf,
    _folder: TempDir,
}

/// A folder that belongs to this user alone.
pub fn folder() -> TempDir {
    tempfile::Builder::new().permissions(PermissionsExt::from_mode(0o700)).tempdir().unwrap()
}

pub fn config() -> RingConfig {
    RingConfig {
        channel: "train".into(),
        slots: 8,
        slot_bytes: 8192,
        dedicated: RingConfig::FEW_DEDICATED,
        credits: 2,
        mode: Mode::Share,
        consumers: 1,
    }
}

pub fn fields() -> Vec<Field> {
    vec![Field::new("data", Scalar::Bytes, vec![])]
}

pub fn host(config: RingConfig) -> Host {
    serve(Ring::new(config).unwrap())
}

pub fn serve(ring: Arc<Ring>) -> Host {
    let folder = folder();
    let socket = folder.path().join("run/socket");
    ring.set_schema(fields()).unwrap();
    let server =
        Server::start(&socket, &ServerConfig::default(), vec![ring.clone()], None).unwrap();
    Host { ring, server: Some(server), socket, _folder: folder }
}

impl Host {
    pub fn reader(&self, credits: u32) -> Reader {
        Reader::connect(&self.socket, "train", Some(credits)).unwrap()
    }

    /// Polls the ring's status until it fulfils `condition`, which `what` describes. The server's
    /// thread gives no signal when it has received a message. The condition must be a lasting one.
    pub fn wait_until(&self, what: &str, condition: impl Fn(&Status) -> bool) {
        let deadline = std::time::Instant::now() + HANG_TIMEOUT;
        while !condition(&self.ring.status()) {
            let late = std::time::Instant::now() > deadline;
            assert!(!late, "never {what}: {:?}", self.ring.status());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Fills and grants a batch of `records` records from number `first` on.
pub fn grant(ring: &Arc<Ring>, epoch: u32, first: u64, records: u64) -> Result<u64, WriteError> {
    Ok(fill(ring.acquire()?, epoch, first, records))
}

/// Fills and grants a batch of one record, three slots long, in a dedicated buffer.
pub fn grant_dedicated(ring: &Arc<Ring>, epoch: u32, first: u64) -> Result<u64, WriteError> {
    let mut writer = ring.acquire_dedicated(100)?;
    // It grows after it was partly filled, and its address may change.
    writer.payload()[..100].fill(1);
    writer.ensure(3 * ring.config().slot_bytes).unwrap();
    assert_eq!(writer.payload()[..100], [1; 100]);
    Ok(fill_with(writer, epoch, first, &[content(first, 3 * ring.config().slot_bytes)]))
}

pub fn fill(writer: Writer, epoch: u32, first: u64, records: u64) -> u64 {
    let contents: Vec<_> = (first..first + records).map(|record| content(record, 100)).collect();
    fill_with(writer, epoch, first, &contents)
}

/// Fills and grants a batch of these records.
pub fn fill_with(mut writer: Writer, epoch: u32, first: u64, contents: &[Vec<u8>]) -> u64 {
    let (mut column, mut at) = (Column::default(), 0);
    for content in contents {
        writer.payload()[at..at + content.len()].copy_from_slice(content);
        column.push(at as u32, content.len() as u32);
        at += content.len();
    }
    let info = BatchInfo {
        position: BatchPosition { first_record: first, ..position(epoch) },
        object_offset: first * 100,
        payload_bytes: at,
        ..BatchInfo::default()
    };
    writer.grant(&info, &[column]).unwrap()
}

/// A position in the object of all batches.
pub fn position(epoch: u32) -> BatchPosition {
    BatchPosition { object: "made-up".to_owned(), ..BatchPosition::of_epoch(epoch) }
}

pub fn content(record: u64, bytes: usize) -> Vec<u8> {
    let mut content = record.to_le_bytes().to_vec();
    content.extend((8..bytes as u64).map(|at| (record * 31 + at * 7) as u8));
    content
}

/// Checks the header and every record of a batch.
pub fn check(batch: &Batch) {
    assert_eq!(batch.object(), "made-up");
    assert_eq!(batch.fields(), fields());
    assert_eq!(batch.object_offset(), batch.first_record() * 100);
    for (record, number) in (0..batch.records()).zip(batch.first_record()..) {
        let bytes = batch.field(record, 0).expect("present");
        assert!(bytes == content(number, bytes.len()), "record {number} has other bytes");
    }
    assert_eq!(batch.field(batch.records(), 0), None);
    assert_eq!(batch.field(0, 1), None);
}

pub fn next_batch(reader: &mut Reader) -> Batch {
    match reader.next().unwrap() {
        Event::Batch(batch) => batch,
        other => panic!("expected a batch, got {other:?}"),
    }
}
