//! The cache on a local disk: what is in it is not fetched again, and nothing that is wrong in it
//! is believed. Requests are counted by a proxy before the server.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crc_fast::{CrcAlgorithm, checksum};
use pipemill_s3_test::proxy::{Plan, Proxy};
use pipemill_s3_test::servers::{Moto, S3Server};
use pipemill_source::cache::{CacheCounts, CacheSettings};
use pipemill_source::s3::{Objects, Selection, Settings};
use pipemill_source::{
    Balance, Block, KnownList, KnownObject, KnownObjects, ListPart, Order, SeekPoint, Source,
    SourceError, SourceEvent, Start, Stop,
};
use pipemill_testing::bucket::{BUCKET, Bucket};
use pipemill_testing::inputs::gzip;
use pipemill_types::{ListIdentity, split_identity};
use proptest::prelude::*;

use crate::other_servers::{crc32, put};
use crate::reading::{
    ReceivedObject, bytes, objects, read_object, read_source, s3, settings, source,
};

const MIB: usize = 1 << 20;

/// A bucket, a proxy before it, and a folder for a cache.
struct Cached {
    bucket: Bucket,
    proxy: Proxy,
    folder: PathBuf,
}

impl Cached {
    fn with<K: AsRef<str>, B: AsRef<[u8]>>(objects: impl IntoIterator<Item = (K, B)>) -> Self {
        let bucket = Bucket::with(objects);
        let proxy = bucket.proxy(Plan::default());
        let folder = bucket.place.make_folder("cache");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        Self { bucket, proxy, folder }
    }

    fn settings(&self, prefix: &str) -> Settings {
        self.sized(prefix, 1 << 30)
    }

    fn sized(&self, prefix: &str, size: u64) -> Settings {
        let cache = Some(CacheSettings { path: self.folder.clone(), size });
        let part_size = 2 << 20;
        Settings { cache, part_size, ..settings(&self.proxy.endpoint(), prefix) }
    }

    /// Number of requests for bytes of objects so far.
    fn gets(&self) -> usize {
        let log = self.proxy.log();
        let requests = log.iter().map(|entry| &entry.request);
        let is_list = |target: &str| target.contains("list-type");
        requests.filter(|one| one.method == "GET" && !is_list(&one.target)).count()
    }

    /// The files of blocks.
    fn blocks(&self) -> Vec<PathBuf> {
        let inside = |folder: &Path| -> Vec<PathBuf> {
            let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
            entries.map(|entry| entry.unwrap().path()).collect()
        };
        let folders = inside(&self.folder.join("v1"));
        folders.iter().filter(|one| one.is_dir()).flat_map(|one| inside(one)).collect()
    }

    fn bytes_on_disk(&self) -> u64 {
        self.blocks().iter().map(|file| file.metadata().unwrap().len()).sum()
    }
}

/// Reads everything, and returns what the cache has done.
fn read(settings: &Settings) -> (Vec<ReceivedObject>, Result<u32, SourceError>, CacheCounts) {
    let mut source = source(settings);
    let (received, end) = read_source(&mut source);
    let counters = source.cache().expect("it has a cache");
    drop(source);
    (received, end, counters.now())
}

fn all(received: &[ReceivedObject]) -> Vec<(&str, &[u8])> {
    received.iter().map(|one| (&*one.name, &*one.bytes)).collect()
}

#[test]
fn a_second_run_fetches_no_byte() {
    let sizes = [0, 1, 65_536, 100_000, MIB, MIB + 1, 5 * MIB + 77];
    let cached =
        Cached::with(sizes.iter().map(|size| (format!("{size:09}"), bytes(*size as u64, *size))));
    let settings = cached.settings("");
    let plain = Settings { cache: None, ..settings.clone() };
    let (expected, _) = crate::reading::read(&plain);
    let before = cached.gets();
    let (first, end, counts) = read(&settings);
    assert_eq!((end, all(&first)), (Ok(1), all(&expected)));
    let total: usize = sizes.iter().sum();
    assert_eq!((counts.hit_bytes, counts.missed_bytes), (0, total as u64));
    assert_eq!(counts.stored, 1 + 1 + 1 + 1 + 2 + 6);
    let between = cached.gets();
    assert!(between > before);
    let (second, end, counts) = read(&settings);
    assert_eq!((end, all(&second)), (Ok(1), all(&expected)));
    assert_eq!(cached.gets(), between, "bytes were fetched again");
    assert_eq!((counts.hit_bytes, counts.missed_bytes), (total as u64, 0));
}

