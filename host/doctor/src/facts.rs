//! Facts of a machine. They are not judged here.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// All facts that [`findings`](super::findings) uses.
pub struct Facts {
    /// Release of the kernel, as `uname -r` prints it.
    pub kernel: String,
    /// Whether a ring can be made; the error says why not.
    pub ring: Result<(), String>,
    /// Files that this process may open.
    pub open_files: Limit,
    /// Bytes that this process may lock in memory.
    pub locked_memory: Limit,
    /// Size of `/dev/shm` in bytes; `None` if it does not exist.
    pub shm: Option<u64>,
    /// Memory of the machine.
    pub memory: Memory,
    /// The reason why the rings of the configuration do not fit into the memory limit.
    pub exceeds: Option<String>,
    /// The place where a host would serve.
    pub socket: Socket,
    /// GPUs, as NVIDIA's driver reports them.
    pub gpu: Gpu,
    /// The origin of credentials for S3.
    pub credentials: Credentials,
    /// The sources in S3 to examine.
    pub sources: Vec<S3Source>,
    /// The Python of consumers.
    pub python: Python,
    /// The configuration that a run would use, if there is one.
    pub configuration: Option<Configuration>,
}

/// A limit of the kernel for this process; `None` for no limit.
#[derive(Clone, Copy)]
pub struct Limit {
    /// The current limit.
    pub soft: Option<u64>,
    /// The limit up to which the process may raise it.
    pub hard: Option<u64>,
}

/// Memory of the machine and of the control group.
pub struct Memory {
    /// Version of the control groups; `None` if none are mounted.
    pub cgroup: Option<u8>,
    /// Limit of this process's group in bytes.
    pub limit: Option<u64>,
    /// Bytes that are available on the machine.
    pub available: Option<u64>,
}

/// The place where a host would serve.
pub struct Socket {
    /// Path of the socket.
    pub path: PathBuf,
    /// The reason why it can't be made: the folder, and the error.
    pub error: Option<(PathBuf, String)>,
    /// The reason why no host serves in its folder, and what to do: it belongs to another user, or
    /// others may write to it.
    pub foreign: Option<String>,
}

/// GPUs.
#[derive(Default)]
pub struct Gpu {
    /// Version of NVIDIA's driver, if one is loaded.
    pub driver: Option<String>,
    /// Models of the GPUs that the driver knows.
    pub models: Vec<String>,
    /// Devices of GPUs in `/dev`.
    pub devices: usize,
}

/// The origin of credentials for S3. No value of a credential is kept.
#[derive(Default)]
pub struct Credentials {
    /// Whether `AWS_ACCESS_KEY_ID` is set.
    pub access_key: bool,
    /// Whether `AWS_SECRET_ACCESS_KEY` is set.
    pub secret_key: bool,
    /// The profile that `AWS_PROFILE` names.
    pub profile: Option<String>,
    /// The profiles in `~/.aws`, and whether each has credentials or leads to them.
    pub profiles: BTreeMap<String, bool>,
    /// The file of `AWS_WEB_IDENTITY_TOKEN_FILE`, and whether it can be read.
    pub token_file: Option<(String, bool)>,
    /// Whether `AWS_ROLE_ARN` is set.
    pub role: bool,
    /// Whether `AWS_CONTAINER_CREDENTIALS_…` is set.
    pub container: bool,
    /// Whether `AWS_EC2_METADATA_DISABLED` is `true`.
    pub metadata_disabled: bool,
}

/// A source in S3 that was tried.
pub struct S3Source {
    /// The address as it was typed, or the channel.
    pub name: String,
    /// The result of the trial.
    pub outcome: Listed,
}

/// The result of listing a source.
pub enum Listed {
    /// Its first object: URL and bytes.
    First(String, u64),
    /// It has no object, and that is allowed.
    Nothing,
    /// The error, with what to do.
    Failed(String),
    /// There was no answer within this time.
    TimedOut(Duration),
}

/// The answer of `python3` about itself.
pub enum Python {
    /// There is none on the `PATH`.
    NotFound,
    /// There was no answer within this time.
    TimedOut(Duration),
    /// It could not be asked; the text is the reason.
    Failed(String),
    /// Its answer.
    Found(Interpreter),
}

/// A Python and its packages.
#[derive(serde::Deserialize)]
pub struct Interpreter {
    /// Path of the program.
    pub path: String,
    /// Version, in numbers: major, minor, micro.
    pub version: [u32; 3],
    /// Version of the package `pipemill`.
    pub package: Option<String>,
    /// The reason why the package can't be imported.
    pub error: Option<String>,
    /// Version of numpy.
    pub numpy: Option<String>,
}

/// The configuration that a run would use.
pub struct Configuration {
    /// Its path.
    pub file: String,
    /// The faults in it.
    pub faults: Vec<String>,
}
