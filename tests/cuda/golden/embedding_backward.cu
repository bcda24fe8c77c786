// embedding_backward: i64[8192] -> bool[]
#line 1 "ops.yaml"
extern "C" __global__ void __launch_bounds__(256) embedding_backward_team_7a4e33a925c52d75(const long long* __restrict__ p0, bool* __restrict__ p1) {
  __shared__ bool of_acc0[8];
  // a block per result
  const int lane = threadIdx.x;
  const int o = blockIdx.x;
  bool acc0 = true;
  for (int j = 2 * lane; j < 8192; j += 512) {
    const fg_pack<long long, 2> x1 = fg_load<2>(p0 + j);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const long long v2 = x1.at[k];
      acc0 = fg_prod()(acc0, (bool)(((0LL <= v2) & (v2 < 32768LL))));
    }
  }
  acc0 = fg_fold_block<256>(acc0, fg_prod(), of_acc0, lane);
  if (lane == 0) p1[0] = acc0;
}

// embedding_backward: i64[8192] -> i32[8192]
#line 1 "ops.yaml"
extern "C" __global__ void __launch_bounds__(256) embedding_backward_chains_883319291729afd7(const long long* __restrict__ p0, int* __restrict__ p1) {
  // elements with one place are a chain in the order of the loops: each element is compared with all
  __shared__ long long places[256];
  const auto place = [&](int g) -> long long {
    const int i1 = g;
    const long long v0 = p0[i1];
    return 256 * (v0);
  };
  const int own = blockIdx.x * 256 + threadIdx.x;
  const long long mine = own < 8192 ? place(own) : 0;
  int next = 0;
  bool first = true;
  for (int from = 0; from < 8192; from += 256) {
    const int loaded = from + threadIdx.x;
    if (loaded < 8192) places[threadIdx.x] = place(loaded);
    __syncthreads();
    const int most = 8192 - from < 256 ? 8192 - from : 256;
    for (int t = 0; t < most; ++t) {
      if (places[t] != mine) continue;
      if (from + t < own) first = false;
      if (from + t > own && next == 0) next = from + t + 1;
    }
    __syncthreads();
  }
  if (own < 8192) p1[own] = first ? next : -1 - next;
}

// embedding_backward: i32[8192], i64[8192], f32[8192, 256] -> f32[32768, 256]
#line 1 "ops.yaml"
extern "C" __global__ void __launch_bounds__(256) embedding_backward_scatter_ce08bd61ca984df7(const int* __restrict__ p0, float* __restrict__ p1, const long long* __restrict__ p2, const float* __restrict__ p3) {
  // places that different threads write are different; each takes what comes to it in the order of the loops
  const int f = (int)blockIdx.x * 256 + threadIdx.x;
  if (f >= 2097152) return;
  const int i0 = f % 256, first = f / 256;
  if (p0[first] < 0) return;
  for (int g = first; g >= 0; g = fg_after(p0[g])) {
    const int i1 = g;
    const long long v0 = p2[i1];
    const float v1 = p3[i0 + 256 * i1];
    if ((v0 != (-1LL)) && fg_inside(v0, 32768)) p1[i0 + 256 * (v0)] = fg_add(p1[i0 + 256 * (v0)], v1);
  }
}