#[test]
fn the_second_epoch_fetches_no_byte_though_it_is_requested_ahead() {
    // All of both epochs is requested before the first byte is read.
    let cached = Cached::with((0..5).map(|number| (format!("{number}"), bytes(number, 70_000))));
    let mut settings = cached.settings("");
    settings.reading.epochs = 3;
    let (received, end, counts) = read(&settings);
    assert_eq!((end, received.len()), (Ok(3), 15));
    assert_eq!(cached.gets(), 5);
    assert_eq!((counts.hit_bytes, counts.missed_bytes), (2 * 5 * 70_000, 5 * 70_000));
}

#[test]
fn two_runs_at_once_fetch_each_byte_once() {
    let cached = Cached::with((0..8).map(|number| (format!("{number}"), bytes(number, 3 * MIB))));
    let settings = cached.settings("");
    let runs: Vec<_> = (0..4)
        .map(|_| {
            let settings = settings.clone();
            std::thread::spawn(move || read(&settings))
        })
        .collect();
    let runs: Vec<_> = runs.into_iter().map(|run| run.join().unwrap()).collect();
    for (received, end, _) in &runs {
        assert_eq!((end, all(received)), (&Ok(1), all(&runs[0].0)));
    }
    let missed: u64 = runs.iter().map(|(_, _, counts)| counts.missed_bytes).sum();
    assert_eq!(missed, 8 * 3 * MIB as u64);
}

#[test]
fn an_object_that_was_written_again_never_gets_old_bytes() {
    let cached = Cached::with([("one", bytes(1, 2 * MIB))]);
    let settings = cached.settings("");
    read(&settings).1.unwrap();
    cached.bucket.server.put(BUCKET, "one", &bytes(2, 2 * MIB));
    let (received, end, counts) = read(&settings);
    assert_eq!((end, &received[0].bytes), (Ok(1), &bytes(2, 2 * MIB)));
    assert_eq!(counts.hit_bytes, 0);
}

/// Keys and ETags are the same on both servers only if the bytes are; a server may make its ETags
/// of something else, so they are not shared.
#[test]
fn two_servers_and_two_keys_share_nothing() {
    let cached = Cached::with([("a/one", bytes(1, 1000)), ("b/one", bytes(1, 1000))]);
    read(&cached.settings("a/")).1.unwrap();
    assert_eq!(read(&cached.settings("b/")).2.hit_bytes, 0);
    let other = cached.bucket.proxy(Plan::default());
    let mut elsewhere = cached.settings("a/");
    elsewhere.access.endpoint = Some(other.endpoint());
    assert_eq!(read(&elsewhere).2.hit_bytes, 0);
    // Another spelling of the same server.
    elsewhere.access.endpoint = Some(format!("{}/", cached.proxy.endpoint()));
    assert_eq!(read(&elsewhere).2.hit_bytes, 1000);
}

#[test]
fn damaged_blocks_are_noticed_removed_and_fetched_again() {
    let damages: [fn(&Path); 9] = [
        |file| flip(file, 0),
        |file| flip(file, 20),
        |file| flip(file, 45),
        |file| flip(file, 50),
        |file| flip(file, 508),
        |file| flip(file, 512 + 70_000),
        |file| truncate(file, 512 + 99_999),
        |file| truncate(file, 100),
        |file| truncate(file, 0),
    ];
    let expected = bytes(1, 200_000);
    let cached = Cached::with([("one", &expected)]);
    let settings = cached.settings("");
    read(&settings).1.unwrap();
    for (number, damage) in damages.iter().enumerate() {
        let blocks = cached.blocks();
        assert_eq!(blocks.len(), 1);
        damage(&blocks[0]);
        let (received, end, counts) = read(&settings);
        assert_eq!((end, &received[0].bytes), (Ok(1), &expected), "damage {number}");
        assert_eq!(counts.damaged, 1, "damage {number}");
        let (received, _, counts) = read(&settings);
        assert_eq!(&received[0].bytes, &expected);
        assert_eq!((counts.damaged, counts.missed_bytes), (0, 0), "damage {number}");
    }
}

