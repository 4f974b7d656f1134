// Sums over a tile, plain or weighted by the points of a slot.
#pragma once

#include "reduce.hpp"

namespace mercer::MERCER_ISA {

template <class T>
MERCER_INLINE T tile_row_sum(const T* row) {
  Vec<T> sum = load<T>(row);
#pragma GCC unroll 8
  for (int v = 1; v < kPanelVectors<T>; ++v) sum += load<T>(row + v * kLanes<T>);
  return horizontal_sum<T>(sum);
}

// Sum of all values of a tile; `size` is a multiple of four vectors.
template <class T>
double tile_sum(const T* values, std::int64_t size) {
  constexpr int L = kLanes<T>, N = 4;
  Vec<T> sums[N] = {};
  for (std::int64_t i = 0; i < size; i += N * L)
#pragma GCC unroll 8
    for (int v = 0; v < N; ++v) sums[v] += load<T>(values + i + v * L);
  return static_cast<double>(horizontal_sum<T>((sums[0] + sums[1]) + (sums[2] + sums[3])));
}

// accumulators[lane] += sum_j values[j][lane]; `count` is even.
template <class T>
void add_row_sums(const T* values, std::int64_t count, double* accumulators) {
  constexpr int V = kPanelVectors<T>, L = kLanes<T>, W = kPanel<T>;
  Vec<T> sums[2][V] = {};
  for (std::int64_t j = 0; j < count; j += 2)
#pragma GCC unroll 8
    for (int h = 0; h < 2; ++h)
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sums[h][v] += load<T>(values + (j + h) * W + v * L);
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) sums[0][v] += sums[1][v];
  add_lanes<T>(sums[0], accumulators);
}

// What a weight R_ij multiplies, for column k: z_jk, x_ik - z_jk, or its square.
enum class Weighting { points, differences, squares };

// sums[c][lane] = sum_j R_j,lane * (weighting of column c) for N columns; `lanes` and `across`
// point to the first of them. Not inlined, to keep the accumulators in registers.
template <class T, Weighting weighting, int N>
__attribute__((noinline)) void weighted_columns(const T* __restrict R, const T* __restrict lanes,
                                                const T* __restrict across, std::int64_t columns,
                                                std::int64_t count, T* __restrict sums) {
  constexpr int W = kPanel<T>, L = kLanes<T>, half = kLaneVectors;
  for (int lane = 0; lane < W; lane += half * L) {
    Vec<T> sum[N][half] = {};
    for (std::int64_t j0 = 0; j0 < count; j0 += W) {
      const T* points = across + j0 * columns;
      const std::int64_t points_here = count - j0 < W ? count - j0 : W;
      for (std::int64_t j = 0; j < points_here; ++j) {
        Vec<T> r[half];
#pragma GCC unroll 8
        for (int v = 0; v < half; ++v) r[v] = load<T>(R + (j0 + j) * W + lane + v * L);
#pragma GCC unroll 8
        for (int c = 0; c < N; ++c) {
          const Vec<T> z = broadcast<T>(points[c * W + j]);
#pragma GCC unroll 8
          for (int v = 0; v < half; ++v) {
            if constexpr (weighting == Weighting::points) {
              sum[c][v] += r[v] * z;
            } else {
              const Vec<T> t = z - load<T>(lanes + c * W + lane + v * L);
              if constexpr (weighting == Weighting::differences) {
                sum[c][v] -= r[v] * t;
              } else {
                sum[c][v] += (r[v] * t) * t;
              }
            }
          }
        }
      }
    }
#pragma GCC unroll 8
    for (int c = 0; c < N; ++c)
#pragma GCC unroll 8
      for (int v = 0; v < half; ++v) store<T>(sums + c * W + lane + v * L, sum[c][v]);
  }
}

// Calls finish(k, sums of column k) for every column of a slot.
template <class T, Weighting weighting, class F>
void for_weighted_columns(Interpreter<T>& tile, std::int32_t reg, std::int32_t slot, F finish) {
  constexpr int W = kPanel<T>, N = 4;
  const T* R = tile.tile(reg);
  const T* lanes = tile.lane_panel(slot);
  const T* across = tile.across_panel(slot);
  const std::int64_t columns = tile.columns(slot);
  alignas(64) T sums[N * W];
  std::int64_t k = 0;
  for (; k + N <= columns; k += N) {
    weighted_columns<T, weighting, N>(R, lanes + k * W, across + k * W, columns, tile.count(),
                                      sums);
    for (int c = 0; c < N; ++c) finish(k + c, sums + c * W);
  }
  for (; k < columns; ++k) {
    weighted_columns<T, weighting, 1>(R, lanes + k * W, across + k * W, columns, tile.count(),
                                      sums);
    finish(k, sums);
  }
}

// sum_j R_ij z_jk, or sum_j R_ij 2 (x_ik - z_jk). Accumulators: [panel][column][lane].
template <class T, Weighting weighting>
class WeightedInputs final : public Reduction<T> {
 public:
  WeightedInputs(const Pairs<T>& pairs, const Output& output)
      : output_(output),
        rows_(pairs.rows->n),
        columns_(pairs.rows->slots[static_cast<std::size_t>(output.slot)].columns) {}
  std::int64_t partial_size(std::int64_t panels, std::int64_t) const override {
    return panels * columns_ * W;
  }
  bool owns_rows() const override { return true; }
  std::int32_t source() const override { return output_.reg; }

  void add(Interpreter<T>& tile, const Unit& unit, double* partial) const override {
    double* sums = partial + (tile.panel() - unit.first_panel) * columns_ * W;
    for_weighted_columns<T, weighting>(tile, output_.reg, output_.slot,
                                       [sums](std::int64_t k, const T* lanes) {
                                         for (int lane = 0; lane < W; ++lane)
                                           sums[k * W + lane] += static_cast<double>(lanes[lane]);
                                       });
  }

  void combine(const Unit& unit, const double* partial) override {
    constexpr double factor = weighting == Weighting::differences ? 2.0 : 1.0;
    const std::int64_t end = std::min(unit.end_panel * W, rows_);
    for (std::int64_t i = unit.first_panel * W; i < end; ++i) {
      const double* sums = partial + (i / W - unit.first_panel) * columns_ * W + i % W;
      for (std::int64_t k = 0; k < columns_; ++k)
        output_.target[i * columns_ + k] += factor * sums[k * W];
    }
  }

 private:
  static constexpr int W = kPanel<T>;
  const Output& output_;
  std::int64_t rows_, columns_;
};

// sum_ij R_ij 2 (x_ik - z_jk)^2, by direct differences. Accumulators: [column].
template <class T>
class WeightedScales final : public Reduction<T> {
 public:
  WeightedScales(const Pairs<T>& pairs, const Output& output)
      : output_(output),
        columns_(pairs.rows->slots[static_cast<std::size_t>(output.slot)].columns) {}
  std::int64_t partial_size(std::int64_t, std::int64_t) const override { return columns_; }
  bool owns_rows() const override { return false; }
  std::int32_t source() const override { return output_.reg; }

  void add(Interpreter<T>& tile, const Unit&, double* partial) const override {
    for_weighted_columns<T, Weighting::squares>(
        tile, output_.reg, output_.slot, [partial](std::int64_t k, const T* lanes) {
          partial[k] += static_cast<double>(tile_row_sum<T>(lanes));
        });
  }

  void combine(const Unit&, const double* partial) override {
    for (std::int64_t k = 0; k < columns_; ++k) output_.target[k] += 2.0 * partial[k];
  }

 private:
  const Output& output_;
  std::int64_t columns_;
};

}  // namespace mercer::MERCER_ISA
