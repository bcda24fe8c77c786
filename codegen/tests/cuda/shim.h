// Enough of CUDA to run kernels on a CPU: a block is as many threads as the device would start, blocks run in turn.
#pragma once
#include <barrier>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

using std::ceil, std::copysign, std::exp, std::fabs, std::floor, std::fmod, std::pow, std::rint, std::sqrt, std::trunc;
using std::lgamma, std::nextafter, std::round;
using std::acos, std::acosh, std::asin, std::asinh, std::atan, std::atan2, std::atanh, std::cos, std::cosh, std::erf,
    std::erfc, std::exp2, std::expm1, std::hypot, std::log, std::log10, std::log1p, std::log2, std::sin, std::sinh,
    std::tan, std::tanh;

struct Dim {
  unsigned x, y, z;
};
inline thread_local Dim threadIdx, blockIdx;
inline Dim blockDim, gridDim;
inline std::unique_ptr<std::barrier<>> meeting;

#define __global__
#define __shared__ static
#define FG inline
inline void __syncthreads() { meeting->arrive_and_wait(); }

template <class Kernel> void launch(unsigned blocks, unsigned lanes, unsigned teams, Kernel kernel) {
  gridDim = {blocks, 1, 1};
  blockDim = {lanes, teams, 1};
  for (unsigned block = 0; block < blocks; block++) {
    meeting = std::make_unique<std::barrier<>>(lanes * teams);
    std::vector<std::thread> threads;
    for (unsigned team = 0; team < teams; team++)
      for (unsigned lane = 0; lane < lanes; lane++)
        threads.emplace_back([=] {
          threadIdx = {lane, team, 0};
          blockIdx = {block, 0, 0};
          kernel();
        });
    for (auto& thread : threads) thread.join();
  }
}