/// The disk refuses to remove a damaged block, so each look at the cache finds it again.
#[test]
fn damage_that_cannot_be_removed_does_not_stop_the_run() {
    let expected = bytes(1, 3 * MIB);
    let cached = Cached::with([("one", &expected)]);
    let mut settings = cached.settings("");
    settings.reading.epochs = 2;
    read(&settings).1.unwrap();
    let mut source = source(&settings);
    assert!(read_object(&mut source).bytes == expected);
    let blocks = cached.blocks();
    for block in &blocks {
        flip(block, 512 + 70_000);
    }
    // To remove a block, its size is subtracted from a sum, which can't be made again.
    fs::write(cached.folder.join("v1/usage"), "").unwrap();
    let used: Vec<_> = blocks.iter().map(|block| block.parent().unwrap().to_owned()).collect();
    let mut folders = (0..=255).map(|number| cached.folder.join(format!("v1/{number:02x}")));
    fs::write(folders.find(|path| !used.contains(path)).unwrap(), "").unwrap();
    let (received, end) = read_source(&mut source);
    assert_eq!(end, Ok(2));
    assert!(received[0].bytes == expected);
    assert_eq!(cached.blocks().len(), blocks.len());
}

fn flip(file: &Path, at: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[at] ^= 0x10;
    fs::write(file, bytes).unwrap();
}

fn truncate(file: &Path, length: u64) {
    fs::OpenOptions::new().write(true).open(file).unwrap().set_len(length).unwrap();
}

#[test]
fn foreign_files_are_neither_believed_nor_removed() {
    let cached = Cached::with([("one", bytes(1, 1000)), ("two", bytes(2, 1000))]);
    let settings = cached.settings("");
    read(&settings).1.unwrap();
    let blocks = cached.blocks();
    // One block in the place of another, with a checksum that is right.
    fs::copy(&blocks[0], &blocks[1]).unwrap();
    let own = cached.folder.join("v1/notes.txt");
    fs::write(&own, "mine").unwrap();
    let beside = blocks[0].parent().unwrap().join("notes.txt");
    fs::write(&beside, "mine").unwrap();
    let (received, end, counts) = read(&settings);
    assert_eq!((end, counts.damaged), (Ok(1), 1));
    assert!(received[0].bytes == bytes(1, 1000) && received[1].bytes == bytes(2, 1000));
    // A folder, a link and a pipe in the place of a block.
    let block = &blocks[0];
    for make in [
        (|path| fs::create_dir(path).unwrap()) as fn(&Path),
        |path| std::os::unix::fs::symlink("/dev/zero", path).unwrap(),
        |path| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap(),
    ] {
        fs::remove_file(block).unwrap();
        make(block);
        let (received, end, counts) = read(&settings);
        assert_eq!((end, counts.damaged), (Ok(1), 1));
        assert!(received[0].bytes == bytes(1, 1000) && received[1].bytes == bytes(2, 1000));
    }
    // All of it is evicted, but not what is not of the cache.
    read(&cached.sized("", 0)).1.unwrap();
    assert_eq!(cached.blocks(), [beside]);
    assert!(own.exists());
}

