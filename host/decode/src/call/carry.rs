//! State that a decoder saves, for a stream that begins where another one was saved (`wit/0.3`).

use pipemill_types::{ErrorKind, Fault, StreamInfo, printable};
use wasmtime::Store;
use wasmtime::component::{Component, ComponentExportIndex, Instance, ResourceAny, TypedFunc};

use crate::call::host_state::HostState;
use crate::call::instance::{DecoderInstance, wit_info};
use crate::call::store::{ask, begin_call};
use crate::interface::CARRY;
use crate::interface::wit::exports::pipemill::decoder::decoder as exports;

/// Most bytes that a decoder may save. Each batch has them, as text.
const MAX_SAVED: usize = 64 << 10;

/// What a decoder has saved at a place of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedState {
    /// The bytes, which only the decoder understands.
    pub bytes: Vec<u8>,
    /// The byte offset in the object.
    pub offset: u64,
}

/// The functions of the interface in a component.
#[derive(Clone, Copy)]
pub(crate) struct CarryExports {
    carries: ComponentExportIndex,
    save: ComponentExportIndex,
    load: ComponentExportIndex,
}

type Options<'a> = &'a [(String, String)];
type Save = TypedFunc<(ResourceAny,), (Option<Vec<u8>>,)>;
type Load = TypedFunc<
    (Options<'static>, exports::StreamInfo, &'static [u8]),
    (Result<ResourceAny, String>,),
>;

impl CarryExports {
    /// `None` if the component has none of them.
    pub(crate) fn of(component: &Component) -> Option<Self> {
        let carry = component.get_export_index(None, CARRY)?;
        let function = |name| component.get_export_index(Some(&carry), name);
        let [carries, save, load] = ["carries", "save", "load"].map(function);
        Some(Self { carries: carries?, save: save?, load: load? })
    }

    /// Whether the decoder saves state.
    pub(crate) fn ask(
        &self,
        store: &mut Store<HostState>,
        instance: &Instance,
    ) -> wasmtime::Result<bool> {
        ask(store, instance, self.carries)
    }
}

/// The functions of an instance.
#[derive(Clone, Copy)]
pub(crate) struct Carry {
    save: Save,
    load: Load,
}

impl Carry {
    /// # Errors
    /// The functions have other types than the interface defines.
    pub(crate) fn new(
        store: &mut Store<HostState>,
        instance: &Instance,
        exports: CarryExports,
    ) -> wasmtime::Result<Self> {
        Ok(Self {
            save: instance.get_typed_func(&mut *store, exports.save)?,
            load: instance.get_typed_func(&mut *store, exports.load)?,
        })
    }
}

impl DecoderInstance {
    /// What another stream must know to go on where this one is. `None` if it can't.
    ///
    /// # Errors
    /// The decoder fails, exceeds a limit, or saves too much.
    pub(crate) fn save(&mut self, stream: ResourceAny) -> Result<Option<Vec<u8>>, Fault> {
        let Some(carry) = self.carry else { return Ok(None) };
        begin_call(&mut self.store, 0);
        let answer = carry.save.call(&mut self.store, (stream,));
        let (saved,) = answer.map_err(|error| self.explain(&error))?;
        match saved {
            Some(bytes) if bytes.len() > MAX_SAVED => Err(Fault::contract(format!(
                "saved a state of {} bytes; {MAX_SAVED} are possible",
                bytes.len()
            ))),
            saved => Ok(saved),
        }
    }

    /// Opens a stream that goes on where another one was saved.
    ///
    /// # Errors
    /// The decoder saves no state, refuses this one, fails, or exceeds a limit.
    pub(crate) fn load_stream(
        &mut self,
        options: Options<'_>,
        info: &StreamInfo,
        saved: &[u8],
    ) -> Result<ResourceAny, Fault> {
        let refused = |message: String| {
            let remedy = "begin without the state, or bring back the decoder that saved it";
            Err(Fault::new(ErrorKind::Refused, message, remedy))
        };
        let Some(carry) = self.carry else {
            return refused(
                "the state goes on from what its decoder has saved, and this decoder saves nothing"
                    .to_owned(),
            );
        };
        if saved.len() > MAX_SAVED {
            let bytes = saved.len();
            return refused(format!(
                "the state has {bytes} bytes that its decoder has saved; {MAX_SAVED} are possible"
            ));
        }
        begin_call(&mut self.store, saved.len());
        match carry.load.call(&mut self.store, (options, wit_info(info), saved)) {
            Ok((Ok(stream),)) => Ok(stream),
            Ok((Err(message),)) => {
                let message = printable(&message);
                refused(format!("the decoder can't go on from what it has saved: {message}"))
            }
            Err(error) => Err(self.explain(&error)),
        }
    }
}
