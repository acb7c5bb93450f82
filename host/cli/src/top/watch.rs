//! The live screen: it asks the hosts for their status at an interval, draws one of them, and obeys
//! the keys.

use std::time::{Duration, Instant};

use pipemill_ring::status_client::{StatusClient, StatusClientError};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};

use super::history::StatusHistory;
use super::{TopError, output, print, request, screen, table};

/// A host, its answers, and the channel that is selected.
struct WatchedHost {
    client: StatusClient,
    history: StatusHistory,
    selected: usize,
}

/// The hosts that are watched: at least one.
struct Watched {
    hosts: Vec<WatchedHost>,
    /// Index of the host that is shown.
    shown: usize,
}

/// Shows the hosts until a key ends this, or the last host ends.
pub(super) fn watch(hosts: Vec<StatusClient>, interval: Duration) -> Result<(), TopError> {
    let mut watched = Watched { hosts: Vec::new(), shown: 0 };
    for client in hosts {
        let mut host = WatchedHost { client, history: StatusHistory::default(), selected: 0 };
        host.ask()?;
        watched.hosts.push(host);
    }
    // This also restores the terminal after a panic.
    let mut terminal = ratatui::try_init()?;
    let done = keep_watching(&mut watched, interval, &mut terminal);
    ratatui::restore();
    match done {
        // The last host has ended, which is not an error.
        Err(TopError::Host(StatusClientError::HungUp)) => {
            if let Some(status) = watched.host().history.last() {
                print(|| Ok(table::text(status)))?;
            }
            output::remark(format_args!("pipemill: the host has ended; this is how it stood last"));
            Ok(())
        }
        done => done,
    }
}

fn keep_watching(
    watched: &mut Watched,
    interval: Duration,
    terminal: &mut DefaultTerminal,
) -> Result<(), TopError> {
    let mut next = Instant::now() + interval;
    loop {
        let (shown, all) = (watched.shown + 1, watched.hosts.len());
        let host = watched.host();
        let keys = screen::Keys { host: shown, hosts: all };
        terminal.draw(|frame| screen::draw(frame, &host.history, host.selected, keys))?;
        if event::poll(next.saturating_duration_since(Instant::now()))?
            && let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
        {
            let ctrl_c = key.modifiers.contains(KeyModifiers::CONTROL);
            match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                KeyCode::Char('c') if ctrl_c => return Ok(()),
                KeyCode::Up | KeyCode::Char('k') => host.select(-1),
                KeyCode::Down | KeyCode::Char('j') => host.select(1),
                KeyCode::Tab => watched.shown = shown % all,
                _ => {}
            }
        }
        if Instant::now() >= next {
            watched.ask()?;
            next += interval;
        }
    }
}

impl Watched {
    /// The host that is shown.
    fn host(&mut self) -> &mut WatchedHost {
        &mut self.hosts[self.shown]
    }

    /// Asks all hosts. A host that has ended is removed, unless it is the last one.
    fn ask(&mut self) -> Result<(), TopError> {
        let mut at = 0;
        while at < self.hosts.len() {
            match self.hosts[at].ask() {
                Err(TopError::Host(StatusClientError::HungUp)) if self.hosts.len() > 1 => {
                    self.hosts.remove(at);
                    let is_before = at < self.shown || self.shown == self.hosts.len();
                    self.shown -= usize::from(is_before);
                }
                asked => {
                    asked?;
                    at += 1;
                }
            }
        }
        Ok(())
    }
}

impl WatchedHost {
    fn ask(&mut self) -> Result<(), TopError> {
        let status = request(&mut self.client)?;
        self.history.add(Instant::now(), status);
        Ok(())
    }

    /// Selects the channel this many lines below.
    fn select(&mut self, lines: isize) {
        let channels = self.history.last().map_or(0, |status| status.channels.len());
        self.selected = self.selected.saturating_add_signed(lines).min(channels.saturating_sub(1));
    }
}
