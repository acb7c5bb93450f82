//! The names that are suggested for a wrong name.

use pipemill_types::nearest;

use super::super::keys::TABLES;

/// All names that one typing error can make of a name.
fn typing_errors(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut errors = Vec::new();
    let mut add = |change: &dyn Fn(&mut Vec<char>)| {
        let mut wrong = letters.clone();
        change(&mut wrong);
        errors.push(wrong.into_iter().collect());
    };
    for at in 0..letters.len() {
        add(&|wrong| {
            wrong.remove(at);
        });
        if at > 0 {
            add(&|wrong| wrong.swap(at - 1, at));
        }
        for letter in ('a'..='z').chain(['_', 'Z', 'ß']) {
            add(&|wrong| wrong.insert(at, letter));
            add(&|wrong| wrong[at] = letter);
        }
    }
    errors
}

#[test]
fn the_suggestion_for_one_typing_error_is_one_edit_away() {
    for known in TABLES.map(|table| table.names()) {
        for (right, wrong) in known
            .iter()
            .flat_map(|name| typing_errors(name).into_iter().map(move |wrong| (name, wrong)))
        {
            let found = nearest(&wrong, &known).unwrap_or_default();
            // Another key at the same distance is as good a suggestion.
            let distance = strsim::damerau_levenshtein(&wrong.to_lowercase(), found);
            assert!(distance <= 1, "{found:?} for {wrong:?}, a typing error in {right:?}");
        }
    }
}

#[test]
fn common_words_and_similar_names_are_suggested_and_others_are_not() {
    let known = ["slots", "slot", "credits", "linger"];
    for (wrong, right) in [
        ("slot_size", Some("slot")),
        ("size-of-slot", Some("slot")),
        ("slot_s", Some("slots")),
        ("Credits", Some("credits")),
        ("creditlimit", Some("credits")),
        ("lingering", Some("linger")),
        ("capacity", None),
        ("", None),
    ] {
        assert_eq!(nearest(wrong, &known), right, "for {wrong:?}");
    }
    assert_eq!(nearest("anything", &[]), None);
}
