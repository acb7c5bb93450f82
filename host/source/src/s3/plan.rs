//! The plan of an epoch: its objects in order, each with its size and state. It is made ahead of
//! the requests. Only a list that is shuffled is ever in memory completely.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use crc_fast::CrcAlgorithm;
use pipemill_types::{Printable, printable, split_companions, with_companions};
use tokio::sync::mpsc;
use tokio::task::JoinError;

use super::address::Address;
use super::entry::{Entry, EntryList, FoundObject, Known, ListError, ObjectInfo, Piece};
use super::inventory::InventoryLists;
use super::kept_list::{ListSlot, ListWriter};
use super::list::list_prefix;
use super::list_progress::ListProgress;
use super::manifest;
use super::node_list::{FoundList, NodeList};
use super::runtime::{S3Handle, Task};
use super::settings::{Selection, Settings};
use super::target::{Target, head};
use super::whole::read_manifest;
use super::window::ReadWindow;
use crate::arranged::Item;
use crate::by_places::IndexedObject;
use crate::companions::{missing_companion, not_an_object};
use crate::known::{CompressedBlock, changed};
use crate::{
    Block, IsCached, KnownList, KnownObject, KnownRecords, Order, ReadSettings, SeekPoint,
    SourceError, Start, TotalSize,
};

/// Objects that are listed ahead: two pages of a list, so that one is requested while the other is
/// planned.
const MAX_LISTED_AHEAD: usize = 2_000;
/// Smallest number of objects that may wait for their HEAD requests.
const MIN_HEADS_AHEAD: usize = 32;
/// The message about a prefix without an object, and the end of its remedies.
const NO_KEY: &str = "no key begins with this prefix";
const MAY_BE_EMPTY: &str = "; where it may be empty, set `allow_empty`";

/// An object with all that must be known before it is fetched.
pub(super) struct PlannedObject {
    /// Name for messages.
    pub(super) name: String,
    /// The block of it that is read, if it is not all of it.
    pub(super) block: Option<Block>,
    /// Its number in the list of an index.
    pub(super) number: Option<u64>,
    /// What an index knows of its records.
    pub(super) known: Option<KnownRecords>,
    pub(super) pieces: Vec<PlannedPiece>,
    /// Its companions.
    pub(super) companions: Vec<Arc<Target>>,
}

/// One piece of an object. Only lines of an augmented manifest have several.
pub(super) enum PlannedPiece {
    /// A value of the manifest.
    Text(Bytes),
    Object(Arc<Target>),
}

impl PlannedObject {
    /// Sum of the pieces' stored sizes in bytes.
    pub(super) fn size(&self) -> u64 {
        let size = |piece: &PlannedPiece| match piece {
            PlannedPiece::Text(text) => text.len() as u64,
            PlannedPiece::Object(target) => target.size,
        };
        self.pieces.iter().map(size).sum()
    }

    /// The text that shows that the object is still the same.
    pub(super) fn identity(&self) -> String {
        let identity = |piece: &PlannedPiece| match piece {
            PlannedPiece::Text(text) => {
                format!("crc64nvme:{:016x}", crc_fast::checksum(CrcAlgorithm::Crc64Nvme, text))
            }
            PlannedPiece::Object(target) => target.identity(),
        };
        let content = self.pieces.iter().map(identity).collect::<Vec<_>>().join(",");
        with_companions(content, self.companions.iter().map(|target| target.identity()))
    }
}

/// The shared parts of a channel's plans.
#[derive(Clone)]
pub(super) struct Planner {
    pub(super) s3: Arc<S3Handle>,
    pub(super) window: Arc<ReadWindow>,
    pub(super) settings: Arc<Settings>,
    pub(super) total_size: TotalSize,
    /// Where the list is kept for later epochs; `None` if each epoch is listed.
    pub(super) list_slot: Option<Arc<ListSlot>>,
    /// Says of which objects the records are in a cache, once that is known.
    pub(super) is_cached: Arc<OnceLock<IsCached>>,
}

/// Plans an epoch's objects one by one.
pub(super) struct Plan {
    next: mpsc::Receiver<Resolving>,
    tasks: Vec<Task<()>>,
}

/// An object whose target is known or requested.
enum Resolving {
    Ready(Result<PlannedObject, SourceError>),
    Requested(Task<Result<PlannedObject, SourceError>>),
}

