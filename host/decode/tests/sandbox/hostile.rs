//! Plugins that mean harm: whatever they do or are, the host answers with an error, and does not
//! hang.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pipemill_decode::{Bytes, Engine, Limits, Plugin, Stream};
use pipemill_testing::PATIENCE;
use pipemill_testing::tiny::{component, text, tiny};
use pipemill_types::{ChunkMemory, Fault, StreamInfo};

pub fn limits() -> Limits {
    Limits {
        memory: 32 << 20,
        call_timeout: Duration::from_millis(200),
        output: 1 << 20,
        record: u64::MAX,
    }
}

/// Decodes two chunks; answers how many records there were.
fn decode(plugin: &Plugin) -> Result<usize, Fault> {
    decode_bytes(plugin, &(Arc::new(vec![b'x'; 100_000]) as Bytes))
}

fn decode_bytes(plugin: &Plugin, bytes: &Bytes) -> Result<usize, Fault> {
    let info = StreamInfo {
        channel: "hostile".to_owned(),
        object: "input".to_owned(),
        max_record: 1 << 20,
        ..StreamInfo::default()
    };
    let mut stream = Stream::open(plugin, &[], &info, &limits())?;
    let mut chunk = |range: Range<usize>, end| {
        stream.decode(bytes, range, end, 0).map(|_| stream.decoded().records)
    };
    Ok(chunk(0..60_000, false)? + chunk(60_000..100_000, true)?)
}

pub fn load(engine: &Engine, wasm: &[u8]) -> Result<Plugin, String> {
    Plugin::compile(engine, "hostile", wasm).map_err(|error| error.to_string())
}

/// Memory of this process that is in use, in bytes.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it says");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("KiB") << 10
}

#[test]
fn the_tiny_decoder_is_a_good_one() {
    let engine = Engine::new(&pipemill_builtin::BUILTINS).expect("an engine");
    let plugin = load(&engine, &tiny("", "")).expect("it fits");
    assert_eq!(decode(&plugin), Ok(2));
}

/// Relaxed instructions may give what is fastest on a processor: then a decoder makes other records
/// on another machine, and knows on which one it runs.
#[test]
fn relaxed_simd_gives_the_same_on_each_machine() {
    let engine = Engine::new(&pipemill_builtin::BUILTINS).expect("an engine");
    // What the specification calls deterministic. The first and the second are others on x86-64,
    // the third where the product is rounded before it is added.
    let same = "(if (i8x16.extract_lane_u 0 (i8x16.relaxed_swizzle (i8x16.splat (i32.const 7))
            (i8x16.splat (i32.const 16)))) (then unreachable))
        (if (i32x4.extract_lane 0 (i32x4.relaxed_trunc_f32x4_s (f32x4.splat (f32.const nan))))
            (then unreachable))
        (if (f32.ne (f32.const 0x1p-24) (f32x4.extract_lane 0 (f32x4.relaxed_madd
            (f32x4.splat (f32.const 0x1.001p0)) (f32x4.splat (f32.const 0x1.001p0))
            (f32x4.splat (f32.const -0x1.002p0))))) (then unreachable))";
    let plugin = load(&engine, &tiny(same, "")).expect("it fits");
    assert_eq!(decode(&plugin), Ok(2));
}

/// Which bits a NaN has that arithmetic makes is left to the processor: 0/0 is negative on x86-64,
/// and some keep the bits of an operand.
#[test]
fn the_bits_of_a_nan_are_the_same_on_each_machine() {
    let engine = Engine::new(&pipemill_builtin::BUILTINS).expect("an engine");
    // The operands are in memory, so that the compiler computes nothing in advance.
    let same = "(f32.store (i32.const 304) (f32.const -nan:0x200001))
        (f64.store (i32.const 312) (f64.const -nan:0x4000000000001))
        (if (i32.ne (i32.const 0x7fc00000) (i32.reinterpret_f32 (f32.div
            (f32.load (i32.const 300)) (f32.load (i32.const 300))))) (then unreachable))
        (if (i32.ne (i32.const 0x7fc00000) (i32.reinterpret_f32 (f32.add
            (f32.load (i32.const 304)) (f32.load (i32.const 300))))) (then unreachable))
        (if (i64.ne (i64.const 0x7ff8000000000000) (i64.reinterpret_f64 (f64.mul
            (f64.load (i32.const 312)) (f64.load (i32.const 320))))) (then unreachable))
        (if (i64.ne (i64.const 0x7ff8000000000000) (i64.reinterpret_f64 (f64.promote_f32
            (f32.load (i32.const 304))))) (then unreachable))
        (if (i32.ne (i32.const 0x7fc00000) (i32x4.extract_lane 1 (f32x4.add
            (v128.load (i32.const 300)) (v128.load (i32.const 320))))) (then unreachable))";
    let plugin = load(&engine, &tiny(same, "")).expect("it fits");
    assert_eq!(decode(&plugin), Ok(2));
}

