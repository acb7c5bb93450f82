//! The socket's path: one host at a time, one user, and the socket is removed at the end.

use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::socket::SockType;
use nix::unistd::geteuid;
use pipemill_ring::endpoint::{Endpoint, EndpointError, check_folder};
use pipemill_ring::host::{Ring, Server, ServerConfig, ServerError, remove_dead_sockets};

use pipemill_ring::reader::{Reader, ReaderError};
use pipemill_ring::status_client::StatusClient;

use crate::child::Process;
use crate::setup::{config, folder};

fn start(socket: &Path, allow_other_users: bool) -> Result<Server, ServerError> {
    let server = ServerConfig { allow_other_users, ..ServerConfig::default() };
    Server::start(socket, &server, vec![Ring::new(config()).unwrap()], None)
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

#[test]
fn socket_and_folder_are_private_and_the_socket_is_removed_at_the_end() {
    let folder = folder();
    let socket = folder.path().join("made/for/it/socket");
    let server = start(&socket, false).unwrap();
    assert_eq!((mode(&socket), mode(socket.parent().unwrap())), (0o600, 0o700));
    drop(server);
    assert!(!socket.exists());
}

/// A consumer that another user starts before the host would fail if the socket got its permissions
/// later.
#[test]
fn a_socket_that_can_be_found_can_be_connected_to() {
    let folder = folder();
    let socket = folder.path().join("socket");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut found = std::collections::BTreeSet::new();
            while !is_over.load(Ordering::Relaxed) {
                found.extend(socket.symlink_metadata().map(|it| it.permissions().mode() & 0o777));
            }
            found
        });
        for _ in 0..500 {
            let host = Endpoint::bind(&socket, SockType::SeqPacket, true).unwrap();
            // Dropping it removes the path.
            drop(host);
        }
        is_over.store(true, Ordering::Relaxed);
        let modes: Vec<_> = looking.join().unwrap().into_iter().collect();
        assert!(modes.is_empty() || modes == [0o666], "{modes:?}");
    });
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

#[test]
fn a_path_of_any_length_that_the_kernel_takes_can_be_bound() {
    let folder = folder();
    let most = 107 - folder.path().as_os_str().len() - 1;
    for name in ["s".to_owned(), "x".repeat(most - 1), "x".repeat(most), "~".repeat(most)] {
        let socket = folder.path().join(&name);
        let host = Endpoint::bind(&socket, SockType::SeqPacket, false).unwrap();
        assert_eq!(mode(&socket), 0o600);
        let names: Vec<_> =
            folder.path().read_dir().unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(names, [&*name]);
        drop(host);
        assert!(!socket.exists());
    }
}

/// It is replaced, and nothing of it is left.
#[test]
fn a_socket_of_a_host_that_was_killed_before_it_had_its_name_is_removed() {
    let folder = folder();
    drop(UnixListener::bind(folder.path().join(".socket")).unwrap());
    let _server = start(&folder.path().join("socket"), false).unwrap();
    assert!(!folder.path().join(".socket").exists());
}

#[test]
fn a_second_host_is_refused_with_the_process_id_of_the_first() {
    let folder = folder();
    let socket = folder.path().join("socket");
    let first = start(&socket, false).unwrap();
    match start(&socket, false) {
        Err(ServerError::Endpoint(EndpointError::InUse { pid, .. })) => {
            assert_eq!(pid, std::process::id() as i32);
        }
        other => panic!("expected a refusal, got {other:?}"),
    }
    assert!(socket.exists(), "the first host's socket stays");
    drop(first);
    start(&socket, false).unwrap();
}

#[test]
fn the_socket_of_a_killed_host_is_replaced() {
    let folder = folder();
    let socket = folder.path().join("socket");
    let mut process = Process::start("serve", &socket);
    assert_eq!(process.line().unwrap().1, "ready");
    assert!(start(&socket, false).is_err());
    process.kill();
    process.child.wait().unwrap();
    assert!(socket.exists());
    let _server = start(&socket, false).unwrap();
}

