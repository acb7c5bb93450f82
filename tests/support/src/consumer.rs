//! Consumers inside of the test's own process.

use std::path::Path;
use std::time::{Duration, Instant};

use pipemill_ring::protocol::{EpochEnd, ErrorReport, Hello};
use pipemill_ring::reader::{Batch, Event, Reader, ReaderError};

use crate::PATIENCE;

/// What was read of a channel.
#[derive(Debug, Default)]
pub struct Read {
    /// Field 0 of each record, empty where it is absent.
    pub records: Vec<Vec<u8>>,
    /// The ends of epochs that came.
    pub epochs: Vec<EpochEnd>,
    /// What ended it, if not the end of the stream.
    pub error: Option<ReaderError>,
}

impl Read {
    /// The host's report.
    ///
    /// # Panics
    /// If the channel ended in another way.
    #[track_caller]
    pub fn report(&self) -> &ErrorReport {
        match &self.error {
            Some(ReaderError::Failed(report)) => report,
            other => panic!("expected the channel to fail, found {other:?}"),
        }
    }

    /// The records.
    ///
    /// # Panics
    /// If the channel failed.
    #[track_caller]
    pub fn well(self) -> Vec<Vec<u8>> {
        assert!(self.error.is_none(), "{:?}", self.error);
        self.records
    }
}

/// Connects as soon as a host answers.
///
/// # Panics
/// If none does, or if it refuses.
#[track_caller]
pub fn connect(socket: &Path, channel: &str, credits: Option<u32>) -> Reader {
    let connected = connect_as(socket, &Hello { credits, ..Hello::new(channel, "test") });
    connected.unwrap_or_else(|error| panic!("channel {channel}: {error}"))
}

/// Connects with these wishes, as soon as a host answers.
///
/// # Errors
/// It refuses, or none answers.
pub fn connect_as(socket: &Path, hello: &Hello) -> Result<Reader, ReaderError> {
    let until = Instant::now() + PATIENCE;
    loop {
        match Reader::connect_as(socket, hello, false) {
            Err(ReaderError::Connect { .. }) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(5));
            }
            connected => return connected,
        }
    }
}

/// Reads to the end.
pub fn read(reader: &mut Reader) -> Read {
    let mut read = Read::default();
    loop {
        match reader.next() {
            Ok(Event::Batch(batch)) => read.records.extend(records(&batch)),
            Ok(Event::EpochEnd(end)) => read.epochs.push(end),
            Ok(Event::StreamEnd) => return read,
            Err(error) => {
                read.error = Some(error);
                return read;
            }
        }
    }
}

/// Field 0 of each record.
pub fn records(batch: &Batch) -> Vec<Vec<u8>> {
    (0..batch.records()).map(|record| batch.field(record, 0).unwrap_or_default().to_vec()).collect()
}
