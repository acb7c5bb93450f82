//! Clients of the metrics that are slow, or never end their request, delay no other client.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

use nix::sys::signal::Signal;
use pipemill_tests::host::{self, Host};
use pipemill_tests::process::Process;
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{PATIENCE, pipemill, until};

use crate::delivery::numbered;

/// A host that waits for a pipe, and serves metrics there.
fn serve(place: &TestDir, metrics: &str) -> Process {
    let config = format!(
        "metrics = {metrics:?}\n[[channel]]\nname = 'train'\ndecoder = 'lines'\n\
         source = {{ fifo = {:?} }}\n",
        place.text("pipes")
    );
    let Host { process, .. } = Host::start(&pipemill!(), place, &config);
    process
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it has an address").port()
}

/// The answer to a probe as kubelet sends it.
fn probe(mut stream: impl Read + Write) -> String {
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").expect("it is connected");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers, and closes");
    answer
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    stream
}

/// More connections than the host ever has open, so the slow ones hold all of them.
#[test]
fn slow_clients_do_not_delay_a_probe() {
    let place = TestDir::new();
    let port = free_port();
    let host = serve(&place, &format!("127.0.0.1:{port}"));
    until("it listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let half = |begin: &[u8]| {
        let mut stream = connect(port);
        // The host may have closed it already.
        let _ = stream.write_all(begin);
        stream
    };
    let begins: [&[u8]; 4] = [
        b"",
        b"GET /healthz HT",
        b"GET /metrics HTTP/1.1\r\nHost: x\r\n",
        b"GET /status HTTP/1.1\r\nContent-Length: 1000000\r\n",
    ];
    let slow: Vec<_> = (0..200).map(|number| half(begins[number % begins.len()])).collect();
    assert!(probe(connect(port)).ends_with("\r\n\r\nok\n"));
    // It has not waited until the time of the slow ones was over: the newest one is still open.
    let newest = slow.last().expect("there are some");
    newest.set_nonblocking(true).expect("it can be");
    let end = (&*newest).read(&mut [0]).expect_err("it is open");
    assert_eq!(end.kind(), ErrorKind::WouldBlock);
    // The oldest ones are closed: their number has a limit.
    let closed = (&slow[0]).read(&mut [0]);
    assert!(
        matches!(closed, Ok(0)) || closed.is_err_and(|e| e.kind() == ErrorKind::ConnectionReset)
    );
    host.signal(Signal::SIGTERM);
    host.wait();
}

#[test]
fn slow_clients_of_a_socket_do_not_delay_a_probe() {
    let place = TestDir::new();
    let socket = place.path("run/metrics.sock");
    let host = serve(&place, socket.to_str().expect("UTF-8"));
    until("it listens", || UnixStream::connect(&socket).is_ok());
    let slow: Vec<_> =
        (0..200).map(|_| UnixStream::connect(&socket).expect("it listens")).collect();
    let prober = UnixStream::connect(&socket).expect("it listens");
    prober.set_read_timeout(Some(PATIENCE)).expect("a time");
    assert!(probe(prober).ends_with("\r\n\r\nok\n"));
    let newest = slow.last().expect("there are some");
    newest.set_nonblocking(true).expect("it can be");
    let end = (&*newest).read(&mut [0]).expect_err("it is open");
    assert_eq!(end.kind(), ErrorKind::WouldBlock);
    host.signal(Signal::SIGTERM);
    host.wait();
}

/// The slow clients of a process that may open few files leave enough of them for its channels,
/// also if they connect while it starts.
#[test]
fn few_descriptors_are_enough_for_a_probe_and_a_channel() {
    let place = TestDir::new();
    for number in 0..10 {
        place.write(&format!("data/{number}"), numbered(10, 10).join(&b'\n'));
    }
    let port = free_port();
    let config = format!(
        "metrics = '127.0.0.1:{port}'\n[[channel]]\nname = 'train'\ndecoder = 'lines'\n\
         source = {{ folder = {:?} }}\n",
        place.path("data")
    );
    let command = host::command(&pipemill!(), &place, &config);
    let process = Process::start(&mut host::limited(&command, &["-n 64"]));
    let host = Host { process, socket: place.path("run/host.sock") };
    until("it listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let slow: Vec<_> = (0..100).map(|_| connect(port)).collect();
    assert!(probe(connect(port)).ends_with("\r\n\r\nok\n"));
    assert_eq!(host.read("train").well().len(), 100);
    host.wait().with_code(0).says(&["metrics: at most 8 connections at once, not 64"]);
    drop(slow);
}
