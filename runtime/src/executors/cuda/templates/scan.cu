// {{ comment }}
{{ line_directive }}extern "C" __global__ void __launch_bounds__(256) {{ name }}({{ params }}) {
  // a block per line, 1024 elements at once: four a thread, then the threads of a warp, then the warps
  __shared__ {{ acc }} totals[8];
  const int thread = threadIdx.x;
  const {{ ix }} o = blockIdx.x;
{{ decode }}
  {{ acc }} before = {{ start }};
  for ({{ ix }} first = 0; first < {{ length }}; first += 1024) {
    {{ acc }} x[4];
    {{ acc }} sum = {{ start }};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const {{ ix }} j = first + 4 * thread + k;
      x[k] = j < {{ length }} ? ({{ acc }}){{ element }} : {{ start }};
      sum = {{ op }}()(sum, x[k]);
    }
    // what the lanes before this one have
    {{ acc }} lanes = sum;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const {{ acc }} other = __shfl_up_sync(0xffffffffu, lanes, distance);
      if (thread % 32 >= distance) lanes = {{ op }}()(other, lanes);
    }
    if (thread % 32 == 31) totals[thread / 32] = lanes;
    {{ acc }} sofar = __shfl_up_sync(0xffffffffu, lanes, 1);
    if (thread % 32 == 0) sofar = {{ start }};
    __syncthreads();
    {{ acc }} warps = before;
    for (int warp = 0; warp < thread / 32; ++warp) warps = {{ op }}()(warps, totals[warp]);
    {{ acc }} run = {{ op }}()(warps, sofar);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const {{ ix }} j = first + 4 * thread + k;
      {{ steps }}
    }
    for (int warp = 0; warp < 8; ++warp) before = {{ op }}()(before, totals[warp]);
    __syncthreads();
  }
}
