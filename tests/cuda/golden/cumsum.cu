// cumsum: f32[512, 4096] -> f32[512, 4096]
#line 1 "ops.yaml"
extern "C" __global__ void __launch_bounds__(256) cumsum_scan_5f604abd7df487ba(const float* __restrict__ p0, float* __restrict__ p1) {
  // a block per line, 1024 elements at once: four a thread, then the threads of a warp, then the warps
  __shared__ float totals[8];
  const int thread = threadIdx.x;
  const long long o = blockIdx.x;
  const long long i0 = o / 1 % 512;
  float before = 0.0f;
  for (long long first = 0; first < 4096; first += 1024) {
    float x[4];
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const long long j = first + 4 * thread + k;
      x[k] = j < 4096 ? (float)p0[4096 * i0 + 1 * j] : 0.0f;
      sum = fg_sum()(sum, x[k]);
    }
    // what the lanes before this one have
    float lanes = sum;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const float other = __shfl_up_sync(0xffffffffu, lanes, distance);
      if (thread % 32 >= distance) lanes = fg_sum()(other, lanes);
    }
    if (thread % 32 == 31) totals[thread / 32] = lanes;
    float sofar = __shfl_up_sync(0xffffffffu, lanes, 1);
    if (thread % 32 == 0) sofar = 0.0f;
    __syncthreads();
    float warps = before;
    for (int warp = 0; warp < thread / 32; ++warp) warps = fg_sum()(warps, totals[warp]);
    float run = fg_sum()(warps, sofar);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const long long j = first + 4 * thread + k;
      run = fg_sum()(run, x[k]);
      if (j < 4096) p1[o * 4096 + j] = run;
    }
    for (int warp = 0; warp < 8; ++warp) before = fg_sum()(before, totals[warp]);
    __syncthreads();
  }
}
