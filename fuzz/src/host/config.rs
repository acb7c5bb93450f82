//! The configuration: any text is a configuration, which can be shown and read back, or has faults
//! that say where they are.

use pipemill_app::parsers;

pub(crate) fn config(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match parsers::config(&text) {
        Ok(shown) => assert_eq!(parsers::config(&shown).as_ref(), Ok(&shown), "shown, then read"),
        Err(faults) => {
            assert!(!faults.is_empty(), "refused without a fault");
            for fault in faults {
                let place =
                    fault.strip_prefix("pipemill.toml:").and_then(|rest| rest.split_once(':'));
                let line = place.and_then(|(line, _)| line.parse::<usize>().ok());
                let lines = text.lines().count().max(1) + 1;
                assert!(line.is_some_and(|line| line <= lines), "{fault:?} in {lines} lines");
            }
        }
    }
}
