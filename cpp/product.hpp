// K V without K.
#pragma once

#include "reduce.hpp"

namespace mercer::MERCER_ISA {

// sums[c][lane] += sum_j tile[j][lane] V[j][c] for N neighbouring right-hand sides; V is row-major.
template <class T, int N>
__attribute__((noinline)) void accumulate_right_sides(const T* __restrict tile, std::int64_t count,
                                                      const T* __restrict V, std::int64_t stride,
                                                      double* sums) {
  constexpr int W = kPanel<T>, L = kLanes<T>, half = kLaneVectors;
  static_assert(kPanelVectors<T> % half == 0);
  for (int lane = 0; lane < W; lane += half * L) {
    Vec<T> y[N][half] = {};
    for (std::int64_t j = 0; j < count; ++j) {
      Vec<T> k[half];
#pragma GCC unroll 8
      for (int v = 0; v < half; ++v) k[v] = load<T>(tile + j * W + lane + v * L);
#pragma GCC unroll 8
      for (int c = 0; c < N; ++c) {
        const Vec<T> weight = broadcast<T>(V[j * stride + c]);
#pragma GCC unroll 8
        for (int v = 0; v < half; ++v) y[c][v] += k[v] * weight;
      }
    }
    alignas(64) T lanes[half * L];
    for (int c = 0; c < N; ++c) {
      for (int v = 0; v < half; ++v) store<T>(lanes + v * L, y[c][v]);
      for (int i = 0; i < half * L; ++i) sums[c * W + lane + i] += static_cast<double>(lanes[i]);
    }
  }
}

// The same for a single right-hand side: partial sums hide the latency of the additions.
template <class T>
__attribute__((noinline)) void accumulate_right_side(const T* __restrict tile, std::int64_t count,
                                                     const T* __restrict V, double* sums) {
  constexpr int W = kPanel<T>, L = kLanes<T>, half = kLaneVectors, N = 8 / half;
  for (int lane = 0; lane < W; lane += half * L) {
    Vec<T> y[N][half] = {};
    std::int64_t j = 0;
    for (; j + N <= count; j += N)
#pragma GCC unroll 8
      for (int c = 0; c < N; ++c) {
        const Vec<T> weight = broadcast<T>(V[j + c]);
#pragma GCC unroll 8
        for (int v = 0; v < half; ++v)
          y[c][v] += load<T>(tile + (j + c) * W + lane + v * L) * weight;
      }
    for (; j < count; ++j)
      for (int v = 0; v < half; ++v)
        y[0][v] += load<T>(tile + j * W + lane + v * L) * broadcast<T>(V[j]);
    alignas(64) T lanes[half * L];
#pragma GCC unroll 8
    for (int n = N / 2; n > 0; n /= 2)
#pragma GCC unroll 8
      for (int c = 0; c < n; ++c)
#pragma GCC unroll 8
        for (int v = 0; v < half; ++v) y[c][v] += y[c + n][v];
    for (int v = 0; v < half; ++v) store<T>(lanes + v * L, y[0][v]);
    for (int i = 0; i < half * L; ++i) sums[lane + i] += static_cast<double>(lanes[i]);
  }
}

// sums[c][lane] += sum_j tile[j][lane] V[j][c] for all right-hand sides.
template <class T>
void accumulate_product(const T* tile, std::int64_t count, const T* V, std::int64_t right_sides,
                        double* sums) {
  constexpr int W = kPanel<T>;
  if (right_sides == 1) return accumulate_right_side<T>(tile, count, V, sums);
  std::int64_t c = 0;
  for (; c + 5 <= right_sides; c += 5)
    accumulate_right_sides<T, 5>(tile, count, V + c, right_sides, sums + c * W);
  switch (right_sides - c) {
    case 4:
      return accumulate_right_sides<T, 4>(tile, count, V + c, right_sides, sums + c * W);
    case 3:
      return accumulate_right_sides<T, 3>(tile, count, V + c, right_sides, sums + c * W);
    case 2:
      return accumulate_right_sides<T, 2>(tile, count, V + c, right_sides, sums + c * W);
    case 1:
      return accumulate_right_sides<T, 1>(tile, count, V + c, right_sides, sums + c * W);
    default:
      return;
  }
}

// Accumulators: [panel][right-hand side][lane].
template <class T>
class Product final : public Reduction<T> {
 public:
  explicit Product(const ProductJob<T>& job) : job_(job) {}
  std::int64_t partial_size(std::int64_t panels, std::int64_t) const override {
    return panels * W * job_.right_sides;
  }
  bool owns_rows() const override { return true; }
  std::int32_t source() const override { return job_.result; }

  void add(Interpreter<T>& tile, const Unit& unit, double* partial) const override {
    const std::int64_t r = job_.right_sides;
    accumulate_product<T>(tile.tile(job_.result), tile.count(), job_.V + tile.first() * r, r,
                          partial + (tile.panel() - unit.first_panel) * W * r);
  }

  // The sums of different chunks of columns are added in float64; only the total is rounded.
  void prepare(const Grid& grid) override {
    if (grid.chunks == 1) return;
    totals_ = AlignedBuffer<double>(job_.pairs.rows->n * job_.right_sides);
    totals_.fill(0.0);
  }

  void combine(const Unit& unit, const double* partial) override {
    const std::int64_t r = job_.right_sides;
    const std::int64_t end = std::min(unit.end_panel * W, job_.pairs.rows->n);
    for (std::int64_t i = unit.first_panel * W; i < end; ++i) {
      const double* sums = partial + (i / W - unit.first_panel) * W * r + i % W;
      for (std::int64_t c = 0; c < r; ++c) {
        double total = sums[c * W];
        if (totals_.size() > 0) total = totals_[i * r + c] += total;
        job_.out[i * r + c] = static_cast<T>(total);
      }
    }
  }

 private:
  static constexpr std::int64_t W = kPanel<T>;
  const ProductJob<T>& job_;
  AlignedBuffer<double> totals_;
};

template <class T>
void run_product(const ProductJob<T>& job) {
  Product<T> product(job);
  Reduction<T>* const reductions[] = {&product};
  ReductionLoop<T>(job.pairs, reductions, 1, 2.0 * static_cast<double>(job.right_sides)).run();
}

}  // namespace mercer::MERCER_ISA
