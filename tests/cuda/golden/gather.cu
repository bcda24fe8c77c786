// gather: f32[1000, 64], i64[32, 64] -> f32[32, 64]
#line 1 "ops.yaml"
extern "C" __global__ void __launch_bounds__(256) gather_map_f2c5770739952753(const float* __restrict__ p0, const long long* __restrict__ p1, float* __restrict__ p2, fg_fault* __restrict__ fault) {
  const int f = 2 * ((int)blockIdx.x * 256 + threadIdx.x);
  if (f >= 2048) return;
  const int j = f % 64, i0 = f / 64;
  const fg_pack<long long, 2> x0 = fg_load<2>(p1 + 64 * i0 + j);
  fg_pack<float, 2> y3;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const int i1 = j + k;
    const long long v1 = x0.at[k];
    const float v2 = p0[i1 + 64 * fg_index(v1, 1000, fault, 1)];
    y3.at[k] = v2;
  }
  fg_store(p2 + 64 * i0 + j, y3);
}
