//! `pipemill man`: the manual pages.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use super::{exit, output};

/// Print the manual page of pipemill, or write a page for each command into a folder.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  pipemill man | man -l -
  pipemill man --to ~/.local/share/man/man1")]
pub(super) struct Args {
    /// The command whose page is printed, such as `cat` or `plugin test`
    #[arg(value_name = "COMMAND", conflicts_with = "to")]
    command: Vec<String>,
    /// Write all pages into this folder, which is made if it does not exist
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

pub(super) fn main(args: &Args, command: clap::Command) -> ExitCode {
    // A page needs the names of the commands above it.
    let mut root = command.disable_help_subcommand(true);
    root.build();
    if let Some(folder) = &args.to {
        let written =
            std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(root, folder));
        return match written {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let why = format!("{}: can't write the pages: {error}", folder.display());
                exit::because(exit::SYSTEM, why)
            }
        };
    }
    let mut found = &root;
    for word in &args.command {
        match found.find_subcommand(word) {
            Some(command) => found = command,
            None => {
                let names: Vec<_> = found.get_subcommands().map(clap::Command::get_name).collect();
                let why = format!("man: no command `{word}`; there are: {}", names.join(", "));
                return exit::because(exit::USAGE, why);
            }
        }
    }
    // If nobody reads the output there is nothing to do.
    let _ = print(found.clone());
    ExitCode::SUCCESS
}

fn print(command: clap::Command) -> io::Result<()> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    output::raw().write_all(&page)
}
