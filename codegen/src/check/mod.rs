//! Checks: what can be proved of a row, or refuted, before anything is generated.
//!
//! [`run`] is the table of contents. A row with a fault is reported once and left alone from then on: it takes part in
//! no later check, and a call of it is no fault of its caller.

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
mod subclasses;
mod thresholds;
mod unused;
mod vanishing;
mod views;
pub mod walk;
mod widths;

pub use call_cache::Resolved;
pub use names::{HAS_BLANK, is_word};
pub use subclasses::meets;

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

/// Rows that were looked at.
pub struct Checked {
    /// In file order, one for each row of the database, completed: `dtypes` and `promote` that the row leaves to be
    /// found stand in it.
    pub rows: Vec<Arc<Row>>,
    /// Declared gradient rules that are right.
    pub graded: Vec<Graded>,
}

/// Checks every row of `db`; what is wrong goes to `diags`. `upstream` are the rows that it may use: they are right.
pub fn run(db: &Database, upstream: &(dyn Rows + Sync), diags: &mut Diagnostics) -> Checked {
    some(db, upstream, &db.names().collect(), diags)
}

/// The same of the rows and classes that are `wanted`, of rows with their overloads; of the rows that these call, what
/// their callers rely on.
pub fn some(db: &Database, upstream: &(dyn Rows + Sync), wanted: &FxHashSet<Name>, diags: &mut Diagnostics) -> Checked {
    let lowered = parallel::map(&db.rows, |source| Arc::new(source.lower_to_row()));
    let mut set = RowSet::new(upstream, lowered, &db.broken);
    let bases: FxHashSet<Name> = wanted.iter().copied().map(base).collect();
    let mut roots = bases.clone();
    for source in db.rows.iter().filter(|source| bases.contains(&base(source.name()))) {
        roots.extend(closure::rule_calls(source).into_iter().map(base));
    }
    let is_root = |source: &RowSource| roots.contains(&base(source.name()));
    // of all rows: the one that stands second may be one that was right until now
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
    // both are large
    parallel::drop_beside((families, set.into_known()));
    Checked { rows, graded }
}

/// The rows of a database that was checked elsewhere, of these names without kinds and of those that they call:
/// completed, as [`some`] completes rows.
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

/// Checks the meanings of rows, wave by wave, and completes the rows. Returns the calls on which they were looked at.
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
                        // it means what it means, and is looked at no further
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

/// `matmul` of `matmul.mv`, any other name itself.
pub fn base(name: Name) -> Name {
    rows::base(name).unwrap_or(name)
}

/// Reports what is wrong with a row, and breaks it.
fn settle(faults: Vec<Diag>, source: &RowSource, set: &mut RowSet, diags: &mut Diagnostics) {
    for fault in faults {
        if fault.level == crate::diag::Level::Error {
            set.break_row(source.name());
        }
        diags.push(fault);
    }
}

/// The dtype in which shapes are tried: f32 where the row takes it.
pub fn element(row: &Row) -> DType {
    let set =
        row.dtypes.as_ref().and_then(|e| const_eval::dtype_set(&Env::default(), e).ok()).unwrap_or(DTypeSet::all());
    [DType::F32, DType::I64].into_iter().find(|d| set.contains(*d)).or_else(|| set.iter().next()).unwrap_or(DType::F32)
}

/// A row, completed, and what of its meaning is never used.
type Meant = (Arc<Row>, Option<Diag>);

/// Shapes, then dtypes, of a row's meaning. `family` gets the calls that take branches which no other call of it takes.
fn meaning(source: &RowSource, row: &Arc<Row>, set: &RowSet, family: &mut Family) -> Result<Meant, Box<Diag>> {
    let Some(rule) = Rule::body(source) else { return Ok((row.clone(), None)) };
    if let Some(fault) = views::check(&rule, row, set, family) {
        return Err(Box::new(fault));
    }
    let mut open = coverage::Open::new(row);
    // the body may be undefined on the dtype that was tried: dtypes are looked at next
    let is_fault = |fault: &Diag| fault.code != "E202" || row.dtypes.is_some();
    if let Some(fault) = shapes::check(&rule, row, set, family, &mut open).filter(is_fault) {
        return Err(Box::new(fault));
    }
    for case in open.search(row, set, element(row), family, &|| points::calls(source, row)) {
        let alike = case.solved.joined.is_none_or(|joined| joined == element(row));
        // whether a body is defined on other dtypes is asked below
        let is_fault = |fault: &Diag| if alike { is_fault(fault) } else { fault.code == "E104" };
        if let Some(fault) = shapes::one(&rule, row, set, &case, &mut open).filter(is_fault) {
            return Err(Box::new(fault));
        }
        // a large one is for types alone
        family.cases.extend((alike && case.numel() <= coverage::MOST_ELEMENTS).then_some(case));
    }
    Ok((dtypes::check(&rule, row, set, family)?, open.refuse(&rule)))
}

/// Whether a fault of a row may follow from that of another: its loops, or the dtypes that it leaves to be found, are
/// made of those of rows that it calls.
fn follows(source: &RowSource, set: &RowSet) -> bool {
    let row = set.row(source.name()).filter(|row| row.index_body().is_some() || row.dtypes.is_none());
    row.is_some_and(|row| closure::reaches_broken(source, &row, set))
}

/// E113
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

/// Declared gradient rules: their types, and where those are right their values. A row with a wrong gradient still
/// means what it means, so rules that call it are looked at all the same. Those that are right.
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
    if !families.is_empty() {
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
        // a derivative is made of those of the rows that are called
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
