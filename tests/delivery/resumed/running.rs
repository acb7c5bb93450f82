//! Hosts, in this process or each in one of its own, and what they are told.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Instant;

use pipemill_decode::{Cache, Engine};
use pipemill_ring::protocol::Hello;
use pipemill_ring::reader::{Reader, ReaderError};
use pipemill_run::in_process;
use pipemill_tests::process::Process;
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{PATIENCE, host, pipemill};

/// Where the hosts of a case run.
#[derive(Debug, Clone, Copy)]
pub enum Hosts {
    InProcess,
    Processes,
}

/// A host at work. Dropping it kills it.
pub struct Host {
    _host: Running,
    socket: PathBuf,
}

enum Running {
    InProcess { _host: in_process::Host },
    Process { _process: Process },
}

/// The engine of all hosts. What it has compiled is kept: it is the same plugin in many cases.
fn engine() -> Engine {
    let cache = Cache::at(concat!(env!("CARGO_TARGET_TMPDIR"), "/machine-code"));
    Engine::with(&pipemill_builtin::BUILTINS, Some(cache), Vec::new()).expect("an engine")
}

impl Host {
    /// Starts a host that goes on at the states in a file, if there is one. `consumers_first`: if it is
    /// in this process, it decodes nothing before its consumers are connected.
    ///
    /// # Errors
    /// Why it does not start, if it is in this process.
    pub fn start(
        hosts: Hosts,
        place: &TestDir,
        config: &str,
        resume: Option<&Path>,
        consumers_first: bool,
    ) -> Result<Self, String> {
        static ENGINE: OnceLock<Engine> = OnceLock::new();
        let socket = place.path("run/host.sock");
        let host = match hosts {
            Hosts::InProcess => {
                let engine = ENGINE.get_or_init(engine);
                let text = format!("socket = {socket:?}\n{config}");
                let host = in_process::Host::start(&text, resume, consumers_first, engine);
                Running::InProcess { _host: host.map_err(|faults| faults.join("\n"))? }
            }
            Hosts::Processes => {
                let mut command = host::command(&pipemill!(), place, config);
                command.args(resume.iter().flat_map(|file| [Path::new("--resume"), file]));
                Running::Process { _process: Process::start(&mut command) }
            }
        };
        Ok(Self { _host: host, socket })
    }

    /// A consumer, as soon as the host answers.
    pub fn connect(&self, hello: &Hello) -> Result<Reader, ReaderError> {
        let until = Instant::now() + PATIENCE;
        loop {
            match Reader::connect_as(&self.socket, hello, false) {
                Err(ReaderError::Connect { .. }) if Instant::now() < until => {
                    std::thread::sleep(std::time::Duration::from_millis(2));
                }
                answer => return answer,
            }
        }
    }
}
