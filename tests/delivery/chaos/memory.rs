//! Whether a host's memory and descriptors stay flat over its life.

use nix::unistd::Pid;

use super::life::descriptors;

/// The number of samples before a comparison makes sense.
const MIN_SAMPLES: usize = 50;
/// The growth of memory that is allowed, in KiB: the allocator keeps what it has once used at a
/// time.
const MEMORY_SLACK: u64 = 2 << 10;
/// The growth of descriptors that is allowed: connections to the S3 server come and go.
const DESCRIPTOR_SLACK: u64 = 4;

/// Memory outside of rings in KiB, and descriptors, each time that everything had made progress.
#[derive(Default)]
pub struct Samples(Vec<[u64; 2]>);

impl Samples {
    pub fn add(&mut self, pid: Pid) {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let memory = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
        let memory = memory.expect("a process that lives has memory");
        self.0.push([memory, descriptors(pid).len() as u64]);
    }

    /// Compares the last fifth with the second one: the first is the warm-up.
    ///
    /// # Panics
    /// Panics if there is more at the end.
    pub fn check(&self) {
        if self.0.len() < MIN_SAMPLES {
            return;
        }
        let fifth = self.0.len() / 5;
        let (early, late) = (&self.0[fifth..2 * fifth], &self.0[self.0.len() - fifth..]);
        for (at, what, slack) in
            [(0, "KiB of memory", MEMORY_SLACK), (1, "descriptors", DESCRIPTOR_SLACK)]
        {
            let [early, late] =
                [early, late].map(|samples| median(samples.iter().map(|it| it[at])));
            println!(
                "{what}: {early} after the warm-up, {late} at the end, {} samples",
                self.0.len()
            );
            assert!(late <= early + slack, "{what} grew from {early} to {late}");
        }
    }
}

fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable();
    values[values.len() / 2]
}
