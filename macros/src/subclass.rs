//! `#[derive(TensorSubclass)]`: makes the texts of a class from a struct, equal to those of an entry of `subclasses:`.

use fulgurite_core::subclass::{Class, ClassText};
use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Error, Fields, Ident, LitInt, LitStr, Result, Token, Type, parenthesized};

/// The implementation for a struct.
pub fn derive(item: TokenStream) -> Result<TokenStream> {
    let input: DeriveInput = syn::parse2(item)?;
    if let Some(param) = input.generics.params.first() {
        return Err(Error::new(param.span(), "a tensor subclass has no parameters: its tensors say what they hold"));
    }
    let parts = parts(&input)?;
    let mut given = Given::default();
    for attr in input.attrs.iter().filter(|a| a.path().is_ident("subclass")) {
        let entries = attr.parse_args_with(Punctuated::<Entry, Token![,]>::parse_terminated)?;
        entries.into_iter().try_for_each(|entry| given.take(entry))?;
    }
    let texts = Texts::new(&input, &parts, &given);
    texts.check(&input, &given)?;
    let class = texts.tokens(&given);
    let name = &input.ident;
    let values = parts.iter().map(Part::value);
    let reads = parts.iter().map(Part::read);
    let krate = quote!(::fulgurite::subclass);
    let made = match &given.rule {
        Some(path) => quote! {
            #krate::Subclass::ruled(env!("CARGO_PKG_NAME"), #class, {
                static RULE: #krate::Rule = #krate::Rule::new(#path);
                &RULE
            })
        },
        None => quote!(#krate::Subclass::new(env!("CARGO_PKG_NAME"), #class)),
    };
    Ok(quote! {
        const _: () = {
            static CLASS: #krate::Subclass = #made;
            ::fulgurite::__inventory::submit! { &CLASS as ::fulgurite::symbol::SubclassRef }

            impl ::core::convert::From<#name> for ::fulgurite::Tensor {
                #[track_caller]
                fn from(of: #name) -> ::fulgurite::Tensor {
                    #krate::make(&CLASS, ::std::vec![#(#values),*])
                }
            }
            impl ::core::convert::TryFrom<&::fulgurite::Tensor> for #name {
                type Error = ::fulgurite::Error;
                #[track_caller]
                fn try_from(tensor: &::fulgurite::Tensor) -> ::core::result::Result<#name, ::fulgurite::Error> {
                    let parts = #krate::parts(tensor)?;
                    ::core::result::Result::Ok(#name { #(#reads),* })
                }
            }
        };
    })
}

/// The role of a struct's field in the class.
enum Kind {
    Field { ty: Option<LitStr>, list: bool, optional: bool },
    Meta { ty: String, optional: bool },
}

struct Part {
    name: Ident,
    kind: Kind,
}

