//! The `pipemill` command as host/pipemill/src/main.rs has it, so that cargo builds it with the tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    pipemill_cli::main(&pipemill_builtin::BUILTINS)
}
