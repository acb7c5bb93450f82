//! A source in this process: what it gives, object by object, to its end or its error.

use std::sync::Arc;

use pipemill_source::s3::{Access, Objects, S3Runtime, Selection, Settings};
use pipemill_source::{Object, ReadOutcome, ReadSettings, Source, SourceError, SourceEvent};
use pipemill_source::{Start, Stop};
use pipemill_testing::PATIENCE;
use pipemill_testing::bucket::BUCKET;

/// Room for what is fetched ahead.
pub const BUDGET: u64 = 4 << 20;

/// Everything below a prefix of the bucket, in small parts. Nothing is given up because this
/// machine is slow: who wants a limit on waiting to be met sets it, and a fault that takes far
/// longer.
pub fn settings(endpoint: &str, prefix: &str) -> Settings {
    let address = format!("s3://{BUCKET}/{prefix}").parse().expect("it is an address");
    let mut settings = Settings::new(Selection::Prefixes(vec![address]));
    settings.access = access(endpoint);
    settings.part_size = 16 << 10;
    settings.stall_timeout = PATIENCE;
    settings.retry_timeout = PATIENCE;
    settings
}

/// Objects by their names.
pub fn objects(endpoint: &str, keys: &[&str]) -> Settings {
    let address = |key: &&str| format!("s3://{BUCKET}/{key}").parse().expect("it is an address");
    Settings {
        selection: Selection::Objects(keys.iter().map(address).collect()),
        ..settings(endpoint, "")
    }
}

pub fn access(endpoint: &str) -> Access {
    Access {
        endpoint: Some(endpoint.to_owned()),
        region: Some("us-east-1".to_owned()),
        anonymous: true,
        ..Access::default()
    }
}

/// An object as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedObject {
    pub epoch: u32,
    /// Without the bucket's address.
    pub name: String,
    pub bytes: Vec<u8>,
}

/// Starts what fetches.
pub fn s3() -> Arc<S3Runtime> {
    S3Runtime::start(BUDGET).expect("there are threads")
}

/// A source to be read.
pub fn source(settings: &Settings) -> Objects {
    Objects::new(
        s3(),
        settings.clone(),
        Start::default(),
        Stop::new().expect("there are descriptors"),
    )
}

/// Reads to the end. Every object that came is there, of the last perhaps a part.
pub fn read(settings: &Settings) -> (Vec<ReceivedObject>, Result<u32, SourceError>) {
    read_source(&mut source(settings))
}

/// The same; the answer is how many epochs there were.
pub fn read_source(source: &mut dyn Source) -> (Vec<ReceivedObject>, Result<u32, SourceError>) {
    let (mut received, mut epochs) = (Vec::new(), 0);
    loop {
        match source.next() {
            Ok(SourceEvent::Object(object)) => {
                let (object, error) = whole(object);
                received.push(object);
                if let Some(error) = error {
                    return (received, Err(error));
                }
            }
            Ok(SourceEvent::EpochEnd(_)) => epochs += 1,
            Ok(SourceEvent::End) => return (received, Ok(epochs)),
            Err(error) => return (received, Err(error)),
        }
    }
}

/// Reads one object.
pub fn read_object(source: &mut dyn Source) -> ReceivedObject {
    match source.next() {
        Ok(SourceEvent::Object(object)) => match whole(object) {
            (object, None) => object,
            (object, Some(error)) => panic!("{error} in {}", object.name),
        },
        Ok(_) => panic!("there is no object"),
        Err(error) => panic!("{error}"),
    }
}

fn whole(mut object: Object) -> (ReceivedObject, Option<SourceError>) {
    // Odd, so that no boundary of a read is one of a part.
    let mut buffer = vec![0; 10_007];
    let name = object.name.trim_start_matches(&format!("s3://{BUCKET}/")).to_owned();
    let mut received = ReceivedObject { epoch: object.epoch, name, bytes: Vec::new() };
    loop {
        match object.input.read(&mut buffer, Some(PATIENCE)) {
            Ok(ReadOutcome::Bytes(count)) => received.bytes.extend_from_slice(&buffer[..count]),
            Ok(ReadOutcome::End) => return (received, None),
            Ok(other) => panic!("{other:?} at byte {} of {}", received.bytes.len(), received.name),
            Err(error) => return (received, Some(error)),
        }
    }
}

/// Bytes that tell where they belong, so that none can take another's place.
pub fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count).map(|_| random.u8(..)).collect()
}

/// The same settings, read so.
pub fn reading(settings: &Settings, reading: ReadSettings) -> Settings {
    Settings { reading, ..settings.clone() }
}
