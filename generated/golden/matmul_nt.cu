// ---- cuda/matmul_nt.cu
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 matmul_nt on f32
#line 1 "ops.yaml"
extern "C" __global__ void matmul_nt_f32(
    float* __restrict__ out0,
    const float* __restrict__ in0, long long in0_s0, long long in0_s1,
    const float* __restrict__ in1, long long in1_s0, long long in1_s1,
    long long size0, long long size1, long long size2) {
  __shared__ double part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0 * size1;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    long long rest = o;
    const long long i1 = rest % size1;
    rest /= size1;
    const long long i0 = rest;

    // sum over i2
    const long long total0 = size2;
    double acc0 = 0.0;
    for (long long f = lane; f < total0; f += lanes) {
      const long long i2 = f;
      const float t0 = fg_mul(in0[i0 * in0_s0 + i2 * in0_s1], in1[i1 * in1_s0 + i2 * in1_s1]);
      acc0 = fg_add(acc0, fg_cast<double>(t0));
    }
    part0[slot] = acc0;
    __syncthreads();
    for (int half = lanes / 2; half > 0; half /= 2) {
      if (lane < half) {
        part0[slot] = fg_add(part0[slot], part0[slot + half]);
      }
      __syncthreads();
    }
    acc0 = part0[slot - lane];
    const float r0 = fg_cast<float>(acc0);
    // the partial results are written anew for the next result
    __syncthreads();
    if (lane == 0 && first + threadIdx.y < results) out0[o] = r0;
  }
}

// ops.yaml:1 matmul_nt on f64
#line 1 "ops.yaml"
extern "C" __global__ void matmul_nt_f64(
    double* __restrict__ out0,
    const double* __restrict__ in0, long long in0_s0, long long in0_s1,
    const double* __restrict__ in1, long long in1_s0, long long in1_s1,
    long long size0, long long size1, long long size2) {
  __shared__ double part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0 * size1;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    long long rest = o;
    const long long i1 = rest % size1;
    rest /= size1;
    const long long i0 = rest;

    // sum over i2
    const long long total0 = size2;
    double acc0 = 0.0;
    for (long long f = lane; f < total0; f += lanes) {
      const long long i2 = f;
      const double t0 = fg_mul(in0[i0 * in0_s0 + i2 * in0_s1], in1[i1 * in1_s0 + i2 * in1_s1]);
      acc0 = fg_add(acc0, t0);
    }
    part0[slot] = acc0;
    __syncthreads();
    for (int half = lanes / 2; half > 0; half /= 2) {
      if (lane < half) {
        part0[slot] = fg_add(part0[slot], part0[slot + half]);
      }
      __syncthreads();
    }
    acc0 = part0[slot - lane];
    const double r0 = acc0;
    // the partial results are written anew for the next result
    __syncthreads();
    if (lane == 0 && first + threadIdx.y < results) out0[o] = r0;
  }
}

// ops.yaml:1 matmul_nt on f16
#line 1 "ops.yaml"
extern "C" __global__ void matmul_nt_f16(
    fg_f16* __restrict__ out0,
    const fg_f16* __restrict__ in0, long long in0_s0, long long in0_s1,
    const fg_f16* __restrict__ in1, long long in1_s0, long long in1_s1,
    long long size0, long long size1, long long size2) {
  __shared__ double part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0 * size1;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    long long rest = o;
    const long long i1 = rest % size1;
    rest /= size1;
    const long long i0 = rest;

    // sum over i2
    const long long total0 = size2;
    double acc0 = 0.0;
    for (long long f = lane; f < total0; f += lanes) {
      const long long i2 = f;
      const float t0 = fg_cast<float>(in0[i0 * in0_s0 + i2 * in0_s1]);
      const float t1 = fg_cast<float>(in1[i1 * in1_s0 + i2 * in1_s1]);
      acc0 = fg_add(acc0, fg_cast<double>(fg_mul(t0, t1)));
    }
    part0[slot] = acc0;
    __syncthreads();
    for (int half = lanes / 2; half > 0; half /= 2) {
      if (lane < half) {
        part0[slot] = fg_add(part0[slot], part0[slot + half]);
      }
      __syncthreads();
    }
    acc0 = part0[slot - lane];
    const float r0 = fg_cast<float>(acc0);
    // the partial results are written anew for the next result
    __syncthreads();
    if (lane == 0 && first + threadIdx.y < results) out0[o] = fg_cast<fg_f16>(r0);
  }
}

