//! How many elements a field has, as operators write and read it: `[28,28]`, `[]`, `[0,3]`.

use pipemill_plugin::Scalar;

use super::types::name;

/// Most elements that a shape may have.
const MOST: u64 = 1 << 30;

/// The sizes of an option of its own, with commas between them. None of them can be 0.
///
/// # Errors
/// A text for the operator that names the option.
pub fn dims(option: &str, text: &str) -> Result<Vec<u32>, String> {
    numbers(text).filter(|sizes| !sizes.contains(&0)).ok_or_else(|| {
        format!("option `{option}` takes sizes from 1 with a comma between them, not {text:?}")
    })
}

/// The shape between brackets; one size can be 0, for any. An error says what is expected.
pub(crate) fn shape(text: &str) -> Result<Vec<u32>, String> {
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
        Some(count) if count <= MOST => Ok(shape),
        _ => Err(format!("expected at most {MOST} elements, found [{text}]")),
    }
}

fn numbers(text: &str) -> Option<Vec<u32>> {
    text.split(',').map(|word| word.trim().parse().ok()).collect()
}

/// Whether a list of so many elements has this shape.
#[inline(always)]
pub fn holds(shape: &[u32], count: usize) -> bool {
    let fixed: usize = shape.iter().map(|size| (*size).max(1) as usize).product();
    if shape.contains(&0) { count.is_multiple_of(fixed) } else { count == fixed }
}

/// A type with its shape, as an option has it.
pub fn shown(scalar: Scalar, shape: &[u32]) -> String {
    let name = name(scalar);
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
    fn written_and_read() {
        for (text, sizes) in [("", vec![0]), ("3", vec![3]), (" 28, 28", vec![28, 28])] {
            assert_eq!(shape(text), Ok(sizes));
        }
        assert_eq!(shape("3,0,2"), Ok(vec![3, 0, 2]));
        assert_eq!(shape("1073741824,0"), Ok(vec![1 << 30, 0]));
        for (sizes, text) in [(&[][..], "int64"), (&[0], "int64[]"), (&[0, 3], "int64[0,3]")] {
            assert_eq!(shown(Scalar::Int64, sizes), text);
        }
        let many = "expected at most 1073741824 elements, found [65536,16385]";
        assert_eq!(shape("65536,16385"), Err(many.to_owned()));
        assert!(shape("4294967295,4294967295,4294967295").is_err());
        let any = "expected at most one size of 0, which is for any, found [0,0]";
        assert_eq!(shape("0,0"), Err(any.to_owned()));
        for text in ["x", "-1", "2,", "2]", "4294967296"] {
            assert_eq!(
                shape(text),
                Err(format!("expected numbers between brackets, found [{text}]"))
            );
        }
    }

    #[test]
    fn sizes_from_one() {
        assert_eq!(dims("shape", "28, 28"), Ok(vec![28, 28]));
        for text in ["", "0", "28,0", "x"] {
            let message = dims("shape", text).expect_err("can't be");
            assert!(message.starts_with("option `shape` takes sizes from 1"), "{message}");
        }
    }

    #[test]
    fn counts() {
        for (shape, good, bad) in [
            (&[][..], &[1][..], &[0, 2][..]),
            (&[3], &[3], &[0, 1, 6]),
            (&[2, 3], &[6], &[0, 5, 12]),
            (&[0], &[0, 1, 7], &[]),
            (&[0, 3], &[0, 3, 6], &[1, 4]),
            (&[2, 0, 3], &[0, 6, 12], &[3, 9]),
        ] {
            assert!(good.iter().all(|count| holds(shape, *count)), "{shape:?}");
            assert!(!bad.iter().any(|count| holds(shape, *count)), "{shape:?}");
        }
    }
}
