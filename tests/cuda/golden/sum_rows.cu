// sum: f32[4096, 1024] -> f32[1024]
#line 1120 "ops.yaml"
extern "C" __global__ void __launch_bounds__(1024) sum_team_654da6e42126c629(const float* __restrict__ p0, float* __restrict__ p1) {
  __shared__ float of_acc0[1024];
  // 32 neighbouring results side by side, the rows of the block share what is reduced
  const int lane = threadIdx.y, column = threadIdx.x;
  const bool active = (int)blockIdx.x * 32 + column < 1024;
  // threads behind the last result repeat it, so that all meet at the barriers
  const int o = active ? (int)blockIdx.x * 32 + column : 1024 - 1;
  const int i0 = o;
  float acc0 = 0.0f;
  for (int i1 = lane; i1 < 4096; i1 += 32) {
    const float v1 = p0[i0 + 1024 * i1];
    acc0 = fg_sum()(acc0, v1);
  }
  acc0 = fg_fold_columns<32>(acc0, fg_sum(), of_acc0, lane, column);
  if (lane == 0 && active) p1[i0] = acc0;
}
