//! The `pipemill` command as host/src/main.rs has it, so that cargo builds it with the tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    pipemill::cli::main()
}