#[test]
fn it_is_never_larger_than_its_size_and_keeps_a_fixed_part() {
    let cached = Cached::with((0..16).map(|number| (format!("{number:02}"), bytes(number, MIB))));
    let size = 8 * (MIB as u64 + 4096);
    let mut settings = cached.sized("", size);
    settings.reading.epochs = 4;
    let (received, end, counts) = read(&settings);
    assert_eq!((end, received.len()), (Ok(4), 64));
    assert_eq!((counts.stored, counts.evicted), (8, 0));
    // Half of each later epoch: a cache that removes what was used longest ago has nothing then.
    assert_eq!(counts.hit_bytes, 3 * 8 * MIB as u64);
    assert!(cached.bytes_on_disk() <= size);
    // What was used before this run is removed for new blocks, the oldest first.
    for (age, block) in cached.blocks().iter().enumerate() {
        let file = fs::OpenOptions::new().write(true).open(block).unwrap();
        let used = SystemTime::now() - Duration::from_secs(100 + age as u64);
        file.set_times(fs::FileTimes::new().set_modified(used)).unwrap();
    }
    let oldest = cached.blocks().pop().unwrap();
    cached.bucket.server.put(BUCKET, "new/one", &bytes(99, MIB));
    let (_, end, counts) = read(&cached.sized("new/", size));
    assert_eq!((end, counts.stored, counts.evicted), (Ok(1), 1, 1));
    assert!(!oldest.exists() && cached.bytes_on_disk() <= size);
    // A smaller one is made smaller at once.
    read(&cached.sized("new/", 3 * MIB as u64)).1.unwrap();
    assert!(cached.bytes_on_disk() <= 3 * MIB as u64);
}

/// The objects of an index, without blocks.
#[derive(Debug)]
struct Indexed(Vec<KnownObject>);

impl KnownObjects for Indexed {
    fn count(&self) -> u64 {
        self.0.len() as u64
    }

    fn get(&self, number: u64) -> Option<KnownObject> {
        self.0.get(number as usize).cloned()
    }

    fn short_name(&self, number: u64) -> Option<&str> {
        self.0.get(number as usize).map(|object| &*object.name)
    }

    fn size(&self, number: u64) -> u64 {
        self.0.get(number as usize).map_or(0, |object| object.size)
    }

    fn blocks(&self, number: u64, _: u64) -> Vec<Block> {
        vec![Block::rest(0, 0, 0, self.size(number))]
    }

    fn seek_point(&self, _: u64, _: u64) -> Result<Option<SeekPoint>, String> {
        Ok(None)
    }

    fn seek_point_after(&self, _: u64, _: u64) -> Result<Option<SeekPoint>, String> {
        Ok(None)
    }

    fn records(&self, number: u64) -> Option<u64> {
        self.get(number).map(|object| object.size)
    }

    fn first_record(&self, number: u64) -> u64 {
        self.0.iter().take(number as usize).map(|object| object.size).sum()
    }

    fn identity(&self) -> ListIdentity {
        ListIdentity { objects: self.count(), is_whole: true, contents: 0, times: 0, unordered: 0 }
    }

    fn memory(&self) -> u64 {
        0
    }
}

/// Each epoch reads another quarter of the objects. An index knows which of them it needs next.
#[test]
fn with_an_index_what_a_part_needs_soon_stays() {
    const OBJECTS: u64 = 64;
    let named = |number| (format!("{number:02}"), bytes(number, MIB / 2));
    let cached = Cached::with((0..OBJECTS).map(named));
    let (mut source, mut known) = (source(&settings(&cached.proxy.endpoint(), "")), Vec::new());
    while let Ok(SourceEvent::Object(object)) = source.next() {
        let (_, identity) = split_identity(object.identity.text());
        let (name, size) = (object.name.clone(), MIB as u64 / 2);
        known.push(KnownObject { name, identity: identity.to_owned(), size });
    }
    let list = KnownList::new(Arc::new(Indexed(known)));
    // Room for as much as an epoch reads.
    let mut settings = cached.sized("", OBJECTS / 4 * (MIB as u64 / 2 + 4096));
    settings.reading.epochs = 16;
    let part = ListPart { index: 1, count: 4, balance: Balance::Count };
    settings.reading.order = Order { shuffle: Some(7), part: Some(part), blocks: None };
    let (expected, end, listed) = read(&settings);
    assert_eq!((end, expected.len() as u64), (Ok(16), 16 * OBJECTS / 4));
    fs::remove_dir_all(cached.folder.join("v1")).unwrap();
    settings.selection = Selection::Known { list, index: "x.index".to_owned() };
    let (received, end, counts) = read(&settings);
    assert_eq!((end, all(&received)), (Ok(16), all(&expected)));
    assert!(counts.hit_bytes * 2 > listed.hit_bytes * 3, "{counts:?}, {listed:?}");
    assert!(cached.bytes_on_disk() <= OBJECTS / 4 * (MIB as u64 / 2 + 4096));
}

