//! The resources that all channels that read from S3 share: threads for requests, the memory
//! budget, SDK clients.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::types::RequestPayer;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::access::Access;
use super::address::Address;
use super::cached::{CacheHandle, SharedCache};
use super::kept_list::KeptLists;
use super::node_list::shared_path;
use super::settings::Settings;
use super::window::Budget;
use crate::SourceError;
use crate::cache::{CacheCounters, CacheSettings, ChannelCache};
use crate::container::memory_limit;
use crate::hidden::LeftOut;

/// Time limit for loading region and credentials.
const CREDENTIALS_TIMEOUT: Duration = Duration::from_secs(60);

/// The [budget](budget_within) of this process.
pub fn default_budget() -> u64 {
    budget_within(memory_limit())
}

/// Default budget in bytes of the data that all channels together have fetched and not read: a
/// quarter of the memory limit, at most 256 MiB, because more does not increase throughput.
pub fn budget_within(memory_limit: Option<u64>) -> u64 {
    const MAX_BUDGET: u64 = 256 << 20;
    memory_limit.map_or(MAX_BUDGET, |limit| (limit / 4).min(MAX_BUDGET))
}

/// Threads for requests, memory budget and SDK clients. All channels that read from S3 share one.
pub struct S3Runtime {
    runtime: Option<Runtime>,
    pub(super) budget: Arc<Budget>,
    /// One client for each kind of access, so that credentials are loaded once. The lock is held
    /// only for the lookup.
    clients: Mutex<HashMap<Access, Arc<OnceCell<Connected>>>>,
    /// The caches of all channels. The lock is held only for the lookup.
    caches: Mutex<HashMap<CacheSettings, SharedCache>>,
    /// The lists of all channels.
    pub(super) lists: KeptLists,
}

/// A client of the SDK, and the server that it reaches.
pub(super) struct Connected {
    pub(super) client: Client,
    /// The server's URL, or Amazon's region: keys of two servers are different objects.
    pub(super) server: String,
}

impl S3Runtime {
    /// Starts the threads. `budget` is the number of bytes that all channels together may have
    /// fetched and not read.
    ///
    /// # Errors
    /// The process can't create a thread or a file descriptor.
    pub fn start(budget: u64) -> std::io::Result<Arc<Self>> {
        let threads = std::thread::available_parallelism().map_or(2, |count| count.get()).min(8);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("pipemill-s3")
            .enable_all()
            .build()?;
        let budget = Budget::new(budget);
        let (clients, caches) = Default::default();
        let lists = KeptLists::new(shared_path());
        Ok(Arc::new(Self { runtime: Some(runtime), budget, clients, caches, lists }))
    }

    pub(super) fn tokio(&self) -> &Handle {
        // It is `None` only while `self` is dropped.
        self.runtime.as_ref().expect("the runtime is there until the drop").handle()
    }

    /// A channel's handle to its server.
    pub(super) fn handle(&self, settings: &Settings) -> S3Handle {
        let cache = settings.cache.as_ref().map(|settings| {
            let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
            let shared = caches.entry(settings.clone()).or_default().clone();
            CacheHandle::new(settings.clone(), shared)
        });
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        S3Handle {
            channel: settings.channel.clone(),
            access: settings.access.clone(),
            client: clients.entry(settings.access.clone()).or_default().clone(),
            stall_timeout: settings.stall_timeout,
            retry_timeout: settings.retry_timeout,
            has_responded: AtomicBool::new(false),
            left_out: Mutex::default(),
            cache,
        }
    }
}

impl Drop for S3Runtime {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A DNS lookup can block a thread for long. The drop does not wait for it.
            runtime.shutdown_background();
        }
    }
}

/// An [`S3Runtime`] that is started on first use.
pub struct LazyS3Runtime {
    budget: Option<u64>,
    started: Option<Arc<S3Runtime>>,
}

impl LazyS3Runtime {
    /// `budget` is that of [`S3Runtime::start`]; `None` stands for [`default_budget`].
    pub fn new(budget: Option<u64>) -> Self {
        Self { budget, started: None }
    }

