//! While a decoder attacks the host, the other channels of the host go on, and the host's memory stays
//! within what the configuration allows.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use pipemill_ring::protocol::ErrorKind;
use pipemill_ring::reader::{Event, Reader};
use pipemill_tests::host::Host;
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{BAD_PLUGIN, consumer, pipemill, until};

use super::good;

const MIB: u64 = 1 << 20;

/// Attacks that go on until the call has used its CPU time.
const ENDLESS: [&str; 6] =
    ["spin", "crc-spin", "crc32-spin", "list-spin-schema", "skip-bombs-for-ever", "resync-spins"];

/// A channel whose decoder attacks. `more`: more of its keys.
fn attack(misdeed: &str, input: &Path, more: &str) -> String {
    format!(
        "[[channel]]\nname = '{misdeed}'\ndecoder = '{BAD_PLUGIN}'\noptions = {{ do = '{misdeed}' }}\n\
         source = {{ file = {input:?} }}\n{more}\n"
    )
}

/// Ticks of CPU time that the channel's thread has used; none if it has no thread.
fn cpu_ticks(host: Pid, channel: &str) -> Option<u64> {
    // The kernel keeps 15 bytes of a thread's name.
    let name: String = format!("channel-{channel}").chars().take(15).collect();
    let tasks = fs::read_dir(format!("/proc/{host}/task")).ok()?;
    tasks.flatten().find_map(|task| {
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        let (before, after) = stat.rsplit_once(')')?;
        let is_it = before.split_once('(')?.1 == name;
        is_it.then(|| after.split_whitespace().nth(11)?.parse().ok()).flatten()
    })
}

#[test]
fn a_good_channel_runs_on_beside_attacks() {
    let place = TestDir::new();
    let input = place.write("input", b"0123456789abcdef");
    let fifo = place.fifo("good_0");
    let limits = "on_error = 'skip'\nmax_record = '1MiB'\n[channel.ring]\nslots = 4\n\
                  slot_size = '64KiB'\n[channel.limits]\nmemory = '32MiB'\noutput = '1MiB'\n\
                  call_timeout = '1h'";
    let config = ENDLESS.iter().fold(good(&place), |all, it| all + &attack(it, &input, limits));
    let host = Host::start(&pipemill!(), &place, &config);
    let pid = host.process.pid();
    let mut reader = host.connect("good");
    let mut writer = File::options().write(true).open(&fifo).expect("the host reads it");
    for attack in ENDLESS {
        until(attack, || cpu_ticks(pid, attack).is_some_and(|ticks| ticks > 5));
    }
    for number in 0..10 {
        writeln!(writer, "{number}").expect("the host reads it");
        assert_eq!(one_record(&mut reader), number.to_string().as_bytes());
    }
    drop(writer);
    let rest = consumer::read(&mut reader);
    let epochs: Vec<_> = rest.epochs.iter().map(|end| (end.records, end.early)).collect();
    assert_eq!((epochs, rest.well().len()), (vec![(10, false)], 0));
    for attack in ENDLESS {
        assert!(cpu_ticks(pid, attack).is_some(), "{attack} has ended");
    }
    host.process.signal(Signal::SIGTERM);
    host.wait().with_code(143);
}

/// The next record, in a batch of its own.
fn one_record(reader: &mut Reader) -> Vec<u8> {
    match reader.next().expect("the channel is well") {
        Event::Batch(batch) => consumer::records(&batch).concat(),
        _ => panic!("expected a batch"),
    }
}

/// A decoder that makes the host hold more than it may, and how that ends.
struct Hoard {
    misdeed: &'static str,
    kind: ErrorKind,
    says: &'static str,
}

