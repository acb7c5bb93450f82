//! SageMaker's files: any three texts make variables and a configuration, or are refused.

use pipemill_app::parsers;

/// Stands between the texts.
const SEPARATOR: u8 = 0xff;

pub(crate) fn sagemaker(bytes: &[u8]) {
    let mut texts = bytes.splitn(3, |byte| *byte == SEPARATOR).map(String::from_utf8_lossy);
    let texts = [0; 3].map(|_| texts.next().unwrap_or_default());
    let platform = match parsers::sagemaker([&texts[0], &texts[1], &texts[2]]) {
        Ok(platform) => platform,
        Err(why) => return assert!(!why.is_empty(), "refused without a reason"),
    };
    for (name, value) in platform.variables {
        assert!(!name.contains(['=', '\0']) && !value.contains('\0'), "{name}={value:?}");
    }
    match platform.config {
        // A file must have a channel; a platform may have none.
        Ok(shown) if !shown.contains("[[channel]]") => {}
        Ok(shown) => assert_eq!(parsers::config(&shown).as_ref(), Ok(&shown), "shown, then read"),
        Err(faults) => assert!(!faults.is_empty(), "refused without a fault"),
    }
}
