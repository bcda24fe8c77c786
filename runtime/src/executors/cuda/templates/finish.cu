// {{ comment }}
{{ line_directive }}extern "C" __global__ void __launch_bounds__(256) {{ name }}({{ params }}) {
  // a warp per result folds its parts, eight in a block
  const int lane = threadIdx.x;
  const {{ ix }} o = ({{ ix }})blockIdx.x * 8 + threadIdx.y;
  if (o >= {{ teams }}) return;
  {{ acc }} acc = {{ start }};
  for (int part = lane; part < {{ parts }}; part += 32) acc = {{ op }}()(acc, {{ part }}[({{ ix }})part * {{ teams }} + o]);
  acc = fg_fold_warp<32>(acc, {{ op }}());
  if (lane == 0) {{ out }}[o] = {{ result }};
}
