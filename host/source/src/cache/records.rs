//! The records of objects in the cache: what a decoder has made of an object, or of a block of one,
//! call by call. It is one file, which is a block of the cache like any other: it is counted,
//! removed, believed and given its name as they are. The file has a header of [`HEADER`] bytes, and
//! then its calls. Numbers are little-endian.
//!
//! | bytes | content of the header |
//! |---|---|
//! | 8 | `PMRECRD1` |
//! | 32 | identity of the records |
//! | 8 | number of calls |
//! | 8 | bytes of the file |
//! | 8 | CRC-64/NVME of the header before it |
//!
//! Each call has its number of payload bytes, its number of index bytes, the CRC-64/NVME of both,
//! each in 8 bytes, and then the payload and the index. What they mean is known to those who store
//! them.

use std::collections::HashMap;
use std::fs::{File, FileTimes};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use crc_fast::{CrcAlgorithm, Digest};
use sha2::{Digest as _, Sha256};

use super::claims::Claim;
use super::counters::CacheCounters;
use super::folder::{NewFile, OpenError, is_regular};
use super::identity::BlockId;
use super::store::{Cache, ChannelCache, not_written};
use super::{CacheSettings, open_to_others};
use crate::SourceError;

const MAGIC: &[u8; 8] = b"PMRECRD1";
const HEADER: usize = 64;
/// The numbers before each call.
const CALL: usize = 24;

/// Identifies the records of an object, or of a block of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RecordsId([u8; 32]);

impl RecordsId {
    /// The identity of the records that these texts say all about. Two lists of texts have the same
    /// one only if they are equal.
    pub fn of<'a>(texts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut digest = Sha256::new().chain_update(MAGIC);
        for text in texts {
            digest.update((text.len() as u64).to_le_bytes());
            digest.update(text);
        }
        Self(digest.finalize().into())
    }

    fn block(self) -> BlockId {
        BlockId(self.0)
    }
}

/// The caches of a process: channels with the same settings share one.
#[derive(Default)]
pub struct RecordCaches(Mutex<HashMap<CacheSettings, Option<Arc<Cache>>>>);

impl RecordCaches {
    /// The cache of a channel. `None` if the disk refuses it, which is logged. `reading` says how
    /// the bytes of objects become those that decoders see: other bytes have other records.
    ///
    /// # Errors
    /// Others may write to its folder.
    pub fn open(
        &self,
        settings: &CacheSettings,
        channel: &str,
        reading: String,
    ) -> Result<Option<Arc<RecordCache>>, SourceError> {
        let mut caches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = match caches.get(settings) {
            Some(opened) => opened.clone(),
            None => match Cache::open(settings) {
                Ok(cache) => Some(cache),
                Err(OpenError::Io(error)) => {
                    log::warn!(channel; "{}", not_written(&settings.path, &error));
                    None
                }
                Err(OpenError::Open(folder)) => {
                    return Err(open_to_others(&settings.path, folder));
                }
            },
        };
        caches.insert(settings.clone(), opened.clone());
        let own = |cache: Arc<Cache>| {
            let own = cache.of_channel(Some(channel.to_owned()), Arc::default());
            Arc::new(RecordCache {
                own,
                reading,
                epoch: Mutex::default(),
                schema: Mutex::default(),
            })
        };
        Ok(opened.map(own))
    }
}

/// A cache of records, as one channel uses it.
pub struct RecordCache {
    own: Arc<ChannelCache>,
    reading: String,
    /// The number of the last epoch.
    epoch: Mutex<Option<u32>>,
    /// The fields of the last object whose records were looked for, as its decoder got them.
    schema: Mutex<Option<String>>,
}

impl RecordCache {
    /// How the bytes of objects become those that decoders see.
    pub fn reading(&self) -> &str {
        &self.reading
    }

    /// What it has done.
    pub fn counters(&self) -> &Arc<CacheCounters> {
        &self.own.counters
    }

