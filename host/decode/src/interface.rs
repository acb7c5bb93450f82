//! The interface between host and decoder, version 0.1: its name, and the types generated from
//! `wit/`.

use pipemill_types::{Field, Scalar, printable};

use self::wit::pipemill::decoder::types;

/// Types and calls that are generated from the interface's definition.
pub(super) mod wit {
    #![allow(missing_docs, rustdoc::broken_intra_doc_links)]
    wasmtime::component::bindgen!({
        path: "../../wit/0.1",
        world: "decoder-plugin",
    });
}

/// Name of the interface, as plugins import and export it.
pub const INTERFACE: &str = "pipemill:decoder";
/// Version of the interface, as plugins import and export it.
pub const INTERFACE_VERSION: &str = "0.1.0";

/// Name of the interface that a decoder may also export, for chunks without a copy.
pub const WINDOW: &str = "pipemill:decoder/window@0.2.0";

/// Name of the interface that a decoder may also export, to choose the bytes that it is shown.
pub const PLAN: &str = "pipemill:decoder/plan@0.3.0";

/// Name of the interface that a decoder may also export, to make once what its streams have in
/// common.
pub const PREPARING: &str = "pipemill:decoder/preparing@0.3.0";

/// Name of the interface that a decoder may also export, to keep a chunk between calls.
pub const REST: &str = "pipemill:decoder/rest@0.3.0";

/// Name of the interface that a decoder may also export, to begin inside of an object with state
/// that was saved there.
pub const CARRY: &str = "pipemill:decoder/carry@0.3.0";

/// Name of the interface of the host that a decoder may also import, to emit columns.
pub const COLUMNS: &str = "pipemill:decoder/columns@0.3.0";

/// Name of the interface of the host that a decoder may also import, to read blocks.
pub const BLOCKS: &str = "pipemill:decoder/blocks@0.3.0";

/// The interfaces that a decoder may also export.
pub const OPTIONAL_EXPORTS: [&str; 5] = [WINDOW, PLAN, PREPARING, CARRY, REST];

/// The interfaces of the host, besides the one of version 0.1, that a decoder may import.
pub const OPTIONAL_IMPORTS: [&str; 2] = [BLOCKS, COLUMNS];

/// Converts the field that a decoder declares.
///
/// # Errors
/// The field has a type that this version does not know, or it breaks a rule of the interface.
pub(super) fn field(field: types::Field) -> Result<Field, String> {
    let name = printable(&field.name);
    let Some(scalar) = Scalar::from_word(&field.scalar) else {
        let known = Scalar::ALL.map(Scalar::word).join(", ");
        let scalar = printable(&field.scalar);
        return Err(format!("declared the field `{name}` of type `{scalar}`; known are {known}"));
    };
    let field = Field {
        name: field.name,
        scalar,
        shape: field.shape,
        nullable: field.nullable,
        logical: field.logical,
        categories: field.categories,
        metadata: field.metadata.into_iter().collect(),
    };
    match field.problem() {
        Some(problem) => Err(format!("declared the field `{name}`, which {}", printable(&problem))),
        None => Ok(field),
    }
}
