//! Checks of rows: everything that can be proved or refuted of a row before code is generated.
//!
//! [`run`] is the table of contents. A row with a fault is reported once: it takes part in no later check, and calls of
//! it are not reported as faults of their callers.

mod accumulates;
mod aliases;
mod batching;
mod bounds;
mod branches;
mod call_cache;
mod calls;
pub mod cases;
mod casts;
pub mod closure;
mod coverage;
mod division;
mod draws;
pub mod dtypes;
mod effects;
mod exchanged;
pub mod expanded;
pub mod facts;
pub mod gradient_rules;
pub mod gradients;
mod kernels;
mod keys;
mod literals;
pub mod machine;
mod names;
pub mod orders;
mod overlaps;
mod parts;
mod places;
pub mod points;
pub mod recorded;
pub mod report;
mod rounds;
pub mod rows;
pub mod rules;
mod rust_names;
mod shapes;
mod storage_dtypes;
pub mod subclasses;
mod thresholds;
mod unused;
mod vanishing;
mod views;
pub mod walk;
mod widths;

pub use call_cache::Resolved;
pub use names::{HAS_BLANK, is_word};

use std::sync::Arc;

use fulgurite_core::lower::{NoRows, Rows};
use fulgurite_core::row::Row;
use fulgurite_core::signature::Env;
use fulgurite_core::signature::const_eval;
use fulgurite_core::{DType, DTypeSet, Name};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::diag::{Diag, Diagnostics};
use crate::parallel;
use crate::schema::{Database, RowSource};
use crate::source::Place;
use cases::{Case, Family};
use gradients::Graded;
use report::Rule;
use rows::RowSet;

/// The outcome of the checks.
pub struct Checked {
    /// The rows in file order, one for each row of the database. They are completed: `dtypes` and `promote` are filled
    /// in where the database leaves them to be inferred.
    pub rows: Vec<Arc<Row>>,
    /// The declared gradient rules that passed their checks.
    pub graded: Vec<Graded>,
}

/// Checks every row of `db`, and reports faults to `diags`. Rows may call those of `upstream`, which are taken to be
/// right.
pub fn run(db: &Database, upstream: &(dyn Rows + Sync), diags: &mut Diagnostics) -> Checked {
    some(db, upstream, &db.names().collect(), diags)
}

/// Checks the rows and classes in `wanted`, each row together with its overloads. Rows that these call get only the
/// checks of names and of meanings, because callers rely on nothing else.
pub fn some(db: &Database, upstream: &(dyn Rows + Sync), wanted: &FxHashSet<Name>, diags: &mut Diagnostics) -> Checked {
    let lowered = parallel::map(&db.rows, |source| Arc::new(source.lower_to_row()));
    let mut set = RowSet::new(upstream, lowered, &db.broken);
    let bases: FxHashSet<Name> = wanted.iter().copied().map(base).collect();
    let mut roots = bases.clone();
    for source in db.rows.iter().filter(|source| bases.contains(&base(source.name()))) {
        roots.extend(closure::rule_calls(source).into_iter().map(base));
    }
    let is_root = |source: &RowSource| roots.contains(&base(source.name()));
    // All rows are compared, because the fault is reported at the later row, which may have been right before.
    for (source, fault) in rust_names::check(&db.rows) {
        settle(vec![fault], source, &mut set, diags);
    }
    let waves = closure::waves(&db.rows, &is_root, &mut set, diags);
    let mut reached: Vec<usize> = waves.iter().flatten().copied().collect();
    reached.sort_unstable();
    let reached: Vec<&RowSource> = reached.into_iter().map(|n| &db.rows[n]).collect();
    let named = parallel::map(&reached, |source| {
        let mut faults = names::check(source, &set);
        if faults.is_empty() {
            faults.extend(keys::check(source));
            faults.extend(places::check(source));
            faults.extend(storage_dtypes::check(source));
            faults.extend(unused::check(source, &set));
            faults.extend(effects::check(source, &set));
            faults.extend(aliases::check(source));
            faults.extend(exchanged::check(source));
        }
        faults
    });
    for (source, faults) in reached.into_iter().zip(named) {
        settle(faults, source, &mut set, diags);
    }
    let mut families = meanings(db, &waves, &mut set, diags);
    families.retain(|name, _| bases.contains(&base(*name)));
    overloads(db, &mut set, &families, diags);
    let mut of_classes = Diagnostics::new();
    let classes = || subclasses::check(db, &set, &families, wanted, &mut of_classes);
    let graded = parallel::beside(classes, || derivatives(db, &set, &families, diags));
    diags.extend(of_classes);
    let rows = db.rows.iter().filter_map(|source| set.row(source.name())).collect();
    // Both are large, so they are dropped on another thread.
    parallel::drop_beside((families, set.into_known()));
    Checked { rows, graded }
}

