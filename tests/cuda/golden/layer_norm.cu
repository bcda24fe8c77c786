// cast, sum, div, sub, mul, add, rsqrt: bf16[4096, 768], bf16[768], bf16[768] -> bf16[4096, 768]
extern "C" __global__ void __launch_bounds__(256) cast_team_903dcb46f9f43661(const fg_bf16* __restrict__ p0, const fg_bf16* __restrict__ p1, const fg_bf16* __restrict__ p2, fg_bf16* __restrict__ p3) {
  // a warp per result, eight in a block
  const int lane = threadIdx.x;
  const int o = (int)blockIdx.x * 8 + threadIdx.y;
  if (o >= 4096) return;
  const int i0 = o;
  float acc0 = 0.0f;
  for (int j = 8 * lane; j < 768; j += 256) {
    const fg_pack<fg_bf16, 8> x1 = fg_load<8>(p0 + 768 * i0 + j);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const float v2 = x1.at[k];
      acc0 = fg_sum()(acc0, v2);
    }
  }
  acc0 = fg_fold_warp<32>(acc0, fg_sum());
  const float v6 = (acc0 / 768.0f);
  float acc3 = 0.0f;
  for (int j = 8 * lane; j < 768; j += 256) {
    const fg_pack<fg_bf16, 8> x4 = fg_load<8>(p0 + 768 * i0 + j);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const float v5 = x4.at[k];
      const float v7 = v5 - v6;
      acc3 = fg_sum()(acc3, v7 * v7);
    }
  }
  acc3 = fg_fold_warp<32>(acc3, fg_sum());
  const float v11 = (acc3 / 768.0f);
  const float v12 = v11 + 9.999999747378752e-6f;
  const float v13 = fg_rsqrt(v12);
  for (int j = 8 * lane; j < 768; j += 256) {
    const fg_pack<fg_bf16, 8> x8 = fg_load<8>(p0 + 768 * i0 + j);
    const fg_pack<fg_bf16, 8> x14 = fg_load<8>(p1 + j);
    const fg_pack<fg_bf16, 8> x16 = fg_load<8>(p2 + j);
    fg_pack<fg_bf16, 8> y19;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const float v9 = x8.at[k];
      const float v10 = v9 - v6;
      const float v15 = x14.at[k];
      const float v17 = x16.at[k];
      const float v18 = (float)fg_to<fg_bf16>::from(((v10 * v13) * v15) + v17);
      y19.at[k] = fg_to<fg_bf16>::from(v18);
    }
    fg_store(p3 + 768 * i0 + j, y19);
  }
}