impl Plan {
    /// Starts the tasks that list and resolve an epoch's objects from this place on.
    ///
    /// # Panics
    /// If the caller is not in the context of a tokio runtime.
    pub(super) fn start(planner: Planner, start: Start, list: Arc<ListProgress>) -> Self {
        let (entry_sender, entries) = mpsc::channel(MAX_LISTED_AHEAD);
        let heads_ahead = MIN_HEADS_AHEAD.max(2 * planner.settings.concurrency);
        let (resolved, next) = mpsc::channel(heads_ahead);
        let lister = tokio::spawn(planner.clone().list(start, list, entry_sender));
        let resolver = tokio::spawn(planner.resolve_all(entries, resolved));
        Self { next, tasks: vec![Task(lister), Task(resolver)] }
    }

    /// The next object; `None` at the end and after an error.
    pub(super) async fn next(&mut self) -> Option<Result<PlannedObject, SourceError>> {
        match self.next.recv().await {
            Some(Resolving::Ready(planned)) => Some(planned),
            Some(Resolving::Requested(mut task)) => {
                Some((&mut task.0).await.unwrap_or_else(|error| Err(task_failed(&error))))
            }
            None => self.check_tasks().await.err().map(Err),
        }
    }

    /// Checks that the tasks ended normally. Otherwise a panic would look like the end of the list.
    async fn check_tasks(&mut self) -> Result<(), SourceError> {
        for mut task in std::mem::take(&mut self.tasks) {
            (&mut task.0).await.map_err(|error| task_failed(&error))?;
        }
        Ok(())
    }
}

pub(super) fn task_failed(error: &JoinError) -> SourceError {
    SourceError::new("S3", format!("a task ended unexpectedly: {error}"), "report this")
}

/// Listing.
impl Planner {
    async fn list(
        self,
        start: Start,
        list: Arc<ListProgress>,
        sender: mpsc::Sender<Result<Entry, SourceError>>,
    ) {
        let mut entries = EntryList::new(self.settings.clone(), start, list, sender);
        let listed = match self.list_or_take_kept(&mut entries).await {
            Ok(()) => entries.end().await,
            Err(error) => Err(error),
        };
        match listed {
            Ok(Some(bytes)) => self.total_size.set(start.epoch, bytes),
            Ok(None) | Err(ListError::ReceiverClosed) => {}
            Err(ListError::Failed(error)) => entries.fail(error).await,
        }
    }

    /// Adds the kept list, or lists, and keeps the list.
    async fn list_or_take_kept(&self, entries: &mut EntryList) -> Result<(), ListError> {
        if let Some(slot) = &self.list_slot {
            if let Some(node) = slot.node.as_ref().filter(|_| slot.get().is_none()) {
                self.list_for_node(slot, node).await?;
            }
            if let Some(kept) = slot.get() {
                for (prefix, page, is_whole) in kept.pages() {
                    let page = page.into_iter().map(Entry::Object).collect();
                    entries.push_all(page, prefix.root(), is_whole).await?;
                }
                return Ok(());
            }
            let (epochs, allow_empty) = (self.settings.reading.epochs, self.settings.allow_empty);
            entries.keep(ListWriter::new(slot.clone(), epochs, allow_empty));
        }
        self.list_into(entries).await?;
        self.s3.log_left_out(&self.settings.selection.to_string(), entries.left_out());
        Ok(())
    }

    /// Takes the list of another host of the job, or lists for all of them. A list that is too long
    /// to be kept is not shared.
    async fn list_for_node(&self, slot: &Arc<ListSlot>, node: &NodeList) -> Result<(), ListError> {
        let Some(mut turn) = node.turn().await else { return Ok(()) };
        match turn.read().await {
            FoundList::List(list) => slot.set(list),
            FoundList::TooLong => {}
            FoundList::None => {
                self.list_whole(slot).await?;
                turn.write(slot.get().as_deref()).await;
            }
        }
        Ok(())
    }

    /// Lists at once: others wait for the list, and must not wait for who reads its objects.
    async fn list_whole(&self, slot: &Arc<ListSlot>) -> Result<(), ListError> {
        let reading = ReadSettings { order: Order::default(), ..self.settings.reading.clone() };
        let settings = Arc::new(Settings { reading, ..(*self.settings).clone() });
        let (sender, mut unread) = mpsc::channel(MAX_LISTED_AHEAD);
        let progress = Arc::new(ListProgress::new(None));
        let mut entries = EntryList::new(settings, Start::default(), progress, sender);
        entries.keep(ListWriter::new(slot.clone(), u32::MAX, self.settings.allow_empty));
        let _passed = Task(tokio::spawn(async move { while unread.recv().await.is_some() {} }));
        self.list_into(&mut entries).await?;
        self.s3.log_left_out(&self.settings.selection.to_string(), entries.left_out());
        Ok(())
    }

