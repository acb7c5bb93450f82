//! Entries of an epoch's list, before sizes and states of their objects are known. [`EntryList`]
//! shuffles them and divides them into parts.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use pipemill_types::{Companions, ListIdentity};
use tokio::sync::mpsc;

use super::address::Address;
use super::kept_list::ListWriter;
use super::list_progress::ListProgress;
use super::settings::{Selection, Settings};
use super::target::Target;
use crate::companions::missing_object;
use crate::hidden::{LeftOut, describes_data, is_hidden_key};
use crate::list_digest::ListDigest;
use crate::list_part::PartSelector;
use crate::{Block, KnownRecords, ReadSettings, SourceError, Start};

/// An object that was found by its name or in a list.
pub(super) struct FoundObject {
    pub(super) address: Address,
    pub(super) info: ObjectInfo,
    /// The block of it that is read, if it is not all of it.
    pub(super) block: Option<Block>,
    /// What an index knows of it.
    pub(super) known: Option<Box<Known>>,
}

/// What an index knows of an object.
pub(super) struct Known {
    /// Its number there.
    pub(super) number: u64,
    pub(super) records: KnownRecords,
    /// The content of each companion.
    pub(super) companions: Vec<String>,
}

/// The known facts of an object.
pub(super) enum ObjectInfo {
    /// Only its name: it comes from a manifest or from the configuration.
    Name,
    /// The facts in a list.
    Listed {
        /// Stored size in bytes.
        size: u64,
        etag: Option<String>,
        /// Whether the server stores a checksum of the whole object.
        has_checksum: bool,
    },
    /// The result of a HEAD request.
    Head(Arc<Target>),
}

/// An input that the decoder reads as one object.
pub(super) enum Entry {
    /// An object of the bucket.
    Object(FoundObject),
    /// A line of an augmented manifest. Lines are numbered from 1.
    Line { number: u64, pieces: Vec<Piece> },
}

/// The value of one attribute of an augmented manifest's line.
pub(super) enum Piece {
    /// The value itself.
    Text(Bytes),
    /// An object that the value names.
    Object(FoundObject),
}

impl FoundObject {
    /// An object of which no index knows anything.
    pub(super) fn new(address: Address, info: ObjectInfo) -> Self {
        Self { address, info, block: None, known: None }
    }
}

impl Entry {
    /// An object whose name alone is known.
    pub(super) fn named(address: Address) -> Self {
        Self::Object(FoundObject::new(address, ObjectInfo::Name))
    }

    /// Stored size in bytes, if it is known, and the key.
    fn size(&self) -> Option<(u64, &str)> {
        let Self::Object(FoundObject { address, info, block, .. }) = self else { return None };
        let size = match info {
            ObjectInfo::Listed { size, .. } => *size,
            ObjectInfo::Head(target) => target.size,
            ObjectInfo::Name => return None,
        };
        let bytes = |block: Block| block.end.unwrap_or(size).saturating_sub(block.offset);
        Some((block.map_or(size, bytes), &address.key))
    }

    /// Adds the entry to the digest of a list in which names are relative to `root`.
    pub(super) fn add_to(&self, digest: &mut ListDigest, root: &str) {
        // Lines of a manifest are noted with the whole text of the manifest.
        let Self::Object(FoundObject { address, info, .. }) = self else { return };
        let content = match info {
            ObjectInfo::Name => String::new(),
            ObjectInfo::Listed { size, etag: None, .. } => size.to_string(),
            ObjectInfo::Listed { etag: Some(etag), .. } => etag.clone(),
            ObjectInfo::Head(target) => target.identity(),
        };
        let below = address.key.strip_prefix(root).unwrap_or(&address.key);
        digest.add(below.as_bytes(), content.as_bytes());
    }

    /// Number of bytes that will be read of it, if its size is known.
    fn length(&self, reading: &ReadSettings) -> Option<u64> {
        self.size().and_then(|(size, key)| reading.length(key, size))
    }

    /// Stored size in bytes. No HEAD fallback: every machine would HEAD every object.
    fn stored_size(&self, selection: &Selection) -> Result<u64, SourceError> {
        self.size().map(|(size, _)| size).ok_or_else(|| {
            let message = "does not tell the sizes by which parts are to be equal";
            let remedy = "name a prefix, whose list tells them, or set `balance = \"count\"`";
            SourceError::new(selection.to_string(), message, remedy)
        })
    }
}

/// Why a list ends before its end.
pub(super) enum ListError {
    /// The receiver of the entries is closed.
    ReceiverClosed,
    /// The list can't be read.
    Failed(SourceError),
}

impl From<SourceError> for ListError {
    fn from(error: SourceError) -> Self {
        Self::Failed(error)
    }
}

