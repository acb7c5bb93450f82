//! `pipemill top`: shows the status of a running host, on a live screen, or once as text or JSON.

mod history;
#[cfg(test)]
mod picture;
mod screen;
mod table;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use pipemill_ring::status_client::{StatusClient, StatusClientError};
use pipemill_types::{Printable, json};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use serde_json::Value;

use super::{exit, output};
use crate::config::parse_duration;
use crate::run;
use crate::telemetry::status::Status;
use history::History;

/// Show the status of a running host: channels, rates, slots, consumers, and each channel's
/// bottleneck.
///
/// Requests the status over the host's socket and shows it on a live screen: the arrow keys select
/// a channel, `q` ends. If standard output is not a terminal, it prints a table once.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  pipemill top
  pipemill top --json --socket /run/pipemill.sock")]
pub(super) struct Args {
    /// The host's socket [default: the environment variable PIPEMILL_SOCKET, else the host's
    /// default]
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
        Some(socket) => StatusClient::connect(socket),
        None => StatusClient::connect_to_own(&run::default_socket()),
    };
    let mut host = match connected {
        Ok(host) => host,
        Err(error @ StatusClientError::OtherUser { .. }) => {
            return exit::because(exit::SYSTEM, error);
        }
        Err(error) => {
            let remedy = "is `pipemill run` at work, as this user? `--socket` says where it serves";
            return exit::because(exit::MISSING, format!("{error}; {remedy}"));
        }
    };
    let done = if args.json {
        print(|| Ok(json::escape(&String::from_utf8_lossy(&host.status()?))))
    } else if args.once || !output::is_terminal() {
        print(|| Ok(table::text(&request(&mut host)?)))
    } else {
        watch(&mut host, args.interval)
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::because(exit::SYSTEM, error),
    }
}

/// Why the status can't be shown.
#[derive(Debug, thiserror::Error)]
enum TopError {
    #[error(transparent)]
    Host(#[from] StatusClientError),
    #[error("the host's answer is not understood: {0}; use the `pipemill` of the same release")]
    Status(#[from] serde_json::Error),
    #[error("the terminal: {0}")]
    Terminal(#[from] std::io::Error),
}

/// A status whose names and texts are printable: they come from the input, from consumers, and
/// perhaps from another program than pipemill.
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
    // The reader may have closed the pipe: nothing to do.
    let _ = output::raw().write_all(text.as_bytes());
    Ok(())
}

fn watch(host: &mut StatusClient, interval: Duration) -> Result<(), TopError> {
    let mut history = History::default();
    history.add(Instant::now(), request(host)?);
    // This also restores the terminal after a panic.
    let mut terminal = ratatui::try_init()?;
    let done = keep_watching(host, interval, &mut history, &mut terminal);
    ratatui::restore();
    match done {
        // The host has ended: not an error.
        Err(TopError::Host(StatusClientError::HungUp)) => {
            if let Some(status) = history.last() {
                print(|| Ok(table::text(status)))?;
            }
            output::remark(format_args!("pipemill: the host has ended; this is how it stood last"));
            Ok(())
        }
        done => done,
    }
}

fn keep_watching(
    host: &mut StatusClient,
    interval: Duration,
    history: &mut History,
    terminal: &mut DefaultTerminal,
) -> Result<(), TopError> {
    let mut selected = 0;
    let mut next = Instant::now() + interval;
    loop {
        terminal.draw(|frame| screen::draw(frame, history, selected))?;
        if event::poll(next.saturating_duration_since(Instant::now()))? {
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    let channels = history.last().map_or(0, |status| status.channels.len());
                    let ctrl_c = key.modifiers.contains(KeyModifiers::CONTROL);
                    match key.code {
                        KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                        KeyCode::Char('c') if ctrl_c => return Ok(()),
                        KeyCode::Up | KeyCode::Char('k') => selected = selected.saturating_sub(1),
                        KeyCode::Down | KeyCode::Char('j') => {
                            selected = (selected + 1).min(channels.saturating_sub(1));
                        }
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        if Instant::now() >= next {
            history.add(Instant::now(), request(host)?);
            next += interval;
        }
    }
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
