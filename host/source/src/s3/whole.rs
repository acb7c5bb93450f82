//! Reads an object as a whole into memory: a manifest, an index.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::address::Address;
use super::error::RequestError;
use super::fetch::Fetch;
use super::plan::Planner;
use super::prefetch::part_ranges;
use super::runtime::{S3Handle, S3Runtime, Task};
use super::settings::Settings;
use super::target::{Target, head};
use super::window::ReadWindow;
use crate::SourceError;

/// How often an object is read again that was replaced while it was read.
const MAX_REREADS: u32 = 3;

/// An object that was read as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeObject {
    /// All of its bytes.
    pub bytes: Vec<u8>,
    /// The ETag of the state that was read, if the server has one.
    pub etag: Option<String>,
}

/// Reads an object with as many requests at once as the settings allow. An object that is replaced
/// meanwhile is read again.
///
/// # Errors
/// It can't be read, or has another checksum than the server stores.
pub fn read_object(
    s3: &S3Runtime,
    settings: &Settings,
    address: &Address,
) -> Result<WholeObject, SourceError> {
    read_object_within(s3, settings, address, u64::MAX)
}

/// Reads an object of at most `max_bytes` bytes, as [`read_object`] does. Of a larger one, no byte
/// is read.
///
/// # Errors
/// As [`read_object`], or the object has more bytes.
pub fn read_object_within(
    s3: &S3Runtime,
    settings: &Settings,
    address: &Address,
    max_bytes: u64,
) -> Result<WholeObject, SourceError> {
    let reading = Reading {
        s3: Arc::new(s3.handle(settings)),
        window: ReadWindow::new(s3.budget.clone(), settings.part_size, settings.concurrency),
        part_size: settings.part_size,
        requests: settings.concurrency,
    };
    s3.tokio().block_on(async {
        for _ in 0..MAX_REREADS {
            let target = Arc::new(head(&reading.s3, address, settings.verify).await?);
            let size = target.size;
            if size > max_bytes {
                let message = format!("has {size} bytes; at most {max_bytes} are read");
                return Err(SourceError::new(address.to_string(), message, "check the address"));
            }
            match reading.read(&target).await {
                Ok(bytes) => return Ok(WholeObject { bytes, etag: target.etag().cloned() }),
                Err(RequestError::Changed(_)) => {}
                Err(error) => return Err(error.into_source_error(address)),
            }
        }
        let message = format!("was replaced {MAX_REREADS} times while it was read");
        Err(SourceError::new(address.to_string(), message, "read it when nobody writes it"))
    })
}

/// Reads a manifest, of at most `max_bytes` bytes.
pub(super) async fn read_manifest(
    s3: Arc<S3Handle>,
    window: Arc<ReadWindow>,
    address: &Address,
    max_bytes: u64,
) -> Result<Vec<u8>, SourceError> {
    let target = Arc::new(head(&s3, address, true).await?);
    let size = target.size;
    if size > max_bytes {
        let message = format!("has {size} bytes; a manifest has at most {max_bytes}");
        return Err(SourceError::new(address.to_string(), message, "split it, or use a prefix"));
    }
    let reading = Reading { s3, window, part_size: max_bytes, requests: 1 };
    reading.read(&target).await.map_err(|error| error.into_source_error(address))
}

/// Reads a file of an inventory, which must have `size` bytes.
pub(super) async fn read_list_file(
    planner: &Planner,
    address: &Address,
    size: u64,
) -> Result<Vec<u8>, SourceError> {
    let (s3, window) = (planner.s3.clone(), planner.window.clone());
    let target = Arc::new(head(&s3, address, true).await?);
    if target.size != size {
        let message = format!("has {} bytes, and its manifest says {size}", target.size);
        let remedy = "it was replaced: take the newest inventory";
        return Err(SourceError::new(address.to_string(), message, remedy));
    }
    let Settings { part_size, concurrency: requests, .. } = *planner.settings;
    let reading = Reading { s3, window, part_size, requests };
    reading.read(&target).await.map_err(|error| error.into_source_error(address))
}

/// How objects are read as a whole.
struct Reading {
    s3: Arc<S3Handle>,
    window: Arc<ReadWindow>,
    /// Bytes that one request reads.
    part_size: u64,
    /// Most requests at once.
    requests: usize,
}

impl Reading {
    /// All bytes of an object. They are in memory once: what has arrived is appended in order.
    async fn read(&self, target: &Arc<Target>) -> Result<Vec<u8>, RequestError> {
        let (size, address) = (target.size, &target.address);
        let fatal = |message: String, remedy: &str| {
            RequestError::Fatal(SourceError::new(address.to_string(), message, remedy))
        };
        let mut bytes = Vec::new();
        let reserved = usize::try_from(size).map(|size| bytes.try_reserve_exact(size));
        if !matches!(reserved, Ok(Ok(()))) {
            let message = format!("its {size} bytes don't fit into the memory");
            return Err(fatal(message, "read it on a machine with more memory"));
        }
        let mut ranges = part_ranges(0..size, 0, self.part_size);
        let mut parts: VecDeque<PartReceiver> = VecDeque::new();
        loop {
            while parts.len() < self.requests.max(1)
                && let Some(range) = ranges.next()
            {
                let (mut sender, frames) =
                    unbounded_channel::<Result<bytes::Bytes, RequestError>>();
                let (s3, window) = (self.s3.clone(), self.window.clone());
                let fetch = Fetch { s3, window, target: target.clone(), verify: true };
                let task = Task(tokio::spawn(async move {
                    fetch.range(range, &mut sender).await;
                }));
                parts.push_back(PartReceiver { frames, _task: task });
            }
            let Some(part) = parts.front_mut() else { break };
            match part.frames.recv().await {
                Some(frame) => bytes.extend_from_slice(&frame?),
                None => drop(parts.pop_front()),
            }
        }
        if bytes.len() as u64 != size {
            let message = format!("its requests ended after {} of {size} bytes", bytes.len());
            return Err(fatal(message, "try again"));
        }
        if let Some(checksum) = target.checksum.get() {
            let mut hasher = checksum.hasher();
            hasher.update(&bytes);
            checksum
                .verify(hasher)
                .map_err(|computed| fatal(checksum.mismatch(&computed), "store it again"))?;
        }
        Ok(bytes)
    }
}

/// A part that is being read.
struct PartReceiver {
    frames: UnboundedReceiver<Result<bytes::Bytes, RequestError>>,
    _task: Task<()>,
}
