//! The macros of `fulgurite`: thin fronts; what they write stands in the runtime and in codegen.

mod op;
mod subclass;
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

/// Makes a struct a tensor subclass: its `#[field]`s are tensors, its `#[meta]` what is the same in every call.
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

/// What `fulgurite::op!` expands to: the path of the upstream database, then the rows.
#[doc(hidden)]
#[proc_macro]
pub fn op_rows(input: TokenStream) -> TokenStream {
    op::expand(input.into()).into()
}
