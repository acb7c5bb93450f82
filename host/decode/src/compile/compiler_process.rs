//! Compiles plugins in a separate process, which has limits of memory and CPU time.
//!
//! [`compile_limits`](crate::compile::compile_limits) limits the input of the compiler. This
//! process limits the rest: a compiler that needs more than it should, or that fails, ends this
//! process and not the host.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use pipemill_types::printable;

use crate::compile::machine_code::machine_code;
use crate::sandbox::settings::settings;

/// The first argument that makes a program the compiler: the program calls [`compile_stdin`].
pub const COMPILE_STDIN: &str = "compile-stdin";

/// Limit of the process's private memory, in bytes. A decoder with a Python interpreter takes 370
/// MiB.
const MAX_MEMORY: u64 = 512 << 20;
/// Limit of the process's CPU time, in seconds: far more than the largest plugin takes on a slow
/// machine, in a build without optimization.
const MAX_CPU_SECONDS: u64 = 600;
/// Number of threads of the process. Each holds the memory of the function that it compiles.
const MAX_THREADS: usize = 4;
/// Number of bytes of the process's error output that are kept.
const MAX_MESSAGE_BYTES: u64 = 16 << 10;

/// Compiles a plugin with a process of `program`, which is this program. Returns the file of
/// machine code.
///
/// # Errors
/// The plugin can't be compiled, or the process can't be started; the error says why.
pub(crate) fn compile(program: &Path, wasm: &[u8]) -> Result<MachineCode, String> {
    let code = memfd_create("pipemill:code", MFdFlags::MFD_CLOEXEC)
        .map_err(|error| format!("there is no memory for its machine code: {error}"))?;
    let code = File::from(code);
    let (status, said) =
        run(program, wasm, &code).map_err(|error| format!("can't start the compiler: {error}"))?;
    match status.code() {
        Some(0) => Ok(MachineCode(code)),
        _ => Err(describe(status, &said)),
    }
}

/// Machine code in an anonymous file.
pub(crate) struct MachineCode(File);

impl MachineCode {
    /// A path that leads to the open file.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

fn run(program: &Path, wasm: &[u8], code: &File) -> io::Result<(ExitStatus, String)> {
    let threads = thread::available_parallelism().map_or(1, |count| count.get().min(MAX_THREADS));
    let mut child = Command::new(program)
        .arg(COMPILE_STDIN)
        .env("RAYON_NUM_THREADS", threads.to_string())
        .stdin(Stdio::piped())
        .stdout(OwnedFd::from(code.try_clone()?))
        .stderr(Stdio::piped())
        .spawn()?;
    // A process that fails explains it on its standard error.
    let _ = child.stdin.take().map(|mut pipe| pipe.write_all(wasm));
    let mut said = Vec::new();
    if let Some(pipe) = &mut child.stderr {
        pipe.take(MAX_MESSAGE_BYTES).read_to_end(&mut said)?;
    }
    drop(child.stderr.take());
    Ok((child.wait()?, String::from_utf8_lossy(&said).into_owned()))
}

/// The reason why the process did not compile the plugin.
fn describe(status: ExitStatus, said: &str) -> String {
    const REMEDY: &str = "build it with optimization, or leave libraries out that it does not need";
    if status.code() == Some(REFUSED) {
        return printable(said.trim_end());
    }
    if status.signal() == Some(Signal::SIGXCPU as i32) {
        return format!(
            "is too large to be compiled: it took more than {MAX_CPU_SECONDS} s of CPU time; \
             {REMEDY}"
        );
    }
    if said.contains("memory allocation of") {
        let most = MAX_MEMORY >> 20;
        return format!("is too large to be compiled: it took more than {most} MiB; {REMEDY}");
    }
    format!(
        "the compiler failed on it ({status}): {}; give the machine more memory if it was killed, \
         else report it with the plugin",
        printable(said.trim_end())
    )
}

/// Exit code of the process if the plugin can't be compiled. Standard error says why.
const REFUSED: i32 = 65;

/// The work of the process: compiles the plugin on standard input to machine code on standard
/// output. Returns its exit code.
#[expect(clippy::disallowed_methods, reason = "the host reads both, and makes them printable")]
pub fn compile_stdin() -> u8 {
    match limit_this_process().and_then(|()| compile_from(io::stdin(), io::stdout())) {
        Ok(()) => 0,
        Err(why) => {
            // If nobody reads the text, nobody needs it.
            let _ = writeln!(io::stderr(), "{why}");
            REFUSED as u8
        }
    }
}

fn limit_this_process() -> Result<(), String> {
    let limit = |resource, most| {
        setrlimit(resource, most, most)
            .map_err(|error| format!("the limits of the compiler can't be set: {error}"))
    };
    // The host may be killed while it waits.
    set_pdeathsig(Signal::SIGKILL).map_err(|error| format!("can't follow the host: {error}"))?;
    limit(Resource::RLIMIT_CORE, 0)?;
    limit(Resource::RLIMIT_CPU, MAX_CPU_SECONDS)?;
    limit(Resource::RLIMIT_DATA, MAX_MEMORY)
}

fn compile_from(mut wasm: impl Read, mut code: impl Write) -> Result<(), String> {
    let mut bytes = Vec::new();
    wasm.read_to_end(&mut bytes).map_err(|error| format!("can't be read: {error}"))?;
    let engine = wasmtime::Engine::new(&settings()).map_err(|error| format!("{error:#}"))?;
    let compiled = machine_code(&engine, &bytes)?;
    code.write_all(&compiled).map_err(|error| format!("its machine code can't be kept: {error}"))
}
