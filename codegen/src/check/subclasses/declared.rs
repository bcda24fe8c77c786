//! E007, E008, E009, E102, E602: the declarations of a class. It stands for one tensor, of sizes and a dtype that its
//! parts bind. Every field is read, and the rows under `from` make tensors of it.

use fulgurite_core::lang::ast::{Access, Block, DimKind, Sig};
use fulgurite_core::lang::parse_rule;
use fulgurite_core::lower::Rows;
use fulgurite_core::{DType, DTypeSet, Name};
use rustc_hash::FxHashSet;

use super::scope::words;
use super::texts::Checks;
use crate::check::{names, walk};
use crate::diag::Diag;
use crate::schema::{Body, ClassSource, RowSource};
use crate::yaml::Text;

impl Checks<'_> {
    /// Checks the name, the signature and the rows of the class.
    pub(super) fn declared(&mut self) {
        let class = self.class;
        if let Some(other) = self.db.upstream.iter().find(|other| other.class.text == class.class.text) {
            let claim = format!("there are two classes `{}`", other.class.as_str());
            let diag = Diag::error("E008", class.class.place, claim).here("the other is of a database that is used");
            self.diags.push(diag.help("call it by another name"));
        }
        self.stands_for();
        for (at, row) in class.from.iter().enumerate() {
            self.maker(row, &class.from[..at]);
        }
    }

    /// Checks that the class stands for one tensor, and that its parts bind the names in the type of that.
    fn stands_for(&mut self) {
        let rule = &self.class.sig;
        let sig = &rule.tree;
        let [out] = sig.outs.as_slice() else {
            let claim =
                format!("`sig` of `{}` has {} results: a class stands for one tensor", self.name(), sig.outs.len());
            let diag = Diag::error("E602", rule.text.place, claim);
            return self.diags.push(diag.help("write `(fields; metadata) -> T[..S]`, the type that programs see"));
        };
        if let Some(field) = sig.params.iter().find(|param| param.access != Access::Read) {
            let claim = format!("the field `{}` of `{}` is `{}`", field.name.name, self.name(), field);
            let diag = Diag::error("E602", rule.text.at(field.name.span), claim);
            self.diags.push(diag.help("fields are read: leave `mut` and `like` out"));
        }
        let bound = words(&Sig { outs: Vec::new(), aux: Vec::new(), ..sig.clone() });
        let mut named: Vec<Name> = Vec::new();
        walk::ty(&out.ty, &mut |name| named.push(name));
        let computed = |name: Name| {
            let dims = out.ty.dims.iter().flatten();
            dims.into_iter().any(|dim| matches!(&dim.kind, DimKind::One { name: Some(own), .. } if own.name == name))
        };
        let known = |name: Name| {
            let text = name.as_str();
            let class = DType::from_name(text).is_some() || DTypeSet::from_class(text).is_some();
            bound.contains(&name) || class || !text.starts_with(char::is_uppercase) || computed(name)
        };
        if let Some(name) = named.into_iter().find(|name| !known(*name)) {
            let claim = format!("`sig` of `{}` names `{name}` in what programs see, and nothing binds it", self.name());
            let diag = Diag::error("E102", rule.text.at(out.ty.span), claim);
            self.diags.push(
                diag.help("a field binds sizes and dtypes by its type, metadata by `Size(N)`, `Shape(S)`, `Dtype(U)`"),
            );
        }
    }

    /// E009: a field that no text reads.
    pub(super) fn unread(&mut self) {
        let class = self.class;
        let whole = |text: &Text| matches!(text.as_str(), "each" | "placed");
        if class.ops.iter().map(|(_, rule)| rule).chain(&class.default).any(whole)
            || class.read.as_ref().is_some_and(|read| *read == "equal")
        {
            return;
        }
        let read = parts_read(class);
        let sig = &class.sig.tree;
        let out = words(&Sig { params: Vec::new(), opts: Vec::new(), ..sig.clone() });
        // metadata may be unread, because programs read them too
        for name in sig.params.iter().map(|param| param.name) {
            if read.contains(name.name.as_str()) || out.contains(&name.name) {
                continue;
            }
            let claim = format!("`{}` has a field `{}` that no text of it reads", class.class.as_str(), name.name);
            let diag = Diag::error("E009", class.sig.text.at(name.span), claim);
            self.diags.push(diag.help("read it in `plain` or a rule, or leave it out"));
        }
    }

    /// Checks a row that makes tensors of the class.
    fn maker(&mut self, row: &RowSource, before: &[RowSource]) {
        let class = self.class.class.as_str();
        let others =
            self.db.classes.iter().take_while(|c| c.class.place != self.class.class.place).flat_map(|c| &c.from);
        let twice = self.set.row(row.name()).is_some() || others.chain(before).any(|other| other.name() == row.name());
        if twice {
            let diag = Diag::error("E008", row.op.place, format!("there are two rows `{}`", row.op.as_str()));
            self.diags.push(diag.here("here again").help("call it by another name"));
        }
        if !matches!(row.body, Body::Decomp(_)) {
            return;
        }
        let open = row.sig.tree.outs.iter().all(|out| {
            out.ty
                .dims
                .as_ref()
                .is_some_and(|dims| matches!(dims.as_slice(), [dim] if matches!(dim.kind, DimKind::Body)))
        });
        if !open {
            let claim = format!(
                "`{}` stands under `from` of `{class}`, and its result is no tensor of a class",
                row.op.as_str()
            );
            let at = row.sig.tree.outs.first().map_or(row.sig.text.place, |out| row.sig.text.at(out.ty.span));
            return self
                .diags
                .push(Diag::error("E602", at, claim).help("write `-> T[_]`: the type that the class gives"));
        }
        // the name of a class makes tensors of it, and words of its metadata are names too
        let classes = || self.db.classes.iter().chain(&self.db.upstream);
        let names = classes().map(|c| Name::new(c.class.as_str()));
        let known = names.chain(classes().flat_map(|c| words(&c.sig.tree))).collect();
        let mut faults = names::check_beside(row, self.set, &known);
        faults.retain(|diag| !matches!(diag.code, "E009" | "E114"));
        faults.into_iter().for_each(|diag| self.diags.push(diag));
    }
}

/// The parts that texts of the class read, without the argument's name.
fn parts_read(class: &ClassSource) -> FxHashSet<&'static str> {
    let mut read = FxHashSet::default();
    let mut look = |block: &Block| {
        walk::names(block, &mut |name| {
            let name = name.as_str();
            read.insert(name.rsplit_once('.').map_or(name, |(_, part)| part));
        });
    };
    let texts = class
        .ops
        .iter()
        .map(|(_, rule)| rule)
        .chain(&class.default)
        .chain(&class.cotangent)
        .chain(class.error.iter().map(|(_, text)| text));
    texts.filter_map(|text| parse_rule(text.as_str()).ok()).for_each(|block| look(&block));
    look(&class.plain.tree);
    class.grad.iter().flat_map(|(_, args)| args).for_each(|(_, rule)| look(&rule.tree));
    read
}
