// {{ comment }}
{{ line_directive }}extern "C" __global__ void __launch_bounds__(256) {{ name }}({{ params }}) {
  // elements with one place are a chain in the order of the loops: each element is compared with all
  __shared__ long long places[256];
  const auto place = [&]({{ ix }} g) -> long long {
{{ body }}    return {{ place }};
  };
  const int own = blockIdx.x * 256 + threadIdx.x;
  const long long mine = own < {{ count }} ? place(own) : 0;
  int next = 0;
  bool first = true;
  for (int from = 0; from < {{ count }}; from += 256) {
    const int loaded = from + threadIdx.x;
    if (loaded < {{ count }}) places[threadIdx.x] = place(loaded);
    __syncthreads();
    const int most = {{ count }} - from < 256 ? {{ count }} - from : 256;
    for (int t = 0; t < most; ++t) {
      if (places[t] != mine) continue;
      if (from + t < own) first = false;
      if (from + t > own && next == 0) next = from + t + 1;
    }
    __syncthreads();
  }
  if (own < {{ count }}) {{ links }}[own] = first ? next : -1 - next;
}
