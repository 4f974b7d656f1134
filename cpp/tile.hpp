// Primitive tiles: one panel of points against some points of the other side.
//
// A tile is stored [across][lane]: the lanes are the points of one panel, the across index runs
// over the other side. Both sides come in the same packed layout [panel][column][lane]; the lanes
// are read as vectors, the other side one broadcast at a time.
#pragma once

#include "data.hpp"
#include "simd.hpp"
#include "transpose.hpp"

namespace mercer::MERCER_ISA {

// Tiles are padded to a multiple of this many across points.
inline constexpr std::int64_t kAcross = 4;
// Vectors of lanes that a micro-kernel handles at once; a panel has one or more such groups.
inline constexpr int kLaneVectors = MERCER_VECTOR_BYTES == 64 ? 1 : 2;
// Points of the other side that it handles at once, against any number of columns: 2 x 5 (of 16
// registers) or 16 (of 32) accumulators hide the latency of the additions and leave registers for
// the operands.
inline constexpr int kGroup = MERCER_VECTOR_BYTES == 64 ? 16 : 5;
// Columns per pass: both operands of a pass stay in the first-level cache.
inline constexpr std::int64_t kDepth = 128;
// Up to this many columns there is a kernel for each number, with the loop over them unrolled.
inline constexpr int kShallow = 8;

enum class Metric { dot, squared_distance, manhattan };

template <class T, Metric metric>
MERCER_INLINE Vec<T> accumulate(Vec<T> sum, Vec<T> x, Vec<T> z) {
  if constexpr (metric == Metric::dot) {
    return sum + x * z;
  } else if constexpr (metric == Metric::squared_distance) {
    const Vec<T> t = x - z;
    return sum + t * t;
  } else {
    return sum + vabs<T>(x - z);
  }
}

// All `count` rows of a tile for a small, known number of columns. Not inlined, here and below:
// inside a larger function the compiler spills accumulators in the inner loop.
template <class T, Metric metric, int columns>
__attribute__((noinline)) void shallow_tile(const T* __restrict lanes, const T* __restrict across,
                                            std::int64_t count, T* __restrict tile) {
  constexpr int W = kPanel<T>, L = kLanes<T>, N = kAcross, V = kLaneVectors;
  for (std::int64_t j = 0; j < count; j += N) {
    const T* points = across + j / W * columns * W + j % W;
    for (int lane = 0; lane < W; lane += V * L) {
      Vec<T> sum[N][V] = {};
#pragma GCC unroll 16
      for (int k = 0; k < columns; ++k)
#pragma GCC unroll 16
        for (int c = 0; c < N; ++c) {
          const Vec<T> z = broadcast<T>(points[k * W + c]);
#pragma GCC unroll 16
          for (int v = 0; v < V; ++v)
            sum[c][v] = accumulate<T, metric>(sum[c][v], z, load<T>(lanes + k * W + lane + v * L));
        }
#pragma GCC unroll 16
      for (int c = 0; c < N; ++c)
#pragma GCC unroll 16
        for (int v = 0; v < V; ++v) store<T>(tile + (j + c) * W + lane + v * L, sum[c][v]);
    }
  }
}

// tile[j][lanes] (+)= sum over `depth` columns from column k on, for `groups` groups of N points
// from point j on. Sums of different passes are added as such, which keeps the rounding error of
// many columns small.
template <class T, Metric metric, int N>
__attribute__((noinline)) void deep_groups(const T* __restrict lanes, const T* __restrict across,
                                           std::int64_t columns, std::int64_t k, std::int64_t depth,
                                           std::int64_t j, std::int64_t groups,
                                           T* __restrict tile) {
  constexpr std::int64_t W = kPanel<T>;
  constexpr int L = kLanes<T>, V = kLaneVectors;
  constexpr bool kAligned = N % W == 0 || W % N == 0;
  for (const std::int64_t end = j + groups * N; j < end; j += N) {
    // A group may straddle two panels: one pointer for each point, or for each panel.
    const T* points[N];
#pragma GCC unroll 16
    for (int c = 0; c < N; ++c)
      points[c] = kAligned && c % W > 0 ? points[c - c % W] + c % W
                                        : across + ((j + c) / W * columns + k) * W + (j + c) % W;
    for (int lane = 0; lane < W; lane += V * L) {
      const T* x = lanes + k * W + lane;
      T* target = tile + j * W + lane;
      Vec<T> sum[N][V] = {};
#pragma GCC unroll 2
      for (std::int64_t i = 0; i < depth * W; i += W) {
        Vec<T> own[V];
#pragma GCC unroll 16
        for (int v = 0; v < V; ++v) own[v] = load<T>(x + i + v * L);
#pragma GCC unroll 16
        for (int c = 0; c < N; ++c) {
          const Vec<T> z = broadcast<T>(points[c][i]);
#pragma GCC unroll 16
          for (int v = 0; v < V; ++v) sum[c][v] = accumulate<T, metric>(sum[c][v], own[v], z);
        }
      }
#pragma GCC unroll 16
      for (int c = 0; c < N; ++c)
#pragma GCC unroll 16
        for (int v = 0; v < V; ++v) {
          T* entry = target + c * W + v * L;
          store<T>(entry, k == 0 ? sum[c][v] : load<T>(entry) + sum[c][v]);
        }
    }
  }
}

// One pass over the columns from k on, for the points from j on: groups of N, then smaller ones.
template <class T, Metric metric, int N = kGroup>
void deep_pass(const T* lanes, const T* across, std::int64_t columns, std::int64_t k,
               std::int64_t count, T* tile, std::int64_t j = 0) {
  const std::int64_t depth = columns - k < kDepth ? columns - k : kDepth;
  const std::int64_t groups = (count - j) / N;
  if (groups > 0) deep_groups<T, metric, N>(lanes, across, columns, k, depth, j, groups, tile);
  // What is left is a multiple of kAcross if a group is: then halves of groups are enough.
  constexpr bool even = kGroup % kAcross == 0;
  if constexpr (N > (even ? kAcross : 1))
    deep_pass<T, metric, even ? N / 2 : N - 1>(lanes, across, columns, k, count, tile,
                                               j + groups * N);
}

template <class T, Metric metric>
void deep_tile(const T* lanes, const T* across, std::int64_t columns, std::int64_t count, T* tile) {
  for (std::int64_t k = 0; k < columns; k += kDepth)
    deep_pass<T, metric>(lanes, across, columns, k, count, tile);
}

// Fills `count` (a multiple of kAcross) rows of a tile. `lanes` is one panel, `across` the panel in
// which the tile starts.
template <class T, Metric metric, int columns = 0>
void metric_tile(const T* lanes, const T* across, std::int64_t any_columns, std::int64_t count,
                 T* tile) {
  if (any_columns == columns) return shallow_tile<T, metric, columns>(lanes, across, count, tile);
  if constexpr (columns < kShallow) {
    return metric_tile<T, metric, columns + 1>(lanes, across, any_columns, count, tile);
  } else {
    return deep_tile<T, metric>(lanes, across, any_columns, count, tile);
  }
}

// Inner products of sparse rows: the panel is scattered into a dense [column][lane] buffer, which
// is all zeros before and after.
template <class T>
void sparse_tile(const Slot<T>& lanes, std::int64_t first_lane, std::int64_t lane_count,
                 const Slot<T>& across, std::int64_t first, std::int64_t count, T* dense, T* tile) {
  constexpr std::int64_t W = kPanel<T>;
  constexpr int L = kLanes<T>, V = kPanelVectors<T>;
  for (std::int64_t lane = 0; lane < lane_count; ++lane)
    for (std::int64_t e = lanes.indptr[first_lane + lane]; e < lanes.indptr[first_lane + lane + 1];
         ++e)
      dense[lanes.indices[e] * W + lane] += lanes.values[e];
  for (std::int64_t j = 0; j < count; ++j) {
    Vec<T> sum[V] = {};
    for (std::int64_t e = across.indptr[first + j]; e < across.indptr[first + j + 1]; ++e) {
      const Vec<T> z = broadcast<T>(across.values[e]);
      const T* x = dense + across.indices[e] * W;
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) sum[v] += z * load<T>(x + v * L);
    }
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) store<T>(tile + j * W + v * L, sum[v]);
  }
  for (std::int64_t lane = 0; lane < lane_count; ++lane)
    for (std::int64_t e = lanes.indptr[first_lane + lane]; e < lanes.indptr[first_lane + lane + 1];
         ++e)
      dense[lanes.indices[e] * W + lane] = T(0);
}

