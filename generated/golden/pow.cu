// ---- cuda/pow.cu
// No CUDA C of `pow`: on floats one builtin or none, which needs no kernel of its own.

// ---- cuda/pow__vjp__x.cu
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 pow.vjp.x [] f32
#line 1 "ops.yaml"
extern "C" __global__ void pow__vjp__x_f32(
    long long n,
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    const float* __restrict__ in2,
    float* __restrict__ out0) {
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float x0 = in0[i];
    const float x1 = in1[i];
    const float x2 = in2[i];
    const bool t0 = ((x1 == 0.0f) & ((x0 == 0.0f) | fg_isnan(x0)));
    const float t1 = fg_mul(fg_mul(x2, x1), fg_pow(x0, fg_sub(x1, 1.0f)));
    out0[i] = (t0 ? 0.0f : t1);
  }
}

// ops.yaml:1 pow.vjp.x [] f64
#line 1 "ops.yaml"
extern "C" __global__ void pow__vjp__x_f64(
    long long n,
    const double* __restrict__ in0,
    const double* __restrict__ in1,
    const double* __restrict__ in2,
    double* __restrict__ out0) {
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const double x0 = in0[i];
    const double x1 = in1[i];
    const double x2 = in2[i];
    const double t0 = fg_mul(fg_mul(x2, x1), fg_pow(x0, fg_sub(x1, 1.0)));
    const double t1 = (((x1 == 0.0) & ((x0 == 0.0) | fg_isnan(x0))) ? 0.0 : t0);
    out0[i] = t1;
  }
}

// ---- cuda/pow__vjp__y.cu
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 pow.vjp.y [] f32
#line 1 "ops.yaml"
extern "C" __global__ void pow__vjp__y_f32(
    long long n,
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    const float* __restrict__ in2,
    const float* __restrict__ in3,
    float* __restrict__ out0) {
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float x0 = in0[i];
    const float x1 = in1[i];
    const float x2 = in2[i];
    const float x3 = in3[i];
    const float t0 = (((x0 == 0.0f) & (x1 >= 0.0f)) ? 0.0f : fg_mul(fg_mul(x3, x2), log(x0)));
    out0[i] = t0;
  }
}

// ops.yaml:1 pow.vjp.y [] f64
#line 1 "ops.yaml"
extern "C" __global__ void pow__vjp__y_f64(
    long long n,
    const double* __restrict__ in0,
    const double* __restrict__ in1,
    const double* __restrict__ in2,
    const double* __restrict__ in3,
    double* __restrict__ out0) {
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const double x0 = in0[i];
    const double x1 = in1[i];
    const double x2 = in2[i];
    const double x3 = in3[i];
    const double t0 = (((x0 == 0.0) & (x1 >= 0.0)) ? 0.0 : fg_mul(fg_mul(x3, x2), log(x0)));
    out0[i] = t0;
  }
}
