//! The message of each error of rows and of archives, and where decoding continues. The errors of
//! samples are in `samples`.

use pipemill_npz::Npz;
use pipemill_plugin::testing::{Outcome, Setup, decode_whole};

use crate::write::{Member, archive, array, deflated, directory, member, numbers};
use crate::{outcome, setup};

fn x() -> Member {
    member("x.npy", &array("'<i2'", "(3, 2)", &numbers(6)))
}

/// The outcome of an archive with these members between two good ones, and the size of a good one.
/// All rows of the good ones are read.
fn between(bad: &[u8]) -> (Outcome, u64) {
    let good = archive(&[x()]);
    let file = [&good[..], bad, &good].concat();
    let outcome = outcome(&setup(&[]).skipping(), &file);
    assert!(outcome.records.len() >= 6, "{:?}", outcome.errors);
    (outcome, good.len() as u64)
}

/// The message for an archive of one member, which is skipped completely.
fn message_for(bad: &Member) -> String {
    let (outcome, start) = between(&archive(std::slice::from_ref(bad)));
    let [(at, length, message)] = &outcome.errors[..] else { panic!("{:?}", outcome.errors) };
    assert_eq!(outcome.records.len(), 6);
    // Its descriptor is skipped after it.
    let descriptor = match (bad.descriptor, bad.zip64) {
        (None, _) => 0,
        (Some(signature), zip64) => 4 * usize::from(signature) + if zip64 { 20 } else { 12 },
    };
    assert_eq!((*at, *length), (start, (bad.bytes().len() - descriptor) as u64), "{message}");
    message.clone()
}

#[test]
fn members_that_are_not_valid() {
    for way in 0..3 {
        let form = |one: Member| match way {
            0 => one,
            1 => deflated(one),
            _ => Member { descriptor: Some(true), zip64: true, ..one },
        };
        let other = form(member("x.npy", &array("'<i4'", "(3,)", &[0; 12])));
        assert_eq!(
            message_for(&other),
            "member `x.npy`: expected rows of x:int16[2], as before in this input, found rows of x:int32"
        );
        let other = form(Member { name: "y.npy".to_owned(), ..x() });
        assert_eq!(
            message_for(&other),
            "member `y.npy`: expected rows of x:int16[2], as before in this input, found rows of y:int16[2]"
        );
        let text = form(member("x.npy", b"some text"));
        if way < 2 {
            let message = message_for(&text);
            assert!(message.starts_with("member `x.npy`: expected an array of NumPy"), "{message}");
        }
    }
    for form in [|one| one, deflated] {
        assert_eq!(
            message_for(&form(member("x.npy", b"\x93NUMPY\x01"))),
            "member `x.npy`: expected an array, whose header has at least 8 bytes, found 7 bytes"
        );
        for (shape, size) in [("(4, 2)", "80"), ("(2, 2)", "72"), ("(0, 2)", "64")] {
            let short = array("'<i2'", shape, &numbers(6));
            let size: usize = size.parse().expect("a number");
            let message = message_for(&form(member("x.npy", &short)));
            let whole = size - 64 + short.len() - 12;
            assert_eq!(
                message,
                format!(
                    "member `x.npy`: expected {whole} bytes for an array of shape {shape}, found {}",
                    short.len()
                )
            );
        }
    }
    let size = x().data.len();
    assert_eq!(
        message_for(&Member { wrong_size: 1, ..x() }),
        format!(
            "member `x.npy`: expected stored data to have one size, found {size} and {} bytes",
            size + 1
        )
    );
    let mut damaged = deflated(x());
    damaged.data.truncate(size - 1);
    damaged.wrong_size = 1;
    assert_eq!(
        message_for(&damaged),
        format!("member `x.npy`: expected {size} bytes after decompression, found {}", size - 1)
    );
    damaged.data.extend([1, 2, 3]);
    damaged.wrong_size = u64::MAX - 1;
    assert_eq!(
        message_for(&damaged),
        format!("member `x.npy`: expected {size} bytes after decompression, found {size} and more")
    );
}

