//! A server's process. Its output is kept, and it ends with the test, even if the test crashes.

use std::io::{self, BufRead, BufReader, Read};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A guard against a hang; no server takes so long to start.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A running server.
pub(super) struct Server {
    address: String,
    output: Arc<Mutex<String>>,
    /// The keeper kills the server when this is dropped.
    end: Option<Sender<()>>,
    keeper: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server that prints its port of 127.0.0.1, and waits until it accepts connections.
    ///
    /// # Panics
    /// If the server does not start.
    pub fn start(mut command: Command) -> Self {
        let name = format!("{command:?}");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = Arc::new(Mutex::new(String::new()));
        let (end, ended) = channel();
        let (started, start) = channel();
        // The kernel takes the parent of a process for dead when the thread that started the
        // process ends. So this thread runs as long as the server.
        let keeper = std::thread::spawn({
            let output = Arc::clone(&output);
            move || {
                let mut child = match command.spawn() {
                    Ok(child) => child,
                    Err(error) => {
                        return append_line(&output, &format!("it cannot be started: {error}"));
                    }
                };
                let readers = collect_output(&mut child, &output);
                // If nobody receives, the start has already failed.
                let _ = started.send(());
                // Nothing is ever sent: this returns when `end` is dropped.
                let _ = ended.recv();
                let _ = child.kill();
                let _ = child.wait();
                for reader in readers {
                    let _ = reader.join();
                }
            }
        });
        let mut server =
            Self { address: String::new(), output, end: Some(end), keeper: Some(keeper) };
        let until = Instant::now() + START_TIMEOUT;
        let runs = start.recv().is_ok();
        loop {
            if let Some(address) =
                address(&server.log()).filter(|at| TcpStream::connect(at).is_ok())
            {
                server.address = address;
                return server;
            }
            assert!(runs && Instant::now() < until, "{name} does not start: {}", server.log());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn log(&self) -> String {
        self.output.lock().expect("nothing panics while it is locked").clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

/// A command for a program that the kernel kills when its parent dies.
pub(super) fn killed_with_parent(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// The first address `127.0.0.1:PORT` in the output whose port is not 0.
fn address(output: &str) -> Option<String> {
    let host = "127.0.0.1:";
    output.match_indices(host).find_map(|(at, _)| {
        let rest = &output[at + host.len()..];
        let digits = rest.find(|digit: char| !digit.is_ascii_digit())?;
        rest[..digits]
            .parse()
            .ok()
            .filter(|port: &u16| *port > 0)
            .map(|port| format!("{host}{port}"))
    })
}

fn collect_output(child: &mut Child, output: &Arc<Mutex<String>>) -> Vec<JoinHandle<()>> {
    let stdout = child.stdout.take().map(|from| collect_lines(from, Arc::clone(output)));
    let stderr = child.stderr.take().map(|from| collect_lines(from, Arc::clone(output)));
    stdout.into_iter().chain(stderr).collect()
}

fn collect_lines(from: impl Read + Send + 'static, output: Arc<Mutex<String>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        // After an error, the lines before it are all there is.
        for line in BufReader::new(from).split(b'\n').map_while(io::Result::ok) {
            append_line(&output, &String::from_utf8_lossy(&line));
        }
    })
}

fn append_line(output: &Mutex<String>, line: &str) {
    let mut output = output.lock().expect("nothing panics while it is locked");
    output.push_str(line);
    output.push('\n');
}
