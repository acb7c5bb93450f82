//! Another user's host: a consumer that is led to it says why it reads nothing there.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{consumer, pipemill, until};

use super::life::TRAIN;

/// The id of Linux's user that owns nothing.
const NOBODY: u32 = 65534;
/// The other user's folder.
const FOLDER: &str = "foreign";

/// Lets another user serve the channel, and a consumer connect there. Returns whether that was
/// possible: only root can become another user.
pub fn meet_foreign_host(place: &TestDir) -> bool {
    if !nix::unistd::geteuid().is_root() {
        return false;
    }
    let program = place.path(FOLDER).join("pipemill");
    if !program.exists() {
        place.make_folder(FOLDER);
        std::fs::copy(pipemill!(), &program).expect("it can be copied");
        for folder in [place.folder(), &place.path(FOLDER)] {
            set_permissions(folder, Permissions::from_mode(0o755)).expect("it is ours");
        }
    }
    let run = place.make_folder("foreign/run");
    std::os::unix::fs::chown(&run, Some(NOBODY), Some(NOBODY)).expect("root may do that");
    let socket = run.join("host.sock");
    let rows = place.write("foreign/rows.txt", "foreign\n");
    let config = format!(
        "socket = {socket:?}\nallow_other_users = true\n[[channel]]\nname = '{TRAIN}'\ndecoder = 'lines'\n\
         source = {{ file = {rows:?}, epochs = 1000000 }}\n"
    );
    let config = place.write("foreign/pipemill.toml", config);
    let mut host = Command::new(program);
    host.arg("run").arg("--config").arg(config).stdin(Stdio::null()).stderr(Stdio::null());
    let mut host = host.uid(NOBODY).gid(NOBODY).spawn().expect("it can be started");
    until("the other user serves", || socket.exists());
    let met = Command::new(consumer!()).arg(TRAIN).env("PIPEMILL_SOCKET", &socket).output();
    let met = met.expect("it can be started");
    host.kill().expect("it is our own child");
    host.wait().expect("it is our own child");
    std::fs::remove_dir_all(run).expect("root may do that");
    let said = String::from_utf8_lossy(&met.stdout);
    let expected = format!("expected a host of user 0 or of root, found one of user {NOBODY}");
    assert!(met.status.code() == Some(3) && said.contains(&expected), "{met:?}");
    assert_eq!(said.lines().count(), 1, "a record of another user: {said}");
    true
}