/// A process that was killed may have left any sum, and none at all.
#[test]
fn wrong_sums_are_counted_again() {
    let cached = Cached::with((0..4).map(|number| (format!("{number}"), bytes(number, MIB))));
    let size = 8 * (MIB as u64 + 4096);
    let usage = cached.folder.join("v1/usage");
    let settings = cached.sized("", size);
    read(&settings).1.unwrap();
    let sums = fs::read(&usage).unwrap();
    for damage in [Vec::new(), vec![0xff; sums.len()], sums[..100].to_vec(), vec![0; 1 << 20]] {
        fs::write(&usage, damage).unwrap();
        cached.bucket.server.put(BUCKET, "0", &bytes(fastrand::u64(..), MIB));
        let (_, end, counts) = read(&settings);
        assert_eq!((end, counts.stored), (Ok(1), 1));
        assert!(cached.bytes_on_disk() <= size);
    }
}

#[test]
fn a_folder_that_others_may_write_to_is_refused() {
    let cached = Cached::with([("one", bytes(1, 1000))]);
    fs::set_permissions(&cached.folder, fs::Permissions::from_mode(0o775)).unwrap();
    let (received, end, _) = read(&cached.settings(""));
    let error = end.unwrap_err();
    assert!(received.is_empty());
    assert!(error.message.contains("only this user may write to"), "{error}");
    assert!(error.message.contains("mode 0775"), "{error}");
    assert!(error.remedy.contains("chmod go-w"), "{}", error.remedy);
    assert_eq!(cached.gets(), 0);
}

#[test]
fn a_folder_that_cannot_be_made_costs_the_cache_and_not_the_run() {
    let cached = Cached::with([("one", bytes(1, 1000))]);
    let file = cached.folder.join("file");
    fs::write(&file, "").unwrap();
    let mut settings = cached.settings("");
    settings.cache = Some(CacheSettings { path: file.join("cache"), size: 1 << 30 });
    let (received, end, counts) = read(&settings);
    assert_eq!((end, &received[0].bytes), (Ok(1), &bytes(1, 1000)));
    assert_eq!(counts, CacheCounts::default());
}

/// The name does not say that it is compressed, and only a response says how.
#[test]
fn the_encoding_is_kept() {
    let Some(server) = Moto::start() else { return };
    server.make_bucket(BUCKET);
    let text = b"some text ".repeat(10_000);
    put(&server, "one", &[("content-encoding", "gzip")], &gzip(&text));
    let cached = Cached::with([("", ""); 0]);
    let settings = Settings {
        cache: cached.settings("").cache,
        ..crate::reading::settings(&server.endpoint(), "")
    };
    for hits in [false, true] {
        let (received, end, counts) = read(&settings);
        assert_eq!((end, &received[0].bytes), (Ok(1), &text));
        assert_eq!(counts.hit_bytes > 0, hits);
    }
}

/// Bytes that are not what the server keeps are not given again, and not kept: the next run has
/// another chance. The checksum of the cache's pages is of the second kind.
#[test]
fn the_checksum_is_kept_and_compared() {
    let Some(server) = Moto::start() else { return };
    server.make_bucket(BUCKET);
    let crc32 = |bytes: &[u8]| crc32(bytes).to_be_bytes().to_vec();
    let crc64 = |bytes: &[u8]| checksum(CrcAlgorithm::Crc64Nvme, bytes).to_be_bytes().to_vec();
    is_kept_and_compared(&server, "CRC32", crc32);
    is_kept_and_compared(&server, "CRC64NVME", crc64);
}