fn hoards() -> Vec<Hoard> {
    use ErrorKind::{Decode, Limit, Plugin};
    let case = |misdeed, kind, says| Hoard { misdeed, kind, says };
    vec![
        case("hoard-spans", Limit, "the decoder emitted more than 67108864 bytes in one call"),
        case("hoard-errors", Limit, "the decoder emitted more than 67108864 bytes in one call"),
        case("emit-forever", Limit, "the decoder emitted more than 67108864 bytes in one call"),
        case("alloc", Limit, "bytes of memory; its limit is 67108864"),
        case("hoard-name-schema", Plugin, "declared a schema of more than 4194304 bytes"),
        case("hoard-categories-schema", Plugin, "declared a schema of more than 4194304 bytes"),
        case("hoard-copies-schema", Limit, "has fields of 3355443000 bytes together"),
        case("hoard-message", Plugin, "the decoder failed: "),
        case("hoard-block", Decode, "the snappy block says that it has 62914560 bytes"),
    ]
}

/// A Snappy block of this many times 64 bytes, and one more.
fn snappy_bomb(times: usize) -> Vec<u8> {
    let mut size = 64 * times;
    let mut block = Vec::new();
    while size > 0x7f {
        block.push(size as u8 | 0x80);
        size >>= 7;
    }
    // The size; a literal byte; copies of 64 bytes at distance 1, the first one byte shorter.
    block.extend([size as u8, 0, b'x', 62 << 2 | 2, 1, 0]);
    block.extend([63 << 2 | 2, 1, 0].repeat(times - 1));
    block
}

/// The most memory that a process has had, in bytes.
fn peak_memory(pid: Pid) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("Linux says it");
    let kib = line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok());
    kib.expect("a number of kB") << 10
}

#[test]
fn the_host_holds_no_more_than_the_limits_allow() {
    const LIMITS: &str = "on_error = 'skip'\nmax_errors = 1000000000\nmax_record = '16MiB'\n\
                          [channel.ring]\nslots = 4\nslot_size = '1MiB'\n\
                          [channel.limits]\nmemory = '64MiB'\noutput = '64MiB'\ncall_timeout = '1h'";
    // Slots, and the dedicated buffers of a chunk that fits into none: the old one and its successor.
    let ring = 4 * MIB + 16 * MIB + 32 * MIB;
    let allowed = ring + 64 * MIB + 64 * MIB + 64 * MIB;
    for Hoard { misdeed, kind, says } in hoards() {
        let place = TestDir::new();
        let input = match misdeed {
            "hoard-block" => snappy_bomb((60 << 20) / 64),
            _ => [b"0", &*vec![b'x'; (16 << 20) - 1]].concat(),
        };
        let input = place.write("input", input);
        let fifo = place.fifo("good_0");
        let config = good(&place) + &attack(misdeed, &input, LIMITS);
        let host = Host::start(&pipemill!(), &place, &config);
        let mut good = host.connect("good");
        let mut writer = File::options().write(true).open(&fifo).expect("the host reads it");
        let read = host.read(misdeed);
        let peak = peak_memory(host.process.pid());
        println!("{misdeed}: {} MiB of {}", peak / MIB, allowed / MIB);
        let report = read.report();
        assert_eq!(report.kind, kind, "{misdeed}: {}", report.message);
        assert!(report.message.contains(says), "{misdeed}: {}", report.message);
        assert!(peak < allowed, "{misdeed}: the host had {} MiB", peak / MIB);
        writer.write_all(b"still here\n").expect("the host reads it");
        drop(writer);
        assert_eq!(consumer::read(&mut good).well(), [b"still here"]);
        host.wait().with_code(65);
    }
}

/// A decoder that finds no record, and rules out no byte, sees a long chunk only when it has grown.
#[test]
fn a_search_that_rules_out_nothing_ends() {
    let place = TestDir::new();
    let input = place.write("input", vec![b'x'; 40 << 20]);
    let more = "on_error = 'skip'\nmax_record = '16MiB'";
    let host = Host::start(&pipemill!(), &place, &attack("resync-stays", &input, more));
    let read = host.read("resync-stays");
    let message = &read.report().message;
    assert!(message.contains("bytes to find the next record in, and ruled out none"), "{message}");
    let ended = host.wait().with_code(65);
    let searches = ended.stderr.lines().filter(|line| line.contains("decoder says: searches"));
    let searches = searches.count();
    assert!((5..30).contains(&searches), "{searches} searches");
}
