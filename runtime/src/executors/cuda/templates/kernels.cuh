// What kernels of fulgurite stand on, behind core/src/builtins/prelude.cuh.

// Several elements that are read or written at once; as wide as the device's widest access where that is 16 bytes.
template <class T, int N> struct __align__(sizeof(T) * N) fg_pack { T at[N]; };
template <int N, class T> FG fg_pack<T, N> fg_load(const T* from) {
  return *reinterpret_cast<const fg_pack<T, N>*>(from);
}
template <int N, class T> FG void fg_store(T* to, fg_pack<T, N> x) { *reinterpret_cast<fg_pack<T, N>*>(to) = x; }

// The first fault of a program: the number of the access, from 1, and the number that was wrong.
struct fg_fault { unsigned long long site; long long found; };
FG void fg_fail(fg_fault* fault, int site, long long found) {
  if (atomicCAS(&fault->site, 0ull, (unsigned long long)site) == 0) fault->found = found;
}
FG bool fg_inside(long long i, long long size) { return (unsigned long long)i < (unsigned long long)size; }
// An index that must be in range; 0 where it is not, and the program fails.
FG long long fg_index(long long i, long long size, fg_fault* fault, int site) {
  if (fg_inside(i, size)) return i;
  fg_fail(fault, site, i);
  return 0;
}
// A divisor that must not be 0; 1 where it is.
template <class T> FG T fg_divisor(T x, fg_fault* fault, int site) {
  if (x != T(0)) return x;
  fg_fail(fault, site, 0);
  return T(1);
}

// The element behind another in its chain, -1 at the end: links are the next element's number plus one, or 0; less than
// zero, one more and negated, for those that are not the first of a chain.
FG int fg_after(int link) { return link >= 0 ? link - 1 : -link - 2; }

// What reductions fold with.
struct fg_sum { template <class T> FG T operator()(T x, T y) const { return fg_add(x, y); } };
struct fg_prod { template <class T> FG T operator()(T x, T y) const { return fg_mul(x, y); } };
struct fg_largest { template <class T> FG T operator()(T x, T y) const { return fg_max(x, y); } };
struct fg_smallest { template <class T> FG T operator()(T x, T y) const { return fg_min(x, y); } };

// An extremum and its place, -1 before the first element; of equals the first place counts, whoever found it.
template <class T> struct fg_found { T value; long long at; };
template <class T> FG bool fg_first(fg_found<T> x, fg_found<T> y, bool before, bool after) {
  return y.at < 0 || (x.at >= 0 && (before || (!after && x.at <= y.at)));
}
struct fg_argmax {
  template <class T> FG fg_found<T> operator()(fg_found<T> x, fg_found<T> y) const {
    return fg_first(x, y, fg_above(x.value, y.value), fg_above(y.value, x.value)) ? x : y;
  }
};
struct fg_argmin {
  template <class T> FG fg_found<T> operator()(fg_found<T> x, fg_found<T> y) const {
    return fg_first(x, y, fg_below(x.value, y.value), fg_below(y.value, x.value)) ? x : y;
  }
};

template <class T> FG T fg_swap(T x, int distance) { return __shfl_xor_sync(0xffffffffu, x, distance); }
template <> FG bool fg_swap(bool x, int distance) { return __shfl_xor_sync(0xffffffffu, (int)x, distance) != 0; }
template <class T> FG fg_found<T> fg_swap(fg_found<T> x, int distance) {
  return {fg_swap(x.value, distance), fg_swap(x.at, distance)};
}

// Folds a value of each of LANES neighbouring threads of a warp, in halves: the order depends on LANES alone.
template <int LANES, class T, class Op> FG T fg_fold_warp(T x, Op op) {
#pragma unroll
  for (int half = LANES / 2; half > 0; half /= 2) x = op(x, fg_swap(x, half));
  return x;
}

// The same for a whole block of THREADS; all threads get the result. `shared` holds one value a warp.
template <int THREADS, class T, class Op> FG T fg_fold_block(T x, Op op, T* shared, int thread) {
  x = fg_fold_warp<32>(x, op);
  __syncthreads();
  if (thread % 32 == 0) shared[thread / 32] = x;
  __syncthreads();
  x = shared[0];
#pragma unroll
  for (int warp = 1; warp < THREADS / 32; ++warp) x = op(x, shared[warp]);
  return x;
}

// The same down the columns of a block of LANES rows and 32 columns. `shared` holds one value a thread.
template <int LANES, class T, class Op> FG T fg_fold_columns(T x, Op op, T* shared, int lane, int column) {
  __syncthreads();
  shared[lane * 32 + column] = x;
#pragma unroll
  for (int half = LANES / 2; half > 0; half /= 2) {
    __syncthreads();
    if (lane < half) {
      shared[lane * 32 + column] = op(shared[lane * 32 + column], shared[(lane + half) * 32 + column]);
    }
  }
  __syncthreads();
  return shared[column];
}
