//! The list of a channel's prefixes, kept for its later epochs and for other channels of this
//! process: a prefix is listed once. A list that is too long to keep is listed again.
//!
//! A kept list is read from its beginning to its end, so each object takes only what differs from
//! the object before it: the rest of its key, its size, and the 16 bytes of a usual ETag.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};

use super::access::Access;
use super::address::Address;
use super::entry::{FoundObject, ObjectInfo};
use super::node_list::NodeList;
use super::settings::{Selection, Settings};

/// Largest size in bytes of a list that is kept: that of some 6 million objects.
const MAX_KEPT_BYTES: usize = 256 << 20;
/// Largest number of objects of a list that is kept although its source reads one epoch only: those
/// of a page. It is kept for the source that reads the same objects next.
const MAX_OF_ONE_EPOCH: usize = 1000;

/// The kept lists of a process.
#[derive(Default)]
pub(super) struct KeptLists {
    slots: Mutex<HashMap<Listed, Arc<ListSlot>>>,
    /// Where they are shared with other hosts of the job on this machine, if they are.
    shared: Option<PathBuf>,
}

/// What is listed: prefixes, how they are reached, and which keys are left out.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Listed {
    prefixes: Vec<Address>,
    access: Access,
    hidden: bool,
    allow_empty: bool,
    inventory: Option<Box<Address>>,
}

impl Listed {
    /// Identifies it for all hosts of this version.
    fn digest(&self) -> String {
        let text = format!("{} {self:?}", env!("CARGO_PKG_VERSION"));
        Sha256::digest(text)[..16].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl KeptLists {
    /// Lists that are shared at this path.
    pub(super) fn new(shared: Option<PathBuf>) -> Self {
        Self { shared, ..Self::default() }
    }

    /// The place of the list of these settings; `None` if each epoch is listed.
    pub(super) fn slot(&self, settings: &Settings) -> Option<Arc<ListSlot>> {
        let Selection::Prefixes(prefixes) = &settings.selection else { return None };
        if settings.reading.relist {
            return None;
        }
        let (prefixes, access) = (prefixes.clone(), settings.access.clone());
        let (hidden, allow_empty) = (settings.reading.hidden, settings.allow_empty);
        let inventory = settings.reading.inventory.clone();
        let listed = Listed { prefixes, access, hidden, allow_empty, inventory };
        let shared = self.shared.as_ref();
        let node = shared.map(|path| NodeList::new(path, &listed.digest()));
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = || Arc::new(ListSlot { node, list: Mutex::default() });
        Some(slots.entry(listed).or_insert_with(slot).clone())
    }
}

/// The place of a list.
#[derive(Default)]
pub(super) struct ListSlot {
    list: Mutex<Option<Arc<KeptList>>>,
    /// Where other hosts of the job find it, if it is shared.
    pub(super) node: Option<NodeList>,
}

impl ListSlot {
    /// The list, if it was read to its end and kept.
    pub(super) fn get(&self) -> Option<Arc<KeptList>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps a list, unless another source has kept one before: all sources read the same one.
    pub(super) fn set(&self, list: KeptList) {
        let mut kept = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get_or_insert_with(|| Arc::new(list));
    }
}

/// A list of objects below prefixes, in pages.
#[derive(Default)]
pub(super) struct KeptList {
    /// The prefixes that were listed, in the order of the list.
    prefixes: Vec<Address>,
    pages: Vec<KeptPage>,
    /// What differs from the key of the object before, and unusual ETags.
    texts: String,
    /// All other facts of objects: see [`ListWriter::add`].
    facts: Vec<u8>,
}

/// A page of a list. What is known of a list grows by pages, so later epochs have the same ones.
struct KeptPage {
    /// Index of its prefix.
    prefix: u32,
    objects: u32,
    /// Whether the whole list is known with it.
    is_whole: bool,
}

/// How an ETag is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    None,
    /// The 128 bits of a digest, in quotes.
    Digest,
    /// A digest, and the number of parts of the upload.
    OfParts,
    Text,
}

/// The fact that the object has a checksum, in the byte of its [`Kind`].
const HAS_CHECKSUM: u8 = 4;

impl KeptList {
    /// Bytes that it takes.
    fn bytes(&self) -> usize {
        self.texts.len() + self.facts.len() + self.pages.len() * size_of::<KeptPage>()
    }

    /// Whether one of its prefixes has no object.
    fn has_empty_prefix(&self) -> bool {
        let is_empty = |prefix| {
            let mut pages = self.pages.iter().filter(|page| page.prefix == prefix);
            pages.all(|page| page.objects == 0)
        };
        (0..self.prefixes.len() as u32).any(is_empty)
    }

