//! The import `set-schema`: copies a decoder's declaration out of its memory, and limits the copy.
//!
//! Lists and texts of a decoder may share bytes, so a small memory can describe a large schema.

use pipemill_types::Fault;
use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lift, WasmList, WasmStr};

use crate::call::host_state::HostState;
use crate::interface::wit::pipemill::decoder::types;

/// Largest number of bytes of the description of a schema.
const MAX_SCHEMA_BYTES: usize = 4 << 20;
/// Bytes that each text counts in addition to its own bytes: the host's overhead for keeping a
/// text.
const TEXT_BYTES: usize = 32;

/// A field as it is in the decoder's memory.
#[derive(ComponentType, Lift)]
#[component(record)]
pub(crate) struct DeclaredField {
    name: WasmStr,
    scalar: WasmStr,
    shape: WasmList<u32>,
    nullable: bool,
    logical: WasmStr,
    categories: WasmList<WasmStr>,
    metadata: WasmList<(WasmStr, WasmStr)>,
}

/// Receives the schema of the stream.
pub(crate) fn set_schema(
    mut store: StoreContextMut<'_, HostState>,
    (declared,): (WasmList<DeclaredField>,),
) -> wasmtime::Result<()> {
    store.data().check_new_schema(declared.len())?;
    let mut copy = SchemaCopy { store: &mut store, left: MAX_SCHEMA_BYTES };
    let mut fields = Vec::new();
    for index in 0..declared.len() {
        let field = copy.element(&declared, index)?;
        fields.push(copy.field(&field)?);
    }
    Ok(store.data_mut().set_schema(fields)?)
}

/// Copies a schema, up to a limit in bytes.
struct SchemaCopy<'a, 's> {
    store: &'a mut StoreContextMut<'s, HostState>,
    /// Bytes that may still be copied.
    left: usize,
}

impl SchemaCopy<'_, '_> {
    fn field(&mut self, declared: &DeclaredField) -> wasmtime::Result<types::Field> {
        self.charge(declared.shape.len().saturating_mul(4))?;
        Ok(types::Field {
            name: self.text(&declared.name)?,
            scalar: self.text(&declared.scalar)?,
            shape: declared.shape.as_le_slice(&*self.store).to_vec(),
            nullable: declared.nullable,
            logical: self.text(&declared.logical)?,
            categories: (0..declared.categories.len())
                .map(|index| {
                    let text = self.element(&declared.categories, index)?;
                    self.text(&text)
                })
                .collect::<Result<_, _>>()?,
            metadata: (0..declared.metadata.len())
                .map(|index| {
                    let (key, value) = self.element(&declared.metadata, index)?;
                    Ok((self.text(&key)?, self.text(&value)?))
                })
                .collect::<wasmtime::Result<_>>()?,
        })
    }

    /// An element of a list. The index is smaller than the list's length.
    fn element<T: Lift>(&mut self, list: &WasmList<T>, index: usize) -> wasmtime::Result<T> {
        let element = list.get(&mut *self.store, index);
        element.ok_or_else(|| Fault::contract("declared a list with an element too few"))?
    }

    fn text(&mut self, text: &WasmStr) -> wasmtime::Result<String> {
        let size = text.to_str(&*self.store)?.len();
        self.charge(size.saturating_add(TEXT_BYTES))?;
        Ok(text.to_str(&*self.store)?.into_owned())
    }

    fn charge(&mut self, bytes: usize) -> wasmtime::Result<()> {
        self.store.data_mut().account.work(bytes)?;
        self.left = self.left.checked_sub(bytes).ok_or_else(|| {
            Fault::contract(format!(
                "declared a schema of more than {MAX_SCHEMA_BYTES} bytes: names, types, categories \
                 and metadata of its fields"
            ))
        })?;
        Ok(())
    }
}
