//! An archive as one record.

use pipemill_plugin::testing::Setup;
use pipemill_plugin::{Field, Scalar};

use crate::write::{Member, archive, array, deflated, member, numbers};
use crate::{outcome, records, setup};

/// The members of a sample with `count` boxes.
fn members(count: u8) -> Vec<Member> {
    let boxes = array("'<f4'", &format!("({count}, 2)"), &vec![count; 8 * usize::from(count)]);
    vec![
        member("boxes.npy", &boxes),
        member("readme.txt", b"other"),
        deflated(member("image.npy", &array("'|u1'", "(2, 3)", b"abcdef"))),
        member("label.npy", &array("'<i8'", "()", &[count, 0, 0, 0, 0, 0, 0, 0])),
        deflated(member("name.npy", &array("'|S5'", "()", b"cat\0\0"))),
        member("other.npy", &array("'|O'", "()", b"pickle")),
    ]
}

const FIELDS: &str = "image:uint8[2,3],n=label:int64,boxes.npy:float32[0,2],name:bytes";

fn record(count: u8) -> Vec<Vec<u8>> {
    let label = [&[count][..], &[0; 7]].concat();
    vec![b"abcdef".to_vec(), label, vec![count; 8 * usize::from(count)], b"cat".to_vec()]
}

#[test]
fn one_record_for_each_archive() {
    let file = [archive(&members(2)), archive(&members(0)), archive(&members(3))].concat();
    assert_eq!(records(&[("fields", FIELDS)], &file), [record(2), record(0), record(3)]);
    let starts = outcome(&setup(&[("fields", FIELDS)]), &file).starts;
    assert_eq!(
        starts,
        [
            0,
            archive(&members(2)).len() as u64,
            (archive(&members(2)).len() + archive(&members(0)).len()) as u64
        ]
    );
}

#[test]
fn sizes_after_the_data() {
    let streamed = |mut all: Vec<Member>, descriptor| {
        all.retain(|one| one.name != "readme.txt" && one.name != "other.npy");
        for one in &mut all {
            (one.method, one.descriptor, one.zip64) = (0, Some(descriptor), descriptor);
        }
        archive(&all)
    };
    let file = [streamed(members(1), true), streamed(members(2), false)].concat();
    assert_eq!(records(&[("fields", FIELDS)], &file), [record(1), record(2)]);
}

#[test]
fn types_that_are_not_given_are_learned() {
    let file = [archive(&members(2)), archive(&members(2)), archive(&members(1))].concat();
    let outcome = outcome(&setup(&[("fields", "boxes,image,label?,name")]).skipping(), &file);
    let fields = vec![
        Field::new("boxes", Scalar::Float32).shaped([2, 2]),
        Field::new("image", Scalar::Uint8).shaped([2, 3]),
        Field::new("label", Scalar::Int64).nullable(),
        Field::bytes("name"),
    ];
    assert_eq!((outcome.schema, outcome.records.len()), (Some(fields), 2));
    let message = "member `boxes.npy`: expected float32[2,2], as in the first archive, found float32[1,2]; if \
                   it may have any size, give its type in the option `fields`, as in \"x:float32[0,3]\"";
    let [(_, _, found)] = &outcome.errors[..] else { panic!("{:?}", outcome.errors) };
    assert_eq!(found, message);
}

#[test]
fn lists_of_bytes_and_times_are_learned() {
    let tags = |texts: &[u8]| {
        member("tags.npy", &array("'|S2'", &format!("({},)", texts.len() / 2), texts))
    };
    let time = member("time.npy", &array("'<M8[us]'", "()", &[1; 8]));
    let file = [archive(&[tags(b"a\0bc"), time.clone()]), archive(&[tags(b""), time])].concat();
    let outcome = outcome(&setup(&[("fields", "tags,time")]), &file);
    let fields = vec![
        Field::bytes("tags").list(),
        Field::new("time", Scalar::Int64).logical("timestamp[us]"),
    ];
    assert_eq!((outcome.schema, outcome.errors), (Some(fields), vec![]));
    let list = |offsets: &[u8], texts: &[u8]| {
        let mut list: Vec<u8> = offsets.iter().flat_map(|offset| [*offset, 0, 0, 0]).collect();
        list.extend(texts);
        vec![Some(list), Some(vec![1; 8])]
    };
    assert_eq!(outcome.records, [list(&[12, 13, 15], b"abc"), list(&[4], b"")]);
    let outcome = crate::outcome(&setup(&[("fields", "tags:bytes[],time")]), &file);
    assert_eq!((outcome.records.len(), outcome.errors), (2, vec![]));
}

