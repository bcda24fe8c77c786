//! Judges mutants: finds the evidence that refutes each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fulgurite_codegen::check::gradients::Graded;
use fulgurite_codegen::check::points;
use fulgurite_codegen::check::recorded::Case;
use fulgurite_codegen::check::{self, Checked, closure, rows};
use fulgurite_codegen::diag::{Diagnostics, Level};
use fulgurite_codegen::parallel;
use fulgurite_codegen::pipeline::Table;
use fulgurite_codegen::schema::{Database, RowSource, read_database};
use fulgurite_codegen::source::Sources;
use fulgurite_codegen::yaml::Node;
use fulgurite_core::Name;
use fulgurite_core::lower::Rows;
use fulgurite_core::row::Row;
use rustc_hash::{FxHashMap, FxHashSet};

use super::Mutant;
use super::downstream::Downstream;
use super::everywhere::{self, Everywhere};
use super::evidence::Evidence;
use super::recorded::Near;
use super::same::{self, Side};
use super::witness::{self, Found};

/// The verdict on a mutant.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// `check` refuses the mutant, with this code.
    Check(&'static str),
    /// The mutant disagrees with the values that PyTorch gave in this recorded case.
    Recorded(String),
    /// `check` refuses a database downstream of the mutant, with this code and row.
    Downstream(String),
    /// The mutant is equivalent to its row, for this reason.
    Equivalent(String),
    /// No evidence refutes the mutant; the point would refute it, if one was found.
    Survived(Option<String>),
    /// The mutant stopped the checker: a bug of ours, which is not evidence.
    Crashed,
}

impl Verdict {
    /// The verdict in one word.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Check(_) => "check",
            Verdict::Recorded(_) => "recorded",
            Verdict::Downstream(_) => "downstream",
            Verdict::Equivalent(_) => "equivalent",
            Verdict::Survived(_) => "survived",
            Verdict::Crashed => "crashed",
        }
    }

    /// The code of the refusal by `check`.
    pub fn code(&self) -> Option<&'static str> {
        if let Verdict::Check(code) = self { Some(code) } else { None }
    }

    /// A point that would refute a surviving mutant.
    pub fn point(&self) -> Option<&str> {
        if let Verdict::Survived(point) = self { point.as_deref() } else { None }
    }

    /// The recorded case, the refusal downstream, or the reason of the equivalence.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Verdict::Recorded(text) | Verdict::Downstream(text) | Verdict::Equivalent(text) => Some(text),
            Verdict::Check(_) | Verdict::Survived(_) | Verdict::Crashed => None,
        }
    }
}

/// A row that is not refuted, completed, with the grades of its gradients.
type Accepted = (RowSource, Arc<Row>, Vec<Graded>);

/// The least number of accepted calls for a conclusive search.
const ENOUGH: usize = 300;

/// The right database, against which wrong rows are judged.
pub struct Bench<'a> {
    database: &'a Database,
    sources: &'a Sources,
    /// Every row, completed.
    table: Table,
    /// For each row, the indices of the rows whose bodies or rules call it.
    callers: FxHashMap<Name, Vec<usize>>,
    /// For each name, the indices of the rows that its calls may mean.
    siblings: FxHashMap<Name, Vec<usize>>,
    /// The databases that use this one, as evidence.
    downstream: Vec<Downstream<'a>>,
    /// Every row, with those downstream.
    wide: Table,
    /// Values that PyTorch gave.
    evidence: Option<Evidence>,
}

