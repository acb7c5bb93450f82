//! Containers with strict limits: a root that can't be written, a user without rights.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use pipemill_tests::process::{Ended, finish};
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{consumer, pipemill};

use super::{may, numbered};

/// Runs the host as nobody, without a capability, in a file system in which only one folder, `run`,
/// can be written, and none if `writable` is false.
fn strict(place: &TestDir, writable: bool, config: &str) -> Ended {
    place.write("strict.toml", config);
    place.make_folder("run");
    let open_up = |name: &str, mode| {
        let path = place.path(name);
        std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
    };
    for (name, program) in [("pipemill", pipemill!()), ("consumer", consumer!().into())] {
        std::fs::copy(program, place.path(name)).expect("it can be copied");
        open_up(name, 0o755);
    }
    open_up(".", 0o755);
    let mount = "mount -t tmpfs -o mode=0700,uid=65534,gid=65534 none run; ";
    let script = format!(
        "set -e; {}mount -o remount,bind,ro /; cd .; \
         exec setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs --bounding-set=-all \
         ./pipemill run --config strict.toml -- ./consumer train",
        if writable { mount } else { "" }
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).current_dir(place.folder());
    finish(
        command
            .env_remove("XDG_RUNTIME_DIR")
            .env_remove("PIPEMILL_SOCKET")
            .env_remove("PIPEMILL_LOG"),
    )
}

fn permitted(test: &str) -> bool {
    let try_it = "mount -o remount,bind,ro / && setpriv --reuid 65534 --bounding-set=-all true";
    may(test, &["unshare", "--mount", "sh", "-c", try_it])
}

#[test]
fn a_read_only_root_with_one_writable_folder_is_enough() {
    if !permitted("a_read_only_root_with_one_writable_folder_is_enough") {
        return;
    }
    let place = TestDir::new();
    let socket = format!("socket = {:?}", place.path("run/pipemill/host.sock"));
    let ended = strict(&place, true, &numbered(&place, 100, &socket)).with_code(0);
    assert_eq!(ended.text().lines().last(), Some("end"), "{ended:#?}");
}

#[test]
fn without_a_writable_folder_the_message_says_what_to_set() {
    if !permitted("without_a_writable_folder_the_message_says_what_to_set") {
        return;
    }
    let place = TestDir::new();
    let ended = strict(&place, false, &numbered(&place, 100, "")).with_code(71);
    ended.says(&["Read-only file system", "set `socket` to a path in a folder", "tmpfs"]);
}
