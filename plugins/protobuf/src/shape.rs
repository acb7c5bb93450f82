//! Type and shape of a field as operators write and read them: `float32[28,28]`, `int64[]`, `bytes`.

use pipemill_plugin::Scalar;

const NAMES: [(Scalar, &str); 6] = [
    (Scalar::Bytes, "bytes"),
    (Scalar::Utf8, "utf8"),
    (Scalar::Int32, "int32"),
    (Scalar::Int64, "int64"),
    (Scalar::Float32, "float32"),
    (Scalar::Float64, "float64"),
];

/// Most elements that a shape may have.
const MOST: u64 = 1 << 30;

/// What a type is called.
pub fn scalar_name(scalar: Scalar) -> &'static str {
    NAMES.iter().find(|(other, _)| *other == scalar).map_or("boolean", |(_, name)| name)
}

/// The type of this name.
pub(crate) fn scalar(name: &str) -> Option<Scalar> {
    NAMES.iter().find(|(_, other)| *other == name).map(|(scalar, _)| *scalar)
}

/// A type with its shape. Without brackets: one element; with empty ones: any number.
pub fn shown(scalar: Scalar, shape: &[u32]) -> String {
    let name = scalar_name(scalar);
    match shape {
        [] => name.to_owned(),
        [0] => format!("{name}[]"),
        shape => {
            let dimensions: Vec<_> = shape.iter().map(u32::to_string).collect();
            format!("{name}[{}]", dimensions.join(","))
        }
    }
}

/// The shape between brackets.
pub(crate) fn shape(text: &str) -> Result<Vec<u32>, String> {
    if text.trim().is_empty() {
        return Ok(vec![0]);
    }
    let dimension = |text: &str| text.trim().parse::<u32>();
    let shape: Result<Vec<_>, _> = text.split(',').map(dimension).collect();
    let shape = shape.map_err(|_| format!("takes numbers between brackets, not [{text}]"))?;
    if shape.iter().filter(|size| **size == 0).count() > 1 {
        return Err(format!("takes one dimension of any size, not several as in [{text}]"));
    }
    let size = shape.iter().try_fold(1u64, |all, size| all.checked_mul((*size).max(1).into()));
    match size {
        Some(size) if size <= MOST => Ok(shape),
        _ => Err(format!("takes at most {MOST} elements, not [{text}]")),
    }
}

/// Whether a list of so many elements has this shape.
#[inline(always)]
pub fn holds(shape: &[u32], count: usize) -> bool {
    let fixed: usize = shape.iter().map(|size| (*size).max(1) as usize).product();
    if shape.contains(&0) { count.is_multiple_of(fixed) } else { count == fixed }
}
