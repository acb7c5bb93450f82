//! The memory that a host takes, as the kernel reports it, compared with the account that `config
//! check` prints of its channels.

use std::process::Command;

use nix::unistd::Pid;
use pipemill_tests::host::Host;
use pipemill_tests::pipemill;
use pipemill_tests::process::finish;
use pipemill_tests::test_dir::TestDir;

use super::MIB;

/// The memory that the host takes in addition to its channels: code, threads, compiled plugins. The
/// account includes connections that receive nothing, and there are none here.
const HOST: u64 = 64 * MIB;

/// The memory that a host may take, and the most that it took.
pub struct Taken {
    pid: Pid,
    account: u64,
    most: u64,
}

impl Taken {
    /// For a host that runs the configuration of this folder.
    pub fn by(host: &Host, place: &TestDir) -> Self {
        Self::by_process(host.process.pid(), place)
    }

    /// The same for a host's process.
    pub fn by_process(pid: Pid, place: &TestDir) -> Self {
        Self { pid, account: account(place), most: 0 }
    }

    /// Asks the kernel. The kernel knows the peak for as long as the host runs.
    pub fn measure(&mut self) {
        self.most = self.most.max(peak(self.pid).unwrap_or(0));
    }

    /// The host took no more than it may.
    pub fn check(self) {
        let Self { account, most, .. } = self;
        println!("{} MiB of {} MiB", most / MIB, account / MIB);
        assert!(most > 0 && most < account + HOST, "{most} bytes, of {account}");
    }
}

/// Bytes that the channels of the configuration may take together, as `config check` says.
fn account(place: &TestDir) -> u64 {
    let mut command = Command::new(pipemill!());
    command.args(["config", "check"]).arg(place.path("pipemill.toml"));
    let said = finish(&mut command).with_code(0).text();
    let of_line = |line: &str| {
        let (name, rest) = line.split_once(": takes at most ")?;
        if name == "pipemill itself" {
            return None;
        }
        let (size, _) = rest.split_once(':')?;
        let (number, factor) = match size.strip_suffix("MiB") {
            Some(number) => (number, MIB),
            None => (size.strip_suffix("GiB").expect("MiB or GiB"), 1024 * MIB),
        };
        Some(number.parse::<u64>().expect("a number") * factor)
    };
    said.lines().filter_map(of_line).sum()
}

/// The most bytes that a process ever had, without those of its files. None if it has ended.
fn peak(pid: Pid) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let of = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)
    };
    Some(of("VmHWM:")?.saturating_sub(of("RssFile:")?))
}