#[test]
fn only_the_sockets_of_dead_hosts_are_removed_from_a_folder() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let _server = start(&path("live.sock"), false).unwrap();
    for name in ["dead.sock", "spared.sock", "dead"] {
        drop(UnixListener::bind(path(name)).unwrap());
        // Another test may have a copy of the listener for a moment, between fork and exec.
        while UnixStream::connect(path(name)).is_ok() {
            std::thread::yield_now();
        }
    }
    std::fs::write(path("file.sock"), "").unwrap();
    remove_dead_sockets(folder.path(), |name| name == "spared.sock");
    assert!(!path("dead.sock").exists());
    for name in ["live.sock", "spared.sock", "dead", "file.sock"] {
        assert!(path(name).exists(), "{name}");
    }
    assert!(start(&path("live.sock"), false).is_err(), "it is served as before");
}

#[test]
fn of_four_hosts_that_start_at_once_on_a_stale_socket_one_wins() {
    let folder = folder();
    let socket = folder.path().join("socket");
    for _ in 0..200 {
        // A listener that is dropped leaves its socket at the path, as a killed host does.
        drop(UnixListener::bind(&socket).unwrap());
        // A process that another test starts may have a copy of the listener, between fork and
        // exec.
        while UnixStream::connect(&socket).is_ok() {
            std::thread::yield_now();
        }
        let barrier = Barrier::new(4);
        let started: Vec<_> = std::thread::scope(|scope| {
            let starts = [(); 4].map(|()| {
                scope.spawn(|| {
                    let ring = Ring::new(config()).unwrap();
                    barrier.wait();
                    Server::start(&socket, &ServerConfig::default(), vec![ring], None)
                })
            });
            starts.map(|start| start.join().unwrap()).into()
        });
        assert_eq!(started.iter().filter(|started| started.is_ok()).count(), 1, "{started:?}");
    }
}

#[test]
fn an_old_host_does_not_take_away_the_socket_of_a_new_one() {
    let folder = folder();
    let socket = folder.path().join("socket");
    let old = start(&socket, false).unwrap();
    std::fs::remove_file(&socket).unwrap();
    let _new = start(&socket, false).unwrap();
    drop(old);
    assert!(socket.exists());
}

#[test]
fn a_folder_that_others_may_read_will_do() {
    let folder = folder();
    let project = folder.path().join("project");
    std::fs::create_dir(&project).unwrap();
    set_mode(&project, 0o755);
    let socket = project.join("socket");
    let _server = start(&socket, false).unwrap();
    assert_eq!((mode(&project), mode(&socket)), (0o755, 0o600));
}

