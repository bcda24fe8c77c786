//! `op!`: rows written where they are used.
//!
//! The tokens become the text of a small database, so that one reader and one checker serve files and macros; the place
//! of a diagnostic is mapped back to its tokens.

use fulgurite_codegen::diag::{Diag, Level};
use fulgurite_codegen::emit::{Artifacts, Target, names};
use fulgurite_codegen::pipeline;
use proc_macro2::{Delimiter, Ident, Span, TokenStream, TokenTree};
use quote::{format_ident, quote, quote_spanned};
use syn::{Error, Result};

/// Expands `"path/of/upstream/ops.yaml" rows`.
pub fn expand(input: TokenStream) -> TokenStream {
    rows(input).unwrap_or_else(Error::into_compile_error)
}

fn rows(input: TokenStream) -> Result<TokenStream> {
    let mut tokens = input.into_iter().peekable();
    let here = Span::call_site();
    let Some(TokenTree::Literal(path)) = tokens.next() else {
        return Err(Error::new(here, "`op!` is called through `fulgurite::op!`"));
    };
    let path = path.to_string().trim_matches('"').to_owned();
    let upstream = std::fs::read_to_string(&path)
        .map_err(|e| Error::new(here, format!("can't read the upstream database {path}: {e}")))?;
    let upstream = pipeline::read_rows(&upstream, &path).map_err(|e| Error::new(here, e))?;
    let mut text = Text { yaml: "ops:\n".into(), places: Vec::new() };
    let mut first: Option<Ident> = None;
    while tokens.peek().is_some() {
        let name = row(&mut tokens, &mut text)?;
        first.get_or_insert(name);
    }
    let Some(first) = first else { return Err(Error::new(here, "`op!` needs at least one row")) };
    let compiled = pipeline::compile(&text.yaml, "op!", &upstream).map_err(|refused| {
        let errors = refused.diagnostics.sorted().into_iter().filter(|d| d.level == Level::Error);
        let all = errors.map(|d| text.error(d, &first)).reduce(|mut all, e| {
            all.combine(e);
            all
        });
        all.unwrap_or_else(|| Error::new(first.span(), "this is a bug in fulgurite: rows are refused without a reason"))
    })?;
    let krate = std::env::var("CARGO_CRATE_NAME").unwrap_or_else(|_| "op".into());
    let mut target = Target::downstream(&krate);
    target.methods = names::camel(&first.to_string()) + "Ops";
    let code = Artifacts::emit(&target, &compiled.rows, &compiled.parts(), &compiled.table()).inline();
    let code: TokenStream = code.parse().map_err(|e| {
        Error::new(first.span(), format!("this is a bug in fulgurite: the code made of these rows does not lex: {e}"))
    })?;
    let module = format_ident!("__fulgurite_{first}");
    let methods = format_ident!("{}", target.methods);
    Ok(quote! {
        #[doc(hidden)]
        mod #module {
            #code
            ::fulgurite::register!(DATABASE);
        }
        pub use #module::ops::*;
        pub use #module::#methods;
    })
}

/// The text of the database, with the token that each byte comes from.
struct Text {
    yaml: String,
    places: Vec<(usize, Span)>,
}

impl Text {
    /// A diagnostic at its tokens; at `otherwise` if it has none.
    fn error(&self, d: &Diag, otherwise: &Ident) -> Error {
        let at = (d.primary.place.start as usize, d.primary.place.end as usize);
        let first = self.places.iter().take_while(|(start, _)| *start <= at.0).last();
        let inside = self.places.iter().skip_while(|(start, _)| *start <= at.0).take_while(|(start, _)| *start < at.1);
        // The words are never shown: an error covers everything between its first and its last token.
        let tokens: TokenStream = first.into_iter().chain(inside).map(|(_, s)| quote_spanned!(*s=> x)).collect();
        let label = Some(&d.primary.text).filter(|t| !t.is_empty()).map(|t| format!(": {t}")).unwrap_or_default();
        let notes: String = d.notes.iter().map(|n| format!("\n= {n}")).collect();
        let help = d.help.as_ref().map(|h| format!("\n= help: {h}")).unwrap_or_default();
        let message = format!("{}: {}{label}{notes}{help}", d.code, d.message);
        if tokens.is_empty() { Error::new(otherwise.span(), message) } else { Error::new_spanned(tokens, message) }
    }

    fn token(&mut self, tree: TokenTree) {
        match tree {
            TokenTree::Group(g) => {
                let (open, close) = match g.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                self.places.push((self.yaml.len(), g.span_open()));
                self.yaml += open;
                for inner in g.stream() {
                    self.token(inner);
                }
                self.places.push((self.yaml.len(), g.span_close()));
                self.yaml += close;
                self.yaml.push(' ');
            }
            TokenTree::Punct(p) => {
                self.places.push((self.yaml.len(), p.span()));
                self.yaml.push(p.as_char());
                if p.spacing() == proc_macro2::Spacing::Alone {
                    self.yaml.push(' ');
                }
            }
            other => {
                self.places.push((self.yaml.len(), other.span()));
                self.yaml += &other.to_string();
                self.yaml.push(' ');
            }
        }
    }