#[test]
fn checksums() {
    for (bad, rows, length) in [
        (Member { wrong_crc: 1, ..x() }, 2, 4),
        (Member { wrong_crc: 1, descriptor: Some(true), ..x() }, 2, 20),
        (deflated(Member { wrong_crc: 1, ..x() }), 0, deflated(x()).bytes().len()),
        (Member { wrong_crc: 1, ..member("x.npy", &array("'<i2'", "(0, 2)", b"")) }, 0, 99),
    ] {
        let (outcome, start) = between(&archive(std::slice::from_ref(&bad)));
        assert_eq!(outcome.records.len(), 6 + rows);
        let [(at, found, message)] = &outcome.errors[..] else { panic!("{:?}", outcome.errors) };
        assert!(*at >= start && (*found == length as u64 || length == 99), "{message}");
        assert!(message.starts_with("member `x.npy`: expected the CRC-32 "), "{message}");
        let file = archive(std::slice::from_ref(&bad));
        let outcome = crate::outcome(&setup(&[("verify", "false")]), &file);
        assert_eq!(outcome.errors, []);
    }
    let descriptor = Member { wrong_size: 3, descriptor: Some(true), ..x() };
    let (outcome, _) = between(&archive(&[descriptor]));
    let size = x().data.len();
    assert_eq!(
        outcome.errors[0].2,
        format!(
            "member `x.npy`: expected sizes of {size} bytes after the data, found {size} and {}",
            size + 3
        )
    );
}

#[test]
fn rows_that_are_not_valid() {
    let bools =
        |rows: &[u8]| member("b.npy", &array("'|b1'", &format!("({}, 2)", rows.len() / 2), rows));
    let message = |row, found, byte| {
        format!(
            "member `b.npy`: row {row}: field `b`: expected a boolean, 0 or 1, found {found} at byte {byte} of the record"
        )
    };
    let one = bools(&[0, 1, 1, 7, 1, 1, 9, 0]);
    let outcome = outcome(&setup(&[]).skipping(), &archive(std::slice::from_ref(&one)));
    let texts: Vec<_> =
        outcome.errors.iter().map(|(_, length, text)| (*length, text.clone())).collect();
    assert_eq!(
        (outcome.records.len(), texts),
        (2, vec![(2, message(1, 7, 1)), (2, message(3, 9, 0))])
    );
    // The position of rows in the deflated data is unknown, so the rest of the member is skipped.
    let one = deflated(one);
    let outcome = crate::outcome(&setup(&[]).skipping(), &archive(std::slice::from_ref(&one)));
    let texts: Vec<_> =
        outcome.errors.iter().map(|(_, length, text)| (*length, text.clone())).collect();
    assert_eq!(
        (outcome.records.len(), texts),
        (1, vec![(one.bytes().len() as u64, message(1, 7, 1))])
    );
}

#[test]
fn members_larger_than_max_record() {
    let wide = member("x.npy", &array("'|u1'", "(2, 500)", &[1; 1000]));
    let noise: Vec<u8> = (0..1000u32).map(|n| (n.wrapping_mul(0x9e37_79b1) >> 13) as u8).collect();
    let long = deflated(member("x.npy", &array("'|u1'", "(200, 5)", &noise)));
    let small = member("x.npy", &array("'|u1'", "(2, 5)", &[1; 10]));
    let deflated_size = long.bytes().len() - 35;
    for (bad, message) in [
        (&wide, "member `x.npy`: rows of 500 bytes are larger than max_record (400 bytes); raise max_record".to_owned()),
        (
            &deflated(wide.clone()),
            "member `x.npy`: rows of 500 bytes are larger than max_record (400 bytes); raise max_record".to_owned(),
        ),
        (
            &long,
            format!(
                "member `x.npy`: deflated data of {deflated_size} bytes is larger than max_record (400 bytes); \
                 raise max_record, or write the archive with np.savez, without compression"
            ),
        ),
    ] {
        let file = [archive(std::slice::from_ref(bad)), archive(std::slice::from_ref(&small))].concat();
        let setup = Setup { max_record: 400, ..setup(&[]).skipping() };
        let outcome = outcome(&setup, &file);
        assert_eq!(outcome.errors, [(0, bad.bytes().len() as u64, message)]);
        assert_eq!(outcome.records.len(), 2);
    }
}

#[test]
fn arrays_that_come_twice() {
    let file = archive(&[x(), member("text", b""), x()]);
    let outcome = outcome(&setup(&[("array", "x")]).skipping(), &file);
    assert_eq!(outcome.records.len(), 3);
    let message = "member `x.npy`: it comes twice; each array may come once in an archive";
    assert_eq!(outcome.errors[0].2, message);
    let outcome = crate::outcome(&setup(&[]).skipping(), &file);
    assert!(outcome.refused);
    assert_eq!(
        outcome.errors[0].2,
        "expected one array in the archive, found `x` and `x`; name the one whose rows you want, as in array = \
         \"x\", or set `fields` to make one record of the archive"
    );
}

