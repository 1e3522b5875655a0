//! Watches and disturbs a fake model from outside its thread.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A call of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// `Target::prefill`.
    Prefill,
    /// `Target::window`.
    Window,
    /// `Target::save`.
    Save,
    /// `Target::restore`.
    Restore,
    /// `Drafter::ingest`.
    Ingest,
    /// `Drafter::propose`.
    Propose,
}

/// What happens instead of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It gives an error that names the call.
    Error,
    /// It panics.
    Panic,
}

type Hook = Box<dyn FnMut(Call, usize) + Send>;

#[derive(Default)]
struct State {
    counts: BTreeMap<Call, usize>,
    rows: usize,
    faults: BTreeMap<(Call, usize), Fault>,
    hook: Option<Hook>,
    violations: Vec<String>,
    occupied: usize,
    /// Calibrations begun and ended.
    calibrations: (usize, usize),
}

/// Watches and disturbs a fake model; clones see the same model.
#[derive(Clone, Default)]
pub struct Probe(Arc<Mutex<State>>);

impl Probe {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets call number `number` of a kind, counted from 0, go wrong.
    pub fn fault(&self, call: Call, number: usize, fault: Fault) {
        self.state().faults.insert((call, number), fault);
    }

    /// Runs `hook` on the engine's thread before every call, with the number of that kind's calls before it.
    pub fn on_call(&self, hook: impl FnMut(Call, usize) + Send + 'static) {
        self.state().hook = Some(Box::new(hook));
    }

    /// Calls of a kind so far.
    pub fn count(&self, call: Call) -> usize {
        self.state().counts.get(&call).copied().unwrap_or(0)
    }

    /// Rows fed so far, in prompts and windows.
    pub fn rows(&self) -> usize {
        self.state().rows
    }

    /// Slots that hold anything.
    pub fn occupied(&self) -> usize {
        self.state().occupied
    }

    /// Breaches of the model's contract by its caller.
    pub fn violations(&self) -> Vec<String> {
        self.state().violations.clone()
    }

    /// Calibrations begun and ended.
    pub fn calibrations(&self) -> (usize, usize) {
        self.state().calibrations
    }

    pub(crate) fn calibrates(&self) -> bool {
        let (begun, ended) = self.state().calibrations;
        begun > ended
    }

    pub(crate) fn calibration_begins(&self) {
        self.state().calibrations.0 += 1;
    }

    pub(crate) fn calibration_ends(&self) {
        self.state().calibrations.1 += 1;
    }

    pub(crate) fn violation(&self, words: String) {
        self.state().violations.push(words);
    }

    pub(crate) fn fed(&self, rows: usize) {
        self.state().rows += rows;
    }

    pub(crate) fn set_occupied(&self, slots: usize) {
        self.state().occupied = slots;
    }

    /// Counts a call, runs the hook, and gives the fault that is due.
    pub(crate) fn enter(&self, call: Call) -> Option<Fault> {
        let (number, hook) = {
            let mut state = self.state();
            let count = state.counts.entry(call).or_default();
            *count += 1;
            (*count - 1, state.hook.take())
        };
        // The hook runs unlocked, so it may use the probe.
        if let Some(mut hook) = hook {
            hook(call, number);
            self.state().hook.get_or_insert(hook);
        }
        self.state().faults.get(&(call, number)).copied()
    }
}
