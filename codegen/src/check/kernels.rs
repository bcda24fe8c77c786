//! E117: a kernel that a row names for an executor takes the row's arguments, and is of the family of the row's
//! meaning.

use std::sync::Arc;

use fulgurite_core::kernel::Special;
use fulgurite_core::row::Row;

use super::cases;
use super::closure;
use super::facts::{self, Family};
use super::rows::RowSet;
use crate::diag::Diag;
use crate::schema::RowSource;

/// Arguments and family of a handwritten kernel, as far as a row shows them.
struct Interface {
    /// Element classes of its arguments, in order: the alternatives of each.
    args: &'static [&'static [&'static str]],
    /// How many of the last arguments a row may lack.
    optional: usize,
    /// The option that it reads.
    option: &'static str,
    /// The family of loops that it replaces.
    family: Family,
}

/// The interface of a kernel. `None` for a primitive, which is the meaning of its row.
fn interface(kernel: Special) -> Option<Interface> {
    Some(match kernel {
        Special::LinearScan => {
            let args = &[&["T"] as &[&str], &["T"], &["bool"]];
            Interface { args, optional: 1, option: "dim", family: Family::Scan }
        }
        Special::Searchsorted => {
            let args = &[&["T"] as &[&str], &["T"], &["Index"]];
            Interface { args, optional: 0, option: "side", family: Family::Gather }
        }
        Special::MatmulGroups => {
            let args = &[&["T"] as &[&str], &["i8", "u4x2"], &["T"], &["T"]];
            Interface { args, optional: 0, option: "group", family: Family::Contraction }
        }
        Special::Argsort | Special::Introselect | Special::Introsort | Special::Quickselect => return None,
    })
}

/// Faults of `kernels`: names of kernels that can't be right for this row.
pub fn check(source: &RowSource, row: &Arc<Row>, set: &RowSet, family: &cases::Family) -> Vec<Diag> {
    let refuted = source.kernels.iter().filter_map(|(executor, name)| {
        let interface = interface(Special::named(executor.as_str(), name.as_str())?)?;
        let why = misfit(&interface, row).or_else(|| other_family(&interface, row, set, family))?;
        let message = format!("`kernels` of `{}` names `{}`, which it can't be", row.op, name.as_str());
        let diag = Diag::error("E117", name.place, message).note(why);
        Some(diag.help("delete it: the executor finds a kernel for what the row means"))
    });
    refuted.collect()
}

/// The first argument or option that the kernel needs and the row does not have.
fn misfit(interface: &Interface, row: &Row) -> Option<String> {
    let elements = |row: &Row, at: usize| {
        let words = row.sig.params.get(at).into_iter().flat_map(|param| &param.ty.elem);
        words.map(ToString::to_string).collect::<Vec<_>>().join(" | ")
    };
    let (have, most) = (row.sig.params.len(), interface.args.len());
    let least = most - interface.optional;
    if have < least || have > most {
        let want = if least == most { most.to_string() } else { format!("{least} to {most}") };
        return Some(format!("the kernel takes {want} tensors, the row takes {have}"));
    }
    let mut args = interface.args[..have].iter().enumerate();
    let wrong = args.find(|(at, words)| !words.contains(&elements(row, *at).as_str()));
    if let Some((at, words)) = wrong {
        let (arg, have) = (&row.sig.params[at].name, elements(row, at));
        return Some(format!("the kernel takes `{}` in place of `{arg}: {have}`", words.join("` or `")));
    }
    if row.sig.opts.iter().all(|opt| opt.name.name != interface.option) {
        return Some(format!("the kernel reads an option `{}`, which the row does not have", interface.option));
    }
    None
}

/// How the row's meaning differs from the family of the kernel.
fn other_family(interface: &Interface, row: &Arc<Row>, set: &RowSet, family: &cases::Family) -> Option<String> {
    let wanted = interface.family;
    let found = facts::loops(row, set, &family.cases);
    let called = found.is_none() && calls_family(row, set, wanted);
    (found != Some(wanted) && !called).then(|| {
        let have = found.map_or("calls no such row".to_owned(), |found| format!("is a {}", found.name()));
        format!("the kernel is a {}, the row's meaning {have}", wanted.name())
    })
}

/// Whether a program calls a row of a family, directly or not.
fn calls_family(row: &Arc<Row>, set: &RowSet, wanted: Family) -> bool {
    closure::any_reached(closure::called(row), set, &mut |called| {
        let cases = cases::family(called, super::element(called)).cases;
        facts::loops(called, set, &cases) == Some(wanted)
    })
}
