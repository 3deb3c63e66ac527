//! How calls of a tool's functions are made: counted for whoever asks, since a tool that is slow may
//! have a function that is a little too long.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use unspool_kernel::lock::Mutex;

use super::AnalysisFunction;

/// How a call is made at a place.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CallForm {
    /// The function stands there, with registers that are borrowed for it.
    Inlined,
    /// It stands there with its own registers, which are kept.
    Copied,
    /// It is called, and what it may change is kept.
    Called,
    /// It is called by way of a gate that keeps everything.
    Gated,
}

/// At how many places calls of a function are made how. A place counts each time that it is translated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallForms {
    /// The function stands there, with registers that are borrowed for it.
    pub inlined: u64,
    /// It stands there with its own registers, which are kept.
    pub copied: u64,
    /// It is called, and what it may change is kept.
    pub called: u64,
    /// It is called by way of a gate that keeps everything.
    pub gated: u64,
}

/// A function's name, and how calls of it are made.
type Noted = (&'static str, CallForms);

static ARE_WANTED: AtomicBool = AtomicBool::new(false);
/// By the function's address.
static NOTED: Mutex<BTreeMap<u64, Noted>> = Mutex::new(BTreeMap::new());

/// From now on it is noted how calls are made. To be called before anything is inserted.
pub fn note_call_forms() {
    ARE_WANTED.store(true, Ordering::Relaxed);
}

fn are_wanted() -> bool {
    ARE_WANTED.load(Ordering::Relaxed)
}

/// Says what a function is called that is to be inserted somewhere: only such functions are noted.
pub fn name_function(function: AnalysisFunction, name: &'static str) {
    name_code(function as usize as u64, name);
}

/// The same, by its address.
pub(crate) fn name_code(address: u64, name: &'static str) {
    if are_wanted() {
        let unknown = (name, CallForms::default());
        NOTED.lock().entry(address).or_insert(unknown);
    }
}

/// The functions that were named, by their names, and how calls of them are made: none unless that is
/// noted.
#[must_use]
pub fn call_forms() -> Vec<(&'static str, CallForms)> {
    let mut noted: Vec<_> = NOTED.lock().values().copied().collect();
    noted.sort_by_key(|(name, _)| *name);
    noted
}

/// A call of a function is made so at a place.
pub(crate) fn note(function: u64, form: CallForm) {
    if !are_wanted() {
        return;
    }
    let mut noted = NOTED.lock();
    let Some((_, forms)) = noted.get_mut(&function) else {
        return;
    };
    *match form {
        CallForm::Inlined => &mut forms.inlined,
        CallForm::Copied => &mut forms.copied,
        CallForm::Called => &mut forms.called,
        CallForm::Gated => &mut forms.gated,
    } += 1;
}
