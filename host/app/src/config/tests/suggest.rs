//! The names that are suggested for wrong ones.

use super::super::keys::TABLES;
use pipemill_types::nearest;

/// All that one slip of the finger can make of a name.
fn slips(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut slips = Vec::new();
    let mut slip = |change: &dyn Fn(&mut Vec<char>)| {
        let mut wrong = letters.clone();
        change(&mut wrong);
        slips.push(wrong.into_iter().collect());
    };
    for at in 0..letters.len() {
        slip(&|wrong| {
            wrong.remove(at);
        });
        if at > 0 {
            slip(&|wrong| wrong.swap(at - 1, at));
        }
        for letter in ('a'..='z').chain(['_', 'Z', 'ß']) {
            slip(&|wrong| wrong.insert(at, letter));
            slip(&|wrong| wrong[at] = letter);
        }
    }
    slips
}

#[test]
fn every_single_slip_is_seen_through() {
    for known in TABLES.map(|table| table.names()) {
        for (right, wrong) in
            known.iter().flat_map(|name| slips(name).into_iter().map(move |slip| (name, slip)))
        {
            let found = nearest(&wrong, &known).unwrap_or_default();
            // Another key may be as near; then that one is as good an answer.
            let distance = strsim::damerau_levenshtein(&wrong.to_lowercase(), found);
            assert!(distance <= 1, "{found:?} for {wrong:?}, a slip in {right:?}");
        }
    }
}

#[test]
fn words_and_likeness_count_and_strangers_do_not() {
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