// One value per lane, repeated across.
template <class T>
void spread_lanes(const T* values, std::int64_t count, T* tile) {
  constexpr int W = kPanel<T>, L = kLanes<T>;
  for (std::int64_t j = 0; j < count; ++j)
    for (int v = 0; v < W; v += L) store<T>(tile + j * W + v, load<T>(values + v));
}

// One value per across point, repeated over the lanes.
template <class T>
void spread_across(const T* values, std::int64_t count, T* tile) {
  constexpr int W = kPanel<T>, L = kLanes<T>;
  for (std::int64_t j = 0; j < count; ++j) {
    const Vec<T> value = broadcast<T>(values[j]);
    for (int v = 0; v < W; v += L) store<T>(tile + j * W + v, value);
  }
}

// 1 where the identities agree, 0 elsewhere.
template <class T>
void identity_tile(const std::int64_t* lanes, const std::int64_t* across, std::int64_t count,
                   T* tile) {
  constexpr int W = kPanel<T>;
  for (std::int64_t j = 0; j < count; ++j)
    for (int lane = 0; lane < W; ++lane)
      tile[j * W + lane] = lanes[lane] == across[j] ? T(1) : T(0);
}

// A part of a given row-major matrix. The matrix is not padded: what lies outside it becomes 0.
template <class T>
void block_tile(const T* corner, std::int64_t lane_stride, std::int64_t across_stride,
                std::int64_t lane_count, std::int64_t count, std::int64_t padded, T* tile) {
  constexpr std::int64_t W = kPanel<T>;
  constexpr int L = kLanes<T>;
  // Where lanes are rows of the matrix, whole squares go through registers.
  const std::int64_t whole = across_stride == 1 && lane_count == W ? count / L * L : 0;
  for (std::int64_t j = 0; j < whole; j += L)
    for (int v = 0; v < W; v += L) {
      Vec<T> rows[L];
#pragma GCC unroll 16
      for (int i = 0; i < L; ++i) rows[i] = load_unaligned<T>(corner + (v + i) * lane_stride + j);
      transpose<T>(rows);
#pragma GCC unroll 16
      for (int i = 0; i < L; ++i) store<T>(tile + (j + i) * W + v, rows[i]);
    }
  for (std::int64_t i = whole * W; i < padded * W; ++i) tile[i] = T(0);
  for (std::int64_t j = whole; j < count; ++j)
    for (std::int64_t lane = 0; lane < lane_count; ++lane)
      tile[j * W + lane] = corner[lane * lane_stride + j * across_stride];
}

// Adds a part of the transposed matrix: the corner is that of the rows `across`, and the lanes are
// neighbours in memory.
template <class T>
void add_mirrored_block(const T* corner, std::int64_t stride, std::int64_t lane_count,
                        std::int64_t count, T* tile) {
  constexpr std::int64_t W = kPanel<T>;
  constexpr int L = kLanes<T>;
  for (std::int64_t j = 0; j < count; ++j) {
    const T* row = corner + j * stride;
    T* target = tile + j * W;
    __builtin_prefetch(row + W);  // the next panel's: too many rows for the hardware to follow
    if (lane_count == W) {
#pragma GCC unroll 16
      for (int v = 0; v < W; v += L)
        store<T>(target + v, load<T>(target + v) + load_unaligned<T>(row + v));
    } else {
      for (std::int64_t lane = 0; lane < lane_count; ++lane) target[lane] += row[lane];
    }
  }
}

}  // namespace mercer::MERCER_ISA
