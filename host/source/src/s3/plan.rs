//! What a channel reads in an epoch, object after object: found, put in order, dealt out to shards, and of each its
//! size and state. Runs some way ahead of who asks for it; a list without shuffle is never in memory as a whole.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::fetch::{self, Target};
use super::wait::{Waited, wait};
use super::window::Window;
use super::{Address, S3, S3Handle, Selection, Settings, Task, list, manifest};
use crate::Stop;
use crate::sharding::Dealer;
use crate::{Reading, SourceError, TotalSize, order};

/// Objects listed ahead: two pages of a list, so that the next page is asked for while one is read.
const LISTED: usize = 2_000;
/// Objects whose size is asked for ahead, at least.
const ASKED: usize = 32;

/// An object, as it was found.
pub(super) struct Found {
    pub(super) address: Address,
    pub(super) known: Known,
}

/// What is known of an object that was found.
pub(super) enum Known {
    /// Its name: it stands in a manifest or a configuration.
    Name,
    /// What a list says.
    Listed {
        size: u64,
        etag: Option<String>,
        /// The server keeps a checksum of the whole.
        has_sum: bool,
    },
    /// All.
    Asked(Arc<Target>),
}

/// What becomes one object for the decoder.
pub(super) enum Entry {
    /// An object of the bucket.
    Object(Found),
    /// A line of an augmented manifest, numbered from 1.
    Line { number: u64, pieces: Vec<Piece> },
}

impl Entry {
    /// Its bytes as they are stored, if a list has told them, and its key.
    fn size(&self) -> Option<(u64, &str)> {
        let Self::Object(Found { address, known }) = self else { return None };
        let size = match known {
            Known::Listed { size, .. } => *size,
            Known::Asked(target) => target.size,
            Known::Name => return None,
        };
        Some((size, &address.key))
    }

    /// The bytes that are read of it, if a list has told its size.
    fn length(&self, reading: &Reading) -> Option<u64> {
        self.size().and_then(|(size, key)| reading.length(key, size))
    }

    /// The same as they are stored. To ask for each, every machine would have to ask for all.
    fn known_size(&self, of: &Selection) -> Result<u64, SourceError> {
        self.size().map(|(size, _)| size).ok_or_else(|| {
            let message = "does not tell the sizes by which shares are to be equal";
            let remedy = "name a prefix, whose list tells them, or set `balance = \"count\"`";
            SourceError::new(of.to_string(), message, remedy)
        })
    }
}

/// One attribute's value.
pub(super) enum Piece {
    /// It stands in the manifest.
    Text(Bytes),
    /// It is an object's bytes.
    Object(Found),
}

/// The same, with all that has to be known before it is fetched.
pub(super) struct Planned {
    pub(super) name: String,
    pub(super) pieces: Vec<PlannedPiece>,
}

/// One piece of an object for the decoder.
pub(super) enum PlannedPiece {
    Text(Bytes),
    Object(Arc<Target>),
}

impl Planned {
    /// Bytes to be fetched, or taken from the manifest.
    fn size(&self) -> u64 {
        let size = |piece: &PlannedPiece| match piece {
            PlannedPiece::Text(text) => text.len() as u64,
            PlannedPiece::Object(target) => target.size,
        };
        self.pieces.iter().map(size).sum()
    }
}

/// Why listing ends early.
pub(super) enum ListError {
    /// Nobody wants to know any more.
    Unwanted,
    /// It can't be listed.
    Failed(SourceError),
}

impl From<SourceError> for ListError {
    fn from(error: SourceError) -> Self {
        Self::Failed(error)
    }
}

/// Where what was found goes, in the order of the epoch.
pub(super) struct Outlet {
    settings: Arc<Settings>,
    epoch: u32,
    number: u64,
    dealer: Dealer,
    /// Bytes that are read of those given on, as long as all are known.
    bytes: Option<u64>,
    /// All of them, where they have to be shuffled.
    held: Vec<Entry>,
    next: mpsc::Sender<Result<Entry, SourceError>>,
}

