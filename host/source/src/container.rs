//! The memory that this process may have if it is in a container or another control group with a limit, and whether
//! the kernel has killed for it. Not the machine's own memory.

use std::path::Path;

const GROUP: &str = "/sys/fs/cgroup";

/// The bytes that this process and those beside it may have together, if there is a limit.
pub fn memory_limit() -> Option<u64> {
    limit_in(Path::new(GROUP))
}

/// How many processes of this container the kernel has killed because the limit was reached.
pub fn killed_for_memory() -> Option<u64> {
    killed_in(Path::new(GROUP))
}

fn limit_in(group: &Path) -> Option<u64> {
    /// Version 1 says it has no limit by a number that no machine has memory for.
    const NONE: u64 = 1 << 60;
    // Of the control group, versions 2 and 1; without a limit, version 2 has a word there.
    let limit = ["memory.max", "memory/memory.limit_in_bytes"].into_iter().find_map(|file| {
        std::fs::read_to_string(group.join(file)).ok()?.trim().parse::<u64>().ok()
    });
    limit.filter(|limit| *limit < NONE)
}

fn killed_in(group: &Path) -> Option<u64> {
    ["memory.events", "memory/memory.oom_control"].into_iter().find_map(|file| {
        let text = std::fs::read_to_string(group.join(file)).ok()?;
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder for a test");
        std::fs::create_dir(folder.path().join("memory")).expect("it is new");
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).expect("it can be written");
        }
        folder
    }

    #[test]
    fn version_2() {
        let events = "low 0\nhigh 0\nmax 31\noom 3\noom_kill 2\noom_group_kill 0\n";
        let group = group(&[("memory.max", "268435456\n"), ("memory.events", events)]);
        assert_eq!(limit_in(group.path()), Some(256 << 20));
        assert_eq!(killed_in(group.path()), Some(2));
    }

    #[test]
    fn version_1() {
        let control = "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n";
        let group = group(&[
            ("memory/memory.limit_in_bytes", "268435456\n"),
            ("memory/memory.oom_control", control),
        ]);
        assert_eq!(limit_in(group.path()), Some(256 << 20));
        assert_eq!(killed_in(group.path()), Some(1));
    }

    #[test]
    fn no_limit() {
        let none = group(&[]);
        assert_eq!((limit_in(none.path()), killed_in(none.path())), (None, None));
        assert_eq!(limit_in(group(&[("memory.max", "max\n")]).path()), None);
        let version_1 = group(&[("memory/memory.limit_in_bytes", "9223372036854771712\n")]);
        assert_eq!(limit_in(version_1.path()), None);
    }
}