// ops.yaml:1 matmul_nt on bf16
#line 1 "ops.yaml"
extern "C" __global__ void matmul_nt_bf16(
    fg_bf16* __restrict__ out0,
    const fg_bf16* __restrict__ in0, long long in0_s0, long long in0_s1,
    const fg_bf16* __restrict__ in1, long long in1_s0, long long in1_s1,
    long long size0, long long size1, long long size2) {
  __shared__ double part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0 * size1;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    long long rest = o;
    const long long i1 = rest % size1;
    rest /= size1;
    const long long i0 = rest;

    // sum over i2
    const long long total0 = size2;
    double acc0 = 0.0;
    for (long long f = lane; f < total0; f += lanes) {
      const long long i2 = f;
      const float t0 = fg_cast<float>(in0[i0 * in0_s0 + i2 * in0_s1]);
      const float t1 = fg_cast<float>(in1[i1 * in1_s0 + i2 * in1_s1]);
      acc0 = fg_add(acc0, fg_cast<double>(fg_mul(t0, t1)));
    }
    part0[slot] = acc0;
    __syncthreads();
    for (int half = lanes / 2; half > 0; half /= 2) {
      if (lane < half) {
        part0[slot] = fg_add(part0[slot], part0[slot + half]);
      }
      __syncthreads();
    }
    acc0 = part0[slot - lane];
    const float r0 = fg_cast<float>(acc0);
    // the partial results are written anew for the next result
    __syncthreads();
    if (lane == 0 && first + threadIdx.y < results) out0[o] = fg_cast<fg_bf16>(r0);
  }
}

// ops.yaml:1 matmul_nt on i64
#line 1 "ops.yaml"
extern "C" __global__ void matmul_nt_i64(
    long long* __restrict__ out0,
    const long long* __restrict__ in0, long long in0_s0, long long in0_s1,
    const long long* __restrict__ in1, long long in1_s0, long long in1_s1,
    long long size0, long long size1, long long size2) {
  __shared__ long long part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0 * size1;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    long long rest = o;
    const long long i1 = rest % size1;
    rest /= size1;
    const long long i0 = rest;

    // sum over i2
    const long long total0 = size2;
    long long acc0 = 0LL;
    for (long long f = lane; f < total0; f += lanes) {
      const long long i2 = f;
      const long long t0 = fg_mul(in0[i0 * in0_s0 + i2 * in0_s1], in1[i1 * in1_s0 + i2 * in1_s1]);
      acc0 = fg_add(acc0, t0);
    }
    part0[slot] = acc0;
    __syncthreads();
    for (int half = lanes / 2; half > 0; half /= 2) {
      if (lane < half) {
        part0[slot] = fg_add(part0[slot], part0[slot + half]);
      }
      __syncthreads();
    }
    acc0 = part0[slot - lane];
    const long long r0 = acc0;
    // the partial results are written anew for the next result
    __syncthreads();
    if (lane == 0 && first + threadIdx.y < results) out0[o] = r0;
  }
}

