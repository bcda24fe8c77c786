// matmul: f32[512, 256], f32[256, 384] -> f32[512, 384]
#line 1 "ops.yaml"
extern "C" __global__ void __launch_bounds__(256) matmul_product_0fbf193fc7538385(const float* __restrict__ p0, const float* __restrict__ p1, float* __restrict__ p2) {
  // a tile of 64 by 64 results a block, 4 by 4 a thread; 16 terms at once
  __shared__ float left[16][65], right[16][65];
  const int thread = threadIdx.x, row = thread / 16, col = thread % 16;
  const int m0 = (blockIdx.x / 6) * 64, n0 = (blockIdx.x % 6) * 64;
  const int batch = blockIdx.y;
  const int a0 = 0;
  const int b0 = 0;
  float sum[4][4] = {};
  for (int k0 = 0; k0 < 256; k0 += 16) {
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      {
        const int i = thread / 16 + 16 * part, t = thread % 16;
        const int m = m0 + i, k = k0 + t;
        left[t][i] = m < 512 && k < 256 ? float(p0[a0 + 256 * m + k]) : float(0);
      }
      {
        const int j = thread % 64, t = thread / 64 + 4 * part;
        const int n = n0 + j, k = k0 + t;
        right[t][j] = n < 384 && k < 256 ? float(p1[b0 + n + 384 * k]) : float(0);
      }
    }
    __syncthreads();
#pragma unroll
    for (int t = 0; t < 16; ++t) {
      float x[4], y[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] = left[t][row + 16 * i];
#pragma unroll
      for (int j = 0; j < 4; ++j) y[j] = right[t][col + 16 * j];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] = fma(x[i], y[j], sum[i][j]);
      }
    }
    __syncthreads();
  }
  const int c0 = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int m = m0 + row + 16 * i, n = n0 + col + 16 * j;
      if (m < 512 && n < 384) p2[c0 + 384 * m + n] = sum[i][j];
    }
  }
}
