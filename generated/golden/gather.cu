// ---- cuda/gather.cu
// No CUDA C of `gather`: neither pointwise nor a reduction: it moves elements.

// ---- cuda/gather__vjp__x.cu
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 gather.vjp.x on f32
#line 1 "ops.yaml"
extern "C" __global__ void gather__vjp__x_f32(
    float* __restrict__ out0,
    const float* __restrict__ in0, long long in0_s0, long long in0_s1, long long in0_s2,
    const long long* __restrict__ in1, long long in1_s0, long long in1_s1, long long in1_s2,
    const float* __restrict__ in2, long long in2_s0, long long in2_s1, long long in2_s2,
    long long size0, long long size1, long long size2, long long size3) {
  __shared__ double part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0 * size1 * size2;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    long long rest = o;
    const long long i2 = rest % size2;
    rest /= size2;
    const long long i1 = rest % size1;
    rest /= size1;
    const long long i0 = rest;

    // sum over i3
    const long long total0 = size3;
    double acc0 = 0.0;
    for (long long f = lane; f < total0; f += lanes) {
      const long long i3 = f;
      const bool t0 = (in1[i0 * in1_s0 + i3 * in1_s1 + i2 * in1_s2] == i1);
      if (!t0) continue;
      acc0 = fg_add(acc0, fg_cast<double>(in2[i0 * in2_s0 + i3 * in2_s1 + i2 * in2_s2]));
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

// ops.yaml:1 gather.vjp.x on f64
#line 1 "ops.yaml"
extern "C" __global__ void gather__vjp__x_f64(
    double* __restrict__ out0,
    const double* __restrict__ in0, long long in0_s0, long long in0_s1, long long in0_s2,
    const long long* __restrict__ in1, long long in1_s0, long long in1_s1, long long in1_s2,
    const double* __restrict__ in2, long long in2_s0, long long in2_s1, long long in2_s2,
    long long size0, long long size1, long long size2, long long size3) {
  __shared__ double part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0 * size1 * size2;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    long long rest = o;
    const long long i2 = rest % size2;
    rest /= size2;
    const long long i1 = rest % size1;
    rest /= size1;
    const long long i0 = rest;

    // sum over i3
    const long long total0 = size3;
    double acc0 = 0.0;
    for (long long f = lane; f < total0; f += lanes) {
      const long long i3 = f;
      const bool t0 = (in1[i0 * in1_s0 + i3 * in1_s1 + i2 * in1_s2] == i1);
      if (!t0) continue;
      acc0 = fg_add(acc0, in2[i0 * in2_s0 + i3 * in2_s1 + i2 * in2_s2]);
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

// ops.yaml:1 gather.vjp.x on f16
#line 1 "ops.yaml"
extern "C" __global__ void gather__vjp__x_f16(
    fg_f16* __restrict__ out0,
    const fg_f16* __restrict__ in0, long long in0_s0, long long in0_s1, long long in0_s2,
    const long long* __restrict__ in1, long long in1_s0, long long in1_s1, long long in1_s2,
    const fg_f16* __restrict__ in2, long long in2_s0, long long in2_s1, long long in2_s2,
    long long size0, long long size1, long long size2, long long size3) {
  __shared__ double part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0 * size1 * size2;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    long long rest = o;
    const long long i2 = rest % size2;
    rest /= size2;
    const long long i1 = rest % size1;
    rest /= size1;
    const long long i0 = rest;

    // sum over i3
    const long long total0 = size3;
    double acc0 = 0.0;
    for (long long f = lane; f < total0; f += lanes) {
      const long long i3 = f;
      const bool t0 = (in1[i0 * in1_s0 + i3 * in1_s1 + i2 * in1_s2] == i1);
      if (!t0) continue;
      const float t1 = fg_cast<float>(in2[i0 * in2_s0 + i3 * in2_s1 + i2 * in2_s2]);
      acc0 = fg_add(acc0, fg_cast<double>(t1));
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

// ops.yaml:1 gather.vjp.x on bf16
#line 1 "ops.yaml"
extern "C" __global__ void gather__vjp__x_bf16(
    fg_bf16* __restrict__ out0,
    const fg_bf16* __restrict__ in0, long long in0_s0, long long in0_s1, long long in0_s2,
    const long long* __restrict__ in1, long long in1_s0, long long in1_s1, long long in1_s2,
    const fg_bf16* __restrict__ in2, long long in2_s0, long long in2_s1, long long in2_s2,
    long long size0, long long size1, long long size2, long long size3) {
  __shared__ double part0[1024];
  const int lane = threadIdx.x, lanes = blockDim.x, slot = threadIdx.y * lanes + lane;
  const long long results = size0 * size1 * size2;
  const long long stride = (long long)gridDim.x * blockDim.y;
  for (long long first = (long long)blockIdx.x * blockDim.y; first < results; first += stride) {
    // a team behind the last result repeats it, so that all threads meet at the barriers, and writes nothing
    const long long o = first + threadIdx.y < results ? first + threadIdx.y : results - 1;
    long long rest = o;
    const long long i2 = rest % size2;
    rest /= size2;
    const long long i1 = rest % size1;
    rest /= size1;
    const long long i0 = rest;

    // sum over i3
    const long long total0 = size3;
    double acc0 = 0.0;
    for (long long f = lane; f < total0; f += lanes) {
      const long long i3 = f;
      const bool t0 = (in1[i0 * in1_s0 + i3 * in1_s1 + i2 * in1_s2] == i1);
      if (!t0) continue;
      const float t1 = fg_cast<float>(in2[i0 * in2_s0 + i3 * in2_s1 + i2 * in2_s2]);
      acc0 = fg_add(acc0, fg_cast<double>(t1));
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