    /// Appends all of it: see [`decode`](Self::decode).
    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        put(bytes, self.prefixes.len() as u64);
        for Address { bucket, key, .. } in &self.prefixes {
            put_text(bytes, bucket.as_bytes());
            put_text(bytes, key.as_bytes());
        }
        put(bytes, self.pages.len() as u64);
        for page in &self.pages {
            put(bytes, page.prefix.into());
            put(bytes, page.objects.into());
            put(bytes, page.is_whole.into());
        }
        put_text(bytes, self.texts.as_bytes());
        put_text(bytes, &self.facts);
    }

    /// The list of these bytes; `None` if they are of no list.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (mut list, mut rest) = (Self::default(), bytes);
        for _ in 0..take(&mut rest)? {
            let mut text = || String::from_utf8(take_text(&mut rest)?.to_vec()).ok();
            let (bucket, key) = (text()?, text()?);
            list.prefixes.push(Address { bucket: bucket.into(), key, version: None });
        }
        for _ in 0..take(&mut rest)? {
            let mut number = || u32::try_from(take(&mut rest)?).ok();
            let (prefix, objects, is_whole) = (number()?, number()?, number()? != 0);
            list.pages.push(KeptPage { prefix, objects, is_whole });
        }
        list.texts = String::from_utf8(take_text(&mut rest)?.to_vec()).ok()?;
        list.facts = take_text(&mut rest)?.to_vec();
        rest.is_empty().then_some(list)
    }

    /// Number of its objects.
    pub(super) fn objects(&self) -> u64 {
        self.pages.iter().map(|page| u64::from(page.objects)).sum()
    }

    /// Reads its pages in order.
    pub(super) fn pages(&self) -> impl Iterator<Item = (&Address, Vec<FoundObject>, bool)> {
        let mut reader = ListReader { list: self, key: String::new(), text: 0, fact: 0 };
        self.pages.iter().filter_map(move |page| {
            let prefix = self.prefixes.get(page.prefix as usize)?;
            let objects = (0..page.objects).map_while(|_| reader.next(prefix)).collect();
            Some((prefix, objects, page.is_whole))
        })
    }
}

/// Writes a list while it is read for the first time.
pub(super) struct ListWriter {
    slot: Arc<ListSlot>,
    /// `None` after the list got too long, or was complete.
    list: Option<KeptList>,
    /// The key of the object before.
    key: String,
    max_bytes: usize,
    max_objects: usize,
    /// Whether a list without an object below one of the prefixes is no error.
    allow_empty: bool,
}

impl ListWriter {
    /// Writes the list for this place. If the source has one epoch only, a long list is not kept.
    pub(super) fn new(slot: Arc<ListSlot>, epochs: u32, allow_empty: bool) -> Self {
        let max_objects = if epochs > 1 { usize::MAX } else { MAX_OF_ONE_EPOCH };
        let (list, key) = (Some(KeptList::default()), String::new());
        Self { slot, list, key, max_bytes: MAX_KEPT_BYTES, max_objects, allow_empty }
    }

    /// Adds a page of a prefix's list. After the last one, the list is kept. Returns the number of
    /// its objects if it just got too long.
    pub(super) fn add_page(
        &mut self,
        prefix: &Address,
        page: &[FoundObject],
        is_whole: bool,
    ) -> Option<u64> {
        let mut list = self.list.take()?;
        if list.prefixes.last() != Some(prefix) {
            list.prefixes.push(prefix.clone());
        }
        for found in page {
            self.add(&mut list, found)?;
        }
        // A page has at most some thousand objects, and a configuration fewer prefixes.
        let (index, objects) = ((list.prefixes.len() - 1) as u32, page.len() as u32);
        list.pages.push(KeptPage { prefix: index, objects, is_whole });
        let objects = list.objects();
        if objects > self.max_objects as u64 {
            return None;
        }
        if list.bytes() > self.max_bytes {
            return Some(objects);
        }
        if is_whole {
            list.texts.shrink_to_fit();
            list.facts.shrink_to_fit();
            if self.allow_empty || !list.has_empty_prefix() {
                self.slot.set(list);
            }
        } else {
            self.list = Some(list);
        }
        None
    }

