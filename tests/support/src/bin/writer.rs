//! The writer of a FIFO as a process, to be killed. Says how far it came.
//!
//! `writer FIFO [COUNT]`: writes COUNT lines, or lines without an end. Each starts with its number, eight digits. Says
//! `opened` when the FIFO has a reader, `wrote N` after each 32 lines, and `written N` after the last one (exit code 0)
//! or `failed WHY` (3). One line is one write of at most PIPE_BUF bytes, so that a kill never cuts a line.

use std::fs::File;
use std::io::Write;
use std::process::ExitCode;

/// Lines between two words about them.
const REPORT_INTERVAL: u64 = 32;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let fifo = args.next().expect("FIFO");
    let count = args.next().map_or(u64::MAX, |count| {
        count.to_str().and_then(|count| count.parse().ok()).expect("COUNT is a number")
    });
    match write(fifo.as_ref(), count) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("failed {error}"));
            3.into()
        }
    }
}

fn write(fifo: &std::path::Path, count: u64) -> std::io::Result<()> {
    let mut fifo = File::options().write(true).open(fifo)?;
    say("opened");
    for number in 0..count {
        let line = format!("{number:08}{}\n", "x".repeat(number as usize % 7 * 600));
        fifo.write_all(line.as_bytes())?;
        if (number + 1) % REPORT_INTERVAL == 0 {
            say(&format!("wrote {}", number + 1));
        }
    }
    drop(fifo);
    say(&format!("written {count}"));
    Ok(())
}

/// In one piece, at once: whoever kills this process wants to know how far it came.
fn say(line: &str) {
    // An error means that nobody listens any more: then there is nobody to tell.
    let _ = std::io::stdout().write_all(format!("{line}\n").as_bytes());
}
