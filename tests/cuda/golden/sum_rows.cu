// sum: f32[4096, 1024] -> f32[32, 1024]
#line 1 "ops.yaml"
extern "C" __global__ void __launch_bounds__(256) sum_parts_80aee0df5de1e772(const float* __restrict__ p0, float* __restrict__ p1) {
  __shared__ float of_acc0[256];
  // 32 neighbouring results side by side, the rows of the block share what is reduced
  const int lane = threadIdx.y, column = threadIdx.x;
  const bool active = (int)blockIdx.x * 32 + column < 1024;
  // threads behind the last result repeat it, so that all meet at the barriers
  const int o = active ? (int)blockIdx.x * 32 + column : 1024 - 1;
  const int first = (int)blockIdx.y * 128;
  const int i0 = o;
  float acc0 = 0.0f;
  for (int i1 = first + lane; i1 < first + 128; i1 += 8) {
    const float v1 = p0[i0 + 1024 * i1];
    acc0 = fg_sum()(acc0, v1);
  }
  acc0 = fg_fold_columns<8>(acc0, fg_sum(), of_acc0, lane, column);
  if (lane == 0 && active) p1[(int)blockIdx.y * 1024 + o] = acc0;
}

// sum: f32[32, 1024] -> f32[1024]
#line 1 "ops.yaml"
extern "C" __global__ void __launch_bounds__(256) sum_finish_6cd47888edbdcdce(const float* __restrict__ p0, float* __restrict__ p1) {
  // a warp per result folds its parts, eight in a block
  const int lane = threadIdx.x;
  const int o = (int)blockIdx.x * 8 + threadIdx.y;
  if (o >= 1024) return;
  float acc = 0.0f;
  for (int part = lane; part < 32; part += 32) acc = fg_sum()(acc, p0[(int)part * 1024 + o]);
  acc = fg_fold_warp<32>(acc, fg_sum());
  if (lane == 0) p1[o] = acc;
}