/// The rows whose names without overloads are in `wanted`, and the rows that they call, completed as [`some`] completes
/// rows. The database was checked elsewhere, so faults are not reported.
pub fn completed(db: &Database, wanted: &FxHashSet<Name>) -> Vec<Arc<Row>> {
    let lowered = parallel::map(&db.rows, |source| Arc::new(source.lower_to_row()));
    let mut set = RowSet::new(&NoRows, lowered, &db.broken);
    let mut diags = Diagnostics::new();
    let waves = closure::waves(&db.rows, &|source| wanted.contains(&base(source.name())), &mut set, &mut diags);
    meanings(db, &waves, &mut set, &mut diags);
    let reached = waves.iter().flatten().filter_map(|n| set.row(db.rows[*n].name())).collect();
    parallel::drop_beside(set.into_known());
    reached
}

/// Checks the meanings of rows wave by wave, and completes the rows. Returns each row's family of calls on which it was
/// checked.
fn meanings(db: &Database, waves: &[Vec<usize>], set: &mut RowSet, diags: &mut Diagnostics) -> FxHashMap<Name, Family> {
    let mut families: FxHashMap<Name, Family> = FxHashMap::default();
    for wave in waves {
        let sources = wave.iter().map(|n| &db.rows[*n]).filter(|source| !set.is_broken(source.name()));
        let sources: Vec<&RowSource> = sources.collect();
        let looked = parallel::map(&sources, |source| {
            let row = set.row(source.name())?;
            let mut family = cases::family(&row, element(&row));
            Some((meaning(source, &row, set, &mut family), family))
        });
        for (source, (found, family)) in sources.into_iter().zip(looked).filter_map(|(s, looked)| Some((s, looked?))) {
            match found {
                Ok((row, idle)) => {
                    set.replace(row);
                    if let Some(idle) = idle {
                        // An unused part does not change the meaning, so callers rely on the row; later checks skip it.
                        diags.push(idle);
                        continue;
                    }
                }
                Err(_) if follows(source, set) => set.break_row(source.name()),
                Err(fault) => settle(vec![*fault], source, set, diags),
            }
            families.insert(source.name(), family);
        }
    }
    families
}

/// The name without its overload: `matmul` for `matmul.mv`, any other name unchanged.
pub fn base(name: Name) -> Name {
    rows::base(name).unwrap_or(name)
}

/// Reports the faults of a row, and marks the row as broken if one is an error.
fn settle(faults: Vec<Diag>, source: &RowSource, set: &mut RowSet, diags: &mut Diagnostics) {
    for fault in faults {
        if fault.level == crate::diag::Level::Error {
            set.break_row(source.name());
        }
        diags.push(fault);
    }
}

/// The dtype in which shapes are checked: f32 if the row accepts it.
pub fn element(row: &Row) -> DType {
    let set =
        row.dtypes.as_ref().and_then(|e| const_eval::dtype_set(&Env::default(), e).ok()).unwrap_or(DTypeSet::all());
    [DType::F32, DType::I64].into_iter().find(|d| set.contains(*d)).or_else(|| set.iter().next()).unwrap_or(DType::F32)
}

/// A completed row, and the report of the parts of its meaning that are never used.
type Meant = (Arc<Row>, Option<Diag>);

/// Checks the shapes, then the dtypes, of a row's meaning. Calls that take branches which no other call of `family`
/// takes are added to it.
fn meaning(source: &RowSource, row: &Arc<Row>, set: &RowSet, family: &mut Family) -> Result<Meant, Box<Diag>> {
    let Some(rule) = Rule::body(source) else { return Ok((row.clone(), None)) };
    if let Some(fault) = views::check(&rule, row, set, family) {
        return Err(Box::new(fault));
    }
    let mut open = coverage::Open::new(row);
    // The body may be undefined for the dtype of these calls; the check of dtypes below reports that.
    let is_fault = |fault: &Diag| fault.code != "E202" || row.dtypes.is_some();
    if let Some(fault) = shapes::check(&rule, row, set, family, &mut open).filter(is_fault) {
        return Err(Box::new(fault));
    }
    for case in open.search(row, set, element(row), family, &|| points::calls(source, row)) {
        let alike = case.solved.joined.is_none_or(|joined| joined == element(row));
        // The check of dtypes below reports a body that is undefined for another dtype.
        let is_fault = |fault: &Diag| if alike { is_fault(fault) } else { fault.code == "E104" };
        if let Some(fault) = shapes::one(&rule, row, set, &case, &mut open).filter(is_fault) {
            return Err(Box::new(fault));
        }
        // Large calls are checked for types only, because later checks compute the elements of the family's calls.
        family.cases.extend((alike && case.numel() <= coverage::MOST_ELEMENTS).then_some(case));
    }
    Ok((dtypes::check(&rule, row, set, family)?, open.refuse(&rule)))
}

