//! How each operator meets tensors of a class, as far as texts tell.

use std::sync::Arc;

use fulgurite_codegen::check;
use fulgurite_codegen::check::gradients::arrays::dense::Library;
use fulgurite_codegen::check::rows::RowSet;
use fulgurite_codegen::check::subclasses::{chain, is_other, world};
use fulgurite_codegen::schema::Database;
use fulgurite_core::Name;
use fulgurite_core::lower::Rows;
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::subclass::{Rule, Target};

/// How an operator meets a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// A rule names the operator, in the class or in the operator's row.
    Named,
    /// A rule is for the operator's kind.
    Kind,
    /// The class's default applies.
    Default,
    /// The operator's decomposition, whose operators have rules.
    Parts,
    /// The operator has no rule. These are the calls from it to the one without a rule.
    Refused(Vec<Name>),
}

impl Way {
    /// The word for this way.
    pub fn word(&self) -> &'static str {
        match self {
            Way::Named => "name",
            Way::Kind => "kind",
            Way::Default => "default",
            Way::Parts => "parts",
            Way::Refused(_) => "none",
        }
    }
}

/// An operator on a class.
pub struct Met {
    /// The operator.
    pub op: Name,
    /// How it meets the class.
    pub way: Way,
}

/// Returns how each row meets class number `at` of the database. Rows that name a call of another library are left out.
pub fn meets(db: &Database, rows: &[Arc<Row>], upstream: &(dyn Rows + Sync), at: usize) -> Vec<Met> {
    let set = RowSet::new(upstream, rows.iter().cloned(), &db.broken);
    let library = Library::new(&set);
    let Some(world) = world(db, &library) else { return Vec::new() };
    let Some(class) = world.classes.get(at) else { return Vec::new() };
    let names = set.names().into_iter().filter(|op| !is_other(op.as_str()));
    let met = |op: Name| {
        let row = set.row(op)?;
        // a row that takes only keys does not meet the class
        let tensors = row.sig.params.iter().any(|p| !p.ty.elem.contains(&fulgurite_core::lang::Elem::Key));
        tensors.then_some(())?;
        let named = |t: &Target| matches!(t, Target::Op(of) if *of == op || *of == check::base(op));
        let way = match (world.rule(&row, class), &row.meaning) {
            (Some(Rule::Error), _) => Way::Refused(vec![op]),
            (Some(_), _) if world.own.contains_key(&(op, class.name)) => Way::Named,
            (Some(_), _) if class.rules.iter().any(|(t, _)| named(t)) => Way::Named,
            (Some(_), _) => Way::Kind,
            (None, Meaning::Decomp(body)) => {
                let of: Vec<Name> = row.sig.params.iter().map(|p| p.name.name).collect();
                match chain::dead(&world, class, body, &of) {
                    Some(dead) => Way::Refused(dead.chain),
                    None => Way::Parts,
                }
            }
            (None, _) if class.default == Rule::Error => Way::Refused(vec![op]),
            (None, _) => Way::Default,
        };
        Some(Met { op, way })
    };
    names.filter_map(met).collect()
}