// ---- cuda/matmul_nt__vjp__w.cu
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 matmul_nt.vjp.w on f32
#line 1 "ops.yaml"
extern "C" __global__ void matmul_nt__vjp__w_f32(
    float* __restrict__ out0,
    const float* __restrict__ in0, long long in0_s0, long long in0_s1,
    const float* __restrict__ in1, long long in1_s0, long long in1_s1,
    const float* __restrict__ in2, long long in2_s0, long long in2_s1,
    long long size0, long long size1, long long size2) {
  __shared__ double part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0 * size1;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    long long rest = o;
    const long long i1 = rest % size1;
    rest /= size1;
    const long long i0 = rest;

    // sum over i2
    const long long total0 = size2;
    double acc0 = 0.0;
    for (long long f = lane; f < total0; f += lanes) {
      const long long i2 = f;
      const float t0 = fg_mul(in2[i2 * in2_s0 + i0 * in2_s1], in0[i2 * in0_s0 + i1 * in0_s1]);
      acc0 = fg_add(acc0, fg_cast<double>(t0));
    }
    part0[slot] = acc0;
    __syncthreads();
    for (int half = lanes / 2; half > 0; half /= 2) {
      if (lane < half) {
        part0[slot] = fg_add(part0[slot], part0[slot + half]);
      }
      __syncthreads();
    }
    acc0 = part0[slot - lane];
    const float r0 = fg_cast<float>(acc0);
    // the partial results are written anew for the next result
    __syncthreads();
    if (lane == 0 && first + threadIdx.y < results) out0[o] = r0;
  }
}

// ops.yaml:1 matmul_nt.vjp.w on f64
#line 1 "ops.yaml"
extern "C" __global__ void matmul_nt__vjp__w_f64(
    double* __restrict__ out0,
    const double* __restrict__ in0, long long in0_s0, long long in0_s1,
    const double* __restrict__ in1, long long in1_s0, long long in1_s1,
    const double* __restrict__ in2, long long in2_s0, long long in2_s1,
    long long size0, long long size1, long long size2) {
  __shared__ double part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0 * size1;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    long long rest = o;
    const long long i1 = rest % size1;
    rest /= size1;
    const long long i0 = rest;

    // sum over i2
    const long long total0 = size2;
    double acc0 = 0.0;
    for (long long f = lane; f < total0; f += lanes) {
      const long long i2 = f;
      const double t0 = fg_mul(in2[i2 * in2_s0 + i0 * in2_s1], in0[i2 * in0_s0 + i1 * in0_s1]);
      acc0 = fg_add(acc0, t0);
    }
    part0[slot] = acc0;
    __syncthreads();
    for (int half = lanes / 2; half > 0; half /= 2) {
      if (lane < half) {
        part0[slot] = fg_add(part0[slot], part0[slot + half]);
      }
      __syncthreads();
    }
    acc0 = part0[slot - lane];
    const double r0 = acc0;
    // the partial results are written anew for the next result
    __syncthreads();
    if (lane == 0 && first + threadIdx.y < results) out0[o] = r0;
  }
}

// ops.yaml:1 matmul_nt.vjp.w on f16
#line 1 "ops.yaml"
extern "C" __global__ void matmul_nt__vjp__w_f16(
    fg_f16* __restrict__ out0,
    const fg_f16* __restrict__ in0, long long in0_s0, long long in0_s1,
    const fg_f16* __restrict__ in1, long long in1_s0, long long in1_s1,
    const fg_f16* __restrict__ in2, long long in2_s0, long long in2_s1,
    long long size0, long long size1, long long size2) {
  __shared__ double part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0 * size1;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    long long rest = o;
    const long long i1 = rest % size1;
    rest /= size1;
    const long long i0 = rest;

    // sum over i2
    const long long total0 = size2;
    double acc0 = 0.0;
    for (long long f = lane; f < total0; f += lanes) {
      const long long i2 = f;
      const float t0 = fg_cast<float>(in2[i2 * in2_s0 + i0 * in2_s1]);
      const float t1 = fg_cast<float>(in0[i2 * in0_s0 + i1 * in0_s1]);
      acc0 = fg_add(acc0, fg_cast<double>(fg_mul(t0, t1)));
    }
    part0[slot] = acc0;
    __syncthreads();
    for (int half = lanes / 2; half > 0; half /= 2) {
      if (lane < half) {
        part0[slot] = fg_add(part0[slot], part0[slot + half]);
      }
      __syncthreads();
    }
    acc0 = part0[slot - lane];
    const float r0 = fg_cast<float>(acc0);
    // the partial results are written anew for the next result
    __syncthreads();
    if (lane == 0 && first + threadIdx.y < results) out0[o] = fg_cast<fg_f16>(r0);
  }
}

