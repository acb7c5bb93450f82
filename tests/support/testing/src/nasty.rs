//! A name that means harm to a terminal or a log, and what is right output of it.

use crate::process::Ended;

/// What a name may try: clear the screen (by ESC, and by a C1 character), begin a line of its own,
/// overwrite the line, write backwards, be invisible, end a line as only some programs see it.
pub const NASTY: &str = "a\u{1b}[2J\u{9b}31mb\npipemill: forged\rc\u{202e}d\u{2066}e\u{200b}f\u{feff}g\u{7f}h\u{2028}i\u{e0041}\tend";
/// The same, as people see it.
pub const SHOWN: &str = "a\\u{1b}[2J\\u{9b}31mb\\npipemill: forged\\rc\\u{202e}d\\u{2066}e\\u{200b}f\
                     \\u{feff}g\\u{7f}h\\u{2028}i\\u{e0041}\\tend";

/// Checks that nothing in this output is hidden, and that no line is forged or endless.
///
/// # Panics
/// If something is.
#[track_caller]
pub fn assert_clean(output: &[u8]) {
    let text = str::from_utf8(output).expect("the output is UTF-8");
    let hidden = |c: &char| {
        c.is_control() && !['\n', '\t'].contains(c)
            || ('\u{200b}'..='\u{200f}').contains(c)
            || ('\u{2028}'..='\u{202e}').contains(c)
            || ('\u{e0000}'..='\u{e0fff}').contains(c)
            || ('\u{2060}'..='\u{206f}').contains(c)
            || *c == '\u{feff}'
    };
    assert_eq!(text.chars().find(hidden), None, "{text:?}");
    for line in text.lines() {
        assert!(!line.starts_with("pipemill: forged"), "{text:?}");
        // JSON is for programs, and whole.
        assert!(line.len() < 100_000 || line.starts_with('{'), "a line of {} bytes", line.len());
    }
}

/// The same, if all that it wrote [is clean](assert_clean).
///
/// # Panics
/// If it is not.
#[track_caller]
pub fn clean(ended: Ended) -> Ended {
    assert_clean(&ended.stdout);
    assert_clean(ended.stderr.as_bytes());
    ended
}
