// amax, sub, exp, sum, div: f32[4096, 1024] -> f32[4096, 1024]
extern "C" __global__ void __launch_bounds__(256) amax_team_5472e3873817ea38(const float* __restrict__ p0, float* __restrict__ p1) {
  // a warp per result, eight in a block
  const int lane = threadIdx.x;
  const int o = (int)blockIdx.x * 8 + threadIdx.y;
  if (o >= 4096) return;
  const int i0 = o;
  float acc0 = (float)-fg_inf();
  for (int j = 4 * lane; j < 1024; j += 128) {
    const fg_pack<float, 4> x1 = fg_load<4>(p0 + 1024 * i0 + j);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float v2 = x1.at[k];
      acc0 = fg_largest()(acc0, v2);
    }
  }
  acc0 = fg_fold_warp<32>(acc0, fg_largest());
  float acc3 = 0.0f;
  for (int j = 4 * lane; j < 1024; j += 128) {
    const fg_pack<float, 4> x4 = fg_load<4>(p0 + 1024 * i0 + j);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float v5 = x4.at[k];
      const float v6 = exp(v5 - acc0);
      acc3 = fg_sum()(acc3, v6);
    }
  }
  acc3 = fg_fold_warp<32>(acc3, fg_sum());
  for (int j = 4 * lane; j < 1024; j += 128) {
    const fg_pack<float, 4> x7 = fg_load<4>(p0 + 1024 * i0 + j);
    fg_pack<float, 4> y10;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float v8 = x7.at[k];
      const float v9 = exp(v8 - acc0);
      y10.at[k] = (v9 / acc3);
    }
    fg_store(p1 + 1024 * i0 + j, y10);
  }
}
