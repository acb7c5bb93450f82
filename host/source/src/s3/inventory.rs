//! Lists objects by an S3 Inventory in place of requests for lists: a manifest names files of CSV,
//! which have a line for each object.
//!
//! The format is that of Amazon's user guide, "Locating your inventory list". The files need not be
//! in the order of the keys. So all objects below the prefixes are held in memory, and sorted.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use md5::{Digest, Md5};
use pipemill_codecs::GzipMembers;
use pipemill_types::printable;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use super::address::{Address, MAX_KEY_BYTES};
use super::entry::{EntryList, FoundObject, ListError, ObjectInfo};
use super::list::{add_page, is_folder_marker, unescape};
use super::plan::{Planner, task_failed};
use super::target::bare_etag;
use super::whole::{read_list_file, read_manifest};
use crate::SourceError;

/// Largest size in bytes of the manifest of an inventory.
const MAX_MANIFEST_BYTES: u64 = 64 << 20;
/// Largest size in bytes of a file of an inventory, compressed: that of Amazon's is 2 GiB.
const MAX_FILE_BYTES: u64 = 4 << 30;
/// Largest size in bytes of a line: a key has 1,024 bytes, of which each may become three.
const MAX_LINE_BYTES: u64 = 64 << 10;
/// Objects that are added to the list at once.
const PAGE: usize = 1_000;

/// The manifest of an inventory.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InventoryManifest {
    source_bucket: String,
    file_format: String,
    file_schema: String,
    /// Milliseconds since 1970, as a text.
    #[serde(default)]
    creation_timestamp: Value,
    files: Vec<DataFile>,
}

/// A file that has a part of the list.
#[derive(Deserialize)]
struct DataFile {
    key: String,
    size: u64,
    #[serde(rename = "MD5checksum")]
    md5: String,
}

/// The columns of the files.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Columns {
    bucket: usize,
    key: usize,
    size: usize,
    etag: usize,
    /// Whether the line is of an object's latest version.
    is_latest: Option<usize>,
    is_delete_marker: Option<usize>,
    checksum: Option<usize>,
    count: usize,
}

/// The objects below the prefixes. Keys and ETags are in one text: there may be many millions.
#[derive(Default)]
struct Inventory {
    texts: String,
    objects: Vec<InventoryObject>,
}

#[derive(Clone, Copy)]
struct InventoryObject {
    /// Where its key begins in the texts. Its ETag follows, without quotes.
    at: usize,
    key: u16,
    etag: u16,
    has_checksum: bool,
    size: u64,
}

/// Inventories that several sources read, each of them once: it stays in memory for the next source
/// of the same addresses. Cheap to clone.
#[derive(Clone, Default)]
pub struct SharedInventories(Arc<Mutex<Vec<SharedInventory>>>);

/// What was read of an inventory.
struct SharedInventory {
    manifest: Address,
    addresses: Vec<Address>,
    listed: Arc<Inventory>,
}

impl PartialEq for SharedInventories {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SharedInventories {}

impl fmt::Debug for SharedInventories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedInventories")
    }
}

/// The lists of several addresses, which are taken from one inventory. It is read when the first
/// list is wanted, and once for all of them.
pub(super) struct InventoryLists<'a> {
    manifest: &'a Address,
    addresses: &'a [Address],
    /// The objects below all addresses.
    listed: Option<Arc<Inventory>>,
}

impl<'a> InventoryLists<'a> {
    pub(super) fn new(manifest: &'a Address, addresses: &'a [Address]) -> Self {
        Self { manifest, addresses, listed: None }
    }

    /// Adds all objects of the inventory whose keys begin with the key of this address, which is
    /// one of the addresses, and returns their number. With `is_name`, the object with exactly this
    /// key is the only one, if there is one. `is_last`: the list ends with them.
    pub(super) async fn add(
        &mut self,
        planner: &Planner,
        address: &Address,
        (is_name, is_last): (bool, bool),
        entries: &mut EntryList,
    ) -> Result<u64, ListError> {
        let listed = match self.listed.take() {
            Some(listed) => listed,
            None => self.read_or_share(planner).await?,
        };
        let listed = self.listed.insert(listed);
        let (mut count, objects) = (0, listed.below(&address.key, is_name));
        let mut pages = objects.chunks(PAGE).peekable();
        if pages.peek().is_none() {
            entries.push_page(address, Vec::new(), is_last).await?;
        }
        while let Some(page) = pages.next() {
            let page = page.iter().filter_map(|object| listed.found(object, address)).collect();
            count += add_page(address, page, is_last && pages.peek().is_none(), entries).await?;
        }
        Ok(count)
    }

