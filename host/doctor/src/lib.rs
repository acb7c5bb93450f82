//! `pipemill doctor`: examines what pipemill needs on a machine, and says what is wrong and what to
//! do.
//!
//! `machine`, `credentials`, `python` and `s3` collect [`Facts`]. `rules` makes findings of them
//! without any system calls, so its tests use invented facts.
//!
//! - `facts`: facts of a machine.
//! - `finding`: a finding: one line for people.

#![forbid(unsafe_code)]

mod credentials;
mod facts;
mod finding;
mod machine;
mod python;
mod rules;
mod s3;

use std::path::PathBuf;

use pipemill_source::s3::Settings;

use pipemill_config::{Config, Source};
use pipemill_run::{self as run, Machine, ResourcePlan};

pub use facts::{Configuration, Facts};
pub use finding::{Finding, Level};
pub use rules::findings;

/// The subjects of the examination, in addition to the machine.
pub struct Subjects {
    /// The configuration that a run would use, if there is one.
    pub configuration: Option<Result<Config, Configuration>>,
    /// Sources in S3, by the names that the user typed.
    pub addresses: Vec<(String, Settings)>,
}

/// Examines the machine. Each question that could take long has a time limit.
pub fn collect(subjects: Subjects) -> Facts {
    let config = subjects.configuration.as_ref().and_then(|read| read.as_ref().ok());
    let of_config = config.into_iter().flat_map(|config| &config.channels);
    let in_s3 =
        of_config.flat_map(pipemill_config::Channel::decoded).filter_map(|channel| match &channel
            .source
        {
            Source::S3(settings) => {
                Some((format!("channel `{}`", channel.name), (**settings).clone()))
            }
            _ => None,
        });
    let asked: Vec<_> = subjects.addresses.into_iter().chain(in_s3).collect();
    let socket = config.and_then(|config| config.socket.clone());
    Facts {
        kernel: machine::kernel(),
        ring: machine::make_ring(),
        open_files: machine::open_files(),
        locked_memory: machine::locked_memory(),
        shm: machine::shm(),
        memory: machine::memory(),
        exceeds: config.and_then(|config| {
            // The memory that a channel always takes does not depend on decoders.
            ResourcePlan::of(config, &[], Machine::here()).exceeds_limit()
        }),
        socket: machine::socket(
            socket.unwrap_or_else(run::default_socket),
            config.is_some_and(|config| config.allow_other_users),
        ),
        gpu: machine::gpu(&PathBuf::from("/")),
        credentials: credentials::collect(&|name| std::env::var(name).ok()),
        sources: s3::probe_all(asked),
        python: python::ask("python3".as_ref(), python::LIMIT),
        configuration: subjects.configuration.map(|read| match read {
            Ok(config) => Configuration { file: config.file, faults: Vec::new() },
            Err(configuration) => configuration,
        }),
    }
}
