// ---- cuda/clamp.cu
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 clamp [] f32
#line 1 "ops.yaml"
extern "C" __global__ void clamp_f32(
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
    out0[i] = fg_min(fg_max(x0, x1), x2);
  }
}

// ops.yaml:1 clamp [] f64
#line 1 "ops.yaml"
extern "C" __global__ void clamp_f64(
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
    out0[i] = fg_min(fg_max(x0, x1), x2);
  }
}

// ---- cuda/clamp__vjp__hi.cu
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 clamp.vjp.hi [] f32
#line 1 "ops.yaml"
extern "C" __global__ void clamp__vjp__hi_f32(
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
    const float t0 = fg_max(x0, x1);
    const float t1 = ((t0 == x2) ? fg_mul(0.5f, x3) : ((t0 < x2) ? 0.0f : x3));
    const float t2 = (((x1 == x2) & (x0 < x1)) ? 0.0f : (((x1 == x2) & (x0 == x1)) ? 0.0f : t1));
    out0[i] = t2;
  }
}

// ops.yaml:1 clamp.vjp.hi [lo=absent] f32
#line 1 "ops.yaml"
extern "C" __global__ void clamp__vjp__hi_lo_absent_f32(
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
    const float t0 = ((x0 == x1) ? fg_mul(0.5f, x2) : ((x0 < x1) ? 0.0f : x2));
    out0[i] = t0;
  }
}

// ops.yaml:1 clamp.vjp.hi [] f64
#line 1 "ops.yaml"
extern "C" __global__ void clamp__vjp__hi_f64(
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
    const double t0 = fg_max(x0, x1);
    const double t1 = ((t0 == x2) ? fg_mul(0.5, x3) : ((t0 < x2) ? 0.0 : x3));
    const double t2 = (((x1 == x2) & (x0 < x1)) ? 0.0 : (((x1 == x2) & (x0 == x1)) ? 0.0 : t1));
    out0[i] = t2;
  }
}

// ops.yaml:1 clamp.vjp.hi [lo=absent] f64
#line 1 "ops.yaml"
extern "C" __global__ void clamp__vjp__hi_lo_absent_f64(
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
    const double t0 = ((x0 == x1) ? fg_mul(0.5, x2) : ((x0 < x1) ? 0.0 : x2));
    out0[i] = t0;
  }
}

// ---- cuda/clamp__vjp__lo.cu
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 clamp.vjp.lo [] f32
#line 1 "ops.yaml"
extern "C" __global__ void clamp__vjp__lo_f32(
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
    const float t0 = fg_max(x0, x1);
    const float t1 = ((t0 == x2) ? fg_mul(0.25f, x3) : ((t0 > x2) ? 0.0f : fg_mul(0.5f, x3)));
    const float t2 = fg_max(x0, x1);
    const float t3 = ((t2 == x2) ? ((x0 > x1) ? 0.0f : fg_mul(0.5f, x3)) : ((x0 > x1) ? 0.0f : ((t2 > x2) ? 0.0f : x3)));
    const float t4 = (((x1 == x2) & (x0 == x1)) ? 0.0f : ((x0 == x1) ? t1 : t3));
    out0[i] = (((x1 == x2) & (x0 < x1)) ? x3 : t4);
  }
}

// ops.yaml:1 clamp.vjp.lo [hi=absent] f32
#line 1 "ops.yaml"
extern "C" __global__ void clamp__vjp__lo_hi_absent_f32(
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
    const float t0 = ((x0 == x1) ? fg_mul(0.5f, x2) : ((x0 > x1) ? 0.0f : x2));
    out0[i] = t0;
  }
}