#[test]
fn arrays_that_may_be_missing() {
    let fields = "image:uint8[2,3]?,label:int64?";
    let file = [
        archive(&members(2)[..3]),
        archive(&members(2)[3..]),
        archive(&[]),
        archive(&members(2)[5..]),
    ]
    .concat();
    let outcome = outcome(&setup(&[("fields", fields)]), &file);
    assert_eq!(outcome.errors, []);
    let label = Some(vec![2, 0, 0, 0, 0, 0, 0, 0]);
    let records = [[Some(b"abcdef".to_vec()), None], [None, label], [None, None], [None, None]];
    assert_eq!(outcome.records, records);
    let outcome = crate::outcome(&setup(&[("fields", "image,label?")]), &file);
    assert!(outcome.refused);
    assert_eq!(
        outcome.errors[0].2,
        "expected the array `label` in the first archive, to learn its type; give it in the option `fields`, as \
         in \"label:float32[3]?\""
    );
}

/// The errors of an archive between two good ones. Both good ones are read.
fn errors_for(fields: &str, bad: &[Member]) -> Vec<(u64, u64, String)> {
    let good = archive(&members(2));
    let bad = archive(bad);
    let file = [&good[..], &bad, &good].concat();
    let outcome = outcome(&setup(&[("fields", fields)]).skipping(), &file);
    assert_eq!(outcome.records.len(), 2, "{:?}", outcome.errors);
    let place = |(at, length, text): (u64, u64, String)| {
        assert!(at >= good.len() as u64 && at + length <= (good.len() + bad.len()) as u64);
        (at - good.len() as u64, length, text)
    };
    outcome.errors.into_iter().map(place).collect()
}

/// The message for an archive in which one member is replaced.
fn message_with(index: usize, other: Member) -> String {
    let mut all = members(2);
    all[index] = other;
    let members: usize = all.iter().map(|one| one.bytes().len()).sum();
    let errors = errors_for(FIELDS, &all);
    let [(0, length, message)] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!(*length, members as u64);
    message.clone()
}

#[test]
fn samples_that_can_not_be_records() {
    let [(0, _, message)] = &errors_for(FIELDS, &members(2)[..3])[..] else { panic!("one error") };
    assert_eq!(
        message,
        "expected an array `label`, found only: boxes, image; mark it with `?` if archives may lack it"
    );
    let [(_, _, message)] = &errors_for(FIELDS, &members(2)[5..])[..] else { panic!("one error") };
    assert_eq!(
        message,
        "expected an array `image`, found only: other; mark it with `?` if archives may lack it"
    );
    let label =
        |descr: &str, shape: &str, data: &[u8]| member("label.npy", &array(descr, shape, data));
    assert_eq!(
        message_with(3, label("'<i4'", "()", b"aaaa")),
        "member `label.npy`: expected int64, found int32"
    );
    assert_eq!(
        message_with(3, label("'<i8'", "(1,)", &[0; 8])),
        "member `label.npy`: expected int64, found int64[1]"
    );
    assert_eq!(
        message_with(3, label("'<M8[s]'", "()", &[0; 8])),
        "member `label.npy`: expected int64, found int64 (timestamp[s])"
    );
    let boxes = |shape: &str, count: usize| {
        member("boxes.npy", &array("'<f4'", shape, &vec![0; count * 4]))
    };
    assert_eq!(
        message_with(0, boxes("(2, 3)", 6)),
        "member `boxes.npy`: expected float32[0,2], found float32[2,3]"
    );
    assert_eq!(
        message_with(0, boxes("(4,)", 4)),
        "member `boxes.npy`: expected float32[0,2], found float32[4]"
    );
    assert_eq!(
        message_with(0, boxes("(2, 2)", 5)),
        "member `boxes.npy`: expected 86 bytes for an array of shape (2, 2), found 90"
    );
    let name = |shape: &str, data: &[u8]| member("name.npy", &array("'|S1'", shape, data));
    assert_eq!(
        message_with(4, name("(2,)", b"ab")),
        "member `name.npy`: expected bytes, found bytes[]"
    );
    assert_eq!(
        message_with(1, member("label.npy", &array("'<i8'", "()", &[0; 8]))),
        "member `label.npy`: it comes twice; each array may come once in an archive"
    );
    for one in [members(2)[3].clone(), deflated(members(2)[3].clone())] {
        let message = message_with(3, Member { wrong_crc: 1, ..one.clone() });
        assert!(message.starts_with("member `label.npy`: expected the CRC-32 "), "{message}");
        assert!(message.ends_with(", found another; the array is damaged"), "{message}");
    }
    let one = deflated(members(2)[3].clone());
    let size = one.data.len();
    for (wrong_size, found) in [
        (1, size.to_string()),
        (u64::MAX, size.to_string()),
        (u64::MAX - 1, format!("{} or more", size - 1)),
    ] {
        let wrong = size.wrapping_add(wrong_size as usize);
        assert_eq!(
            message_with(3, Member { wrong_size, ..one.clone() }),
            format!(
                "member `label.npy`: expected {wrong} bytes after decompression, found {found}"
            )
        );
    }
    let text = message_with(3, member("label.npy", b"text"));
    assert_eq!(
        text,
        "member `label.npy`: expected an array, whose header has at least 6 bytes, found 4 bytes"
    );
    let text = message_with(3, member("label.npy", b"some text"));
    assert!(
        text.starts_with("member `label.npy`: expected an array of NumPy, which starts with"),
        "{text}"
    );
    assert_eq!(
        message_with(3, Member { wrong_size: 2, ..members(2)[3].clone() }),
        format!(
            "member `label.npy`: expected stored data to have one size, found {size} and {} bytes",
            size + 2
        )
    );
}

