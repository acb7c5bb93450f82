//! Memory limit of the control group (cgroup) of this process, for example of its container, and
//! the number of processes that the kernel killed because of it.

use std::path::Path;

/// The mount point of the control group in a container.
const GROUP: &str = "/sys/fs/cgroup";

/// Bytes of memory that all processes of the control group may use together; `None` without a
/// limit.
pub fn memory_limit() -> Option<u64> {
    limit_in(Path::new(GROUP))
}

/// Number of processes of the control group that the kernel has killed because the memory limit was
/// reached; `None` if that is unknown.
pub fn killed_for_memory() -> Option<u64> {
    killed_in(Path::new(GROUP))
}

/// Version of the control groups that are mounted, 1 or 2; `None` if there are none.
pub fn group_version() -> Option<u8> {
    version_in(Path::new(GROUP))
}

fn version_in(group: &Path) -> Option<u8> {
    let has = |name: &str| group.join(name).exists();
    if has("cgroup.controllers") { Some(2) } else { has("memory").then_some(1) }
}

fn limit_in(group: &Path) -> Option<u64> {
    /// Version 1 writes a number above this one if there is no limit.
    const UNLIMITED: u64 = 1 << 60;
    // The first name is version 2's, the second version 1's. Version 2 writes `max` if there is no
    // limit, which does not parse.
    let limit = ["memory.max", "memory/memory.limit_in_bytes"].into_iter().find_map(|file| {
        std::fs::read_to_string(group.join(file)).ok()?.trim().parse::<u64>().ok()
    });
    limit.filter(|limit| *limit < UNLIMITED)
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
    fn reads_limit_and_kills_of_cgroup_version_2() {
        let events = "low 0\nhigh 0\nmax 31\noom 3\noom_kill 2\noom_group_kill 0\n";
        let group = group(&[("memory.max", "268435456\n"), ("memory.events", events)]);
        assert_eq!(limit_in(group.path()), Some(256 << 20));
        assert_eq!(killed_in(group.path()), Some(2));
    }

    #[test]
    fn the_version_is_known_by_the_files() {
        // `group` makes the folder `memory`, as version 1 does.
        assert_eq!(version_in(group(&[]).path()), Some(1));
        assert_eq!(version_in(group(&[("cgroup.controllers", "memory\n")]).path()), Some(2));
        assert_eq!(version_in(Path::new("/nothing")), None);
    }

    #[test]
    fn reads_limit_and_kills_of_cgroup_version_1() {
        let control = "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n";
        let group = group(&[
            ("memory/memory.limit_in_bytes", "268435456\n"),
            ("memory/memory.oom_control", control),
        ]);
        assert_eq!(limit_in(group.path()), Some(256 << 20));
        assert_eq!(killed_in(group.path()), Some(1));
    }

    #[test]
    fn an_unlimited_group_has_no_limit() {
        let none = group(&[]);
        assert_eq!((limit_in(none.path()), killed_in(none.path())), (None, None));
        assert_eq!(limit_in(group(&[("memory.max", "max\n")]).path()), None);
        let version_1 = group(&[("memory/memory.limit_in_bytes", "9223372036854771712\n")]);
        assert_eq!(limit_in(version_1.path()), None);
    }
}
