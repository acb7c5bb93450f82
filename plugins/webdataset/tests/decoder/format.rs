//! All forms of tar, and the members that form a sample.

use pipemill_plugin::testing::Setup;

use crate::write::{BLOCK, end, entry, file, header, pax, pax_text, sum};
use crate::{outcome, texts};

/// The samples in an archive of these members, with the fields `a` and `b`.
fn samples(members: &[Vec<u8>]) -> Vec<Vec<String>> {
    let file = [members.concat(), end()].concat();
    let outcome = outcome(&Setup::new(&[("fields", "a?,b?")]), &file);
    assert_eq!(outcome.errors, []);
    texts(&outcome)
}

#[test]
fn members_with_one_key() {
    let members = [
        file("one.a", b"1a"),
        file("one.b", b"1b"),
        file("two.b", &[b'x'; 513]),
        file("dir.a/three.a", b""),
        file("dir.a/three.b", &[b'y'; 512]),
        file("one.a", b"again"),
    ];
    let (x, y) = ("x".repeat(513), "y".repeat(512));
    let wanted =
        [["one", "1a", "1b"], ["two", "-", &x], ["dir.a/three", "", &y], ["one", "again", "-"]];
    assert_eq!(samples(&members), wanted);
}

#[test]
fn extensions() {
    let file = [file("k.SEG.png", b"1"), file("k.jpeg", b"2"), file("k.txt", b"3"), end()].concat();
    let all = |fields: &str| texts(&outcome(&Setup::new(&[("fields", fields)]), &file));
    assert_eq!(all("txt,seg.png"), [["k", "3", "1"]]);
    assert_eq!(all(".Txt:utf8,.seg.PNG"), [["k", "3", "1"]]);
    assert_eq!(all("image=jpg;jpeg;txt,png?"), [["k", "2", "-"]]);
    let setup = Setup::new(&[("fields", "txt"), ("key", "false")]);
    assert_eq!(texts(&outcome(&setup, &file)), [["3"]]);
}

#[test]
fn entries_that_belong_to_no_sample() {
    let members = [
        entry(b"dir/", b"", b'5'),
        file("README", &[b'r'; 5000]),
        file("one.a", b"1a"),
        file("dir/README", &[b'r'; 600]),
        entry(b"one.b", b"", b'2'),
        file("__index__", b"meta"),
        file("__meta__/one.a", b"meta"),
        entry(b"one.b", b"volume", b'V'),
        file("one.b", b"1b"),
        file("ABOUT", b""),
    ];
    assert_eq!(samples(&members), [["one", "1a", "1b"]]);
    assert_eq!(samples(&members[..2]), [[""; 3]; 0]);
    assert_eq!(samples(&[]), [[""; 3]; 0]);
}

/// A link has no data, even if its header has the size of the file that it links to.
#[test]
fn links_have_no_data() {
    let link = header(b"one.b", 100_000, b'1').to_vec();
    assert_eq!(
        samples(&[file("one.a", b"1"), link, file("two.a", b"2")]),
        [["one", "1", "-"], ["two", "2", "-"]]
    );
}

/// Before ustar, a directory was a file whose name ends with a slash. Its size has no meaning.
#[test]
fn old_directories_have_no_data() {
    let mut directory = header(b"dir/", 100_000, 0);
    directory[257..265].fill(0);
    sum(&mut directory);
    assert_eq!(
        samples(&[directory.to_vec(), file("one.a", b"1"), file("two.a", b"2")]),
        [["one", "1", "-"], ["two", "2", "-"]]
    );
}

/// GNU tar, tarfile and others read such an archive, too.
#[test]
fn archives_without_an_end_mark() {
    let setup = Setup::new(&[("fields", "a")]);
    let members = [file("one.a", b"1"), file("two.a", b"2")].concat();
    let last = outcome(&setup, &members);
    assert_eq!(texts(&last), [["one", "1"], ["two", "2"]]);
    let metadata = [members, file("README", &[b'r'; 5000])].concat();
    assert_eq!(outcome(&setup, &metadata), last);
}

#[test]
fn concatenated_archives() {
    let first = [file("one.a", b"1"), file("two.a", b"2"), vec![0; 7 * BLOCK]].concat();
    // The same key in the next archive starts another sample.
    let second = [file("two.b", b"3"), vec![0; BLOCK]].concat();
    let wanted = [["one", "1", "-"], ["two", "2", "-"], ["two", "-", "3"]];
    assert_eq!(samples(&[first, second]), wanted);
}

