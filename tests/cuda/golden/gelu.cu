// gelu: f32[4096, 1024] -> f32[4096, 1024]
#line 1 "ops.yaml"
extern "C" __global__ void __launch_bounds__(256) gelu_map_0906bbbf06e43265(const float* __restrict__ p0, float* __restrict__ p1) {
  const int j = 4 * ((int)blockIdx.x * 256 + threadIdx.x);
  if (j >= 4194304) return;
  const fg_pack<float, 4> x0 = fg_load<4>(p0 + j);
  fg_pack<float, 4> y2;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const float v1 = x0.at[k];
    y2.at[k] = (0.5f * v1) * (1.0f + erf(v1 * 0.7071067690849304f));
  }
  fg_store(p1 + j, y2);
}
