// {{ comment }}
{{ line_directive }}extern "C" __global__ void __launch_bounds__(256) {{ name }}({{ params }}) {
  // places that different threads write are different; each takes what comes to it in the order of the loops
  const {{ ix }} f = ({{ ix }})blockIdx.x * 256 + threadIdx.x;
  if (f >= {{ total }}) return;
{{ body }}}
