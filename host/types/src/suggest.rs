//! Finds the known name that is most similar to an unknown one, for "did you mean" messages.

/// The name in `known` that is most similar to `unknown`; `None` if none is similar enough.
///
/// A name at a distance of one typing error (a letter added, missing or replaced, or two neighbours
/// swapped) is preferred. Next comes a name that is a whole word of the unknown one: `batch` for
/// `batch_records`. Last comes the name with the highest Jaro-Winkler similarity.
pub fn nearest<'a>(unknown: &str, known: &[&'a str]) -> Option<&'a str> {
    let unknown = unknown.to_lowercase();
    let score = |name: &&'a str| {
        let score = match strsim::damerau_levenshtein(&unknown, name) {
            0 => 3.0,
            1 => 2.0,
            _ if unknown.split(['_', '-', '.']).any(|word| word == *name) => 1.0,
            _ => strsim::jaro_winkler(&unknown, name),
        };
        (*name, score)
    };
    let best = known.iter().map(score).max_by(|a, b| a.1.total_cmp(&b.1));
    best.filter(|(_, score)| *score >= 0.8).map(|(name, _)| name)
}