/// Bytes that take longer to get than a call may compute.
struct SlowBytes(Vec<u8>);

impl AsRef<[u8]> for SlowBytes {
    fn as_ref(&self) -> &[u8] {
        std::thread::sleep(3 * limits().call_timeout);
        &self.0
    }
}

impl ChunkMemory for SlowBytes {}

/// A call that waits uses no CPU time, and may take longer than its limit. Here it waits in `emit`,
/// and computes afterwards.
#[test]
fn a_call_that_waits_is_not_ended_by_its_time_limit() {
    let engine = Engine::new(&pipemill_builtin::BUILTINS).expect("an engine");
    let emit = "(local $n i32)
        (i64.store (i32.const 256) (i64.extend_i32_u (local.get $size)))
        (call $emit (i32.const 1) (i32.const 256) (i32.const 1)
            (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))
        (loop $again (local.set $n (i32.add (local.get $n) (i32.const 1)))
            (br_if $again (i32.lt_u (local.get $n) (i32.const 10000))))
        (global.set $top (i32.const 4096))
        (i32.store8 (i32.const 128) (i32.const 0))
        (i32.store (i32.const 136) (local.get $size))
        (i32.store (i32.const 140) (i32.const 1))
        (return (i32.const 128))";
    let plugin = load(&engine, &tiny("", emit)).expect("it fits");
    let bytes = SlowBytes(vec![b'x'; 100_000]);
    assert_eq!(decode_bytes(&plugin, &(Arc::new(bytes) as Bytes)), Ok(2));
}

#[test]
fn hand_written_attacks_end_in_an_error() {
    let engine = Engine::new(&pipemill_builtin::BUILTINS).expect("an engine");
    let spin = "(loop $again (br $again))";
    let grow_memory =
        "(loop $again (br_if $again (i32.ne (i32.const -1) (memory.grow (i32.const 16)))))
        unreachable";
    let grow_table = "(loop $again (br_if $again (i32.ne (i32.const -1)
            (table.grow $table (ref.null func) (i32.const 1000)))))
        unreachable";
    let cases = [
        (
            "emits a list behind its memory",
            "(call $emit (i32.const 1) (i32.const 0x7fffff00) (i32.const 0x0fffffff)
            (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))",
        ),
        (
            "emits a payload behind its memory",
            "(call $emit (i32.const 1) (i32.const 256) (i32.const 1)
            (i32.const 4096) (i32.const -1) (i32.const 0) (i32.const 0))",
        ),
        (
            "emits spans at an odd address",
            "(call $emit (i32.const 1) (i32.const 257) (i32.const 1)
            (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))",
        ),
        (
            "logs text that is none",
            "(i32.store (i32.const 512) (i32.const -1))
            (call $log (i32.const 1) (i32.const 512) (i32.const 4))",
        ),
        ("logs at a level that is none", "(call $log (i32.const 77) (i32.const 32) (i32.const 5))"),
        ("declares a billion fields", "(call $set_schema (i32.const 0) (i32.const 0x3fffffff))"),
        ("grows its memory for ever", grow_memory),
        ("grows its table for ever", grow_table),
        ("makes resources for ever", "(loop $again (drop (call $new (i32.const 1))) (br $again))"),
        ("spins", spin),
        ("divides by zero", "(drop (i32.div_u (i32.const 1) (i32.const 0)))"),
        ("goes where it should not", "(drop (i32.load (i32.const -4)))"),
    ];
    for (what, instructions) in cases {
        let (before, began) = (memory(), Instant::now());
        let plugin = load(&engine, &tiny("", instructions)).expect(what);
        let fault = decode(&plugin).expect_err(what);
        assert!(!fault.message.is_empty() && !fault.remedy.is_empty(), "{what}: {fault:?}");
        assert!(began.elapsed() < PATIENCE, "{what}: {:?}", began.elapsed());
        let grown = memory().saturating_sub(before);
        assert!(grown < 300 << 20, "{what}: the host grew by {} MiB", grown >> 20);
    }
    // Before it is even asked for its options.
    for (what, instructions) in [("spins", spin), ("grows", grow_memory), ("grows", grow_table)] {
        let refused = load(&engine, &tiny(instructions, "")).err();
        assert!(refused.is_some_and(|why| why.contains("when asked for its options")), "{what}");
    }
    assert_eq!(decode(&load(&engine, &tiny("", "")).expect("it fits")), Ok(2), "and all is well");
}

