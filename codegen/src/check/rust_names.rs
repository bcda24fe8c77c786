//! E012: two rows have one name in Rust. All rows' items stand in one module, without dots and without `_` at the
//! start of a part: `torch.a` and `torch._a` are both `torch_a` there.

use fulgurite_core::Name;
use fulgurite_core::lang::{OptType, Sig};
use rustc_hash::FxHashMap;

use crate::diag::Diag;
use crate::emit::{api, names};
use crate::schema::RowSource;

/// One fault for each row whose items have the name of another row's item, or of a type.
pub(super) fn check(rows: &[RowSource]) -> Vec<(&RowSource, Diag)> {
    let mut taken: FxHashMap<String, &RowSource> = FxHashMap::default();
    let mut faults = Vec::new();
    for source in rows {
        let items = items(source.op.as_str(), &source.sig.tree);
        if let Some((item, other)) = items.iter().find_map(|item| Some((item, *taken.get(item)?))) {
            let message = format!("`{}` and `{}` are both `{item}` in Rust", other.op.as_str(), source.op.as_str());
            let diag = Diag::error("E012", source.op.place, message).here("second here");
            faults.push((source, diag.label(other.op.place, "first here").help("rename one of them")));
        } else if let Some(item) = items.iter().find(|item| api::TYPES.split_whitespace().any(|ty| ty == item.as_str()))
        {
            let message = format!("`{}` can't be the name of a row with options", source.op.as_str());
            let diag = Diag::error("E012", source.op.place, message).here(format!("Rust has a type `{item}`"));
            faults.push((source, diag.help("rename the row")));
        }
        taken.extend(items.into_iter().map(|item| (item, source)));
    }
    faults
}

/// The items of a row: its file and static, its functions, its types. An overload has no function, because it is
/// called by the name before its dot.
fn items(op: &str, sig: &Sig) -> Vec<String> {
    let mut items = vec![names::stem(Name::new(op)).to_ascii_lowercase()];
    if op.contains('.') && names::library(op).is_none() {
        return items;
    }
    let function = names::flat(op);
    if sig.opts.iter().any(|opt| opt.optional || opt.default.is_some()) {
        items.push(format!("{function}_with"));
        items.push(names::camel(&function));
    }
    let words = sig.opts.iter().filter(|opt| matches!(opt.ty, OptType::Enum(_)));
    items.extend(words.map(|opt| names::camel(op) + &names::camel(opt.name.name.as_str())));
    items.push(function);
    items
}