    /// The runtime. The first call starts it.
    ///
    /// # Errors
    /// The errors of [`S3Runtime::start`].
    pub fn get(&mut self) -> std::io::Result<Arc<S3Runtime>> {
        if let Some(s3) = &self.started {
            return Ok(s3.clone());
        }
        let s3 = S3Runtime::start(self.budget.unwrap_or_else(default_budget))?;
        Ok(self.started.insert(s3).clone())
    }
}

/// A channel's handle to its server: the SDK client and the timeouts.
pub(super) struct S3Handle {
    /// Name of the channel, for the log.
    pub(super) channel: Option<String>,
    access: Access,
    client: Arc<OnceCell<Connected>>,
    pub(super) stall_timeout: Duration,
    pub(super) retry_timeout: Duration,
    has_responded: AtomicBool,
    /// The hidden keys that the last list left out.
    left_out: Mutex<LeftOut>,
    cache: Option<CacheHandle>,
}

impl S3Handle {
    /// The client. The first call loads region and credentials; an error names this address.
    pub(super) async fn client(&self, address: &Address) -> Result<&Client, SourceError> {
        self.connected(address).await.map(|connected| &connected.client)
    }

    /// The server: its URL, or Amazon's region. As [`client`](Self::client).
    pub(super) async fn server(&self, address: &Address) -> Result<&str, SourceError> {
        self.connected(address).await.map(|connected| &*connected.server)
    }

    /// The server, if a client was made.
    pub(super) fn known_server(&self) -> Option<&str> {
        self.client.get().map(|connected| &*connected.server)
    }

    /// Opens the channel's cache, if it has one.
    ///
    /// # Errors
    /// Others may write to its folder.
    pub(super) async fn open_cache(&self) -> Result<(), SourceError> {
        match &self.cache {
            Some(cache) => cache.open(self.channel.as_deref()).await,
            None => Ok(()),
        }
    }

    /// The channel's cache, if it has one that was opened.
    pub(super) fn cache(&self) -> Option<&Arc<ChannelCache>> {
        self.cache.as_ref()?.get()
    }

    /// What the channel's cache has done; `None` if it has none.
    pub(super) fn cache_counters(&self) -> Option<Arc<CacheCounters>> {
        Some(self.cache.as_ref()?.counters.clone())
    }

    async fn connected(&self, address: &Address) -> Result<&Connected, SourceError> {
        let load = async || {
            let loaded = timeout(CREDENTIALS_TIMEOUT, self.access.client()).await;
            let late = || format!("no credentials: none came within {CREDENTIALS_TIMEOUT:?}");
            loaded.unwrap_or_else(|_| Err(late()))
        };
        let client = self.client.get_or_try_init(load).await;
        client.map_err(|reason| {
            let remedy = "set them by the environment, a profile, or the machine's role; \
                          for a public bucket set `anonymous`";
            let remedy = if reason.starts_with("no credentials") { remedy } else { "" };
            SourceError::new(address.to_string(), format!("can't reach S3: {reason}"), remedy)
        })
    }

    /// Logs the hidden keys that a list of this name has left out, unless the previous list left
    /// out the same.
    pub(super) fn log_left_out(&self, name: &str, left_out: &LeftOut) {
        let mut last = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != *left_out {
            left_out.log(self.channel.as_deref(), name);
            left_out.clone_into(&mut last);
        }
    }

    /// The header by which the caller agrees to pay for a request.
    pub(super) fn request_payer(&self) -> Option<RequestPayer> {
        self.access.requester_pays.then_some(RequestPayer::Requester)
    }

    /// Whether the server ever responded successfully. Relaxed: it only selects a timeout.
    pub(super) fn has_responded(&self) -> bool {
        self.has_responded.load(Ordering::Relaxed)
    }

    pub(super) fn set_responded(&self) {
        self.has_responded.store(true, Ordering::Relaxed);
    }
}

/// A task that is aborted when its owner is dropped.
pub(super) struct Task<T>(pub(super) JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
