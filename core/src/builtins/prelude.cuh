// Scalar builtins of fulgurite (core/src/builtins/table.rs). FG: __device__ __forceinline__, or inline on a CPU.

template <class T> struct fg_wide { typedef T unsigned_type; };
template <> struct fg_wide<signed char> { typedef unsigned int unsigned_type; };
template <> struct fg_wide<unsigned char> { typedef unsigned int unsigned_type; };
template <> struct fg_wide<short> { typedef unsigned int unsigned_type; };
template <> struct fg_wide<int> { typedef unsigned int unsigned_type; };
template <> struct fg_wide<long> { typedef unsigned long unsigned_type; };
template <> struct fg_wide<long long> { typedef unsigned long long unsigned_type; };
#define FG_U typename fg_wide<T>::unsigned_type

// Integers wrap: computed in the unsigned type, where overflow is defined. bool: or, and.
template <class T> FG T fg_add(T x, T y) { return (T)((FG_U)x + (FG_U)y); }
template <class T> FG T fg_sub(T x, T y) { return (T)((FG_U)x - (FG_U)y); }
template <class T> FG T fg_mul(T x, T y) { return (T)((FG_U)x * (FG_U)y); }
template <> FG bool fg_add(bool x, bool y) { return x | y; }
template <> FG bool fg_mul(bool x, bool y) { return x & y; }

template <class T> FG T fg_neg(T x) { return fg_sub(T(0), x); }
template <> FG float fg_neg(float x) { return -x; }
template <> FG double fg_neg(double x) { return -x; }
template <class T> FG T fg_abs(T x) { return x < T(0) ? fg_sub(T(0), x) : x; }
template <> FG float fg_abs(float x) { return fabs(x); }
template <> FG double fg_abs(double x) { return fabs(x); }
template <class T> FG T fg_sign(T x) { return T((x > T(0)) - (x < T(0))); }
template <class T> FG T fg_rsqrt(T x) { return T(1) / sqrt(x); }
template <class T> FG T fg_reciprocal(T x) { return T(1) / x; }
template <class T> FG T fg_sigmoid(T x) {
  T e = exp(-fabs(x));
  return (x >= T(0) ? T(1) : e) / (T(1) + e);
}

template <class T> FG T fg_floor(T x) { return x; }
template <> FG float fg_floor(float x) { return floor(x); }
template <> FG double fg_floor(double x) { return floor(x); }
template <class T> FG T fg_ceil(T x) { return x; }
template <> FG float fg_ceil(float x) { return ceil(x); }
template <> FG double fg_ceil(double x) { return ceil(x); }
template <class T> FG T fg_round(T x) { return x; }
template <> FG float fg_round(float x) { return rint(x); }
template <> FG double fg_round(double x) { return rint(x); }
template <class T> FG T fg_trunc(T x) { return x; }
template <> FG float fg_trunc(float x) { return trunc(x); }
template <> FG double fg_trunc(double x) { return trunc(x); }

// NaN wins; equal arguments give the first.
template <class T> FG T fg_max(T x, T y) { return x >= y || x != x ? x : y; }
template <class T> FG T fg_min(T x, T y) { return x <= y || x != x ? x : y; }
template <class T> FG bool fg_isnan(T x) { return x != x; }
template <class T> FG bool fg_isfinite(T x) { return fg_sub(x, x) == fg_sub(x, x); }
template <> FG bool fg_isfinite(bool) { return true; }
template <class T> FG bool fg_isinf(T x) { return x == x && !fg_isfinite(x); }

// Integers: y == 0 is refused by the executor before; -1 is apart because MIN / -1 traps.
template <class T> FG T fg_div_trunc(T x, T y) { return y == T(-1) && T(-1) < T(0) ? fg_sub(T(0), x) : T(x / y); }
template <> FG float fg_div_trunc(float x, float y) { return trunc(x / y); }
template <> FG double fg_div_trunc(double x, double y) { return trunc(x / y); }
template <class T> FG T fg_rem_trunc(T x, T y) { return y == T(-1) && T(-1) < T(0) ? T(0) : T(x % y); }
template <> FG float fg_rem_trunc(float x, float y) { return fmod(x, y); }
template <> FG double fg_rem_trunc(double x, double y) { return fmod(x, y); }
template <class T> FG T fg_rem_floor(T x, T y) {
  T r = fg_rem_trunc(x, y);
  return r != T(0) && (r < T(0)) != (y < T(0)) ? T(r + y) : r;
}
template <class T> FG T fg_div_floor(T x, T y) {
  T r = fg_rem_trunc(x, y);
  T q = fg_div_trunc(x, y);
  return r != T(0) && (r < T(0)) != (y < T(0)) ? T(q - T(1)) : q;
}
template <class T> FG T fg_div_floor_real(T x, T y) {
  if (y == T(0)) return x / y;
  T r = fmod(x, y);
  T q = (x - r) / y;
  if (r != T(0) && (r < T(0)) != (y < T(0))) q -= T(1);
  if (q == T(0)) return copysign(T(0), x / y);
  T f = floor(q);
  return q - f > T(0.5) ? f + T(1) : f;
}
template <> FG float fg_div_floor(float x, float y) { return fg_div_floor_real(x, y); }
template <> FG double fg_div_floor(double x, double y) { return fg_div_floor_real(x, y); }

