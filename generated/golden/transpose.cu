// ---- cuda/transpose.cu
// No CUDA C of `transpose`: neither pointwise nor a reduction: it moves elements.

// ---- cuda/transpose__vjp__x.cu
// No CUDA C of `transpose.vjp.x`: neither pointwise nor a reduction: it moves elements.
