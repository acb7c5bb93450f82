//! What all streams of a channel have in common is made once: by `prepare`, if the decoder has it
//! (`wit/0.3`). The memory of the instance in which it was called is the one with which all others
//! begin.

use std::sync::Arc;

use pipemill_types::{ErrorKind, Fault, printable};
use wasmtime::Store;
use wasmtime::component::{Component, ComponentExportIndex, Instance, TypedFunc};

use crate::call::host_state::HostState;
use crate::call::store::{ask, begin_call};
use crate::call::trap::explain;
use crate::interface::PREPARING;
use crate::interface::wit::DecoderPlugin;
use crate::plugin::Plugin;
use crate::sandbox::guest_memory::{GuestMemory, take_made, with_least};
use crate::sandbox::limits::Limits;
use crate::sandbox::memory_image::MemoryImage;

/// Names and values of options.
type Options = [(String, String)];
/// The content of files, by the name of their option.
pub(crate) type Files = [(String, Vec<u8>)];

type Prepare = TypedFunc<(&'static Options, &'static Files), (Result<(), String>,)>;

/// The functions of the interface in a component.
#[derive(Clone, Copy)]
pub(crate) struct PrepareExports {
    prepares: ComponentExportIndex,
    prepare: ComponentExportIndex,
}

impl PrepareExports {
    /// `None` if the component has none of them.
    pub(crate) fn of(component: &Component) -> Option<Self> {
        let preparing = component.get_export_index(None, PREPARING)?;
        let function = |name| component.get_export_index(Some(&preparing), name);
        Some(Self { prepares: function("prepares")?, prepare: function("prepare")? })
    }

    /// Whether the decoder prepares anything.
    pub(crate) fn ask(
        &self,
        store: &mut Store<HostState>,
        instance: &Instance,
    ) -> wasmtime::Result<bool> {
        ask(store, instance, self.prepares)
    }

    /// Calls `prepare` in a new instance.
    fn call(
        &self,
        store: &mut Store<HostState>,
        instance: &Instance,
        options: &Options,
        files: &Files,
    ) -> wasmtime::Result<()> {
        let prepare: Prepare = instance.get_typed_func(&mut *store, self.prepare)?;
        begin_call(store, files.iter().map(|(_, bytes)| bytes.len()).sum());
        let (answer,) = prepare.call(&mut *store, (options, files))?;
        answer.map_err(|message| refused(&message))?;
        match store.data().has_output() {
            true => Err(Fault::contract("set its schema or metadata in `prepare`").into()),
            false => Ok(()),
        }
    }
}

fn refused(message: &str) -> Fault {
    Fault::new(
        ErrorKind::Refused,
        format!("the decoder refuses its options: {}", printable(message)),
        "correct its `options`; `pipemill plugin list` lists them",
    )
}

/// The state with which the instances of a channel begin.
pub(crate) enum Prepared {
    /// This memory.
    Image(MemoryImage),
    /// The state is not in the memory alone: each instance calls `prepare` with these arguments.
    Again { options: Box<Options>, files: Arc<Files> },
}

/// An instance in which streams can be opened: its memory is the one that it made, if it has one.
pub(crate) type Made = (Instance, DecoderPlugin, Option<Arc<GuestMemory>>);

impl Plugin {
    /// The same plugin, whose instances are prepared with these options and files.
    ///
    /// # Errors
    /// The decoder refuses them, fails, or exceeds a limit.
    pub(crate) fn prepare(
        self,
        options: &Options,
        files: &Arc<Files>,
        limits: &Limits,
    ) -> Result<Self, Fault> {
        let Some(exports) = self.inner.prepare else { return Ok(self) };
        let mut store = self.inner.store(None, limits);
        take_made();
        let called = self
            .inner
            .instantiate(&mut store)
            .and_then(|(instance, _)| exports.call(&mut store, &instance, options, files));
        called.map_err(|error| explain(&error, store.data(), limits))?;
        let memory = take_made().filter(|_| self.inner.is_state_in_memory);
        let prepared = match memory {
            Some(memory) => {
                // SAFETY: the call has returned, and the store is this function's alone.
                let image = unsafe { MemoryImage::of(&memory) };
                Prepared::Image(image.map_err(|error| {
                    let message = format!("the decoder's memory can't be kept: {error}");
                    Fault::new(ErrorKind::Host, message, "give the host more memory")
                })?)
            }
            None => return Ok(self.again(options, files.clone())),
        };
        Ok(Self { prepared: Some(Arc::new(prepared)), ..self })
    }

    /// The same plugin, each of whose instances calls `prepare` with these options and files.
    /// `None` if the decoder prepares nothing.
    pub(crate) fn prepare_each_time(self, options: &Options, files: Arc<Files>) -> Option<Self> {
        self.inner.prepare.is_some().then(|| self.again(options, files))
    }

    fn again(self, options: &Options, files: Arc<Files>) -> Self {
        let again = Prepared::Again { options: options.into(), files };
        Self { prepared: Some(Arc::new(again)), ..self }
    }

    /// A new instance in a new sandbox, prepared if the plugin is.
    pub(crate) fn instantiate(&self, store: &mut Store<HostState>) -> wasmtime::Result<Made> {
        take_made();
        let image = match self.prepared.as_deref() {
            Some(Prepared::Image(image)) => Some(image),
            Some(Prepared::Again { .. }) | None => None,
        };
        let bytes = image.map_or(0, MemoryImage::bytes);
        if !store.data_mut().limiter.begins_with(bytes) {
            return Err(wasmtime::Error::msg("its prepared memory is larger than the limit"));
        }
        let made = with_least(bytes as usize, || self.inner.instantiate(&mut *store));
        let ((instance, bindings), memory) = (made?, take_made());
        if let (Some(image), Some(memory)) = (image, &memory) {
            // SAFETY: no call runs, and the store is this function's alone.
            unsafe { image.map_into(memory) }.map_err(std::io::Error::from)?;
        }
        if let (Some(Prepared::Again { options, files }), Some(exports)) =
            (self.prepared.as_deref(), self.inner.prepare)
        {
            exports.call(store, &instance, options, files)?;
        }
        Ok((instance, bindings, memory))
    }
}