    /// The objects below all addresses, which another source may have read.
    async fn read_or_share(&self, planner: &Planner) -> Result<Arc<Inventory>, SourceError> {
        let Some(SharedInventories(shared)) = &planner.settings.reading.inventories else {
            return self.read(planner).await.map(Arc::new);
        };
        // Others wait for what is read, and don't read it, too.
        let mut shared = shared.lock().await;
        let is_same = |one: &&SharedInventory| {
            one.manifest == *self.manifest && one.addresses == self.addresses
        };
        if let Some(known) = shared.iter().find(is_same) {
            return Ok(known.listed.clone());
        }
        let listed = Arc::new(self.read(planner).await?);
        let (manifest, addresses) = (self.manifest.clone(), self.addresses.to_vec());
        shared.push(SharedInventory { manifest, addresses, listed: listed.clone() });
        Ok(listed)
    }

    /// Reads the objects below all addresses, in the order of their keys.
    async fn read(&self, planner: &Planner) -> Result<Inventory, SourceError> {
        let (s3, window) = (planner.s3.clone(), planner.window.clone());
        let text = read_manifest(s3, window, self.manifest, MAX_MANIFEST_BYTES).await?;
        let manifest: InventoryManifest = serde_json::from_slice(&text).map_err(|error| {
            let message = format!("is not the manifest of an S3 Inventory: {error}");
            let remedy = "give the address of its manifest.json";
            SourceError::new(self.manifest.to_string(), message, remedy)
        })?;
        let columns = manifest.check(self.manifest, self.addresses)?;
        log::info!(
            "{}: its objects are those of the inventory {}{}",
            planner.settings.selection,
            self.manifest,
            manifest
                .age()
                .map(|age| format!(", made {} hours ago", age.as_secs() / 3600))
                .unwrap_or_default()
        );
        let prefixes: Arc<[_]> = self.addresses.iter().map(|one| one.key.clone()).collect();
        let mut listed = Inventory::default();
        for file in &manifest.files {
            let place = self.manifest.with_key(&file.key);
            if file.size > MAX_FILE_BYTES {
                let size = file.size;
                let message =
                    format!("{place} has {size} bytes; at most {MAX_FILE_BYTES} are read");
                return Err(wrong(self.manifest, message));
            }
            let bytes = read_list_file(planner, &place, file.size).await?;
            let (bucket, prefixes) = (manifest.source_bucket.clone(), prefixes.clone());
            let (columns, md5) = (columns.clone(), file.md5.clone());
            let added = spawn_blocking(move || {
                check_md5(&bytes, &md5)?;
                listed.add_file(&bytes, &columns, &bucket, &prefixes)?;
                Ok(listed)
            });
            let added = added.await.map_err(|error| task_failed(&error))?;
            listed = added.map_err(|message: String| wrong(&place, message))?;
        }
        listed.sort().map_err(|message| wrong(self.manifest, message))?;
        Ok(listed)
    }
}

fn wrong(place: &Address, message: String) -> SourceError {
    let remedy = "take another inventory, or list the bucket: leave `inventory` out";
    SourceError::new(place.to_string(), message, remedy)
}

impl InventoryManifest {
    /// Checks that it lists the objects of these addresses. Returns the columns of its files.
    fn check(&self, inventory: &Address, addresses: &[Address]) -> Result<Columns, SourceError> {
        let refused = |message: String, remedy: &str| {
            Err(SourceError::new(inventory.to_string(), message, remedy))
        };
        let is_other = |address: &&Address| {
            let is_access_point = address.bucket.starts_with("arn:");
            *self.source_bucket != *address.bucket && !is_access_point
        };
        if let Some(address) = addresses.iter().find(is_other) {
            let message = format!(
                "is an inventory of the bucket {}, and not of {address}",
                printable(&self.source_bucket)
            );
            return refused(message, "give the inventory of this bucket");
        }
        if self.file_format != "CSV" {
            let message = format!("has files in {}, expected CSV", printable(&self.file_format));
            return refused(message, "choose CSV in the inventory's configuration");
        }
        Columns::of(&self.file_schema).or_else(|message| {
            let remedy = "choose Size and ETag in the inventory's configuration";
            refused(message, remedy)
        })
    }