    async fn list_into(&self, entries: &mut EntryList) -> Result<(), ListError> {
        match &self.settings.selection {
            Selection::Prefixes(addresses) | Selection::Named(addresses) => {
                self.list_addresses(addresses, entries).await?;
            }
            Selection::Objects(addresses) => {
                let named = addresses.iter().cloned().map(Entry::named).collect();
                entries.push_all(named, "", true).await?;
            }
            Selection::Manifest(address) => {
                let text = self.fetch_manifest(address).await?;
                // Each address is made twice, because all addresses together would need much
                // memory.
                for address in manifest::objects(&text, address)? {
                    entries.note(&Entry::named(address?), "");
                }
                entries.noted(true)?;
                for address in manifest::objects(&text, address)? {
                    entries.push(Entry::named(address?)).await?;
                }
            }
            Selection::Augmented { manifest: address, attributes } => {
                let text = Bytes::from(self.fetch_manifest(address).await?);
                entries.note_text(&text);
                entries.noted(true)?;
                for line in manifest::lines(&text, address, attributes) {
                    entries.push(line?).await?;
                }
            }
            Selection::Known { list, index } => {
                entries.know(list.0.identity())?;
                let reading = &self.settings.reading;
                for item in list.arrange(&reading.order, entries.epoch()) {
                    if entries.is_before_start() {
                        entries.pass(list.length(&item, reading));
                    } else {
                        entries.push_arranged(known(list, index, item)?).await?;
                    }
                }
            }
        }
        if entries.count() == 0 && !self.settings.allow_empty {
            let name = self.settings.selection.to_string();
            let error = SourceError::no_objects(name, "the manifest lists no object");
            return Err(ListError::Failed(error));
        }
        Ok(())
    }

    async fn fetch_manifest(&self, address: &Address) -> Result<Vec<u8>, SourceError> {
        let max_bytes = manifest::MAX_MANIFEST_BYTES;
        read_manifest(self.s3.clone(), self.window.clone(), address, max_bytes).await
    }

    /// Adds the objects of each address, one after the other.
    async fn list_addresses(
        &self,
        addresses: &[Address],
        entries: &mut EntryList,
    ) -> Result<(), ListError> {
        let manifest = self.settings.reading.inventory.as_deref();
        let mut inventory = manifest.map(|manifest| InventoryLists::new(manifest, addresses));
        let are_names = matches!(self.settings.selection, Selection::Named(_));
        for (number, address) in addresses.iter().enumerate() {
            let is_last = number + 1 == addresses.len();
            // Without an inventory, a request finds out whether it is the name of an object.
            let by_name = are_names && (inventory.is_none() || address.version.is_some());
            if by_name && self.add_named(address, is_last, entries).await? {
                continue;
            }
            let count = match &mut inventory {
                Some(lists) => lists.add(self, address, (are_names, is_last), entries).await?,
                None => list_prefix(&self.s3, address, is_last, entries).await?,
            };
            if count == 0 && !self.settings.allow_empty {
                return Err(ListError::Failed(self.no_objects(address, entries)));
            }
        }
        Ok(())
    }

    /// Adds the object with exactly this key, if there is one. Returns whether there is.
    async fn add_named(
        &self,
        address: &Address,
        is_last: bool,
        entries: &mut EntryList,
    ) -> Result<bool, ListError> {
        if address.key.is_empty() || address.key.ends_with('/') {
            return Ok(false);
        }
        match head(&self.s3, address, self.settings.verify).await {
            Ok(target) => {
                let info = ObjectInfo::Head(Arc::new(target));
                let found = FoundObject::new(address.clone(), info);
                entries.push_all(vec![Entry::Object(found)], address.root(), is_last).await?;
                Ok(true)
            }
            Err(error) if error.missing && address.version.is_none() => Ok(false),
            Err(error) => Err(ListError::Failed(error)),
        }
    }

