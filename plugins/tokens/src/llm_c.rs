//! The header of llm.c's token files: 256 int32, little-endian. The first is the magic, the second
//! the version, the third the number of tokens; the others are 0 and not checked. The magic
//! determines the type of the tokens.
//!
//! The source is `write_datafile` in `dev/data/data_common.py` of <https://github.com/karpathy/llm.c>.

use pipemill_parsing::field_spec::type_name;
use pipemill_plugin::{DecodeError, Scalar};

use crate::errors;
use crate::rules::Rules;

/// Size of the header in bytes.
pub(crate) const HEADER_BYTES: usize = 1024;

/// Magic, version, type of the tokens, and their tokenizer.
const FORMATS: [(i32, i32, Scalar, &str); 2] =
    [(20_240_520, 1, Scalar::Uint16, "GPT-2"), (20_240_801, 7, Scalar::Uint32, "Llama 3")];

/// The number of tokens after the header at the start of `chunk`. `None` if more bytes must come,
/// or if the object is empty. `is_alone` says that the header is passed without the bytes after it,
/// which come later.
///
/// # Errors
/// It is not such a header, it does not fit the options, or the input ends inside it.
pub(crate) fn token_count(
    rules: &Rules,
    chunk: &[u8],
    end: bool,
    is_alone: bool,
) -> Result<Option<u64>, DecodeError> {
    let needed = if is_alone { HEADER_BYTES } else { HEADER_BYTES + 1 };
    if chunk.len() < needed && !end || chunk.is_empty() {
        return Ok(None);
    }
    let Some(header) = chunk.get(..HEADER_BYTES) else {
        return Err(errors::cut_header(HEADER_BYTES, chunk.len()));
    };
    let (numbers, _) = header.as_chunks::<4>();
    let [magic, version, count] = [0, 1, 2].map(|at| i32::from_le_bytes(numbers[at]));
    let known = FORMATS.iter().find(|(known, ..)| *known == magic);
    let Some((_, known, scalar, tokenizer)) = known else {
        let magics = FORMATS.map(|(magic, ..)| magic);
        return Err(DecodeError::refused(
            0,
            format!(
                "expected llm.c's magic, {} or {}, found {magic}; the object has no header of llm.c, \
                 so set format = \"raw\"",
                magics[0], magics[1]
            ),
        ));
    };
    if version != *known {
        return Err(DecodeError::refused(
            0,
            format!("expected version {known} of llm.c's {tokenizer} tokens, found {version}"),
        ));
    }
    if *scalar != rules.scalar {
        let [found, wanted] = [*scalar, rules.scalar].map(type_name);
        return Err(DecodeError::refused(
            0,
            format!(
                "expected {wanted} tokens (option `type`), found llm.c's {tokenizer} tokens, which \
                 are {found}; set type = \"{found}\""
            ),
        ));
    }
    let count = u64::try_from(count).map_err(|_| errors::negative_count(count))?;
    if count > 0 && chunk.len() == HEADER_BYTES && end {
        return Err(errors::cut_short(count, 0));
    }
    Ok(Some(count))
}