#[test]
fn booleans_are_checked() {
    let ok = |byte: u8| archive(&[member("ok.npy", &array("'|b1'", "(2,)", &[1, byte]))]);
    let file = [ok(0), ok(3), ok(1)].concat();
    let outcome = outcome(&setup(&[("fields", "ok:bool[2]")]).skipping(), &file);
    assert_eq!(outcome.records.len(), 2);
    assert_eq!(
        outcome.errors[0].2,
        "field `ok`: expected a boolean, 0 or 1, found 3 at byte 1 of the record"
    );
}

#[test]
fn samples_larger_than_max_record() {
    let good = members(2);
    let large =
        [&good[..1], &[member("large.npy", &array("'|u1'", "(3000,)", &[1; 3000]))], &good[1..]]
            .concat();
    let inflating =
        [&good[..], &[deflated(member("zeros.npy", &array("'|u1'", "(30000,)", &[1; 30000])))]]
            .concat();
    for (fields, bad, last, size) in [
        (FIELDS, large, "large.npy", 3235),
        ("image,label,zeros?,boxes,name", inflating, "zeros.npy", 30219),
    ] {
        let file = [archive(&good), archive(&bad), archive(&good)].concat();
        let fields = fields.replace("zeros?", "zeros:uint8[]?");
        let setup = Setup { max_record: 2000, ..setup(&[("fields", &fields)]).skipping() };
        let outcome = outcome(&setup, &file);
        assert_eq!(outcome.records.len(), 2, "{:?}", outcome.errors);
        let [(at, _, message)] = &outcome.errors[..] else { panic!("{:?}", outcome.errors) };
        assert_eq!(*at, archive(&good).len() as u64);
        assert_eq!(
            *message,
            format!(
                "the members of the archive, up to `{last}`, have {size} bytes, more than max_record (2000 bytes); \
                 raise max_record if archives may be that large"
            )
        );
    }
}

#[test]
fn what_is_refused() {
    let refusal = |fields: &str, members: &[Member]| {
        let outcome = outcome(&setup(&[("fields", fields)]).skipping(), &archive(members));
        assert!(outcome.refused && outcome.records.is_empty(), "{:?}", outcome.errors);
        outcome.errors[0].2.clone()
    };
    let x = |descr: &str, shape: &str, size| member("x.npy", &array(descr, shape, &vec![0; size]));
    let start = "member `x.npy`: expected an array that can be a field, found one with ";
    assert_eq!(
        refusal("x", &[x("'<U2'", "()", 8)]),
        format!("{start}text in UTF-32 (`<U2`); save the array as np.char.encode(x, 'utf-8')")
    );
    assert_eq!(
        refusal("x", &[x("[('a', '<i4')]", "()", 4)]),
        format!(
            "{start}members (a structured type), which can't be one field; save an array for each member"
        )
    );
    assert_eq!(
        refusal("x", &[x("'<f4'", "(0, 4)", 0)]),
        "expected an array `x` with elements in the first archive, to learn its shape, found float32[0,4]; give \
         it in the option `fields`, as in \"x:float32[0,4]\""
    );
    assert_eq!(
        refusal("x:float32", &[Member { flags: 1, ..x("'<f4'", "()", 4) }]),
        "member `x.npy`: expected data that is not encrypted"
    );
    assert_eq!(
        refusal("x:float32", &[Member { method: 93, ..x("'<f4'", "()", 4) }]),
        "member `x.npy`: expected data that is stored or deflated, found zstd"
    );
    let streamed = deflated(Member { descriptor: Some(true), ..x("'<f4'", "()", 4) });
    assert_eq!(
        refusal("x:float32", &[streamed]),
        "member `x.npy`: expected its size before its data, found it after deflated data, whose end can't be \
         seen: it was written to a pipe; write it to a file, or with np.savez, without compression"
    );
    let _ = numbers(0);
}
