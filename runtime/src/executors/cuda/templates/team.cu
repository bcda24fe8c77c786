// {{ comment }}
{{ line_directive }}extern "C" __global__ void __launch_bounds__({{ threads }}) {{ name }}({{ params }}) {
{{ body }}}
