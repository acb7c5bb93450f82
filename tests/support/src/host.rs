//! A pipemill host as a process, with its configuration and socket in a test's own place.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use pipemill_ring::reader::Reader;

use crate::consumer;
use crate::process::{Ended, Process};
use crate::test_dir::TestDir;

/// A host at work.
pub struct Host {
    /// The process.
    pub process: Process,
    /// Where consumers connect.
    pub socket: PathBuf,
}

/// The command that serves these channels. `config`: the TOML without its socket.
pub fn command(pipemill: &OsStr, place: &TestDir, config: &str) -> Command {
    let socket = place.path("run/host.sock");
    let config = format!("socket = {socket:?}\n{config}");
    let file = place.write("pipemill.toml", config);
    let mut command = Command::new(pipemill);
    command.arg("run").arg("--config").arg(file).stdin(Stdio::null());
    // What the tests' own environment says is not for the host.
    command.env_remove("PIPEMILL_SOCKET").env_remove("PIPEMILL_LOG");
    command
}

/// A command with other limits of open files: arguments of `ulimit`, in order.
pub fn limited(command: &Command, limits: &[&str]) -> Command {
    let mut script: String = limits.iter().map(|limit| format!("ulimit {limit}; ")).collect();
    script.push_str("exec \"$0\" \"$@\"");
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(script).arg(command.get_program()).args(command.get_args());
    shell.env_remove("PIPEMILL_SOCKET").env_remove("PIPEMILL_LOG");
    shell
}

impl Host {
    /// Starts a host without a command.
    pub fn start(pipemill: &OsStr, place: &TestDir, config: &str) -> Self {
        let process = Process::start(&mut command(pipemill, place, config));
        Self { process, socket: place.path("run/host.sock") }
    }

    /// Runs a host with a command, to the end of both.
    pub fn run<T: AsRef<OsStr>>(
        pipemill: &OsStr,
        place: &TestDir,
        config: &str,
        words: &[T],
    ) -> Ended {
        let mut command = command(pipemill, place, config);
        command.arg("--").args(words.iter().map(AsRef::as_ref).map(OsString::from));
        Process::start(&mut command).wait()
    }

    /// A consumer, as soon as the host answers.
    pub fn connect(&self, channel: &str) -> Reader {
        consumer::connect(&self.socket, channel, None)
    }

    /// Reads a channel from here to its end.
    pub fn read(&self, channel: &str) -> consumer::Read {
        consumer::read(&mut self.connect(channel))
    }

    /// Waits for its end.
    pub fn wait(self) -> Ended {
        self.process.wait()
    }
}