impl Outlet {
    pub(super) async fn give(&mut self, entry: Entry) -> Result<(), ListError> {
        self.number += 1;
        if self.settings.reading.order.shuffle.is_some() {
            self.held.push(entry);
            return Ok(());
        }
        if self.dealer.deal(|| entry.known_size(&self.settings.what))? {
            self.give_on(entry).await?;
        }
        Ok(())
    }

    async fn give_on(&mut self, entry: Entry) -> Result<(), ListError> {
        let all = self.bytes.zip(entry.length(&self.settings.reading));
        self.bytes = all.map(|(bytes, length)| bytes + length);
        self.next.send(Ok(entry)).await.map_err(|_| ListError::Unwanted)
    }

    async fn end(&mut self) -> Result<(), ListError> {
        let held = std::mem::take(&mut self.held);
        let settings = self.settings.clone();
        let size = |entry: &Entry| entry.known_size(&settings.what);
        for entry in settings.reading.order.arrange(held, self.epoch, size)? {
            self.give_on(entry).await?;
        }
        Ok(())
    }
}

/// What planning needs.
#[derive(Clone)]
pub(super) struct Planner {
    pub(super) reach: Arc<S3Handle>,
    pub(super) window: Arc<Window>,
    pub(super) settings: Arc<Settings>,
    pub(super) total: TotalSize,
}

/// An epoch's objects, one by one.
pub(super) struct Plan {
    next: mpsc::Receiver<Resolving>,
    tasks: Vec<Task<()>>,
}

/// An object whose size is known or being asked for.
enum Resolving {
    Ready(Result<Planned, SourceError>),
    Asking(Task<Result<Planned, SourceError>>),
}

impl Plan {
    /// Begins to plan. To be called on one of the runtime's threads.
    pub(super) fn begin(planner: Planner, epoch: u32) -> Self {
        let (found, listed) = mpsc::channel(LISTED);
        let asked = ASKED.max(2 * planner.settings.concurrency);
        let (resolved, next) = mpsc::channel(asked);
        let lister = tokio::spawn(planner.clone().list(epoch, found));
        let resolver = tokio::spawn(planner.resolve_all(listed, resolved));
        Self { next, tasks: vec![Task(lister), Task(resolver)] }
    }

    /// The next object; none at the end, and none after an error.
    pub(super) async fn next(&mut self) -> Option<Result<Planned, SourceError>> {
        match self.next.recv().await {
            Some(Resolving::Ready(planned)) => Some(planned),
            Some(Resolving::Asking(mut task)) => {
                Some((&mut task.0).await.unwrap_or_else(|error| Err(by_itself(&error))))
            }
            None => self.check_ends().await.err().map(Err),
        }
    }

    /// A task that ended before its time must not look like the end of the list.
    async fn check_ends(&mut self) -> Result<(), SourceError> {
        for mut task in std::mem::take(&mut self.tasks) {
            (&mut task.0).await.map_err(|error| by_itself(&error))?;
        }
        Ok(())
    }
}

fn by_itself(error: &tokio::task::JoinError) -> SourceError {
    SourceError::new("S3", format!("a task ended unexpectedly: {error}"), "report this")
}

impl Planner {
    async fn list(self, epoch: u32, next: mpsc::Sender<Result<Entry, SourceError>>) {
        let settings = self.settings.clone();
        let failed = next.clone();
        let dealer = Dealer::new(settings.reading.order.shard);
        let mut out =
            Outlet { settings, epoch, number: 0, dealer, bytes: Some(0), held: Vec::new(), next };
        let listed = match self.list_into(&mut out).await {
            Ok(()) => out.end().await,
            other => other,
        };
        if let (Ok(()), Some(bytes)) = (&listed, out.bytes) {
            self.total.tell(epoch, bytes);
        }
        if let Err(ListError::Failed(error)) = listed {
            // Nobody may want to know any more.
            let _ = failed.send(Err(error)).await;
        }
    }