    /// The fields that decoders got last.
    pub fn schema(&self) -> Option<String> {
        self.schema.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes the fields that a decoder gets.
    pub fn set_schema(&self, schema: Option<&str>) {
        let mut last = self.schema.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_deref() != schema {
            *last = schema.map(str::to_owned);
        }
    }

    /// Notes the epoch of an object that is read now.
    pub fn enter_epoch(&self, epoch: u32) {
        let mut last = self.epoch.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != Some(epoch) {
            *last = Some(epoch);
            self.own.epoch_began();
        }
    }

    /// Opens records. `None` if the cache does not have them.
    pub fn get(&self, id: RecordsId) -> Option<StoredRecords> {
        let file = match self.own.cache.folder.open_block(id.block()) {
            Ok(file) => file?,
            Err(error) if super::store::is_of_process(&error) => return None,
            Err(_) => {
                self.own.remove_damaged(id.block());
                return None;
            }
        };
        let calls = if is_regular(&file) { read_header(&file, id) } else { Ok(None) };
        let Ok(Some((calls, bytes))) = calls else {
            self.own.remove_damaged(id.block());
            return None;
        };
        // If the time can't be set, the records may be removed earlier.
        let _ = file.set_times(FileTimes::new().set_modified(SystemTime::now()));
        Some(StoredRecords { cache: self.own.clone(), id, file, calls, bytes })
    }

    /// Whether the cache seems to have these records.
    pub fn has(&self, id: RecordsId) -> bool {
        self.own.cache.folder.counted(id.block()).is_ok_and(|bytes| bytes > 0)
    }

    /// Begins to store records. `None` if they can't be stored, or somebody else stores them.
    pub fn store(&self, id: RecordsId) -> Option<NewRecords> {
        let own = &self.own;
        if !own.may_store(id.block()) {
            CacheCounters::add(&own.counters.not_stored, 1);
            return None;
        }
        let claim = own.cache.claims.claim(id.block())?;
        match own.cache.folder.new_file(id.block()) {
            Ok(file) => {
                let (cache, at) = (own.clone(), HEADER as u64);
                Some(NewRecords { cache, id, file, at, calls: 0, _claim: claim })
            }
            Err(error) => {
                own.stored(Err(error));
                None
            }
        }
    }
}

/// The number of calls of a file, and of the bytes after its header. `None` if it is not that of
/// these records, or not whole.
fn read_header(mut file: &File, id: RecordsId) -> io::Result<Option<(u64, u64)>> {
    let mut header = [0; HEADER];
    match file.read_exact(&mut header) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let (calls, bytes) = (number(&header, 40), number(&header, 48));
    let is_whole = header == encode_header(id, calls, bytes) && file.metadata()?.len() == bytes;
    Ok(is_whole.then_some((calls, bytes.saturating_sub(HEADER as u64))))
}

fn encode_header(id: RecordsId, calls: u64, bytes: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(MAGIC);
    header[8..40].copy_from_slice(&id.0);
    header[40..48].copy_from_slice(&calls.to_le_bytes());
    header[48..56].copy_from_slice(&bytes.to_le_bytes());
    let sum = crc_fast::checksum(CrcAlgorithm::Crc64Nvme, &header[..56]);
    header[56..].copy_from_slice(&sum.to_le_bytes());
    header
}

fn number(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn checksum(payload: &[u8], index: &[u8]) -> u64 {
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    digest.update(payload);
    digest.update(index);
    digest.finalize()
}

/// The bytes of one call.
#[derive(Debug, Default)]
pub struct StoredCall {
    /// The bytes of the records.
    pub payload: Vec<u8>,
    /// Where they lie, and all else that the call did.
    pub index: Vec<u8>,
}

/// Records that are read.
pub struct StoredRecords {
    cache: Arc<ChannelCache>,
    id: RecordsId,
    file: File,
    /// Calls that were not read.
    calls: u64,
    /// Bytes that were not read.
    bytes: u64,
}

impl StoredRecords {
    /// Reads the next call, and returns whether there was one. `None` if it is damaged, or can't be
    /// read: [`remove`](Self::remove) it then.
    pub fn next(&mut self, call: &mut StoredCall) -> Option<bool> {
        if self.calls == 0 {
            return Some(false);
        }
        self.calls -= 1;
        let mut numbers = [0; CALL];
        self.file.read_exact(&mut numbers).ok()?;
        self.bytes = self.bytes.checked_sub(CALL as u64)?;
        self.read(number(&numbers, 0), &mut call.payload)?;
        self.read(number(&numbers, 8), &mut call.index)?;
        (checksum(&call.payload, &call.index) == number(&numbers, 16)).then_some(true)
    }

    fn read(&mut self, bytes: u64, into: &mut Vec<u8>) -> Option<()> {
        self.bytes = self.bytes.checked_sub(bytes)?;
        into.clear();
        into.reserve(usize::try_from(bytes).ok()?);
        // This does not clear the memory first.
        let read = (&mut self.file).take(bytes).read_to_end(into).ok()?;
        (read as u64 == bytes).then_some(())
    }

    /// Removes them from the cache: they are damaged.
    pub fn remove(self) {
        self.cache.remove_damaged(self.id.block());
    }
}

/// Records that are being stored. They are in the cache once [`finish`](Self::finish) was called.
pub struct NewRecords {
    cache: Arc<ChannelCache>,
    id: RecordsId,
    file: NewFile,
    /// Where the call begins.
    at: u64,
    calls: u64,
    _claim: Claim,
}

impl NewRecords {
    /// Adds a call. Returns whether more may follow: otherwise the disk refuses them, or the cache
    /// is too small.
    pub fn add(&mut self, call: &StoredCall) -> bool {
        let StoredCall { payload, index } = call;
        let length = (CALL + payload.len() + index.len()) as u64;
        if self.at.saturating_add(length) > self.cache.cache.size {
            CacheCounters::add(&self.cache.counters.not_stored, 1);
            return false;
        }
        if let Err(error) = self.try_add(payload, index) {
            self.cache.stored(Err(error));
            return false;
        }
        self.at += length;
        self.calls += 1;
        true
    }

    fn try_add(&self, payload: &[u8], index: &[u8]) -> io::Result<()> {
        let mut numbers = [0; CALL];
        numbers[..8].copy_from_slice(&(payload.len() as u64).to_le_bytes());
        numbers[8..16].copy_from_slice(&(index.len() as u64).to_le_bytes());
        numbers[16..].copy_from_slice(&checksum(payload, index).to_le_bytes());
        let mut at = self.at;
        for part in [&numbers[..], payload, index] {
            self.file.file().write_all_at(part, at)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Puts them into the cache, if there is room.
    pub fn finish(self) {
        let header = encode_header(self.id, self.calls, self.at);
        let file = self.file.file();
        let now = FileTimes::new().set_modified(SystemTime::now());
        let published = file
            .write_all_at(&header, 0)
            .and_then(|()| file.set_times(now))
            .and_then(|()| self.cache.cache.publish(&self.file, self.id.block()));
        self.cache.stored(published);
    }
}

impl Drop for NewRecords {
    fn drop(&mut self) {
        // A file that was published has another name.
        self.cache.cache.folder.discard(&self.file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL_BYTES: usize = 100_000;

    fn open(path: &std::path::Path, size: u64) -> Arc<RecordCache> {
        let settings = CacheSettings { path: path.join("cache"), size };
        let opened = RecordCaches::default().open(&settings, "test", String::new());
        opened.expect("only this user can write to it").expect("the disk takes it")
    }

    fn id(number: usize) -> RecordsId {
        RecordsId::of([&number.to_le_bytes()[..]])
    }

    fn call(seed: usize) -> StoredCall {
        let mut random = fastrand::Rng::with_seed(seed as u64);
        let payload = (0..CALL_BYTES).map(|_| random.u8(..)).collect();
        StoredCall { payload, index: vec![seed as u8; seed % 7] }
    }

    /// Takes the records of this number from the cache, or stores them. Whether it had them.
    fn use_records(cache: &RecordCache, number: usize) -> bool {
        if let Some(mut stored) = cache.get(id(number)) {
            let mut found = StoredCall::default();
            assert_eq!(stored.next(&mut found), Some(true));
            assert_eq!(found.payload, call(number).payload);
            assert_eq!(found.index, call(number).index);
            assert_eq!(stored.next(&mut found), Some(false));
            return true;
        }
        if let Some(mut new) = cache.store(id(number))
            && new.add(&call(number))
        {
            new.finish();
        }
        false
    }

    /// A cache of half of the data has half of it in each later epoch, in any order. One that
    /// removes what was used longest ago has nothing in the same order.
    #[test]
    fn half_of_the_data_in_the_cache_is_half_of_the_hits() {
        const OBJECTS: usize = 32;
        let folder = tempfile::tempdir().unwrap();
        let cache = open(folder.path(), (OBJECTS / 2 * (CALL_BYTES + 4096)) as u64);
        for epoch in 0..5 {
            cache.enter_epoch(epoch);
            let mut order: Vec<_> = (0..OBJECTS).collect();
            if epoch > 2 {
                fastrand::Rng::with_seed(epoch.into()).shuffle(&mut order);
            }
            let hits = order.iter().filter(|number| use_records(&cache, **number)).count();
            let expected = if epoch == 0 { 0 } else { OBJECTS / 2 };
            assert!(hits.abs_diff(expected) <= 1, "{hits} hits in epoch {epoch}");
        }
    }

    /// What was not finished, is damaged anywhere, or is of other records, is not believed.
    #[test]
    fn what_is_damaged_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let cache = open(folder.path(), 1 << 30);
        let mut unfinished = cache.store(id(1)).expect("nobody stores it");
        assert!(cache.store(id(1)).is_none(), "two store it");
        assert!(unfinished.add(&call(1)));
        drop(unfinished);
        assert!(cache.get(id(1)).is_none());
        for seed in 0..40 {
            assert!(!use_records(&cache, seed), "{seed}");
            let path = folder.path().join("cache/v1").join(path_of(seed));
            let file = File::options().read(true).write(true).open(&path).unwrap();
            let size = file.metadata().unwrap().len();
            let at = fastrand::Rng::with_seed(seed as u64).u64(0..size);
            match seed % 3 {
                0 => file.set_len(at).unwrap(),
                1 => {
                    let mut byte = [0];
                    file.read_exact_at(&mut byte, at).unwrap();
                    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
                }
                _ => {
                    use_records(&cache, 1_000);
                    let other = folder.path().join("cache/v1").join(path_of(1_000));
                    std::fs::copy(other, &path).unwrap();
                }
            }
            if let Some(mut stored) = cache.get(id(seed)) {
                assert_eq!(stored.next(&mut StoredCall::default()), None, "{seed}");
                stored.remove();
            }
            assert!(!cache.has(id(seed)), "{seed}");
        }
        assert_eq!(cache.counters().now().damaged, 40);
    }

    fn path_of(number: usize) -> String {
        let id = id(number).block();
        format!("{:02x}/{}", id.folder(), id.file_name())
    }

    /// Records that are larger than the cache are not kept, and what is there stays.
    #[test]
    fn records_that_are_too_large_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let cache = open(folder.path(), 3 * CALL_BYTES as u64);
        assert!(!use_records(&cache, 1));
        let mut large = cache.store(id(2)).expect("there is room yet");
        assert!(large.add(&call(1)) && large.add(&call(2)));
        assert!(!large.add(&call(3)));
        drop(large);
        assert!(use_records(&cache, 1) && !cache.has(id(2)));
        assert_eq!(cache.counters().now().not_stored, 1);
    }
}
