//! One list for all epochs: prefixes and folders are listed once, and what was listed is what is
//! read.

use std::fs;
use std::path::Path;

use pipemill_s3_test::proxy::{Plan, Proxy};
use pipemill_s3_test::servers::S3Server;
use pipemill_source::s3::{Objects, Settings};
use pipemill_source::{
    Balance, Files, ListPart, Order, Pattern, ReadSettings, Source, SourceEvent, Start, Stop,
};
use pipemill_testing::bucket::{BUCKET, Bucket};
use pipemill_testing::test_dir::TestDir;

use crate::reading::{ReceivedObject, read, read_source, reading, s3, settings, source};

/// Number of requests for lists so far.
fn lists(proxy: &Proxy) -> usize {
    proxy.log().iter().filter(|entry| entry.request.target.contains("list-type=2")).count()
}

fn stop() -> Stop {
    Stop::new().expect("there are descriptors")
}

fn epochs(settings: &Settings, epochs: u32) -> Settings {
    reading(settings, ReadSettings { epochs, ..settings.reading.clone() })
}

fn names(received: &[ReceivedObject], epoch: u32) -> Vec<&str> {
    received.iter().filter(|one| one.epoch == epoch).map(|one| &*one.name).collect()
}

/// Objects in several folders, which need two pages.
fn many() -> Bucket {
    of_folders(350)
}

/// Objects in three folders, `count` in each.
fn of_folders(count: usize) -> Bucket {
    let bucket = Bucket::new();
    for folder in ["a", "b", "c/d"] {
        for number in 0..count {
            bucket.server.put(BUCKET, &format!("t/{folder}/{number:05}"), b"x");
        }
    }
    bucket
}

/// What a source gives with one list, and with a list for each epoch.
fn both(settings: &Settings) -> [(Vec<ReceivedObject>, u32); 2] {
    [false, true].map(|relist| {
        let reading = ReadSettings { relist, ..settings.reading.clone() };
        let (received, epochs) = read(&Settings { reading, ..settings.clone() });
        (received, epochs.unwrap())
    })
}

#[test]
fn epochs_take_the_requests_of_one_list() {
    let bucket = many();
    // The first page, the folders, and one page of each of them; or one page.
    for (prefix, of_one) in [("t/", 5), ("t/a", 1)] {
        for (relist, expected) in [(false, of_one), (true, 3 * of_one)] {
            let proxy = bucket.proxy(Plan::default());
            let mut settings = epochs(&settings(&proxy.endpoint(), prefix), 3);
            settings.reading.relist = relist;
            let (received, end) = read(&settings);
            assert_eq!(end.unwrap(), 3);
            assert_eq!(lists(&proxy), expected, "{prefix}");
            for epoch in 1..3 {
                assert_eq!(names(&received, epoch), names(&received, 0));
            }
        }
    }
}

#[test]
fn each_epoch_has_the_order_and_the_part_of_a_list_of_its_own() {
    let bucket = of_folders(20);
    let of_part = |index, balance| Some(ListPart { index, count: 3, balance });
    for (shuffle, part) in [
        (None, None),
        (Some(7), None),
        (None, of_part(1, Balance::Size)),
        (Some(3), of_part(2, Balance::Count)),
    ] {
        let mut settings = epochs(&settings(&bucket.server.endpoint(), "t/"), 3);
        settings.reading.order = Order { shuffle, part, blocks: None };
        let [once, again] = both(&settings);
        assert!(once == again, "{shuffle:?} {part:?}");
        assert_eq!(once.1, 3);
    }
}

#[test]
fn several_prefixes_and_one_without_an_object_are_kept() {
    let bucket = of_folders(20);
    let proxy = bucket.proxy(Plan::default());
    let mut settings = epochs(&settings(&proxy.endpoint(), "t/b"), 3);
    let at = |key: &str| format!("s3://{BUCKET}/{key}").parse().unwrap();
    let prefixes = [at("t/b"), at("none/"), at("t/a"), at("t/b/00001")];
    settings.selection = pipemill_source::s3::Selection::Prefixes(prefixes.to_vec());
    let (_, end) = read(&settings);
    assert!(end.unwrap_err().message.contains("no key begins with this prefix"));
    settings.allow_empty = true;
    let before = lists(&proxy);
    let [once, again] = both(&settings);
    assert_eq!(lists(&proxy) - before, 4 + 3 * 4);
    assert!(once == again);
}