    async fn list_into(&self, out: &mut Outlet) -> Result<(), ListError> {
        match &self.settings.what {
            Selection::Prefixes(addresses) => {
                for address in addresses {
                    self.prefix(address, out).await?;
                }
            }
            Selection::Objects(addresses) => {
                for address in addresses {
                    let found = Found { address: address.clone(), known: Known::Name };
                    out.give(Entry::Object(found)).await?;
                }
            }
            Selection::Named(address) => self.named(address, out).await?,
            Selection::Manifest(address) => {
                let text = self.manifest(address).await?;
                for address in manifest::objects(&text, address)? {
                    out.give(Entry::Object(Found { address, known: Known::Name })).await?;
                }
            }
            Selection::Augmented { manifest: address, attributes } => {
                let text = Bytes::from(self.manifest(address).await?);
                for line in manifest::lines(&text, address, attributes) {
                    out.give(line?).await?;
                }
            }
        }
        if out.number == 0 && !self.settings.allow_empty {
            let name = self.settings.what.to_string();
            let error = order::none(name, "the manifest lists no object");
            return Err(ListError::Failed(error));
        }
        Ok(())
    }

    async fn manifest(&self, address: &Address) -> Result<Vec<u8>, SourceError> {
        fetch::whole(self.reach.clone(), self.window.clone(), address, manifest::LARGEST).await
    }

    async fn prefix(&self, address: &Address, out: &mut Outlet) -> Result<(), ListError> {
        if list::prefix(&self.reach, address, out).await? == 0 && !self.settings.allow_empty {
            let error = order::none(address.to_string(), "no key begins with this prefix");
            let remedy = "check the bucket's name and the prefix; where it may be empty, set \
                          `allow_empty`"
                .to_owned();
            return Err(ListError::Failed(SourceError { remedy, ..error }));
        }
        Ok(())
    }

    /// One that is there by exactly this name, or all that begin so.
    async fn named(&self, address: &Address, out: &mut Outlet) -> Result<(), ListError> {
        if !address.key.is_empty() && !address.key.ends_with('/') {
            match fetch::head(&self.reach, address, self.settings.verify).await {
                Ok(target) => {
                    let known = Known::Asked(Arc::new(target));
                    let found = Found { address: address.clone(), known };
                    return out.give(Entry::Object(found)).await;
                }
                Err(error) if error.missing && address.version.is_none() => {}
                Err(error) => return Err(ListError::Failed(error)),
            }
        }
        self.prefix(address, out).await
    }

    async fn resolve_all(
        self,
        mut listed: mpsc::Receiver<Result<Entry, SourceError>>,
        next: mpsc::Sender<Resolving>,
    ) {
        while let Some(entry) = listed.recv().await {
            let resolving = match entry {
                Err(error) => Resolving::Ready(Err(error)),
                Ok(entry) if self.has_to_ask(&entry) => {
                    Resolving::Asking(Task(tokio::spawn(self.clone().resolve(entry))))
                }
                Ok(entry) => Resolving::Ready(self.clone().resolve(entry).await),
            };
            if next.send(resolving).await.is_err() {
                return;
            }
        }
    }

    fn has_to_ask(&self, entry: &Entry) -> bool {
        match entry {
            Entry::Object(found) => self.is_unknown(found),
            Entry::Line { pieces, .. } => pieces.iter().any(|piece| match piece {
                Piece::Text(_) => false,
                Piece::Object(found) => self.is_unknown(found),
            }),
        }
    }

    /// Whether more has to be asked for than is known. The checksum of an object that one request fetches comes
    /// with its bytes.
    fn is_unknown(&self, found: &Found) -> bool {
        let settings = &self.settings;
        match found.known {
            Known::Name => true,
            Known::Listed { size, has_sum, .. } => {
                settings.verify && has_sum && size > settings.part_size
            }
            Known::Asked(_) => false,
        }
    }

