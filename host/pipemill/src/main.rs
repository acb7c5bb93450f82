//! The `pipemill` command: the application with the built-in decoders.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    pipemill_cli::main(&pipemill_builtin::BUILTINS)
}