/// The whole list is known after the first epoch, although a state of its first page knows only
/// that part.
#[test]
fn a_source_that_goes_back_lists_no_more_and_finds_the_list_of_its_state() {
    let bucket = many();
    let proxy = bucket.proxy(Plan::default());
    let mut source = source(&epochs(&settings(&proxy.endpoint(), "t/"), 3));
    let mut of_state = None;
    while of_state.is_none() {
        if let SourceEvent::Object(object) = source.next().unwrap() {
            let (list, _) = pipemill_types::split_identity(object.identity.text());
            of_state = list;
        }
    }
    // The list is complete when its epoch has ended.
    while !matches!(source.next().unwrap(), SourceEvent::EpochEnd(0)) {}
    let before = lists(&proxy);
    for epoch in [0, 2] {
        source.expect_list(of_state);
        source.start_at(Start { epoch, ordinal: 1040, offset: 0 }).unwrap();
        let (received, end) = read_source(&mut source);
        assert_eq!(end.unwrap(), 3 - epoch);
        assert_eq!(names(&received, epoch).len(), 10);
    }
    assert_eq!(lists(&proxy), before);
}

/// The second channel finds the list of the first one.
#[test]
fn the_channels_of_a_process_share_a_list() {
    let bucket = many();
    let proxy = bucket.proxy(Plan::default());
    let s3 = s3();
    let of_two = epochs(&settings(&proxy.endpoint(), "t/"), 2);
    let with = |settings: &Settings| {
        let mut source = Objects::new(s3.clone(), settings.clone(), Start::default(), stop());
        let (received, end) = read_source(&mut source);
        end.unwrap();
        names(&received, 0).len()
    };
    assert_eq!((with(&of_two), lists(&proxy)), (1050, 5));
    let mut of_part = epochs(&of_two, 1);
    of_part.reading.order.part = Some(ListPart { index: 0, count: 2, balance: Balance::Count });
    assert_eq!((with(&of_part), lists(&proxy)), (525, 5));
    // What is listed differs.
    let mut hidden = of_two.clone();
    hidden.reading.hidden = true;
    assert_eq!((with(&hidden), lists(&proxy)), (1050, 10));
}

#[test]
fn an_epoch_that_is_left_early_does_not_keep_half_a_list() {
    let bucket = many();
    let proxy = bucket.proxy(Plan::default());
    let mut source = source(&epochs(&settings(&proxy.endpoint(), "t/"), 3));
    assert!(matches!(source.next().unwrap(), SourceEvent::Object(_)));
    source.end_epoch();
    let (received, end) = read_source(&mut source);
    assert_eq!(end.unwrap(), 3);
    assert_eq!((names(&received, 1).len(), names(&received, 2).len()), (1050, 1050));
    assert!((5..=10).contains(&lists(&proxy)), "{}", lists(&proxy));
}

/// Reads an epoch, lets the bucket or the folder change, and reads the rest.
fn changed_between(
    source: &mut dyn Source,
    change: impl FnOnce(),
) -> (Vec<ReceivedObject>, Result<u32, pipemill_source::SourceError>) {
    // What is prefetched of the next epoch must not be: the test has one object at a time.
    while !matches!(source.next().unwrap(), SourceEvent::EpochEnd(0)) {}
    change();
    read_source(source)
}

#[test]
fn an_object_that_changed_after_the_first_epoch_is_refused_by_name() {
    for (prefix, act, says, remedy) in [
        ("t/", "replace", "changed while it was read: its ETag is", "list = \"epoch\""),
        ("t/", "remove", "but it was there when it was listed", "bring it back"),
    ] {
        let bucket = Bucket::with([("t/a", b"one".to_vec()), ("t/b", b"two".to_vec())]);
        let path = bucket.server.file(BUCKET, "t/b");
        let mut settings = epochs(&settings(&bucket.server.endpoint(), prefix), 2);
        // The source goes back to the second epoch, so nothing of it was fetched before the change.
        let s3 = s3();
        settings.reading.epochs = 2;
        let mut source = Objects::new(s3, settings, Start::default(), stop());
        while !matches!(source.next().unwrap(), SourceEvent::EpochEnd(0)) {}
        match act {
            "replace" => bucket.server.put(BUCKET, "t/b", b"2.0"),
            _ => fs::remove_file(path).unwrap(),
        }
        source.start_at(Start::of_epoch(1)).unwrap();
        let (received, end) = read_source(&mut source);
        assert_eq!(names(&received[..1], 1), ["t/a"]);
        let error = end.unwrap_err();
        assert_eq!(error.object.as_deref(), Some(&*format!("s3://{BUCKET}/t/b")));
        assert!(error.message.contains(says), "{act}: {error}");
        assert!(error.remedy.contains(remedy), "{act}: {}", error.remedy);
    }
}