/// Largest number of entries that are held to be shuffled: about 3 GiB of memory.
const MAX_SHUFFLED: usize = 1 << 24;

/// Receives an epoch's entries in the order of the list, and sends those of this machine's part in
/// the epoch's order. It holds the whole list only to shuffle it.
pub(super) struct EntryList {
    settings: Arc<Settings>,
    /// The epoch and the start in it: earlier entries are not sent.
    start: Start,
    /// Number of entries of this machine's part so far.
    selected: u64,
    /// Number of entries received.
    count: u64,
    selector: PartSelector,
    /// Number of bytes that will be read of the part's entries; `None` if it is unknown for one of
    /// them.
    bytes: Option<u64>,
    /// All entries, if they must be shuffled.
    to_shuffle: Vec<Entry>,
    digest: ListDigest,
    progress: Arc<ListProgress>,
    /// The hidden keys of the list.
    left_out: LeftOut,
    /// Keeps the list for later epochs.
    writer: Option<ListWriter>,
    companions: ListedCompanions,
    sender: mpsc::Sender<Result<Entry, SourceError>>,
}

/// The companions in a list, which are read with their objects. Both may come first. A list in the
/// order of the keys has them near each other, so few names are held.
#[derive(Default)]
struct ListedCompanions {
    /// Objects whose companions were not listed yet, and the number of these.
    objects: HashMap<String, usize>,
    /// Companions whose object was not listed yet, by its name, and one of them.
    companions: BTreeMap<String, (String, usize)>,
}

impl ListedCompanions {
    /// Whether this entry of a list is a companion.
    fn has(&mut self, rules: &Companions, entry: &Entry) -> bool {
        let Entry::Object(FoundObject { address, .. }) = entry else { return false };
        if rules.is_empty() {
            return false;
        }
        let name = address.to_string();
        let object = rules.object_of(address.key.as_bytes());
        match object.and_then(|key| String::from_utf8(key).ok()) {
            Some(key) => {
                let object = address.with_key(&key).to_string();
                match self.objects.get_mut(&object) {
                    Some(1) => drop(self.objects.remove(&object)),
                    Some(left) => *left -= 1,
                    None => self.companions.entry(object).or_insert((name, 0)).1 += 1,
                }
                true
            }
            None => {
                let before = self.companions.remove(&name).map_or(0, |(_, count)| count);
                let left = rules.rules().len().saturating_sub(before);
                if left > 0 {
                    self.objects.insert(name, left);
                }
                false
            }
        }
    }

    /// Checks that the object of each companion was listed.
    fn check(&self) -> Result<(), SourceError> {
        match self.companions.first_key_value() {
            Some((object, (companion, _))) => Err(missing_object(companion, object)),
            None => Ok(()),
        }
    }
}

impl EntryList {
    pub(super) fn new(
        settings: Arc<Settings>,
        start: Start,
        progress: Arc<ListProgress>,
        sender: mpsc::Sender<Result<Entry, SourceError>>,
    ) -> Self {
        let selector = PartSelector::new(settings.reading.order.part);
        Self {
            settings,
            start,
            selected: 0,
            count: 0,
            selector,
            bytes: Some(0),
            to_shuffle: Vec::new(),
            digest: ListDigest::default(),
            progress,
            left_out: LeftOut::default(),
            writer: None,
            companions: ListedCompanions::default(),
            sender,
        }
    }

    /// Keeps the list by this writer, while it is read.
    pub(super) fn keep(&mut self, writer: ListWriter) {
        self.writer = Some(writer);
    }

    /// Adds a page of the list of a prefix; `is_whole` is set with the last page of all.
    pub(super) async fn push_page(
        &mut self,
        prefix: &Address,
        page: Vec<FoundObject>,
        is_whole: bool,
    ) -> Result<(), ListError> {
        if let Some(writer) = &mut self.writer
            && let Some(objects) = writer.add_page(prefix, &page, is_whole)
        {
            let name = &self.settings.selection;
            log::info!(
                "{name}: its list of more than {objects} objects is too long to be kept in memory, \
                 so each epoch lists again"
            );
        }
        let page = page.into_iter().map(Entry::Object).collect();
        self.push_all(page, prefix.root(), is_whole).await
    }

    /// Adds a part of the list; `is_whole` is set with the last part. The identity of the list is
    /// known before the first of its objects is sent.
    pub(super) async fn push_all(
        &mut self,
        part: Vec<Entry>,
        root: &str,
        is_whole: bool,
    ) -> Result<(), ListError> {
        part.iter().for_each(|entry| self.note(entry, root));
        self.noted(is_whole)?;
        for entry in part {
            self.push(entry).await?;
        }
        Ok(())
    }

