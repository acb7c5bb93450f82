//! Tests of single steps of the server, without its thread.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::sys::eventfd::EfdFlags;
use nix::sys::socket::SockType;

use super::*;
use crate::host::RingConfig;
use crate::host::writer::BatchInfo;
use crate::protocol::{Mode, ToConsumer};
use crate::socket::{connect_to, receive_with_fd};

/// A server without its thread: the tests run its steps.
fn server(folder: &Path, max_connections: usize) -> ServerLoop {
    let ring = Ring::new(RingConfig {
        channel: "train".into(),
        slots: 4,
        slot_bytes: 4096,
        dedicated: RingConfig::FEW_DEDICATED,
        credits: 2,
        mode: Mode::Share,
        consumers: 1,
    });
    let channels = HashMap::from([("train".to_owned(), ring.unwrap())]);
    let endpoint = Endpoint::bind(&folder.join("socket"), SockType::SeqPacket, false).unwrap();
    let remedies = Remedies { no_room: "allow more", ..Remedies::default() };
    let config = ServerConfig { max_connections, remedies, ..ServerConfig::default() };
    let stop = EventFd::from_flags(EfdFlags::EFD_CLOEXEC).unwrap();
    let status: StatusText = Box::new(|| vec![b'x'; 300_000]);
    ServerLoop::new(endpoint, &config, channels, Some(status), &stop).unwrap()
}

fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().permissions(PermissionsExt::from_mode(0o700)).tempdir().unwrap()
}

fn connect(server: &mut ServerLoop) -> OwnedFd {
    let socket = connect_to(server.endpoint.path()).unwrap();
    server.accept();
    socket
}

fn say_hello(socket: &OwnedFd) {
    let hello = Hello::new("train", "tester");
    send(socket, &protocol::hello(&hello), None, true).unwrap();
}

/// The next message, and `None` after a hang-up.
fn next(socket: &OwnedFd) -> Option<ToConsumer> {
    let mut buffer = buffer();
    match receive_with_fd(socket, &mut buffer).unwrap() {
        Received::Message(bytes, _) => Some(ToConsumer::decode(&buffer[..bytes]).unwrap()),
        _ => None,
    }
}

fn refusal(socket: &OwnedFd) -> String {
    match next(socket) {
        Some(ToConsumer::Refused(reason)) => reason,
        other => panic!("expected REFUSED, found {other:?}"),
    }
}

fn serve_all(server: &mut ServerLoop) {
    for id in server.connections.ids() {
        server.serve(id, EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT);
    }
}

#[test]
fn a_connection_without_hello_is_ended_after_a_time() {
    let folder = folder();
    let mut server = server(folder.path(), 10);
    let (silent, consumer) = (connect(&mut server), connect(&mut server));
    say_hello(&consumer);
    serve_all(&mut server);
    let now = Instant::now();
    server.do_housekeeping(now);
    assert_eq!(server.connections.ids().len(), 2, "not before its time");
    server.do_housekeeping(now + HELLO_TIMEOUT);
    assert_eq!(refusal(&silent), "no HELLO within 10 s after the connection");
    assert_eq!(next(&silent), None);
    assert!(matches!(next(&consumer), Some(ToConsumer::Welcome(_))));
    assert_eq!(server.connections.ids().len(), 1);
}

#[test]
fn a_new_connection_takes_the_place_of_the_one_that_was_silent_for_longest() {
    let folder = folder();
    let mut server = server(folder.path(), 3);
    let consumer = connect(&mut server);
    // Its HELLO arrives after it was accepted, and before it would be closed.
    say_hello(&consumer);
    let (first, second) = (connect(&mut server), connect(&mut server));
    let third = connect(&mut server);
    assert!(refusal(&first).contains("silent for longest"));
    assert!(matches!(next(&consumer), Some(ToConsumer::Welcome(_))));
    say_hello(&second);
    say_hello(&third);
    let fourth = connect(&mut server);
    let said = refusal(&fourth);
    assert!(said.contains("has 3 consumers") && said.ends_with("; allow more"), "{said}");
    drop(second);
    serve_all(&mut server);
    let fifth = connect(&mut server);
    say_hello(&fifth);
    serve_all(&mut server);
    assert!(matches!(next(&fifth), Some(ToConsumer::Welcome(_))));
}

#[test]
fn a_status_client_has_at_most_one_answer_that_it_has_not_received() {
    let folder = folder();
    let mut server = server(folder.path(), 3);
    let client = connect(&mut server);
    for _ in 0..3 {
        send(&client, &protocol::get_status(), None, true).unwrap();
        // There are five messages, and the socket has room for fewer: the rest is sent when there
        // is room.
        let mut bytes = 0;
        while bytes < 300_000 {
            serve_all(&mut server);
            let Some(ToConsumer::Status(part)) = next(&client) else { panic!("no STATUS") };
            assert_eq!(part.left, 300_000 - bytes);
            bytes += part.text.len() as u64;
        }
    }
    send(&client, &protocol::get_status(), None, true).unwrap();
    send(&client, &protocol::get_status(), None, true).unwrap();
    serve_all(&mut server);
    while let Some(ToConsumer::Status(_)) = next(&client) {}
    assert_eq!(server.connections.ids().len(), 0);
}

