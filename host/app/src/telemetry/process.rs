//! What this process takes of the machine, as the kernel counts it.

use std::fs::read_to_string;
use std::time::Duration;

/// Ticks of a second in /proc; the same on every architecture of Linux that we run on.
const TICKS: u64 = 100;

/// What a process takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Resident memory without what is shared with others, rings above all; in bytes.
    pub own: u64,
    /// All resident memory, in bytes.
    pub resident: u64,
    /// Time on processors, in user and kernel mode.
    pub cpu: Duration,
}

impl Usage {
    /// Of this process; zeroes where /proc is not mounted.
    pub fn now() -> Self {
        let status = read_to_string("/proc/self/status").unwrap_or_default();
        let stat = read_to_string("/proc/self/stat").unwrap_or_default();
        let resident = kib(&status, "VmRSS:");
        Self {
            own: resident.saturating_sub(kib(&status, "RssShmem:")),
            resident,
            cpu: cpu(&stat).unwrap_or_default(),
        }
    }
}

fn kib(status: &str, key: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    number.unwrap_or(0) << 10
}

fn cpu(stat: &str) -> Option<Duration> {
    // The second field, the command's name, may hold anything, `)` and spaces too.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * (1000 / TICKS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_texts_are_understood() {
        let status = "Name:\tx\nVmRSS:\t   9000 kB\nRssAnon:\t 800 kB\nRssShmem:\t  8000 kB\n";
        assert_eq!((kib(status, "VmRSS:"), kib(status, "RssShmem:")), (9000 << 10, 8000 << 10));
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20";
        assert_eq!(cpu(stat), Some(Duration::from_millis(1750)));
        assert_eq!(cpu("7 (a) S 1"), None);
        let now = Usage::now();
        assert!(now.own > 0 && now.own <= now.resident);
    }
}
