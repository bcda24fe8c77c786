// cast, sum, div, sub, mul, add, rsqrt: bf16[*, *], bf16[*], bf16[*] -> bf16[*, *]
extern "C" __global__ void __launch_bounds__(256) cast_team_any_d0f849b185ebfa71(const fg_bf16* __restrict__ p0, const fg_bf16* __restrict__ p1, const fg_bf16* __restrict__ p2, fg_bf16* __restrict__ p3, const int size0, const int size1, const int size2, const float value3, const int size4, const float value5, const float value6, const int size7, const int size8) {
  // a warp per result, eight in a block
  const int lane = threadIdx.x;
  const int o = (int)blockIdx.x * 8 + threadIdx.y;
  if (o >= size0) return;
  const int i0 = o;
  fg_pack<fg_bf16, 8> row1[4];
  float acc0 = 0.0f;
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int j = 8 * lane + 256 * r;
    if (j >= size1) break;
    row1[r] = fg_load<8>(p0 + size2 * i0 + j);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const float v2 = row1[r].at[k];
      acc0 = fg_sum()(acc0, v2);
    }
  }
  acc0 = fg_fold_warp<32>(acc0, fg_sum());
  const float v5 = (acc0 / value3);
  float acc3 = 0.0f;
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int j = 8 * lane + 256 * r;
    if (j >= size4) break;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const float v4 = row1[r].at[k];
      const float v6 = v4 - v5;
      acc3 = fg_sum()(acc3, v6 * v6);
    }
  }
  acc3 = fg_fold_warp<32>(acc3, fg_sum());
  const float v9 = (acc3 / value5);
  const float v10 = v9 + value6;
  const float v11 = fg_rsqrt(v10);
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int j = 8 * lane + 256 * r;
    if (j >= size7) break;
    const fg_pack<fg_bf16, 8> x12 = fg_load<8>(p1 + j);
    const fg_pack<fg_bf16, 8> x14 = fg_load<8>(p2 + j);
    fg_pack<fg_bf16, 8> y17;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const float v7 = row1[r].at[k];
      const float v8 = v7 - v5;
      const float v13 = x12.at[k];
      const float v15 = x14.at[k];
      const float v16 = (float)fg_to<fg_bf16>::from(((v8 * v11) * v13) + v15);
      y17.at[k] = fg_to<fg_bf16>::from(v16);
    }
    fg_store(p3 + size8 * i0 + j, y17);
  }
}