    /// Adds an object; `None` if it is not from a list. Its facts are: the kind of its ETag and
    /// [`HAS_CHECKSUM`], the number of bytes of its key that are those of the key before, the
    /// number of the other bytes, its size, and its ETag.
    fn add(&mut self, list: &mut KeptList, found: &FoundObject) -> Option<()> {
        let ObjectInfo::Listed { size, etag, has_checksum } = &found.info else { return None };
        let key = &found.address.key;
        let mut shared =
            key.bytes().zip(self.key.bytes()).take_while(|(one, two)| one == two).count();
        while !key.is_char_boundary(shared) {
            shared -= 1;
        }
        let (kind, digest, parts) = kind_of(etag.as_deref());
        list.facts.push(kind as u8 | if *has_checksum { HAS_CHECKSUM } else { 0 });
        for number in [shared as u64, (key.len() - shared) as u64, *size] {
            put(&mut list.facts, number);
        }
        list.texts.push_str(&key[shared..]);
        match (kind, etag) {
            (Kind::Digest, _) => list.facts.extend(digest.to_le_bytes()),
            (Kind::OfParts, _) => {
                list.facts.extend(digest.to_le_bytes());
                put(&mut list.facts, parts);
            }
            (Kind::Text, Some(etag)) => {
                put(&mut list.facts, etag.len() as u64);
                list.texts.push_str(etag);
            }
            (Kind::None | Kind::Text, _) => {}
        }
        self.key.clone_from(key);
        Some(())
    }
}

/// How this ETag is kept, with its digest and its number of parts.
fn kind_of(etag: Option<&str>) -> (Kind, u128, u64) {
    let Some(etag) = etag else { return (Kind::None, 0, 0) };
    let bare = etag.trim_matches('"');
    let (digest, parts) = bare.split_once('-').unwrap_or((bare, "0"));
    if let (Ok(digest), Ok(parts)) = (u128::from_str_radix(digest, 16), parts.parse()) {
        for kind in [Kind::Digest, Kind::OfParts] {
            if etag_of(kind, digest, parts) == etag {
                return (kind, digest, parts);
            }
        }
    }
    (Kind::Text, 0, 0)
}

/// The ETag with this digest and number of parts.
fn etag_of(kind: Kind, digest: u128, parts: u64) -> String {
    match kind {
        Kind::OfParts => format!("\"{digest:032x}-{parts}\""),
        _ => format!("\"{digest:032x}\""),
    }
}

/// Appends a number in groups of seven bits, the lowest first.
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn put_text(bytes: &mut Vec<u8>, text: &[u8]) {
    put(bytes, text.len() as u64);
    bytes.extend(text);
}

/// Takes a number that [`put`] has appended from the beginning of these bytes.
fn take(bytes: &mut &[u8]) -> Option<u64> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if *byte < 0x80 {
            return Some(number);
        }
        shift += 7;
    }
}

fn take_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take(bytes)?).ok()?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(text)
}

/// Reads the objects of a list in order.
struct ListReader<'a> {
    list: &'a KeptList,
    /// The key of the object before.
    key: String,
    /// Where the rest begins.
    text: usize,
    fact: usize,
}

impl<'a> ListReader<'a> {
    /// The next object, which lies below this prefix; `None` after the last one.
    fn next(&mut self, prefix: &Address) -> Option<FoundObject> {
        let flags = self.byte()?;
        let (shared, other, size) = (self.number()?, self.number()?, self.number()?);
        self.key.truncate(usize::try_from(shared).ok()?);
        let rest = self.text(other)?;
        self.key.push_str(rest);
        let etag = match flags & !HAS_CHECKSUM {
            kind if kind == Kind::Digest as u8 => Some(etag_of(Kind::Digest, self.digest()?, 0)),
            kind if kind == Kind::OfParts as u8 => {
                Some(etag_of(Kind::OfParts, self.digest()?, self.number()?))
            }
            kind if kind == Kind::Text as u8 => {
                let len = self.number()?;
                Some(self.text(len)?.to_owned())
            }
            _ => None,
        };
        let info = ObjectInfo::Listed { size, etag, has_checksum: flags & HAS_CHECKSUM != 0 };
        Some(FoundObject { address: prefix.with_key(&self.key), info, block: None, known: None })
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.list.facts.get(self.fact)?;
        self.fact += 1;
        Some(byte)
    }

    fn number(&mut self) -> Option<u64> {
        let mut rest = self.list.facts.get(self.fact..)?;
        let number = take(&mut rest);
        self.fact = self.list.facts.len() - rest.len();
        number
    }

    fn digest(&mut self) -> Option<u128> {
        let bytes = self.list.facts.get(self.fact..)?.first_chunk()?;
        self.fact += size_of::<u128>();
        Some(u128::from_le_bytes(*bytes))
    }

    fn text(&mut self, len: u64) -> Option<&'a str> {
        let end = self.text.checked_add(usize::try_from(len).ok()?)?;
        let list = self.list;
        let text = list.texts.get(self.text..end)?;
        self.text = end;
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Facts = (String, u64, Option<String>, bool);

    fn found((key, size, etag, has_checksum): &Facts) -> FoundObject {
        let address = Address { bucket: "b".into(), key: key.clone(), version: None };
        let (size, etag, has_checksum) = (*size, etag.clone(), *has_checksum);
        let info = ObjectInfo::Listed { size, etag, has_checksum };
        FoundObject { address, info, block: None, known: None }
    }

