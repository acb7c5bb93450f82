//! The interface between host and decoder, version 0.1: its name, and the types generated from
//! `wit/`.

use pipemill_types::{Field, Scalar};

use self::wit::pipemill::decoder::types;

/// Types and calls that are generated from the interface's definition.
pub(super) mod wit {
    #![allow(missing_docs)]
    wasmtime::component::bindgen!({
        path: "../../wit/0.1",
        world: "decoder-plugin",
    });
}

/// Name of the interface, as plugins import and export it.
pub const INTERFACE: &str = "pipemill:decoder";
/// Version of the interface, as plugins import and export it.
pub const INTERFACE_VERSION: &str = "0.1.0";

impl From<types::Field> for Field {
    fn from(field: types::Field) -> Self {
        let scalar = match field.scalar {
            types::Scalar::Bytes => Scalar::Bytes,
            types::Scalar::Utf8 => Scalar::Utf8,
            types::Scalar::Boolean => Scalar::Boolean,
            types::Scalar::Int32 => Scalar::Int32,
            types::Scalar::Int64 => Scalar::Int64,
            types::Scalar::Float32 => Scalar::Float32,
            types::Scalar::Float64 => Scalar::Float64,
        };
        Self { name: field.name, scalar, shape: field.shape }
    }
}