fn is_kept_and_compared(server: &Moto, algorithm: &str, sum: impl Fn(&[u8]) -> Vec<u8>) {
    let name = algorithm.to_lowercase();
    let object = bytes(1, 300_000);
    let sum = |bytes: &[u8]| STANDARD.encode(sum(bytes));
    let header = format!("x-amz-checksum-{name}");
    let headers = |sum| [(&*header, sum), ("x-amz-sdk-checksum-algorithm", algorithm)];
    let (right, wrong) = (sum(&object), sum(b"something else"));
    let cached = Cached::with([("", ""); 0]);
    let settings = Settings {
        cache: cached.settings("").cache,
        ..crate::reading::settings(&server.endpoint(), &format!("{name}/"))
    };
    put(server, &format!("{name}/one"), &headers(&right), &object);
    read(&settings).1.unwrap();
    let (received, end, counts) = read(&settings);
    assert_eq!((end, &received[0].bytes), (Ok(1), &object));
    assert_eq!((counts.hit_bytes, cached.blocks().len()), (300_000, 1));
    // One page is fetched again, between others that are there.
    flip(&cached.blocks()[0], 512 + 150_000);
    let (received, end, counts) = read(&settings);
    assert_eq!((end, &received[0].bytes), (Ok(1), &object));
    assert_eq!((counts.damaged, counts.missed_bytes), (1, 64 << 10));
    put(server, &format!("{name}/two"), &headers(&wrong), &object);
    for _ in 0..2 {
        let (_, end, counts) = read(&settings);
        let error = end.unwrap_err();
        assert!(error.message.contains(&format!("the server keeps {algorithm} ")), "{error}");
        assert_eq!((counts.hit_bytes, counts.missed_bytes), (300_000, 300_000));
        assert_eq!(cached.blocks().len(), 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Parts of objects are read from any byte on, in any order, with any part size: they are the
    /// same bytes, no page is fetched twice, and pages of one block that come at different times
    /// are kept together.
    #[test]
    fn any_starts_share_pages(
        size in 1_usize..3 * MIB,
        starts in prop::collection::vec(any::<prop::sample::Index>(), 1..6),
        part_size in prop_oneof![Just(64_u64 << 10), Just(1 << 20), Just(5 << 19)],
    ) {
        let expected = bytes(size as u64, size);
        let cached = Cached::with([("one", &expected)]);
        let settings = Settings { part_size, ..cached.settings("") };
        let mut missed = 0;
        let mut lowest = size as u64;
        for start in starts {
            let offset = start.index(size) as u64;
            let place = Start { epoch: 0, ordinal: 0, offset };
            let stop = Stop::new().unwrap();
            let mut source = Objects::new(s3(), settings.clone(), place, stop);
            let (received, end) = read_source(&mut source);
            prop_assert_eq!(end, Ok(1));
            prop_assert_eq!(&received[0].bytes, &expected[offset as usize..]);
            let counters: Arc<_> = source.cache().unwrap();
            drop(source);
            missed += counters.now().missed_bytes;
            lowest = lowest.min(offset);
        }
        let pages = size as u64 - lowest / 65_536 * 65_536;
        prop_assert_eq!(missed, pages);
    }
}

#[test]
fn what_is_named_shares_with_what_is_listed() {
    let cached = Cached::with([("one", bytes(1, 2 * MIB))]);
    read(&cached.settings("")).1.unwrap();
    let named = Settings {
        cache: cached.settings("").cache,
        ..objects(&cached.proxy.endpoint(), &["one"])
    };
    let (received, end, counts) = read(&named);
    assert_eq!((end, &received[0].bytes), (Ok(1), &bytes(1, 2 * MIB)));
    assert_eq!((counts.hit_bytes, counts.missed_bytes), (2 * MIB as u64, 0));
}
