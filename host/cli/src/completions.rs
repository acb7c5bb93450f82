//! `pipemill completions`: a script that completes the command line in a shell.

use std::io::Write;
use std::process::ExitCode;

use clap::ValueEnum;
use clap_complete::Shell;

use super::output;

/// Print a script that completes pipemill's command line in a shell.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  pipemill completions bash >~/.local/share/bash-completion/completions/pipemill
  pipemill completions fish >~/.config/fish/completions/pipemill.fish")]
pub(super) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: ShellArg,
}

#[derive(Clone, Copy, ValueEnum)]
enum ShellArg {
    Bash,
    Zsh,
    Fish,
}

pub(super) fn main(args: &Args, command: &mut clap::Command) -> ExitCode {
    let shell = match args.shell {
        ShellArg::Bash => Shell::Bash,
        ShellArg::Zsh => Shell::Zsh,
        ShellArg::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, command, "pipemill", &mut script);
    // If nobody reads the output there is nothing to do.
    let _ = output::raw().write_all(&script);
    ExitCode::SUCCESS
}