// ops.yaml:1 matmul_nt.vjp.w on bf16
#line 1 "ops.yaml"
extern "C" __global__ void matmul_nt__vjp__w_bf16(
    fg_bf16* __restrict__ out0,
    const fg_bf16* __restrict__ in0, long long in0_s0, long long in0_s1,
    const fg_bf16* __restrict__ in1, long long in1_s0, long long in1_s1,
    const fg_bf16* __restrict__ in2, long long in2_s0, long long in2_s1,
    long long size0, long long size1, long long size2) {
  __shared__ double part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0 * size1;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    long long rest = o;
    const long long i1 = rest % size1;
    rest /= size1;
    const long long i0 = rest;

    // sum over i2
    const long long total0 = size2;
    double acc0 = 0.0;
    for (long long f = lane; f < total0; f += lanes) {
      const long long i2 = f;
      const float t0 = fg_cast<float>(in2[i2 * in2_s0 + i0 * in2_s1]);
      const float t1 = fg_cast<float>(in0[i2 * in0_s0 + i1 * in0_s1]);
      acc0 = fg_add(acc0, fg_cast<double>(fg_mul(t0, t1)));
    }
    part0[slot] = acc0;
    __syncthreads();
    for (int half = lanes / 2; half > 0; half /= 2) {
      if (lane < half) {
        part0[slot] = fg_add(part0[slot], part0[slot + half]);
      }
      __syncthreads();
    }
    acc0 = part0[slot - lane];
    const float r0 = fg_cast<float>(acc0);
    // the partial results are written anew for the next result
    __syncthreads();
    if (lane == 0 && first + threadIdx.y < results) out0[o] = fg_cast<fg_bf16>(r0);
  }
}

// ---- cuda/matmul_nt__vjp__x.cu
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 matmul_nt.vjp.x on f32
#line 1 "ops.yaml"
extern "C" __global__ void matmul_nt__vjp__x_f32(
    float* __restrict__ out0,
    const float* __restrict__ in0, long long in0_s0, long long in0_s1,
    const float* __restrict__ in1, long long in1_s0, long long in1_s1,
    const float* __restrict__ in2, long long in2_s0, long long in2_s1,
    long long size0, long long size1, long long size2) {
  __shared__ double part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0 * size1;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    long long rest = o;
    const long long i1 = rest % size1;
    rest /= size1;
    const long long i0 = rest;

    // sum over i2
    const long long total0 = size2;
    double acc0 = 0.0;
    for (long long f = lane; f < total0; f += lanes) {
      const long long i2 = f;
      const float t0 = fg_mul(in2[i0 * in2_s0 + i2 * in2_s1], in1[i2 * in1_s0 + i1 * in1_s1]);
      acc0 = fg_add(acc0, fg_cast<double>(t0));
    }
    part0[slot] = acc0;
    __syncthreads();
    for (int half = lanes / 2; half > 0; half /= 2) {
      if (lane < half) {
        part0[slot] = fg_add(part0[slot], part0[slot + half]);
      }
      __syncthreads();
    }
    acc0 = part0[slot - lane];
    const float r0 = fg_cast<float>(acc0);
    // the partial results are written anew for the next result
    __syncthreads();
    if (lane == 0 && first + threadIdx.y < results) out0[o] = r0;
  }
}

// ops.yaml:1 matmul_nt.vjp.x on f64
#line 1 "ops.yaml"
extern "C" __global__ void matmul_nt__vjp__x_f64(
    double* __restrict__ out0,
    const double* __restrict__ in0, long long in0_s0, long long in0_s1,
    const double* __restrict__ in1, long long in1_s0, long long in1_s1,
    const double* __restrict__ in2, long long in2_s0, long long in2_s1,
    long long size0, long long size1, long long size2) {
  __shared__ double part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0 * size1;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    long long rest = o;
    const long long i1 = rest % size1;
    rest /= size1;
    const long long i0 = rest;

    // sum over i2
    const long long total0 = size2;
    double acc0 = 0.0;
    for (long long f = lane; f < total0; f += lanes) {
      const long long i2 = f;
      const double t0 = fg_mul(in2[i0 * in2_s0 + i2 * in2_s1], in1[i2 * in1_s0 + i1 * in1_s1]);
      acc0 = fg_add(acc0, t0);
    }
    part0[slot] = acc0;
    __syncthreads();
    for (int half = lanes / 2; half > 0; half /= 2) {
      if (lane < half) {
        part0[slot] = fg_add(part0[slot], part0[slot + half]);
      }
      __syncthreads();
    }
    acc0 = part0[slot - lane];
    const double r0 = acc0;
    // the partial results are written anew for the next result
    __syncthreads();
    if (lane == 0 && first + threadIdx.y < results) out0[o] = r0;
  }
}

