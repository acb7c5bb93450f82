//! A Unix socket at a path: for the consumers of the ring, or for clients that ask the host for its
//! status. One host at a time binds the path, and only its user can reach it. The socket of a dead
//! host is replaced; a host that ends normally removes its own.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, Metadata, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::socket::{
    Backlog, Shutdown, SockFlag, SockType, UnixAddr, bind, connect, listen, shutdown,
};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::geteuid;
use pipemill_types::trust::OpenFolder;

use crate::socket::{peer_of, unix};

/// Another host that starts holds the folder's lock only for milliseconds. After this time, the
/// other host is considered to hang.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The advice for a folder of this user to which others may write.
const CLOSE_IT: &str = "give a path in another folder, or take the others' permission to write \
                        away: chmod go-w";
/// The advice for a folder of another user.
const ANOTHER_FOLDER: &str = "another user has made it, so choose another one: set XDG_RUNTIME_DIR \
                              to a folder of this user, or give another path";

/// The reason why a path can't be served.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// Another host serves the path.
    #[error(
        "{}: process {pid} serves this socket already; stop it, or give this host another path",
        path.display()
    )]
    InUse {
        /// The path.
        path: PathBuf,
        /// The other host's process id; 0 if the host is in a namespace that this process can't
        /// see.
        pid: i32,
    },
    /// The path is not a socket.
    #[error(
        "{}: expected a socket or nothing, found {found}; remove it or give another path",
        path.display()
    )]
    NotASocket {
        /// The path.
        path: PathBuf,
        /// Its kind, such as "a file".
        found: &'static str,
    },
    /// The folder's mode or owner would let other users replace the socket.
    #[error(
        "{}: the folder of the socket must be one that only this user may write to (owner {euid}, \
         mode 0755 or stricter); found {}owner {uid}, mode {mode:04o}; {}",
        folder.display(),
        if *is_link { "a link with " } else { "" },
        if uid == euid { CLOSE_IT } else { ANOTHER_FOLDER }
    )]
    OpenFolder {
        /// The folder.
        folder: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// The user id of its owner.
        uid: u32,
        /// The effective user id of this process.
        euid: u32,
        /// Whether the path of the folder is a link, which belongs to the other user.
        is_link: bool,
    },
    /// Another host that starts in this folder has held its lock for 5 s.
    #[error("{}: another host has been starting here for {LOCK_TIMEOUT:?}", folder.display())]
    Locked {
        /// The folder.
        folder: PathBuf,
    },
    /// The kernel refused.
    #[error("{}: {what}: {error}", path.display())]
    System {
        /// The path or its folder.
        path: PathBuf,
        /// The step that failed.
        what: &'static str,
        /// The kernel's error.
        error: io::Error,
    },
}

fn failed<E: Into<io::Error>>(what: &'static str, path: &Path) -> impl FnOnce(E) -> EndpointError {
    move |error| EndpointError::System { path: path.into(), what, error: error.into() }
}

/// A listening socket at a path. The path is removed when this is dropped.
#[derive(Debug)]
pub struct Endpoint {
    listener: OwnedFd,
    path: PathBuf,
    /// Device and inode: another host's socket at the same path is not removed.
    identity: (u64, u64),
}

impl Endpoint {
    /// Binds `path` and listens. Its folder is created if it is missing. With `allow_other_users`
    /// the folder's mode is not checked, and every user who can reach the socket may connect.
    ///
    /// # Errors [`EndpointError`] names each: another host serves the path, it is not a socket, its
    /// folder is open to others, another start hangs, or the kernel refuses.
    pub fn bind(
        path: &Path,
        kind: SockType,
        allow_other_users: bool,
    ) -> Result<Endpoint, EndpointError> {
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let address =
            |path: &Path| UnixAddr::new(path).map_err(failed("the path can't be a socket's", path));
        let opened = open_folder(folder, allow_other_users)?;
        let _lock = lock(opened, folder)?;
        remove_stale(path, kind, &address(path)?)?;
        // It gets its name only when it is ready, so that every client that finds it can connect.
        let unnamed = unnamed(path);
        if unnamed.symlink_metadata().is_ok_and(|found| found.file_type().is_socket()) {
            std::fs::remove_file(&unnamed).map_err(failed("removing a stale socket", &unnamed))?;
        }
        let mut endpoint = listen_at(&unnamed, &address(&unnamed)?, kind, allow_other_users)?;
        std::fs::rename(&unnamed, path).map_err(failed("giving the socket its name", path))?;
        endpoint.path = path.into();
        Ok(endpoint)
    }

    /// The path that others connect to.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the kernel refuse new connections. Those that wait can still be accepted.
    pub(crate) fn refuse_more(&self) {
        // It can't fail: it is a listening socket of this process.
        let _ = shutdown(self.listener.as_raw_fd(), Shutdown::Read);
    }
}

impl AsFd for Endpoint {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let ours = |found: &Metadata| identity(found) == self.identity;
        if self.path.symlink_metadata().is_ok_and(|found| ours(&found))
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            log::warn!("{}: the socket could not be removed: {error}", self.path.display());
        }
    }
}

/// The temporary path of a socket that does not have its name yet, in the same folder. The kernel
/// shows it as the socket's path for the socket's whole life, so it resembles the name: `.name`, or
/// another name of the same length if `.name` would be too long.
fn unnamed(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let hidden = path.with_file_name(OsStr::from_bytes(&[b".", name].concat()));
    if UnixAddr::new(&hidden).is_ok() {
        return hidden;
    }
    let (last, start) = name.split_last().unwrap_or((&b'.', &[]));
    let other = if *last == b'~' { b'-' } else { b'~' };
    path.with_file_name(OsStr::from_bytes(&[start, &[other]].concat()))
}

