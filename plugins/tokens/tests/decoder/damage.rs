//! After damage, every split gives the same records and errors.

use pipemill_plugin::testing::{Setup, assert_any_split};
use pipemill_tokens::Tokens;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::write::gpt2;

proptest! {
    /// Bytes of the header or of tokens are changed, and the file is cut or has more bytes.
    #[test]
    fn damaged_files_of_llm_c(
        count in 0usize..40,
        flips in prop::collection::vec((prop_oneof![2 => 0usize..14, 1 => 0usize..1100], 1u8..), 0..3),
        cut in prop::option::of(any::<Index>()),
        more in prop_oneof![3 => Just(0usize), 1 => 0usize..20],
        drop: bool,
        skip: bool,
        pieces in prop::collection::vec(prop_oneof![1usize..20, 1usize..1030], 0..40),
    ) {
        let mut file = gpt2(count);
        for (at, flip) in flips {
            if let Some(byte) = file.get_mut(at) {
                *byte ^= flip;
            }
        }
        if let Some(cut) = cut {
            file.truncate(cut.index(file.len()));
        }
        file.resize(file.len() + more, 7);
        let tail = if drop { "drop" } else { "error" };
        let options = [("length", "4"), ("format", "llm.c"), ("tail", tail)];
        let outcome = assert_any_split::<Tokens>(&Setup { skip, ..Setup::new(&options) }, &file, &pieces);
        let tokens = &file.get(1024..).unwrap_or_default();
        for (record, bytes) in outcome.records.iter().zip(tokens.chunks(8)) {
            prop_assert_eq!(record, &[Some(bytes.to_vec())]);
        }
    }
}
