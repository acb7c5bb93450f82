//! The window: chunks that lie in the decoder's memory without a copy. Whatever a decoder does with
//! it, the channel's memory stays as it is, and the host goes on.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::ftruncate;
use pipemill_decode::{Bytes, Engine, InputBuffer, Plugin, Stream};
use pipemill_ring::host::{Ring, RingConfig};
use pipemill_testing::tiny::tiny_with_window;
use pipemill_types::{ChunkMemory, Fault, Mode, SharedFile, SharedPart, StreamInfo};

use crate::hostile::{limits, load};

/// Bytes of a slot.
const SLOT: usize = 1 << 20;
/// Bytes of the tiny decoder's memory before it sets some aside.
const OWN_MEMORY: usize = 4 << 20;
/// Sets the window aside after all other memory.
const SET_ASIDE: &str =
    "(i32.shl (memory.grow (i32.shr_u (local.get $size) (i32.const 16))) (i32.const 16))";
/// Traps if the chunk was copied.
const IN_WINDOW: &str =
    "(if (i32.lt_u (local.get $chunk) (i32.const 0x400000)) (then unreachable))";

fn engine() -> Engine {
    Engine::new(&pipemill_builtin::BUILTINS).expect("an engine")
}

/// A plugin that uses its window from the first byte on.
fn loaded(engine: &Engine, wasm: &[u8]) -> Plugin {
    load(engine, wasm).expect("it fits").with_window_from(0)
}

fn ring() -> Arc<Ring> {
    let config = RingConfig {
        channel: "train".to_owned(),
        slots: 4,
        slot_bytes: SLOT,
        dedicated: 2,
        credits: 2,
        mode: Mode::Share,
        consumers: 1,
    };
    Ring::new(config).expect("memory")
}

/// A slot of the ring full of this byte.
fn slot(ring: &Arc<Ring>, byte: u8) -> Bytes {
    let mut writer = ring.acquire().expect("a free slot");
    writer.payload().fill(byte);
    Arc::new(writer)
}

fn open(plugin: &Plugin) -> Result<Stream, Fault> {
    let info = StreamInfo {
        channel: "train".to_owned(),
        object: "input".to_owned(),
        max_record: 1 << 20,
        ..StreamInfo::default()
    };
    Stream::open(plugin, &[], &info, &limits())
}

fn decode(stream: &mut Stream, bytes: &Bytes, chunk: Range<usize>) -> Result<usize, Fault> {
    stream.decode(bytes, chunk, false, 0).map(|_| stream.decoded().records)
}

/// A chunk of 100,000 bytes. Some of them lie on pages before and after it.
const CHUNK: Range<usize> = 5_000..105_000;

/// Decodes a chunk in each of two slots with a decoder that was made of these instructions.
fn decode_two(set_aside: &str, at_decode: &str) -> Result<usize, Fault> {
    let plugin = loaded(&engine(), &tiny_with_window(set_aside, at_decode));
    let ring = ring();
    let mut stream = open(&plugin)?;
    let first = decode(&mut stream, &slot(&ring, b'x'), CHUNK)?;
    Ok(first + decode(&mut stream, &slot(&ring, b'y'), CHUNK)?)
}

#[test]
fn a_chunk_lies_in_the_window() {
    assert_eq!(decode_two(SET_ASIDE, IN_WINDOW), Ok(2));
    let copied = decode_two("(i32.const 0)", IN_WINDOW).expect_err("it was copied");
    assert!(copied.message.contains("unreachable"), "{copied:?}");
    assert_eq!(decode_two("(i32.const 0)", ""), Ok(2), "without a window, chunks are copied");
}

/// To map the memory costs more than to copy a short object.
#[test]
fn the_first_bytes_of_a_stream_are_copied() {
    let copied = "(if (i32.ge_u (local.get $chunk) (i32.const 0x400000)) (then unreachable))";
    let plugin = load(&engine(), &tiny_with_window(SET_ASIDE, copied)).expect("it fits");
    let (ring, mut stream) = (ring(), open(&plugin).expect("opens"));
    let bytes = slot(&ring, b'x');
    for _ in 0..2 {
        assert_eq!(decode(&mut stream, &bytes, CHUNK), Ok(1), "200,000 bytes");
    }
    decode(&mut stream, &bytes, CHUNK).expect_err("300,000 bytes: it lies in the window");
    let mut other = open(&plugin).expect("opens");
    assert_eq!(decode(&mut other, &bytes, CHUNK), Ok(1), "another stream");
    decode(&mut other, &bytes, 0..SLOT / 2).expect_err("a long chunk lies in the window");
}

