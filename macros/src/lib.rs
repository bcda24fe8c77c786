//! The macros of `fulgurite`: thin fronts; what they write stands in the runtime and in codegen.

mod op;
mod tree;

use proc_macro::TokenStream;

/// Makes a struct or enum a tree of tensors: something that compiled functions take and return, that `grad`
/// differentiates and that checkpoints hold.
///
/// Every field is a tensor, a key or a tree itself. A field that is none of them, and the same in every call, is marked
/// `#[tree(fixed)]`; it is compiled in, so another value compiles the function again. It must be `Debug` and `Clone`;
/// if it is `Hash` too (or a float), calls are cheaper.
///
/// ```ignore
/// #[derive(Tree, Clone)]
/// struct Attention { qkv: Linear, out: Linear, #[tree(fixed)] heads: usize }
/// ```
#[proc_macro_derive(Tree, attributes(tree))]
pub fn derive_tree(item: TokenStream) -> TokenStream {
    tree::derive(item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// What `fulgurite::op!` expands to: the path of the upstream database, then the rows.
#[doc(hidden)]
#[proc_macro]
pub fn op_rows(input: TokenStream) -> TokenStream {
    op::expand(input.into()).into()
}
