//! Many connections that send nothing, or never receive, keep no consumer and no source out. The
//! host may open few files, and is not root: root is exempt from one of the kernel's limits.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use pipemill_ring::protocol::{Hello, get_status};
use pipemill_ring::reader::Reader;
use pipemill_ring::status_client::StatusClient;
use tempfile::TempDir;

use crate::child::Process;
use crate::raw_consumer::{Raw, hello};
use crate::setup::{check, folder, next_batch};

struct Host {
    process: Process,
    socket: PathBuf,
    _folder: TempDir,
}

impl Host {
    fn start() -> Host {
        let folder = folder();
        // Another user makes the socket there.
        let open = PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(folder.path(), open).unwrap();
        let socket = folder.path().join("socket");
        let mut process = Process::start("serve with few files", &socket);
        assert_eq!(process.line().unwrap().1, "ready");
        Host { process, socket, _folder: folder }
    }

    /// A consumer, a status client and sources get what they need.
    fn check(&mut self) {
        // The socket belongs to another user, if this is root.
        let hello = Hello { credits: Some(2), ..Hello::new("train", "crowds") };
        let mut reader = Reader::connect_as(&self.socket, &hello, true).unwrap();
        for _ in 0..20 {
            check(&next_batch(&mut reader));
        }
        let mut client = StatusClient::connect(&self.socket).unwrap();
        assert_eq!(client.status().unwrap(), vec![b'x'; 2000]);
        let stdin = self.process.child.stdin.as_mut().unwrap();
        stdin.write_all(b"open\n").unwrap();
        assert_eq!(self.process.line().unwrap().1, "opened Ok(100)");
        check(&next_batch(&mut reader));
    }
}

/// Lets this process open 2,000 sockets and some more, or as many as it can.
fn many() -> usize {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let wanted = soft.max(hard.min(4000));
    setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).unwrap();
    2000.min(wanted as usize - 200)
}

#[test]
fn thousands_of_silent_connections_keep_nobody_out() {
    let mut host = Host::start();
    let silent: Vec<Raw> = (0..many()).map(|_| Raw::connect(&host.socket)).collect();
    host.check();
    drop(silent);
    host.check();
}

#[test]
fn status_clients_that_never_receive_keep_nobody_out() {
    let mut host = Host::start();
    let deaf: Vec<Raw> = (0..4)
        .map(|_| {
            let client = Raw::connect(&host.socket);
            // An error means that the host has hung up.
            while client.send(&get_status()).is_ok() {}
            client
        })
        .collect();
    host.check();
    // Clients that ask once follow the rules: they stay, and hold no descriptor.
    let patient: Vec<Raw> = (0..40).map(|_| Raw::connect(&host.socket)).collect();
    patient.iter().for_each(|client| client.send(&get_status()).unwrap());
    host.check();
    drop(deaf);
    assert!(patient.iter().all(|client| client.receive().is_some()));
}

/// Each of them has the ring's descriptor, and perhaps grants, in its socket.
#[test]
fn consumers_that_never_receive_take_no_more_than_their_part_of_the_descriptors() {
    let mut host = Host::start();
    let mut deaf = Vec::new();
    for _ in 0..many() / 4 {
        let consumer = Raw::connect(&host.socket);
        // An error means that the host has refused it.
        let _ = consumer.send(&hello("train", 1));
        deaf.push(consumer);
    }
    let stdin = host.process.child.stdin.as_mut().unwrap();
    stdin.write_all(b"open\n").unwrap();
    assert_eq!(host.process.line().unwrap().1, "opened Ok(100)");
    let late = Raw::connect(&host.socket);
    let said = late.refusal();
    assert!(said.contains("has 64 consumers, all that it takes"), "{said}");
    deaf.clear();
    loop {
        // Waits until the host has noticed that they are gone.
        let probe = Raw::connect(&host.socket);
        let _ = probe.send(&hello("train", 1));
        if matches!(probe.receive(), Some((_, Some(_)))) {
            break;
        }
    }
    host.check();
}
