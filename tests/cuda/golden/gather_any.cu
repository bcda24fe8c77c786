// gather: f32[*, *], i64[*, *] -> f32[*, *]
#line 1 "ops.yaml"
extern "C" __global__ void __launch_bounds__(256) gather_map_any_3d55d8cf6d75e345(const float* __restrict__ p0, const long long* __restrict__ p1, float* __restrict__ p2, fg_fault* __restrict__ fault, const int size0, const int size1, const int size2, const int size3, const long long size4, const long long size5, const int size6) {
  const int f = 2 * ((int)blockIdx.x * 256 + threadIdx.x);
  if (f >= size0) return;
  const int j = f % size1, i0 = f / size2;
  const fg_pack<long long, 2> x0 = fg_load<2>(p1 + size3 * i0 + j);
  fg_pack<float, 2> y3;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const int i1 = j + k;
    const long long v1 = x0.at[k];
    const float v2 = p0[i1 + size4 * fg_index(v1, size5, fault, 1)];
    y3.at[k] = v2;
  }
  fg_store(p2 + size6 * i0 + j, y3);
}
