// Special functions, as core/src/builtins/{erf,gamma,bessel}.rs define them (formulas and errors stand there).
// All in double: they are rare, and so float is correctly rounded but for the last place.

template <int N> FG double fg_horner(const double (&c)[N], double x) {
  double sum = c[N - 1];
  for (int i = N - 2; i >= 0; i--) sum = sum * x + c[i];
  return sum;
}

FG double fg_digamma_of(double x) {
  const double near[] = {
    0.951055876031833, -0.21181371064073026, 0.06013562106019355, -0.018550615381738605, 0.005936795278433826,
    -0.0019350666647832667, 0.000636888028319074, -0.00021074841215733007, 6.995020484160625e-05,
    -2.325823828431376e-05, 7.741156881253708e-06, -2.578107848270217e-06, 8.591324222417666e-07,
    -2.8628755280038686e-07, 9.500926192924096e-08, -3.166618072027162e-08, 1.10370884388543e-08,
    -3.6788868183645545e-09, 8.668257373761658e-10, -2.889363639216111e-10, 2.4765474440031764e-10,
    -8.25512972008104e-11};
  const double far[] = {
    0.08333333333333333, -0.008333333333333333, 0.003968253968253968, -0.004166666666666667, 0.007575757575757576,
    -0.021092796092796094, 0.08333333333333333, -0.4432598039215686, 3.0539543302701198, -26.456212121212122};
  if (x == 0.) return -1. / x;
  double reflected = 0.;
  if (x < 0.) {
    double r = x - round(x);
    if (!(r != 0.)) return fg_nan();
    reflected = 3.14159265358979323846 / tan(3.14159265358979323846 * r);
    x = 1. - x;
  }
  if (x < 10.) {
    double sum = 0.;
    while (x >= 2.) {
      x -= 1.;
      sum += 1. / x;
    }
    if (x < 1.) {
      sum -= 1. / x;
      x += 1.;
    }
    return sum + (x - 1.4616321449683622 - 9.549995429965697e-17) * fg_horner(near, 2. * x - 3.) - reflected;
  }
  double z = 1. / x;
  return log(x) - 0.5 * z - z * z * fg_horner(far, z * z) - reflected;
}

FG double fg_zeta(double s, double q) {
  const double b[] = {
    0.08333333333333333, -0.001388888888888889, 3.306878306878307e-05, -8.267195767195768e-07, 2.08767569878681e-08,
    -5.284190138687493e-10, 1.3382536530684679e-11, -3.3896802963225827e-13, 8.586062056277845e-15,
    -2.174868698558062e-16, 5.5090028283602295e-18, -1.3954464685812522e-19};
  double start = 10. + 0.5 * s, head = 0.;
  while (q < start) {
    double term = pow(q, -s);
    head += term;
    if (term <= 1e-18 * head) return head;
    q += 1.;
  }
  double factor = s / q, corrections = 0.;
  for (int k = 0; k < 12; k++) {
    double j = s + 2. * k;
    corrections += b[k] * factor;
    factor *= (j + 1.) / q * ((j + 2.) / q);
  }
  return head + pow(q, 1. - s) * (1. / (s - 1.) + (0.5 + corrections) / q);
}

FG double fg_polygamma_of(double n, double x) {
  if (n == 0.) return fg_digamma_of(x);
  if (!(n >= 0.) || n - n != 0. || n != floor(n) || x != x || (x < 0. && x - x != 0.)) return fg_nan();
  bool odd = fmod(n, 2.) == 1.;
  double s = n + 1., sum = fg_inf();
  if (x > 0.) {
    sum = fg_zeta(s, x);
  } else if (x != floor(x)) {
    double r = x - round(x);
    double left = fg_zeta(s, r > 0. ? 1. - r : -r) - fg_zeta(s, 1. - x);
    sum = fg_zeta(s, r > 0. ? r : 1. + r) + (odd ? left : -left);
  }
  if (sum == 0.) return 0.;
  for (double k = 2.; k <= n && k <= 171.; k += 1.) sum *= k;
  return odd ? sum : -sum;
}

