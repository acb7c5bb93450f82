//! S3 as a source: objects by prefix, by name or by manifest, fetched ahead in parts.
//!
//! In the order of the way of a byte: `list` and `manifest` find what there is, `plan` puts it in order and
//! learns what is not known of each object, `prefetch` begins requests as far ahead as `window` lets it, `fetch`
//! brings one part through all faults, `body` is the end at which the channel's thread reads. `access` and
//! `http` are the way to the server; `error`, `retry` and `checksum` say what failed, when to ask again, and whether the bytes are
//! right.
//!
//! Requests run on threads of their own; a channel's thread copies bytes from their bodies into its slot, and that
//! is the only copy. Dropping a source ends its requests.

mod access;
mod address;
mod body;
mod checksum;
mod error;
mod fetch;
mod http;
mod list;
mod manifest;
mod objects;
mod plan;
mod prefetch;
mod retry;
mod wait;
mod window;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::types::RequestPayer;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;

pub use access::{Access, Addressing, check_endpoint};
pub use address::Address;
pub use objects::Objects;
pub use plan::{Listed, listing};

use super::{Reading, SourceError};
use crate::container::memory_limit;
use window::Budget;

/// Which objects a channel reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// All whose keys begin so, of each address, by key.
    Prefixes(Vec<Address>),
    /// These.
    Objects(Vec<Address>),
    /// The object of this name, and if there is none, all whose keys begin so.
    Named(Address),
    /// Those that a manifest lists: a JSON array, a prefix first.
    Manifest(Address),
    /// An object for each line of an augmented manifest, made of the line's attributes.
    Augmented {
        /// The manifest: JSON Lines.
        manifest: Address,
        /// The attributes' names, in the order in which their bytes are given.
        attributes: Vec<String>,
    },
}

/// A channel's S3 source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Its channel, for the log.
    pub channel: Option<String>,
    /// Which objects.
    pub what: Selection,
    /// How to reach them.
    pub access: Access,
    /// In which order, which of them, how often, and what they are.
    pub reading: Reading,
    /// Bytes that one request asks for, at most.
    pub part_size: u64,
    /// Requests at once, at most.
    pub concurrency: usize,
    /// A request that gives no byte for so long is given up and made anew.
    pub stall_timeout: Duration,
    /// A request that makes no progress for so long, whatever is tried, ends the channel.
    pub retry_timeout: Duration,
    /// Whether checksums that the server keeps of whole objects are compared.
    pub verify: bool,
    /// What happens if an object changes while it is read.
    pub on_change: OnChange,
    /// Whether it is fine that there is no object.
    pub allow_empty: bool,
}

impl Settings {
    /// Those in force if nothing else is said.
    pub fn new(what: Selection) -> Self {
        Self {
            channel: None,
            what,
            access: Access::default(),
            reading: Reading::default(),
            part_size: PART,
            concurrency: CONCURRENCY,
            stall_timeout: Duration::from_secs(10),
            retry_timeout: Duration::from_secs(60),
            verify: true,
            on_change: OnChange::Fail,
            allow_empty: false,
        }
    }
}

/// The default of [`Settings::part`]: small enough to begin soon, large enough for the line's speed.
pub const PART: u64 = 8 << 20;
/// The default of [`Settings::concurrency`]: 1.8 GB/s at what S3 gives a connection, more than most decode.
pub const CONCURRENCY: usize = 20;
/// What S3 gives one connection, in bytes a second.
pub const PER_CONNECTION: u64 = 90_000_000;

/// What happens if an object changes while it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnChange {
    /// The channel ends with an error.
    #[default]
    Fail,
    /// It is begun anew, as long as none of its bytes has been decoded; then as `Fail`.
    RestartObject,
}

/// Bytes that all channels together may have fetched and not read yet, if nothing else is said: a quarter of what
/// this process may have, and no more than helps.
pub fn default_budget() -> u64 {
    const MOST: u64 = 256 << 20;
    memory_limit().map_or(MOST, |limit| (limit / 4).min(MOST))
}

/// What all channels that read from S3 share: threads for requests, memory, connections.
pub struct S3 {
    runtime: Option<Runtime>,
    budget: Arc<Budget>,
    /// A client a way of access; credentials are asked for once for all that use it. The lock is held for a
    /// look only.
    clients: Mutex<HashMap<Access, Arc<OnceCell<Client>>>>,
}

impl S3 {
    /// Starts the threads. `budget` are the bytes that all channels together may have fetched and not read yet.
    ///
    /// # Errors
    /// Where the machine gives no thread or file descriptor.
    pub fn start(budget: u64) -> std::io::Result<Arc<Self>> {
        let threads = std::thread::available_parallelism().map_or(2, |count| count.get()).min(8);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("pipemill-s3")
            .enable_all()
            .build()?;
        let budget = Budget::new(budget);
        Ok(Arc::new(Self { runtime: Some(runtime), budget, clients: Mutex::default() }))
    }

    fn handle(&self) -> &Handle {
        // It is taken when this is dropped, and not before.
        self.runtime.as_ref().expect("it is there until the end").handle()
    }

    fn reach(&self, settings: &Settings) -> S3Handle {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        S3Handle {
            channel: settings.channel.clone(),
            access: settings.access.clone(),
            client: clients.entry(settings.access.clone()).or_default().clone(),
            stall_timeout: settings.stall_timeout,
            retry_timeout: settings.retry_timeout,
            answered: AtomicBool::new(false),
        }
    }
}

/// Starts it when it is first needed, once.
pub struct LazyS3 {
    budget: Option<u64>,
    started: Option<Arc<S3>>,
}

impl LazyS3 {
    /// `budget` as for [`S3::start`]; without, [`default_budget`].
    pub fn new(budget: Option<u64>) -> Self {
        Self { budget, started: None }
    }

    /// The one that runs.
    ///
    /// # Errors
    /// As [`S3::start`].
    pub fn get(&mut self) -> std::io::Result<Arc<S3>> {
        if let Some(s3) = &self.started {
            return Ok(s3.clone());
        }
        let s3 = S3::start(self.budget.unwrap_or_else(default_budget))?;
        Ok(self.started.insert(s3).clone())
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A look-up of a host's name can take long, and nobody waits for it any more.
            runtime.shutdown_background();
        }
    }
}

/// A channel's way to the server.
struct S3Handle {
    channel: Option<String>,
    access: Access,
    client: Arc<OnceCell<Client>>,
    stall_timeout: Duration,
    retry_timeout: Duration,
    answered: AtomicBool,
}

impl S3Handle {
    async fn client(&self, address: &Address) -> Result<&Client, SourceError> {
        let made = self.client.get_or_try_init(|| self.access.client()).await;
        made.map_err(|why| {
            let remedy = "set them by the environment, a profile, or the machine's role; for a public bucket \
                          set `anonymous`";
            let remedy = if why.starts_with("no credentials") { remedy } else { "" };
            SourceError::new(address.to_string(), format!("can't reach S3: {why}"), remedy)
        })
    }

    fn payer(&self) -> Option<RequestPayer> {
        self.access.requester_pays.then_some(RequestPayer::Requester)
    }

    /// Whether the server ever answered. Relaxed: it only chooses how patient to be.
    fn answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    fn got_answer(&self) {
        self.answered.store(true, Ordering::Relaxed);
    }
}

/// A task that ends with its owner.
struct Task<T>(JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
