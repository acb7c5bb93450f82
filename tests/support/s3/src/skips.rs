//! Tests that are left out, because something that they need is not here.

/// Those that may be left out under CI.
const LIST: &str = include_str!("../../../skips.txt");

/// Says that a test is left out, and what it needs.
///
/// # Panics
/// Under CI (the variable `CI` is set), unless `tests/skips.txt` has the test with its reason.
#[track_caller]
pub fn skip_test(test: &str, needs: &str) {
    println!("left out: {test} needs {needs}");
    let is_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    assert!(
        !is_ci || is_listed(LIST, test),
        "{test} is left out under CI, because it needs {needs}; tests/skips.txt does not have it"
    );
}

fn is_listed(list: &str, test: &str) -> bool {
    let lines = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut names = lines.filter_map(|line| line.split_once(": ")).map(|(name, _)| name);
    names.any(|name| match name.strip_suffix('*') {
        Some(beginning) => test.starts_with(beginning),
        None => test == name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_listed_by_its_name_or_its_beginning() {
        let list = "# one: no\n\none: because\ntwo_*: because\n";
        for (test, listed) in [
            ("one", true),
            ("two_", true),
            ("two_three", true),
            ("one_more", false),
            ("# one", false),
        ] {
            assert_eq!(is_listed(list, test), listed, "{test}");
        }
    }

    #[test]
    fn each_line_has_a_reason() {
        for line in LIST.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            assert!(line.split_once(": ").is_some_and(|(_, why)| why.len() > 10), "{line}");
        }
    }
}