FG double fg_bessel_series(double a, int order) {
  double q = 0.25 * a * a, sum = 1.;
  for (int k = 25; k > 0; k--) sum = 1. + sum * (q / (double)(k * (k + order)));
  return sum;
}
FG double fg_i0e_far(double a) {
  const double c[] = {
    0.4021765094450081, 0.0033605519836678913, 0.00013621607438951463, 1.114303378845176e-05, 1.4838476780922646e-06,
    2.9735992084667734e-07, 8.872014585661555e-08, 3.932512321137824e-08, 2.156780676115673e-08,
    7.559364098665437e-09, -6.856484545962442e-09, -1.3427511481900905e-08, -5.0175940345046716e-09,
    7.600254486433509e-09, 6.522264862032271e-09, -3.5862834111582305e-09, -4.5305710768621196e-09,
    1.6084886155781772e-09, 2.163681278413876e-09, -6.327909921997027e-10, -6.494591114401118e-10,
    1.7698085539456536e-10, 9.114760157514253e-11, -2.4421972688131832e-11};
  return fg_horner(c, 16. / a - 1.) / sqrt(a);
}
FG double fg_i1e_far(double a) {
  const double c[] = {
    0.38939845902587233, -0.009749577193235765, -0.00021923576383137776, -1.5038547198221758e-05,
    -1.8349102493990178e-06, -3.4838563464253135e-07, -1.0001075046243961e-07, -4.3128498031006734e-08,
    -2.3394122958362557e-08, -8.432168972932417e-09, 6.84757829926934e-09, 1.4051746928735543e-08,
    5.5720183980930355e-09, -7.687251308765992e-09, -6.9444186339873875e-09, 3.501765193290176e-09,
    4.763780078020254e-09, -1.5218214060680734e-09, -2.2624401109204446e-09, 5.870664618471487e-10,
    6.7727478454462e-10, -1.6283264322621244e-10, -9.491890392992048e-11, 2.2421768596847442e-11};
  return fg_horner(c, 16. / a - 1.) / sqrt(a);
}
FG double fg_unscaled(double scaled, double a) {
  return a > 700. ? exp(0.5 * a) * scaled * exp(0.5 * a) : exp(a) * scaled;
}
FG double fg_i0_of(double x) {
  double a = fabs(x);
  return a < 8. ? fg_bessel_series(a, 0) : fg_unscaled(fg_i0e_far(a), a);
}
FG double fg_i0e_of(double x) {
  double a = fabs(x);
  return a < 8. ? exp(-a) * fg_bessel_series(a, 0) : fg_i0e_far(a);
}
FG double fg_i1_of(double x) {
  double a = fabs(x);
  return a < 8. ? 0.5 * x * fg_bessel_series(a, 1) : copysign(fg_unscaled(fg_i1e_far(a), a), x);
}
FG double fg_i1e_of(double x) {
  double a = fabs(x);
  return a < 8. ? exp(-a) * (0.5 * x * fg_bessel_series(a, 1)) : copysign(fg_i1e_far(a), x);
}

FG double fg_erfcx_of(double x) {
#ifdef __CUDACC__
  return erfcx(x);
#else
  double a = fabs(x);
  if (a < 25.) return exp(x * x) * erfc(x);
  if (x < 0.) return 2. * exp(x * x);
  double s = 0.5 / (a * a);
  const double c[] = {1., -1., 3., -15., 105., -945., 10395.};
  return fg_horner(c, s) / (a * 1.772453850905516);
#endif
}

template <class T> FG T fg_digamma(T x) { return T(fg_digamma_of(x)); }
template <class T> FG T fg_polygamma(T n, T x) { return T(fg_polygamma_of(n, x)); }
template <class T> FG T fg_i0(T x) { return T(fg_i0_of(x)); }
template <class T> FG T fg_i0e(T x) { return T(fg_i0e_of(x)); }
template <class T> FG T fg_i1(T x) { return T(fg_i1_of(x)); }
template <class T> FG T fg_i1e(T x) { return T(fg_i1e_of(x)); }
template <class T> FG T fg_erfcx(T x) { return T(fg_erfcx_of(x)); }

// Euclid in 64 bits; results wrap.
template <class T> FG T fg_gcd(T x, T y) {
  unsigned long long a = x < T(0) ? 0ull - (unsigned long long)x : (unsigned long long)x;
  unsigned long long b = y < T(0) ? 0ull - (unsigned long long)y : (unsigned long long)y;
  while (b != 0) {
    unsigned long long r = a % b;
    a = b;
    b = r;
  }
  return T(a);
}
template <class T> FG T fg_lcm(T x, T y) {
  long long divisor = (long long)fg_gcd((long long)x, (long long)y);
  if (divisor == 0) return T(0);
  long long product = fg_mul(fg_div_trunc((long long)x, divisor), (long long)y);
  // In 32 bits, as in 64, the product wraps before its sign is taken away.
  if (sizeof(T) == 4 && T(-1) < T(0)) product = (int)product;
  return T(fg_abs(product));
}
