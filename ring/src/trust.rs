//! Decides which hosts a reader trusts. A host's memory and its messages are trusted, so a reader
//! first checks who owns the socket, and then asks the kernel who serves it.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;
use pipemill_types::trust::is_trusted_user;

use crate::socket::peer_of;

/// Another user serves a path, or has created the socket there.
#[derive(Debug, thiserror::Error)]
#[error(
    "{}: expected a host of user {expected} or of root, found one of user {found}{}",
    path.display(),
    pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
)]
pub struct OtherUser {
    /// The socket.
    pub path: PathBuf,
    /// This process's effective user id.
    pub expected: u32,
    /// The other user's id.
    pub found: u32,
    /// The process that serves the path. `None` if it was not asked, or if it is in a namespace
    /// that this process can't see.
    pub pid: Option<i32>,
}

/// Whether a user is trusted by this process.
fn is_believed(uid: u32) -> bool {
    is_trusted_user(uid, geteuid().as_raw())
}

/// Checks who owns the socket at the path. This happens before a connection is made: another user's
/// process could block it.
///
/// # Errors
/// The outer error says that the path can't be read.
pub(crate) fn check_owner(path: &Path) -> io::Result<Result<(), OtherUser>> {
    match owner(path) {
        Ok(owner) => Ok(check(path, owner, None)),
        // Connecting reports the reason.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Ok(())),
        Err(error) => Err(error),
    }
}

/// The owner of the socket at the path, or of a link there: a link of another user leads wherever
/// that user wants.
fn owner(path: &Path) -> io::Result<u32> {
    let found = path.symlink_metadata()?;
    let is_followed = found.is_symlink() && is_believed(found.uid());
    Ok(if is_followed { path.metadata()?.uid() } else { found.uid() })
}

/// Checks who serves the path, at the other end of this connection.
///
/// # Errors
/// The outer error says that the kernel does not report it.
pub(crate) fn check_peer(path: &Path, socket: impl AsFd) -> io::Result<Result<(), OtherUser>> {
    let peer = peer_of(socket)?;
    Ok(check(path, peer.uid, (peer.pid != 0).then_some(peer.pid)))
}

fn check(path: &Path, found: u32, pid: Option<i32>) -> Result<(), OtherUser> {
    let expected = geteuid().as_raw();
    match is_believed(found) {
        true => Ok(()),
        false => Err(OtherUser { path: path.into(), expected, found, pid }),
    }
}
