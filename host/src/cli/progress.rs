//! How far a command is, on a terminal: bytes, their rate, objects. Elsewhere it shows nothing.

use std::io::{IsTerminal, stderr, stdout};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::source::{Got, Input, Object, Source, SourceError, Step};

/// How often it is drawn.
const TICK: Duration = Duration::from_millis(200);

/// The same source, with its progress on standard error while a person watches; not where its output goes to
/// the same terminal.
pub(super) fn shown(source: Box<dyn Source>) -> Box<dyn Source> {
    if !stderr().is_terminal() || stdout().is_terminal() {
        return source;
    }
    // A constant; were it wrong, the plain one would do.
    let style = ProgressStyle::with_template(
        "{spinner} {binary_bytes} {binary_bytes_per_sec} {elapsed} {wide_msg}",
    );
    let bar = ProgressBar::new_spinner()
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(TICK);
    Box::new(Shown { source, bar })
}

struct Shown {
    source: Box<dyn Source>,
    bar: ProgressBar,
}

impl Source for Shown {
    fn next(&mut self) -> Result<Step, SourceError> {
        let step = self.source.next();
        match step {
            Ok(Step::Object(Object { epoch, name, input })) => {
                self.bar.set_message(name.clone());
                let input = Box::new(Counted { input, bar: self.bar.clone() });
                Ok(Step::Object(Object { epoch, name, input }))
            }
            Ok(Step::End) | Err(_) => {
                self.bar.finish_and_clear();
                step
            }
            Ok(Step::EpochEnd(_)) => step,
        }
    }

    fn end_epoch(&mut self) {
        self.source.end_epoch();
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

struct Counted {
    input: Box<dyn Input>,
    bar: ProgressBar,
}

impl Input for Counted {
    fn read(&mut self, buf: &mut [u8], wait: Option<Duration>) -> Result<Got, SourceError> {
        let got = self.input.read(buf, wait);
        if let Ok(Got::Bytes(count)) = got {
            self.bar.inc(count as u64);
        }
        got
    }
}