    /// Adds an entry to the digest of the list, in which names are relative to `root`. The entry is
    /// pushed later.
    pub(super) fn note(&mut self, entry: &Entry, root: &str) {
        entry.add_to(&mut self.digest, root);
    }

    /// Adds the text of a manifest to the digest of the list.
    pub(super) fn note_text(&mut self, text: &[u8]) {
        self.digest.add(b"", text);
    }

    /// A part of the list was noted, or the whole list.
    ///
    /// # Errors
    /// It is not the expected list of a state.
    pub(super) fn noted(&mut self, is_whole: bool) -> Result<(), SourceError> {
        let name = self.settings.selection.to_string();
        self.progress.reached(&name, self.start.epoch, &self.digest, is_whole)
    }

    /// The list is known as a whole, and has this identity.
    ///
    /// # Errors
    /// It is not the expected list of a state.
    pub(super) fn know(&mut self, list: ListIdentity) -> Result<(), SourceError> {
        self.count = list.objects;
        let name = self.settings.selection.to_string();
        self.progress.know(&name, self.start.epoch, list)
    }

    /// Whether an object below this prefix is left out, because it describes data, or because
    /// its key is hidden. In the second case, it is counted.
    pub(super) fn leaves_out(&mut self, prefix: &Address, key: &str) -> bool {
        if describes_data(key.as_bytes()) && key != prefix.key {
            return true;
        }
        let hidden = !self.settings.reading.hidden && is_hidden_key(&prefix.key, key);
        if hidden {
            self.left_out.add(|| prefix.with_key(key).to_string());
        }
        hidden
    }

    /// The hidden keys that were left out so far.
    pub(super) fn left_out(&self) -> &LeftOut {
        &self.left_out
    }

    /// Number of entries received.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Adds an entry that was noted.
    pub(super) async fn push(&mut self, entry: Entry) -> Result<(), ListError> {
        self.count += 1;
        if self.companions.has(&self.settings.reading.companions, &entry) {
            return Ok(());
        }
        if self.settings.reading.order.shuffle.is_some() {
            if self.to_shuffle.len() == MAX_SHUFFLED {
                let message = format!("has more than {MAX_SHUFFLED} objects, too many to shuffle");
                let remedy = "take fewer, larger objects, or several channels, or no `shuffle`";
                let name = self.settings.selection.to_string();
                return Err(SourceError::new(name, message, remedy).into());
            }
            self.to_shuffle.push(entry);
            return Ok(());
        }
        if self.selector.takes_next(|| entry.stored_size(&self.settings.selection))? {
            self.send(entry).await?;
        }
        Ok(())
    }

    /// The epoch whose list it is.
    pub(super) fn epoch(&self) -> u32 {
        self.start.epoch
    }

    /// Whether the next entry of a known list is before the first one that is read.
    pub(super) fn is_before_start(&self) -> bool {
        self.selected < self.start.ordinal
    }

    /// Passes over an entry of a known list that is before the first one that is read. So many
    /// bytes would be read of it.
    pub(super) fn pass(&mut self, length: Option<u64>) {
        self.bytes = self.bytes.zip(length).map(|(bytes, length)| bytes + length);
        self.selected += 1;
    }

    /// Adds an entry of the part of a list that is known, in the order of the epoch.
    pub(super) async fn push_arranged(&mut self, entry: Entry) -> Result<(), ListError> {
        self.send(entry).await
    }

    async fn send(&mut self, entry: Entry) -> Result<(), ListError> {
        let known = self.bytes.zip(entry.length(&self.settings.reading));
        self.bytes = known.map(|(bytes, length)| bytes + length);
        self.selected += 1;
        if self.selected <= self.start.ordinal {
            return Ok(());
        }
        self.sender.send(Ok(entry)).await.map_err(|_| ListError::ReceiverClosed)
    }

    /// Ends the list. Returns the number of bytes that will be read of all entries of the part, if
    /// it is known.
    pub(super) async fn end(&mut self) -> Result<Option<u64>, ListError> {
        self.companions.check()?;
        let entries = std::mem::take(&mut self.to_shuffle);
        let settings = self.settings.clone();
        let size = |entry: &Entry| entry.stored_size(&settings.selection);
        for entry in settings.reading.order.arrange(entries, self.start.epoch, size)? {
            self.send(entry).await?;
        }
        self.start.check_list(&self.settings.selection.to_string(), self.selected)?;
        Ok(self.bytes)
    }

    /// Sends an error, which is the last item.
    pub(super) async fn fail(self, error: SourceError) {
        // If the receiver is closed, nobody reads the list any more.
        let _ = self.sender.send(Err(error)).await;
    }
}