#[test]
fn a_decoder_sees_what_was_written_to_a_slot_last() {
    // The first byte of each chunk is one larger than that of the one before.
    let next =
        "(i32.store8 (i32.const 1000) (i32.add (i32.load8_u (i32.const 1000)) (i32.const 1)))
        (if (i32.ne (i32.load8_u (local.get $chunk)) (i32.load8_u (i32.const 1000))) (then \
        unreachable))";
    let plugin = loaded(&engine(), &tiny_with_window(SET_ASIDE, next));
    let (ring, mut stream) = (ring(), open(&plugin).expect("opens"));
    for byte in 1..=200 {
        // The slot is free again after each round.
        let shown = decode(&mut stream, &slot(&ring, byte), CHUNK);
        assert_eq!(shown, Ok(1), "{byte}");
    }
}

/// A buffer with this many bytes, which may grow to 16 MiB.
fn buffer(bytes: usize) -> Arc<InputBuffer> {
    let mut buffer = InputBuffer::new(16 << 20);
    buffer.hold(bytes, 0);
    Arc::new(buffer)
}

/// The first and the last byte of each chunk are one larger than those of the chunk before.
fn counts(place: &str) -> String {
    format!(
        "{place}
        (i32.store8 (i32.const 1000) (i32.add (i32.load8_u (i32.const 1000)) (i32.const 1)))
        (if (i32.ne (i32.load8_u (local.get $chunk)) (i32.load8_u (i32.const 1000)))
            (then unreachable))
        (if (i32.ne (i32.load8_u (i32.sub (i32.add (local.get $chunk) (local.get $size))
                (i32.const 1)))
            (i32.load8_u (i32.const 1000))) (then unreachable))"
    )
}

/// Decodes the first `length` bytes of the buffer, all of them this byte.
fn decode_buffer(
    stream: &mut Stream,
    buffer: &mut Arc<InputBuffer>,
    length: usize,
    byte: u8,
) -> Result<usize, Fault> {
    let writable = Arc::get_mut(buffer).expect("a call keeps no clone");
    writable.hold(length, 0);
    writable.as_mut()[..length].fill(byte);
    let bytes: Bytes = buffer.clone();
    let decoded = decode(stream, &bytes, 0..length);
    assert!((*bytes).as_ref()[..length].iter().all(|found| *found == byte), "{length} bytes");
    decoded
}

#[test]
fn a_long_chunk_in_a_buffer_that_grows_lies_in_the_window() {
    let plugin = loaded(&engine(), &tiny_with_window(SET_ASIDE, &counts(IN_WINDOW)));
    let (mut stream, mut buffer) = (open(&plugin).expect("opens"), buffer(0));
    let mut byte = 0;
    for mebibytes in [1, 1, 3, 2, 9, 10, 16, 5] {
        byte += 1;
        let shown = decode_buffer(&mut stream, &mut buffer, mebibytes << 20, byte);
        assert_eq!(shown, Ok(1), "{mebibytes} MiB");
    }
    let larger = decode_buffer(&mut stream, &mut buffer, 17 << 20, byte + 1);
    larger.expect_err("more bytes than were announced are copied");
}

/// One decoder checks its chunks, and another one writes to all of them: only the latter sees that.
#[test]
fn a_buffer_and_the_slots_of_a_ring_take_turns_in_the_window() {
    let engine = engine();
    let fills = "(memory.fill (local.get $chunk) (i32.const 0xff) (local.get $size))";
    let plugins = [counts(""), fills.to_owned()]
        .map(|instructions| loaded(&engine, &tiny_with_window(SET_ASIDE, &instructions)));
    for seed in 0..12 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (ring, mut buffer) = (ring(), buffer(random.usize(0..8 << 20)));
        let mut streams = plugins.each_ref().map(|plugin| open(plugin).expect("opens"));
        for byte in 1..=20_u8 {
            for stream in &mut streams {
                let decoded = match random.usize(..3) {
                    0 => decode(stream, &slot(&ring, byte), CHUNK),
                    _ => decode_buffer(stream, &mut buffer, random.usize(1..3 << 20), byte),
                };
                assert_eq!(decoded, Ok(1), "seed {seed}: call {byte}");
            }
        }
    }
}

