//! A writer as a process, to be killed: `writer FIFO` makes the FIFO, and writes lines that start with their
//! number, eight digits. Each line is one write that a pipe takes whole or not at all. Says `opened` when the host
//! reads, and `wrote N` after each line: N lines by now. Ends when its standard input does, or when nobody reads.

use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

fn main() {
    let fifo = PathBuf::from(std::env::args_os().nth(1).expect("FIFO"));
    let told_to_end = Arc::new(AtomicBool::new(false));
    std::thread::spawn({
        let told_to_end = told_to_end.clone();
        move || {
            // Nothing is ever said here; an error is an end as well.
            let _ = std::io::stdin().read(&mut [0]);
            told_to_end.store(true, Ordering::Release);
        }
    });
    mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR).expect("a FIFO can be made");
    let mut pipe = File::options().write(true).open(&fifo).expect("a FIFO");
    say("opened");
    for number in 0u64.. {
        // From some bytes to nearly all that a pipe takes whole.
        let line = format!("{number:08}{}\n", "x".repeat(number as usize % 7 * 600));
        if told_to_end.load(Ordering::Acquire) || pipe.write_all(line.as_bytes()).is_err() {
            return;
        }
        say(&format!("wrote {}", number + 1));
    }
}

/// In one piece, at once: whoever kills this process wants to know how far it came.
fn say(line: &str) {
    // Nobody listens any more: then there is nobody to tell.
    let _ = std::io::stdout().write_all(format!("{line}\n").as_bytes());
}
