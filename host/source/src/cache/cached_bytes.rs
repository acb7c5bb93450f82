//! Bytes of a block that are read when their reader needs them, straight into its memory.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use super::block_file::{Header, PAGE, bytes_of, read_pages};
use super::identity::CachedObject;
use super::store::{ChannelCache, block_length, in_block};

/// Pages that are read at once. Their checksums are computed while they are in the processor's
/// cache.
const PAGES_AT_ONCE: usize = 4;

/// Bytes of an object, all of one block, that the cache had when they were looked for.
pub(crate) struct CachedBytes {
    cache: Arc<ChannelCache>,
    object: CachedObject,
    /// What was not read yet.
    rest: Range<u64>,
    /// The block's file. It is opened again for the first read if many are open.
    file: Option<OpenBlock>,
    /// Whether the next page of the file is damaged.
    is_damaged: bool,
    /// A page of which less than all is read at once.
    held: Option<HeldPage>,
}

/// The file of a block.
pub(super) struct OpenBlock {
    pub(super) file: File,
    pub(super) header: Header,
    /// One of those that may stay open.
    pub(super) _permit: Option<OwnedSemaphorePermit>,
}

struct HeldPage {
    /// Where it begins in the object.
    start: u64,
    bytes: Vec<u8>,
}

/// The cache does not have the bytes any more, or they are damaged.
#[derive(Debug)]
pub(crate) struct NotInCache;

impl CachedBytes {
    pub(super) fn new(
        cache: Arc<ChannelCache>,
        object: CachedObject,
        bytes: Range<u64>,
        file: Option<OpenBlock>,
    ) -> Self {
        Self { cache, object, rest: bytes, file, is_damaged: false, held: None }
    }

