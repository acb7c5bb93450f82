//! `pipemill top`: shows the status of running hosts, on a live screen, or once as text or JSON.
//!
//! - `history`: earlier status answers of a host, and the rates that are computed from them.
//! - `hosts`: finds the hosts of this user.
//! - `picture`: the picture of the screen in the documents, docs/pictures/top.svg, drawn from the
//!   terminal's own cells.
//! - `screen`: draws a host's status: a line for each channel, and below them the details of the
//!   selected channel.
//! - `table`: formats a host's status as plain text.
//! - `watch`: the live screen: it asks the hosts for their status at an interval, draws one of
//!   them, and obeys the keys.

mod history;
mod hosts;
#[cfg(test)]
mod picture;
mod screen;
mod table;
mod watch;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use pipemill_ring::status_client::{StatusClient, StatusClientError};
use pipemill_types::{Printable, json};
use serde_json::Value;

use super::{exit, output};
use pipemill_config::parse_duration;
use pipemill_run as run;
use pipemill_telemetry::status::Status;
use watch::watch;

/// Show the status of a running host: channels, rates, slots, consumers, and each channel's
/// bottleneck.
///
/// Requests the status over the host's socket and shows it on a live screen: the arrow keys select
/// a channel, Tab shows another host, `q` ends. If standard output is not a terminal, it prints a
/// table once. Without a socket it finds all hosts of this user, also those that
/// `pipemill.open()` in Python has started.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  pipemill top
  pipemill top --json --socket /run/pipemill.sock")]
pub(super) struct Args {
    /// The host's socket [default: the environment variable PIPEMILL_SOCKET, else those of all
    /// hosts of this user]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Time between two requests to the host, from 100ms to 60s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Print a table once, and end
    #[arg(long)]
    once: bool,
    /// Print the status once, as JSON, and end
    #[arg(long)]
    json: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    let range = Duration::from_millis(100)..=Duration::from_secs(60);
    let found = parse_duration(text).ok().filter(|time| range.contains(time));
    found.ok_or_else(|| "expected a time from 100ms to 60s".to_owned())
}

pub(super) fn main(args: &Args) -> ExitCode {
    let from_environment = || std::env::var_os(run::SOCKET).filter(|path| !path.is_empty());
    let named = args.socket.clone().or_else(|| from_environment().map(PathBuf::from));
    let connected = match &named {
        Some(socket) => StatusClient::connect(socket).map(|host| vec![host]),
        None => hosts::all(),
    };
    let mut hosts = match connected {
        Ok(hosts) => hosts,
        Err(error @ (StatusClientError::OtherUser(_) | StatusClientError::Folder(_))) => {
            return exit::because(exit::SYSTEM, error);
        }
        Err(error) => {
            let remedy = "is `pipemill run`, or a program with `pipemill.open()`, at work, as this \
                          user? `--socket` says where it serves";
            return exit::because(exit::MISSING, format!("{error}; {remedy}"));
        }
    };
    let done = if args.json {
        print(|| json_of(&mut hosts))
    } else if args.once || !output::is_terminal() {
        print(|| tables_of(&mut hosts))
    } else {
        watch(hosts, args.interval)
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error @ TopError::Several(_)) => exit::because(exit::USAGE, error),
        Err(error) => exit::because(exit::SYSTEM, error),
    }
}

/// The status of the host as JSON. It is an error if there are several.
fn json_of(hosts: &mut [StatusClient]) -> Result<String, TopError> {
    match hosts {
        [host] => Ok(json::escape(&String::from_utf8_lossy(&host.status()?))),
        hosts => {
            let sockets: Vec<_> = hosts.iter().map(|host| host.path().display()).collect();
            let sockets: Vec<_> = sockets.iter().map(ToString::to_string).collect();
            Err(TopError::Several(sockets.join(", ")))
        }
    }
}

/// Tables of all hosts.
fn tables_of(hosts: &mut [StatusClient]) -> Result<String, TopError> {
    let tables = hosts.iter_mut().map(|host| Ok(table::text(&request(host)?)));
    Ok(tables.collect::<Result<Vec<_>, TopError>>()?.join("\n"))
}

/// The reason why the status can't be shown.
#[derive(Debug, thiserror::Error)]
enum TopError {
    #[error(transparent)]
    Host(#[from] StatusClientError),
    #[error("the host's answer is not understood: {0}; use the `pipemill` of the same release")]
    Status(#[from] serde_json::Error),
    #[error("the terminal: {0}")]
    Terminal(#[from] std::io::Error),
    #[error("--json shows one host, and these serve: {0}; choose one with --socket")]
    Several(String),
}

/// Makes the names and texts of a status printable: they come from the input, from consumers, and
/// perhaps from a program that is not pipemill.
fn request(host: &mut StatusClient) -> Result<Status, TopError> {
    status(&host.status()?)
}

fn status(json: &[u8]) -> Result<Status, TopError> {
    let mut status = serde_json::from_slice(json)?;
    make_printable(&mut status);
    Ok(serde_json::from_value(status)?)
}

/// Makes all strings printable, so that none can be forgotten.
fn make_printable(value: &mut Value) {
    match value {
        Value::String(text) => *text = Printable::name(&*text).to_string(),
        Value::Array(values) => values.iter_mut().for_each(make_printable),
        Value::Object(fields) => fields.values_mut().for_each(make_printable),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn print(text: impl FnOnce() -> Result<String, TopError>) -> Result<(), TopError> {
    let mut text = text()?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    // The reader may have closed the pipe, which is not an error.
    let _ = output::raw().write_all(text.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use pipemill_types::is_hidden;

    use super::*;

    #[test]
    fn names_in_a_status_are_printable() {
        let nasty = "a\n\u{1b}[2J\u{9b}2J\u{202e}b";
        let mut status: Value = serde_json::from_str(include_str!("status.json")).unwrap();
        let channel = &mut status["channels"][0];
        for name in ["name", "decoder", "object", "source", "state"] {
            channel[name] = nasty.into();
        }
        channel["ring"]["consumers"][0]["client"] = nasty.into();
        let read = super::status(&serde_json::to_vec(&status).unwrap()).unwrap();
        let shown = table::text(&read) + &format!("{read:?}");
        assert!(!shown.chars().any(|c| is_hidden(c) && c != '\n'), "{shown:?}");
        let client = &read.channels[0].ring.consumers[0].client;
        assert_eq!(client, "a\\n\\u{1b}[2J\\u{9b}2J\\u{202e}b");
    }
}
