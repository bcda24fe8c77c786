// ---- cuda/softmax.cu
// No CUDA C of `softmax`: a composite: the rows that it calls have kernels.
