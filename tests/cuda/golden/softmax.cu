// amax, sub, exp, sum, div: f32[4096, 1024] -> f32[4096, 1024]
extern "C" __global__ void __launch_bounds__(256) amax_team_9639b88041cac657(const float* __restrict__ p0, float* __restrict__ p1) {
  // a warp per result, eight in a block
  const int lane = threadIdx.x;
  const int o = (int)blockIdx.x * 8 + threadIdx.y;
  if (o >= 4096) return;
  const int i0 = o;
  fg_pack<float, 4> row1[8];
  float acc0 = (float)-fg_inf();
#pragma unroll
  for (int r = 0; r < 8; ++r) {
    const int j = 4 * lane + 128 * r;
    row1[r] = fg_load<4>(p0 + 1024 * i0 + j);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float v2 = row1[r].at[k];
      acc0 = fg_largest()(acc0, v2);
    }
  }
  acc0 = fg_fold_warp<32>(acc0, fg_largest());
  float acc3 = 0.0f;
#pragma unroll
  for (int r = 0; r < 8; ++r) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float v4 = row1[r].at[k];
      const float v5 = exp(v4 - acc0);
      acc3 = fg_sum()(acc3, v5);
    }
  }
  acc3 = fg_fold_warp<32>(acc3, fg_sum());
#pragma unroll
  for (int r = 0; r < 8; ++r) {
    const int j = 4 * lane + 128 * r;
    fg_pack<float, 4> y8;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float v6 = row1[r].at[k];
      const float v7 = exp(v6 - acc0);
      y8.at[k] = (v7 / acc3);
    }
    fg_store(p1 + 1024 * i0 + j, y8);
  }
}
