// Enough of CUDA to run kernels on a CPU. The blocks of a grid run in turn; the threads of a block are fibres, which
// run until each waits at a barrier or for its warp. A thread that misses a barrier is an error.
#pragma once
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>
#include <ucontext.h>

using std::ceil, std::copysign, std::exp, std::fabs, std::floor, std::fmod, std::fma, std::pow, std::rint, std::sqrt,
    std::trunc;
using std::lgamma, std::nextafter, std::round;
using std::acos, std::acosh, std::asin, std::asinh, std::atan, std::atan2, std::atanh, std::cos, std::cosh, std::erf,
    std::erfc, std::exp2, std::expm1, std::hypot, std::log, std::log10, std::log1p, std::log2, std::sin, std::sinh,
    std::tan, std::tanh;

#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define FG inline

struct fg_dim { unsigned x, y, z; };
static fg_dim threadIdx, blockIdx, blockDim, gridDim;

template <class T> inline T min(T x, T y) { return y < x ? y : x; }
template <class T> inline T max(T x, T y) { return x < y ? y : x; }

// CUDA has it, C++ has not: a first guess (Winitzki), then Halley's steps on erf.
inline double erfinv(double y) {
  if (!(std::fabs(y) < 1.)) return y == 1. || y == -1. ? y * INFINITY : NAN;
  double l = std::log1p(-y * y), a = 0.147, b = 2. / (3.14159265358979323846 * a) + l / 2.;
  double x = std::copysign(std::sqrt(std::sqrt(b * b - l / a) - b), y);
  for (int step = 0; step < 3 && x != 0.; step++) {
    double d = std::fabs(y) < .5 ? std::erf(x) - y : y > 0. ? -(std::erfc(x) - (1. - y)) : std::erfc(-x) - (1. + y);
    d /= 1.12837916709551257 * std::exp(-x * x);
    x -= d / (1. + x * d);
  }
  return x == 0. ? y * 0.88622692545275801 : x;
}
inline float erfinv(float y) { return (float)erfinv((double)y); }

// One launch at a time: who calls holds a lock.
static unsigned long long atomicCAS(unsigned long long* at, unsigned long long expected, unsigned long long value) {
  unsigned long long old = *at;
  if (old == expected) *at = value;
  return old;
}

