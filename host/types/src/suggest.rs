//! The nearest known name to a wrong one, for "did you mean".

/// The known name that `wrong` was most likely meant to be; `None` if none is near.
///
/// One slip of the finger (a letter more, less, other, or two neighbours swapped) wins; then a
/// known name that is a whole word of the wrong one (`slot_size` means `slot`, though it looks more
/// like `slots`); then what looks most alike.
pub fn nearest<'a>(wrong: &str, known: &[&'a str]) -> Option<&'a str> {
    let wrong = wrong.to_lowercase();
    let score = |name: &&'a str| {
        let score = match strsim::damerau_levenshtein(&wrong, name) {
            0 => 3.0,
            1 => 2.0,
            _ if wrong.split(['_', '-', '.']).any(|word| word == *name) => 1.0,
            _ => strsim::jaro_winkler(&wrong, name),
        };
        (*name, score)
    };
    let best = known.iter().map(score).max_by(|a, b| a.1.total_cmp(&b.1));
    best.filter(|(_, score)| *score >= 0.8).map(|(name, _)| name)
}