#[test]
fn what_a_decoder_writes_to_the_window_is_its_own() {
    let cases = [
        ("stores", "(i32.store (local.get $chunk) (i32.const -1))"),
        (
            "fills all of the chunk",
            "(memory.fill (local.get $chunk) (i32.const 0xff) (local.get $size))",
        ),
        (
            "copies its own memory there",
            "(memory.copy (local.get $chunk) (i32.const 0) (i32.const 50000))",
        ),
        (
            "writes before and after the chunk",
            "(memory.fill (i32.sub (local.get $chunk) (i32.const 5000)) (i32.const 0xff)
                (i32.add (local.get $size) (i32.const 10000)))",
        ),
        (
            "fills all of the window",
            "(memory.fill (i32.const 0x400000) (i32.const 0xff) (i32.const 0x400000))",
        ),
    ];
    let engine = engine();
    for (what, instructions) in cases {
        let wasm = tiny_with_window(SET_ASIDE, &format!("{IN_WINDOW} {instructions}"));
        let plugin = loaded(&engine, &wasm);
        let ring = ring();
        let (bytes, neighbor) = (slot(&ring, b'x'), slot(&ring, b'y'));
        let mut stream = open(&plugin).expect("opens");
        for _ in 0..3 {
            assert_eq!(decode(&mut stream, &bytes, CHUNK), Ok(1), "{what}");
            // The host reads the records in its own mapping.
            let decoded = stream.decoded();
            let (offset, length) = decoded.columns[0].get(0);
            assert_eq!((offset, length as usize), (0, CHUNK.len()), "{what}");
        }
        assert!((*bytes).as_ref().iter().all(|byte| *byte == b'x'), "{what}");
        assert!((*neighbor).as_ref().iter().all(|byte| *byte == b'y'), "{what}");
        let mut other = open(&plugin).expect("opens");
        assert_eq!(decode(&mut other, &bytes, CHUNK), Ok(1), "{what}: another instance");
    }
}

/// Lists lie where the decoder says when the host asks it for memory.
#[test]
fn what_the_host_writes_to_the_window_is_the_decoders_own() {
    let next_list_in_window = "(global.set $top (i32.const 0x400000))
        (i32.store8 (i32.const 128) (i32.const 0))
        (i32.store (i32.const 136) (local.get $size))
        (i32.store (i32.const 140) (i32.const 1))
        (return (i32.const 128))";
    let plugin = loaded(&engine(), &tiny_with_window(SET_ASIDE, next_list_in_window));
    let (ring, mut stream) = (ring(), open(&plugin).expect("opens"));
    let bytes = slot(&ring, b'x');
    assert_eq!(decode(&mut stream, &bytes, CHUNK), Ok(0));
    let private: Bytes = Arc::new(vec![b'p'; 200_000]);
    for _ in 0..3 {
        assert_eq!(decode(&mut stream, &private, CHUNK), Ok(0), "a copy in the window");
    }
    assert!((*bytes).as_ref().iter().all(|byte| *byte == b'x'));
    let spans =
        "(call $emit (i32.const 1) (i32.and (local.get $chunk) (i32.const -8)) (i32.const 1)
        (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))";
    let fault = decode_two(SET_ASIDE, spans).expect_err("xxxxxxxx is no span");
    assert!(fault.message.contains("span") || fault.message.contains("outside"), "{fault:?}");
}

