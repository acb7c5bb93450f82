//! An index that was written into a slot before the rest of its batch.

use pipemill_ring::host::{BatchInfo, Column, RingError, WriteError, Writer};
use pipemill_types::{BatchMemory, Even};

use crate::setup::{Host, RECORDS, check, config, content, host, next_batch, position};

/// A slot with records, their description, and their index.
fn filled(host: &Host) -> (Writer, BatchInfo<'static>, Column) {
    let mut writer = host.ring.acquire().unwrap();
    let (mut column, mut at) = (Column::default(), 0);
    for record in 0..RECORDS {
        let bytes = content(record, 50 + record as usize);
        writer.payload()[at..at + bytes.len()].copy_from_slice(&bytes);
        column.push(at as u32, bytes.len() as u32);
        at += bytes.len();
    }
    (writer, BatchInfo { position: position(0), payload_bytes: at, ..BatchInfo::default() }, column)
}

fn name_bytes(info: &BatchInfo<'_>) -> usize {
    info.position.object.len()
}

fn write(writer: &mut Writer, info: &BatchInfo<'_>, column: &Column) {
    assert!(writer.write_index(info.payload_bytes, name_bytes(info), std::slice::from_ref(column)));
}

#[track_caller]
fn check_refused(granted: Result<u64, WriteError>) {
    assert!(
        matches!(granted, Err(WriteError::Failed(RingError::Columns { columns: 0, .. }))),
        "{granted:?}"
    );
}

#[test]
fn consumers_find_it_in_the_batch() {
    let host = host(config());
    let mut reader = host.reader(1);
    for unused in [0, 1, 63, 64, 1000] {
        let (mut writer, info, column) = filled(&host);
        let texts = name_bytes(&info) + unused;
        assert!(writer.write_index(info.payload_bytes, texts, &[column]));
        writer.grant(&info, &[]).unwrap();
        let batch = next_batch(&mut reader);
        assert_eq!(batch.records() as u64, RECORDS);
        check(&batch);
    }
}

#[test]
fn it_is_read_back_and_then_counts_no_more() {
    let host = host(config());
    for grants_columns in [false, true] {
        let (mut writer, info, column) = filled(&host);
        assert_eq!(writer.take_index(), None);
        let even = Even { first: 2, size: 7, records: RECORDS as u32 };
        let columns = [even.into(), column.clone(), Column::from(Even { first: 0, ..even })];
        assert!(writer.write_index(info.payload_bytes, name_bytes(&info), &columns));
        let taken = writer.take_index();
        assert_eq!(taken.as_deref(), Some(&columns[..]));
        assert_eq!(taken.unwrap()[0].even(), Some(even));
        write(&mut writer, &info, &column);
        assert_eq!(writer.take_index().as_deref(), Some(std::slice::from_ref(&column)));
        assert_eq!(writer.take_index(), None);
        if grants_columns {
            writer.grant(&info, &[column]).unwrap();
            check(&next_batch(&mut host.reader(1)));
        } else {
            check_refused(writer.grant(&info, &[]));
        }
    }
}

#[test]
fn it_is_not_taken_for_that_of_other_records() {
    let host = host(config());
    let (mut writer, info, column) = filled(&host);
    write(&mut writer, &info, &column);
    writer.payload()[0] ^= 1;
    check_refused(writer.grant(&info, &[]));
    let (mut writer, info, column) = filled(&host);
    write(&mut writer, &info, &column);
    let payload_bytes = info.payload_bytes + 1;
    check_refused(writer.grant(&BatchInfo { payload_bytes, ..info }, &[]));
    let (mut writer, info, column) = filled(&host);
    write(&mut writer, &info, &column);
    check_refused(writer.grant(&BatchInfo { metadata: "{}", ..info }, &[]));
    let (mut writer, info, column) = filled(&host);
    assert!(writer.write_index(info.payload_bytes, name_bytes(&info), &[column.clone(), column]));
    check_refused(writer.grant(&info, &[]));
    assert_eq!(host.ring.status().free, config().slots, "slots are free after errors");
}

#[test]
fn it_is_not_written_where_it_has_no_place() {
    let host = host(config());
    let (mut writer, info, column) = filled(&host);
    let index = std::slice::from_ref(&column);
    assert!(!writer.write_index(info.payload_bytes, config().slot_bytes, index));
    assert!(!writer.write_index(usize::MAX, name_bytes(&info), index));
    let uneven = Column::of_lists(column.offsets().to_vec(), vec![1]);
    assert!(!writer.write_index(info.payload_bytes, name_bytes(&info), &[uneven]));
    check_refused(writer.grant(&info, &[]));
    let mut dedicated = host.ring.acquire_dedicated(config().slot_bytes).unwrap();
    assert!(!dedicated.write_index(info.payload_bytes, name_bytes(&info), &[column]));
}