#[test]
fn a_consumer_that_waits_to_be_accepted_at_the_end_gets_the_end_of_the_stream() {
    let folder = folder();
    let server = server(folder.path(), 3);
    server.channels["train"].end_stream();
    let path = server.endpoint.path().to_owned();
    let waiting = connect_to(&path).unwrap();
    say_hello(&waiting);
    server.end();
    assert!(matches!(next(&waiting), Some(ToConsumer::Welcome(_))));
    assert_eq!(next(&waiting), Some(ToConsumer::StreamEnd));
    assert_eq!(next(&waiting), None);
    connect_to(&path).unwrap_err();
}

#[test]
fn a_batch_whose_ack_waits_at_the_end_is_granted_to_nobody_else() {
    let folder = folder();
    let mut server = server(folder.path(), 3);
    let ring = server.channels["train"].clone();
    ring.set_schema(vec![]).unwrap();
    let consumers = [connect(&mut server), connect(&mut server)];
    consumers.iter().for_each(say_hello);
    serve_all(&mut server);
    for _ in &consumers {
        ring.acquire().unwrap().grant(&BatchInfo::default(), &[]).unwrap();
    }
    let next_grant = |socket| loop {
        match next(socket) {
            Some(ToConsumer::Grant(grant)) => return Some(grant),
            Some(_) => {}
            None => return None,
        }
    };
    let grants = consumers.each_ref().map(|socket| next_grant(socket).unwrap());
    assert_eq!(grants.map(|grant| grant.batch), [0, 1]);
    // One has ACKed, the other has not yet. The host has received neither message when it ends.
    send(&consumers[0], &protocol::ack(grants[0].grant), None, true).unwrap();
    server.end();
    assert_eq!(consumers.each_ref().map(next_grant), [None, None]);
}

fn say_hello_in_pass(socket: &OwnedFd, program: &str, number: u64) {
    let pass = Some(protocol::Pass { program: program.into(), number });
    let hello = Hello { pass, ..Hello::new("train", "tester") };
    send(socket, &protocol::hello(&hello), None, true).unwrap();
}

#[test]
fn a_newer_pass_of_a_program_takes_the_place_of_an_older_one_and_ends_its_epoch() {
    let folder = folder();
    let mut server = server(folder.path(), 10);
    let ring = server.channels["train"].clone();
    ring.set_schema(vec![]).unwrap();
    let (older, other) = (connect(&mut server), connect(&mut server));
    say_hello_in_pass(&older, "a", 3);
    say_hello_in_pass(&other, "b", 1);
    serve_all(&mut server);
    ring.acquire().unwrap().grant(&BatchInfo::default(), &[]).unwrap();
    let newer = connect(&mut server);
    say_hello_in_pass(&newer, "a", 4);
    serve_all(&mut server);
    assert!(matches!(next(&older), Some(ToConsumer::Welcome(_))));
    assert!(matches!(next(&older), Some(ToConsumer::Schema(_))));
    assert!(matches!(next(&older), Some(ToConsumer::Grant(_))));
    assert_eq!(refusal(&older), PASS_IS_OVER);
    assert_eq!(ring.epoch_end_requested(), Some(0));
    let (late, long) = (connect(&mut server), connect(&mut server));
    say_hello_in_pass(&late, "a", 3);
    say_hello_in_pass(&long, &"a".repeat(Pass::MAX_PROGRAM + 1), 3);
    serve_all(&mut server);
    assert_eq!(refusal(&late), PASS_IS_OVER);
    assert_eq!(refusal(&long), "pass: expected a program of at most 128 bytes, found 129");
    // It may read its granted batches until it hangs up.
    assert_eq!(ring.lock().table.slot_counts().granted, 1);
    drop(older);
    serve_all(&mut server);
    assert_eq!(ring.lock().table.slot_counts().granted, 0);
    assert_eq!(server.connections.ids().len(), 2, "the other program and the newer pass");
    ring.end_epoch(0, true).unwrap();
    for socket in [&newer, &other] {
        assert!(matches!(next(socket), Some(ToConsumer::Welcome(_))));
        assert!(matches!(next(socket), Some(ToConsumer::Schema(_))));
        let Some(ToConsumer::EpochEnd(end)) = next(socket) else { panic!("no end") };
        assert!(end.early && end.batches == 0, "{end:?}");
    }
}

#[test]
fn a_pass_that_was_granted_nothing_leaves_its_epoch_whole() {
    let folder = folder();
    let mut server = server(folder.path(), 10);
    let ring = server.channels["train"].clone();
    let (older, newer) = (connect(&mut server), connect(&mut server));
    say_hello_in_pass(&older, "a", 3);
    serve_all(&mut server);
    say_hello_in_pass(&newer, "a", 4);
    serve_all(&mut server);
    assert_eq!(ring.epoch_end_requested(), None);
}

#[test]
fn an_idle_status_client_goes_before_a_consumer_is_refused() {
    let folder = folder();
    let mut server = server(folder.path(), 2);
    let (client, consumer) = (connect(&mut server), connect(&mut server));
    send(&client, &protocol::get_status(), None, true).unwrap();
    say_hello(&consumer);
    serve_all(&mut server);
    let late = connect(&mut server);
    say_hello(&late);
    serve_all(&mut server);
    assert!(matches!(next(&late), Some(ToConsumer::Welcome(_))));
    assert!(matches!(next(&consumer), Some(ToConsumer::Welcome(_))));
}
