//! The macros of `fulgurite`: thin front ends of code in the runtime and in codegen.

mod op;
mod subclass;
mod tree;

use proc_macro::TokenStream;

/// Makes a struct or enum a tree of tensors: compiled functions take and return it, `grad` differentiates with respect
/// to it, and checkpoints hold it.
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

/// Makes a struct a tensor subclass: its `#[field]`s are tensors, its `#[meta]` fields are equal in every call.
///
/// ```ignore
/// #[derive(TensorSubclass)]
/// #[subclass(default = "each", read = "equal", cotangent = "TwoTensor(g, g)")]
/// struct TwoTensor { #[field] a: Tensor, #[field] b: Tensor }
/// ```
///
/// `ops(…)` gives operators a rule, `grad(…)` a gradient; see `docs/subclasses.md`. The struct becomes a tensor by
/// `Tensor::from`, and a tensor of the class the struct by `try_from`.
#[proc_macro_derive(TensorSubclass, attributes(subclass, field, meta))]
pub fn derive_subclass(item: TokenStream) -> TokenStream {
    subclass::derive(item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// The expansion of `fulgurite::op!`: takes the path of the upstream database, then the rows.
#[doc(hidden)]
#[proc_macro]
pub fn op_rows(input: TokenStream) -> TokenStream {
    op::expand(input.into()).into()
}