impl Part {
    fn value(&self) -> TokenStream {
        let name = &self.name;
        let krate = quote!(::fulgurite);
        match &self.kind {
            Kind::Field { list: true, .. } => quote!(#krate::api::list(&of.#name)),
            Kind::Field { optional: true, .. } => quote!(#krate::api::optional(of.#name.as_ref())),
            Kind::Field { .. } => quote!(#krate::core::Value::Tensor(of.#name)),
            Kind::Meta { optional: true, .. } => {
                quote!(of.#name.map_or(#krate::core::Value::Absent, #krate::subclass::Meta::value))
            }
            Kind::Meta { .. } => quote!(#krate::subclass::Meta::value(of.#name)),
        }
    }

    fn read(&self) -> TokenStream {
        let (name, text) = (&self.name, self.name.to_string());
        match &self.kind {
            Kind::Field { list: true, .. } => quote!(#name: parts.list(#text)),
            Kind::Field { optional: true, .. } => quote!(#name: parts.optional(#text)),
            Kind::Field { .. } => quote!(#name: parts.field(#text)?),
            Kind::Meta { optional: true, .. } => quote!(#name: parts.meta(#text).ok()),
            Kind::Meta { .. } => quote!(#name: parts.meta(#text)?),
        }
    }

    /// The part in the notation of the signature.
    fn sig(&self) -> String {
        let name = &self.name;
        match &self.kind {
            Kind::Field { ty, list, optional } => {
                let ty = ty.as_ref().map_or_else(|| "T[..S]".to_owned(), LitStr::value);
                let ty = if *list { format!("List<{ty}>") } else { ty };
                format!("{name}: {ty}{}", if *optional { "?" } else { "" })
            }
            Kind::Meta { ty, optional } => format!("{name}: {ty}{}", if *optional { "?" } else { "" }),
        }
    }
}

fn parts(input: &DeriveInput) -> Result<Vec<Part>> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(input.ident.span(), "a tensor subclass is a struct: its fields, its metadata"));
    };
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new(
            input.ident.span(),
            "the fields of a tensor subclass have names, by which rules call them",
        ));
    };
    let mut parts = Vec::new();
    for field in &fields.named {
        let Some(name) = field.ident.clone() else { continue };
        let marks: Vec<&Attribute> =
            field.attrs.iter().filter(|a| a.path().is_ident("field") || a.path().is_ident("meta")).collect();
        let [mark] = marks.as_slice() else {
            return Err(Error::new(
                field.span(),
                "mark it `#[field]`, a tensor, or `#[meta]`, what is the same in every call",
            ));
        };
        let written = match &mark.meta {
            syn::Meta::Path(_) => None,
            _ => Some(mark.parse_args::<LitStr>()?),
        };
        let (outer, inner) = generic(&field.ty);
        let kind = if mark.path().is_ident("field") {
            let (list, optional) = (outer == "Vec", outer == "Option");
            if !(list || optional || outer == "Tensor") {
                return Err(Error::new(
                    field.ty.span(),
                    "a field is a `Tensor`, an `Option<Tensor>` or a `Vec<Tensor>`",
                ));
            }
            Kind::Field { ty: written, list, optional }
        } else {
            let optional = outer == "Option";
            let rust = if optional { inner.clone().unwrap_or_default() } else { full(&field.ty) };
            let ty = match (written, rust.as_str()) {
                (Some(written), _) => written.value(),
                (None, "i64" | "f64" | "bool") => rust,
                (None, "String") => "Str".to_owned(),
                (None, "DType") => "Dtype(U)".to_owned(),
                _ => {
                    let what = "metadata is `i64`, `f64`, `bool`, `String` or `DType`, or says its type in the language of signatures: `#[meta(\"…\")]`";
                    return Err(Error::new(field.ty.span(), what));
                }
            };
            Kind::Meta { ty, optional }
        };
        parts.push(Part { name, kind });
    }
    parts.sort_by_key(|p| matches!(p.kind, Kind::Meta { .. }));
    if !parts.iter().any(|p| matches!(p.kind, Kind::Field { .. })) {
        return Err(Error::new(input.ident.span(), "a tensor subclass has at least one `#[field]`"));
    }
    Ok(parts)
}

/// The name and the first argument of a type: `Vec` and `Tensor` for `Vec<Tensor>`.
fn generic(ty: &Type) -> (String, Option<String>) {
    let Type::Path(path) = ty else { return (String::new(), None) };
    let Some(last) = path.path.segments.last() else { return (String::new(), None) };
    let inner = match &last.arguments {
        syn::PathArguments::AngleBracketed(args) => args.args.first().map(full),
        _ => None,
    };
    (last.ident.to_string(), inner)
}

fn full(ty: &impl quote::ToTokens) -> String {
    let text = ty.to_token_stream().to_string().replace(' ', "");
    text.rsplit("::").next().unwrap_or_default().to_owned()
}

/// An entry of `#[subclass(…)]`.
enum Entry {
    /// `key = "text"`, `key = 1`, `key`
    One(Ident, Option<LitStr>),
    /// `ops(add = "…", "class(view)" = "each")`
    Ops(Vec<(LitStr, LitStr)>),
    /// `grad(mm(a = "…", b = "…"))`
    Grad(Vec<(LitStr, Vec<(LitStr, LitStr)>)>),
    /// `rule = path`
    Rule(syn::Path),
}

impl Parse for Entry {
    fn parse(input: ParseStream) -> Result<Entry> {
        let key: Ident = input.parse()?;
        if key == "ops" {
            return Ok(Entry::Ops(rules(input)?));
        }
        if key == "grad" {
            let inner;
            parenthesized!(inner in input);
            let one = |p: ParseStream| Ok((word(p)?, rules(p)?));
            return Ok(Entry::Grad(inner.parse_terminated(one, Token![,])?.into_iter().collect()));
        }
        if !input.peek(Token![=]) {
            return Ok(Entry::One(key, None));
        }
        input.parse::<Token![=]>()?;
        if key == "rule" {
            return Ok(Entry::Rule(input.parse()?));
        }
        if input.peek(LitInt) {
            let number: LitInt = input.parse()?;
            return Ok(Entry::One(key, Some(LitStr::new(&number.to_string(), number.span()))));
        }
        Ok(Entry::One(key, Some(input.parse()?)))
    }
}

/// An operator: a name, or a text for several operators or for a kind.
fn word(input: ParseStream) -> Result<LitStr> {
    if input.peek(LitStr) {
        return input.parse();
    }
    let name: Ident = syn::ext::IdentExt::parse_any(input)?;
    Ok(LitStr::new(&name.to_string(), name.span()))
}

fn rules(input: ParseStream) -> Result<Vec<(LitStr, LitStr)>> {
    let inner;
    parenthesized!(inner in input);
    let one = |p: ParseStream| {
        let op = word(p)?;
        p.parse::<Token![=]>()?;
        Ok((op, p.parse()?))
    };
    Ok(inner.parse_terminated(one, Token![,])?.into_iter().collect())
}

/// The entries of `#[subclass(…)]`.
#[derive(Default)]
struct Given {
    texts: Vec<(Ident, LitStr)>,
    ops: Vec<(LitStr, LitStr)>,
    grad: Vec<(LitStr, Vec<(LitStr, LitStr)>)>,
    through: bool,
    rule: Option<syn::Path>,
}

/// Keys with one text.
const KEYS: [&str; 9] = ["outer", "plain", "default", "cotangent", "read", "precedence", "rel", "abs", "when"];

impl Given {
    fn take(&mut self, entry: Entry) -> Result<()> {
        match entry {
            Entry::Ops(ops) => self.ops.extend(ops),
            Entry::Grad(grad) => self.grad.extend(grad),
            Entry::Rule(path) => self.rule = Some(path),
            Entry::One(key, None) if key == "through" => self.through = true,
            Entry::One(key, Some(text)) if KEYS.iter().any(|k| key == *k) => self.texts.push((key, text)),
            Entry::One(key, _) => {
                let keys = format!("{}, ops(…), grad(…), through, rule", KEYS.join(", "));
                return Err(Error::new(key.span(), format!("`{key}` is no key of a subclass; its keys are {keys}")));
            }
        }
        Ok(())
    }

    fn text(&self, key: &str) -> String {
        self.texts.iter().find(|(k, _)| k == key).map(|(_, t)| t.value()).unwrap_or_default()
    }

    fn span(&self, text: &str) -> Option<Span> {
        let ops = self.ops.iter().map(|(_, t)| t);
        let grads = self.grad.iter().flat_map(|(_, args)| args.iter().map(|(_, t)| t));
        let mut all = self.texts.iter().map(|(_, t)| t).chain(ops).chain(grads);
        all.find(|t| t.value() == text).map(LitStr::span)
    }
}

struct Texts {
    name: String,
    doc: String,
    sig: String,
    plain: String,
}

impl Texts {
    fn new(input: &DeriveInput, parts: &[Part], given: &Given) -> Texts {
        let of = |meta: bool| -> String {
            let some = parts.iter().filter(|p| matches!(p.kind, Kind::Meta { .. }) == meta);
            some.map(Part::sig).collect::<Vec<_>>().join(", ")
        };
        let (fields, meta) = (of(false), of(true));
        let outer = Some(given.text("outer")).filter(|t| !t.is_empty()).unwrap_or_else(|| "T[..S]".to_owned());
        let meta = if meta.is_empty() { meta } else { format!("; {meta}") };
        let first = parts.first().map(|p| p.name.to_string()).unwrap_or_default();
        let plain = Some(given.text("plain")).filter(|t| !t.is_empty()).unwrap_or(first);
        let doc = input.attrs.iter().filter(|a| a.path().is_ident("doc")).find_map(|a| match &a.meta {
            syn::Meta::NameValue(v) => match &v.value {
                syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(s), .. }) => Some(s.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        });
        let sig = format!("({fields}{meta}) -> {outer}");
        Texts { name: input.ident.to_string(), doc: doc.unwrap_or_default(), sig, plain }
    }

    /// Parses every text, so that a fault is reported at the user's own line.
    fn check(&self, input: &DeriveInput, given: &Given) -> Result<()> {
        let leak = |s: &str| -> &'static str { Box::leak(s.to_owned().into_boxed_str()) };
        let pair = |(a, b): &(LitStr, LitStr)| (leak(&a.value()), leak(&b.value()));
        let ops: Vec<_> = given.ops.iter().map(pair).collect();
        let grad: Vec<(&str, &[(&str, &str)])> = given
            .grad
            .iter()
            .map(|(op, args)| (leak(&op.value()), &*Vec::leak(args.iter().map(pair).collect())))
            .collect();
        let text = ClassText {
            class: leak(&self.name),
            sig: leak(&self.sig),
            plain: leak(&self.plain),
            ops: Vec::leak(ops),
            grad: Vec::leak(grad),
            default: leak(&given.text("default")),
            cotangent: leak(&given.text("cotangent")),
            error: (leak(&given.text("rel")), leak(&given.text("abs"))),
            when: leak(&given.text("when")),
            ..ClassText::BLANK
        };
        Class::parse(&text).map(drop).map_err(|fault| {
            let span = given.span(&fault.text).unwrap_or_else(|| input.ident.span());
            Error::new(span, format!("`{}`: {}", fault.key, fault.error))
        })
    }

    fn tokens(&self, given: &Given) -> TokenStream {
        let Texts { name, doc, sig, plain } = self;
        let pair = |(a, b): &(LitStr, LitStr)| quote!((#a, #b));
        let ops = given.ops.iter().map(pair);
        let grad = given.grad.iter().map(|(op, args)| {
            let args = args.iter().map(pair);
            quote!((#op, &[#(#args),*]))
        });
        let [default, cotangent, read, precedence, rel, abs, when] =
            ["default", "cotangent", "read", "precedence", "rel", "abs", "when"].map(|key| given.text(key));
        let through = given.through;
        quote! {
            ::fulgurite::subclass::ClassText {
                class: #name, doc: #doc, sig: #sig, plain: #plain, ops: &[#(#ops),*], default: #default,
                grad: &[#(#grad),*], cotangent: #cotangent, through: #through, read: #read,
                precedence: #precedence, error: (#rel, #abs), when: #when, file: file!(), line: line!(),
            }
        }
    }
}
