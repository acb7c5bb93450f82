//! The message of each error, and where decoding continues.

use pipemill_plugin::testing::Setup;

use crate::write::{BLOCK, end, entry, file, header, pax, pax_text};
use crate::{outcome, texts};

/// The keys of the samples that are emitted, and the errors: block, blocks skipped, message.
fn keys_and_errors(fields: &str, file: &[u8]) -> (Vec<String>, Vec<(u64, u64, String)>) {
    let outcome = outcome(&Setup::new(&[("fields", fields)]).skipping(), file);
    let keys = texts(&outcome).into_iter().map(|mut record| record.remove(0)).collect();
    let blocks = |n: u64| {
        assert_eq!(n % BLOCK as u64, 0);
        n / BLOCK as u64
    };
    let errors =
        outcome.errors.into_iter().map(|(at, n, text)| (blocks(at), blocks(n), text)).collect();
    (keys, errors)
}

/// An archive of five samples. The third one is `members`; the others have two members of two
/// blocks each.
fn with_third_sample(members: &[Vec<u8>]) -> Vec<u8> {
    let sample = |key| [file(&format!("{key}.a"), b"1"), file(&format!("{key}.b"), b"2")].concat();
    let third = members.concat();
    [sample("one"), sample("two"), third, sample("four"), sample("five"), end()].concat()
}

/// Asserts that a third sample with these members is refused with this message.
fn assert_refused(fields: &str, members: &[Vec<u8>], message: &str) {
    let blocks = (members.concat().len() / BLOCK) as u64;
    let (keys, errors) = keys_and_errors(fields, &with_third_sample(members));
    assert_eq!(keys, ["one", "two", "four", "five"]);
    assert_eq!(errors, [(8, blocks, message.to_owned())]);
}

#[test]
fn samples_that_can_not_be_records() {
    assert_refused(
        "a,b",
        &[file("three.a", b"1"), file("three.C", b"1"), file("three.d.e", b"1")],
        "sample `three`: expected a member `b`, found only: a, C, d.e; mark it with `?` if samples may \
         lack it; if the member stands in another place of the archive, sort the archive by name",
    );
    assert_refused(
        "a,x=b;c",
        &[file("x/three.a", b"1")],
        "sample `x/three`: expected a member `b;c`, found only: a; mark it with `?` if samples may lack \
         it; if the member stands in another place of the archive, sort the archive by name",
    );
    assert_refused(
        "a",
        &[
            file("three.a", b"1"),
            file("three.c", b"1"),
            file("README", b"3"),
            file("three.C", b"2"),
        ],
        "sample `three`: the extension `c` comes twice; each may come once in a sample",
    );
    assert_refused(
        "a:utf8",
        &[file("three.a", b"ab\xff")],
        "sample `three`: member `a`: expected UTF-8, found something else at byte 2 of it; set fields to \
         take it as bytes",
    );
    assert_refused(
        "a",
        &[entry(b"\xff.a", b"1", b'0')],
        "sample `\\xff`: expected a key in UTF-8; set key = false to do without it",
    );
    let many: Vec<_> = (0..40).map(|n| file(&format!("t.{}", n % 39), b"")).collect();
    assert_refused(
        "a",
        &many,
        "sample `t`: the extension `0` comes twice; each may come once in a sample",
    );
}

#[test]
fn fields_of_bytes_need_not_be_utf8() {
    let file = [entry(b"\xff.a", b"\xff", b'0'), end()].concat();
    let outcome = outcome(&Setup::new(&[("fields", "a"), ("key", "false")]), &file);
    assert_eq!(outcome.records, [[Some(b"\xff".to_vec())]]);
}

/// After a damaged header, the open sample and the first sample that is found are dropped.
#[test]
fn damaged_headers() {
    let valid = with_third_sample(&[file("three.a", b"1"), file("three.b", b"2")]);
    let what = |at| {
        format!(
            "at +{at}: expected a tar header, found a block whose bytes add up to 3613 where it says \
             3614; this is not tar, or it is damaged here or before"
        )
    };
    for (block, kept, place, passed, message) in [
        // The first member of three: two is open, `three.b` is found first, so three is dropped,
        // too.
        (8, ["one", "four", "five"], 4, 8, format!("sample `two`, {}", what(4 * BLOCK))),
        // The second member of three: three is open, and four is found first.
        (10, ["one", "two", "five"], 8, 8, format!("sample `three`, {}", what(2 * BLOCK))),
    ] {
        let mut file = valid.clone();
        file[block * BLOCK + 99] ^= 1;
        let message = message.replace("3614", &sum_of(&valid, block).to_string());
        let message = message.replace("3613", &sum_of(&file, block).to_string());
        let (keys, errors) = keys_and_errors("a,b", &file);
        assert_eq!(keys, kept);
        assert_eq!(errors, [(place, passed, message)]);
    }
}

/// The checksum of a header; its own bytes count as blanks.
fn sum_of(file: &[u8], block: usize) -> u32 {
    let block = &file[block * BLOCK..][..BLOCK];
    let sum = |bytes: &[u8]| bytes.iter().map(|byte| u32::from(*byte)).sum::<u32>();
    sum(block) - sum(&block[148..156]) + 8 * 32
}

#[test]
fn a_file_that_is_not_tar() {
    let (keys, errors) = keys_and_errors("a", &[b'x'; 5 * BLOCK]);
    assert!(keys.is_empty());
    let message = "at +0: expected a tar header, found a block whose bytes add up to 60736 where it \
                   says no number; this is not tar, or it is damaged here or before";
    assert_eq!(errors, [(0, 5, message.to_owned())]);
}