/// Whether a fault of a row may be a consequence of another row's fault, because its loops or its inferred dtypes are
/// built from rows that it calls.
fn follows(source: &RowSource, set: &RowSet) -> bool {
    let row = set.row(source.name()).filter(|row| row.index_body().is_some() || row.dtypes.is_none());
    row.is_some_and(|row| closure::reaches_broken(source, &row, set))
}

/// Reports E113 for overloads that accept a common call.
fn overloads(db: &Database, set: &mut RowSet, families: &FxHashMap<Name, Family>, diags: &mut Diagnostics) {
    let places: FxHashMap<Name, (Place, usize)> =
        db.rows.iter().enumerate().map(|(n, source)| (source.name(), (source.sig.text.place, n))).collect();
    for source in &db.rows {
        let (Some(row), Some(family)) = (set.row(source.name()), families.get(&source.name())) else { continue };
        let fault = overlaps::check(source, &row, family, set, &|name| places.get(&name).copied());
        settle(fault.into_iter().collect(), source, set, diags);
    }
}

/// E115: a row that no kernel family serves.
fn kernel(source: &RowSource, row: &Arc<Row>, set: &RowSet, family: &Family) -> Option<Diag> {
    if !facts::is_generic(row, set, &family.cases) {
        return None;
    }
    let message = format!("no kernel family serves `{}`: it runs loop by loop", row.op);
    let diag = Diag::warning("E115", report::body(source)?.1.place, message).here("correct, and slow");
    Some(diag.help("take nested reductions apart: give the inner one a row of its own, and call both in a `decomp`"))
}

/// Checks the declared gradient rules, first their types and then their values, together with the remaining properties
/// of each row. A row with a wrong gradient keeps its meaning, so rules that call it are checked all the same. Returns
/// the rules that passed.
fn derivatives(
    db: &Database,
    set: &RowSet,
    families: &FxHashMap<Name, Family>,
    diags: &mut Diagnostics,
) -> Vec<Graded> {
    let lowered: Vec<(usize, &RowSource, Arc<Row>)> =
        db.rows.iter().enumerate().filter_map(|(n, source)| Some((n, source, set.row(source.name())?))).collect();
    let own = lowered.iter().map(|(n, source, row)| (*n, *source, &**row));
    let forms = recorded::Forms::upstream(&db.calls, set).with(own);
    // where every row is known to be right, so are the calls; a database of calls alone has no rows to know
    if !families.is_empty() || db.rows.is_empty() {
        calls::check(db, set, &forms).into_iter().for_each(|fault| diags.push(fault));
    }
    let looked = parallel::map(&db.rows, |source| {
        let (mut faults, mut graded) = (Vec::new(), Vec::new());
        let (Some(row), Some(family)) = (set.row(source.name()), families.get(&source.name())) else {
            return (faults, graded);
        };
        if set.is_broken(source.name()) {
            return (faults, graded);
        }
        let declared = gradient_rules::of(source);
        let others = if declared.is_empty() { Vec::new() } else { dtypes::floats(&row, family, element(&row)) };
        for rule in &declared {
            let typed = |cases: &[Case]| rules::check(source, rule, &row, set, cases);
            faults.extend(typed(&family.cases).or_else(|| typed(&others)));
        }
        // A derivative is built from those of the called rows, so a broken one causes further faults.
        if faults.is_empty() && !closure::reaches_broken(source, &row, set) {
            let apart = |way, arg| points::apart::count(source, &row, set, way, arg);
            let shows = |other: &Arc<Row>| points::apart::shows(source, &row, other, set);
            let told = gradients::Points { calls: &|| points::calls(source, &row), apart: &apart, shows: &shows };
            faults = gradients::check(source, &row, set, family, &told, &mut graded);
        }
        faults.extend(points::check(source, &row, set));
        faults.extend(recorded::check(source, &row, set, &forms));
        faults.extend(literals::check(source, &row, set));
        faults.extend(vanishing::check(source, &row, set));
        faults.extend(widths::check(source, &row, set));
        faults.extend(rounds::check(source, &row, set, family));
        faults.extend(accumulates::check(source, &row, set, family));
        faults.extend(casts::check(source, &row, set));
        faults.extend(kernels::check(source, &row, set, family));
        faults.extend(kernel(source, &row, set, family));
        faults.extend(orders::check(source, &row, set, family));
        faults.extend(batching::check(source, &row));
        (faults, graded)
    });
    let mut right = Vec::new();
    for (faults, graded) in looked {
        faults.into_iter().for_each(|fault| diags.push(fault));
        right.extend(graded);
    }
    right
}