    fn facts(found: FoundObject) -> Facts {
        let ObjectInfo::Listed { size, etag, has_checksum } = found.info else { unreachable!() };
        (found.address.key, size, etag, has_checksum)
    }

    fn prefix() -> Address {
        Address { bucket: "b".into(), key: String::new(), version: None }
    }

    fn etags() -> impl Strategy<Value = Option<String>> {
        let text = prop_oneof![
            "\"[0-9a-f]{32}\"",
            "\"[0-9a-f]{32}-[0-9]{1,5}\"",
            "(W/)?\"?[0-9a-fA-F]{0,40}(-[0-9]*)?\"?",
            ".*",
        ];
        proptest::option::of(text)
    }

    proptest! {
        #[test]
        fn a_kept_list_gives_what_was_listed_page_by_page(
            pages in prop::collection::vec(
                prop::collection::vec(
                    ("[aä€\u{10348}b/]{0,6}", any::<u64>(), etags(), any::<bool>()),
                    0..20,
                ),
                1..6,
            ),
        ) {
            let slot = Arc::new(ListSlot::default());
            let mut writer = ListWriter::new(slot.clone(), 2, true);
            for (number, page) in pages.iter().enumerate() {
                prop_assert!(slot.get().is_none());
                let page: Vec<_> = page.iter().map(found).collect();
                writer.add_page(&prefix(), &page, number + 1 == pages.len());
            }
            let kept = slot.get().unwrap();
            let read: Vec<Vec<_>> =
                kept.pages().map(|(_, page, _)| page.into_iter().map(facts).collect()).collect();
            prop_assert_eq!(read, pages.clone());
            // Another host reads the same.
            let mut bytes = Vec::new();
            kept.encode(&mut bytes);
            let decoded = KeptList::decode(&bytes).unwrap();
            let read: Vec<Vec<_>> =
                decoded.pages().map(|(_, page, _)| page.into_iter().map(facts).collect()).collect();
            prop_assert_eq!(read, pages.clone());
            prop_assert!(KeptList::decode(&bytes[..bytes.len() - 1]).is_none());
            prop_assert!(kept.pages().map(|(_, _, is_whole)| is_whole).eq(
                (1..=pages.len()).map(|number| number == pages.len())
            ));
        }
    }

    fn usual(number: u32) -> FoundObject {
        let key = format!("train/shard-{number:08}.tar");
        found(&(key, 100 << 20, Some(format!("\"{:032x}\"", u128::MAX - u128::from(number))), true))
    }

    /// docs/s3.md states this size.
    #[test]
    fn a_usual_object_takes_at_most_40_bytes() {
        let slot = Arc::new(ListSlot::default());
        let mut writer = ListWriter::new(slot.clone(), 2, true);
        for page in 0..10 {
            let page: Vec<_> = (page * 1000..(page + 1) * 1000).map(usual).collect();
            writer.add_page(&prefix(), &page, page[0].address.key.contains("00009000"));
        }
        let kept = slot.get().unwrap();
        assert_eq!(kept.objects(), 10_000);
        assert!(kept.bytes() <= 40 * 10_000, "{}", kept.bytes());
        assert!(kept.texts.capacity() + kept.facts.capacity() <= kept.bytes());
    }

    #[test]
    fn a_list_that_is_too_long_is_not_kept_and_says_so_once() {
        let slot = Arc::new(ListSlot::default());
        let mut writer = ListWriter { max_bytes: 100, ..ListWriter::new(slot.clone(), 2, true) };
        let page: Vec<_> = (0..2).map(usual).collect();
        assert_eq!(writer.add_page(&prefix(), &page, false), None);
        assert_eq!(writer.add_page(&prefix(), &page, false), Some(4));
        assert_eq!(writer.add_page(&prefix(), &page, true), None);
        assert!(slot.get().is_none());
    }

    #[test]
    fn a_list_of_one_epoch_is_kept_if_it_is_short() {
        for (objects, is_kept) in [(1000, true), (1001, false)] {
            let slot = Arc::new(ListSlot::default());
            let page: Vec<_> = (0..objects).map(usual).collect();
            assert_eq!(
                ListWriter::new(slot.clone(), 1, true).add_page(&prefix(), &page, true),
                None
            );
            assert_eq!(slot.get().is_some(), is_kept);
        }
    }

    /// To list again finds the error again.
    #[test]
    fn a_list_without_an_object_is_kept_only_if_that_is_no_error() {
        for allow_empty in [false, true] {
            let slot = Arc::new(ListSlot::default());
            let mut writer = ListWriter::new(slot.clone(), 2, allow_empty);
            writer.add_page(&prefix(), &[usual(0)], false);
            writer.add_page(&prefix().with_key("other/"), &[], true);
            assert_eq!(slot.get().is_some(), allow_empty);
        }
    }
}
