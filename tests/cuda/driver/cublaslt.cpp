// Products without a device: enough of libcublasLt.so for fulgurite's calls of it, on the pretended driver's streams. What
// is said of matrices is checked, and nothing that was not said is assumed.
//
// Written from the documentation of cuBLASLt, not from the library.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <unistd.h>

typedef std::function<void()> Work;
typedef unsigned long long CUdeviceptr;
extern "C" void fulgurite_driver_ask(void* stream, const Work* work);
extern "C" void fulgurite_driver_memory(const char* who, CUdeviceptr at, size_t bytes);
extern "C" void fulgurite_driver_product();

enum { F32 = 0, F64 = 1, F16 = 2, BF16 = 14, COMPUTE_32F = 68, COMPUTE_64F = 70 };
struct Layout { int type; uint64_t rows, columns; int64_t ld; int32_t count = 1; int64_t step = 0; };
struct Product { int compute, type; int32_t transposed[2] = {0, 0}; };
struct Wishes { uint64_t workspace = 0; uint32_t aligned[4] = {256, 256, 256, 256}; };
struct Algorithm { uint64_t data[8]; };
struct Heuristic { Algorithm algorithm; size_t workspace; int state; float waves; int reserved[4]; };

[[noreturn]] static void refuse(const char* function, const char* why) {
  fprintf(stderr, "%s: %s\n", function, why);
  fflush(stderr);
  _exit(97);
}
#define REQUIRE(test, why) \
  do { if (!(test)) refuse(__func__, why); } while (0)
#define API extern "C" int
static int handle;

API cublasLtCreate(void** out) { *out = &handle; return 0; }
API cublasLtDestroy(void* h) { REQUIRE(h == &handle, "no such handle"); return 0; }
API cublasLtMatrixLayoutCreate(void** out, int type, uint64_t rows, uint64_t columns, int64_t ld) {
  REQUIRE(rows && columns && ld >= (int64_t)rows, "columns that overlap");
  *out = new Layout{type, rows, columns, ld};
  return 0;
}
API cublasLtMatrixLayoutDestroy(void* l) { delete (Layout*)l; return 0; }
API cublasLtMatrixLayoutSetAttribute(void* l, int attribute, const void* value, size_t bytes) {
  Layout* layout = (Layout*)l;
  if (attribute == 5 && bytes == 4) memcpy(&layout->count, value, 4);
  else if (attribute == 6 && bytes == 8) memcpy(&layout->step, value, 8);
  else refuse(__func__, "an attribute that is neither the count nor the distance of matrices, or of another size");
  return 0;
}
API cublasLtMatmulDescCreate(void** out, int compute, int type) {
  REQUIRE((compute == COMPUTE_32F && type == F32) || (compute == COMPUTE_64F && type == F64), "a sum of another type");
  *out = new Product{compute, type};
  return 0;
}
API cublasLtMatmulDescDestroy(void* p) { delete (Product*)p; return 0; }
API cublasLtMatmulDescSetAttribute(void* p, int attribute, const void* value, size_t bytes) {
  REQUIRE((attribute == 3 || attribute == 4) && bytes == 4, "an attribute that is not an operand's transposition");
  memcpy(&((Product*)p)->transposed[attribute - 3], value, 4);
  return 0;
}
API cublasLtMatmulPreferenceCreate(void** out) { *out = new Wishes; return 0; }
API cublasLtMatmulPreferenceDestroy(void* w) { delete (Wishes*)w; return 0; }
API cublasLtMatmulPreferenceSetAttribute(void* w, int attribute, const void* value, size_t bytes) {
  Wishes* wishes = (Wishes*)w;
  if (attribute == 1 && bytes == 8) memcpy(&wishes->workspace, value, 8);
  else if (attribute >= 5 && attribute <= 8 && bytes == 4) memcpy(&wishes->aligned[attribute - 5], value, 4);
  else refuse(__func__, "an attribute that is neither the workspace nor an alignment, or of another size");
  return 0;
}
API cublasLtMatmulAlgoGetHeuristic(void* h, void* product, void* a, void* b, void* c, void* d, void* wishes, int wanted,
                                   void* results, int* found) {
  REQUIRE(h == &handle && product && a && b && c == d && wishes && wanted == 1, "a question of another kind");
  Heuristic made = {};
  made.workspace = ((Wishes*)wishes)->workspace;
  // for the check of what is multiplied
  for (int i = 0; i < 4; i++) made.algorithm.data[i] = ((Wishes*)wishes)->aligned[i];
  made.algorithm.data[4] = made.workspace;
  memcpy(results, &made, sizeof made);
  *found = 1;
  return 0;
}