    /// Place in the object of the byte after the last one.
    pub(crate) fn end(&self) -> u64 {
        self.rest.end
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads into `buf`, whole pages where it has room for them: so it may not be filled. Returns
    /// the number of bytes, which is 0 only if `buf` or the rest is empty. `taken` gets each piece
    /// that is read, and the CRC-64/NVME of each page of [`PAGE`] bytes if that is what it has.
    ///
    /// # Errors
    /// The next byte can't be had. Damaged pages of the block are removed.
    pub(crate) fn read(
        &mut self,
        buf: &mut [u8],
        taken: impl FnMut(&[u8], &[u64]),
    ) -> Result<usize, NotInCache> {
        let read = self.read_in_order(buf, taken);
        match &read {
            Ok(count) => self.cache.counters().add_hit(*count as u64),
            Err(NotInCache) if self.is_damaged => {
                self.cache.remove_damaged_pages(&self.object, in_block(&self.rest).0);
            }
            Err(NotInCache) => {}
        }
        read
    }

    fn read_in_order(
        &mut self,
        buf: &mut [u8],
        mut taken: impl FnMut(&[u8], &[u64]),
    ) -> Result<usize, NotInCache> {
        let mut count = 0;
        while count < buf.len() && !self.is_empty() {
            let buf = &mut buf[count..];
            let mut more = self.copy_held(buf);
            let mut pages = 0..0;
            if more == 0 {
                match self.read_whole_pages(buf) {
                    Ok(read) => (more, pages) = read,
                    // What was read before it is right.
                    Err(NotInCache) if count > 0 => break,
                    Err(NotInCache) => return Err(NotInCache),
                }
            }
            if more == 0 {
                if count > 0 {
                    break;
                }
                self.hold_page()?;
                continue;
            }
            let sums = match &self.file {
                Some(block) if more == pages.len() * PAGE as usize => block.header.sums(pages),
                _ => &[],
            };
            taken(&buf[..more], sums);
            self.rest.start += more as u64;
            count += more;
        }
        Ok(count)
    }

    /// Copies from the held page, if it has the next byte.
    fn copy_held(&self, buf: &mut [u8]) -> usize {
        let Some(held) = &self.held else { return 0 };
        let at = (self.rest.start - held.start) as usize;
        let left = held.bytes.len().saturating_sub(at);
        let count = left.min((self.rest.end - self.rest.start) as usize).min(buf.len());
        if count > 0 {
            buf[..count].copy_from_slice(&held.bytes[at..][..count]);
        }
        count
    }

    /// Reads the pages that begin with the next byte and end within `buf` and the rest. Returns
    /// the number of bytes and the pages: none, if there are none.
    fn read_whole_pages(&mut self, buf: &mut [u8]) -> Result<(usize, Range<usize>), NotInCache> {
        let (block, inside) = in_block(&self.rest);
        let length = block_length(&self.object, block);
        let end = inside.end.min(inside.start + buf.len() as u64);
        let last = if end == length { end.div_ceil(PAGE) } else { end / PAGE } as usize;
        let first = (inside.start / PAGE) as usize;
        if inside.start % PAGE != 0 || last <= first {
            return Ok((0, 0..0));
        }
        let pages = first..last.min(first + PAGES_AT_ONCE);
        let bytes = bytes_of(&pages, length);
        let count = (bytes.end - bytes.start) as usize;
        self.read_pages(pages.clone(), &mut buf[..count])?;
        Ok((count, pages))
    }

    /// Reads the page of the next byte, to copy from it.
    fn hold_page(&mut self) -> Result<(), NotInCache> {
        let (block, inside) = in_block(&self.rest);
        let first = (inside.start / PAGE) as usize;
        let pages = first..first + 1;
        let in_block = bytes_of(&pages, block_length(&self.object, block));
        let mut bytes = self.held.take().map(|held| held.bytes).unwrap_or_default();
        bytes.resize((in_block.end - in_block.start) as usize, 0);
        self.read_pages(pages, &mut bytes)?;
        self.held = Some(HeldPage { start: self.rest.start - inside.start % PAGE, bytes });
        Ok(())
    }

    fn read_pages(&mut self, pages: Range<usize>, buf: &mut [u8]) -> Result<(), NotInCache> {
        if self.file.is_none() {
            let opened = self.cache.open(self.object.block(in_block(&self.rest).0));
            self.file = opened.map(|(file, header)| OpenBlock { file, header, _permit: None });
        }
        let OpenBlock { file, header, .. } = self.file.as_ref().ok_or(NotInCache)?;
        if header.pages_from(pages.start).end < pages.end {
            return Err(NotInCache);
        }
        let Ok(true) = read_pages(file, header, pages, buf) else {
            self.is_damaged = true;
            return Err(NotInCache);
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{FileExt, PermissionsExt};

    use bytes::Bytes;
    use crc_fast::CrcAlgorithm;
    use proptest::prelude::*;

    use super::*;
    use crate::cache::store::MAX_OPEN_BLOCKS;
    use crate::cache::{BLOCK, Cache, CacheSettings, Facts, ObjectState};

    /// An object of these bytes, all of which a cache in this folder has.
    fn stored(folder: &std::path::Path, bytes: &[u8]) -> (Arc<ChannelCache>, CachedObject) {
        std::fs::set_permissions(folder, Permissions::from_mode(0o700)).unwrap();
        let settings = CacheSettings { path: folder.to_owned(), size: 1 << 30 };
        let cache = Cache::open(&settings).unwrap().of_channel(None, Arc::default());
        let (server, bucket, key, etag) = ("s", "b", "k", "e");
        let size = bytes.len() as u64;
        let state = ObjectState { server, bucket, key, version: None, etag, size, verify: true };
        let object = CachedObject::new(&state);
        for (number, block) in bytes.chunks(BLOCK as usize).enumerate() {
            let frames = [Bytes::copy_from_slice(block)];
            cache.store(&object, &Facts::default(), number as u64 * BLOCK, &frames);
        }
        (cache, object)
    }

    /// A request runs far ahead of its reader: so most of its blocks are opened again.
    #[test]
    fn few_blocks_stay_open() {
        let folder = tempfile::tempdir().unwrap();
        let (cache, object) = stored(folder.path(), &[7; 100]);
        let find = || cache.find(object, 0..100).unwrap().0;
        let is_open = |bytes: &CachedBytes| bytes.file.is_some();
        let mut found: Vec<_> = (0..MAX_OPEN_BLOCKS + 2).map(|_| find()).collect();
        assert!(found[..MAX_OPEN_BLOCKS].iter().all(is_open));
        assert!(!found[MAX_OPEN_BLOCKS..].iter().any(is_open));
        drop(found.remove(0));
        assert!(is_open(&find()));
        for bytes in &mut found {
            let mut read = [0; 100];
            assert_eq!((bytes.read(&mut read, |_, _| {}).unwrap(), read), (100, [7; 100]));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

        /// Whatever the range and the sizes of the reads, the bytes are those that were stored. A
        /// byte that is changed ends them before its page, and removes this page alone.
        #[test]
        fn the_bytes_are_right_or_missing(
            size in 1..=5 * BLOCK as usize / 2,
            ends in any::<[prop::sample::Index; 2]>(),
            reads in prop::collection::vec(prop_oneof![
                1_usize..100, 1_usize..300_000, Just(PAGE as usize), Just(BLOCK as usize),
            ], 1..8),
            damaged in any::<Option<prop::sample::Index>>(),
            opens_again in any::<bool>(),
        ) {
            let mut random = fastrand::Rng::with_seed(size as u64);
            let expected: Vec<u8> = (0..size).map(|_| random.u8(..)).collect();
            let folder = tempfile::tempdir().unwrap();
            let (cache, object) = stored(folder.path(), &expected);
            let start = ends[0].index(size);
            let block = start as u64 / BLOCK;
            let block_end = size.min((block as usize + 1) * BLOCK as usize);
            let end = start + 1 + ends[1].index(block_end - start);
            let (mut bytes, facts) = cache.find(object, start as u64..end as u64).unwrap();
            prop_assert_eq!((bytes.end(), facts), (end as u64, Facts::default()));
            let damaged_page = damaged.map(|damaged| {
                let at = damaged.index(block_end - block as usize * BLOCK as usize) as u64;
                let id = object.block(block);
                let name = format!("v1/{:02x}/{}", id.folder(), id.file_name());
                let path = folder.path().join(name);
                let file = File::options().read(true).write(true).open(path).unwrap();
                let (mut byte, at_in_file) = ([0], at + 512);
                file.read_exact_at(&mut byte, at_in_file).unwrap();
                file.write_all_at(&[!byte[0]], at_in_file).unwrap();
                (block * BLOCK + at) / PAGE
            });

            if opens_again {
                bytes.file = None;
            }
            let (mut read, mut taken) = (Vec::new(), Vec::new());
            let mut take = |bytes: &[u8], sums: &[u64]| {
                taken.extend_from_slice(bytes);
                let crc = |page| crc_fast::checksum(CrcAlgorithm::Crc64Nvme, page);
                let pages = bytes.chunks_exact(PAGE as usize).map(crc);
                assert!(sums.is_empty() || pages.eq(sums.iter().copied()));
            };
            let mut failed = false;
            for size in reads.iter().cycle() {
                let mut buf = vec![0; *size];
                match bytes.read(&mut buf, &mut take) {
                    Ok(0) => break,
                    Ok(count) => read.extend_from_slice(&buf[..count]),
                    Err(NotInCache) => {
                        failed = true;
                        break;
                    }
                }
            }
            let pages = start as u64 / PAGE..(end as u64).div_ceil(PAGE);
            let page = damaged_page.filter(|page| pages.contains(page));
            prop_assert_eq!(failed, page.is_some());
            let until = page.map_or(end, |page| start.max((page * PAGE) as usize));
            prop_assert!(start + read.len() <= until && (failed || start + read.len() == end));
            prop_assert!(expected[start..].starts_with(&read));
            prop_assert_eq!(&taken, &read);
            let counts = cache.counters().now();
            prop_assert_eq!((counts.hit_bytes, counts.damaged), (read.len() as u64, failed.into()));
            for page in block * BLOCK / PAGE..(block_end as u64).div_ceil(PAGE) {
                let byte = page * PAGE..page * PAGE + 1;
                let is_damaged = failed && damaged_page == Some(page);
                prop_assert_eq!(cache.find(object, byte).is_none(), is_damaged);
            }
        }
    }
}
