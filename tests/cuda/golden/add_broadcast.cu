// add: bf16[64, 128, 768], bf16[768] -> bf16[64, 128, 768]
#line 1 "ops.yaml"
extern "C" __global__ void __launch_bounds__(256) add_map_803dd94c7e2a4ea9(const fg_bf16* __restrict__ p0, const fg_bf16* __restrict__ p1, fg_bf16* __restrict__ p2) {
  const int f = 8 * ((int)blockIdx.x * 256 + threadIdx.x);
  if (f >= 6291456) return;
  const int j = f % 768, i1 = f / 768;
  const fg_pack<fg_bf16, 8> x0 = fg_load<8>(p0 + 768 * i1 + j);
  const fg_pack<fg_bf16, 8> x2 = fg_load<8>(p1 + j);
  fg_pack<fg_bf16, 8> y4;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const float v1 = x0.at[k];
    const float v3 = x2.at[k];
    y4.at[k] = fg_to<fg_bf16>::from((float)fg_to<fg_bf16>::from(v1 + v3));
  }
  fg_store(p2 + 768 * i1 + j, y4);
}
