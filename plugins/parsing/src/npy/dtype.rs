//! The type of an array's elements, from the value of `descr` in a header.

use pipemill_plugin::Scalar;

use super::literal::{Literal, Value};

/// The type of an element.
#[derive(Debug, Clone, PartialEq)]
pub enum Dtype {
    /// A number, or bytes.
    Plain(ElementType),
    /// A structured type: a sequence of members.
    Structured {
        /// The members, without those that are only padding.
        members: Vec<Member>,
        /// Size of an element in bytes, including padding; `None` if it has Python objects.
        size: Option<u64>,
    },
}

/// A member of a structured type.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Type of one of its elements. `None` if it is structured itself.
    pub element: Option<ElementType>,
    /// Its own dimensions; empty for one element.
    pub shape: Vec<u64>,
    /// Its offset in the element.
    pub offset: u64,
}

/// A type that has no members.
#[derive(Debug, Clone, PartialEq)]
pub struct ElementType {
    /// The type as NumPy writes it: `<f4`.
    pub text: String,
    /// Size of an element in bytes; `None` for Python objects, which have no fixed size.
    pub size: Option<u64>,
    /// Its type for consumers, or the reason why it can't be a field.
    pub kind: Result<ElementKind, String>,
}

/// The type of an element for consumers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElementKind {
    /// The type of a field's element.
    pub scalar: Scalar,
    /// The meaning of the values; empty if nothing is said.
    pub logical: &'static str,
}

