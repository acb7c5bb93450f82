//! The configuration: any text is a configuration, which can be shown and read back, or has faults
//! that say where they are.

use pipemill_config::{parse, show};

pub(crate) fn config(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match shown(&text) {
        Ok(config) => assert_eq!(shown(&config).as_ref(), Ok(&config), "shown, then read"),
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

/// The configuration with all defaults, or its faults. The variable `V` is `v`; no other is set.
pub(super) fn shown(text: &str) -> Result<String, Vec<String>> {
    let env = |name: &str| (name == "V").then(|| "v".to_owned());
    let parsed = parse(text, "pipemill.toml", &env);
    parsed
        .map(|config| show(&config))
        .map_err(|faults| faults.iter().map(ToString::to_string).collect())
}
