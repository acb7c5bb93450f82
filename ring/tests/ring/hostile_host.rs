//! A host that breaks the protocol can't make the reader panic or read outside of its memory.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, accept, bind, listen, socket,
};
use pipemill_ring::layout::{DEDICATED, HEADER_BYTES, Header};
use pipemill_ring::protocol::{self, Grant, LargerSlots, Mode, PROTOCOL, Welcome};
use pipemill_ring::reader::{Batch, Event, Reader, ReaderError};
use proptest::prelude::*;
use tempfile::TempDir;

use crate::raw_consumer::Raw;
use crate::setup::{fields, folder};

const SLOT: usize = 4096;
const SLOTS: usize = 2;

struct FakeHost {
    listener: OwnedFd,
    path: PathBuf,
    _folder: TempDir,
}

impl FakeHost {
    fn new() -> FakeHost {
        let folder = folder();
        let path = folder.path().join("socket");
        let flags = SockFlag::SOCK_CLOEXEC;
        let listener = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).unwrap();
        bind(listener.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        listen(&listener, Backlog::new(5).unwrap()).unwrap();
        FakeHost { listener, path, _folder: folder }
    }

    /// Sends these messages to one reader; returns the reader's result.
    fn answer(&self, messages: &[(Vec<u8>, Option<BorrowedFd<'_>>)]) -> Result<Batch, ReaderError> {
        let with_list =
            |(message, fd): &(Vec<u8>, Option<_>)| (message.clone(), Vec::from_iter(*fd));
        self.answer_with(&messages.iter().map(with_list).collect::<Vec<_>>())
    }

    /// As `answer`, with any number of descriptors for each message.
    fn answer_with(
        &self,
        messages: &[(Vec<u8>, Vec<BorrowedFd<'_>>)],
    ) -> Result<Batch, ReaderError> {
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| read(&self.path));
            // SAFETY: the kernel has just made this descriptor; nobody else owns it.
            let host =
                Raw(unsafe { OwnedFd::from_raw_fd(accept(self.listener.as_raw_fd()).unwrap()) });
            for (message, fds) in messages {
                let fds: Vec<_> = fds.iter().map(|fd| fd.as_raw_fd()).collect();
                match host.send_with(message, &fds) {
                    // The reader has refused a message before this one and hung up.
                    Err(Errno::EPIPE | Errno::ECONNRESET) => break,
                    sent => sent.unwrap(),
                }
            }
            drop(host);
            reader.join().expect("the reader must not panic")
        })
    }
}

fn read(path: &Path) -> Result<Batch, ReaderError> {
    let mut reader = Reader::connect(path, "train", None)?;
    match reader.next()? {
        Event::Batch(batch) => Ok(batch),
        other => panic!("{other:?}"),
    }
}

fn welcome() -> Welcome {
    Welcome {
        protocol: PROTOCOL,
        host: "fake".into(),
        channel: "train".into(),
        mode: Mode::Share,
        slots: SLOTS as u32,
        slot_bytes: SLOT as u64,
        credits: 1,
        resumed: None,
        settings: BTreeMap::new(),
        views: false,
        length: None,
    }
}

fn memory(contents: &[u8], sealed: bool) -> OwnedFd {
    let fd = memfd_create("fake", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING).unwrap();
    nix::unistd::write(&fd, contents).unwrap();
    if sealed {
        fcntl(&fd, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK)).unwrap();
    }
    fd
}

fn batch() -> Header {
    Header {
        records: 3,
        fields: 1,
        payload_at: HEADER_BYTES as u64,
        payload_bytes: 30,
        index_at: 192,
        object_at: 160,
        object_bytes: 4,
        ..Header::default()
    }
}