    /// The time since it was begun.
    fn age(&self) -> Option<Duration> {
        let text = self.creation_timestamp.as_str().and_then(|text| text.parse().ok());
        let millis = text.or_else(|| self.creation_timestamp.as_u64())?;
        let begun = UNIX_EPOCH.checked_add(Duration::from_millis(millis))?;
        SystemTime::now().duration_since(begun).ok()
    }
}

impl Columns {
    /// The columns of a schema: their names, with commas between them.
    fn of(schema: &str) -> Result<Self, String> {
        let names: Vec<_> = schema.split(',').map(str::trim).collect();
        let find = |name: &str| names.iter().position(|one| *one == name);
        let required = |name: &str| {
            find(name).ok_or_else(|| {
                let has = printable(schema);
                format!("does not have the column {name}, which is needed; it has {has}")
            })
        };
        let is_latest = find("IsLatest");
        if find("VersionId").is_some() {
            required("IsLatest")?;
        }
        Ok(Self {
            bucket: required("Bucket")?,
            key: required("Key")?,
            size: required("Size")?,
            etag: required("ETag")?,
            is_latest,
            is_delete_marker: find("IsDeleteMarker"),
            checksum: find("ChecksumAlgorithm"),
            count: names.len(),
        })
    }
}

/// Checks that a file is the one that the manifest names.
fn check_md5(bytes: &[u8], expected: &str) -> Result<(), String> {
    let found: String = Md5::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    if found.eq_ignore_ascii_case(expected) {
        return Ok(());
    }
    let expected = printable(expected);
    Err(format!("its MD5 is {found}, and the inventory's manifest says {expected}"))
}

impl Inventory {
    /// Adds the objects of a file, compressed or not, whose keys begin with one of these prefixes.
    fn add_file(
        &mut self,
        bytes: &[u8],
        columns: &Columns,
        bucket: &str,
        prefixes: &[String],
    ) -> Result<(), String> {
        let is_gzip = bytes.starts_with(&[0x1f, 0x8b]);
        let mut lines: Box<dyn BufRead> = match is_gzip {
            true => Box::new(BufReader::new(GzipMembers::new(bytes))),
            false => Box::new(bytes),
        };
        let (mut line, mut number) = (Vec::new(), 0u64);
        loop {
            number += 1;
            let failed = |error: io::Error| format!("its line {number} can't be read: {error}");
            line.clear();
            let mut limited = lines.by_ref().take(MAX_LINE_BYTES);
            if limited.read_until(b'\n', &mut line).map_err(failed)? == 0 {
                return Ok(());
            }
            if line.len() as u64 == MAX_LINE_BYTES {
                return Err(format!("its line {number} has {MAX_LINE_BYTES} bytes or more"));
            }
            let text = std::str::from_utf8(&line)
                .map_err(|_| format!("its line {number} is not UTF-8"))?;
            let text = text.trim_end_matches(['\r', '\n']);
            if text.is_empty() {
                continue;
            }
            self.add_line(text, columns, bucket, prefixes)
                .map_err(|message| format!("its line {number}: {message}"))?;
        }
    }

