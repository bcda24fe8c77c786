// ---- cuda/gelu.cu
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 gelu [approximate=none] f32
#line 1 "ops.yaml"
extern "C" __global__ void gelu_approximate_none_f32(
    long long n,
    const float* __restrict__ in0,
    float* __restrict__ out0) {
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float x0 = in0[i];
    const float t0 = fg_add(1.0f, erf(fg_mul(x0, 0.7071067690849304f)));
    out0[i] = fg_mul(fg_mul(0.5f, x0), t0);
  }
}

// ops.yaml:1 gelu [approximate=tanh] f32
#line 1 "ops.yaml"
extern "C" __global__ void gelu_approximate_tanh_f32(
    long long n,
    const float* __restrict__ in0,
    float* __restrict__ out0) {
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float x0 = in0[i];
    const float t0 = fg_mul(fg_mul(0.044714998453855515f, x0), x0);
    const float t1 = fg_mul(0.7978845834732056f, fg_add(x0, fg_mul(t0, x0)));
    const float t2 = fg_mul(fg_mul(0.5f, x0), fg_add(1.0f, tanh(t1)));
    out0[i] = t2;
  }
}

// ops.yaml:1 gelu [approximate=none] f64
#line 1 "ops.yaml"
extern "C" __global__ void gelu_approximate_none_f64(
    long long n,
    const double* __restrict__ in0,
    double* __restrict__ out0) {
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const double x0 = in0[i];
    const double t0 = fg_add(1.0, erf(fg_mul(x0, 0.7071067811865476)));
    out0[i] = fg_mul(fg_mul(0.5, x0), t0);
  }
}

// ops.yaml:1 gelu [approximate=tanh] f64
#line 1 "ops.yaml"
extern "C" __global__ void gelu_approximate_tanh_f64(
    long long n,
    const double* __restrict__ in0,
    double* __restrict__ out0) {
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const double x0 = in0[i];
    const double t0 = fg_add(x0, fg_mul(fg_mul(fg_mul(0.044715, x0), x0), x0));
    const double t1 = fg_add(1.0, tanh(fg_mul(0.7978845608028654, t0)));
    out0[i] = fg_mul(fg_mul(0.5, x0), t1);
  }
}

// ---- cuda/gelu__vjp__x.cu
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 gelu.vjp.x [approximate=none] f32
#line 1 "ops.yaml"
extern "C" __global__ void gelu__vjp__x_approximate_none_f32(
    long long n,
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    float* __restrict__ out0) {
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float x0 = in0[i];
    const float x1 = in1[i];
    const float t0 = fg_mul(0.5f, erf(fg_mul(x0, 0.7071067690849304f)));
    const float t1 = fg_mul(0.3989422917366028f, exp(fg_mul(fg_mul((-0.5f), x0), x0)));
    const float t2 = fg_mul(x1, fg_add(fg_add(0.5f, t0), fg_mul(t1, x0)));
    out0[i] = t2;
  }
}

// ops.yaml:1 gelu.vjp.x [approximate=tanh] f32
#line 1 "ops.yaml"
extern "C" __global__ void gelu__vjp__x_approximate_tanh_f32(
    long long n,
    const float* __restrict__ in0,
    const float* __restrict__ in1,
    float* __restrict__ out0) {
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float x0 = in0[i];
    const float x1 = in1[i];
    const float t0 = fg_mul(fg_mul(0.044714998453855515f, x0), x0);
    const float t1 = fg_mul(0.7978845834732056f, fg_add(x0, fg_mul(t0, x0)));
    const float t2 = tanh(t1);
    const float t3 = fg_add(1.0f, fg_mul(fg_mul(0.13414500653743744f, x0), x0));
    const float t4 = fg_mul(fg_mul(0.3989422917366028f, t3), fg_sub(1.0f, fg_mul(t2, t2)));
    const float t5 = fg_add(fg_add(0.5f, fg_mul(0.5f, t2)), fg_mul(t4, x0));
    out0[i] = fg_mul(x1, t5);
  }
}

// ops.yaml:1 gelu.vjp.x [approximate=none] f64
#line 1 "ops.yaml"
extern "C" __global__ void gelu__vjp__x_approximate_none_f64(
    long long n,
    const double* __restrict__ in0,
    const double* __restrict__ in1,
    double* __restrict__ out0) {
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const double x0 = in0[i];
    const double x1 = in1[i];
    const double t0 = fg_mul(0.5, erf(fg_mul(x0, 0.7071067811865476)));
    const double t1 = fg_mul(0.3989422804014327, exp(fg_mul(fg_mul((-0.5), x0), x0)));
    const double t2 = fg_mul(x1, fg_add(fg_add(0.5, t0), fg_mul(t1, x0)));
    out0[i] = t2;
  }
}

// ops.yaml:1 gelu.vjp.x [approximate=tanh] f64
#line 1 "ops.yaml"
extern "C" __global__ void gelu__vjp__x_approximate_tanh_f64(
    long long n,
    const double* __restrict__ in0,
    const double* __restrict__ in1,
    double* __restrict__ out0) {
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const double x0 = in0[i];
    const double x1 = in1[i];
    const double t0 = fg_add(x0, fg_mul(fg_mul(fg_mul(0.044715, x0), x0), x0));
    const double t1 = tanh(fg_mul(0.7978845608028654, t0));
    const double t2 = fg_add(1.0, fg_mul(fg_mul(0.134145, x0), x0));
    const double t3 = fg_mul(fg_mul(0.3989422804014327, t2), fg_sub(1.0, fg_mul(t1, t1)));
    const double t4 = fg_add(fg_add(0.5, fg_mul(0.5, t1)), fg_mul(t3, x0));
    out0[i] = fg_mul(x1, t4);
  }
}