/// A list of options that is longer than any decoder needs.
#[test]
fn a_decoder_with_too_many_options_is_refused() {
    let engine = Engine::new(&pipemill_builtin::BUILTINS).expect("an engine");
    // Where the list is, and how long. The decoder's memory has zeros there: names without letters.
    let none = "(i64.store (i32.const 128) (i64.const 0))";
    let many = format!("(i64.store (i32.const 128) (i64.const {}))", 1_001_u64 << 32 | 8192);
    let module = text("", "").replacen(none, &many, 1);
    let wasm = component(wat::parse_str(module).expect("instructions")).expect("it fits the world");
    let refused = load(&engine, &wasm).err().expect("it has too many options");
    assert!(refused.contains("declares 1001 options; 1000 are possible"), "{refused}");
}

/// How many mutants.
const MUTANTS: usize = 10_000;

/// Binaries with bytes changed at random: nearly all are refused; those that are not run and end.
#[test]
fn mutants_are_refused_or_run() {
    let engine = Engine::new(&pipemill_builtin::BUILTINS).expect("an engine");
    let sound = tiny("", "");
    let mut rng = fastrand::Rng::with_seed(48);
    let (mut refused, mut ran) = (0, 0);
    for number in 0..MUTANTS {
        let mut wasm = sound.clone();
        for _ in 0..rng.usize(1..=3) {
            let at = rng.usize(8..wasm.len());
            match rng.u8(0..5) {
                0 => wasm[at] ^= 1 << rng.u8(0..8),
                1 => wasm[at] = rng.u8(..),
                2 => wasm.insert(at, rng.u8(..)),
                3 => drop(wasm.remove(at)),
                _ => wasm.truncate(at),
            }
            if wasm.len() < 16 {
                break;
            }
        }
        let began = Instant::now();
        match load(&engine, &wasm) {
            Err(why) => {
                assert!(why.starts_with("decoder `hostile`: "), "mutant {number}: {why}");
                refused += 1;
            }
            Ok(plugin) => {
                // An answer of either kind will do.
                let _ = decode(&plugin);
                ran += 1;
            }
        }
        assert!(began.elapsed() < PATIENCE, "mutant {number}: {:?}", began.elapsed());
    }
    assert!(refused > 0 && ran > 0, "{refused} refused, {ran} ran: not much of a corpus");
}

#[test]
fn a_file_that_is_too_large_is_not_even_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("large.wasm");
    let file = std::fs::File::create(&path).expect("it can be made");
    file.set_len(100 << 20).expect("it can be that long");
    let engine = Engine::new(&pipemill_builtin::BUILTINS).expect("an engine");
    let name = path.to_str().expect("UTF-8");
    let why = Plugin::load(&engine, name, None).err().expect("refused").to_string();
    assert!(why.contains("104857600 bytes; plugins may have 67108864"), "{why}");
}

#[test]
fn only_a_regular_file_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let fifo = folder.path().join("fifo.wasm");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("it can be made");
    let engine = Engine::new(&pipemill_builtin::BUILTINS).expect("an engine");
    for path in [Path::new("/dev/zero"), &fifo, folder.path()] {
        let name = path.to_str().expect("UTF-8");
        let why = Plugin::load(&engine, name, None).err().expect("refused").to_string();
        assert!(why.contains("a folder, pipe or device, not a regular file"), "{why}");
    }
}