    async fn resolve(self, entry: Entry) -> Result<Planned, SourceError> {
        match entry {
            Entry::Object(found) => {
                let target = self.target(found).await?;
                let name = target.address.to_string();
                Ok(Planned { name, pieces: vec![PlannedPiece::Object(target)] })
            }
            Entry::Line { number, pieces: found } => {
                let name = format!("{} line {number}", self.settings.what);
                let mut pieces = Vec::with_capacity(found.len());
                for piece in found {
                    pieces.push(match piece {
                        Piece::Text(text) => PlannedPiece::Text(text),
                        Piece::Object(found) => {
                            let target = self.target(found).await;
                            PlannedPiece::Object(target.map_err(|error| in_line(error, &name))?)
                        }
                    });
                }
                Ok(Planned { name, pieces })
            }
        }
    }

    async fn target(&self, found: Found) -> Result<Arc<Target>, SourceError> {
        let ask = self.is_unknown(&found);
        let Found { address, known } = found;
        let (size, etag) = match known {
            Known::Asked(target) => return Ok(target),
            Known::Name => {
                let target = fetch::head(&self.reach, &address, self.settings.verify).await?;
                return Ok(Arc::new(target));
            }
            Known::Listed { size, etag, .. } => (size, etag),
        };
        // Pinned to what the list told, whatever is there now.
        let target = Target::new(address, size, etag.as_deref());
        if ask {
            let now = fetch::head(&self.reach, &target.address, true).await?;
            if let Some(checksum) = now.checksum.get() {
                let _ = target.checksum.set(checksum.clone());
            }
        }
        Ok(Arc::new(target))
    }
}

/// An object that a line names: the error names both.
fn in_line(error: SourceError, line: &str) -> SourceError {
    let object = error.object.unwrap_or_default();
    let message = format!("its object {object}: {}", error.message);
    SourceError { object: Some(line.to_owned()), message, ..error }
}

impl std::fmt::Display for Selection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Named(address) | Self::Manifest(address) => address.fmt(f),
            Self::Augmented { manifest, .. } => manifest.fmt(f),
            Self::Prefixes(addresses) | Self::Objects(addresses) => match addresses.as_slice() {
                [first, _, ..] => write!(f, "{first} and {} more", addresses.len() - 1),
                [only] => only.fmt(f),
                [] => Ok(()),
            },
        }
    }
}

/// An object that a channel would read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// As messages call it.
    pub name: String,
    /// Bytes, as they are stored.
    pub size: u64,
}

/// Calls `each` with the objects that a channel would read in an epoch, in its order.
///
/// # Errors
/// They can't be listed.
pub fn listing(
    s3: &Arc<S3>,
    settings: &Settings,
    epoch: u32,
    stop: &Stop,
    mut each: impl FnMut(Listed) -> bool,
) -> Result<(), SourceError> {
    let settings = Arc::new(Settings { verify: false, ..settings.clone() });
    let planner = Planner {
        reach: Arc::new(s3.reach(&settings)),
        window: Window::new(s3.budget.clone(), settings.part_size, settings.concurrency),
        settings,
        total: TotalSize::default(),
    };
    let mut plan = s3.handle().block_on(async { Plan::begin(planner, epoch) });
    loop {
        let mut next = Box::pin(plan.next());
        match wait(s3.handle(), stop, None, |cx| next.as_mut().poll(cx)) {
            Waited::ReadOutcome(Some(planned)) => {
                let planned = planned?;
                let size = planned.size();
                if !each(Listed { name: planned.name, size }) {
                    return Ok(());
                }
            }
            Waited::ReadOutcome(None) | Waited::Stopped | Waited::Late => return Ok(()),
        }
    }
}
