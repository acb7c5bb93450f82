//! Makes a channel's source from its configuration.

use std::io;

use pipemill_source::s3::{self, LazyS3Runtime, Selection};
use pipemill_source::{
    FifoSettings, Fifos, Files, KnownFiles, Order, Pattern, ReadSettings, Source, Start, Stop,
    stdin,
};

use pipemill_config as config;

/// Opens the sources of a configuration's channels. The S3 client, which several sources share, is
/// started when the first source needs it.
pub struct Sources {
    s3: LazyS3Runtime,
    stop: Stop,
}

impl Sources {
    /// `s3_budget` in bytes: see [`config::Config::s3_budget`]. `stop` stops all sources.
    pub fn new(s3_budget: Option<u64>, stop: Stop) -> Self {
        Self { s3: LazyS3Runtime::new(s3_budget), stop }
    }

    /// The stop of all sources.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Opens the source of the channel with this name. A source in S3 begins to fetch at once.
    ///
    /// # Errors
    /// A thread or a file descriptor can't be created.
    pub fn open(&mut self, channel: &str, source: config::Source) -> io::Result<Box<dyn Source>> {
        self.open_until(channel, source, self.stop.clone())
    }

    /// The source of the objects from which the channel is learned, if these are not the first ones
    /// that it reads: `learn_from`, or the first ones of all objects in the order of their list.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_first(
        &mut self,
        channel: &config::Channel,
        stop: Stop,
    ) -> io::Result<Option<Box<dyn Source>>> {
        if channel.indexed.is_some() {
            // Nothing has to be learned.
            return Ok(None);
        }
        let first = |reading: &ReadSettings| {
            let is_own = channel.learn_from.is_none() && reading.order == Order::default();
            let reading = ReadSettings { epochs: 1, order: Order::default(), ..reading.clone() };
            (!is_own).then_some(reading)
        };
        let source = match &channel.source {
            // What is read of a pipe to learn from it would be lost for the channel.
            config::Source::Files { pattern, .. }
                if channel.learn_from.is_none() && !pattern.can_reread() =>
            {
                None
            }
            config::Source::Files { pattern, reading } => first(reading).map(|reading| {
                let learn_from = channel.learn_from.as_ref().map(|path| Pattern::File(path.into()));
                let pattern = learn_from.unwrap_or_else(|| pattern.clone());
                config::Source::Files { pattern, reading }
            }),
            config::Source::S3(settings) => first(&settings.reading).map(|reading| {
                // The address was checked when the configuration was read.
                let learn_from =
                    channel.learn_from.as_ref().and_then(|address| address.parse().ok());
                let learn_from = learn_from.map(|address| Selection::Named(vec![address]));
                let selection = learn_from.unwrap_or_else(|| settings.selection.clone());
                let settings =
                    s3::Settings { selection, reading, concurrency: 1, ..*settings.clone() };
                config::Source::S3(Box::new(settings))
            }),
            _ => None,
        };
        source.map(|source| self.open_until(&channel.name, source, stop)).transpose()
    }

    /// As [`open`](Self::open), with another stop for this source.
    ///
    /// # Errors
    /// The address was checked, and a mix has no source of its own.
    pub fn open_until(
        &mut self,
        channel: &str,
        source: config::Source,
        stop: Stop,
    ) -> io::Result<Box<dyn Source>> {
        use config::Source as SourceConfig;
        Ok(match source {
            SourceConfig::Fifo {
                dir,
                epochs,
                first_epoch,
                open_timeout,
                idle_timeout,
                pipe_size,
                compression,
                epoch_file,
            } => {
                let settings = FifoSettings {
                    dir,
                    channel: channel.to_owned(),
                    first_epoch,
                    end_epoch: epochs.map(|epochs| first_epoch.saturating_add(epochs)),
                    open_timeout,
                    idle_timeout,
                    pipe_size,
                    compression,
                    epoch_file,
                };
                Box::new(Fifos::new(settings, stop))
            }
            SourceConfig::Files { pattern: Pattern::Known { list, index }, reading } => {
                Box::new(KnownFiles::new(list, index, reading, stop))
            }
            SourceConfig::Index(index) => {
                let message = format!("the index {} was not read", index.file);
                return Err(io::Error::other(message));
            }
            SourceConfig::Files { pattern, reading } => {
                Box::new(Files::new(pattern, reading, 0, stop))
            }
            SourceConfig::S3(settings) => {
                let settings = s3::Settings { channel: Some(channel.to_owned()), ..*settings };
                Box::new(s3::Objects::new(self.s3.get()?, settings, Start::default(), stop))
            }
            SourceConfig::Stdin { compression } => Box::new(stdin(compression, stop)),
            SourceConfig::Mix(_) => {
                return Err(io::Error::other("a mix is read through the channels that it mixes"));
            }
        })
    }
}
