//! Shapes of fields as operators write them: `[28,28]`, `[]`, `[0,3]`.

use pipemill_plugin::Scalar;

use super::types::type_name;

/// Largest number of elements that a shape may have.
const MAX_ELEMENTS: u64 = 1 << 30;

/// Parses the value of an option that is a shape: sizes from 1, separated by commas, as in `28,28`.
///
/// # Errors
/// The error is a message for the operator that names the option.
pub fn parse_sizes(option: &str, text: &str) -> Result<Vec<u32>, String> {
    numbers(text).filter(|sizes| !sizes.contains(&0)).ok_or_else(|| {
        format!("option `{option}` takes sizes from 1 with a comma between them, not {text:?}")
    })
}

/// Parses the text between the brackets of a field spec. One size may be 0, which means any size;
/// an empty text is `[0]`.
///
/// # Errors
/// The error says what was expected.
pub(crate) fn parse_shape(text: &str) -> Result<Vec<u32>, String> {
    if text.trim().is_empty() {
        return Ok(vec![0]);
    }
    let shape = numbers(text)
        .ok_or_else(|| format!("expected numbers between brackets, found [{text}]"))?;
    if shape.iter().filter(|size| **size == 0).count() > 1 {
        return Err(format!("expected at most one size of 0, which is for any, found [{text}]"));
    }
    let count = shape.iter().try_fold(1u64, |all, size| all.checked_mul((*size).max(1).into()));
    match count {
        Some(count) if count <= MAX_ELEMENTS => Ok(shape),
        _ => Err(format!("expected at most {MAX_ELEMENTS} elements, found [{text}]")),
    }
}

fn numbers(text: &str) -> Option<Vec<u32>> {
    text.split(',').map(|word| word.trim().parse().ok()).collect()
}

/// Whether a list of `count` elements can have this shape. The shape may come from the input, so it may
/// have any sizes.
#[inline(always)]
pub fn shape_accepts(shape: &[u32], count: usize) -> bool {
    let count = count as u64;
    let sizes = shape.iter().map(|size| u64::from((*size).max(1)));
    let fixed = sizes.fold(1, u64::saturating_mul);
    if shape.contains(&0) { count.is_multiple_of(fixed) } else { count == fixed }
}

/// A type with its shape, as it is written in a field spec: `float32[2,3]`.
pub fn display_type(scalar: Scalar, shape: &[u32]) -> String {
    display_shaped(type_name(scalar), shape)
}

/// The name of a type with a shape.
pub(super) fn display_shaped(name: &str, shape: &[u32]) -> String {
    match shape {
        [] => name.to_owned(),
        [0] => format!("{name}[]"),
        shape => {
            let sizes: Vec<_> = shape.iter().map(u32::to_string).collect();
            format!("{name}[{}]", sizes.join(","))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_parsed_and_displayed() {
        for (text, sizes) in [("", vec![0]), ("3", vec![3]), (" 28, 28", vec![28, 28])] {
            assert_eq!(parse_shape(text), Ok(sizes));
        }
        assert_eq!(parse_shape("3,0,2"), Ok(vec![3, 0, 2]));
        assert_eq!(parse_shape("1073741824,0"), Ok(vec![1 << 30, 0]));
        for (sizes, text) in [(&[][..], "int64"), (&[0], "int64[]"), (&[0, 3], "int64[0,3]")] {
            assert_eq!(display_type(Scalar::Int64, sizes), text);
        }
        let many = "expected at most 1073741824 elements, found [65536,16385]";
        assert_eq!(parse_shape("65536,16385"), Err(many.to_owned()));
        assert!(parse_shape("4294967295,4294967295,4294967295").is_err());
        let any = "expected at most one size of 0, which is for any, found [0,0]";
        assert_eq!(parse_shape("0,0"), Err(any.to_owned()));
        for text in ["x", "-1", "2,", "2]", "4294967296"] {
            assert_eq!(
                parse_shape(text),
                Err(format!("expected numbers between brackets, found [{text}]"))
            );
        }
    }

    #[test]
    fn sizes_start_at_one() {
        assert_eq!(parse_sizes("shape", "28, 28"), Ok(vec![28, 28]));
        for text in ["", "0", "28,0", "x"] {
            let message = parse_sizes("shape", text).expect_err("not valid sizes");
            assert!(message.starts_with("option `shape` takes sizes from 1"), "{message}");
        }
    }

    #[test]
    fn accepted_counts() {
        for (shape, good, bad) in [
            (&[][..], &[1][..], &[0, 2][..]),
            (&[3], &[3], &[0, 1, 6]),
            (&[2, 3], &[6], &[0, 5, 12]),
            (&[0], &[0, 1, 7], &[]),
            (&[0, 3], &[0, 3, 6], &[1, 4]),
            (&[2, 0, 3], &[0, 6, 12], &[3, 9]),
            (&[1 << 16, 1 << 16], &[], &[0, 1, 1 << 16]),
            (&[1 << 31, 1 << 31, 4], &[], &[0, 1]),
        ] {
            assert!(good.iter().all(|count| shape_accepts(shape, *count)), "{shape:?}");
            assert!(!bad.iter().any(|count| shape_accepts(shape, *count)), "{shape:?}");
        }
    }
}
