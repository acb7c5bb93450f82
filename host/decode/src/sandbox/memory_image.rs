//! The content of a memory, from which the memories of other instances begin. They share its pages:
//! an instance that writes to one gets a copy of its own.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use pipemill_types::SharedFile;

use crate::sandbox::guest_memory::{GuestMemory, WASM_PAGE};

/// A sealed file with the content of a memory.
pub(crate) struct MemoryImage {
    file: SharedFile,
}

impl MemoryImage {
    /// Copies the content. Pages of zeros take no memory.
    ///
    /// # Errors
    /// The kernel has no memory for it.
    ///
    /// # Safety
    /// No code of the decoder runs meanwhile.
    pub(crate) unsafe fn of(memory: &GuestMemory) -> io::Result<Self> {
        // SAFETY: the caller vouches for it.
        let content = unsafe { memory.content() };
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let file = File::from(memfd_create("pipemill:prepared", flags)?);
        file.set_len(content.len() as u64)?;
        for (number, page) in content.chunks(WASM_PAGE).enumerate() {
            if page.iter().any(|byte| *byte != 0) {
                file.write_all_at(page, (number * WASM_PAGE) as u64)?;
            }
        }
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_WRITE;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        let bytes = content.len() as u64;
        Ok(Self { file: SharedFile { fd: file.into(), bytes, most: bytes } })
    }

    /// Size of the memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.file.bytes
    }

    /// Replaces the content of a memory that has at least as many bytes.
    ///
    /// # Errors
    /// The kernel refuses.
    ///
    /// # Safety
    /// No code of the decoder runs, and nobody has a reference into its memory.
    pub(crate) unsafe fn map_into(&self, memory: &GuestMemory) -> Result<(), Errno> {
        // SAFETY: the caller vouches for it.
        unsafe { memory.show(0, &self.file) }
    }
}
