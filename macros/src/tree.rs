//! `#[derive(Tree)]`: the three methods of `fulgurite::tree::Tree`, field by field.
//!
//! Every use of a field's type carries the span of that type, and names the trait in one way, so that a field that is
//! not a tree is one error, at the field.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, GenericParam, Index, Result, Type};

/// The implementation for an item.
pub fn derive(item: TokenStream) -> Result<TokenStream> {
    let mut input: DeriveInput = syn::parse2(item)?;
    refuse_attributes(&input)?;
    for param in &mut input.generics.params {
        if let GenericParam::Type(t) = param {
            t.bounds.push(syn::parse_quote!(::fulgurite::tree::Tree));
        }
    }
    let variants = variants(&input)?;
    let is_enum = matches!(input.data, Data::Enum(_));
    let visit = variants.iter().map(|v| v.visit(is_enum));
    let visit_mut = variants.iter().map(|v| v.visit_mut(is_enum));
    let rebuild = variants.iter().map(Variant::rebuild);
    // invariant: an enum without variants has no values
    let unreachable = variants.is_empty().then(|| quote!(_ => unreachable!("a value of an enum without variants"),));
    let name = &input.ident;
    let (generics, args, bounds) = input.generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        #[allow(unused_imports, unused_variables, clippy::all)]
        impl #generics ::fulgurite::tree::Tree for #name #args #bounds {
            fn visit<'tree>(&'tree self, v: &mut ::fulgurite::tree::Visitor<'tree>) {
                use ::fulgurite::tree::{ByBits as _, ByDebug as _, ByHash as _};
                match self { #(#visit)* #unreachable }
            }
            fn visit_mut<'tree>(&'tree mut self, v: &mut ::fulgurite::tree::VisitorMut<'tree>) {
                use ::fulgurite::tree::{ByBits as _, ByDebug as _, ByHash as _};
                match self { #(#visit_mut)* #unreachable }
            }
            fn rebuild(&self, leaves: &mut ::fulgurite::tree::Leaves) -> Self {
                match self { #(#rebuild)* #unreachable }
            }
        }
    })
}

/// A struct, or one variant of an enum.
struct Variant {
    /// `Self` or `Self::Name`.
    path: TokenStream,
    number: usize,
    name: String,
    fields: Vec<Field>,
}

struct Field {
    /// `ln1` or `0`.
    member: TokenStream,
    /// The name of the field in paths.
    name: String,
    /// The name of the field in patterns.
    binding: syn::Ident,
    ty: Type,
    fixed: bool,
}

