//! The meaning of a file's times and sizes, which depends on its file system.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sys::statfs::{Statfs, fstatfs, statfs};

/// A kind of file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileSystem {
    /// A file system of the kernel, such as /proc: its files show or set the state of the kernel
    /// and of processes. They are not stored data.
    OfTheKernel,
    /// A file system of a program or another machine, which makes up inodes and change times.
    OfOthers,
    /// Any other file system: the kernel keeps the times of its files.
    Own,
}

/// File systems of the kernel, by their numbers in Linux's `magic.h`.
const OF_THE_KERNEL: [u32; 17] = [
    0x0000_9fa0, // proc
    0x6265_6572, // sysfs
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0xf97c_ff8c, // selinuxfs
    0x4341_5d53, // smackfs
    0xcafe_4a11, // bpf
    0x0000_1cd1, // devpts
    0x6e73_6673, // nsfs
    0xde5e_81e4, // efivarfs
    0x6165_676c, // pstore
    0x6265_6570, // configfs
    0x4249_4e4d, // binfmt_misc
    0x1980_0202, // mqueue
];
/// Network file systems and FUSE, by their numbers.
const OF_OTHERS: [u32; 4] = [
    0x6573_5546, // FUSE
    0xff53_4d42, // CIFS
    0xfe53_4d42, // SMB 2
    0x0102_1997, // 9p
];

impl FileSystem {
    /// The kind of file system of an open file.
    pub(super) fn of(file: &File) -> Self {
        Self::from(fstatfs(file))
    }

    fn from(found: nix::Result<Statfs>) -> Self {
        let Ok(found) = found else { return Self::Own };
        // The numbers have 32 bits; their type differs between C libraries.
        match found.filesystem_type().0 as u32 {
            number if OF_THE_KERNEL.contains(&number) => Self::OfTheKernel,
            number if OF_OTHERS.contains(&number) => Self::OfOthers,
            _ => Self::Own,
        }
    }
}

/// The kinds of the file systems that a list has reached, by device.
#[derive(Default)]
pub(super) struct FileSystems(HashMap<u64, FileSystem>);

impl FileSystems {
    /// The kind of file system of a path with this metadata.
    pub(super) fn of(&mut self, path: &Path, metadata: &Metadata) -> FileSystem {
        *self.0.entry(metadata.dev()).or_insert_with(|| FileSystem::from(statfs(path)))
    }
}