// ops.yaml:1 clamp.vjp.lo [] f64
#line 1 "ops.yaml"
extern "C" __global__ void clamp__vjp__lo_f64(
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
    const double t0 = fg_max(x0, x1);
    const double t1 = ((t0 == x2) ? fg_mul(0.25, x3) : ((t0 > x2) ? 0.0 : fg_mul(0.5, x3)));
    const double t2 = fg_max(x0, x1);
    const double t3 = ((t2 == x2) ? ((x0 > x1) ? 0.0 : fg_mul(0.5, x3)) : ((x0 > x1) ? 0.0 : ((t2 > x2) ? 0.0 : x3)));
    const double t4 = (((x1 == x2) & (x0 == x1)) ? 0.0 : ((x0 == x1) ? t1 : t3));
    out0[i] = (((x1 == x2) & (x0 < x1)) ? x3 : t4);
  }
}

// ops.yaml:1 clamp.vjp.lo [hi=absent] f64
#line 1 "ops.yaml"
extern "C" __global__ void clamp__vjp__lo_hi_absent_f64(
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
    const double t0 = ((x0 == x1) ? fg_mul(0.5, x2) : ((x0 > x1) ? 0.0 : x2));
    out0[i] = t0;
  }
}

// ---- cuda/clamp__vjp__x.cu
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 clamp.vjp.x [] f32
#line 1 "ops.yaml"
extern "C" __global__ void clamp__vjp__x_f32(
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
    const float t0 = fg_max(x0, x1);
    const float t1 = ((x0 == x1) ? fg_mul(0.25f, x3) : ((x0 < x1) ? 0.0f : fg_mul(0.5f, x3)));
    const float t2 = ((x0 == x1) ? ((t0 > x2) ? 0.0f : fg_mul(0.5f, x3)) : ((t0 > x2) ? 0.0f : ((x0 < x1) ? 0.0f : x3)));
    const float t3 = (((x1 == x2) & (x0 == x1)) ? x3 : ((t0 == x2) ? t1 : t2));
    out0[i] = (((x1 == x2) & (x0 < x1)) ? 0.0f : t3);
  }
}

// ops.yaml:1 clamp.vjp.x [hi=absent] f32
#line 1 "ops.yaml"
extern "C" __global__ void clamp__vjp__x_hi_absent_f32(
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
    const float t0 = ((x0 == x1) ? fg_mul(0.5f, x2) : ((x0 < x1) ? 0.0f : x2));
    out0[i] = t0;
  }
}

// ops.yaml:1 clamp.vjp.x [lo=absent] f32
#line 1 "ops.yaml"
extern "C" __global__ void clamp__vjp__x_lo_absent_f32(
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
    const float t0 = ((x0 == x1) ? fg_mul(0.5f, x2) : ((x0 > x1) ? 0.0f : x2));
    out0[i] = t0;
  }
}

// ops.yaml:1 clamp.vjp.x [] f64
#line 1 "ops.yaml"
extern "C" __global__ void clamp__vjp__x_f64(
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
    const double t0 = fg_max(x0, x1);
    const double t1 = ((x0 == x1) ? fg_mul(0.25, x3) : ((x0 < x1) ? 0.0 : fg_mul(0.5, x3)));
    const double t2 = ((x0 == x1) ? ((t0 > x2) ? 0.0 : fg_mul(0.5, x3)) : ((t0 > x2) ? 0.0 : ((x0 < x1) ? 0.0 : x3)));
    const double t3 = (((x1 == x2) & (x0 == x1)) ? x3 : ((t0 == x2) ? t1 : t2));
    out0[i] = (((x1 == x2) & (x0 < x1)) ? 0.0 : t3);
  }
}

// ops.yaml:1 clamp.vjp.x [hi=absent] f64
#line 1 "ops.yaml"
extern "C" __global__ void clamp__vjp__x_hi_absent_f64(
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
    const double t0 = ((x0 == x1) ? fg_mul(0.5, x2) : ((x0 < x1) ? 0.0 : x2));
    out0[i] = t0;
  }
}

// ops.yaml:1 clamp.vjp.x [lo=absent] f64
#line 1 "ops.yaml"
extern "C" __global__ void clamp__vjp__x_lo_absent_f64(
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
    const double t0 = ((x0 == x1) ? fg_mul(0.5, x2) : ((x0 > x1) ? 0.0 : x2));
    out0[i] = t0;
  }
}
