//! Finds the hosts of this user. One host serves the default path. Hosts that `pipemill.open()`
//! starts for a program serve a path with their process id in the same folder; so does a host that
//! found the default path in use.

use std::path::{Path, PathBuf};

use nix::unistd::getuid;
use pipemill_ring::endpoint::check_folder;
use pipemill_ring::status_client::{StatusClient, StatusClientError};

use pipemill_run as run;

/// Connects to all hosts of this user: the one at the default path first, then the others, the
/// newest last.
///
/// # Errors
/// No host answers, or another user serves the default path or may write to its folder.
pub(super) fn all() -> Result<Vec<StatusClient>, StatusClientError> {
    let default = run::default_socket();
    default.parent().map(check_folder).transpose()?;
    let at_default = StatusClient::connect_to_own(&default);
    if let Err(error @ StatusClientError::OtherUser(_)) = at_default {
        return Err(error);
    }
    let mut others = default.parent().map(with_process_id).unwrap_or_default();
    others.extend(of_session().iter().flat_map(|folder| {
        let at_default = StatusClient::connect_to_own(&folder.join("pipemill.sock"));
        at_default.into_iter().chain(with_process_id(folder))
    }));
    match at_default {
        Ok(host) => Ok([host].into_iter().chain(others).collect()),
        Err(_) if !others.is_empty() => Ok(others),
        Err(error) => Err(error),
    }
}

/// The folder of hosts that this user has started in a session, if this process belongs to none, so
/// that XDG_RUNTIME_DIR does not name it.
fn of_session() -> Option<PathBuf> {
    let in_session = std::env::var_os("XDG_RUNTIME_DIR").is_some_and(|folder| !folder.is_empty());
    let folder: PathBuf = format!("/run/user/{}/pipemill", getuid()).into();
    (!in_session && check_folder(&folder).is_ok()).then_some(folder)
}

/// The hosts in this folder whose sockets have their process id in the name, in the order of the
/// ids. A host that has ended without removing its socket is left out, and so is a host of another
/// user.
fn with_process_id(folder: &Path) -> Vec<StatusClient> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut sockets: Vec<_> = entries
        .filter_map(|entry| Some((run::process_of_socket(entry.file_name().to_str()?)?, entry)))
        .collect();
    sockets.sort_by_key(|(pid, _)| *pid);
    let hosts = sockets.iter().map(|(_, entry)| StatusClient::connect_to_own(&entry.path()));
    hosts.flatten().collect()
}