#[test]
fn long_names_and_sizes_of_pax() {
    let long = format!("{}/one.a", "d/".repeat(200));
    let key = long.strip_suffix(".a").expect("ends so");
    let mut bare = header(b"short.b", 0, b'0').to_vec();
    bare.extend_from_slice(&file("data", b"sized")[BLOCK..]);
    let members = [
        pax(&[("mtime", "1.5"), ("path", &long), ("comment", "")]),
        file("d/short.b", b"1"),
        pax(&[("size", "5"), ("path", &long.replace("one.a", "one.b"))]),
        bare,
        // An empty value removes the path.
        pax(&[("path", "other.a"), ("path", ""), ("size", "9"), ("size", "")]),
        file("own.a", b"2"),
        entry(b"pax_global_header", &pax_text(&[("comment", "cafe")]), b'g'),
        file("own.b", b"3"),
    ];
    assert_eq!(samples(&members), [[key, "1", "sized"], ["own", "2", "3"]]);
}

#[test]
fn long_names_of_gnu() {
    let long = format!("{}/one.a\0", "d".repeat(600));
    let key = long.strip_suffix(".a\0").expect("ends so");
    let members = [
        entry(b"././@LongLink", b"somewhere\0", b'K'),
        entry(b"././@LongLink", long.as_bytes(), b'L'),
        file("dddd", b"1"),
        file("two.a", b"2"),
    ];
    assert_eq!(samples(&members), [[key, "1", "-"], ["two", "2", "-"]]);
}

/// The header has the first 100 bytes of a long name. If they end with a slash, it is not a folder.
#[test]
fn long_names_cut_at_a_slash() {
    let cut = format!("{}/", "d".repeat(99));
    let long = format!("{cut}one.a\0");
    let members = [entry(b"././@LongLink", long.as_bytes(), b'L'), entry(cut.as_bytes(), b"1", 0)];
    assert_eq!(samples(&members), [[&long[..103], "1", "-"]]);
}

/// The member with these bytes at `at` of its header, and with the right checksum.
fn with(mut member: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    let block = member.first_chunk_mut::<BLOCK>().expect("has a header");
    block[at..at + bytes.len()].copy_from_slice(bytes);
    sum(block);
    member
}

#[test]
fn prefixes() {
    let split = |name: &str| with(file(name, b"1"), 345, b"a/long.way");
    assert_eq!(samples(&[split("one.a"), split("one.b")]), [["a/long.way/one", "1", "1"]]);
    // GNU tar has times in the place of the prefix.
    let gnu = with(split("one.a"), 257, b"ustar  \0");
    assert_eq!(samples(&[gnu]), [["one", "1", "-"]]);
    // The key is the prefix and the extension is the name.
    assert_eq!(samples(&[with(file(".a", b"1"), 345, b"folder")]), [["folder/", "1", "-"]]);
}

#[test]
fn headers_older_than_posix() {
    let v7 = |member| with(member, 257, &[0; 8]);
    let members = [v7(entry(b"dir.a/", b"", 0)), v7(entry(b"one.a", b"1", 0)), file("one.b", b"2")];
    assert_eq!(samples(&members), [["one", "1", "2"]]);
    assert_eq!(samples(&[entry(b"one.a", b"1", b'7')]), [["one", "1", "-"]]);
}

#[test]
fn all_forms_of_numbers() {
    let sized = |field: &[u8; 12]| with(file("one.a", b"12345"), 124, field);
    for field in [
        b"          5 ",
        b"000000000005",
        b"5\0\0\0\0\0\0\0\0\0\0\0",
        b"\x80\0\0\0\0\0\0\0\0\0\0\x05",
    ] {
        assert_eq!(samples(&[sized(field)]), [["one", "12345", "-"]]);
    }
    // The checksum of a writer that adds up signed bytes.
    let mut member = file("ä.a", b"1");
    let mut sum = 0i32;
    member[148..156].fill(b' ');
    for byte in &member[..BLOCK] {
        sum += i32::from(*byte as i8);
    }
    member[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    assert_eq!(samples(&[member]), [["ä", "1", "-"]]);
}

#[test]
fn offsets_of_samples() {
    let readme = file("README", b"");
    let named = [pax(&[("path", "two.a")]), file("x", b"2")].concat();
    let file = [readme.clone(), file("one.a", b"1"), readme, named, end()].concat();
    let outcome = outcome(&Setup::new(&[("fields", "a")]), &file);
    assert_eq!(outcome.starts, [512, 4 * 512]);
}
