//! The format of a block's file: a header of [`HEADER`] bytes, then the pages, each at its place.
//! Numbers are little-endian.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | `PMCACHE1` |
//! | 32 | identity of the block |
//! | 2 | bits: which pages the file has |
//! | 1 | length of the encoding |
//! | 1 | length of the checksum |
//! | 4 | zero |
//! | 128 | CRC-64/NVME of each page |
//! | 128 | `Content-Encoding` of the object |
//! | 64 | the server's checksum of the whole object |
//! | … | zero |
//! | 8 | CRC-64/NVME of the header before it |

use std::fs::File;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use bytes::Bytes;
use crc_fast::{CrcAlgorithm, Digest};
use nix::errno::Errno;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sys::uio::pwritev;

use super::identity::BlockId;

/// Bytes of a block; the last block of an object may have fewer.
pub(crate) const BLOCK: u64 = 1 << 20;
/// Bytes of a page; the last page of an object may have fewer.
pub(crate) const PAGE: u64 = 64 << 10;
/// Pages of a block.
const PAGES: usize = (BLOCK / PAGE) as usize;
/// Pieces that are written at once: not more than Linux takes.
const FRAMES_AT_ONCE: usize = 1024;
/// Bytes before the first page.
const HEADER: usize = 512;
const MAGIC: &[u8; 8] = b"PMCACHE1";
const SUMS: usize = 48;
const ENCODING: usize = SUMS + 8 * PAGES;
const MAX_ENCODING: usize = 128;
const CHECKSUM: usize = ENCODING + MAX_ENCODING;
const MAX_CHECKSUM: usize = 64;
/// The checksum of the header.
const HEADER_SUM: usize = HEADER - 8;

/// What the response to a GET says of the whole object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Its `Content-Encoding`; empty if it has none.
    pub(crate) encoding: String,
    /// The server's checksum of it; empty if none is known.
    pub(crate) checksum: Vec<u8>,
}

impl Facts {
    /// Whether a header has room for them.
    pub(crate) fn fit(&self) -> bool {
        self.encoding.len() <= MAX_ENCODING && self.checksum.len() <= MAX_CHECKSUM
    }
}

/// The header of a block's file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) facts: Facts,
    pages: u16,
    sums: [u64; PAGES],
}

impl Header {
    /// The CRC-64/NVME of each of these pages.
    pub(super) fn sums(&self, pages: Range<usize>) -> &[u64] {
        &self.sums[pages]
    }

    /// The pages from this one on that the file has without a gap.
    pub(super) fn pages_from(&self, first: usize) -> Range<usize> {
        let has = |page: &usize| self.pages & (1 << page) != 0;
        first..first + (first..PAGES).take_while(has).count()
    }

    fn encode(&self, id: BlockId) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(MAGIC);
        header[8..40].copy_from_slice(&id.0);
        header[40..42].copy_from_slice(&self.pages.to_le_bytes());
        let (encoding, checksum) = (self.facts.encoding.as_bytes(), &*self.facts.checksum);
        // `Facts::fit` has checked both lengths.
        (header[42], header[43]) = (encoding.len() as u8, checksum.len() as u8);
        for (place, sum) in header[SUMS..ENCODING].chunks_exact_mut(8).zip(&self.sums) {
            place.copy_from_slice(&sum.to_le_bytes());
        }
        header[ENCODING..][..encoding.len()].copy_from_slice(encoding);
        header[CHECKSUM..][..checksum.len()].copy_from_slice(checksum);
        let sum = crc(&header[..HEADER_SUM]);
        header[HEADER_SUM..].copy_from_slice(&sum.to_le_bytes());
        header
    }

    /// `None` if these bytes are not the header of this block.
    fn decode(header: &[u8; HEADER], id: BlockId) -> Option<Self> {
        let number = |at: usize| header[at..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let is_own = header[..8] == *MAGIC && header[8..40] == id.0;
        if !is_own || number(HEADER_SUM)? != crc(&header[..HEADER_SUM]) {
            return None;
        }
        let (encoding, checksum) = (usize::from(header[42]), usize::from(header[43]));
        if encoding > MAX_ENCODING || checksum > MAX_CHECKSUM {
            return None;
        }
        let encoding = header[ENCODING..][..encoding].to_vec();
        let checksum = header[CHECKSUM..][..checksum].to_vec();
        let facts = Facts { encoding: String::from_utf8(encoding).ok()?, checksum };
        let mut sums = [0; PAGES];
        for (page, sum) in sums.iter_mut().enumerate() {
            *sum = number(SUMS + 8 * page)?;
        }
        Some(Self { facts, pages: u16::from_le_bytes([header[40], header[41]]), sums })
    }
}