/// The error of an invalid `descr`: its position in the header, and what was expected there.
pub(super) type DescrError = (usize, &'static str);

const TYPE: &str = "a type, as in '<f4'";
const MEMBERS: &str = "members, as in [('x', '<f4'), ('y', '<i8', (3,))]";
const TOO_LARGE: &str = "fewer than 2^63 bytes";

impl Dtype {
    /// Reads the value of `descr`.
    pub(super) fn read(descr: &Literal) -> Result<Self, DescrError> {
        match &descr.value {
            Value::Text(text) => Ok(Self::Plain(ElementType::read(text).ok_or((descr.at, TYPE))?)),
            Value::List(members) => Self::structured(descr.at, members),
            _ => Err((descr.at, TYPE)),
        }
    }

    fn structured(at: usize, list: &[Literal]) -> Result<Self, DescrError> {
        let (mut members, mut end) = (Vec::new(), Some(0u64));
        for member in list {
            let Value::Tuple(parts) = &member.value else { return Err((member.at, MEMBERS)) };
            let [name, descr, shape @ ..] = &parts[..] else { return Err((member.at, MEMBERS)) };
            let name = match &name.value {
                Value::Text(name) => name,
                // A title and a name.
                Value::Tuple(both) => match &both[..] {
                    [_, Literal { value: Value::Text(name), .. }] => name,
                    _ => return Err((name.at, MEMBERS)),
                },
                _ => return Err((name.at, MEMBERS)),
            };
            let shape = match shape {
                [] => Vec::new(),
                [shape] => dimensions(shape)?,
                [_, more, ..] => return Err((more.at, MEMBERS)),
            };
            let dtype = Self::read(descr)?;
            let offset = end.unwrap_or(0);
            let own = dtype.size().map(|size| multiply(size, &shape).ok_or((member.at, TOO_LARGE)));
            end = match (end, own.transpose()?) {
                (Some(end), Some(own)) => Some(end.checked_add(own).ok_or((member.at, TOO_LARGE))?),
                _ => None,
            };
            let element = match dtype {
                Self::Plain(element) if name.is_empty() && element.is_void() => continue,
                Self::Plain(element) => Some(element),
                Self::Structured { .. } => None,
            };
            if name.is_empty() {
                return Err((member.at, "a name for the member"));
            }
            if members.iter().any(|other: &Member| other.name == *name) {
                return Err((member.at, "a name that no other member has"));
            }
            members.push(Member { name: name.clone(), element, shape, offset });
        }
        if members.is_empty() {
            return Err((at, MEMBERS));
        }
        Ok(Self::Structured { members, size: end })
    }

    /// Size of an element in bytes; `None` if it has Python objects.
    pub fn size(&self) -> Option<u64> {
        match self {
            Self::Plain(element) => element.size,
            Self::Structured { size, .. } => *size,
        }
    }
}

/// The product of a size and dimensions; `None` if it is 2^63 or more.
pub(super) fn multiply(size: u64, shape: &[u64]) -> Option<u64> {
    let product = shape.iter().try_fold(size, |all, size| all.checked_mul(*size));
    product.filter(|product| *product < 1 << 63)
}

/// Reads a tuple of dimensions.
pub(super) fn dimensions(literal: &Literal) -> Result<Vec<u64>, DescrError> {
    const SHAPE: &str = "a shape, as in (2, 3)";
    let Value::Tuple(sizes) = &literal.value else { return Err((literal.at, SHAPE)) };
    let size = |one: &Literal| match one.value {
        Value::Int(size) => Ok(size),
        _ => Err((one.at, SHAPE)),
    };
    sizes.iter().map(size).collect()
}

impl ElementType {
    /// Reads a type, as `<f4`. `None` if it does not have the form of a type.
    fn read(text: &str) -> Option<Self> {
        let (order, rest) = text.split_at_checked(1)?;
        let (letter, rest) = rest.split_at_checked(1)?;
        let (digits, unit) = match rest.split_once('[') {
            Some((digits, unit)) => (digits, Some(unit.strip_suffix(']')?)),
            None => (rest, None),
        };
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        let count: u64 = match digits {
            "" => 0,
            digits if is_number => digits.parse().ok()?,
            _ => return None,
        };
        if !matches!(order, "<" | ">" | "|") || !letter.chars().all(|l| l.is_ascii_alphabetic()) {
            return None;
        }
        let size = match letter {
            "O" => None,
            "U" => Some(count.checked_mul(4)?),
            _ => Some(count),
        };
        let kind = kind(text, letter, count, unit).and_then(|kind| {
            if order == ">" && count > 1 && kind.scalar != Scalar::Bytes {
                return Err(format!(
                    "big-endian numbers (`{text}`); save the array as x.astype(x.dtype.newbyteorder('<'))"
                ));
            }
            Ok(kind)
        });
        Some(Self { text: text.to_owned(), size, kind })
    }

    /// Whether it is bytes without a type, as padding is.
    fn is_void(&self) -> bool {
        self.text.starts_with("|V")
    }
}

/// The type for consumers, or the reason why it can't be a field.
fn kind(text: &str, letter: &str, size: u64, unit: Option<&str>) -> Result<ElementKind, String> {
    let plain = |scalar| Ok(ElementKind { scalar, logical: "" });
    let timestamp = |logical| Ok(ElementKind { scalar: Scalar::Int64, logical });
    match (letter, size, unit) {
        ("b", 1, None) => plain(Scalar::Boolean),
        ("i", 1, None) => plain(Scalar::Int8),
        ("i", 2, None) => plain(Scalar::Int16),
        ("i", 4, None) => plain(Scalar::Int32),
        ("i", 8, None) => plain(Scalar::Int64),
        ("u", 1, None) => plain(Scalar::Uint8),
        ("u", 2, None) => plain(Scalar::Uint16),
        ("u", 4, None) => plain(Scalar::Uint32),
        ("u", 8, None) => plain(Scalar::Uint64),
        ("f", 2, None) => plain(Scalar::Float16),
        ("f", 4, None) => plain(Scalar::Float32),
        ("f", 8, None) => plain(Scalar::Float64),
        ("S", 1.., None) => plain(Scalar::Bytes),
        ("M", 8, Some("s")) => timestamp("timestamp[s]"),
        ("M", 8, Some("ms")) => timestamp("timestamp[ms]"),
        ("M", 8, Some("us")) => timestamp("timestamp[us]"),
        ("M", 8, Some("ns")) => timestamp("timestamp[ns]"),
        ("M", ..) => Err(format!(
            "dates and times in another unit than s, ms, us or ns (`{text}`); save the array as \
             x.astype('datetime64[us]')"
        )),
        ("m", ..) => Err(format!("durations (`{text}`); save the array as x.astype('int64')")),
        ("f", ..) => {
            Err(format!("floats of {size} bytes (`{text}`); save the array as x.astype('<f8')"))
        }
        ("c", ..) => Err(format!(
            "complex numbers (`{text}`); save the array as np.stack([x.real, x.imag], axis=-1)"
        )),
        ("O", ..) => Err(format!(
            "Python objects (`{text}`), which are pickled and can run any code; save arrays of numbers \
             or bytes"
        )),
        ("U", ..) => {
            Err(format!("text in UTF-32 (`{text}`); save the array as np.char.encode(x, 'utf-8')"))
        }
        ("V", ..) => Err(format!(
            "bytes of a type that NumPy does not know (`{text}`), as bfloat16 is; save the array as a \
             type of NumPy, or as x.view('u1')"
        )),
        _ => Err(format!("elements of the type `{text}`, which is not known here")),
    }
}
