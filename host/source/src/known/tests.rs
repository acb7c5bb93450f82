use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::{Balance, ListWithout, SkippedRecords};

/// Objects whose blocks have these numbers of records, each of a byte.
#[derive(Debug)]
struct Fake(Vec<Vec<u64>>);

impl Fake {
    fn list(objects: Vec<Vec<u64>>) -> KnownList {
        KnownList::new(Arc::new(Self(objects)))
    }
}

impl KnownObjects for Fake {
    fn count(&self) -> u64 {
        self.0.len() as u64
    }

    fn get(&self, _: u64) -> Option<KnownObject> {
        None
    }

    fn short_name(&self, _: u64) -> Option<&str> {
        None
    }

    fn size(&self, number: u64) -> u64 {
        self.0.get(number as usize).map_or(0, |blocks| blocks.iter().sum())
    }

    fn blocks(&self, number: u64, _: u64) -> Vec<Block> {
        let counts = &self.0[number as usize];
        let mut at = 0;
        let block = |records: &u64| {
            let from = at;
            at += records;
            Block::rest(from, 0, from, at).up_to(at, at)
        };
        counts.iter().map(block).collect()
    }

    fn seek_point(&self, _: u64, _: u64) -> Result<Option<SeekPoint>, String> {
        Ok(None)
    }

    fn seek_point_after(&self, _: u64, _: u64) -> Result<Option<SeekPoint>, String> {
        Ok(None)
    }

    fn records(&self, number: u64) -> Option<u64> {
        (number < self.count()).then(|| self.size(number))
    }

    fn first_record(&self, number: u64) -> u64 {
        (0..number).filter_map(|before| self.records(before)).sum()
    }

    fn identity(&self) -> ListIdentity {
        let (objects, is_whole) = (self.count(), true);
        ListIdentity { objects, is_whole, contents: 0, times: 0, unordered: 0 }
    }

    fn memory(&self) -> u64 {
        0
    }
}

fn order(seed: u64, part: Option<(u32, u32)>) -> Order {
    let part = part.map(|(index, count)| ListPart { index, count, balance: Balance::Count });
    Order { shuffle: Some(seed), part, blocks: Some(1) }
}

fn items(list: &KnownList, order: &Order, epoch: u32) -> Vec<Item> {
    list.arrange(order, epoch).collect()
}

/// The records that are read, each as the number of its object and its number there.
fn records(items: &[Item]) -> Vec<(u64, u64)> {
    let of = |item: &Item| {
        let block = item.block.expect("blocks are read");
        (block.read_from..block.read_to).map(|record| (item.object, record)).collect::<Vec<_>>()
    };
    items.iter().flat_map(of).collect()
}

proptest! {
    /// With and without records that are skipped.
    #[test]
    fn an_object_is_found_by_the_number_of_its_record(
        objects in prop::collection::vec(prop::collection::vec(0..4_u64, 0..4), 0..8),
        skipped in prop::collection::vec((0..60_u64, 0..9_u64), 0..4),
    ) {
        let list = Fake::list(objects.clone());
        let of_object = |object: u64| (0..list.0.records(object).unwrap_or(0)).map(move |_| object);
        let all: Vec<_> = (0..list.0.count()).flat_map(of_object).collect();
        let ranges = skipped.into_iter().map(|(from, many)| from..from + many);
        let skipped = SkippedRecords::new(ranges.collect());
        for skipped in [SkippedRecords::default(), skipped] {
            let kept = (0..).zip(&all).filter(|(record, _)| !skipped.contains(*record));
            let kept: Vec<_> = kept.map(|(_, object)| *object).collect();
            let some = ListWithout::new(list.clone(), skipped);
            for (record, object) in (0..).zip(&kept) {
                let first = kept.partition_point(|before| before < object) as u64;
                prop_assert_eq!(some.object_with(record), Some((*object, record - first)));
            }
            let end = kept.len() as u64;
            for record in [end, end + 1, u64::MAX] {
                prop_assert_eq!(some.object_with(record), None);
            }
        }
        prop_assert_eq!(list.0.object_with(all.len() as u64), None);
    }

    #[test]
    fn parts_of_blocks_are_ranges_of_their_order(
        objects in prop::collection::vec(prop::collection::vec(0..20_u64, 0..5), 0..8),
        count in 1..12_u32,
        seed: u64,
        epoch in 0..3_u32,
    ) {
        let list = Fake::list(objects);
        let whole = records(&items(&list, &order(seed, None), epoch));
        let mut all = Vec::new();
        for index in 0..count {
            let order = order(seed, Some((index, count)));
            let items = items(&list, &order, epoch);
            prop_assert_eq!(list.arrange(&order, epoch).len(), items.len());
            prop_assert!(items.iter().all(|item| item.block.is_some_and(|block| block.read() > 0)));
            let part = records(&items);
            for (number, record) in part.iter().enumerate() {
                let place = list.place_of(&order, epoch, number as u64).expect("it is there");
                let item = items[place.ordinal as usize];
                prop_assert_eq!(item.block, Some(place.block));
                prop_assert_eq!(*record, (item.object, place.block.read_from + place.record));
            }
            prop_assert_eq!(list.place_of(&order, epoch, part.len() as u64), None);
            let parts = list.records_of_parts(&order).expect("their length is known");
            prop_assert_eq!(&parts[index as usize], &vec![part.len() as u64]);
            all.extend(part);
        }
        prop_assert_eq!(&all, &whole);
        prop_assert_eq!(whole.len() as u64, list.total_records());
    }
}

/// 1,000 hosts that read 40 blocks each: all have equally many records, and none requests many more
/// bytes than theirs are.
#[test]
fn a_thousand_hosts_read_equal_parts_and_few_bytes_twice() {
    const HOSTS: u32 = 1_000;
    const BLOCKS: u64 = 40;
    let sizes = |object: u64| (0..80).map(|block| 700 + (object * 7 + block * 13) % 300).collect();
    let list = Fake::list((0..500).map(sizes).collect());
    let all = list.total_records();
    let mut read_by_hosts = BTreeMap::<(u64, u64), u32>::new();
    let mut bytes_of_all = 0;
    for index in 0..HOSTS {
        let items = items(&list, &order(7, Some((index, HOSTS))), 3);
        let own: u64 = items.iter().filter_map(|item| item.block).map(|block| block.read()).sum();
        assert!(own.abs_diff(all / u64::from(HOSTS)) <= 1);
        let bytes: u64 = items.iter().map(|item| list.bytes(item)).sum();
        assert!(bytes <= own + 2 * 1_000, "{bytes} bytes for {own}");
        assert!(items.len() as u64 <= BLOCKS * 13 / 10, "{} requests", items.len());
        bytes_of_all += bytes;
        for item in items {
            let block = item.block.expect("blocks are read");
            *read_by_hosts.entry((item.object, block.record)).or_default() += 1;
        }
    }
    assert!(bytes_of_all <= all * 105 / 100, "{bytes_of_all} of {all}");
    assert_eq!(read_by_hosts.len(), 500 * 80, "each block is read");
    let twice = read_by_hosts.values().filter(|hosts| **hosts > 1).count();
    assert!(twice < HOSTS as usize, "only blocks at borders are read twice");
}