#[test]
fn memory_that_grows_later_lies_elsewhere() {
    let grow = format!(
        "{IN_WINDOW}
        (i32.store (i32.shl (memory.grow (i32.const 16)) (i32.const 16)) (i32.const -1))
        (if (i32.ne (i32.load8_u (local.get $chunk))
            (i32.load8_u (i32.sub (i32.add (local.get $chunk) (local.get $size)) (i32.const 1))))
            (then unreachable))"
    );
    assert_eq!(decode_two(SET_ASIDE, &grow), Ok(2));
}

#[test]
fn a_window_where_none_can_be_is_an_error() {
    // With what it takes to begin at a huge page.
    let size = 4 * SLOT + (2 << 20) - (64 << 10);
    for (what, set_aside) in [
        ("odd", "(i32.const 1)".to_owned()),
        ("between pages", "(i32.const 4096)".to_owned()),
        ("after its memory", "(i32.const 0x400000)".to_owned()),
        ("partly after its memory", "(i32.const 0x10000)".to_owned()),
        ("at the end of all addresses", "(i32.const -65536)".to_owned()),
        ("a page short", format!("(drop {SET_ASIDE}) (i32.const {})", 0x41_0000)),
    ] {
        let fault = decode_two(&set_aside, "").expect_err(what);
        let message = format!("the decoder broke its contract: set aside {size} bytes");
        assert!(fault.message.contains(&message), "{what}: {fault:?}");
    }
}

#[test]
fn a_window_over_the_decoders_own_data_harms_only_the_decoder() {
    // Its stack of allocations, its schema, its answers: all are gone.
    let grown = format!("(drop {SET_ASIDE}) (i32.const 0x10000)");
    let ended = decode_two(&grown, "");
    assert!(matches!(ended, Ok(2) | Err(_)), "{ended:?}");
    assert_eq!(decode_two(SET_ASIDE, IN_WINDOW), Ok(2), "and all is well");
}

#[test]
fn a_decoder_that_fails_while_it_sets_memory_aside_is_ended() {
    for (what, set_aside, says) in [
        ("traps", "unreachable", "unreachable"),
        ("spins", "(loop $again (br $again)) (i32.const 0)", "CPU time"),
        (
            "emits",
            "(call $emit (i32.const 0) (i32.const 256) (i32.const 0) (i32.const 0) (i32.const 0)
                (i32.const 0) (i32.const 0)) (i32.const 0)",
            "outside of `decode`",
        ),
    ] {
        let fault = decode_two(set_aside, "").expect_err(what);
        assert!(fault.message.contains(says), "{what}: {fault:?}");
    }
}

#[test]
fn a_decoder_that_fails_in_the_window_fails_as_with_a_copy() {
    for instructions in [
        "unreachable",
        "(loop $again (br $again))",
        "(drop (i32.load (i32.const -4)))",
        "(loop $again (br_if $again (i32.ne (i32.const -1) (memory.grow (i32.const 16))))) \
         unreachable",
    ] {
        let in_window = decode_two(SET_ASIDE, instructions).expect_err(instructions);
        let copied = decode_two("(i32.const 0)", instructions).expect_err(instructions);
        assert_eq!(in_window, copied, "{instructions}");
    }
}

#[test]
fn the_window_adds_to_the_limit_of_the_memory_and_to_nothing_else() {
    let limit = limits().memory as usize;
    let left = (limit - OWN_MEMORY) >> 16;
    let grow = |pages: usize| {
        format!(
            "{IN_WINDOW} (if (i32.eqz (i32.load (i32.const 1000)))
                (then (i32.store (i32.const 1000) (i32.const 1))
                    (if (i32.eq (memory.grow (i32.const {pages})) (i32.const -1)) (then \
                    unreachable))))"
        )
    };
    assert_eq!(decode_two(SET_ASIDE, &grow(left)), Ok(2));
    let fault = decode_two(SET_ASIDE, &grow(left + 1)).expect_err("a page too many");
    assert!(fault.message.contains(&format!("its limit is {limit}")), "{fault:?}");
    assert!(fault.message.contains(&format!("wanted {} bytes", limit + (64 << 10))), "{fault:?}");
}

/// Memory of a file of its own.
struct FileMemory {
    bytes: Vec<u8>,
    file: Arc<SharedFile>,
}