    /// The error for an address without an object. Unless it can only be a prefix, it may have been
    /// meant as the key of one object.
    fn no_objects(&self, address: &Address, entries: &EntryList) -> SourceError {
        let root = address.root();
        let left_out = entries.left_out().describe();
        let is_prefix = root == address.key || self.settings.reading.inventory.is_some();
        let (message, remedy) = match left_out {
            Some(remedy) => (NO_KEY.to_owned(), remedy),
            None if is_prefix => {
                (NO_KEY.to_owned(), format!("check the bucket's name and the prefix{MAY_BE_EMPTY}"))
            }
            None => {
                let (bucket, key) = (printable(&address.bucket), printable(&address.key));
                let near = address.with_key(root);
                (
                    format!(
                        "the bucket `{bucket}` has no object `{key}`, and no key begins with that"
                    ),
                    format!(
                        "check the key: `pipemill ls {near}` lists those near it{MAY_BE_EMPTY}"
                    ),
                )
            }
        };
        SourceError { remedy, ..SourceError::no_objects(address.to_string(), &message) }
    }
}

/// Seek points of an index.
impl Planner {
    /// The index that is read, and its name.
    fn index(&self) -> Option<(&KnownList, &str)> {
        match &self.settings.selection {
            Selection::Known { list, index } if !self.settings.reading.wrap => Some((list, index)),
            _ => None,
        }
    }

    /// The point from which the object with this number in the index is inflated, to be read from
    /// this byte on.
    pub(super) fn seek_point(
        &self,
        number: Option<u64>,
        offset: u64,
    ) -> Result<Option<SeekPoint>, SourceError> {
        match (self.index(), number) {
            (Some((list, index)), Some(number)) if offset > 0 => {
                list.seek_point(index, number, offset)
            }
            _ => Ok(None),
        }
    }

    /// What the index knows of the object with this number, if the object is compressed and read at
    /// several places concurrently.
    pub(super) fn divided(&self, number: Option<u64>, target: &Target) -> Option<IndexedObject> {
        let ((list, index), number) = (self.index()?, number?);
        let Settings { reading, .. } = &*self.settings;
        let compression = reading.compression.resolve(&target.address.key);
        let has_places = || list.0.blocks(number, 1).len() > 1;
        if compression.is_plain() || !reading.is_divided(target.size) || !has_places() {
            return None;
        }
        let (name, size) = (target.address.to_string(), target.size);
        let (list, index) = (list.clone(), index.to_owned());
        Some(IndexedObject { list, index, number, name, size, compression })
    }

    /// The stored bytes of a block of the object with this number in the index, if the object is
    /// compressed and the block is not all of it.
    pub(super) fn compressed_block(
        &self,
        number: Option<u64>,
        block: &Block,
        size: u64,
    ) -> Result<Option<CompressedBlock>, SourceError> {
        match (self.index(), number) {
            (Some((list, index)), Some(number)) => {
                list.compressed_block(index, number, block, size)
            }
            _ => Ok(None),
        }
    }
}

/// The entry of an object that an index knows.
pub(super) fn known(list: &KnownList, index: &str, item: Item) -> Result<Entry, SourceError> {
    let Item { object: number, block } = item;
    let wrong = |message: String| SourceError::new(index, message, "make the index again");
    let object = list.0.get(number).ok_or_else(|| wrong(format!("it has no object {number}")))?;
    let address = object.name.parse().map_err(|why| {
        wrong(format!("its object {} is no address in S3: {why}", Printable::name(&object.name)))
    })?;
    let (content, companions) = split_companions(&object.identity);
    let etag = content.strip_prefix("etag:").map(str::to_owned);
    let companions = companions.map(str::to_owned).collect();
    let info = ObjectInfo::Listed { size: object.size, etag, has_checksum: false };
    let records = list.known_records(number);
    let known = Some(Box::new(Known { number, records, companions }));
    Ok(Entry::Object(FoundObject { address, info, block, known }))
}

/// Resolving: from an entry to its targets, with HEAD requests where they are needed.
impl Planner {
    async fn resolve_all(
        self,
        mut entries: mpsc::Receiver<Result<Entry, SourceError>>,
        sender: mpsc::Sender<Resolving>,
    ) {
        while let Some(entry) = entries.recv().await {
            let resolving = match entry {
                Err(error) => Resolving::Ready(Err(error)),
                Ok(entry) if self.entry_needs_head(&entry) => {
                    Resolving::Requested(Task(tokio::spawn(self.clone().resolve(entry))))
                }
                Ok(entry) => Resolving::Ready(self.clone().resolve(entry).await),
            };
            if sender.send(resolving).await.is_err() {
                return;
            }
        }
    }

