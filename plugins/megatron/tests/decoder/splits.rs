//! Every split gives the same records and errors, of whole datasets and of damaged ones.

use pipemill_megatron::Megatron;
use pipemill_plugin::testing::{Outcome, Setup, assert_any_split, parts_with};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::write::{Documents, dataset};

fn documents() -> impl Strategy<Value = Documents> {
    vec(vec(vec(any::<u16>(), 0..6), 0..4), 0..8)
}

/// Decodes a dataset in pieces of these sizes. All splits give the same.
fn decode(setup: &Setup, bin: &[u8], index: &[u8], pieces: &[usize]) -> Outcome {
    let parts = parts_with::<Megatron>(setup, bin, &[index]).expect("it is not refused");
    let bytes = parts.expect("it has a plan").concat();
    assert_any_split::<Megatron>(&setup.clone().planned(), &bytes, pieces)
}

fn tokens(tokens: &[u16]) -> Option<Vec<u8>> {
    Some(tokens.iter().flat_map(|token| token.to_le_bytes()).collect())
}

fn numbers(numbers: &[u64]) -> Option<Vec<u8>> {
    Some(numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
}

proptest! {
    #[test]
    fn records_are_sequences_documents_or_windows(
        documents in documents(),
        length in 1_usize..9,
        pieces in vec(1_usize..60, 0..30),
    ) {
        let (bin, index) = dataset(&documents);
        let numbered = || (0_u64..).zip(&documents);
        let of_sequences: Vec<_> = numbered()
            .flat_map(|(number, document)| document.iter().map(move |one| (number, one)))
            .map(|(number, sequence)| vec![tokens(sequence), numbers(&[number])])
            .collect();
        let found = decode(&Setup::new(&[]), &bin, &index, &pieces);
        prop_assert_eq!(found.records, of_sequences);
        let of_documents: Vec<_> = numbered()
            .map(|(number, document)| vec![tokens(&document.concat()), numbers(&[number])])
            .collect();
        let setup = Setup::new(&[("records", "document")]);
        // Without a sequence there are no parts of the .bin, but there may be documents.
        let found = decode(&setup, &bin, &index, &pieces);
        prop_assert_eq!(found.records, of_documents);
        let all: Vec<_> = numbered()
            .flat_map(|(number, document)| document.concat().into_iter().map(move |it| (it, number)))
            .collect();
        let windows: Vec<_> = all
            .chunks_exact(length)
            .map(|window| {
                let (of_tokens, of_documents): (Vec<_>, Vec<_>) = window.iter().copied().unzip();
                vec![tokens(&of_tokens), numbers(&of_documents)]
            })
            .collect();
        let length = length.to_string();
        let setup = Setup::new(&[("length", length.as_str()), ("tail", "drop")]);
        let found = decode(&setup, &bin, &index, &pieces);
        prop_assert_eq!(found.records, windows);
    }

    /// Bytes of the index are changed, and the files are cut: no damage leads to another failure
    /// than an error, which is the same at any split.
    #[test]
    fn damaged_datasets(
        documents in documents(),
        flips in vec((any::<Index>(), 1_u8..), 0..4),
        cut in prop::option::of(any::<Index>()),
        cut_bin in prop::option::of(any::<Index>()),
        how in 0..3_usize,
        skip: bool,
        pieces in vec(1_usize..60, 0..30),
    ) {
        let (mut bin, mut index) = dataset(&documents);
        for (at, flip) in flips {
            let at = at.index(index.len());
            index[at] ^= flip;
        }
        if let Some(cut) = cut {
            index.truncate(cut.index(index.len()));
        }
        if let Some(cut) = cut_bin {
            bin.truncate(cut.index(bin.len() + 1));
        }
        let options = [&[][..], &[("records", "document")], &[("length", "3")]][how];
        let setup = Setup { skip, ..Setup::new(options) };
        let parts = parts_with::<Megatron>(&setup, &bin, &[&index]);
        if let Ok(Some(parts)) = parts {
            assert_any_split::<Megatron>(&setup.clone().planned(), &parts.concat(), &pieces);
        }
    }
}
