//! The `pipemill` command: see `cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pipemill::cli::main()
}