fn crc(bytes: &[u8]) -> u64 {
    crc_fast::checksum(CrcAlgorithm::Crc64Nvme, bytes)
}

/// Reads the header of a block's file. `None` if it is not that of this block, or damaged.
pub(super) fn read_header(file: &File, id: BlockId) -> io::Result<Option<Header>> {
    let mut header = [0; HEADER];
    match file.read_exact_at(&mut header, 0) {
        Ok(()) => Ok(Header::decode(&header, id)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads these pages, all of which the file has, into memory of their size. Returns false if they
/// are damaged.
pub(super) fn read_pages(
    file: &File,
    header: &Header,
    pages: Range<usize>,
    buf: &mut [u8],
) -> io::Result<bool> {
    match file.read_exact_at(buf, place_of(pages.start)) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
        Err(error) => return Err(error),
    }
    let is_right = |(page, sum): (&[u8], &u64)| crc(page) == *sum;
    Ok(buf.chunks(PAGE as usize).zip(&header.sums[pages]).all(is_right))
}

/// Asks the system to read these pages of a block of `length` bytes from the disk, and does not
/// wait for it.
pub(super) fn read_ahead(file: &File, pages: Range<usize>, length: u64) {
    let bytes = bytes_of(&pages, length);
    let (start, count) = (place_of(pages.start) as i64, (bytes.end - bytes.start) as i64);
    // Without it, they are read when they are needed.
    let _ = posix_fadvise(file, start, count, PosixFadviseAdvice::POSIX_FADV_WILLNEED);
}

/// Where a page begins in the file.
fn place_of(page: usize) -> u64 {
    HEADER as u64 + page as u64 * PAGE
}

/// The bytes of these pages in a block of `length` bytes.
pub(super) fn bytes_of(pages: &Range<usize>, length: u64) -> Range<u64> {
    pages.start as u64 * PAGE..(pages.end as u64 * PAGE).min(length)
}

/// Pages of a block without a gap, as they are to be stored.
pub(super) struct NewPages<'a> {
    /// The first of them.
    pub(super) first: usize,
    /// Their bytes in pieces of any size.
    pub(super) frames: &'a [Bytes],
}

/// Writes the file of a block of `length` bytes. It also gets the pages of an older file that are
/// not among the new ones; a damaged one is left out.
pub(super) fn write(
    file: &File,
    id: BlockId,
    facts: &Facts,
    length: u64,
    new: &NewPages,
    older: Option<(&File, &Header)>,
) -> io::Result<()> {
    let mut header = Header { facts: facts.clone(), ..Header::default() };
    let sums = sums(new.frames);
    for (page, sum) in (new.first..PAGES).zip(sums) {
        header.pages |= 1 << page;
        header.sums[page] = sum;
    }
    write_frames(file, new.frames, place_of(new.first))?;
    if let Some((older, of_older)) = older {
        let (missing, mut page_bytes) = (of_older.pages & !header.pages, vec![0; PAGE as usize]);
        for page in (0..PAGES).filter(|page| missing & (1 << page) != 0) {
            let pages = page..page + 1;
            let bytes = bytes_of(&pages, length);
            let buf = &mut page_bytes[..(bytes.end - bytes.start) as usize];
            // A damaged page is fetched again when it is needed.
            if let Ok(true) = read_pages(older, of_older, pages, buf) {
                file.write_all_at(buf, place_of(page))?;
                header.pages |= 1 << page;
                header.sums[page] = of_older.sums[page];
            }
        }
    }
    file.write_all_at(&header.encode(id), 0)
}

/// Writes these bytes from a place of the file on. Many pieces are written at once: so the system
/// keeps them in few large pieces, which are read faster.
fn write_frames(file: &File, frames: &[Bytes], mut at: u64) -> io::Result<()> {
    for frames in frames.chunks(FRAMES_AT_ONCE) {
        let mut slices: Vec<_> = frames.iter().map(|frame| IoSlice::new(frame)).collect();
        let mut rest = &mut slices[..];
        // Empty frames are left out.
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match pwritev(file, rest, at as i64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    at += count as u64;
                    IoSlice::advance_slices(&mut rest, count);
                }
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
    Ok(())
}

/// The checksum of each page of bytes that come in pieces.
fn sums(frames: &[Bytes]) -> Vec<u64> {
    let mut sums = Vec::with_capacity(PAGES);
    let (mut digest, mut left) = (Digest::new(CrcAlgorithm::Crc64Nvme), PAGE as usize);
    for frame in frames {
        let mut rest = &frame[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(left));
            digest.update(now);
            (rest, left) = (later, left - now.len());
            if left == 0 {
                sums.push(digest.finalize_reset());
                left = PAGE as usize;
            }
        }
    }
    if left < PAGE as usize {
        sums.push(digest.finalize());
    }
    sums
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cache::{CachedObject, ObjectState};

    fn id() -> BlockId {
        let state = ObjectState {
            server: "s",
            bucket: "b",
            key: "k",
            version: None,
            etag: "e",
            size: BLOCK,
            verify: true,
        };
        CachedObject::new(&state).block(0)
    }

    /// The bytes of pages in pieces of this many bytes.
    fn frames(bytes: &[u8], pages: &Range<usize>, piece: usize) -> Vec<Bytes> {
        let of_pages = bytes_of(pages, bytes.len() as u64);
        let bytes = &bytes[of_pages.start as usize..of_pages.end as usize];
        bytes.chunks(piece).map(Bytes::copy_from_slice).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// Pages that are added one after the other are all there; a byte that is changed anywhere,
        /// or a file that is cut anywhere, is noticed by who reads that place.
        #[test]
        fn pages_are_added_and_damage_is_noticed(
            length in 1..=BLOCK as usize,
            added in prop::collection::vec((0..PAGES, 0..PAGES, 1_usize..100_000), 1..4),
            place in any::<prop::sample::Index>(),
            is_cut in any::<bool>(),
        ) {
            let mut random = fastrand::Rng::with_seed(length as u64);
            let bytes: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
            let count = length.div_ceil(PAGE as usize);
            let facts = Facts { encoding: "gzip".to_owned(), checksum: vec![1, 2, 3] };
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("block");
            let (mut has, mut older) = ([false; PAGES], None);
            for (number, (one, other, piece)) in added.into_iter().enumerate() {
                let (one, other) = (one % count, other % count);
                let pages = one.min(other)..one.max(other) + 1;
                has[pages.clone()].fill(true);
                let frames = frames(&bytes, &pages, piece);
                let new = NewPages { first: pages.start, frames: &frames };
                let name = path.with_extension(number.to_string());
                let file = File::options().read(true).write(true).create_new(true).open(name);
                let file = file.unwrap();
                let before = older.as_ref().map(|(file, header)| (file, header));
                write(&file, id(), &facts, length as u64, &new, before).unwrap();
                let header = read_header(&file, id()).unwrap().expect("it is whole");
                older = Some((file, header));
            }
            let (file, header) = older.expect("there is one or more");
            prop_assert_eq!(&header.facts, &facts);
            for (page, has) in has.iter().enumerate() {
                let found = header.pages_from(page);
                prop_assert_eq!(!found.is_empty(), *has);
                if *has {
                    let expected = bytes_of(&found, length as u64);
                    let expected = &bytes[expected.start as usize..expected.end as usize];
                    let mut read = vec![0; expected.len()];
                    prop_assert!(read_pages(&file, &header, found, &mut read).unwrap());
                    prop_assert_eq!(&*read, expected);
                }
            }
            let size = file.metadata().unwrap().len();
            let at = place.index(size as usize) as u64;
            if is_cut {
                file.set_len(at).unwrap();
            } else {
                let mut byte = [0];
                file.read_exact_at(&mut byte, at).unwrap();
                file.write_all_at(&[byte[0] ^ 4], at).unwrap();
            }
            let again = read_header(&file, id()).unwrap();
            prop_assert_eq!(again.is_none(), at < HEADER as u64);
            if let Some(header) = again {
                let page = ((at - HEADER as u64) / PAGE) as usize;
                let is_right = |page: usize| {
                    let pages = page..page + 1;
                    let bytes = bytes_of(&pages, length as u64);
                    let mut read = vec![0; (bytes.end - bytes.start) as usize];
                    read_pages(&file, &header, pages, &mut read).unwrap()
                };
                for other in (0..PAGES).filter(|other| has[*other]) {
                    let is_hit = other == page || (is_cut && other > page);
                    prop_assert_eq!(is_right(other), !is_hit, "page {}", other);
                }
            }
        }
    }
}