// ops.yaml:1 matmul_nt.vjp.x on f16
#line 1 "ops.yaml"
extern "C" __global__ void matmul_nt__vjp__x_f16(
    fg_f16* __restrict__ out0,
    const fg_f16* __restrict__ in0, long long in0_s0, long long in0_s1,
    const fg_f16* __restrict__ in1, long long in1_s0, long long in1_s1,
    const fg_f16* __restrict__ in2, long long in2_s0, long long in2_s1,
    long long size0, long long size1, long long size2) {
  __shared__ double part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0 * size1;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    long long rest = o;
    const long long i1 = rest % size1;
    rest /= size1;
    const long long i0 = rest;

    // sum over i2
    const long long total0 = size2;
    double acc0 = 0.0;
    for (long long f = lane; f < total0; f += lanes) {
      const long long i2 = f;
      const float t0 = fg_cast<float>(in2[i0 * in2_s0 + i2 * in2_s1]);
      const float t1 = fg_cast<float>(in1[i2 * in1_s0 + i1 * in1_s1]);
      acc0 = fg_add(acc0, fg_cast<double>(fg_mul(t0, t1)));
    }
    part0[slot] = acc0;
    __syncthreads();
    for (int half = lanes / 2; half > 0; half /= 2) {
      if (lane < half) {
        part0[slot] = fg_add(part0[slot], part0[slot + half]);
      }
      __syncthreads();
    }
    acc0 = part0[slot - lane];
    const float r0 = fg_cast<float>(acc0);
    // the partial results are written anew for the next result
    __syncthreads();
    if (lane == 0 && first + threadIdx.y < results) out0[o] = fg_cast<fg_f16>(r0);
  }
}

// ops.yaml:1 matmul_nt.vjp.x on bf16
#line 1 "ops.yaml"
extern "C" __global__ void matmul_nt__vjp__x_bf16(
    fg_bf16* __restrict__ out0,
    const fg_bf16* __restrict__ in0, long long in0_s0, long long in0_s1,
    const fg_bf16* __restrict__ in1, long long in1_s0, long long in1_s1,
    const fg_bf16* __restrict__ in2, long long in2_s0, long long in2_s1,
    long long size0, long long size1, long long size2) {
  __shared__ double part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0 * size1;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    long long rest = o;
    const long long i1 = rest % size1;
    rest /= size1;
    const long long i0 = rest;

    // sum over i2
    const long long total0 = size2;
    double acc0 = 0.0;
    for (long long f = lane; f < total0; f += lanes) {
      const long long i2 = f;
      const float t0 = fg_cast<float>(in2[i0 * in2_s0 + i2 * in2_s1]);
      const float t1 = fg_cast<float>(in1[i2 * in1_s0 + i1 * in1_s1]);
      acc0 = fg_add(acc0, fg_cast<double>(fg_mul(t0, t1)));
    }
    part0[slot] = acc0;
    __syncthreads();
    for (int half = lanes / 2; half > 0; half /= 2) {
      if (lane < half) {
        part0[slot] = fg_add(part0[slot], part0[slot + half]);
      }
      __syncthreads();
    }
    acc0 = part0[slot - lane];
    const float r0 = fg_cast<float>(acc0);
    // the partial results are written anew for the next result
    __syncthreads();
    if (lane == 0 && first + threadIdx.y < results) out0[o] = fg_cast<fg_bf16>(r0);
  }
}
