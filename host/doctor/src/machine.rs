//! Facts of the kernel, of limits, memory, GPUs and of the socket's folder.

use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, access};
use pipemill_ring::endpoint::check_folder;
use pipemill_ring::host::{Ring, RingConfig};
use pipemill_ring::protocol::Mode;
use pipemill_source::container;

use super::facts::{Gpu, Limit, Memory, Socket};

pub(super) fn kernel() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
    release.map_or_else(|_| String::new(), |release| release.trim().to_owned())
}

/// Makes the smallest ring and drops it: the same system calls as those of a run.
pub(super) fn make_ring() -> Result<(), String> {
    let config = RingConfig {
        channel: "doctor".to_owned(),
        slots: 2,
        slot_bytes: 4096,
        dedicated: RingConfig::FEW_DEDICATED,
        credits: 1,
        mode: Mode::Share,
        consumers: 1,
    };
    Ring::new(config).map(drop).map_err(|error| error.to_string())
}

pub(super) fn open_files() -> Limit {
    limit(Resource::RLIMIT_NOFILE)
}

pub(super) fn locked_memory() -> Limit {
    limit(Resource::RLIMIT_MEMLOCK)
}

fn limit(resource: Resource) -> Limit {
    let (soft, hard) = getrlimit(resource).unwrap_or((RLIM_INFINITY, RLIM_INFINITY));
    let known = |limit| (limit != RLIM_INFINITY).then_some(limit);
    Limit { soft: known(soft), hard: known(hard) }
}

pub(super) fn shm() -> Option<u64> {
    let found = statvfs("/dev/shm").ok()?;
    Some(found.blocks() * found.fragment_size())
}

pub(super) fn memory() -> Memory {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    Memory {
        cgroup: container::group_version(),
        limit: container::memory_limit(),
        available: available(&text),
    }
}

/// The available bytes according to the text of `/proc/meminfo`.
fn available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// Checks whether a socket could be made: the innermost existing folder must be writable, and the
/// socket's own folder must belong to this user alone, unless other users are allowed.
pub(super) fn socket(path: PathBuf, allow_other_users: bool) -> Socket {
    let folder = path.ancestors().skip(1).find(|folder| folder.exists());
    let folder = folder.unwrap_or(Path::new(".")).to_owned();
    let error = match access(&folder, AccessFlags::W_OK | AccessFlags::X_OK) {
        _ if !folder.is_dir() => Some(Errno::ENOTDIR),
        result => result.err(),
    };
    let own = path.parent().filter(|_| !allow_other_users && error.is_none());
    let foreign = own.and_then(|own| check_folder(own).err()).map(|why| why.to_string());
    Socket { path, error: error.map(|errno| (folder, errno.desc().to_owned())), foreign }
}

/// The GPUs that NVIDIA's driver reports below this root.
pub(super) fn gpu(root: &Path) -> Gpu {
    let driver = root.join("proc/driver/nvidia");
    let version = std::fs::read_to_string(driver.join("version")).ok();
    let is_version =
        |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
    let numbers = version.as_deref().map(|text| {
        text.split_whitespace().find(is_version).unwrap_or("of an unknown version").to_owned()
    });
    let models = names(&driver.join("gpus")).filter_map(|gpu| {
        let text = std::fs::read_to_string(driver.join("gpus").join(gpu).join("information"));
        let text = text.ok()?;
        Some(text.lines().find_map(|line| line.strip_prefix("Model:"))?.trim().to_owned())
    });
    let is_gpu = |name: &String| {
        let number = name.strip_prefix("nvidia").unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let devices = names(&root.join("dev")).filter(is_gpu).count();
    Gpu { driver: numbers, models: models.collect(), devices }
}

/// The names in a folder; none if it can't be read.
fn names(folder: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn available_memory_is_read() {
        let text = "MemTotal:       4030120 kB\nMemAvailable:    2048 kB\nBuffers: 1 kB\n";
        assert_eq!(available(text), Some(2 << 20));
        assert_eq!(available("MemTotal: 1 kB\n"), None);
    }

    #[test]
    fn a_socket_needs_a_folder_that_can_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/pipemill.sock");
        assert!(socket(path, false).error.is_none());
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let (found, error) = socket(file.join("pipemill.sock"), false).error.unwrap();
        assert_eq!((found, error.as_str()), (file, "Not a directory"));
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_not_served_in() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("own");
        let found = |allow| socket(own.join("pipemill.sock"), allow).foreign;
        assert_eq!(found(false), None, "it is made");
        std::fs::create_dir(&own).unwrap();
        std::fs::set_permissions(&own, Permissions::from_mode(0o777)).unwrap();
        let why = found(false).unwrap();
        assert!(why.contains("mode 0777") && why.contains("chmod go-w"), "{why}");
        assert_eq!(found(true), None);
    }

    #[test]
    fn gpus_are_those_of_the_driver_and_of_the_devices() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let none = gpu(root.path());
        assert!(none.driver.is_none() && none.models.is_empty() && none.devices == 0);
        write(
            "proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Tue Jan 14 2025\nGCC 12\n",
        );
        let information = "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 40\n";
        write("proc/driver/nvidia/gpus/0000:01:00.0/information", information);
        for device in ["nvidia0", "nvidia12", "nvidiactl", "nvidia-uvm", "null"] {
            write(&format!("dev/{device}"), "");
        }
        let found = gpu(root.path());
        assert_eq!(found.driver.as_deref(), Some("570.86.15"));
        assert_eq!(found.models, ["NVIDIA H100 80GB HBM3"]);
        assert_eq!(found.devices, 2);
    }

    #[test]
    fn a_ring_can_be_made() {
        assert_eq!(make_ring(), Ok(()));
    }
}