template <class T> FG T fg_pow(T x, T y) {
  if (y < T(0)) return x == T(1) ? T(1) : fg_add(x, T(1)) == T(0) && x < T(0) ? (y % 2 == 0 ? T(1) : T(-1)) : T(0);
  T power = T(1);
  for (; y > T(0); y = T(y >> 1)) {
    if (y & T(1)) power = fg_mul(power, x);
    x = fg_mul(x, x);
  }
  return power;
}
template <> FG float fg_pow(float x, float y) { return pow(x, y); }
template <> FG double fg_pow(double x, double y) { return pow(x, y); }

template <class T> FG T fg_bitnot(T x) { return T(~x); }
template <> FG bool fg_bitnot(bool x) { return !x; }
template <class T> FG bool fg_in_width(T y) { return y >= T(0) && (unsigned long long)y < 8 * sizeof(T); }
template <class T> FG T fg_shl(T x, T y) { return fg_in_width(y) ? T((FG_U)x << (int)y) : T(0); }
template <class T> FG T fg_shr(T x, T y) { return fg_in_width(y) ? T(x >> (int)y) : x < T(0) ? T(-1) : T(0); }

// Floats to integers truncate; what the width does not hold becomes the smallest number (of int for the narrow types,
// which then wraps), as on x86.
template <class T> struct fg_to {
  template <class S> static FG T from(S x) { return T(x); }
  static FG T from(float x) { return T(x >= -2147483648.f && x < 2147483648.f ? (int)x : (int)0x80000000); }
  static FG T from(double x) { return T(x > -2147483649. && x < 2147483648. ? (int)x : (int)0x80000000); }
};
template <> struct fg_to<long long> {
  template <class S> static FG long long from(S x) { return (long long)x; }
  static FG long long from(float x) { return from((double)x); }
  static FG long long from(double x) {
    return x >= -9223372036854775808. && x < 9223372036854775808. ? (long long)x : (long long)(1ull << 63);
  }
};
template <> struct fg_to<bool> { template <class S> static FG bool from(S x) { return x != S(0); } };
template <> struct fg_to<float> { template <class S> static FG float from(S x) { return (float)x; } };
template <> struct fg_to<double> { template <class S> static FG double from(S x) { return (double)x; } };

// Half types are stored in 16 bits and computed in float; rounding is to nearest, ties to even.
FG unsigned int fg_bits(float x) { union { float f; unsigned int u; } v; v.f = x; return v.u; }
FG float fg_float(unsigned int bits) { union { unsigned int u; float f; } v; v.u = bits; return v.f; }
FG float fg_inf() { return fg_float(0x7f800000u); }
FG float fg_nan() { return fg_float(0x7fc00000u); }
struct fg_bf16 {
  unsigned short bits;
  FG operator float() const { return fg_float((unsigned int)bits << 16); }
};
struct fg_f16 {
  unsigned short bits;
  FG operator float() const {
    unsigned int sign = (bits & 0x8000u) << 16, rest = bits & 0x7fffu;
    if (rest >= 0x7c00u) return fg_float(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    // the exponent is moved by a product, which is exact and takes subnormal numbers along
    return fg_float(fg_bits(fg_float(rest << 13) * 5192296858534827628530496329220096.f) | sign);
  }
};
template <> struct fg_to<fg_bf16> {
  template <class S> static FG fg_bf16 from(S x) {
    unsigned int u = fg_bits((float)x);
    fg_bf16 half = {(unsigned short)(x != x ? u >> 16 | 0x40u : (u + 0x7fffu + (u >> 16 & 1u)) >> 16)};
    return half;
  }
};
template <> struct fg_to<fg_f16> {
  template <class S> static FG fg_f16 from(S x) {
    unsigned int u = fg_bits((float)x), sign = u >> 16 & 0x8000u, rest = u & 0x7fffffffu, half;
    if (rest > 0x7f800000u) half = 0x7e00u;
    else if (rest >= 0x477ff000u) half = 0x7c00u;
    else if (rest < 0x38800000u) half = fg_bits(fg_float(rest) + 0.5f) - 0x3f000000u;
    else half = (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13;
    fg_f16 h = {(unsigned short)(sign | half)};
    return h;
  }
};
template <class T, class S> FG T fg_cast(S x) { return fg_to<T>::from(x); }

// The order of argmax and argmin: NaN comes before everything.
template <class T> FG bool fg_above(T x, T y) { return x > y || (x != x && y == y); }
template <class T> FG bool fg_below(T x, T y) { return x < y || (x != x && y == y); }

// Philox4x32-10, as core/src/philox.rs defines it.
struct fg_key { unsigned long long seed, site; };
FG float fg_uniform(fg_key key, long long position, unsigned int draw) {
  unsigned long long index = (unsigned long long)position / 4;
  unsigned int reversed = 0;
  for (int i = 0; i < 32; i++) reversed |= (draw >> i & 1u) << (31 - i);
  unsigned int a = (unsigned int)index, b = (unsigned int)(index >> 32);
  unsigned int c = (unsigned int)key.site, d = (unsigned int)(key.site >> 32) ^ reversed;
  unsigned int k0 = (unsigned int)key.seed, k1 = (unsigned int)(key.seed >> 32);
  for (int i = 0; i < 10; i++) {
    unsigned long long p = (unsigned long long)a * 0xD2511F53u, q = (unsigned long long)c * 0xCD9E8D57u;
    a = (unsigned int)(q >> 32) ^ b ^ k0;
    b = (unsigned int)q;
    c = (unsigned int)(p >> 32) ^ d ^ k1;
    d = (unsigned int)p;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  int lane = (int)((unsigned long long)position % 4);
  return (float)((lane == 0 ? a : lane == 1 ? b : lane == 2 ? c : d) >> 8) * (1.0f / 16777216.0f);
}
