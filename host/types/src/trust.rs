//! The rule for users and folders that are trusted: what is in a folder is believed only if no
//! other user can have put it there. Root is trusted, because it can change this process anyway.

use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// Whether a user is trusted: this process's own effective user, or root.
pub fn is_trusted_user(uid: u32, euid: u32) -> bool {
    uid == 0 || uid == euid
}

/// The owner and the mode of a folder in which another user could put something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFolder {
    /// Its permission bits.
    pub mode: u32,
    /// The user id of its owner.
    pub uid: u32,
    /// The effective user id of this process.
    pub euid: u32,
    /// Whether the path of the folder is a link, which belongs to the other user.
    pub is_link: bool,
}

impl OpenFolder {
    /// Checks a folder. `found` is what is at its path, a link not followed. `followed` is where
    /// a link leads; it is called only for a link of a trusted user. The folder's owner must be
    /// trusted, and no other user may write to it. Others may read it.
    ///
    /// # Errors
    /// The inner error describes a folder that is open to others; the outer one is that of
    /// `followed`.
    pub fn check<E>(
        found: &Metadata,
        euid: u32,
        followed: impl FnOnce() -> Result<Metadata, E>,
    ) -> Result<Result<(), Self>, E> {
        let is_link = found.is_symlink();
        if is_link && !is_trusted_user(found.uid(), euid) {
            return Ok(Err(Self::of(found, euid, true)));
        }
        let target = if is_link { Some(followed()?) } else { None };
        let folder = target.as_ref().unwrap_or(found);
        let is_closed = is_trusted_user(folder.uid(), euid) && folder.mode() & 0o022 == 0;
        Ok(if is_closed { Ok(()) } else { Err(Self::of(folder, euid, false)) })
    }

    /// Checks a folder that is open. It must be this user's own: the folder of a path that was
    /// checked before may be another one meanwhile, and a folder of root is not this user's.
    ///
    /// # Errors
    /// The folder is open to others, or is not this user's.
    pub fn check_own(opened: &Metadata, euid: u32) -> Result<(), Self> {
        let is_own = opened.uid() == euid && opened.mode() & 0o022 == 0;
        if is_own { Ok(()) } else { Err(Self::of(opened, euid, false)) }
    }

    fn of(found: &Metadata, euid: u32, is_link: bool) -> Self {
        Self { mode: found.mode() & 0o7777, uid: found.uid(), euid, is_link }
    }
}

impl fmt::Display for OpenFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let link = if self.is_link { "a link with " } else { "" };
        write!(f, "{link}owner {}, mode {:04o}", self.uid, self.mode)
    }
}
