//! The `pipemill` command: the application with the built-in decoders.

use std::process::ExitCode;

fn main() -> ExitCode {
    pipemill_app::cli::main(&pipemill_builtin::BUILTINS)
}
