// dropout: i64[2], f32[4096, 1024] -> f32[4096, 1024]
#line 1 "ops.yaml"
extern "C" __global__ void __launch_bounds__(256) dropout_map_e525b96e357ae886(const long long* __restrict__ p0, const float* __restrict__ p1, float* __restrict__ p2) {
  const int j = 4 * ((int)blockIdx.x * 256 + threadIdx.x);
  if (j >= 4194304) return;
  const fg_pack<float, 4> x2 = fg_load<4>(p1 + j);
  fg_pack<float, 4> y4;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int i1 = j + k;
    const float v0 = (float)fg_uniform(fg_key{(unsigned long long)p0[0], (unsigned long long)p0[1]}, (long long)(i1), 0u);
    const bool v1 = (v0 >= 0.10000000149011612f);
    const float v3 = x2.at[k];
    y4.at[k] = (v1 ? (v3 / 0.8999999761581421f) : 0.0f);
  }
  fg_store(p2 + j, y4);
}
