// Transposition of square blocks of vectors in registers.
#pragma once

#include <utility>

#include "simd.hpp"

namespace mercer::MERCER_ISA {

// Exchanges the off-diagonal blocks of size `half` of the rows a and b: of every 2 x 2 group of
// blocks [[a0, a1], [b0, b1]] remain [[a0, b0], [a1, b1]].
template <int half, class V, int... lane>
MERCER_INLINE void exchange(V& a, V& b, std::integer_sequence<int, lane...>) {
  constexpr int L = sizeof...(lane);
  const V upper = __builtin_shufflevector(a, b, ((lane & half) ? L + lane - half : lane)...);
  b = __builtin_shufflevector(a, b, ((lane & half) ? L + lane : lane + half)...);
  a = upper;
}

// V is any vector of L lanes.
template <class V, int L, int half = L / 2>
MERCER_INLINE void transpose_square(V (&rows)[L]) {
#pragma GCC unroll 16
  for (int i = 0; i < L; ++i)
    if ((i & half) == 0)
      exchange<half>(rows[i], rows[i + half], std::make_integer_sequence<int, L>{});
  if constexpr (half > 1) transpose_square<V, L, half / 2>(rows);
}

template <class T>
MERCER_INLINE void transpose(Vec<T> (&rows)[kLanes<T>]) {
  transpose_square<Vec<T>, kLanes<T>>(rows);
}

// The sums of L vectors, as one vector: lane i is the sum of the lanes of rows[i]. Each step
// exchanges halves as in a transposition and adds them, so that half as many vectors remain.
template <class T, int half = kLanes<T> / 2>
MERCER_INLINE Vec<T> sums_of(Vec<T> (&rows)[kLanes<T>]) {
#pragma GCC unroll 16
  for (int i = 0; i < half; ++i) {
    exchange<half>(rows[i], rows[i + half], std::make_integer_sequence<int, kLanes<T>>{});
    rows[i] += rows[i + half];
  }
  if constexpr (half > 1) return sums_of<T, half / 2>(rows);
  return rows[0];
}

}  // namespace mercer::MERCER_ISA
