//! A server's process: what it says is kept, and it ends with the test, however that ends.

use std::io::{self, BufRead, BufReader, Read};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longer than any server takes to begin.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server at work.
pub(super) struct Server {
    address: String,
    said: Arc<Mutex<String>>,
    /// Dropped to let the keeper end it.
    end: Option<Sender<()>>,
    keeper: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server that says at which port of 127.0.0.1 it is, and waits until it answers there.
    ///
    /// # Panics
    /// If it does not.
    pub fn start(mut command: Command) -> Self {
        let name = format!("{command:?}");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let said = Arc::new(Mutex::new(String::new()));
        let (end, ended) = channel();
        let (started, start) = channel();
        // When the thread ends that started a process, the kernel takes its parent for dead. So this
        // one stays as long as the server.
        let keeper = std::thread::spawn({
            let said = Arc::clone(&said);
            move || {
                let mut child = match command.spawn() {
                    Ok(child) => child,
                    Err(error) => {
                        return keep_line(&said, &format!("it cannot be started: {error}"));
                    }
                };
                let readers = keep(&mut child, &said);
                // Whoever waits sees that nothing comes any more.
                let _ = started.send(());
                // It gives nothing but its own end.
                let _ = ended.recv();
                let _ = child.kill();
                let _ = child.wait();
                for reader in readers {
                    let _ = reader.join();
                }
            }
        });
        let mut server =
            Self { address: String::new(), said, end: Some(end), keeper: Some(keeper) };
        let until = Instant::now() + PATIENCE;
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
        self.said.lock().expect("nothing panics while it is locked").clone()
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

/// The command, run so that the kernel kills it when its parent dies.
pub(super) fn mortal(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// The first address of this machine, with a port, that is named.
fn address(said: &str) -> Option<String> {
    let host = "127.0.0.1:";
    said.match_indices(host).find_map(|(at, _)| {
        let rest = &said[at + host.len()..];
        let digits = rest.find(|digit: char| !digit.is_ascii_digit())?;
        rest[..digits]
            .parse()
            .ok()
            .filter(|port: &u16| *port > 0)
            .map(|port| format!("{host}{port}"))
    })
}

fn keep(child: &mut Child, said: &Arc<Mutex<String>>) -> Vec<JoinHandle<()>> {
    let stdout = child.stdout.take().map(|from| gather(from, Arc::clone(said)));
    let stderr = child.stderr.take().map(|from| gather(from, Arc::clone(said)));
    stdout.into_iter().chain(stderr).collect()
}

fn gather(from: impl Read + Send + 'static, said: Arc<Mutex<String>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        // What was said before an error is all there is to know.
        for line in BufReader::new(from).split(b'\n').map_while(io::Result::ok) {
            keep_line(&said, &String::from_utf8_lossy(&line));
        }
    })
}

fn keep_line(said: &Mutex<String>, line: &str) {
    let mut said = said.lock().expect("nothing panics while it is locked");
    said.push_str(line);
    said.push('\n');
}
