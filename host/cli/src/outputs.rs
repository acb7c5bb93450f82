//! The outputs of a run that cover it from start to end: the report and the trace.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use pipemill_channel::Observer;

use super::exit::Refusal;
use pipemill_config::{self as config, Config};
use pipemill_telemetry::{ChannelHandle, Report, Trace};

/// Options for the outputs of a run.
#[derive(Clone, clap::Args)]
pub(super) struct OutputArgs {
    /// At the end of the run, write a report about it into this file: HTML without other files
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write a trace of the run into this file, for ui.perfetto.dev or chrome://tracing
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// The requested outputs.
pub(super) struct RunOutputs {
    report: Option<Report>,
    trace: Option<Trace>,
}

impl RunOutputs {
    /// Opens the files of the outputs.
    ///
    /// # Errors
    /// A file can't be written; the text says why.
    pub(super) fn new(args: &OutputArgs, command: &[OsString]) -> Result<Self, String> {
        let report = args.report.as_deref().map(|file| Report::new(file, command)).transpose()?;
        let trace = args.trace.as_deref().map(Trace::new).transpose()?;
        Ok(Self { report, trace })
    }

    /// Passes on the configuration of the run.
    pub(super) fn set_config(&mut self, config: &Config) {
        if let Some(report) = &mut self.report {
            report.set_config(config::show(config));
        }
    }

    /// Starts to watch the channels, before they run. Returns an observer for each channel, in
    /// their order, or none at all if no output needs observers.
    pub(super) fn watch(&mut self, channels: &[Arc<ChannelHandle>]) -> Vec<Box<dyn Observer>> {
        if let Some(report) = &mut self.report {
            report.watch(channels);
        }
        self.trace.as_mut().map(|trace| trace.watch(channels)).unwrap_or_default()
    }

    /// Writes the outputs at the end of the run.
    pub(super) fn end(self, result: &Result<(), Refusal>) {
        if let Some(trace) = self.trace {
            trace.finish();
        }
        if let Some(report) = self.report {
            match result {
                Ok(()) => report.write(0, ""),
                Err(refusal) => report.write(refusal.code, &refusal.text()),
            }
        }
    }
}
