//! SageMaker's files: any three texts make variables and a configuration, or are refused.

use pipemill_config::sagemaker::{Platform, environment, presets};
use pipemill_config::{parse_over, show};

use super::config::shown;

/// Separates the texts.
const SEPARATOR: u8 = 0xff;

pub(crate) fn sagemaker(bytes: &[u8]) {
    let mut texts = bytes.splitn(3, |byte| *byte == SEPARATOR).map(String::from_utf8_lossy);
    let texts = [0; 3].map(|_| texts.next().unwrap_or_default());
    let platform = match Platform::of_texts("/opt/ml".into(), [&texts[0], &texts[1], &texts[2]]) {
        Ok(platform) => platform,
        Err(why) => return assert!(!why.is_empty(), "refused without a reason"),
    };
    for (name, value) in environment(&platform) {
        assert!(!name.contains(['=', '\0']) && !value.contains('\0'), "{name}={value:?}");
    }
    match parse_over(&presets(&platform), "", "pipemill.toml", &|_| None)
        .map(|config| show(&config))
    {
        // A file must have a channel; a platform may have none.
        Ok(config) if !config.contains("[[channel]]") => {}
        Ok(config) => assert_eq!(shown(&config).as_ref(), Ok(&config), "shown, then read"),
        Err(faults) => assert!(!faults.is_empty(), "refused without a fault"),
    }
}