fn variants(input: &DeriveInput) -> Result<Vec<Variant>> {
    match &input.data {
        Data::Struct(data) => {
            let name = input.ident.to_string();
            Ok(vec![Variant { path: quote!(Self), number: 0, name, fields: fields(&data.fields)? }])
        }
        Data::Enum(data) => {
            let variant = |(number, v): (usize, &syn::Variant)| {
                let name = &v.ident;
                let path = quote!(Self::#name);
                Ok(Variant { path, number, name: name.to_string(), fields: fields(&v.fields)? })
            };
            data.variants.iter().enumerate().map(variant).collect()
        }
        Data::Union(data) => {
            Err(Error::new(data.union_token.span, "a union can't be a tree, since its fields overlap: make it an enum"))
        }
    }
}

fn fields(fields: &Fields) -> Result<Vec<Field>> {
    let field = |(i, f): (usize, &syn::Field)| {
        let (member, name) = match &f.ident {
            Some(name) => (name.to_token_stream(), name.to_string().trim_start_matches("r#").to_owned()),
            None => (Index::from(i).to_token_stream(), i.to_string()),
        };
        Ok(Field { member, name, binding: format_ident!("field_{i}"), ty: f.ty.clone(), fixed: is_fixed(f)? })
    };
    let (good, bad): (Vec<_>, Vec<_>) = fields.iter().enumerate().map(field).partition(Result::is_ok);
    let faults = bad.into_iter().filter_map(Result::err).reduce(|mut all, e| {
        all.combine(e);
        all
    });
    match faults {
        Some(faults) => Err(faults),
        None => good.into_iter().collect(),
    }
}

fn is_fixed(field: &syn::Field) -> Result<bool> {
    let mut fixed = false;
    for attr in field.attrs.iter().filter(|a| a.path().is_ident("tree")) {
        let word = attr.parse_args::<syn::Ident>();
        if !word.is_ok_and(|w| w == "fixed") {
            let claim =
                "`#[tree(fixed)]` is all that can stand here: the field is the same in every call and compiled in";
            return Err(Error::new_spanned(&attr.meta, claim));
        }
        fixed = true;
    }
    Ok(fixed)
}

fn refuse_attributes(input: &DeriveInput) -> Result<()> {
    match input.attrs.iter().find(|a| a.path().is_ident("tree")) {
        Some(attr) => Err(Error::new_spanned(&attr.meta, "`tree` attributes stand on fields: `#[tree(fixed)]`")),
        None => Ok(()),
    }
}

impl Variant {
    /// `Self::Name { ln1: field_0, … }`
    fn pattern(&self) -> TokenStream {
        let (path, members, bindings) =
            (&self.path, self.fields.iter().map(|f| &f.member), self.fields.iter().map(|f| &f.binding));
        quote!(#path { #(#members: #bindings),* })
    }

    fn visit(&self, is_enum: bool) -> TokenStream {
        let (pattern, number, name) = (self.pattern(), self.number, &self.name);
        let mark = is_enum.then(|| quote!(v.variant(#number, #name);));
        let fields = self.fields.iter().map(|Field { name, binding, ty, fixed, .. }| match fixed {
            true => {
                let mark = mark_fixed(binding, ty);
                quote_spanned!(ty.span()=> v.fixed(#name, #binding, |f| #mark);)
            }
            false => {
                let tree = as_tree(ty);
                quote_spanned!(ty.span()=> v.inside(#name, |v| #tree::visit(#binding, v));)
            }
        });
        quote!(#pattern => { #mark #(#fields)* })
    }

    fn visit_mut(&self, is_enum: bool) -> TokenStream {
        let (pattern, number) = (self.pattern(), self.number);
        let mark = is_enum.then(|| quote!(v.form(#number);));
        let fields = self.fields.iter().map(|Field { binding, ty, fixed, .. }| match fixed {
            true => {
                let mark = mark_fixed(&quote_spanned!(ty.span()=> &*#binding), ty);
                quote_spanned!(ty.span()=> v.fixed(|f| #mark);)
            }
            false => {
                let tree = as_tree(ty);
                quote_spanned!(ty.span()=> #tree::visit_mut(#binding, v);)
            }
        });
        quote!(#pattern => { #mark #(#fields)* })
    }

    fn rebuild(&self) -> TokenStream {
        let (pattern, path) = (self.pattern(), &self.path);
        let fields = self.fields.iter().map(|Field { member, binding, ty, fixed, .. }| match fixed {
            true => quote_spanned!(ty.span()=> #member: ::core::clone::Clone::clone(#binding)),
            false => {
                let tree = as_tree(ty);
                quote_spanned!(ty.span()=> #member: #tree::rebuild(#binding, leaves))
            }
        });
        quote!(#pattern => #path { #(#fields),* },)
    }
}

fn as_tree(ty: &Type) -> TokenStream {
    quote_spanned!(ty.span()=> <#ty as ::fulgurite::tree::Tree>)
}

/// Adds a fixed field to the fingerprint `f`; `part` is a reference to it.
fn mark_fixed(part: &dyn ToTokens, ty: &Type) -> TokenStream {
    quote_spanned!(ty.span()=> (&&&::fulgurite::tree::FixedProbe::<#ty>(#part)).mark(f))
}
