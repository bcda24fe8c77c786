//! Chooses between the general and the specialised form of a program's kernels.

use super::Kernels;
use super::device::{Device, KernelUnit, Module};
use super::emit::{Function, Kernel};
use crate::executors::ExecError;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// At most this many calls use general kernels where the form is chosen automatically. Compiling a kernel takes 0.1 to
/// 0.25 s, and a specialised kernel saves some microseconds a launch, so it pays after thousands of calls.
const MOST_GENERAL_CALLS: u32 = 1000;

/// A form of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    General,
    Specialised,
}

/// The rule by which a program chooses between the forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    Always(Form),
    /// The general form for this many calls, then the specialised one.
    GeneralFor(u32),
}

impl Policy {
    pub fn of(kernels: Kernels, sizes_vary: bool) -> Policy {
        match (kernels, sizes_vary) {
            (Kernels::General, _) => Policy::Always(Form::General),
            (Kernels::Automatic, true) => Policy::GeneralFor(MOST_GENERAL_CALLS),
            (Kernels::Specialised, _) | (Kernels::Automatic, false) => Policy::Always(Form::Specialised),
        }
    }

    /// The form of the first call.
    pub fn first(self) -> Form {
        match self {
            Policy::Always(form) => form,
            Policy::GeneralFor(_) => Form::General,
        }
    }
}

impl Form {
    /// The function of a kernel in this form, and the numbers that it takes after its other
    /// arguments.
    pub fn of(self, kernel: &Kernel) -> (&Function, &[u64]) {
        match (self, &kernel.general) {
            (Form::General, Some((function, numbers))) => (function, numbers),
            _ => (&kernel.specialised, &[]),
        }
    }
}

/// The kernels of a program in one form.
pub(super) struct Unit {
    kernels: KernelUnit,
    module: OnceLock<Result<Arc<dyn Module>, ExecError>>,
}

impl Unit {
    fn new<'k>(kernels: impl Iterator<Item = &'k Kernel>, form: Form) -> Unit {
        let mut unit = KernelUnit::default();
        kernels.map(|k| form.of(k).0).for_each(|function| unit.add(&function.name, &function.text));
        Unit { kernels: unit, module: OnceLock::new() }
    }

    fn load(&self, device: &dyn Device) -> Result<Loaded<'_>, ExecError> {
        if self.kernels.is_empty() {
            return Ok(None);
        }
        self.module.get_or_init(|| device.load(&self.kernels)).as_ref().map(Some).map_err(Clone::clone)
    }
}

/// Kernels that are ready, or none if a program has none.
pub(super) type Loaded<'u> = Option<&'u Arc<dyn Module>>;

/// The kernels of a program, and the calls so far.
pub(super) struct Units {
    policy: Policy,
    general: Unit,
    specialised: Unit,
    calls: AtomicU32,
}

impl Units {
    /// Collects the kernels of a program, and tells the device which of them the first call uses, so that it can compile
    /// them before that call.
    pub fn new<'k>(policy: Policy, kernels: impl Iterator<Item = &'k Kernel> + Clone, device: &dyn Device) -> Units {
        let general = Unit::new(kernels.clone(), Form::General);
        let made =
            Units { policy, general, specialised: Unit::new(kernels, Form::Specialised), calls: AtomicU32::new(0) };
        device.announce(&made.unit(policy.first()).kernels);
        made
    }

    fn unit(&self, form: Form) -> &Unit {
        match form {
            Form::General => &self.general,
            Form::Specialised => &self.specialised,
        }
    }

    /// The form of the next call, and its kernels.
    ///
    /// # Errors
    /// E808 if they do not compile.
    pub fn next(&self, device: &dyn Device) -> Result<(Form, Loaded<'_>), ExecError> {
        let load = |form: Form| Ok((form, self.unit(form).load(device)?));
        let most = match self.policy {
            Policy::Always(form) => return load(form),
            Policy::GeneralFor(most) => most,
        };
        // the count stops, so that it does not overflow
        if self.calls.load(Ordering::Relaxed) < most {
            self.calls.fetch_add(1, Ordering::Relaxed);
            return load(Form::General);
        }
        // a program that runs goes on if its faster form does not compile
        load(Form::Specialised).or_else(|_| load(Form::General))
    }
}