struct Half { uint16_t bits; };
struct Brain { uint16_t bits; };
static float wide(Half x) {
  int sign = x.bits >> 15 ? -1 : 1, exponent = x.bits >> 10 & 31, digits = x.bits & 1023;
  if (exponent == 31) return digits ? NAN : sign * INFINITY;
  return sign * (exponent ? ldexpf(1024 + digits, exponent - 25) : ldexpf(digits, -24));
}
static float wide(Brain x) {
  uint32_t bits = (uint32_t)x.bits << 16;
  float out;
  memcpy(&out, &bits, 4);
  return out;
}
static float wide(float x) { return x; }
static double wide(double x) { return x; }

template <class F, class T>
static void multiply(Product p, Layout la, Layout lb, Layout lc, T alpha, const F* a, const F* b, T beta, T* c) {
  uint64_t sums = p.transposed[0] ? la.rows : la.columns;
  for (int64_t i = 0; i < lc.count; i++, a += la.step, b += lb.step, c += lc.step)
    for (uint64_t column = 0; column < lc.columns; column++)
      for (uint64_t row = 0; row < lc.rows; row++) {
        T sum = 0;
        for (uint64_t k = 0; k < sums; k++)
          sum += wide(p.transposed[0] ? a[k + row * la.ld] : a[row + k * la.ld]) *
                 wide(p.transposed[1] ? b[column + k * lb.ld] : b[k + column * lb.ld]);
        T& out = c[row + column * lc.ld];
        out = alpha * sum + (beta == 0 ? 0 : beta * out);
      }
}
static void check(const char* what, CUdeviceptr at, const Layout& l, size_t element, uint64_t aligned) {
  REQUIRE(at % aligned == 0, "a matrix that is not aligned as was said");
  int64_t last = (int64_t)(l.columns - 1) * l.ld + (int64_t)l.rows + (l.count - 1) * l.step;
  fulgurite_driver_memory(what, at, last * element);
}
API cublasLtMatmul(void* h, void* product, const void* alpha, const void* a, void* la, const void* b, void* lb,
                   const void* beta, const void* c, void* lc, void* d, void* ld, const void* algorithm, void* workspace,
                   size_t bytes, void* stream) {
  REQUIRE(h == &handle && c == d && lc == ld && algorithm, "a product of another kind");
  Product p = *(Product*)product;
  Layout x = *(Layout*)la, y = *(Layout*)lb, z = *(Layout*)lc;
  const Algorithm* how = (const Algorithm*)algorithm;
  uint64_t m = p.transposed[0] ? x.columns : x.rows, k = p.transposed[0] ? x.rows : x.columns;
  uint64_t k2 = p.transposed[1] ? y.columns : y.rows, n = p.transposed[1] ? y.rows : y.columns;
  REQUIRE(m == z.rows && n == z.columns && k == k2, "sizes that do not fit");
  REQUIRE(x.count == z.count && y.count == z.count, "counts that do not fit");
  bool halves = p.type == F32 && (x.type == F16 || x.type == BF16);
  REQUIRE(x.type == y.type && (halves || x.type == p.type) && z.type == p.type, "types that do not fit");
  REQUIRE(bytes >= how->data[4], "less workspace than was said");
  fulgurite_driver_memory("a workspace", (CUdeviceptr)workspace, bytes);
  size_t element = p.type == F64 ? 8 : 4, factor = halves ? 2 : element;
  check("A", (CUdeviceptr)a, x, factor, how->data[0]);
  check("B", (CUdeviceptr)b, y, factor, how->data[1]);
  check("C", (CUdeviceptr)c, z, element, how->data[2]);
  Work work;
  if (p.type == F64) {
    double one = *(const double*)alpha, add = *(const double*)beta;
    work = [=] { multiply(p, x, y, z, one, (const double*)a, (const double*)b, add, (double*)d); };
  } else {
    float one = *(const float*)alpha, add = *(const float*)beta;
    if (x.type == F16) work = [=] { multiply(p, x, y, z, one, (const Half*)a, (const Half*)b, add, (float*)d); };
    else if (x.type == BF16) work = [=] { multiply(p, x, y, z, one, (const Brain*)a, (const Brain*)b, add, (float*)d); };
    else work = [=] { multiply(p, x, y, z, one, (const float*)a, (const float*)b, add, (float*)d); };
  }
  fulgurite_driver_product();
  fulgurite_driver_ask(stream, &work);
  return 0;
}
