//! E202: an index of an element is an integer.

use fulgurite_core::DTypeSet;
use fulgurite_core::lang::{Elem, Expr, Node, Param, Place};
use fulgurite_core::signature::{Env, const_eval};

use super::walk;
use crate::diag::Diag;
use crate::schema::{Body, RowSource};
use crate::yaml::Text;

/// The first index in a row's body that is read from a tensor which may hold fractions.
pub fn check(source: &RowSource) -> Option<Diag> {
    let (Body::Expr(rule) | Body::View(rule)) = &source.body else { return None };
    walk::first(&rule.tree, &mut |e| {
        let Node::Access(access) = &*e.node else { return None };
        access.places.iter().find_map(|place| match place {
            Place::One(index) => fraction(source, index, &rule.text),
            _ => None,
        })
    })
}

fn fraction(source: &RowSource, e: &Expr, text: &Text) -> Option<Diag> {
    let read = match &*e.node {
        // a cast rounds; the condition of an `if` only chooses
        Node::Cast(..) => return None,
        Node::If(_, yes, no) => {
            return [yes, no].into_iter().find_map(|block| fraction(source, &block.value, text));
        }
        Node::Binary(_, a, b) => return fraction(source, a, text).or_else(|| fraction(source, b, text)),
        Node::Unary(_, a) => return fraction(source, a, text),
        Node::Call(_, args) => return args.iter().find_map(|arg| fraction(source, &arg.value, text)),
        Node::Access(access) => access.base.name,
        Node::Name(name) => *name,
        _ => return None,
    };
    let param = source.sig.tree.params.iter().find(|param| param.name.name == read)?;
    if counts(source, param) {
        return None;
    }
    let message = format!("`{}` looks up elements by those of `{read}`, which may be fractions", source.op.as_str());
    let diag = Diag::error("E202", text.at(e.span), message).here("an index is an integer");
    let diag = diag.label(source.sig.text.at(param.ty.span), "of this type");
    Some(diag.help(format!("say `{read}: Index[…]` in `sig`, or cast: `as i64`")))
}

/// Whether all elements of an argument are integers.
fn counts(source: &RowSource, param: &Param) -> bool {
    let whole = |set: DTypeSet| set.iter().all(|dtype| dtype.is_int());
    param.ty.elem.iter().all(|elem| match elem {
        Elem::Index => true,
        Elem::Class(class) => DTypeSet::from_class(class.as_str()).is_some_and(whole),
        _ => {
            let dtypes = source.dtypes.as_ref();
            dtypes.is_some_and(|rule| const_eval::dtype_set(&Env::default(), &rule.tree).is_ok_and(whole))
        }
    })
}
