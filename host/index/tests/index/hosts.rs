//! A thousand hosts that divide the blocks of an index: each computes its own part. All have
//! equally many records, and none reads many more bytes than those of its records.
//!
//! With `PIPEMILL_HOSTS=FILE`, the hosts of a million objects are simulated, and the figures are
//! written to the file as JSON: the table and the picture of docs/the-index.md.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use pipemill_index::{Index, IndexedList, IndexedObject, Objects, Place};
use pipemill_source::{Balance, KnownList, ListPart, Order};
use serde_json::{Value, json};

use crate::file::index;

const HOSTS: u32 = 1_000;
/// Bytes of a record, of the distance of two places, and of a block.
const RECORD: u64 = 16 << 10;
const DISTANCE: u64 = 4 << 20;
const BLOCKS: u64 = 8 << 20;

/// The index of this many objects of 1 to 31 MiB, read from its file.
fn indexed(objects: u64) -> KnownList {
    let mut all = Objects::default();
    for number in 0..objects {
        let records = 64 + number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (30 << 6);
        let place = |record: u64| Place {
            record,
            offset: record * RECORD,
            header: 0,
            inflate: Box::default(),
        };
        let of_place = DISTANCE / RECORD;
        let places: Vec<_> =
            (1..records.div_ceil(of_place)).map(|at| place(at * of_place)).collect();
        let (name, identity) = (format!("{number:09}"), format!("etag:\"{number:032x}\""));
        let (name, identity) = (name.as_str(), identity.as_str());
        let size = records * RECORD;
        all.push(IndexedObject { name, identity, size, records, errors: 0, places: &places });
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.index");
    index(all).write(&path).expect("it is written");
    let read = Index::read(&path).expect("it is an index");
    KnownList::new(Arc::new(IndexedList::new(Arc::new(read), None)))
}

fn order(blocks: Option<u64>, balance: Balance, index: u32, count: u32) -> Order {
    Order { shuffle: Some(7), part: Some(ListPart { index, count, balance }), blocks }
}

/// What a host reads of its shards.
#[derive(Default)]
struct Host {
    records: u64,
    /// The bytes of its records, and those that it reads.
    own: u64,
    bytes: u64,
    blocks: u64,
    largest: u64,
}

/// What a host reads that has some of the shards. `visit` gets the object and the record of each
/// block.
fn host(list: &KnownList, own: Range<u32>, shards: u32, visit: &mut impl FnMut(u64, u64)) -> Host {
    let mut host = Host::default();
    for shard in own {
        let order = order(Some(BLOCKS), Balance::Count, shard, shards);
        for (object, block, bytes) in list.blocks_of_part(&order, 3) {
            host.records += block.read();
            host.own += block.read() * RECORD;
            host.bytes += bytes;
            host.blocks += 1;
            host.largest = host.largest.max(bytes);
            visit(object, block.record);
        }
    }
    host
}

/// What each host reads, if each has as many of the shards as the others.
fn hosts(list: &KnownList, shards: u32, visit: &mut impl FnMut(u64, u64)) -> Vec<Host> {
    let each = shards / HOSTS;
    (0..HOSTS).map(|own| host(list, own * each..(own + 1) * each, shards, visit)).collect()
}

#[test]
fn a_thousand_hosts_have_equal_parts_of_an_index() {
    let list = indexed(20_000);
    let all = list.total_records();
    for shards in [HOSTS, 4 * HOSTS] {
        let mut read = BTreeMap::<(u64, u64), u32>::new();
        let hosts = hosts(&list, shards, &mut |object, record| {
            *read.entry((object, record)).or_default() += 1
        });
        let each = u64::from(shards / HOSTS);
        for host in &hosts {
            assert!(host.records.abs_diff(all / u64::from(HOSTS)) <= each, "{}", host.records);
            // Each shard has two blocks at its borders.
            let most = host.own + 2 * each * host.largest;
            assert!(host.bytes <= most, "{} bytes for {}", host.bytes, host.own);
        }
        let sum = |of: fn(&Host) -> u64| hosts.iter().map(of).sum::<u64>();
        assert_eq!(sum(|host| host.records), all);
        let blocks: usize = (0..list.0.count()).map(|one| list.0.blocks(one, BLOCKS).len()).sum();
        assert_eq!(read.len(), blocks, "each block is read");
        // A border of two shards cuts one block at most.
        assert!(sum(|host| host.blocks) <= blocks as u64 + u64::from(shards));
        let least = sum(|host| host.own);
        assert!(sum(|host| host.bytes) <= least + u64::from(shards) * (BLOCKS + DISTANCE));
    }
}

/// Bytes of this process in memory, at most since it was asked last.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("of this process");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    fs::write("/proc/self/clear_refs", "5").expect("it begins again");
    peak.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") << 10
}

#[test]
fn the_figures_of_the_documents() {
    let Some(file) = std::env::var_os("PIPEMILL_HOSTS") else { return };
    let list = indexed(1_000_000);
    let share = list.total_records() as f64 / f64::from(HOSTS);
    let mut rows: Vec<Value> = Vec::new();
    for (name, balance) in
        [("whole objects", Balance::Count), ("whole objects, `balance`", Balance::Size)]
    {
        let whole = Order { shuffle: None, ..order(None, balance, 0, HOSTS) };
        let parts = list.records_of_parts(&whole).expect("they are known");
        let records = parts.iter().map(|part| part.iter().sum::<u64>());
        let (least, most) = (records.clone().min(), records.max());
        let objects = parts.iter().map(Vec::len);
        let requests = (objects.clone().min(), objects.max());
        rows.push(json!({
            "name": name, "records": [least, most], "share": share, "more": [0.0, 0.0],
            "requests": requests,
        }));
    }
    for shards in [HOSTS, 4 * HOSTS, 16 * HOSTS] {
        peak_memory();
        let before = peak_memory();
        let began = Instant::now();
        // A list of its own has no order yet.
        let one = KnownList::new(list.0.clone());
        host(&one, 0..shards / HOSTS, shards, &mut |_, _| {});
        let seconds = began.elapsed().as_secs_f64();
        let memory = peak_memory() - before;
        drop(one);
        let hosts = hosts(&list, shards, &mut |_, _| {});
        let range = |of: fn(&Host) -> u64| (hosts.iter().map(of).min(), hosts.iter().map(of).max());
        let more = hosts.iter().map(|host| host.bytes as f64 / host.own as f64 - 1.0);
        let most = more.clone().fold(0.0, f64::max);
        rows.push(json!({
            "name": format!("`blocks`, {shards} shards"), "records": range(|host| host.records),
            "share": share, "more": [more.sum::<f64>() / f64::from(HOSTS), most],
            "requests": range(|host| host.blocks), "seconds": seconds, "memory": memory,
        }));
    }
    let blocks: usize = (0..list.0.count()).map(|one| list.0.blocks(one, BLOCKS).len()).sum();
    let objects = list.0.count();
    let report = json!({ "objects": objects, "blocks": blocks, "hosts": HOSTS, "rows": rows });
    fs::write(file, serde_json::to_string_pretty(&report).expect("it is JSON") + "\n")
        .expect("written");
}