    /// Adds the object of a line, if its key begins with one of these prefixes.
    fn add_line(
        &mut self,
        line: &str,
        columns: &Columns,
        bucket: &str,
        prefixes: &[String],
    ) -> Result<(), String> {
        let fields = fields(line)?;
        if fields.len() != columns.count {
            return Err(format!("it has {} fields, expected {}", fields.len(), columns.count));
        }
        let field = |column: usize| fields[column].as_ref();
        let flag = |column: Option<usize>| match column.map(field) {
            None => Ok(None),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(Some(true)),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(Some(false)),
            Some(text) => Err(format!("expected true or false, found `{}`", printable(text))),
        };
        if field(columns.bucket) != bucket {
            let found = printable(field(columns.bucket));
            return Err(format!("it is of the bucket {found}, expected {bucket}"));
        }
        let (latest, deleted) = (flag(columns.is_latest)?, flag(columns.is_delete_marker)?);
        if latest == Some(false) || deleted == Some(true) {
            return Ok(());
        }
        let encoded = field(columns.key);
        let key = unescape(encoded)
            .filter(|key| !key.is_empty() && key.len() <= MAX_KEY_BYTES)
            .ok_or_else(|| {
                format!("`{}` is not the URL-encoded key of an object", printable(encoded))
            })?;
        if !prefixes.iter().any(|prefix| key.starts_with(prefix)) {
            return Ok(());
        }
        let size = field(columns.size);
        let size = size.parse().map_err(|_| format!("its size is `{}`", printable(size)))?;
        let etag = bare_etag(field(columns.etag));
        let length = u16::try_from(etag.len()).ok().filter(|length| *length > 0);
        let Some(length) = length else {
            return Err(format!("its ETag is `{}`", printable(etag)));
        };
        let at = self.texts.len();
        self.texts.push_str(&key);
        self.texts.push_str(etag);
        let has_checksum = columns.checksum.is_some_and(|column| !field(column).is_empty());
        // A key is shorter than 2^16.
        let key = key.len() as u16;
        self.objects.push(InventoryObject { at, key, etag: length, has_checksum, size });
        Ok(())
    }

    fn key(&self, object: &InventoryObject) -> &str {
        &self.texts[object.at..object.at + usize::from(object.key)]
    }

    fn etag(&self, object: &InventoryObject) -> &str {
        let at = object.at + usize::from(object.key);
        &self.texts[at..at + usize::from(object.etag)]
    }

    /// Sorts the objects by their keys. An object that is listed twice in one state is one object.
    ///
    /// # Errors
    /// A key is listed in two states.
    fn sort(&mut self) -> Result<(), String> {
        let mut objects = std::mem::take(&mut self.objects);
        objects.sort_unstable_by(|one, other| self.key(one).cmp(self.key(other)));
        let state = |object: &InventoryObject| (object.size, self.etag(object));
        let same = |pair: &&[InventoryObject]| self.key(&pair[0]) == self.key(&pair[1]);
        let twice = objects.windows(2).filter(same).find(|pair| state(&pair[0]) != state(&pair[1]));
        if let Some(pair) = twice {
            let key = printable(self.key(&pair[0]));
            return Err(format!("has the key `{key}` twice, in different states"));
        }
        objects.dedup_by(|one, other| self.key(one) == self.key(other));
        self.objects = objects;
        Ok(())
    }

    /// The objects whose keys begin with this prefix, once they are sorted. With `is_name`, the
    /// object with exactly this key is the only one, if there is one.
    fn below(&self, prefix: &str, is_name: bool) -> &[InventoryObject] {
        let start = self.objects.partition_point(|object| self.key(object) < prefix);
        let from = &self.objects[start..];
        match from.first() {
            // It is the least of those that begin with it.
            Some(first) if is_name && self.key(first) == prefix => &from[..1],
            _ => &from[..from.partition_point(|object| self.key(object).starts_with(prefix))],
        }
    }

    /// The object of a list; `None` for the marker of a folder.
    fn found(&self, object: &InventoryObject, address: &Address) -> Option<FoundObject> {
        let (key, size) = (self.key(object), object.size);
        if is_folder_marker(key, size) {
            return None;
        }
        let etag = Some(format!("\"{}\"", self.etag(object)));
        let info = ObjectInfo::Listed { size, etag, has_checksum: object.has_checksum };
        Some(FoundObject::new(address.with_key(key), info))
    }
}

