//! A batch in memory of its own: its layout is that of a slot, and nobody can change it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;

use pipemill_ring::host::{BatchInfo, Column, RingError, SealedBatch};
use pipemill_ring::layout::{ABSENT, Header, Place, stride, table_bytes};
use pipemill_types::{BatchPosition, Even};

fn info(payload_bytes: usize) -> BatchInfo<'static> {
    let position =
        BatchPosition { object: "a.csv".to_owned(), first_record: 7, ..BatchPosition::default() };
    BatchInfo { position, payload_bytes, has_absent: true, ..BatchInfo::default() }
}

#[test]
fn it_has_the_layout_of_a_slot_and_is_sealed() {
    let mut batch = SealedBatch::create("test", 5, 5, 3, 2).expect("some memory");
    batch.payload()[..5].copy_from_slice(b"abcde");
    let columns = [
        Column::of_lists(vec![0, 2], vec![2, 3]),
        Even { first: 1, size: 2, records: 2 }.into(),
        Column::of_lists(vec![1, ABSENT], vec![4, 0]),
    ];
    let memory = batch.seal(3, &info(5), &columns).expect("it fits");
    let mut file = File::from(memory.fd().try_clone().expect("a descriptor"));
    assert!(file.write(b"x").is_err());
    assert!(file.set_len(0).is_err());
    let mut read = Vec::new();
    file.read_to_end(&mut read).expect("memory");
    let read = &read[..memory.bytes() as usize];
    let header = Header::decode(read).expect("a batch");
    assert_eq!((header.batch, header.records, header.fields, header.first_record), (3, 2, 3, 7));
    assert!(header.has_absent);
    assert_eq!(header.object(read), Ok("a.csv"));
    assert_eq!(&header.payload(read).expect("a payload")[..5], b"abcde");
    let place = |field| header.place(read, field).expect("a field");
    assert_eq!(place(0), Place::Listed { offsets: &[0, 2], lengths: &[2, 3] });
    assert_eq!(place(1), Place::Even(Even { first: 1, size: 2, records: 2 }));
    assert_eq!(place(2), Place::Listed { offsets: &[1, ABSENT], lengths: &[4, 0] });
    assert_eq!(read.len(), header.index_at as usize + table_bytes(3) + 4 * stride(2));
}

#[test]
fn what_does_not_fit_is_refused() {
    let too_large = SealedBatch::create("test", u32::MAX as usize, 0, 1, 1);
    assert!(matches!(too_large, Err(RingError::TooLarge { .. })));
    let too_many = SealedBatch::create("test", 1, 0, usize::MAX / 8, 2);
    assert!(matches!(too_many, Err(RingError::TooLarge { .. })));
    let batch = SealedBatch::create("test", 1, 0, 1, 1).expect("some memory");
    let uneven = [Column::of_lists(vec![0], Vec::new())];
    assert!(matches!(batch.seal(0, &info(1), &uneven), Err(RingError::Columns { .. })));
}

#[test]
fn it_grows_for_names_and_records_that_were_not_counted() {
    let batch = SealedBatch::create("test", 1, 0, 0, 0).expect("some memory");
    let column = Column::of_lists(vec![0; 9000], vec![1; 9000]);
    let memory = batch.seal(0, &info(1), &[column]).expect("it grows");
    assert!(memory.bytes() > 72_000);
}

#[test]
fn its_memory_can_have_another_batch() {
    let mut batch = SealedBatch::create("test", 3, 5, 1, 1).expect("some memory");
    batch.payload()[..3].copy_from_slice(b"abc");
    let column = |length| [Column::of_lists(vec![0], vec![length])];
    let memory = batch.seal(0, &info(3), &column(3)).expect("it fits");
    let (fd, size) = (memory.fd(), memory.size());
    let mut batch = SealedBatch::again("test", memory);
    batch.payload()[..2].copy_from_slice(b"xy");
    let memory = batch.seal(1, &info(2), &column(2)).expect("it fits");
    assert_eq!((memory.fd().as_raw_fd(), memory.size()), (fd.as_raw_fd(), size));
    let mut read = Vec::new();
    File::from(fd.try_clone().expect("a descriptor")).read_to_end(&mut read).expect("memory");
    let header = Header::decode(&read).expect("a batch");
    assert_eq!((header.batch, header.payload(&read)), (1, Ok(&b"xy"[..])));
}
