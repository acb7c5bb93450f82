//! Asks a decoder for the plan of an object: the bytes of it that its streams are shown
//! (`wit/0.3`). The answers are as the decoder gave them: who reads the bytes checks them.

use std::ops::Range;

use pipemill_types::{CompanionRule, Companions, ErrorKind, Fault, StreamInfo, printable};
use wasmtime::Store;
use wasmtime::component::{
    Component, ComponentExportIndex, ComponentType, Instance, Lift, Lower, TypedFunc,
};

use crate::call::host_state::HostState;
use crate::call::instance::wit_info;
use crate::call::store::{ask, begin_call, limit_returned};
use crate::call::trap::explain;
use crate::interface::PLAN;
use crate::interface::wit::exports::pipemill::decoder::decoder as exports;
use crate::plugin::Plugin;
use crate::sandbox::limits::Limits;

/// Bytes that an answer may take when it is copied out of the decoder's memory. Who checks the
/// answer has a lower limit, and a better message.
const MAX_RETURNED_BYTES: usize = 16 << 20;

/// Bytes of an object, or of a companion, that were read for its plan.
#[derive(Debug, Clone, ComponentType, Lower)]
#[component(record)]
pub struct PlanPiece {
    /// 0 for the object; the number of a companion, from 1, otherwise.
    pub of: u32,
    /// Place of the first one in it.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Bytes of the object, or of a companion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct PlanRange {
    /// 0 for the object; the number of a companion, from 1, otherwise.
    pub of: u32,
    /// Place of the first one in it.
    pub offset: u64,
    /// Their number.
    pub length: u64,
}

impl PlanRange {
    /// The places in an object, whose size comes first, or in a companion, whose sizes follow.
    /// `None` if they are not in it, or if there is no such companion.
    pub fn within(self, sizes: &[u64]) -> Option<Range<u64>> {
        let size = sizes.get(usize::try_from(self.of).ok()?)?;
        let end = self.offset.checked_add(self.length).filter(|end| end <= size)?;
        Some(self.offset..end)
    }
}

/// Bytes that a stream is shown one after the other: the context, then those of the ranges.
#[derive(Debug, Clone, ComponentType, Lift)]
#[component(record)]
pub struct PlanPart {
    /// Bytes of the decoder's own.
    pub context: Vec<u8>,
    /// Bytes of the object and its companions.
    pub ranges: Vec<PlanRange>,
    /// Number of the records in these bytes, if the decoder knows it.
    pub records: Option<u64>,
}

/// The next step of a plan.
#[derive(Debug, Clone, ComponentType, Lift)]
#[component(variant)]
pub enum PlanStep {
    /// Ask again, and show these bytes, too.
    #[component(name = "read")]
    Read(Vec<PlanRange>),
    /// The plan.
    #[component(name = "parts")]
    Parts(Vec<PlanPart>),
    /// The object is shown as without a plan.
    #[component(name = "whole")]
    Whole,
}

/// The functions of the interface in a component.
#[derive(Clone, Copy)]
pub(crate) struct PlanExports {
    plans: ComponentExportIndex,
    companions: ComponentExportIndex,
    step: ComponentExportIndex,
}

/// A rule for the name of a companion.
#[derive(Debug, Clone, ComponentType, Lift)]
#[component(record)]
struct PlanCompanion {
    object: String,
    companion: String,
}

type AskCompanions = TypedFunc<(Options<'static>,), (Result<Vec<PlanCompanion>, String>,)>;

type Options<'a> = &'a [(String, String)];
type Step = TypedFunc<
    (Options<'static>, exports::StreamInfo, &'static [PlanPiece]),
    (Result<PlanStep, String>,),
>;

impl PlanExports {
    /// `None` if the component has none of them.
    pub(crate) fn of(component: &Component) -> Option<Self> {
        let plan = component.get_export_index(None, PLAN)?;
        let function = |name| component.get_export_index(Some(&plan), name);
        let [plans, companions, step] = ["plans", "companions", "step"].map(function);
        Some(Self { plans: plans?, companions: companions?, step: step? })
    }

    /// Whether the decoder makes plans.
    pub(crate) fn ask(
        &self,
        store: &mut Store<HostState>,
        instance: &Instance,
    ) -> wasmtime::Result<bool> {
        ask(store, instance, self.plans)
    }
}

impl Plugin {
    /// The companions of each object, if the decoder has these options. They are checked.
    ///
    /// # Errors
    /// The decoder refuses the options, fails, exceeds a limit, or wants companions that no object
    /// may have.
    pub(crate) fn ask_companions(
        &self,
        options: Options<'_>,
        limits: &Limits,
    ) -> Result<Companions, Fault> {
        let Some(plan) = self.inner.plan else { return Ok(Companions::default()) };
        let mut store = self.inner.store(None, limits);
        let answer = self.instantiate(&mut store).and_then(|(made, _, _)| {
            let ask: AskCompanions = made.get_typed_func(&mut store, plan.companions)?;
            begin_call(&mut store, 0);
            ask.call(&mut store, (options,)).map(|(answer,)| answer)
        });
        let rules = match answer {
            Ok(Ok(rules)) => rules,
            Ok(Err(message)) => {
                return Err(Fault::new(
                    ErrorKind::Refused,
                    format!("refuses to start: {}", printable(&message)),
                    "correct its `options`; `pipemill plugin list` lists them",
                ));
            }
            Err(error) => return Err(explain(&error, store.data(), limits)),
        };
        let rule = |PlanCompanion { object, companion }| CompanionRule { object, companion };
        Companions::new(rules.into_iter().map(rule).collect()).map_err(Fault::contract)
    }
}

/// An instance of a decoder that makes the plan of one object.
pub struct PlanInstance {
    store: Store<HostState>,
    step: Step,
    info: exports::StreamInfo,
    limits: Limits,
}

impl PlanInstance {
    /// An instance for this object.
    ///
    /// # Errors
    /// The decoder makes no plans, fails, or exceeds a limit.
    pub fn new(plugin: &Plugin, info: &StreamInfo, limits: &Limits) -> Result<Self, Fault> {
        let Some(plan) = plugin.inner.plan else {
            return Err(Fault::contract("makes no plans".to_owned()));
        };
        let mut store = plugin.inner.store(Some(info), limits);
        store.call_hook(|store, transition| {
            limit_returned(store, transition, MAX_RETURNED_BYTES);
            Ok(())
        });
        let made = plugin.instantiate(&mut store);
        let step = made.and_then(|(made, _, _)| made.get_typed_func(&mut store, plan.step));
        match step {
            Ok(step) => Ok(Self { store, step, info: wit_info(info), limits: limits.clone() }),
            Err(error) => Err(explain(&error, store.data(), limits)),
        }
    }

    /// The decoder's next step, after it was shown these bytes.
    ///
    /// # Errors
    /// The decoder refuses the object, fails, or exceeds a limit.
    pub fn step(
        &mut self,
        options: &[(String, String)],
        seen: &[PlanPiece],
    ) -> Result<PlanStep, Fault> {
        begin_call(&mut self.store, seen.iter().map(|piece| piece.bytes.len()).sum());
        match self.step.call(&mut self.store, (options, self.info.clone(), seen)) {
            Ok((Ok(step),)) => Ok(step),
            Ok((Err(message),)) => Err(Fault::new(
                ErrorKind::Refused,
                format!("the decoder refuses it: {}", printable(&message)),
                "give it an object that it supports, or correct its `options`",
            )),
            Err(error) => Err(explain(&error, self.store.data(), &self.limits)),
        }
    }
}
