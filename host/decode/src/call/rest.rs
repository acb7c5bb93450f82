//! The export `rest` of a decoder (`wit/0.3`): it keeps the chunk of a call that returned `more`.
//! So the rest of the chunk is not copied into its memory again.

use std::ops::Range;

use wasmtime::Store;
use wasmtime::component::{Component, ComponentExportIndex, Instance, ResourceAny, TypedFunc};

use crate::call::host_state::{Bytes, HostState};
use crate::call::store::begin_call;
use crate::call::window::Decoded;
use crate::interface::REST;
use crate::interface::wit::exports::pipemill::decoder::decoder as exports;

/// The export, in a component that has it.
pub(crate) fn rest_export(component: &Component) -> Option<ComponentExportIndex> {
    let rest = component.get_export_index(None, REST)?;
    component.get_export_index(Some(&rest), "decode")
}

/// The function of an instance that decodes the rest of a chunk.
pub(crate) struct DecodeRest(
    TypedFunc<(ResourceAny, bool), (Result<exports::Progress, exports::DecodeError>,)>,
);

impl DecodeRest {
    /// Finds the function in an instance.
    ///
    /// # Errors
    /// It has another type than the interface defines.
    pub(crate) fn new(
        store: &mut Store<HostState>,
        instance: &Instance,
        export: ComponentExportIndex,
    ) -> wasmtime::Result<Self> {
        instance.get_typed_func(store, export).map(Self)
    }

    /// Lets the decoder go on with the chunk that it has kept: these bytes.
    pub(crate) fn decode(
        &self,
        store: &mut Store<HostState>,
        stream: ResourceAny,
        (bytes, chunk): (&Bytes, Range<usize>),
        end: bool,
    ) -> Decoded {
        begin_call(store, chunk.len());
        store.data_mut().chunk = Some((bytes.clone(), chunk));
        self.0.call(store, (stream, end)).map(|(result,)| result)
    }
}
