//! Skips a value of any type that does not become a field.

use crate::reader::{Problem, Reader, Stop};
use crate::schema::{Kind, Schema, TypeId};

/// Largest nesting depth in a value that is skipped. It limits the stack for types that contain
/// themselves.
const MAX_DEPTH: u32 = 256;

/// Skips a value of this type.
pub(crate) fn skip(schema: &Schema, id: TypeId, reader: &mut Reader) -> Result<(), Stop> {
    skip_nested(schema, id, reader, 0)
}

fn skip_nested(schema: &Schema, id: TypeId, reader: &mut Reader, depth: u32) -> Result<(), Stop> {
    let one = schema.get(id);
    if let Some(size) = one.size {
        return reader.take(size).map(drop);
    }
    if depth == MAX_DEPTH {
        return reader.bad(reader.at(), Problem::Depth);
    }
    let deeper = depth + 1;
    match &one.kind {
        Kind::Int | Kind::Enum(_) => reader.int().map(drop),
        Kind::Long => reader.long().map(drop),
        Kind::Bytes | Kind::String => reader.string().map(drop),
        Kind::Array(items) => skip_blocks(reader, schema.get(*items).size, |reader| {
            skip_nested(schema, *items, reader, deeper)
        }),
        Kind::Map(values) => skip_blocks(reader, None, |reader| {
            reader.string()?;
            skip_nested(schema, *values, reader, deeper)
        }),
        Kind::Union(branches) => {
            let at = reader.at();
            let found = reader.long()?;
            match usize::try_from(found).ok().and_then(|branch| branches.get(branch)) {
                Some(branch) => skip_nested(schema, *branch, reader, deeper),
                None => reader.bad(at, Problem::Branch { found, branches: branches.len() }),
            }
        }
        Kind::Record { fields, .. } => fields
            .iter()
            .try_for_each(|(_, of_field)| skip_nested(schema, *of_field, reader, deeper)),
        // These have a size.
        Kind::Null | Kind::Boolean | Kind::Float | Kind::Double | Kind::Fixed => Ok(()),
    }
}

/// Skips the blocks of an array or a map. A block that contains its size, or whose items have a
/// fixed size, is skipped as a whole.
fn skip_blocks(
    reader: &mut Reader,
    item_size: Option<u64>,
    mut item: impl FnMut(&mut Reader) -> Result<(), Stop>,
) -> Result<(), Stop> {
    while let Some(items) = reader.items()? {
        if let Some(size) = items.size.or(item_size.map(|size| size.saturating_mul(items.count))) {
            reader.take(size)?;
            continue;
        }
        // An item without a size has a byte or more.
        reader.require(items.count)?;
        for _ in 0..items.count {
            item(reader)?;
        }
    }
    Ok(())
}