    fn value(&mut self, key: &str, tokens: Vec<TokenTree>) {
        self.yaml += &format!("  {key}: |\n    ");
        for t in tokens {
            self.token(t);
        }
        self.yaml.push('\n');
    }
}

type Tokens = std::iter::Peekable<proc_macro2::token_stream::IntoIter>;

fn row(tokens: &mut Tokens, text: &mut Text) -> Result<Ident> {
    let mut doc = String::new();
    while matches!(tokens.peek(), Some(TokenTree::Punct(p)) if p.as_char() == '#') {
        tokens.next();
        if let Some(TokenTree::Group(g)) = tokens.next()
            && let Some(TokenTree::Literal(l)) = g.stream().into_iter().nth(2)
        {
            doc += l.to_string().trim_matches('"');
        }
    }
    let name = match tokens.next() {
        Some(TokenTree::Ident(name)) => name,
        other => {
            let span = other.map_or(Span::call_site(), |t| t.span());
            let claim = "a row begins with its name: `huber(x: T, y: T; delta: f64 = 1.0) -> T`";
            return Err(Error::new(span, claim));
        }
    };
    let doc = doc.trim().trim_end_matches('.').replace('\'', "\u{2019}");
    let doc = if doc.is_empty() { name.to_string() } else { doc };
    text.places.push((text.yaml.len(), name.span()));
    text.yaml += &format!("- op: {name}\n  doc: '{doc}'\n");
    text.value("sig", until_comma(tokens));
    while let Some(TokenTree::Ident(key)) = tokens.peek().cloned() {
        // A key is followed by a colon, the name of the next row by its arguments.
        let mut ahead = tokens.clone();
        ahead.next();
        if !matches!(ahead.peek(), Some(TokenTree::Punct(p)) if p.as_char() == ':') {
            break;
        }
        tokens.next();
        tokens.next();
        let mut value = until_comma(tokens);
        // `expr: { … }`: the braces contain the block.
        if let [TokenTree::Group(g)] = value.as_slice()
            && g.delimiter() == Delimiter::Brace
            && matches!(key.to_string().as_str(), "expr" | "view" | "decomp")
        {
            value = g.stream().into_iter().collect();
        }
        text.places.push((text.yaml.len(), key.span()));
        match key.to_string().as_str() {
            "grad" | "jvp" | "require" | "at" => map(&key.to_string(), value, "  ", text)?,
            // The range of numbers for which the formula is meant: `domain: { x: "0.1..100" }`.
            "domain" => {
                text.yaml += "  tests:\n";
                map("domain", value, "    ", text)?
            }
            plain => text.value(plain, value),
        }
    }
    Ok(name)
}

/// `grad: { x: g * y, y: g * x }`, `require: { size(S) > 0: "needs an element" }`
fn map(key: &str, value: Vec<TokenTree>, indent: &str, text: &mut Text) -> Result<()> {
    let (what, form) = match key {
        "require" => ("condition", "{ size(S) > 0: \"needs an element\" }"),
        "domain" => ("name", "{ x: \"0..1\" }"),
        _ => ("name", "{ x: …, y: … }"),
    };
    let [TokenTree::Group(g)] = value.as_slice() else {
        let whole: TokenStream = value.into_iter().collect();
        return Err(Error::new_spanned(whole, format!("`{key}` has an entry for each {what}: `{key}: {form}`")));
    };
    text.yaml += &format!("{indent}{key}:\n");
    let mut tokens = g.stream().into_iter().peekable();
    while tokens.peek().is_some() {
        let entry = until_comma(&mut tokens);
        let Some(colon) = entry.iter().rposition(|t| matches!(t, TokenTree::Punct(p) if p.as_char() == ':')) else {
            let entry: TokenStream = entry.into_iter().collect();
            return Err(Error::new_spanned(entry, format!("an entry of `{key}` has the form `name: …`")));
        };
        if let [TokenTree::Literal(quoted)] = &entry[..colon] {
            let plain = quoted.to_string().trim_matches('"').to_owned();
            return Err(Error::new_spanned(quoted, format!("a {what} is written without quotes: `{plain}: …`")));
        }
        text.yaml += &format!("{indent}  '");
        for t in &entry[..colon] {
            text.token(t.clone());
        }
        text.yaml.truncate(text.yaml.trim_end().len());
        text.yaml += &format!("': |\n{indent}    ");
        for t in &entry[colon + 1..] {
            match t {
                TokenTree::Literal(l) if matches!(key, "require" | "domain") => {
                    text.yaml += l.to_string().trim_matches('"')
                }
                t => text.token(t.clone()),
            }
        }
        text.yaml.push('\n');
    }
    Ok(())
}

fn until_comma(tokens: &mut Tokens) -> Vec<TokenTree> {
    let mut out = Vec::new();
    for t in tokens.by_ref() {
        if matches!(&t, TokenTree::Punct(p) if p.as_char() == ',') {
            break;
        }
        out.push(t);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_stand_without_quotes() {
        let value: TokenStream = r#"{ "eps > 0": "eps must be positive" }"#.parse().expect("tokens");
        let mut text = Text { yaml: String::new(), places: Vec::new() };
        let fault = map("require", value.into_iter().collect(), "  ", &mut text).expect_err("a quoted condition");
        assert_eq!(fault.to_string(), "a condition is written without quotes: `eps > 0: …`");
    }
}
