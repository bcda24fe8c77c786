//! Tensor subclasses on the command line: `list --classes`, `explain Class`.

use std::io::Write;

use super::load::Loaded;
use super::paint::Paint;
use super::{Common, FINE, Outcome};
use crate::explain::classes::{self, ExplainedClass};
use crate::explain::meets;

/// The class with this name, explained, if the database has one.
pub(super) fn find(loaded: &Loaded, name: &str) -> Option<ExplainedClass> {
    let at = loaded.database.classes.iter().position(|class| class.class == name)?;
    let met = meets::meets(&loaded.database, &loaded.checked.rows, &loaded.upstream, at);
    Some(classes::class(&loaded.database.classes[at], met, &loaded.sources))
}

/// Lists the classes, with the rows that make their tensors.
pub(super) fn list(
    loaded: &Loaded,
    common: &Common,
    paint: &Paint,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Outcome {
    if loaded.database.classes.is_empty() && !common.quiet && !common.json {
        writeln!(err, "note: `{}` has no tensor subclasses", loaded.files.rows.path.display())?;
    }
    for class in &loaded.database.classes {
        let Some(explained) = find(loaded, class.class.as_str()) else { continue };
        if common.json {
            writeln!(out, "{}", explained.json())?;
            continue;
        }
        writeln!(out, "{}{}\n    {}", paint.verb(&explained.class), explained.sig, explained.doc)?;
        for (row, doc) in &explained.from {
            writeln!(out, "    {row}\n      {}", paint.faint(doc))?;
        }
    }
    Ok(FINE)
}
