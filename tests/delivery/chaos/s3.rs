//! The S3 server of the test, which can be killed and restarts at the same address.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::Sender;

use nix::sys::signal::Signal;
use pipemill_s3_test::names;
use pipemill_s3_test::servers::program;

use super::child::{Child, Line, Speaker};

/// Objects in the bucket, and lines in each.
const OBJECTS: usize = 3;
const LINES: usize = 60;
/// One line of each object does not fit a slot.
const LARGE: usize = 100_000;

pub struct S3 {
    child: Child,
    folder: PathBuf,
    port: u16,
    pub is_stopped: bool,
}

impl S3 {
    /// Starts the server at a port that no other process is given by chance: ports for outgoing connections, and for
    /// servers that ask for any port, are above.
    pub fn start(
        folder: &Path,
        random: &mut fastrand::Rng,
        speaker: Speaker,
        lines: &Sender<Line>,
    ) -> Self {
        for number in 0..OBJECTS {
            let line = |line: usize| {
                let size = if line == LINES / 2 { LARGE } else { line % 5 * 3000 };
                format!("{line:08}{}\n", "x".repeat(size))
            };
            let path = folder.join("bucket").join(names::file(&format!("data/{number}.txt")));
            std::fs::create_dir_all(path.parent().expect("it is in a bucket")).expect("its folder");
            std::fs::write(path, (0..LINES).map(line).collect::<String>()).expect("it is written");
        }
        let port = random.u16(20_000..32_000);
        let child = run(folder, port, speaker, lines);
        Self { child, folder: folder.to_owned(), port, is_stopped: false }
    }

    /// Another port, because this one is in use. None of its output has come yet.
    pub fn move_away(
        &mut self,
        random: &mut fastrand::Rng,
        speaker: Speaker,
        lines: &Sender<Line>,
    ) {
        self.port = random.u16(20_000..32_000);
        self.child = run(&self.folder, self.port, speaker, lines);
    }

    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn speaker(&self) -> Speaker {
        self.child.speaker
    }

    pub fn pid(&self) -> nix::unistd::Pid {
        self.child.pid()
    }

    /// Kills it, and starts it again.
    pub fn restart(&mut self, speaker: Speaker, lines: &Sender<Line>) {
        assert!(self.child.kill(), "the S3 server has ended by itself");
        self.child = run(&self.folder, self.port, speaker, lines);
        self.is_stopped = false;
    }

    pub fn stop(&mut self) {
        self.child.signal(Signal::SIGSTOP);
        self.is_stopped = true;
    }

    pub fn resume(&mut self) {
        if std::mem::take(&mut self.is_stopped) {
            self.child.signal(Signal::SIGCONT);
        }
    }
}

fn run(folder: &Path, port: u16, speaker: Speaker, lines: &Sender<Line>) -> Child {
    let mut command = Command::new(program());
    command.arg("--port").arg(port.to_string()).arg(folder);
    Child::start(&mut command, speaker, lines)
}