#[test]
fn a_file_an_open_folder_and_a_long_path_are_refused_and_not_changed() {
    let folder = folder();
    let file = folder.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    let message = start(&file, false).unwrap_err().to_string();
    assert!(message.contains("expected a socket or nothing, found a file"), "{message}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    let open = folder.path().join("open");
    std::fs::create_dir(&open).unwrap();
    for writable in [0o775, 0o757, 0o777] {
        set_mode(&open, writable);
        let message = start(&open.join("socket"), false).unwrap_err().to_string();
        let found = format!("mode {writable:04o}");
        assert!(message.contains("chmod go-w") && message.contains(&found), "{message}");
        assert_eq!(mode(&open), writable);
    }
    let long = folder.path().join("x".repeat(200));
    assert!(start(&long, false).unwrap_err().to_string().contains("can't be a socket's"));
}

#[test]
fn another_user_is_refused_unless_allowed() {
    if !geteuid().is_root() {
        eprintln!("skipped: only root can start a process of another user");
        return;
    }
    let folder = folder();
    let socket = folder.path().join("socket");
    let answer = || Process::start("other user", &socket).line().unwrap().1;
    let server = start(&socket, false).unwrap();
    let first = answer();
    assert!(first.starts_with("failed") && first.contains("denied"), "{first}");
    // If the modes of folder and socket allow the connection, the host itself refuses it.
    set_mode(folder.path(), 0o755);
    set_mode(&socket, 0o666);
    let refused = answer();
    assert!(refused.starts_with("refused") && refused.contains("65534"), "{refused}");
    drop(server);
    let _server = start(&socket, true).unwrap();
    assert_eq!(answer(), "welcomed");
}

#[test]
fn a_status_client_does_not_trust_another_users_socket_at_a_path_that_anybody_can_guess() {
    let folder = folder();
    let socket = folder.path().join("socket");
    let server = start(&socket, false).unwrap();
    assert!(StatusClient::connect_to_own(&socket).is_ok());
    drop(server);
    if !geteuid().is_root() {
        eprintln!("skipped: only root can start a process of another user");
        return;
    }
    set_mode(folder.path(), 0o777);
    let mut squatter = Process::start("squatter", &socket);
    assert_eq!(squatter.line().unwrap().1, "listening");
    let refused = StatusClient::connect_to_own(&socket).unwrap_err().to_string();
    let expected = "expected a host of user 0 or of root, found one of user 65534";
    assert!(refused.contains(expected) && refused.contains("--socket"), "{refused}");
    // Even if the socket's file belongs to this user, the kernel says who serves it.
    chown(&socket, Some(0), None).unwrap();
    let refused = StatusClient::connect_to_own(&socket).unwrap_err().to_string();
    let process = format!("{expected} (process {})", squatter.child.id());
    assert!(refused.contains(&process), "{refused}");
    // A person who names the path knows what is there.
    assert!(StatusClient::connect(&socket).is_ok());
}

#[test]
fn a_reader_says_nothing_to_another_users_host() {
    if !geteuid().is_root() {
        eprintln!("skipped: only root can start a process of another user");
        return;
    }
    let folder = folder();
    let socket = folder.path().join("socket");
    set_mode(folder.path(), 0o777);
    let mut squatter = Process::start("squatter", &socket);
    assert_eq!(squatter.line().unwrap().1, "listening");
    // Its file belongs to the other user, then to this user, then it is a link of the other user.
    let refused = || match Reader::connect(&socket, "train", None) {
        Err(error @ ReaderError::OtherUser(_)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let expected = "expected a host of user 0 or of root, found one of user 65534";
    let text = refused();
    assert!(text.contains(expected) && text.contains("allow_other_users"), "{text}");
    chown(&socket, Some(0), None).unwrap();
    let text = refused();
    assert!(text.contains(&format!("{expected} (process {})", squatter.child.id())), "{text}");
    let own = crate::setup::host(config());
    std::fs::remove_file(&socket).unwrap();
    symlink(&own.socket, &socket).unwrap();
    drop(Reader::connect(&socket, "train", None).unwrap());
    lchown(&socket, Some(65534), None).unwrap();
    let text = refused();
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_folder_that_another_user_could_have_made_is_refused() {
    let folder = folder();
    let (run, link) = (folder.path().join("run"), folder.path().join("link"));
    std::fs::create_dir(&run).unwrap();
    symlink(&run, &link).unwrap();
    // A folder that does not exist can be created.
    check_folder(&folder.path().join("none")).unwrap();
    check_folder(&link).unwrap();
    drop(start(&link.join("socket"), false).unwrap());
    set_mode(&run, 0o1777);
    for path in [&run, &link] {
        let refused = check_folder(path).unwrap_err().to_string();
        assert!(refused.contains("mode 1777; give") && refused.contains("chmod go-w"), "{refused}");
    }
    set_mode(&run, 0o700);
    if !geteuid().is_root() {
        eprintln!("skipped: only root can give a folder away");
        return;
    }
    lchown(&link, Some(65534), None).unwrap();
    let of_link = start(&link.join("socket"), false).unwrap_err().to_string();
    assert!(of_link.contains("found a link with owner 65534"), "{of_link}");
    chown(&run, Some(65534), None).unwrap();
    let of_folder = start(&run.join("socket"), false).unwrap_err().to_string();
    assert!(of_folder.contains("found owner 65534, mode 0700"), "{of_folder}");
    for refused in [of_link, of_folder] {
        assert!(refused.contains("XDG_RUNTIME_DIR"), "{refused}");
    }
    assert_eq!(std::fs::read_dir(&run).unwrap().count(), 0);
}
