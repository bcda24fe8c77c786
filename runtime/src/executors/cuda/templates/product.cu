// {{ comment }}
{{ line_directive }}extern "C" __global__ void __launch_bounds__(256) {{ name }}({{ params }}) {
  // a tile of 64 by 64 results a block, 4 by 4 a thread; 16 terms at once
  __shared__ {{ ty }} left[16][65], right[16][65];
  const int thread = threadIdx.x, row = thread / 16, col = thread % 16;
  const {{ ix }} m0 = (blockIdx.x / {{ tiles_n }}) * {{ edge }}, n0 = (blockIdx.x % {{ tiles_n }}) * {{ edge }};
  const {{ ix }} batch = blockIdx.y;
  const {{ ix }} a0 = {{ a_batch }};
  const {{ ix }} b0 = {{ b_batch }};
  {{ ty }} sum[4][4] = {};
  for ({{ ix }} k0 = 0; k0 < {{ k }}; k0 += 16) {
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      {
        const int i = {{ a_row }}, t = {{ a_term }};
        const {{ ix }} m = m0 + i, k = k0 + t;
        left[t][i] = m < {{ m }} && k < {{ k }} ? {{ ty }}({{ a }}[a0 + {{ a_offset }}]) : {{ ty }}(0);
      }
      {
        const int j = {{ b_row }}, t = {{ b_term }};
        const {{ ix }} n = n0 + j, k = k0 + t;
        right[t][j] = n < {{ n }} && k < {{ k }} ? {{ ty }}({{ b }}[b0 + {{ b_offset }}]) : {{ ty }}(0);
      }
    }
    __syncthreads();
#pragma unroll
    for (int t = 0; t < 16; ++t) {
      {{ ty }} x[4], y[4];
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
  const {{ ix }} c0 = {{ c_batch }};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const {{ ix }} m = m0 + row + 16 * i, n = n0 + col + 16 * j;
      if (m < {{ m }} && n < {{ n }}) {{ c }}[c0 + {{ c_offset }}] {{ assign }} sum[i][j];
    }
  }
}