#[test]
fn a_new_object_is_read_in_the_next_epoch_only_if_each_is_listed() {
    for (relist, expected) in [(false, vec!["t/b"]), (true, vec!["t/a", "t/b"])] {
        let bucket = Bucket::with([("t/b", b"two".to_vec())]);
        let mut settings = epochs(&settings(&bucket.server.endpoint(), "t/"), 2);
        settings.reading.relist = relist;
        let mut source = Objects::new(s3(), settings, Start::default(), stop());
        while !matches!(source.next().unwrap(), SourceEvent::EpochEnd(0)) {}
        bucket.server.put(BUCKET, "t/a", b"one");
        source.start_at(Start::of_epoch(1)).unwrap();
        let (received, end) = read_source(&mut source);
        end.unwrap();
        assert_eq!(names(&received, 1), expected);
    }
}

/// The names of an epoch's files below the folder.
fn file_names(received: &[ReceivedObject], epoch: u32, folder: &Path) -> Vec<String> {
    let below = |name: &&str| Path::new(name).strip_prefix(folder).unwrap().display().to_string();
    names(received, epoch).iter().map(below).collect()
}

/// A folder, and a pattern that selects its files.
fn patterns(folder: &Path) -> [Pattern; 2] {
    [Pattern::Folder(folder.into()), Pattern::Glob(folder.join("**/*").display().to_string())]
}

#[test]
fn a_file_that_changed_after_the_first_epoch_is_refused_by_name() {
    for kind in 0..2 {
        for (act, says) in [
            ("append", "changed since it was listed: it had 3 bytes and has 6 now"),
            ("remove", "but it was there when it was listed"),
        ] {
            let place = TestDir::new();
            let [_, b] = ["a", "b"].map(|name| place.write(name, "one"));
            let pattern = patterns(place.folder())[kind].clone();
            let reading = ReadSettings { epochs: 2, ..ReadSettings::default() };
            let (received, end) =
                changed_between(&mut Files::new(pattern, reading, 0, stop()), || match act {
                    "append" => fs::write(&b, "onetwo").unwrap(),
                    _ => fs::remove_file(&b).unwrap(),
                });
            assert_eq!(file_names(&received, 1, place.folder()), ["a"]);
            let error = end.unwrap_err();
            assert_eq!(error.object.as_deref(), b.to_str());
            assert!(error.message.contains(says), "{error}");
            assert!(error.remedy.contains("`list = \"epoch\"`"), "{}", error.remedy);
        }
    }
}

#[test]
fn a_folder_and_a_pattern_are_listed_once_and_named_files_may_change() {
    for kind in 0..2 {
        for (relist, expected) in [(false, vec!["b"]), (true, vec!["a", "b"])] {
            let place = TestDir::new();
            place.write("b", "two");
            let pattern = patterns(place.folder())[kind].clone();
            let reading = ReadSettings { epochs: 2, relist, ..ReadSettings::default() };
            let (received, end) =
                changed_between(&mut Files::new(pattern, reading, 0, stop()), || {
                    place.write("a", "one");
                });
            end.unwrap();
            assert_eq!(file_names(&received, 1, place.folder()), expected);
        }
    }
    let place = TestDir::new();
    let path = place.write("b", "two");
    let reading = ReadSettings { epochs: 2, ..ReadSettings::default() };
    let mut source = Files::new(Pattern::File(path.clone()), reading, 0, stop());
    let (received, end) = changed_between(&mut source, || fs::write(path, "another").unwrap());
    end.unwrap();
    assert_eq!(received[0].bytes, b"another");
}
