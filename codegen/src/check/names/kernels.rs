//! E007: `host` and `kernels` name kernels that the runtime has.

use fulgurite_core::Name;
use fulgurite_core::kernel::{HOST, Special};
use fulgurite_core::lang::Span;

use super::Names;
use crate::schema::Body;
use crate::yaml::Text;

impl Names<'_> {
    /// Checks that the kernels in `host` and `kernels` exist.
    pub(super) fn kernels(&mut self) {
        let source = self.source;
        let of = |executor: &str| {
            let all = Special::ALL.iter().filter(|(of, ..)| *of == executor);
            all.map(|(_, name, _)| Name::new(name)).collect::<Vec<_>>()
        };
        let whole = |text: &Text| Span::new(0, text.as_str().len());
        if let Body::Host(name) = &source.body
            && Special::named(HOST, name.as_str()).is_none()
        {
            let claim =
                format!("`host` of `{}` names `{}`, which is no primitive of the runtime", self.op(), name.as_str());
            self.unknown(name, whole(name), claim, name.as_str(), of(HOST));
        }
        for (executor, kernel) in &source.kernels {
            let (of_it, op) = (of(executor.as_str()), self.op());
            if *executor == HOST || of_it.is_empty() {
                let claim = format!(
                    "`kernels` of `{op}`: the executor `{}` has no kernels that a row may name",
                    executor.as_str()
                );
                let known = Special::ALL.iter().filter(|(of, ..)| *of != HOST).map(|(of, ..)| Name::new(of));
                self.unknown(executor, whole(executor), claim, executor.as_str(), known);
            } else if !of_it.iter().any(|name| *name == kernel.as_str()) {
                let claim = format!("`kernels` of `{op}`: `{}` has no kernel `{}`", executor.as_str(), kernel.as_str());
                self.unknown(kernel, whole(kernel), claim, kernel.as_str(), of_it);
            }
        }
    }
}
