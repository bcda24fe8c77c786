//! Names in the tensor language.

use fulgurite_core::lang::{Block, Expr, Ident, Node, Pattern, Place, Span, Stmt};
use fulgurite_core::signature::const_eval;
use fulgurite_core::{DType, Name};

use super::Names;
use super::calls::{asks_about, words_of};
use super::locals::{Local, Locals};
use crate::check::walk;
use crate::diag::Diag;
use crate::yaml::Text;

impl Names<'_> {
    /// Checks a decomposition or gradient rule. `extra` are the names of results and cotangents.
    pub(super) fn tensor_block(&mut self, block: &Block, text: &Text, what: &str, extra: &[Name]) {
        Walk { names: self, text, what, extra, sizes: false, locals: Locals::default() }.block(block);
    }
}

struct Walk<'w, 'a> {
    names: &'w mut Names<'a>,
    text: &'w Text,
    what: &'w str,
    /// Results and cotangents, in rules.
    extra: &'w [Name],
    /// Whether the walk is inside a part about sizes: `S[dims]`, `all[..](S > 0)`, `..(S + 1)`.
    sizes: bool,
    locals: Locals,
}

impl Walk<'_, '_> {
    fn block(&mut self, block: &Block) {
        let depth = self.locals.depth();
        for stmt in &block.stmts {
            match stmt {
                Stmt::Let(pattern, value) => {
                    self.expr(value);
                    match pattern {
                        Pattern::Name(name) => self.bind(*name),
                        Pattern::Tuple(names) => names.iter().for_each(|name| self.bind(*name)),
                        Pattern::Axes(list, _) => {
                            let message = format!("{} of `{}` binds indices", self.what, self.names.op());
                            let diag = Diag::error("E013", self.text.at(list.span), message);
                            self.names.diags.push(diag.help("indices stand in `expr` and `view` only"));
                        }
                    }
                }
                Stmt::Write(name, value) => {
                    self.expr(value);
                    if !self.names.sig.params.contains(&name.name) {
                        let claim = format!(
                            "{} of `{}` writes `{}`, which is no argument",
                            self.what,
                            self.names.op(),
                            name.name
                        );
                        let params = self.names.sig.params.clone();
                        self.names.unknown(self.text, name.span, claim, name.name.as_str(), params);
                    }
                }
            }
        }
        self.expr(&block.value);
        let unread = self.locals.leave(depth, self.text, self.what, self.names.op());
        self.names.diags.extend(unread);
    }

    fn bind(&mut self, name: Ident) {
        let is_extra = self.extra.contains(&name.name) && self.what != "`decomp`";
        let taken = self.names.given(name.name).or(is_extra.then_some("a result or cotangent"));
        if let Some(other) = taken {
            let message = format!("`{}` is a `let` in {} of `{}`, and {other}", name.name, self.what, self.names.op());
            let diag = Diag::error("E012", self.text.at(name.span), message).here("the same name for two things");
            self.names.diags.push(diag.help("rename the `let`"));
        }
        self.locals.push(name.name, Local::Let, Some(name));
    }

    fn expr(&mut self, e: &Expr) {
        match &*e.node {
            Node::Name(name) => self.name(*name, e.span),
            Node::Zip(inner) => self.of_sizes(inner),
            Node::If(cond, yes, no) => {
                self.expr(cond);
                self.block(yes);
                self.block(no);
            }
            Node::Call(f, args) => self.call(*f, args),
            Node::Access(access) => {
                self.name(access.base.name, access.base.span);
                for place in &access.places {
                    if let Place::One(inner) | Place::Zip(inner) = place {
                        self.of_sizes(inner);
                    }
                }
            }
            Node::Reduce(reduce) => self.of_sizes(&reduce.body),
            _ if self.names.beside(e, self.text, self.what) => walk::children(e, &mut |inner| self.expr(inner)),
            _ => {}
        }
    }

    fn of_sizes(&mut self, e: &Expr) {
        let outside = std::mem::replace(&mut self.sizes, true);
        self.expr(e);
        self.sizes = outside;
    }

    fn call(&mut self, f: Ident, args: &[fulgurite_core::lang::Arg]) {
        if self.sizes {
            self.names.index_call(f, args, self.text);
            return args.iter().for_each(|arg| self.expr(&arg.value));
        }
        let candidates = self.names.tensor_call(f, args, self.text);
        for (n, arg) in args.iter().enumerate() {
            let Node::Name(name) = &*arg.value.node else {
                self.expr(&arg.value);
                continue;
            };
            if asks_about(f.name) && self.names.sig.dtypes.contains(name) {
                continue;
            }
            // a word of an option of the called row, unless the name is defined here
            let words: Vec<Name> = candidates.iter().filter_map(|row| words_of(row, args, n)).flatten().collect();
            if words.is_empty() || self.means(*name) {
                self.name(*name, arg.value.span);
            } else if !words.contains(name) {
                let claim = format!("{} of `{}` gives `{}` the word `{name}`", self.what, self.names.op(), f.name);
                self.names.unknown(self.text, arg.value.span, claim, name.as_str(), words);
            }
        }
    }

    /// Whether a name is defined here. It then counts as read.
    fn means(&mut self, name: Name) -> bool {
        let sig = &self.names.sig;
        self.locals.read(name).is_some()
            || self.names.given(name).is_some()
            || sig.sizes.contains(&name)
            || sig.dtypes.contains(&name)
            || self.extra.contains(&name)
            || const_eval::constant(name).is_some()
            || DType::from_name(name.as_str()).is_some()
    }

    fn name(&mut self, name: Name, span: Span) {
        // `dims = all`
        if self.means(name) || name == "all" {
            return;
        }
        let known = self.names.signed();
        let known: Vec<Name> = known.chain(self.extra.iter().copied()).chain(self.locals.names()).collect();
        let op = self.names.op();
        let (code, claim) = match self.what {
            "`decomp`" => ("E007", format!("{} of `{op}` reads `{name}`, which nothing binds", self.what)),
            _ => ("E409", format!("{} of `{op}` reads `{name}`, which is no argument, option or result", self.what)),
        };
        self.names.unknown_as(code, self.text, span, claim, name.as_str(), known);
    }
}
