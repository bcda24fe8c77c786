// ---- cuda/amax.cu
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 amax on f32
#line 1 "ops.yaml"
extern "C" __global__ void amax_f32(
    float* __restrict__ out0,
    const float* __restrict__ in0, long long in0_s0, long long in0_s1,
    long long size0, long long size1) {
  __shared__ float part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    const long long i0 = o;

    // max over i1
    const long long total0 = size1;
    float acc0 = (float)-fg_inf();
    for (long long f = lane; f < total0; f += lanes) {
      const long long i1 = f;
      acc0 = fg_max(acc0, in0[i0 * in0_s0 + i1 * in0_s1]);
    }
    part0[slot] = acc0;
    __syncthreads();
    for (int half = lanes / 2; half > 0; half /= 2) {
      if (lane < half) {
        part0[slot] = fg_max(part0[slot], part0[slot + half]);
      }
      __syncthreads();
    }
    acc0 = part0[slot - lane];
    const float r0 = acc0;
    // the partial results are written anew for the next result
    __syncthreads();
    if (lane == 0 && first + threadIdx.y < results) out0[o] = r0;
  }
}

// ops.yaml:1 amax on f64
#line 1 "ops.yaml"
extern "C" __global__ void amax_f64(
    double* __restrict__ out0,
    const double* __restrict__ in0, long long in0_s0, long long in0_s1,
    long long size0, long long size1) {
  __shared__ double part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    const long long i0 = o;

    // max over i1
    const long long total0 = size1;
    double acc0 = (double)-fg_inf();
    for (long long f = lane; f < total0; f += lanes) {
      const long long i1 = f;
      acc0 = fg_max(acc0, in0[i0 * in0_s0 + i1 * in0_s1]);
    }
    part0[slot] = acc0;
    __syncthreads();
    for (int half = lanes / 2; half > 0; half /= 2) {
      if (lane < half) {
        part0[slot] = fg_max(part0[slot], part0[slot + half]);
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

// ops.yaml:1 amax on f16
#line 1 "ops.yaml"
extern "C" __global__ void amax_f16(
    fg_f16* __restrict__ out0,
    const fg_f16* __restrict__ in0, long long in0_s0, long long in0_s1,
    long long size0, long long size1) {
  __shared__ float part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    const long long i0 = o;

    // max over i1
    const long long total0 = size1;
    float acc0 = (float)-fg_inf();
    for (long long f = lane; f < total0; f += lanes) {
      const long long i1 = f;
      const float t0 = fg_cast<float>(in0[i0 * in0_s0 + i1 * in0_s1]);
      acc0 = fg_max(acc0, t0);
    }
    part0[slot] = acc0;
    __syncthreads();
    for (int half = lanes / 2; half > 0; half /= 2) {
      if (lane < half) {
        part0[slot] = fg_max(part0[slot], part0[slot + half]);
      }
      __syncthreads();
    }
    acc0 = part0[slot - lane];
    const float r0 = acc0;
    // the partial results are written anew for the next result
    __syncthreads();
    if (lane == 0 && first + threadIdx.y < results) out0[o] = fg_cast<fg_f16>(r0);
  }
}

// ops.yaml:1 amax on bf16
#line 1 "ops.yaml"
extern "C" __global__ void amax_bf16(
    fg_bf16* __restrict__ out0,
    const fg_bf16* __restrict__ in0, long long in0_s0, long long in0_s1,
    long long size0, long long size1) {
  __shared__ float part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    const long long i0 = o;

    // max over i1
    const long long total0 = size1;
    float acc0 = (float)-fg_inf();
    for (long long f = lane; f < total0; f += lanes) {
      const long long i1 = f;
      const float t0 = fg_cast<float>(in0[i0 * in0_s0 + i1 * in0_s1]);
      acc0 = fg_max(acc0, t0);
    }
    part0[slot] = acc0;
    __syncthreads();
    for (int half = lanes / 2; half > 0; half /= 2) {
      if (lane < half) {
        part0[slot] = fg_max(part0[slot], part0[slot + half]);
      }
      __syncthreads();
    }
    acc0 = part0[slot - lane];
    const float r0 = acc0;
    // the partial results are written anew for the next result
    __syncthreads();
    if (lane == 0 && first + threadIdx.y < results) out0[o] = fg_cast<fg_bf16>(r0);
  }
}

// ops.yaml:1 amax on i64
#line 1 "ops.yaml"
extern "C" __global__ void amax_i64(
    long long* __restrict__ out0,
    const long long* __restrict__ in0, long long in0_s0, long long in0_s1,
    long long size0, long long size1) {
  __shared__ long long part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    const long long i0 = o;

    // max over i1
    const long long total0 = size1;
    long long acc0 = (-9223372036854775807LL - 1);
    for (long long f = lane; f < total0; f += lanes) {
      const long long i1 = f;
      acc0 = fg_max(acc0, in0[i0 * in0_s0 + i1 * in0_s1]);
    }
    part0[slot] = acc0;
    __syncthreads();
    for (int half = lanes / 2; half > 0; half /= 2) {
      if (lane < half) {
        part0[slot] = fg_max(part0[slot], part0[slot + half]);
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

// ops.yaml:1 amax on bool
#line 1 "ops.yaml"
extern "C" __global__ void amax_bool(
    bool* __restrict__ out0,
    const bool* __restrict__ in0, long long in0_s0, long long in0_s1,
    long long size0, long long size1) {
  __shared__ bool part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    const long long i0 = o;

    // max over i1
    const long long total0 = size1;
    bool acc0 = false;
    for (long long f = lane; f < total0; f += lanes) {
      const long long i1 = f;
      acc0 = fg_max(acc0, in0[i0 * in0_s0 + i1 * in0_s1]);
    }
    part0[slot] = acc0;
    __syncthreads();
    for (int half = lanes / 2; half > 0; half /= 2) {
      if (lane < half) {
        part0[slot] = fg_max(part0[slot], part0[slot + half]);
      }
      __syncthreads();
    }
    acc0 = part0[slot - lane];
    const bool r0 = acc0;
    // the partial results are written anew for the next result
    __syncthreads();
    if (lane == 0 && first + threadIdx.y < results) out0[o] = r0;
  }
}

// ---- cuda/amax__vjp__x.cu
// No CUDA C of `amax.vjp.x`: neither pointwise nor a reduction: it moves elements.

// ---- cuda/amax__vjp__x__part1.cu
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 amax.vjp.x.part1 on f32
#line 1 "ops.yaml"
extern "C" __global__ void amax__vjp__x__part1_keepdim_false_f32(
    long long* __restrict__ out0,
    const float* __restrict__ in0, long long in0_s0, long long in0_s1,
    const float* __restrict__ in1, long long in1_s0,
    long long size0, long long size1) {
  __shared__ long long part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    const long long i0 = o;

    // sum over i1
    const long long total0 = size1;
    long long acc0 = 0LL;
    for (long long f = lane; f < total0; f += lanes) {
      const long long i1 = f;
      const bool t0 = (in0[i0 * in0_s0 + i1 * in0_s1] == in1[i0 * in1_s0]);
      acc0 = fg_add(acc0, (t0 ? 1LL : 0LL));
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

// ops.yaml:1 amax.vjp.x.part1 on f32
#line 1 "ops.yaml"
extern "C" __global__ void amax__vjp__x__part1_keepdim_true_f32(
    long long* __restrict__ out0,
    const float* __restrict__ in0, long long in0_s0, long long in0_s1,
    const float* __restrict__ in1, long long in1_s0, long long in1_s1,
    long long size0, long long size1) {
  __shared__ long long part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    const long long i0 = o;

    // sum over i1
    const long long total0 = size1;
    long long acc0 = 0LL;
    for (long long f = lane; f < total0; f += lanes) {
      const long long i1 = f;
      const bool t0 = (in0[i0 * in0_s0 + i1 * in0_s1] == in1[i0 * in1_s0]);
      acc0 = fg_add(acc0, (t0 ? 1LL : 0LL));
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

// ops.yaml:1 amax.vjp.x.part1 on f64
#line 1 "ops.yaml"
extern "C" __global__ void amax__vjp__x__part1_keepdim_false_f64(
    long long* __restrict__ out0,
    const double* __restrict__ in0, long long in0_s0, long long in0_s1,
    const double* __restrict__ in1, long long in1_s0,
    long long size0, long long size1) {
  __shared__ long long part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    const long long i0 = o;

    // sum over i1
    const long long total0 = size1;
    long long acc0 = 0LL;
    for (long long f = lane; f < total0; f += lanes) {
      const long long i1 = f;
      const bool t0 = (in0[i0 * in0_s0 + i1 * in0_s1] == in1[i0 * in1_s0]);
      acc0 = fg_add(acc0, (t0 ? 1LL : 0LL));
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

// ops.yaml:1 amax.vjp.x.part1 on f64
#line 1 "ops.yaml"
extern "C" __global__ void amax__vjp__x__part1_keepdim_true_f64(
    long long* __restrict__ out0,
    const double* __restrict__ in0, long long in0_s0, long long in0_s1,
    const double* __restrict__ in1, long long in1_s0, long long in1_s1,
    long long size0, long long size1) {
  __shared__ long long part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    const long long i0 = o;

    // sum over i1
    const long long total0 = size1;
    long long acc0 = 0LL;
    for (long long f = lane; f < total0; f += lanes) {
      const long long i1 = f;
      const bool t0 = (in0[i0 * in0_s0 + i1 * in0_s1] == in1[i0 * in1_s0]);
      acc0 = fg_add(acc0, (t0 ? 1LL : 0LL));
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

// ops.yaml:1 amax.vjp.x.part1 on f16
#line 1 "ops.yaml"
extern "C" __global__ void amax__vjp__x__part1_keepdim_false_f16(
    long long* __restrict__ out0,
    const fg_f16* __restrict__ in0, long long in0_s0, long long in0_s1,
    const fg_f16* __restrict__ in1, long long in1_s0,
    long long size0, long long size1) {
  __shared__ long long part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    const long long i0 = o;

    // sum over i1
    const long long total0 = size1;
    long long acc0 = 0LL;
    for (long long f = lane; f < total0; f += lanes) {
      const long long i1 = f;
      const float t0 = fg_cast<float>(in0[i0 * in0_s0 + i1 * in0_s1]);
      const long long t1 = ((t0 == fg_cast<float>(in1[i0 * in1_s0])) ? 1LL : 0LL);
      acc0 = fg_add(acc0, t1);
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

// ops.yaml:1 amax.vjp.x.part1 on f16
#line 1 "ops.yaml"
extern "C" __global__ void amax__vjp__x__part1_keepdim_true_f16(
    long long* __restrict__ out0,
    const fg_f16* __restrict__ in0, long long in0_s0, long long in0_s1,
    const fg_f16* __restrict__ in1, long long in1_s0, long long in1_s1,
    long long size0, long long size1) {
  __shared__ long long part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    const long long i0 = o;

    // sum over i1
    const long long total0 = size1;
    long long acc0 = 0LL;
    for (long long f = lane; f < total0; f += lanes) {
      const long long i1 = f;
      const float t0 = fg_cast<float>(in0[i0 * in0_s0 + i1 * in0_s1]);
      const long long t1 = ((t0 == fg_cast<float>(in1[i0 * in1_s0])) ? 1LL : 0LL);
      acc0 = fg_add(acc0, t1);
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

// ops.yaml:1 amax.vjp.x.part1 on bf16
#line 1 "ops.yaml"
extern "C" __global__ void amax__vjp__x__part1_keepdim_false_bf16(
    long long* __restrict__ out0,
    const fg_bf16* __restrict__ in0, long long in0_s0, long long in0_s1,
    const fg_bf16* __restrict__ in1, long long in1_s0,
    long long size0, long long size1) {
  __shared__ long long part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    const long long i0 = o;

    // sum over i1
    const long long total0 = size1;
    long long acc0 = 0LL;
    for (long long f = lane; f < total0; f += lanes) {
      const long long i1 = f;
      const float t0 = fg_cast<float>(in0[i0 * in0_s0 + i1 * in0_s1]);
      const long long t1 = ((t0 == fg_cast<float>(in1[i0 * in1_s0])) ? 1LL : 0LL);
      acc0 = fg_add(acc0, t1);
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

// ops.yaml:1 amax.vjp.x.part1 on bf16
#line 1 "ops.yaml"
extern "C" __global__ void amax__vjp__x__part1_keepdim_true_bf16(
    long long* __restrict__ out0,
    const fg_bf16* __restrict__ in0, long long in0_s0, long long in0_s1,
    const fg_bf16* __restrict__ in1, long long in1_s0, long long in1_s1,
    long long size0, long long size1) {
  __shared__ long long part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    const long long i0 = o;

    // sum over i1
    const long long total0 = size1;
    long long acc0 = 0LL;
    for (long long f = lane; f < total0; f += lanes) {
      const long long i1 = f;
      const float t0 = fg_cast<float>(in0[i0 * in0_s0 + i1 * in0_s1]);
      const long long t1 = ((t0 == fg_cast<float>(in1[i0 * in1_s0])) ? 1LL : 0LL);
      acc0 = fg_add(acc0, t1);
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
