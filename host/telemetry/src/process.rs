//! Memory and CPU time of this process, from /proc.

use std::fs::read_to_string;
use std::time::Duration;

/// Clock ticks per second in /proc. It is 100 on all architectures of Linux that pipemill runs on.
const TICKS_PER_SECOND: u64 = 100;

/// Memory and CPU time of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Resident memory without shared memory, such as rings, in bytes.
    pub own: u64,
    /// Resident memory, in bytes.
    pub resident: u64,
    /// CPU time in user and kernel mode.
    pub cpu: Duration,
}

impl Usage {
    /// The usage of this process. All values are zero if /proc is not mounted.
    pub fn now() -> Self {
        let status = read_to_string("/proc/self/status").unwrap_or_default();
        let stat = read_to_string("/proc/self/stat").unwrap_or_default();
        let resident = status_bytes(&status, "VmRSS:");
        Self {
            own: resident.saturating_sub(status_bytes(&status, "RssShmem:")),
            resident,
            cpu: cpu_time(&stat).unwrap_or_default(),
        }
    }
}

/// The value of a line such as `VmRSS:  9000 kB`, in bytes; 0 without such a line.
fn status_bytes(status: &str, key: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    number.unwrap_or(0) << 10
}

fn cpu_time(stat: &str) -> Option<Duration> {
    // The second field is the command's name in parentheses. It may hold `)` and spaces.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * (1000 / TICKS_PER_SECOND)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_and_stat_of_the_kernel_are_parsed() {
        let status = "Name:\tx\nVmRSS:\t   9000 kB\nRssAnon:\t 800 kB\nRssShmem:\t  8000 kB\n";
        assert_eq!(
            (status_bytes(status, "VmRSS:"), status_bytes(status, "RssShmem:")),
            (9000 << 10, 8000 << 10)
        );
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20";
        assert_eq!(cpu_time(stat), Some(Duration::from_millis(1750)));
        assert_eq!(cpu_time("7 (a) S 1"), None);
        let now = Usage::now();
        assert!(now.own > 0 && now.own <= now.resident);
    }
}