impl<'a> Bench<'a> {
    /// A bench for a database without faults, which may use the rows of `upstream`.
    pub fn new(database: &'a Database, sources: &'a Sources, checked: &Checked, upstream: &Table) -> Bench<'a> {
        let mut table = upstream.clone();
        // The table includes the derived rows that bodies call.
        rows::RowSet::new(upstream, checked.rows.iter().cloned(), &[]).own().for_each(|row| table.insert(row.clone()));
        let mut callers: FxHashMap<Name, Vec<usize>> = FxHashMap::default();
        let mut siblings: FxHashMap<Name, Vec<usize>> = FxHashMap::default();
        let base = |name: Name| rows::base(name).unwrap_or(name);
        for (at, row) in database.rows.iter().enumerate() {
            siblings.entry(base(row.name())).or_default().push(at);
            let called: FxHashSet<Name> = checked.rows.get(at).into_iter().flat_map(called).collect();
            called.into_iter().for_each(|name| callers.entry(name).or_default().push(at));
        }
        let wide = table.clone();
        Bench { database, sources, table, callers, siblings, downstream: Vec::new(), wide, evidence: None }
    }

    /// Adds a database without faults that may use the rows of this one, as evidence.
    pub fn with_downstream(mut self, database: &'a Database, checked: &Checked) -> Bench<'a> {
        self.downstream.push(Downstream::new(database, checked, &mut self.wide));
        self
    }

    /// Adds values that PyTorch gave, as evidence. They are also calls of rows of the databases downstream that were
    /// added before.
    pub fn with_recorded(mut self, cases: Vec<Case>) -> Bench<'a> {
        self.evidence = Some(Evidence::new(cases, self.database, &self.downstream, self.wide.clone()));
        self
    }

    /// The number of recorded cases in which the right rows agree, and the number of all cases.
    pub fn recorded(&self) -> (usize, usize) {
        self.evidence.as_ref().map_or((0, 0), Evidence::counts)
    }

    /// The verdict on this mutant.
    pub fn judge(&self, mutant: &Mutant) -> Verdict {
        let (source, row, graded) = match self.refute(mutant, &[]) {
            Ok(accepted) => accepted,
            Err(verdict) => return verdict,
        };
        let right = self.database.rows.get(mutant.at).zip(self.table.row(mutant.row));
        let equal = right.and_then(|(own, row_of)| {
            let (right, wrong) = (Side { source: own, row: &row_of }, Side { source: &source, row: &row });
            same::reason(mutant, right, wrong, &graded, &self.table)
        });
        if let Some(why) = equal {
            return Verdict::Equivalent(why);
        }
        match self.used(mutant, &row) {
            Some(refusal) => Verdict::Downstream(refusal),
            None => self.look(mutant, &source, &row),
        }
    }

    /// The refusal of a database downstream that uses the mutant. A fact that the row states twice must be refuted
    /// without it.
    fn used(&self, mutant: &Mutant, row: &Arc<Row>) -> Option<String> {
        let mut downstream = self.downstream.iter().filter(|_| mutant.meaning);
        downstream.find_map(|database| database.refutes(row, &self.wide))
    }

    /// Checks the mutant, without the points of its row whose text is in `without`. Returns the accepted row, or the
    /// verdict that refutes it.
    fn refute(&self, mutant: &Mutant, without: &[String]) -> Result<Accepted, Verdict> {
        let name = rows::base(mutant.row).unwrap_or(mutant.row);
        let others = |of: &FxHashMap<Name, Vec<usize>>| of.get(&name).cloned().unwrap_or_default();
        let siblings: Vec<usize> = others(&self.siblings).into_iter().filter(|at| *at != mutant.at).collect();
        let (source, row, graded) = self.check(mutant, &siblings, without).map_err(Verdict::Check)?;
        // A fact that a row states twice must be refuted by `check` alone.
        let evidence = self.evidence.as_ref().filter(|_| mutant.meaning);
        if let Some(case) = evidence.and_then(|e| e.refutes(mutant.at, &source, &row)) {
            return Err(Verdict::Recorded(case.to_owned()));
        }
        let mut around = others(&self.callers);
        around.retain(|at| *at != mutant.at && !siblings.contains(at));
        if !around.is_empty() {
            around.extend(siblings);
            self.check(mutant, &around, without).map_err(Verdict::Check)?;
        }
        Ok((source, row, graded))
    }

    /// The redundant points of these mutants' rows: the rest of the row refuses their calls, and every refuted mutant
    /// is also refuted without them.
    pub fn idle(&self, mutants: &[Mutant]) -> Vec<(Name, &'a Node)> {
        let rows: Vec<&[Mutant]> = mutants.chunk_by(|a, b| a.at == b.at).collect();
        let idle = |mutants: &&[Mutant]| {
            let row = mutants
                .first()
                .and_then(|mutant| Some((self.database.rows.get(mutant.at)?, self.table.row(mutant.row)?)));
            let Some((source, row)) = row else { return Vec::new() };
            let restated: Vec<(String, &Node)> =
                points::restated(source, &row).into_iter().map(|node| (node.plain(), node)).collect();
            let mut needed: Vec<&str> = Vec::new();
            let refuted = |mutant: &Mutant, kept: &[&str]| {
                let without = restated.iter().map(|(point, _)| point).filter(|point| !kept.contains(&point.as_str()));
                let without: Vec<String> = without.cloned().collect();
                let refuted = || self.refute(mutant, &without).is_err();
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(refuted)).unwrap_or(false)
            };
            for mutant in mutants.iter().filter(|_| !restated.is_empty()) {
                if !refuted(mutant, &needed) {
                    let with = |point: &str| refuted(mutant, &[needed.as_slice(), &[point]].concat());
                    let telling = restated.iter().map(|(point, _)| point.as_str()).find(|point| with(point));
                    needed.extend(telling);
                }
            }
            let idle = restated.iter().filter(|(point, _)| !needed.contains(&point.as_str()));
            idle.map(|(_, node)| (source.name(), *node)).collect()
        };
        parallel::map(&rows, idle).into_iter().flatten().collect()
    }

    /// Searches for a difference between a mutant that is not refuted and its row.
    fn look(&self, mutant: &Mutant, source: &RowSource, wrong: &Arc<Row>) -> Verdict {
        let Some((own, right)) = self.database.rows.get(mutant.at).zip(self.table.row(mutant.row)) else {
            return Verdict::Survived(None);
        };
        if matches!(mutant.key.as_str(), "aten" | "torch" | "onnx") {
            let near = self.evidence.as_ref().and_then(|e| e.near(mutant.at, own, source, wrong));
            return match near {
                Some(Near::Differs(call)) => Verdict::Survived(Some(call)),
                Some(Near::Same(tried, accepted)) if accepted >= ENOUGH => Verdict::Equivalent(format!(
                    "the same arguments for {tried} calls near recorded ones, of which {accepted} are accepted"
                )),
                _ => Verdict::Survived(None),
            };
        }
        // Values do not show which tensors share storage.
        if !same::comparable(&right, wrong) || same::shares(&right) != same::shares(wrong) {
            return Verdict::Survived(None);
        }
        // Compares number by number, if a row depends on one element only.
        let bodies = matches!(mutant.key.as_str(), "expr" | "view" | "at") || mutant.key.starts_with("grad.");
        match if bodies { everywhere::compare(&right, wrong, &self.table) } else { Everywhere::Unknown } {
            Everywhere::Same(elements) => {
                return Verdict::Equivalent(format!("the same values and derivatives on {elements} tuples of numbers"));
            }
            Everywhere::Differs(point) => return Verdict::Survived(point),
            Everywhere::Unknown => {}
        }
        // Few properties of a call decide about acceptance, while a body may differ on calls that were not tried.
        let decided = matches!(mutant.key.as_str(), "require" | "dtypes" | "promote" | "sig");
        match witness::search(&right, wrong, &self.table) {
            Found::Point(point) => Verdict::Survived(point),
            Found::Nothing { typed, accepted, ran } if decided && accepted >= ENOUGH => Verdict::Equivalent(format!(
                "no difference on {typed} calls near the row's family, of which {accepted} are accepted and {ran} were run"
            )),
            Found::Nothing { .. } => Verdict::Survived(None),
        }
    }

    /// Checks the mutant together with these rows, with all other rows as upstream. Returns the completed row, or the
    /// code of the refusal.
    fn check(&self, mutant: &Mutant, beside: &[usize], without: &[String]) -> Result<Accepted, &'static str> {
        let mut beside = beside.to_vec();
        beside.sort_unstable();
        let mut text = String::from("ops:\n");
        // Rows keep the order of the file, because the later one of two clashing rows is reported.
        for at in beside.iter().filter(|at| **at < mutant.at) {
            text += &self.text(*at);
        }
        text += &mutant.text;
        for at in beside.iter().filter(|at| **at > mutant.at) {
            text += &self.text(*at);
        }
        let mut sources = Sources::default();
        let mut diags = Diagnostics::new();
        let file = sources.add("ops.yaml", text);
        // A row may have one entry in each of several files, and a file may have only one entry of a row.
        let further = |file: usize| -> String {
            let entries = beside.iter().chain([&mutant.at]).filter_map(|at| self.database.rows[*at].further.get(file));
            entries.map(|entry| format!("{}\n", self.sources.text(*entry))).collect()
        };
        (0..).map(further).take_while(|text| !text.is_empty()).for_each(|text| sources.add_points("points", text));
        let mut database = read_database(file, &sources, &mut diags);
        let own = database.rows.iter_mut().filter(|row| !without.is_empty() && row.name() == mutant.row);
        own.for_each(|row| row.tests.points.retain(|point| !without.contains(&point.plain())));
        let refused = |diags: &Diagnostics| {
            diags.sorted().into_iter().find(|diag| diag.level == Level::Error).map_or("E999", |diag| diag.code)
        };
        if diags.errors() > 0 {
            return Err(refused(&diags));
        }
        let checked = check::run(&database, &self.table, &mut diags);
        let at = database.rows.iter().position(|row| row.name() == mutant.row);
        match (diags.errors() == 0, at) {
            (true, Some(at)) => Ok((database.rows.swap_remove(at), checked.rows[at].clone(), checked.graded)),
            _ => Err(refused(&diags)),
        }
    }

    fn text(&self, at: usize) -> String {
        super::page::Page::new(&self.database.rows[at], self.sources).plain()
    }
}

/// The rows that a row's body and rules call.
fn called(row: &Arc<Row>) -> Vec<Name> {
    let mut names: Vec<Name> = closure::calls(row).into_iter().map(|call| call.op).collect();
    for (_, rule) in row.vjp.iter().chain(&row.jvp) {
        check::walk::block(rule, &mut |e| {
            if let fulgurite_core::lang::Node::Call(f, _) = &*e.node {
                names.push(f.name);
            }
        });
    }
    names.iter().map(|name| rows::base(*name).unwrap_or(*name)).collect()
}

/// The verdicts on all mutants, on two threads.
pub fn judge_all(bench: &Bench, mutants: &[Mutant]) -> Vec<Verdict> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(mutant) = mutants.get(at) else { return done };
            let judged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| bench.judge(mutant)));
            done.push((at, judged.unwrap_or(Verdict::Crashed)));
        }
    };
    let mut all: Vec<(usize, Verdict)> = std::thread::scope(|scope| {
        let other = scope.spawn(work);
        let mut done = work();
        match other.join() {
            Ok(more) => done.extend(more),
            Err(panic) => std::panic::resume_unwind(panic),
        }
        done
    });
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, verdict)| verdict).collect()
}
