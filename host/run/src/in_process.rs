//! A host inside another program, for tests that start and kill thousands of hosts: dropping it has
//! the effect of killing a host. It is `pipemill run` without its command, signals and telemetry.

use std::os::fd::AsFd;
use std::path::Path;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use pipemill_decode::Engine;
use pipemill_ring::host::{Server, ServerConfig};
use pipemill_source::Stop;
use pipemill_types::Accepted;

use super::channel_threads::ChannelThreads;
use pipemill_delivery::resume_from;

use super::{Machine, ResourcePlan, prepare};
use pipemill_config as config;

/// The channels of a configuration at work. Dropping it disconnects the consumers, and then ends
/// the channels: nobody gets an end of the stream.
pub struct Host {
    server: Option<Server>,
    threads: ChannelThreads,
}

impl Host {
    /// Serves the channels of a configuration, on its `socket`. `resume` is a file of states.
    /// `consumers_first` says that each channel begins when its consumers are connected.
    ///
    /// # Errors
    /// The error holds all faults, each in one line.
    pub fn start(
        text: &str,
        resume: Option<&Path>,
        consumers_first: bool,
        engine: &Engine,
    ) -> Result<Host, Vec<String>> {
        let faults =
            |faults: Vec<config::Fault>| faults.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut config = config::parse(text, "pipemill.toml", &|_| None).map_err(faults)?;
        if let Some(file) = resume {
            resume_from(file, Accepted::default(), &mut config)?;
        }
        let system = |error: &dyn std::fmt::Display| vec![error.to_string()];
        let stop = Stop::new().map_err(|error| system(&error))?;
        let plan = ResourcePlan::of(&config, engine.builtins(), Machine::here());
        let channels =
            prepare(&config, &plan, engine, &stop).map_err(|not_ready| not_ready.faults)?;
        let rings = channels.iter().map(|prepared| prepared.handle.ring.clone()).collect();
        let socket = config.socket.unwrap_or_else(super::default_socket);
        let server = Server::start(&socket, &ServerConfig::default(), rings, None);
        let server = Some(server.map_err(|error| system(&error))?);
        let threads = ChannelThreads::start(channels, stop, consumers_first)
            .map_err(|error| system(&error))?;
        Ok(Host { server, threads })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.server.take());
        self.threads.stop();
        while self.threads.are_running() {
            let mut events = [PollFd::new(self.threads.as_fd(), PollFlags::POLLIN)];
            // An interrupted wait returns early, and the loop goes on.
            let _ = poll(&mut events, PollTimeout::NONE);
            self.threads.receive_events();
        }
    }
}
