//! Those who look at a run from its beginning to its end: the report and the trace.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use super::exit::Refusal;
use crate::config::{self, Config};
use crate::telemetry::{ChannelHandle, Report, Trace};
use pipemill_channel::Observer;

/// What a run leaves behind.
#[derive(clap::Args)]
pub(super) struct OutputArgs {
    /// Write a page about the run into this file when it is over: HTML that needs nothing else
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write what happens, moment by moment, into this file, for ui.perfetto.dev or chrome://tracing
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// Those that were asked for.
pub(super) struct RunOutputs {
    report: Option<Report>,
    trace: Option<Trace>,
}

impl RunOutputs {
    /// Makes sure that their files can be written.
    pub(super) fn new(args: &OutputArgs, command: &[OsString]) -> Result<Self, String> {
        let report = args.report.as_deref().map(|file| Report::new(file, command)).transpose()?;
        let trace = args.trace.as_deref().map(Trace::new).transpose()?;
        Ok(Self { report, trace })
    }

    /// The run has this configuration.
    pub(super) fn configured(&mut self, config: &Config) {
        if let Some(report) = &mut self.report {
            report.configured(config::show(config));
        }
    }

    /// Follows its channels, which are about to begin: gives the observer of each, in their order; none at all if no
    /// output needs them.
    pub(super) fn watch(&mut self, channels: &[Arc<ChannelHandle>]) -> Vec<Box<dyn Observer>> {
        if let Some(report) = &mut self.report {
            report.watch(channels);
        }
        self.trace.as_mut().map(|trace| trace.watch(channels)).unwrap_or_default()
    }

    /// It is over.
    pub(super) fn end(self, result: &Result<(), Refusal>) {
        if let Some(trace) = self.trace {
            trace.finish();
        }
        if let Some(report) = self.report {
            match result {
                Ok(()) => report.write(0, ""),
                Err(Refusal { code, why }) => report.write(*code, why),
            }
        }
    }
}