    fn entry_needs_head(&self, entry: &Entry) -> bool {
        match entry {
            Entry::Object(_) if !self.settings.reading.companions.is_empty() => true,
            Entry::Object(found) => self.needs_head(found),
            Entry::Line { pieces, .. } => pieces.iter().any(|piece| match piece {
                Piece::Text(_) => false,
                Piece::Object(found) => self.needs_head(found),
            }),
        }
    }

    /// Whether a HEAD request is needed. An object of one part needs no HEAD request for its
    /// checksum, because the response to its GET has it.
    fn needs_head(&self, found: &FoundObject) -> bool {
        let settings = &self.settings;
        match found.info {
            ObjectInfo::Name => true,
            ObjectInfo::Listed { size, has_checksum, .. } => {
                settings.verify && has_checksum && size > settings.part_size
            }
            ObjectInfo::Head(_) => false,
        }
    }

    async fn resolve(self, entry: Entry) -> Result<PlannedObject, SourceError> {
        match entry {
            Entry::Object(mut found) => {
                let (block, known) = (found.block, found.known.take());
                let target = self.target(found).await?;
                let companions = self.companions(&target.address).await?;
                if let Some(known) = &known {
                    self.check_companions(&target, &known.companions, &companions)?;
                }
                let (number, known) = known.map(|known| (known.number, known.records)).unzip();
                let name = target.address.to_string();
                let pieces = vec![PlannedPiece::Object(target)];
                Ok(PlannedObject { name, block, number, known, pieces, companions })
            }
            Entry::Line { number, pieces: found } => {
                let name = format!("{} line {number}", self.settings.selection);
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
                let (block, number, known, companions) = (None, None, None, Vec::new());
                Ok(PlannedObject { name, block, number, known, pieces, companions })
            }
        }
    }

    /// Finds the companions of an object.
    async fn companions(&self, address: &Address) -> Result<Vec<Arc<Target>>, SourceError> {
        let rules = &self.settings.reading.companions;
        let object = || address.to_string();
        let keys = rules.of(address.key.as_bytes());
        let keys = keys.map_err(|rule| not_an_object(&object(), rule))?;
        if address.version.is_some() && !keys.is_empty() {
            let message = "names a version, and that of its companion is not known";
            return Err(SourceError::new(object(), message, "name the object without a version"));
        }
        let mut companions = Vec::with_capacity(keys.len());
        for key in keys {
            let beside = address.with_key(&String::from_utf8_lossy(&key));
            let found = head(&self.s3, &beside, self.settings.verify).await;
            let missing = |error: SourceError| match error.missing {
                true => missing_companion(&object(), &beside.to_string()),
                false => error,
            };
            companions.push(Arc::new(found.map_err(missing)?));
        }
        Ok(companions)
    }

    /// Checks that the companions of an object are as an index knows them.
    fn check_companions(
        &self,
        target: &Target,
        known: &[String],
        companions: &[Arc<Target>],
    ) -> Result<(), SourceError> {
        let found: Vec<_> = companions.iter().map(|target| target.identity()).collect();
        if found == known {
            return Ok(());
        }
        let content =
            |companions: &[String]| with_companions(target.identity(), companions.iter().cloned());
        let (name, size) = (target.address.to_string(), target.size);
        let object = KnownObject { name, identity: content(known), size };
        let index = match &self.settings.selection {
            Selection::Known { index, .. } => index.as_str(),
            _ => "",
        };
        Err(changed(index, &object, &content(&found), &self.settings.reading.companions))
    }

    async fn target(&self, found: FoundObject) -> Result<Arc<Target>, SourceError> {
        let needs_head = self.needs_head(&found);
        let FoundObject { address, info, .. } = found;
        let (size, etag) = match info {
            ObjectInfo::Head(target) => return Ok(target),
            ObjectInfo::Name => {
                let target = head(&self.s3, &address, self.settings.verify).await?;
                return Ok(Arc::new(target));
            }
            ObjectInfo::Listed { size, etag, .. } => (size, etag),
        };
        // Pinned to the state in the list, even if HEAD finds another one.
        let target = Target::new(address, size, etag.as_deref());
        if needs_head {
            let now = head(&self.s3, &target.address, true).await?;
            if let Some(checksum) = now.checksum.get() {
                let _ = target.checksum.set(checksum.clone());
            }
        }
        Ok(Arc::new(target))
    }
}

/// An error about an object that a manifest's line names. It names the object and the line.
fn in_line(error: SourceError, line: &str) -> SourceError {
    let object = error.object.unwrap_or_default();
    let message = format!("its object {object}: {}", error.message);
    SourceError { object: Some(line.to_owned()), message, ..error }
}