#[test]
fn directories_that_do_not_fit() {
    let members = x().bytes();
    let size = members.len();
    let entry = 46 + 5 + 2;
    let end = "; the archive is damaged, or was changed after it was written";
    for (directory, message) in [
        (
            directory(&["x.npy", "y.npy"], size, false),
            "expected 1 members, as were read, found 2 entries in the directory".to_owned(),
        ),
        (
            directory(&[], size, false),
            "expected 1 members, as were read, found 0 entries in the directory".to_owned(),
        ),
        (
            directory(&["x.npy"], size + 1, false),
            format!(
                "expected {size} bytes before the directory, as were read, found {} of them by its last record",
                size + 1
            ),
        ),
        (
            directory(&["x.npy"], size + 1, true),
            format!(
                "expected {size} bytes before the directory, as were read, found {} of them by its last record",
                size + 1
            ),
        ),
        (
            {
                let mut directory = directory(&["x.npy"], size, false);
                directory[entry + 12] += 1;
                directory
            },
            format!(
                "expected {entry} bytes of entries, as were read, found {} of them by its last record",
                entry + 1
            ),
        ),
        (
            {
                let mut directory = directory(&["x.npy"], size, false);
                directory[entry + 10] += 1;
                directory
            },
            "expected 1 members, as were read, found 2 of them by its last record".to_owned(),
        ),
    ] {
        let (outcome, start) = between(&[&members[..], &directory].concat());
        assert_eq!(outcome.records.len(), 9);
        let [(at, length, text)] = &outcome.errors[..] else { panic!("{:?}", outcome.errors) };
        assert_eq!(*text, format!("{message}{end}"));
        // The last record.
        assert_eq!((at + length, *length), (start + (size + directory.len()) as u64, 25));
    }
}

#[test]
fn what_is_no_archive() {
    let message = |file: &[u8]| {
        let outcome = outcome(&setup(&[]), file);
        let [(at, 0, text)] = &outcome.errors[..] else { panic!("{:?}", outcome.errors) };
        (*at, text.clone())
    };
    let expected = "expected a header of a zip archive, found";
    assert_eq!(message(b"\x93NUMBER\0"), (0, format!("{expected} `\\x93NUM`; this is no .npz")));
    assert_eq!(
        message(b"PK\x01\x02rest"),
        (0, format!("{expected} `PK\\x01\\x02`; this is no .npz"))
    );
    let good = archive(&[x()]);
    let size = good.len() as u64;
    assert_eq!(
        message(&[&good[..], b"extra"].concat()),
        (size, format!("{expected} `extr`; there are bytes after the archive"))
    );
    assert_eq!(
        message(&[&x().bytes()[..], b"extra"].concat()),
        (
            x().bytes().len() as u64,
            format!("{expected} `extr`; the archive is damaged here or before")
        )
    );
    let after_directory =
        [&x().bytes()[..], &directory(&["x.npy"], 0, false)[..53], &x().bytes()].concat();
    assert_eq!(
        message(&after_directory).1,
        format!("{expected} `PK\\x03\\x04`; the archive is damaged here or before")
    );
    let cut = "expected a header of a zip archive, found the end of the input after 2 bytes; the archive is cut short";
    assert_eq!(message(&[&good[..], b"PK"].concat()), (size, cut.to_owned()));
    let empty = decode_whole::<Npz>(&setup(&[]), b"");
    let message = "expected a header of a zip archive, found the end of the input after 0 bytes; the archive is cut short";
    assert_eq!(empty.errors, [(0, 0, message.to_owned())]);
}

/// Each cut gives an error, at an existing byte, and no row that may be damaged.
#[test]
fn archives_that_are_cut_short() {
    let streamed = Member { descriptor: Some(true), ..x() };
    for members in [
        vec![x()],
        vec![streamed],
        vec![deflated(x())],
        vec![member("y.npy", &[1; 9]), x(), member("z.npy", b"")],
    ] {
        let file = archive(&members);
        for length in 1..file.len() {
            let outcome = outcome(&setup(&[("array", "x")]).skipping(), &file[..length]);
            let [(at, skipped, message)] = &outcome.errors[..] else {
                panic!("{length}: {:?}", outcome.errors)
            };
            assert!(message.ends_with("; the archive is cut short"), "{length}: {message}");
            assert_eq!(at + skipped, length as u64);
            assert!(*skipped > 0 && outcome.records.len() <= 3);
        }
    }
}
