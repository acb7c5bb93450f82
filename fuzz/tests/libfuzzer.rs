//! The program that libFuzzer drives; `build` builds it. The variable `PIPEMILL_FUZZ` names the target; without it, or
//! with a wrong name, the program lists the targets.

#![no_main]

use std::sync::OnceLock;

use pipemill_fuzz::{TARGETS, Target, target};

static TARGET: OnceLock<&Target> = OnceLock::new();

fn chosen() -> &'static Target {
    let name = std::env::var("PIPEMILL_FUZZ").unwrap_or_default();
    target(&name).unwrap_or_else(|| {
        TARGETS.iter().for_each(|target| println!("{}", target.name));
        std::process::exit(2)
    })
}

libfuzzer_sys::fuzz_target!(
    init: {
        TARGET.get_or_init(chosen);
    },
    |bytes: &[u8]| {
        (TARGET.get_or_init(chosen).run)(bytes);
    }
);
