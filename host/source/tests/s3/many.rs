//! Many objects, many channels, much at once.

use std::sync::atomic::{AtomicUsize, Ordering};

use pipemill_s3_test::servers::S3Server;
use pipemill_source::s3::{Objects, list_objects};
use pipemill_source::{Balance, ListPart};
use pipemill_source::{Start, Stop};
use pipemill_testing::bucket::{BUCKET, Bucket};
use pipemill_testing::until;

use crate::reading::{bytes, read, read_source, s3, settings};

/// Keys that are streamed; the variable asks for more.
fn keys() -> usize {
    let variable = std::env::var("PIPEMILL_TEST_KEYS").ok();
    variable.map_or(10_000, |text| text.parse().expect("PIPEMILL_TEST_KEYS is a number"))
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").expect("this is Linux");
    let pages: u64 = status
        .split_whitespace()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .expect("it has numbers");
    pages * 4096
}

#[test]
fn ten_thousand_small_objects_are_read_in_flat_memory() {
    let bucket = Bucket::new();
    for number in 0..keys() {
        bucket.server.put(BUCKET, &format!("k/{number:08}"), number.to_string().as_bytes());
    }
    let mut source = crate::reading::source(&settings(&bucket.server.endpoint(), "k/"));
    let (mut count, mut before) = (0, 0);
    loop {
        use pipemill_source::{ReadOutcome, Source, SourceEvent};
        match source.next().expect("nothing fails") {
            SourceEvent::Object(mut object) => {
                let mut buffer = [0; 16];
                let Ok(ReadOutcome::Bytes(length)) = object.input.read(&mut buffer, None) else {
                    panic!("no bytes of {}", object.name)
                };
                assert_eq!(buffer[..length], *count.to_string().as_bytes(), "{}", object.name);
                assert!(matches!(object.input.read(&mut buffer, None), Ok(ReadOutcome::End)));
                count += 1;
                if count == keys() / 4 {
                    before = resident();
                }
            }
            SourceEvent::EpochEnd(_) => {}
            SourceEvent::End => break,
        }
    }
    assert_eq!(count, keys());
    let grown = resident().saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes more after the last three quarters");
}

#[test]
fn a_hundred_thousand_keys_are_listed_in_flat_memory() {
    const KEYS: usize = 100_000;
    let bucket = Bucket::new();
    let folder = bucket.server.file(BUCKET, "k/0").parent().unwrap().to_owned();
    std::fs::create_dir_all(&folder).unwrap();
    for number in 0..KEYS {
        std::fs::File::create(folder.join(format!("{number:08}"))).unwrap();
    }
    let (stop, s3) = (Stop::new().unwrap(), s3());
    let (mut count, mut before) = (0, 0);
    let mut settings = settings(&bucket.server.endpoint(), "k/");
    // Nor is anything kept to divide it.
    settings.reading.order.part = Some(ListPart { index: 0, count: 1, balance: Balance::Size });
    list_objects(&s3, &settings, 0, &stop, |listed| {
        assert_eq!(listed.name, format!("s3://bucket/k/{count:08}"));
        count += 1;
        if count == KEYS / 4 {
            before = resident();
        }
        true
    })
    .unwrap();
    assert_eq!(count, KEYS);
    let grown = resident().saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes more after the last three quarters");
}

#[test]
fn twenty_channels_share_a_budget_and_none_starves() {
    let object = bytes(1, 3 << 20);
    let bucket = Bucket::with([("one", &object)]);
    let settings = settings(&bucket.server.endpoint(), "one");
    let (s3, ended) = (s3(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let stop = Stop::new().unwrap();
                let mut source = Objects::new(s3.clone(), settings.clone(), Start::default(), stop);
                let (received, end) = read_source(&mut source);
                assert!(end.is_ok() && received[0].bytes == object);
                ended.fetch_add(1, Ordering::Relaxed);
            });
        }
        // One that is never read holds no other up.
        let idle =
            Objects::new(s3.clone(), settings.clone(), Start::default(), Stop::new().unwrap());
        until("all of them end", || ended.load(Ordering::Relaxed) == 20);
        drop(idle);
    });
}

#[test]
fn parts_larger_than_the_budget_come_one_by_one() {
    let object = bytes(3, 20 << 20);
    let bucket = Bucket::with([("one", &object)]);
    let mut settings = settings(&bucket.server.endpoint(), "one");
    settings.part_size = 8 << 20;
    let (received, end) = read(&settings);
    assert!(end.is_ok() && received[0].bytes == object);
}
