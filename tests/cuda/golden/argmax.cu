// argmax: f32[512, 50257] -> i64[512]
#line 1 "ops.yaml"
extern "C" __global__ void __launch_bounds__(1024) argmax_team_da9af2e422fa030b(const float* __restrict__ p0, long long* __restrict__ p1) {
  __shared__ fg_found<float> of_acc0[32];
  // a block per result
  const int lane = threadIdx.x;
  const int o = blockIdx.x;
  const int i0 = o;
  fg_found<float> acc0 = {(float)-fg_inf(), -1};
  for (int i1 = lane; i1 < 50257; i1 += 1024) {
    const float v1 = p0[50257 * i0 + i1];
    acc0 = fg_argmax()(acc0, fg_found<float>{v1, i1});
  }
  acc0 = fg_fold_block<1024>(acc0, fg_argmax(), of_acc0, lane);
  const long long v2 = acc0.at < 0 ? 0 : acc0.at;
  if (lane == 0) p1[i0] = v2;
}
