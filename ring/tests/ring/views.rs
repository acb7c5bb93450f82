//! Views of strings, which the host writes after the index once a consumer has requested them.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use pipemill_ring::host::{BatchInfo, Column, Writer};
use pipemill_ring::layout::{Header, VIEW_BYTES, stride, table_bytes};
use pipemill_ring::protocol::{Grant, views};
use pipemill_types::BatchMemory;

use crate::raw_consumer::Raw;
use crate::setup::{Host, check, config, grant, host, next_batch, position};

/// A consumer that has requested views.
fn viewer(host: &Host) -> (Raw, OwnedFd) {
    let (raw, welcome, ring) = Raw::welcomed(&host.socket, 4);
    assert!(welcome.views);
    raw.send(&views()).unwrap();
    // The same request again changes nothing.
    raw.send(&views()).unwrap();
    host.wait_until("wanted", |_| host.ring.wanted_views() == 1);
    (raw, ring)
}

/// Fills memory with these strings.
fn fill<'s>(
    writer: &mut Writer,
    strings: impl IntoIterator<Item = &'s str>,
) -> (BatchInfo<'static>, Column) {
    let (mut column, mut at) = (Column::default(), 0);
    for string in strings {
        writer.payload()[at..at + string.len()].copy_from_slice(string.as_bytes());
        column.push(at as u32, string.len() as u32);
        at += string.len();
    }
    (BatchInfo { position: position(0), payload_bytes: at, ..BatchInfo::default() }, column)
}

/// The memory of a granted batch.
fn memory(host: &Host, ring: &OwnedFd, (grant, dedicated): (Grant, Option<OwnedFd>)) -> Vec<u8> {
    let at = if dedicated.is_some() { 0 } else { u64::from(grant.slot) };
    let file = File::from(dedicated.unwrap_or_else(|| ring.try_clone().unwrap()));
    let mut bytes = vec![0; grant.bytes as usize];
    file.read_exact_at(&mut bytes, at * host.ring.config().slot_bytes as u64).unwrap();
    bytes
}

/// The strings that the views of a batch show; `None` if it has no views.
fn shown(memory: &[u8]) -> Option<Vec<String>> {
    // The header is checked in memory that is aligned.
    let header = Header::decode(memory).unwrap();
    let from = header.index_at as usize + table_bytes(1) + 2 * stride(header.records);
    if !header.has_views {
        assert_eq!(memory.len(), from, "nothing follows the index");
        return None;
    }
    let payload = header.payload(memory).unwrap();
    let (views, _) = memory[from..].as_chunks::<VIEW_BYTES>();
    let string = |view: &[u8; VIEW_BYTES]| {
        let number = |at: usize| u32::from_le_bytes(*view[at..].first_chunk().unwrap()) as usize;
        let (length, at) = (number(0), number(12));
        let bytes = if length <= 12 { &view[4..4 + length] } else { &payload[at..at + length] };
        String::from_utf8(bytes.to_vec()).unwrap()
    };
    Some(views[..header.records as usize].iter().map(string).collect())
}

const STRINGS: [&str; 5] = ["", "short", "twelve bytes", "thirteen byte", "at the very end"];

#[test]
fn a_consumer_gets_views_from_its_request_on() {
    let host = host(config());
    grant(&host.ring, 0, 0, 10).unwrap();
    let (raw, ring) = viewer(&host);
    assert_eq!(shown(&memory(&host, &ring, raw.grant())), None, "it was filled before");
    for is_written in [false, true] {
        let mut writer = host.ring.acquire().unwrap();
        assert_eq!(writer.wanted_views(), 1);
        let (info, column) = fill(&mut writer, STRINGS);
        if is_written {
            let texts = info.position.object.len();
            let columns = std::slice::from_ref(&column);
            assert!(writer.write_index(info.payload_bytes, texts, columns));
            writer.grant(&info, &[]).unwrap();
        } else {
            writer.grant(&info, &[column]).unwrap();
        }
        let memory = memory(&host, &ring, raw.grant());
        assert_eq!(shown(&memory).as_deref(), Some(&STRINGS.map(String::from)[..]));
    }
    let mut writer = host.ring.acquire_dedicated(100).unwrap();
    let (info, column) = fill(&mut writer, STRINGS);
    writer.grant(&info, &[column]).unwrap();
    let memory = memory(&host, &ring, raw.grant());
    assert_eq!(shown(&memory).as_deref(), Some(&STRINGS.map(String::from)[..]));
}

#[test]
fn a_batch_whose_views_do_not_fit_has_none() {
    let host = host(config());
    let (raw, ring) = viewer(&host);
    // 400 views take 6400 of 8192 bytes, and the index 3200.
    let mut writer = host.ring.acquire().unwrap();
    let (info, column) = fill(&mut writer, (0..400).map(|_| "x"));
    writer.grant(&info, &[column]).unwrap();
    assert_eq!(shown(&memory(&host, &ring, raw.grant())), None);
    let mut writer = host.ring.acquire_dedicated(8192).unwrap();
    let (info, column) = fill(&mut writer, (0..400).map(|_| "x"));
    writer.grant(&info, &[column]).unwrap();
    assert_eq!(shown(&memory(&host, &ring, raw.grant())), Some(vec!["x".into(); 400]));
}

#[test]
fn other_consumers_read_batches_with_views_and_get_none_when_the_last_viewer_has_gone() {
    let host = host(config());
    let (first, _) = viewer(&host);
    let (second, _, _) = Raw::welcomed(&host.socket, 1);
    drop(first);
    host.wait_until("wanted no more", |_| host.ring.wanted_views() == 0);
    let (third, _) = viewer(&host);
    let mut reader = host.reader(4);
    // Each consumer has credit, so each gets some of these.
    for first in 0..7 {
        grant(&host.ring, 0, first * 10, 10).unwrap();
    }
    drop((second, third));
    for _ in 0..7 {
        check(&next_batch(&mut reader));
    }
    host.wait_until("wanted no more", |_| host.ring.wanted_views() == 0);
}
