// sum: f32[4096, 4096] -> f32[1024, 1]
#line 1 "ops.yaml"
extern "C" __global__ void __launch_bounds__(256) sum_parts_a5e65f5dc7f111c0(const float* __restrict__ p0, float* __restrict__ p1) {
  __shared__ float of_acc0[8];
  // a block per result
  const int lane = threadIdx.x;
  const int o = blockIdx.x;
  const int first = (int)blockIdx.y * 16384;
  float acc0 = 0.0f;
  for (int j = first + 4 * lane; j < first + 16384; j += 1024) {
    const fg_pack<float, 4> x1 = fg_load<4>(p0 + j);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float v2 = x1.at[k];
      acc0 = fg_sum()(acc0, v2);
    }
  }
  acc0 = fg_fold_block<256>(acc0, fg_sum(), of_acc0, lane);
  if (lane == 0) p1[(int)blockIdx.y * 1 + o] = acc0;
}

// sum: f32[1024, 1] -> f32[]
#line 1 "ops.yaml"
extern "C" __global__ void __launch_bounds__(256) sum_finish_b0aff06f0f308f16(const float* __restrict__ p0, float* __restrict__ p1) {
  // a warp per result folds its parts, eight in a block
  const int lane = threadIdx.x;
  const int o = (int)blockIdx.x * 8 + threadIdx.y;
  if (o >= 1) return;
  float acc = 0.0f;
  for (int part = lane; part < 1024; part += 32) acc = fg_sum()(acc, p0[(int)part * 1 + o]);
  acc = fg_fold_warp<32>(acc, fg_sum());
  if (lane == 0) p1[o] = acc;
}