impl FileMemory {
    fn of_file(says: u64, has: i64, seals: SealFlag) -> Bytes {
        let fd: OwnedFd = memfd_create("a test", MFdFlags::MFD_ALLOW_SEALING).expect("a file");
        ftruncate(&fd, has).expect("a size");
        fcntl(&fd, FcntlArg::F_ADD_SEALS(seals)).expect("seals");
        Arc::new(Self {
            bytes: vec![0; 1 << 20],
            file: Arc::new(SharedFile { fd, bytes: says, most: says }),
        })
    }
}

impl AsRef<[u8]> for FileMemory {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl ChunkMemory for FileMemory {
    fn shared(&self) -> Option<SharedPart<'_>> {
        Some(SharedPart { file: &self.file, offset: 0 })
    }
}

/// Pages beyond the end of a file would end the process.
#[test]
fn a_file_that_may_shrink_is_not_mapped() {
    let plugin = loaded(&engine(), &tiny_with_window(SET_ASIDE, IN_WINDOW));
    let shown = |bytes: Bytes| {
        let mut stream = open(&plugin).expect("opens");
        decode(&mut stream, &bytes, CHUNK)
    };
    assert_eq!(shown(FileMemory::of_file(1 << 20, 1 << 20, SealFlag::F_SEAL_SHRINK)), Ok(1));
    for (says, has, seals) in [
        (1 << 20, 1 << 20, SealFlag::empty()),
        (1 << 20, 1 << 20, SealFlag::F_SEAL_GROW),
        (1 << 20, 4096, SealFlag::F_SEAL_SHRINK),
        (1 << 20, 0, SealFlag::F_SEAL_SHRINK),
        // More than a decoder can address.
        (1 << 40, 1 << 40, SealFlag::F_SEAL_SHRINK),
        // Fewer than the chunk has.
        (4096, 4096, SealFlag::F_SEAL_SHRINK),
    ] {
        let copied = shown(FileMemory::of_file(says, has, seals)).expect_err("it was copied");
        assert!(copied.message.contains("unreachable"), "{says} {has}: {copied:?}");
    }
}

#[test]
fn a_file_that_does_not_fit_the_window_is_copied() {
    let fails_in_window =
        "(if (i32.gt_u (local.get $chunk) (i32.const 0x400000)) (then unreachable))";
    let plugin = loaded(&engine(), &tiny_with_window(SET_ASIDE, IN_WINDOW));
    let (own, other) = (ring(), ring());
    let mut stream = open(&plugin).expect("opens");
    assert_eq!(decode(&mut stream, &slot(&own, b'x'), CHUNK), Ok(1));
    assert_eq!(decode(&mut stream, &slot(&other, b'x'), CHUNK), Ok(1), "it has the same size");
    let larger: Bytes = buffer(9 << 20);
    decode(&mut stream, &larger, CHUNK).expect_err("it was copied");
    let plugin = loaded(&engine(), &tiny_with_window(SET_ASIDE, fails_in_window));
    let mut stream = open(&plugin).expect("opens");
    let private: Bytes = Arc::new(vec![b'x'; 200_000]);
    assert_eq!(decode(&mut stream, &private, CHUNK), Ok(1), "it was copied");
    let dedicated: Bytes = Arc::new(own.acquire_dedicated(1 << 20).expect("memory"));
    assert_eq!(decode(&mut stream, &dedicated, CHUNK), Ok(1), "a dedicated buffer may shrink");
    decode(&mut stream, &slot(&own, b'x'), CHUNK).expect_err("it lies in the window");
}

/// The memory of an instance goes with its stream.
#[test]
fn nothing_stays_of_instances_that_had_a_window() {
    let mappings =
        || std::fs::read_to_string("/proc/self/maps").expect("Linux has it").lines().count();
    let plugin = loaded(&engine(), &tiny_with_window(SET_ASIDE, IN_WINDOW));
    let ring = ring();
    let bytes = slot(&ring, b'x');
    let before = mappings();
    for _ in 0..300 {
        let mut stream = open(&plugin).expect("opens");
        assert_eq!(decode(&mut stream, &bytes, CHUNK), Ok(1));
    }
    // Other tests run at the same time.
    assert!(mappings() < before + 200, "{before}");
}
