//! Lists of more than one page, whose folders are listed at once.

use std::collections::BTreeSet;

use pipemill_s3_test::proxy::{Kind, Plan, Proxy};
use pipemill_s3_test::servers::S3Server;
use pipemill_source::Stop;
use pipemill_source::s3::{Settings, list_objects};
use pipemill_testing::bucket::{BUCKET, Bucket};

use crate::reading::{s3, settings};

/// The names of all objects, in the order in which they were listed.
fn names(settings: &Settings) -> Vec<String> {
    let mut names = Vec::new();
    let listed = list_objects(&s3(), settings, 0, &Stop::new().unwrap(), |object| {
        names.push(object.name);
        true
    });
    listed.unwrap();
    names
}

fn lists(proxy: &Proxy) -> usize {
    proxy.log().iter().filter(|entry| entry.request.target.contains("list-type=2")).count()
}

/// A bucket with so many keys in each of these folders, and some between them.
fn bucket(folders: &[(&str, usize)]) -> (Bucket, BTreeSet<String>) {
    let bucket = Bucket::new();
    let mut keys: BTreeSet<_> =
        ["t/a.x", "t/b.csv", "t/b0", "t/zz", "t0"].map(str::to_owned).into();
    for (folder, count) in folders {
        keys.extend((0..*count).map(|number| format!("t/{folder}{number:05}")));
    }
    for key in &keys {
        bucket.server.put(BUCKET, key, b"x");
    }
    keys.remove("t0");
    (bucket, keys.iter().map(|key| format!("s3://{BUCKET}/{key}")).collect())
}

#[test]
fn folders_are_listed_at_once_and_in_order() {
    let folders = [("a/", 700), ("b/", 1500), ("b/c/", 300), ("m-n/x/", 1001), ("z z/", 3)];
    let (bucket, expected) = bucket(&folders);
    let proxy = bucket.proxy(Plan::default());
    assert!(names(&settings(&proxy.endpoint(), "t/")).iter().eq(expected.iter()));
    // The first page, the folders, and the pages of each of these: a 1, b 2, m-n 2, z 1.
    assert_eq!(lists(&proxy), 8);
    let kinds = [Kind::SlowDown, Kind::ResetBefore, Kind::ResetWithin, Kind::Truncate];
    for seed in 0..3 {
        let proxy = bucket.proxy(Plan::random(seed, 0.3, &kinds));
        assert!(names(&settings(&proxy.endpoint(), "t/")).iter().eq(expected.iter()));
    }
}

#[test]
fn the_states_of_a_list_do_not_depend_on_how_it_was_listed() {
    let (bucket, expected) = bucket(&[("a/", 900), ("b/", 900)]);
    let endpoint = bucket.server.endpoint();
    let parts = ["t/a", "t/b", "t/z"].map(|prefix| names(&settings(&endpoint, prefix)));
    assert!(parts.concat().iter().eq(expected.iter()));
    assert_eq!(names(&settings(&endpoint, "t/")), parts.concat());
}

#[test]
fn one_folder_and_many_small_ones_are_listed_page_by_page() {
    for folders in [vec![("a/", 2500)], (0..150).map(|_| ("", 0)).collect()] {
        let (bucket, mut expected) = bucket(&folders);
        if folders.len() > 1 {
            for number in 0..1200 {
                let key = format!("t/{:03}/{number:05}", number % 150);
                bucket.server.put(BUCKET, &key, b"x");
                expected.insert(format!("s3://{BUCKET}/{key}"));
            }
        }
        let proxy = bucket.proxy(Plan::default());
        assert!(names(&settings(&proxy.endpoint(), "t/")).iter().eq(expected.iter()));
        let pages = expected.len().div_ceil(1000);
        assert_eq!(lists(&proxy), pages + 1);
    }
}