namespace fg_host {
enum State { READY, BARRIER, WARP, DONE };
struct Fibre {
  ucontext_t context;
  State state;
  bool odd;                 // which of the warp's two boards is written next
  unsigned long long board[2];
};
static const unsigned STACK = 64 * 1024;
static std::vector<Fibre> fibres;
static std::vector<char> stacks;
static ucontext_t scheduler;
static unsigned current;
static char fault[256];
static void (*body)(const unsigned long long*);
static const unsigned long long* arguments;

static void at_thread(unsigned t) {
  current = t;
  threadIdx = {t % blockDim.x, t / blockDim.x % blockDim.y, t / (blockDim.x * blockDim.y)};
}
static void start() {
  body(arguments);
  fibres[current].state = DONE;
  swapcontext(&fibres[current].context, &scheduler);
}
static void wait(State state) {
  fibres[current].state = state;
  unsigned self = current;
  swapcontext(&fibres[self].context, &scheduler);
}
// The threads that wait for their warp go on when all of it does.
static bool release_warps(unsigned threads) {
  bool some = false;
  for (unsigned first = 0; first < threads; first += 32) {
    unsigned end = first + 32 < threads ? first + 32 : threads, waiting = 0;
    for (unsigned t = first; t < end; t++) waiting += fibres[t].state == WARP;
    if (waiting == 0) continue;
    if (waiting < end - first) {
      snprintf(fault, sizeof fault, "threads of a warp part: %u of %u wait for a shuffle in block %u", waiting,
               end - first, blockIdx.x);
      return false;
    }
    for (unsigned t = first; t < end; t++) fibres[t].state = READY;
    some = true;
  }
  return some;
}
static bool run_block() {
  unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  if (fibres.size() < threads) {
    fibres.resize(threads);
    stacks.resize((size_t)threads * STACK);
  }
  for (unsigned t = 0; t < threads; t++) {
    Fibre& f = fibres[t];
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = &stacks[(size_t)t * STACK];
    f.context.uc_stack.ss_size = STACK;
    f.context.uc_link = &scheduler;
    makecontext(&f.context, start, 0);
    f.state = READY;
    f.odd = false;
  }
  for (;;) {
    for (unsigned t = 0; t < threads; t++) {
      if (fibres[t].state != READY) continue;
      at_thread(t);
      swapcontext(&scheduler, &fibres[t].context);
    }
    if (release_warps(threads)) continue;
    if (fault[0]) return false;
    unsigned waiting = 0;
    for (unsigned t = 0; t < threads; t++) waiting += fibres[t].state == BARRIER;
    if (waiting == 0) return true;
    if (waiting < threads) {
      unsigned first = 0;
      while (fibres[first].state != BARRIER) first++;
      snprintf(fault, sizeof fault, "thread %u of block %u waits at __syncthreads; %u threads returned", first,
               blockIdx.x, threads - waiting);
      return false;
    }
    for (unsigned t = 0; t < threads; t++) fibres[t].state = READY;
  }
}
// What a lane shows its warp; read after all have written. Two boards, so that none is written while it is read.
template <class T> static T exchange(T x, unsigned lane) {
  static_assert(sizeof(T) <= 8, "a shuffle takes eight bytes");
  Fibre& own = fibres[current];
  unsigned board = own.odd;
  own.odd = !own.odd;
  own.board[board] = 0;
  memcpy(&own.board[board], &x, sizeof x);
  wait(WARP);
  unsigned first = current / 32 * 32;
  T y;
  memcpy(&y, &fibres[first + lane].board[board], sizeof y);
  return y;
}
// An address, or a number in the low bytes of its word.
template <class A> static A argument(unsigned long long word) {
  static_assert(sizeof(A) <= sizeof word, "an argument is a word");
  std::remove_const_t<A> value;
  memcpy(&value, &word, sizeof value);
  return value;
}
template <class... A, size_t... I>
static void call(void (*kernel)(A...), const unsigned long long* args, std::index_sequence<I...>) {
  kernel(argument<A>(args[I])...);
}
template <class... A> static void call(void (*kernel)(A...), const unsigned long long* args) {
  call(kernel, args, std::index_sequence_for<A...>());
}
static const char* launch(const unsigned* grid, const unsigned* block, const unsigned long long* args,
                          void (*run)(const unsigned long long*)) {
  gridDim = {grid[0], grid[1], grid[2]};
  blockDim = {block[0], block[1], block[2]};
  body = run;
  arguments = args;
  fault[0] = 0;
  for (unsigned z = 0; z < grid[2]; z++)
    for (unsigned y = 0; y < grid[1]; y++)
      for (unsigned x = 0; x < grid[0]; x++) {
        blockIdx = {x, y, z};
        if (!run_block()) return fault;
      }
  return nullptr;
}
}  // namespace fg_host

inline void __syncthreads() { fg_host::wait(fg_host::BARRIER); }
template <class T> inline T __shfl_xor_sync(unsigned, T x, int distance) {
  return fg_host::exchange(x, fg_host::current % 32 ^ distance);
}
template <class T> inline T __shfl_up_sync(unsigned, T x, int distance) {
  int lane = fg_host::current % 32;
  return fg_host::exchange(x, lane >= distance ? lane - distance : lane);
}

#define FG_LAUNCHER(name)                                                                                            \
  extern "C" const char* launch_##name(const unsigned* grid, const unsigned* block, const unsigned long long* args) { \
    return fg_host::launch(grid, block, args, [](const unsigned long long* a) { fg_host::call(name, a); });           \
  }
