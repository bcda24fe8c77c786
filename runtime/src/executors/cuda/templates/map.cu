// {{ comment }}
{{ line_directive }}extern "C" __global__ void __launch_bounds__(256) {{ name }}({{ params }}) {
  const {{ ix }} {{ flat }} = {{ first }};
  if ({{ flat }} >= {{ total }}) return;
{{ body }}}