/// Binds `path` and listens.
fn listen_at(
    path: &Path,
    address: &UnixAddr,
    kind: SockType,
    allow_other_users: bool,
) -> Result<Endpoint, EndpointError> {
    let listener = unix(kind, SockFlag::SOCK_NONBLOCK).map_err(failed("making a socket", path))?;
    let mode = if allow_other_users { 0o666 } else { 0o600 };
    // This happens before it is bound, so that it is never open to others, not even for a moment.
    fchmod(&listener, Mode::from_bits_truncate(mode)).map_err(failed("chmod", path))?;
    bind(listener.as_raw_fd(), address).map_err(failed("binding it", path))?;
    let bound = path.symlink_metadata().map_err(failed("looking at it", path))?;
    let endpoint = Endpoint { listener, path: path.into(), identity: identity(&bound) };
    if allow_other_users {
        // The umask may have removed bits.
        std::fs::set_permissions(path, Permissions::from_mode(mode))
            .map_err(failed("chmod", path))?;
    }
    // The queue of connections is as long as the kernel allows: net.core.somaxconn.
    listen(&endpoint.listener, Backlog::MAXALLOWABLE).map_err(failed("listening", path))?;
    Ok(endpoint)
}

/// Removes the sockets of dead hosts from a folder: a killed host leaves its socket, and nobody
/// binds a path again that was for that host alone. `lives` says of a file name that its host
/// lives; the other hosts are asked by a connection.
///
/// A socket that can't be removed stays: it does no harm.
pub fn remove_dead_sockets(folder: &Path, lives: impl Fn(&str) -> bool) {
    let Ok(opened) = open_folder(folder, false) else { return };
    let Ok(_lock) = lock(opened, folder) else { return };
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.ends_with(".sock")
            && !lives(name)
            && let Ok(address) = UnixAddr::new(&path)
        {
            // The error says that a host serves it.
            let _ = remove_stale(&path, SockType::SeqPacket, &address);
        }
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Checks whether another user could have put a socket into this folder. A folder that does not
/// exist can be created.
///
/// # Errors
/// [`EndpointError::OpenFolder`], or [`EndpointError::System`] if it can't be read.
pub fn check_folder(folder: &Path) -> Result<(), EndpointError> {
    let look = |error| failed("looking at the folder", folder)(error);
    let found = match folder.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(look)?,
    };
    // Others may read the folder: the socket's own mode keeps them out.
    let checked = OpenFolder::check(&found, geteuid().as_raw(), || folder.metadata());
    checked.map_err(look)?.map_err(|open| open_to_others(folder, open))
}

fn open_to_others(folder: &Path, open: OpenFolder) -> EndpointError {
    let OpenFolder { mode, uid, euid, is_link } = open;
    EndpointError::OpenFolder { folder: folder.into(), mode, uid, euid, is_link }
}

fn open_folder(folder: &Path, allow_other_users: bool) -> Result<File, EndpointError> {
    let mode = if allow_other_users { 0o755 } else { 0o700 };
    DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(folder)
        .map_err(failed("making the folder of the socket", folder))?;
    if !allow_other_users {
        check_folder(folder)?;
    }
    let opened = File::open(folder).map_err(failed("opening the folder of the socket", folder))?;
    // The opened folder, because its path may lead to another folder later.
    let found = opened.metadata().map_err(failed("looking at the folder", folder))?;
    if !allow_other_users {
        OpenFolder::check_own(&found, geteuid().as_raw())
            .map_err(|open| open_to_others(folder, open))?;
    }
    Ok(opened)
}

/// Locks the folder. `bind` holds the lock from its check for a dead socket until it listens: a
/// socket that is bound and does not listen yet looks dead, and another host would remove it.
fn lock(folder: File, path: &Path) -> Result<Flock<File>, EndpointError> {
    let deadline = Instant::now() + LOCK_TIMEOUT;
    let mut folder = folder;
    loop {
        match Flock::lock(folder, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((back, Errno::EWOULDBLOCK | Errno::EINTR)) if Instant::now() < deadline => {
                folder = back;
                std::thread::sleep(Duration::from_millis(5));
            }
            Err((_, Errno::EWOULDBLOCK | Errno::EINTR)) => {
                return Err(EndpointError::Locked { folder: path.into() });
            }
            Err((_, errno)) => return Err(failed("locking the folder of the socket", path)(errno)),
        }
    }
}

/// Removes the socket of a dead host from the path.
fn remove_stale(path: &Path, kind: SockType, address: &UnixAddr) -> Result<(), EndpointError> {
    let found = match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(failed("looking at it", path))?.file_type(),
    };
    if !found.is_socket() {
        let found = match found {
            kind if kind.is_dir() => "a folder",
            kind if kind.is_symlink() => "a symbolic link",
            kind if kind.is_file() => "a file",
            _ => "something else",
        };
        return Err(EndpointError::NotASocket { path: path.into(), found });
    }
    let probe = unix(kind, SockFlag::SOCK_NONBLOCK).map_err(failed("making a socket", path))?;
    match connect(probe.as_raw_fd(), address) {
        Err(Errno::ECONNREFUSED) => {
            log::info!("{}: replacing the socket of a host that is gone", path.display());
            std::fs::remove_file(path).map_err(failed("removing a stale socket", path))
        }
        Err(Errno::ENOENT) => Ok(()),
        // EPROTOTYPE means another kind of server. EAGAIN means that it is busy. Both are alive.
        Ok(()) | Err(Errno::EAGAIN | Errno::EPROTOTYPE) => {
            let pid = peer_of(&probe).map_or(0, |peer| peer.pid);
            Err(EndpointError::InUse { path: path.into(), pid })
        }
        Err(errno) => Err(failed("asking whether somebody serves it", path)(errno)),
    }
}