/// A ring whose second slot has a good batch of three records.
fn good_ring() -> Vec<u8> {
    let mut ring = vec![0; SLOTS * SLOT];
    let slot = &mut ring[SLOT..];
    slot[..HEADER_BYTES].copy_from_slice(&batch().encode());
    slot[160..164].copy_from_slice(b"name");
    // Its only field has the first lists.
    slot[192..200].copy_from_slice(&[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    for (record, at) in (0..3u32).zip((256..).step_by(4)) {
        slot[at..at + 4].copy_from_slice(&(record * 10).to_le_bytes());
        slot[at + 64..at + 68].copy_from_slice(&10u32.to_le_bytes());
    }
    ring
}

const GRANT: Grant = Grant { grant: 0, batch: 0, bytes: SLOT as u64, slot: 1, epoch: 0 };

fn with_grant(
    host: &FakeHost,
    ring: &[u8],
    grant: Grant,
    dedicated: Option<&[u8]>,
) -> Result<Batch, ReaderError> {
    let ring = memory(ring, true);
    let dedicated = dedicated.map(|contents| memory(contents, true));
    host.answer(&[
        (protocol::welcome(&welcome()), Some(ring.as_fd())),
        (protocol::schema(&fields()), None),
        (protocol::grant(&grant).into(), dedicated.as_ref().map(|fd| fd.as_fd())),
    ])
}

/// The text of the error, which must say that the host broke the protocol.
fn broke(answer: Result<Batch, ReaderError>) -> String {
    match answer {
        Err(error @ (ReaderError::Protocol { .. } | ReaderError::Memory(_))) => error.to_string(),
        other => panic!("expected a protocol error, got {other:?}"),
    }
}

#[test]
fn an_impossible_grant_is_a_protocol_error() {
    let host = FakeHost::new();
    let ring = good_ring();
    let good = with_grant(&host, &ring, GRANT, None).unwrap();
    assert_eq!((good.object(), good.field(2, 0)), ("name", Some(&[0; 10][..])));
    let grant = Grant { slot: DEDICATED, ..GRANT };
    let dedicated = with_grant(&host, &ring, grant, Some(&ring[SLOT..]));
    assert_eq!(dedicated.unwrap().records(), 3);
    let wrong = |grant, dedicated| broke(with_grant(&host, &ring, grant, dedicated));
    wrong(Grant { slot: 2, ..GRANT }, None);
    wrong(Grant { slot: DEDICATED, ..GRANT }, None);
    wrong(Grant { slot: 1, ..GRANT }, Some(&ring[SLOT..]));
    wrong(Grant { bytes: u64::MAX, ..GRANT }, None);
    wrong(Grant { bytes: SLOT as u64 + 1, slot: 0, ..GRANT }, None);
    wrong(Grant { bytes: 100, ..GRANT }, None);
    wrong(Grant { batch: 1, ..GRANT }, None);
    wrong(Grant { epoch: 1, ..GRANT }, None);
    let short = wrong(Grant { slot: DEDICATED, ..GRANT }, Some(&ring[SLOT + 1..]));
    assert!(short.contains("4095 bytes long where 4096 were announced"), "{short}");
}

#[test]
fn a_span_outside_of_the_payload_is_a_protocol_error() {
    let host = FakeHost::new();
    for (at, number) in [(256, 21), (264, u32::MAX), (320, 31), (328, u32::MAX)] {
        let mut ring = good_ring();
        ring[SLOT + at..SLOT + at + 4].copy_from_slice(&u32::to_le_bytes(number));
        let why = broke(with_grant(&host, &ring, GRANT, None));
        assert!(why.contains("a span outside of the payload"), "{why}");
    }
    let with_entry = |first: u32, size: u32| {
        let mut ring = good_ring();
        ring[SLOT + 192..SLOT + 196].copy_from_slice(&first.to_le_bytes());
        ring[SLOT + 196..SLOT + 200].copy_from_slice(&size.to_le_bytes());
        with_grant(&host, &ring, GRANT, None)
    };
    for (first, size) in [(1, 10), (0, 11), (u32::MAX, 1), (1, u32::MAX - 1)] {
        let why = broke(with_entry(first, size));
        assert!(why.contains("a span outside of the payload"), "{first}, {size}: {why}");
    }
    let why = broke(with_entry(0, 0));
    assert!(why.contains("0x0 as the size of a field's values"), "{why}");
    let why = broke(with_entry(1, u32::MAX));
    assert!(why.contains("0x1 as the number of a field's lists"), "{why}");
    let batch = with_entry(3, 9).unwrap();
    assert_eq!(batch.offsets(0), [3, 12, 21]);
    assert_eq!(batch.lengths(0), [9, 9, 9]);
    assert_eq!(batch.field(2, 0), Some(&batch.payload()[21..30]));
    assert_eq!((batch.field(3, 0), batch.offsets(1)), (None, &[][..]));
}

#[test]
fn an_impossible_welcome_is_a_protocol_error() {
    let host = FakeHost::new();
    let ring = memory(&good_ring(), true);
    let with = |welcome: Welcome, ring: Option<&OwnedFd>| {
        broke(host.answer(&[(protocol::welcome(&welcome), ring.map(|ring| ring.as_fd()))]))
    };
    with(welcome(), None);
    with(Welcome { slots: 3, ..welcome() }, Some(&ring));
    with(Welcome { slots: 0, ..welcome() }, Some(&ring));
    with(Welcome { slot_bytes: u64::MAX / 64 * 64, ..welcome() }, Some(&ring));
    with(Welcome { slot_bytes: 100, ..welcome() }, Some(&ring));
    let newer = with(Welcome { protocol: 3, ..welcome() }, Some(&ring));
    assert!(newer.contains("speaks protocol 3, and this reader speaks protocol 2"), "{newer}");
    let open = memory(&good_ring(), false);
    assert!(with(welcome(), Some(&open)).contains("not sealed against shrinking"));
    broke(host.answer(&[(protocol::stream_end().into(), None)]));
    broke(host.answer(&[(vec![1, 2, 3], None)]));
    assert!(matches!(host.answer(&[]), Err(ReaderError::HostDied { .. })));
    let early = [
        (protocol::welcome(&welcome()), Some(ring.as_fd())),
        (protocol::grant(&GRANT).into(), None),
    ];
    assert!(broke(host.answer(&early)).contains("GRANT before SCHEMA"));
}

/// The larger slots that have the memory of `good_ring`.
const LARGER: LargerSlots =
    LargerSlots { slot_bytes: SLOT as u64, first: SLOTS as u32, slots: SLOTS as u32 };
/// A grant of the good batch there.
const IN_LARGER: Grant = Grant { slot: SLOTS as u32 + 1, ..GRANT };

/// A reader's answer to these messages of LARGER_SLOTS and a grant after them.
fn with_larger(
    messages: &[(Vec<u8>, Vec<BorrowedFd<'_>>)],
    grant: Grant,
) -> Result<Batch, ReaderError> {
    let ring = memory(&vec![0; SLOTS * SLOT], true);
    let first = [
        (protocol::welcome(&welcome()), vec![ring.as_fd()]),
        (protocol::schema(&fields()), vec![]),
    ];
    let granted = [(protocol::grant(&grant).to_vec(), vec![])];
    FakeHost::new().answer_with(&[&first, messages, &granted].concat())
}

#[test]
fn larger_slots_that_can_not_be_are_a_protocol_error() {
    let good = memory(&good_ring(), true);
    let (open, short) = (memory(&good_ring(), false), memory(&good_ring()[1..], true));
    let fd = |memory: &'static str| match memory {
        "open" => vec![open.as_fd()],
        "short" => vec![short.as_fd()],
        "two" => vec![good.as_fd(), good.as_fd()],
        "none" => vec![],
        _ => vec![good.as_fd()],
    };
    let message = |slots: LargerSlots| protocol::larger_slots(&slots).to_vec();
    let announced = [(message(LARGER), fd("good"))];
    let batch = with_larger(&announced, IN_LARGER).unwrap();
    assert_eq!((batch.object(), batch.field(2, 0)), ("name", Some(&[0; 10][..])));
    let refused = |messages: &[(Vec<u8>, Vec<BorrowedFd<'_>>)], why: &str| {
        let found = broke(with_larger(messages, IN_LARGER));
        assert!(found.contains(why), "{found}, not: {why}");
    };
    let body = message(LARGER);
    for (bytes, found) in
        [(&body[..19], 15), (&[&body[..], &[0]].concat()[..], 17), (&body[..4], 0)]
    {
        let why = format!("LARGER_SLOTS with a body of {found} bytes: expected 16");
        refused(&[(bytes.to_vec(), fd("good"))], &why);
    }
    let numbers = "expected one or more, with numbers from 2 to 4294967294";
    let lies = [
        (LARGER, "none", "LARGER_SLOTS without a file descriptor: expected one"),
        (LARGER, "two", "a message with several file descriptors: expected at most one"),
        (LARGER, "open", "not sealed against shrinking"),
        (LARGER, "short", "8191 bytes long where 8192 were announced"),
        (LargerSlots { slots: 3, ..LARGER }, "good", "8192 bytes long where 12288 were announced"),
        (LargerSlots { first: 1, ..LARGER }, "good", numbers),
        (LargerSlots { first: u32::MAX, ..LARGER }, "good", numbers),
        (LargerSlots { first: DEDICATED - 1, ..LARGER }, "good", numbers),
        (LargerSlots { slots: 0, ..LARGER }, "good", numbers),
        (LargerSlots { slots: u32::MAX, ..LARGER }, "good", numbers),
        (
            LargerSlots { slot_bytes: 0, ..LARGER },
            "good",
            "2 slots of 0 bytes: expected a multiple",
        ),
        (LargerSlots { slot_bytes: 100, ..LARGER }, "good", "100 bytes: expected a multiple of 64"),
        (LargerSlots { slot_bytes: 1 << 63, ..LARGER }, "good", "expected a multiple of 64 that"),
    ];
    for (slots, memory, why) in lies {
        refused(&[(message(slots), fd(memory))], why);
    }
    let twice = "LARGER_SLOTS after LargerSlots { slot_bytes: 4096, first: 2, slots: 2 }: expected \
                 it once";
    refused(&[announced.clone(), announced.clone()].concat(), twice);
    let after = LargerSlots { first: 4, ..LARGER };
    refused(&[announced[0].clone(), (message(after), fd("good"))], twice);
}

#[test]
fn an_impossible_grant_of_a_larger_slot_is_a_protocol_error() {
    let good = memory(&good_ring(), true);
    let announced = [(protocol::larger_slots(&LARGER).to_vec(), vec![good.as_fd()])];
    let lies = [
        Grant { slot: SLOTS as u32 * 2, ..IN_LARGER },
        Grant { bytes: SLOT as u64 + 1, slot: SLOTS as u32, ..IN_LARGER },
        Grant { bytes: u64::MAX, ..IN_LARGER },
    ];
    for grant in lies {
        let why = broke(with_larger(&announced, grant));
        let Grant { bytes, slot, .. } = grant;
        assert!(why.contains(&format!("GRANT of {bytes} bytes in slot {slot} without")), "{why}");
    }
    let early = broke(with_larger(&[], IN_LARGER));
    assert!(early.contains("in slot 3 without a dedicated buffer"), "{early}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// One number of header or index is replaced by garbage.
    #[test]
    fn a_damaged_slot_is_an_error_or_has_fields_within_the_payload(
        at in 0usize..90, garbage in prop_oneof![any::<u32>(), 0..5000u32]
    ) {
        let host = FakeHost::new();
        let mut ring = good_ring();
        ring[SLOT + at * 4..SLOT + at * 4 + 4].copy_from_slice(&garbage.to_le_bytes());
        if let Ok(batch) = with_grant(&host, &ring, GRANT, None) {
            let payload = batch.payload().as_ptr_range();
            for record in 0..batch.records() {
                if let Some(field) = batch.field(record, 0) {
                    let field = field.as_ptr_range();
                    prop_assert!(payload.start <= field.start && field.end <= payload.end);
                }
            }
        }
    }
}