#[test]
fn invalid_headers() {
    let mut no_size = header(b"three.a", 0, b'0');
    no_size[124..136].copy_from_slice(b"no size here");
    crate::write::sum(&mut no_size);
    let cases: [(Vec<Vec<u8>>, &str); 8] = [
        (vec![vec![0; BLOCK]], "expected a tar header, or two blocks of zeros"),
        (vec![no_size.to_vec()], "expected a tar header, found one without a size"),
        (vec![entry(b"three.a", b"", b'S')], "found a file with holes"),
        (vec![pax(&[("GNU.sparse.major", "1")]), file("three.a", b"")], "found a file with holes"),
        (vec![entry(b"x", b"12 path=three", b'x'), file("a", b"")], "expected records of pax"),
        (vec![entry(b"x", b"9999 path=a\n", b'x'), file("a", b"")], "expected records of pax"),
        (
            vec![entry(b"g", &pax_text(&[("path", "b.a")]), b'g'), file("a", b"")],
            "expected nothing of path in records of pax that are for all members",
        ),
        (
            vec![entry(b"x", &vec![b'1'; 990_000], b'x'), file("a", b"")],
            "expected no more than 960 KiB of headers for a member, found 990000 bytes or more",
        ),
    ];
    for (members, start) in cases {
        let (keys, errors) = keys_and_errors("a,b", &with_third_sample(&members));
        // Two was open, and four is found first.
        assert_eq!(keys, ["one", "five"], "{start}");
        let [(4, _, message)] = &errors[..] else { panic!("{errors:?}") };
        let wanted = format!("sample `two`, at +{}: {start}", 4 * BLOCK);
        let found = message.replace(&format!("at +{}", 5 * BLOCK), &format!("at +{}", 4 * BLOCK));
        let found = found.replace(&format!("at +{}", 6 * BLOCK), &format!("at +{}", 4 * BLOCK));
        assert!(found.starts_with(&wanted), "{message}");
    }
}

#[test]
fn samples_larger_than_max_record() {
    let message = |size| {
        format!(
            "sample `three` of {size} bytes or more is larger than max_record (2048 bytes); raise \
             max_record if samples may be that large"
        )
    };
    for members in [
        vec![file("three.a", &[1; 513]), file("three.b", b"2"), file("three.c", b"3")],
        vec![file("three.a", b"1"), file("README", &[2; 600]), file("three.b", &[3; 5000])],
        vec![file("three.a", &[1; 70_000]), file("three.b", b"2")],
        // The search must skip complete blocks, otherwise it reads the long name wrong.
        vec![file("three.a", &[1; 5000]), pax(&[("path", "three.b")]), file("x", b"2")],
        vec![file("three.a", &[1; 512]), file("three.b", b""), file("README", b"r")],
    ] {
        let setup = Setup { max_record: 2048, ..Setup::new(&[("fields", "a,b")]).skipping() };
        let outcome = outcome(&setup, &with_third_sample(&members));
        let keys: Vec<_> = texts(&outcome).into_iter().map(|record| record[0].clone()).collect();
        let [(at, length, text)] = &outcome.errors[..] else { panic!("{:?}", outcome.errors) };
        assert_eq!(keys, ["one", "two", "four", "five"]);
        assert_eq!((*at, *length), (8 * 512, members.concat().len() as u64));
        let size = (2048..80_000).find(|size| *text == message(*size));
        assert!(size.is_some_and(|size| size % 512 == 0 && size > 2048), "{text}");
    }
}

/// The error comes before the bytes of the sample arrive, and no offset overflows.
#[test]
fn sizes_near_the_limit_of_64_bits() {
    for size in [
        b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff",
    ] {
        for name in ["three.a", "three"] {
            let mut huge = header(name.as_bytes(), 0, b'0');
            huge[124..136].copy_from_slice(size);
            crate::write::sum(&mut huge);
            let file = [file("one.a", b"1"), end(), huge.to_vec(), file("four.a", b"")].concat();
            let (keys, errors) = keys_and_errors("a", &file[..]);
            assert_eq!((&keys[..], errors.len()), (&["one".to_owned()][..], 1));
        }
    }
}

/// An archive that is cut short gives the samples before the cut and an error. A cut after a whole
/// member gives no error: only the end mark is missing.
#[test]
fn archives_that_are_cut_short() {
    let whole = [
        file("README", &[1; 1500]),
        file("one.a", b"1"),
        file("two.a", b"2"),
        file("two.b", b"2"),
        end(),
        entry(b"dir/", b"", b'5'),
        file("three.a", b"3"),
        end(),
    ]
    .concat();
    // In blocks: README 0 to 4, one 4 to 6, two 6 to 10, end mark 10 to 12, folder 12, three 13 to
    // 15.
    for length in 0..whole.len() {
        let outcome = outcome(&Setup::new(&[("fields", "a")]), &whole[..length]);
        // Sample one is known to be complete when the header of two is there, or at the end of the
        // input.
        let ended = |at: &&usize| **at <= length;
        let mut wanted = [7, 11, 16].map(|block| block * 512).iter().filter(ended).count();
        // The input ends after the last member of a sample, or after the first of two.
        wanted += usize::from([6, 8, 10, 15].map(|block| block * 512).contains(&length));
        assert_eq!(outcome.records.len(), wanted, "{length}");
        let after_member = [0, 4, 6, 8, 10, 11, 12, 13, 15, 16].map(|block| block * 512);
        let sound = after_member.contains(&length);
        assert_eq!(outcome.errors.is_empty(), sound, "{length}: {:?}", outcome.errors);
    }
}
