// Runs emitted reductions in teams of several sizes and compares; prints each fault, ends with their number.
#include "shim.h"

#include "kernels.cu"

#include <algorithm>
#include <cstdio>
#include <cstring>

static int faults = 0;
static unsigned lanes = 1, teams = 1;
#define CHECK(claim)                                                                                        \
  do {                                                                                                      \
    if (!(claim)) faults++, printf("line %d, %u lanes, %u teams: %s\n", __LINE__, lanes, teams, #claim);    \
  } while (0)
#define RUN(call) launch(2, lanes, teams, [&] { call; })

// N is a multiple of no number of lanes but one.
static const long long A = 5, N = 67;

static void lines(const std::vector<float>& x) {
  std::vector<float> out(A);
  auto sum = [&](long long a) {
    double s = 0;
    for (long long j = 0; j < N; j++) s += x[a * N + j];
    return s;
  };
  RUN(sum_f32(out.data(), x.data(), N, 1, A, N));
  for (long long a = 0; a < A; a++) CHECK(out[a] == (float)sum(a));
  RUN(mean_f32(out.data(), x.data(), N, 1, A, N));
  for (long long a = 0; a < A; a++) CHECK(out[a] == (float)(sum(a) / N));
  // transposed: strides, not copies
  RUN(sum_f32(out.data(), x.data(), 1, A, A, N));
  for (long long a = 0; a < A; a++) {
    double s = 0;
    for (long long j = 0; j < N; j++) s += x[a + j * A];
    CHECK(out[a] == (float)s);
  }
  // nothing to reduce
  RUN(sum_f32(out.data(), x.data(), N, 1, 1, 0));
  CHECK(out[0] == 0);
  RUN(mean_f32(out.data(), x.data(), N, 1, 1, 0));
  CHECK(std::isnan(out[0]));
}

static void extrema(std::vector<float> x) {
  std::vector<float> out(A);
  std::vector<long long> at(A);
  x[13] = x[40] = NAN;
  x[N + 20] = x[N + 3] = x[N + 66] = 1000;
  RUN(amax_f32(out.data(), x.data(), N, 1, A, N));
  CHECK(std::isnan(out[0]) && out[1] == 1000);
  RUN(amin_f32(out.data(), x.data(), N, 1, A, N));
  CHECK(std::isnan(out[0]) && out[2] == *std::min_element(&x[2 * N], &x[3 * N]));
  RUN(argmax_f32(at.data(), x.data(), N, 1, A, N));
  CHECK(at[0] == 13 && at[1] == 3);
  for (long long a = 2; a < A; a++) CHECK(at[a] == std::max_element(&x[a * N], &x[a * N] + N) - &x[a * N]);
  RUN(argmin_f32(at.data(), x.data(), N, 1, A, N));
  CHECK(at[0] == 13);
  for (long long a = 2; a < A; a++) CHECK(at[a] == std::min_element(&x[a * N], &x[a * N] + N) - &x[a * N]);
  std::vector<float> lowest(N, -INFINITY);
  RUN(argmax_f32(at.data(), lowest.data(), N, 1, 1, N));
  CHECK(at[0] == 0);
  std::unique_ptr<bool[]> one(new bool[A * N]()), any(new bool[A]), all(new bool[A]);
  one[2 * N + 65] = true;
  RUN(any_bool(any.get(), one.get(), N, 1, A, N));
  RUN(all_bool(all.get(), one.get() + 2 * N + 65, N, 1, 1, 1));
  for (long long a = 0; a < A; a++) CHECK(any[a] == (a == 2));
  CHECK(all[0]);
}

static void several_axes() {
  std::vector<float> x(36), out(36);
  for (int i = 0; i < 36; i++) x[i] = i * 0.5f;
  RUN(cumsum_f32(out.data(), x.data(), 18, 3, 1, 2, 6, 3));
  for (int i = 0; i < 36; i++) CHECK(out[i] == x[i] + (i % 18 < 3 ? 0 : out[i - 3]));
  std::vector<float> a(30), w(20), product(24);
  for (int i = 0; i < 30; i++) a[i] = i;
  for (int i = 0; i < 20; i++) w[i] = i - 7;
  // the batch of w broadcasts: stride 0
  RUN(matmul_f32(product.data(), a.data(), 15, 5, 1, w.data(), 0, 4, 1, 2, 3, 4, 5));
  for (int b = 0; b < 2; b++)
    for (int m = 0; m < 3; m++)
      for (int n = 0; n < 4; n++) {
        float s = 0;
        for (int k = 0; k < 5; k++) s += a[b * 15 + m * 5 + k] * w[k * 4 + n];
        CHECK(product[b * 12 + m * 4 + n] == s);
      }
  // a filter, a product over two axes
  std::vector<float> p = {2, 0, 3, 4, 5, 6}, g = {1, 10}, grad(6), expected = {0, 6, 0, 300, 240, 200};
  RUN(prod__vjp__x_keepdim_false_f32(grad.data(), p.data(), 3, 1, g.data(), 1, 2, 3, 2, 3));
  CHECK(grad == expected);
  // what stands beside the reduction; an index out of range meets no place
  std::vector<float> base = {1, 2, 3}, more = {10, 20, 30, 40}, added(3);
  std::vector<long long> index = {2, 0, 7, 1};
  RUN(scatter_add_f32(added.data(), base.data(), 3, 1, 1, index.data(), 4, 1, 1, more.data(), 4, 1, 1, 1, 3, 1, 4));
  CHECK(added[0] == 21 && added[1] == 42 && added[2] == 13);
}

static void halves(const std::vector<float>& x) {
  std::vector<fg_f16> f(N);
  std::vector<fg_bf16> b(N);
  double fs = 0, bs = 0;
  for (long long i = 0; i < N; i++) {
    f[i] = fg_cast<fg_f16>(x[i]), fs += (float)f[i];
    b[i] = fg_cast<fg_bf16>(x[i]), bs += (float)b[i];
  }
  fg_f16 fo;
  fg_bf16 bo;
  RUN(sum_f16(&fo, f.data(), 1, 1, 1, N));
  RUN(sum_bf16(&bo, b.data(), 1, 1, 1, N));
  CHECK(fo.bits == fg_cast<fg_f16>((float)fs).bits);
  CHECK(bo.bits == fg_cast<fg_bf16>((float)bs).bits);
}

static void conversions() {
  for (unsigned u = 0; u < 65536; u++) {
    fg_f16 h = {(unsigned short)u};
    fg_bf16 b = {(unsigned short)u};
    float x = h, y = b;
    unsigned exponent = u >> 10 & 31, mantissa = u & 1023;
    double value = exponent ? std::ldexp(1024 + mantissa, (int)exponent - 25) : std::ldexp(mantissa, -24);
    if (exponent < 31) CHECK(x == (u >> 15 ? -value : value));
    if (exponent == 31) CHECK(mantissa ? std::isnan(x) : std::isinf(x));
    if (!std::isnan(x)) CHECK(fg_cast<fg_f16>(x).bits == u);
    if (!std::isnan(y)) CHECK(fg_cast<fg_bf16>(y).bits == u);
    if (std::isnan(y)) CHECK(std::isnan((float)fg_cast<fg_bf16>(y)));
    // half way to the next, and a little to either side: ties go to even
    if (exponent < 30) {
      float next = fg_f16{(unsigned short)(u + 1)}, middle = (x + next) / 2;
      CHECK(fg_cast<fg_f16>(middle).bits == (u & 1 ? u + 1 : u));
      CHECK(fg_cast<fg_f16>(std::nextafter(middle, next)).bits == u + 1);
      CHECK(fg_cast<fg_f16>(std::nextafter(middle, x)).bits == u);
    }
  }
  CHECK(fg_cast<fg_f16>(65519.0f).bits == 0x7bff && fg_cast<fg_f16>(65520.0f).bits == 0x7c00);
  CHECK(fg_cast<fg_bf16>(3.4e38f).bits == 0x7f80 && fg_cast<fg_bf16>(1.00390625f).bits == 0x3f80);
}

int main() {
  // sums of these are exact in any order
  std::vector<float> x(A * N);
  for (long long i = 0; i < A * N; i++) x[i] = (float)(i * 7919 % 101) * 0.125f - 3;
  for (unsigned l : {1u, 4u, 32u})
    for (unsigned t : {1u, 3u}) {
      lanes = l, teams = t;
      lines(x);
      extrema(x);
      several_axes();
      halves(x);
    }
  conversions();
  return faults < 100 ? faults : 100;
}
