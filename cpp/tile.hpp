// Primitive tiles: one panel of points against some points of the other side.
//
// A tile is stored [across][lane]: the lanes are the points of one panel, the across index runs over
// the other side. Both sides come in the same packed layout [panel][column][lane]; the lanes are
// read as vectors, the other side one broadcast at a time.
#pragma once

#include "data.hpp"
#include "simd.hpp"

namespace mercer::MERCER_ISA {

// Points of the other side that a micro-kernel handles at once, and the granularity of tiles.
inline constexpr std::int64_t kAcross = 4;
// Vectors of lanes it handles at once: 2 x 4 accumulators fill, but do not overflow, 16 registers.
inline constexpr int kLaneVectors = 2;
// Columns per pass: both operands of a pass stay in the first-level cache.
inline constexpr std::int64_t kDepth = 128;

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

// tile[j][lanes] (+)= sum over `depth` columns, for kAcross points j and kLaneVectors vectors.
// Not inlined: inside a larger function the compiler spills accumulators in the loop over k.
template <class T, Metric metric>
__attribute__((noinline)) void micro_kernel(const T* __restrict lanes, const T* __restrict across,
                                            std::int64_t depth, bool first, T* __restrict tile) {
  constexpr int W = kPanel<T>, L = kLanes<T>;
  Vec<T> sum[kAcross][kLaneVectors];
#pragma GCC unroll 8
  for (int j = 0; j < kAcross; ++j)
#pragma GCC unroll 8
    for (int v = 0; v < kLaneVectors; ++v)
      sum[j][v] = first ? Vec<T>{} : load<T>(tile + j * W + v * L);
  for (std::int64_t k = 0; k < depth; ++k, lanes += W, across += W) {
    Vec<T> x[kLaneVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kLaneVectors; ++v) x[v] = load<T>(lanes + v * L);
#pragma GCC unroll 8
    for (int j = 0; j < kAcross; ++j) {
      const Vec<T> z = broadcast<T>(across[j]);
#pragma GCC unroll 8
      for (int v = 0; v < kLaneVectors; ++v) sum[j][v] = accumulate<T, metric>(sum[j][v], x[v], z);
    }
  }
#pragma GCC unroll 8
  for (int j = 0; j < kAcross; ++j)
#pragma GCC unroll 8
    for (int v = 0; v < kLaneVectors; ++v) store<T>(tile + j * W + v * L, sum[j][v]);
}

// Fills `count` (a multiple of kAcross) rows of a tile. `lanes` is one panel, `across` the panel in
// which the tile starts.
template <class T, Metric metric>
void metric_tile(const T* lanes, const T* across, std::int64_t columns, std::int64_t count,
                 T* tile) {
  constexpr std::int64_t W = kPanel<T>;
  constexpr int lanes_at_once = kLaneVectors * kLanes<T>;
  std::int64_t k = 0;
  do {  // once even without columns: an empty sum is 0
    const std::int64_t depth = columns - k < kDepth ? columns - k : kDepth;
    for (std::int64_t j = 0; j < count; j += kAcross) {
      const T* points = across + (j / W * columns + k) * W + j % W;
      for (std::int64_t lane = 0; lane < W; lane += lanes_at_once)
        micro_kernel<T, metric>(lanes + k * W + lane, points, depth, k == 0, tile + j * W + lane);
    }
    k += depth;
  } while (k < columns);
}

// Inner products of sparse rows: the panel is scattered into a dense [column][lane] buffer, which is
// all zeros before and after.
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
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[v] += z * load<T>(x + v * L);
    }
#pragma GCC unroll 8
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

// One value per across point (`step` apart), repeated over the lanes.
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
  for (std::int64_t i = 0; i < padded * W; ++i) tile[i] = T(0);
  if (lane_stride == 1) {
    for (std::int64_t j = 0; j < count; ++j)
      for (std::int64_t lane = 0; lane < lane_count; ++lane)
        tile[j * W + lane] = corner[j * across_stride + lane];
  } else {
    for (std::int64_t lane = 0; lane < lane_count; ++lane)
      for (std::int64_t j = 0; j < count; ++j)
        tile[j * W + lane] = corner[lane * lane_stride + j * across_stride];
  }
}

}  // namespace mercer::MERCER_ISA
