//! Asks Python for its version and its packages, for a limited time.

use std::ffi::OsStr;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::facts::Python;

/// Time limit for Python. It reads its packages from a disk that may be cold or far.
pub(super) const LIMIT: Duration = Duration::from_secs(20);
/// Interval at which to check whether it has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Prints an `Interpreter` as JSON. Any Python 3 understands it.
const QUESTION: &str = r#"
import json, sys
found = {"path": sys.executable, "version": list(sys.version_info[:3])}
try:
    import pipemill
    found["package"] = pipemill.__version__
except Exception as error:
    found["error"] = "%s: %s" % (type(error).__name__, error)
try:
    from importlib.metadata import version
    found["numpy"] = version("numpy")
except Exception:
    pass
print(json.dumps(found))
"#;

/// Asks this program, which is searched on the `PATH`.
pub(super) fn ask(program: &OsStr, limit: Duration) -> Python {
    let mut command = Command::new(program);
    command
        .args(["-c", QUESTION])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == ErrorKind::NotFound => return Python::NotFound,
        Err(error) => return Python::Failed(error.to_string()),
    };
    let output = match wait(child, limit) {
        Ok(Some(output)) => output,
        Ok(None) => return Python::TimedOut(limit),
        Err(error) => return Python::Failed(error.to_string()),
    };
    // A package may print something when it is imported, so the answer is the last line.
    let text = String::from_utf8_lossy(&output.stdout);
    let answer = text.lines().last().and_then(|line| serde_json::from_str(line).ok());
    answer.map_or_else(|| Python::Failed(reason(&output)), Python::Found)
}

/// The reason why there is no answer: the last line of the program's error output.
fn reason(output: &Output) -> String {
    let complaint = String::from_utf8_lossy(&output.stderr);
    let last = complaint.lines().rfind(|line| !line.trim().is_empty());
    last.map_or_else(|| format!("it ended with {}", output.status), |line| line.trim().to_owned())
}

/// The output of a process that ends within this time. Otherwise the process is killed.
fn wait(mut child: Child, limit: Duration) -> std::io::Result<Option<Output>> {
    let deadline = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        sleep(POLL_INTERVAL);
    };
    Ok(Some(Output { status, stdout: start_of(child.stdout), stderr: start_of(child.stderr) }))
}

/// The bytes that a process that has ended wrote to a pipe, at most as many as a pipe holds. A
/// process that it left behind may hold the pipe open, so the end of the pipe is not waited for.
fn start_of(pipe: Option<impl Read + AsFd>) -> Vec<u8> {
    let Some(mut pipe) = pipe else { return Vec::new() };
    let mut bytes = vec![0; 1 << 16];
    let is_ready = poll(&mut [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO);
    let length = if is_ready == Ok(1) { pipe.read(&mut bytes).unwrap_or_default() } else { 0 };
    bytes.truncate(length);
    bytes
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// No machine takes that long.
    const PATIENCE: Duration = Duration::from_secs(300);

    fn ask_script(script: &str, limit: Duration) -> Python {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("python3");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        ask(path.as_os_str(), limit)
    }

    #[test]
    fn the_last_line_is_the_answer() {
        let script = r#"echo noise; echo '{"path": "/p", "version": [3, 9, 1], "package": "1.2"}'"#;
        let Python::Found(found) = ask_script(script, PATIENCE) else { panic!("no answer") };
        assert_eq!((found.version, found.package.as_deref()), ([3, 9, 1], Some("1.2")));
        assert!(found.error.is_none() && found.numpy.is_none());
    }

    #[test]
    fn what_is_no_answer_is_named() {
        let Python::Failed(why) = ask_script("echo broken >&2; exit 1", PATIENCE) else {
            panic!("an answer")
        };
        assert_eq!(why, "broken");
        assert!(matches!(ask("/no/python3".as_ref(), PATIENCE), Python::NotFound));
    }

    #[test]
    fn what_never_answers_is_killed() {
        let answer = ask_script("while :; do sleep 1; done", Duration::ZERO);
        assert!(matches!(answer, Python::TimedOut(Duration::ZERO)));
    }

    #[test]
    fn a_process_that_is_left_behind_is_not_waited_for() {
        let Python::Failed(why) = ask_script("sleep 30 & exit 3", PATIENCE) else {
            panic!("an answer")
        };
        assert_eq!(why, "it ended with exit status: 3");
    }
}
