// ---- cuda/adamw_step.cu
// No CUDA C of `adamw_step`: a composite: the rows that it calls have kernels.
