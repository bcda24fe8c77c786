// ---- cuda/dropout.cu
// No CUDA C of `dropout`: it draws random numbers.

// ---- cuda/dropout__vjp__x.cu
// No CUDA C of `dropout.vjp.x`: neither pointwise nor a reduction: it moves elements.
