//! An instance of a decoder in its own sandbox.
//!
//! Each stream of a plugin has an instance that no other stream has used. A built-in decoder keeps
//! no state outside of its streams, so one instance has many of them, in sequence: making an
//! instance takes longer than decoding a short object, and mapping its window for each section of a
//! long object took 5 % of the time.

use pipemill_types::{ErrorKind, Fault, StreamInfo, printable};
use wasmtime::Store;
use wasmtime::component::ResourceAny;

use crate::call::carry::Carry;
use crate::call::host_state::HostState;
use crate::call::rest::DecodeRest;
use crate::call::store::begin_call;
use crate::call::trap::explain;
use crate::call::window::Window;
use crate::interface::wit::DecoderPlugin;
use crate::interface::wit::exports::pipemill::decoder::decoder as exports;
use crate::plugin::Plugin;
use crate::sandbox::limits::Limits;

/// An instance that holds more memory than this is not kept for another stream.
const MAX_KEPT_MEMORY: u64 = 16 << 20;

/// An instance of a decoder, for one stream at a time.
pub struct DecoderInstance {
    pub(crate) store: Store<HostState>,
    pub(crate) bindings: DecoderPlugin,
    pub(crate) window: Window,
    /// `None` if it keeps no chunks.
    pub(crate) rest: Option<DecodeRest>,
    /// `None` if the decoder saves no state.
    pub(crate) carry: Option<Carry>,
    pub(crate) plugin: Plugin,
    limits: Limits,
}

impl DecoderInstance {
    /// Makes an instance, in which a stream for this object can be opened.
    ///
    /// # Errors
    /// The decoder fails, or exceeds a limit.
    pub(crate) fn new(plugin: &Plugin, info: &StreamInfo, limits: &Limits) -> Result<Self, Fault> {
        let mut store = plugin.inner.store(Some(info), limits);
        match new_instance(&mut store, plugin) {
            Ok((window, rest, carry, bindings)) => {
                let (plugin, limits) = (plugin.clone(), limits.clone());
                Ok(Self { store, bindings, window, rest, carry, plugin, limits })
            }
            Err(error) => Err(explain(&error, store.data(), limits)),
        }
    }

    /// Forgets the previous stream. Another stream for this object can be opened afterwards.
    pub(crate) fn begin_stream(&mut self, info: &StreamInfo) {
        self.store.data_mut().begin_stream(info, &self.limits);
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// The decoder refuses its options, fails, or exceeds a limit.
    pub(crate) fn open_stream(
        &mut self,
        options: &[(String, String)],
        info: &StreamInfo,
    ) -> Result<ResourceAny, Fault> {
        begin_call(&mut self.store, 0);
        let guest = self.bindings.pipemill_decoder_decoder();
        match guest.stream().call_open(&mut self.store, options, &wit_info(info)) {
            Ok(Ok(handle)) => Ok(handle),
            Ok(Err(message)) => Err(Fault::new(
                ErrorKind::Refused,
                format!("the decoder refuses to start: {}", printable(&message)),
                "correct its `options`; `pipemill plugin list` lists them",
            )),
            Err(error) => Err(self.explain(&error)),
        }
    }

    /// Ends its stream. Returns the instance, if it may have another stream.
    pub(crate) fn after(mut self, stream: ResourceAny) -> Option<Self> {
        // At least half of the limit is left for the next stream.
        let most = MAX_KEPT_MEMORY.min(self.limits.memory / 2);
        if !self.plugin.is_builtin() || self.memory_held() > most {
            return None;
        }
        begin_call(&mut self.store, 0);
        stream.resource_drop(&mut self.store).ok()?;
        Some(self)
    }

    /// The fault of a call that did not return.
    pub(crate) fn explain(&self, error: &wasmtime::Error) -> Fault {
        explain(error, self.store.data(), &self.limits)
    }

    /// Size of its linear memory in bytes, without the window.
    pub(crate) fn memory_held(&self) -> u64 {
        self.store.data().limiter.held()
    }
}

/// The context of a stream, as the decoder gets it.
pub(crate) fn wit_info(info: &StreamInfo) -> exports::StreamInfo {
    exports::StreamInfo {
        channel: info.channel.clone(),
        epoch: info.epoch,
        object: info.object.clone(),
        max_record: info.max_record,
        offsets: info.offsets,
        size: info.facts.size,
        content_type: info.facts.content_type.clone(),
        etag: info.facts.etag.clone(),
        extensions: info.extensions.clone(),
    }
}

/// An instance of a decoder, with its window, its export `rest` and what saves its state.
fn new_instance(
    store: &mut Store<HostState>,
    plugin: &Plugin,
) -> wasmtime::Result<(Window, Option<DecodeRest>, Option<Carry>, DecoderPlugin)> {
    let (instance, bindings, memory) = plugin.instantiate(store)?;
    let window = Window::new(store, &instance, plugin.inner.window, memory)?;
    let rest = plugin.inner.rest.map(|export| DecodeRest::new(store, &instance, export));
    let carry = plugin.inner.carry.map(|carry| Carry::new(store, &instance, carry)).transpose()?;
    Ok((window, rest.transpose()?, carry, bindings))
}
