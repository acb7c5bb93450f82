//! From a channel's configuration to its source.

use std::io;

use pipemill_source::s3::{self, LazyS3};
use pipemill_source::{Fifos, Files, Source, Stop, stdin};

use crate::config;

/// Opens the sources of a configuration's channels, and starts what several of them share when the first one
/// needs it.
pub struct Sources {
    s3: LazyS3,
    stop: Stop,
}

impl Sources {
    /// `s3_budget`: see [`config::Config::s3_budget`].
    pub fn new(s3_budget: Option<u64>, stop: Stop) -> Self {
        Self { s3: LazyS3::new(s3_budget), stop }
    }

    /// The source of the channel with this name. One in S3 begins to fetch.
    ///
    /// # Errors
    /// This machine has no thread or file descriptor left.
    pub fn open(&mut self, channel: &str, source: config::Source) -> io::Result<Box<dyn Source>> {
        use config::Source as From;
        let stop = self.stop.clone();
        Ok(match source {
            From::Fifo {
                dir,
                epochs,
                first_epoch,
                open_timeout,
                idle_timeout,
                pipe_size,
                compression,
                epoch_file,
            } => Box::new(Fifos {
                dir,
                channel: channel.to_owned(),
                epoch: first_epoch,
                until: epochs.map(|epochs| first_epoch.saturating_add(epochs)),
                open_timeout,
                idle_timeout,
                pipe_size,
                compression,
                stop,
                epoch_file,
                given: false,
                begun: false,
            }),
            From::Files { pattern, reading } => Box::new(Files::new(pattern, reading, 0, stop)),
            From::S3(settings) => {
                let settings = s3::Settings { channel: Some(channel.to_owned()), ..*settings };
                Box::new(s3::Objects::new(self.s3.get()?, settings, 0, stop))
            }
            From::Stdin { compression } => Box::new(stdin(compression, stop)),
        })
    }
}