/// The fields of a line of CSV. One in quotes may have commas, and quotes that are doubled.
fn fields(line: &str) -> Result<Vec<Cow<'_, str>>, String> {
    let (mut fields, mut rest) = (Vec::new(), line);
    loop {
        let Some(quoted) = rest.strip_prefix('"') else {
            let (field, after) = rest.split_once(',').map_or((rest, None), |(a, b)| (a, Some(b)));
            fields.push(Cow::Borrowed(field));
            match after {
                Some(after) => rest = after,
                None => return Ok(fields),
            }
            continue;
        };
        let (mut field, mut after) =
            quoted.split_once('"').ok_or("it has a quote without an end")?;
        let mut text = Cow::Borrowed(field);
        while let Some(more) = after.strip_prefix('"') {
            (field, after) = more.split_once('"').ok_or("it has a quote without an end")?;
            text.to_mut().push('"');
            text.to_mut().push_str(field);
        }
        fields.push(text);
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None if after.is_empty() => return Ok(fields),
            None => return Err("it has text after a quote's end".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_of_a_line_are_those_of_csv() {
        for (line, expected) in [
            ("", vec![""]),
            ("a,b", vec!["a", "b"]),
            (r#""a","b,c","""d""""#, vec!["a", "b,c", "\"d\""]),
            (r#"a,"",,"#, vec!["a", "", "", ""]),
        ] {
            assert_eq!(fields(line).unwrap(), expected, "{line}");
        }
        for wrong in ["\"a", "\"a\"b", "a,\"b\"\""] {
            assert!(fields(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn columns_are_found_by_their_names() {
        let of = |schema: &str| Columns::of(schema);
        let all = of("Bucket, Key, VersionId, IsLatest, IsDeleteMarker, Size, LastModifiedDate, \
                      ETag, StorageClass, ChecksumAlgorithm");
        let all = all.unwrap();
        assert_eq!((all.key, all.is_latest, all.etag, all.checksum), (1, Some(3), 7, Some(9)));
        assert_eq!((all.is_delete_marker, all.size, all.count), (Some(4), 5, 10));
        assert!(of("Bucket, Key, Size, ETag").unwrap().is_latest.is_none());
        for (schema, missing) in [
            ("Bucket, Key, Size", "ETag"),
            ("Bucket, Key, ETag", "Size"),
            ("Bucket, Size, ETag", "Key"),
            ("Bucket, Key, VersionId, Size, ETag", "IsLatest"),
        ] {
            let error = of(schema).unwrap_err();
            assert!(error.contains(&format!("the column {missing}")), "{error}");
        }
    }

    proptest! {
        /// Any bytes are lines, or an error.
        #[test]
        fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let columns = Columns::of("Bucket, Key, Size, ETag").unwrap();
            for start in [&b""[..], b"\"b\",\"k\",\"1\",\"e\"\n", &[0x1f, 0x8b]] {
                let mut inventory = Inventory::default();
                let file = [start, &bytes].concat();
                let _ = inventory.add_file(&file, &columns, "b", &[String::new()]);
                let _ = inventory.sort();
            }
        }

        /// Below each prefix, objects come in the order of their keys, whatever their order in the
        /// files is, and which other prefixes are read with it.
        #[test]
        fn objects_below_each_prefix_are_sorted(
            keys in prop::collection::vec("[a-c/é +%]{1,4}", 0..30),
            prefixes in prop::collection::vec("[a-c/é]{0,2}", 1..4),
        ) {
            let columns = Columns::of("Bucket, Key, Size, ETag").unwrap();
            let mut inventory = Inventory::default();
            for key in &keys {
                let escape = |byte: u8| format!("%{byte:02X}");
                let key: String = key.bytes().map(escape).collect();
                let line = format!("\"b\",\"{key}\",\"7\",\"e\"");
                inventory.add_line(&line, &columns, "b", &prefixes).unwrap();
            }
            inventory.sort().unwrap();
            let found = |prefix: &str, is_name| -> Vec<&str> {
                inventory.below(prefix, is_name).iter().map(|one| inventory.key(one)).collect()
            };
            let expected = |prefix: &str| {
                let mut expected: Vec<_> =
                    keys.iter().filter(|key| key.starts_with(prefix)).map(String::as_str).collect();
                expected.sort_unstable();
                expected.dedup();
                expected
            };
            for prefix in &prefixes {
                prop_assert_eq!(found(prefix, false), expected(prefix));
                let is_object = keys.contains(prefix);
                let named = if is_object { vec![prefix.as_str()] } else { expected(prefix) };
                prop_assert_eq!(found(prefix, true), named);
            }
            let is_kept = |key: &&String| prefixes.iter().any(|prefix| key.starts_with(prefix));
            let kept: std::collections::BTreeSet<_> = keys.iter().filter(is_kept).collect();
            prop_assert_eq!(inventory.objects.len(), kept.len());
        }
    }
}
