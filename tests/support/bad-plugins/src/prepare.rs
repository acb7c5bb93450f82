//! Misdeeds in `prepare`, and a decoder that tells what it finds in its memory.

use std::cell::{Cell, RefCell};

use pipemill_plugin::bindings::exports::pipemill::decoder0_1_0::decoder::Progress;
use pipemill_plugin::bindings::pipemill::decoder0_1_0::host;
use pipemill_plugin::bindings::pipemill::decoder0_1_0::types::Level;

use crate::plugin::{emit, field, progress, span};

thread_local! {
    /// Calls of `prepare` in this memory.
    static PREPARED: Cell<u32> = const { Cell::new(0) };
    /// Calls of `decode` in this memory.
    static DECODED: Cell<u32> = const { Cell::new(0) };
    /// The option and the content of the file.
    static FILE: RefCell<String> = const { RefCell::new(String::new()) };
    /// Memory that `prepare` has taken.
    static TAKEN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Bit of a span that says: in the payload.
const IN_PAYLOAD: u64 = 1 << 63;

/// Bytes that `prepare-large` takes.
const LARGE: usize = 40 << 20;

pub fn prepare(misdeed: &str, option: &str, files: Vec<(String, Vec<u8>)>) -> Result<(), String> {
    PREPARED.set(PREPARED.get() + 1);
    if knows(misdeed) {
        host::log(Level::Warn, "I prepare");
    }
    match misdeed {
        "prepare-panic" => panic!("I am not prepared"),
        "prepare-spin" => loop {
            std::hint::black_box(());
        },
        "prepare-refuse" => return Err("not\x1b[31m with these options".to_owned()),
        "prepare-schema" => host::set_schema(&[field("byte")]),
        "prepare-metadata" => host::set_metadata("format", "old"),
        "prepare-emit" => emit(&[span(0, 1)], &[], &[0]),
        "prepare-alloc" => loop {
            TAKEN.with_borrow_mut(|taken| taken.resize(taken.len() * 2 + 1, 1));
        },
        // Some pages have bytes, and most have none.
        "prepare-large" => TAKEN.with_borrow_mut(|taken| {
            taken.resize(LARGE, 0);
            taken.iter_mut().step_by(1 << 20).for_each(|byte| *byte = 7);
        }),
        _ => {}
    }
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let content: Vec<_> =
        files.into_iter().map(|(name, bytes)| name + "=" + &text(bytes)).collect();
    FILE.set(format!("{option} {}", content.join(" ")));
    Ok(())
}

/// Whether the misdeed is none, but to tell.
pub fn knows(misdeed: &str) -> bool {
    matches!(misdeed, "prepare-tells" | "prepare-large")
}

/// Emits what is in memory, for each chunk.
pub fn tell(chunk: &[u8]) -> Progress {
    DECODED.set(DECODED.get() + 1);
    let sevens = TAKEN.with_borrow_mut(|taken| {
        let sevens = taken.iter().filter(|byte| **byte == 7).count();
        // Other instances must not see it.
        taken.fill(0);
        sevens
    });
    let (prepared, decoded, file) = (PREPARED.get(), DECODED.get(), FILE.with_borrow(Clone::clone));
    let line = format!("prepared {prepared}, decoded {decoded}, {sevens} sevens, file {file}\n");
    emit(&[span(0, line.len() as u32) | IN_PAYLOAD], line.as_bytes(), &[0]);
    progress(chunk.len() as u32, 1)
}
