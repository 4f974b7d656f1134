// K' (K V) with one evaluation of each pair.
//
// A row panel's values against all columns are kept in a strip (small enough for the second-level
// cache up to a few thousand columns), used once for t = K V and once for K' t.
#pragma once

#include "product.hpp"
#include "transpose.hpp"

namespace mercer::MERCER_ISA {

// sums[j][c] += sum over lanes of strip[j][lane] t[c][lane]; `count` is a multiple of the lanes.
template <class T>
__attribute__((noinline)) void accumulate_transposed(const T* __restrict strip, std::int64_t count,
                                                     const T* __restrict t,
                                                     std::int64_t right_sides,
                                                     double* __restrict sums) {
  constexpr int W = kPanel<T>, L = kLanes<T>, V = kPanelVectors<T>;
  for (std::int64_t j = 0; j < count; j += L)
    for (std::int64_t c = 0; c < right_sides; ++c) {
      Vec<T> products[L];
#pragma GCC unroll 8
      for (int i = 0; i < L; ++i) {
        const T* row = strip + (j + i) * W;
        products[i] = load<T>(row) * load<T>(t + c * W);
#pragma GCC unroll 8
        for (int v = 1; v < V; ++v)
          products[i] += load<T>(row + v * L) * load<T>(t + c * W + v * L);
      }
      alignas(64) T totals[L];
      store<T>(totals, sums_of<T>(products));
#pragma GCC unroll 8
      for (int i = 0; i < L; ++i) sums[(j + i) * right_sides + c] += static_cast<double>(totals[i]);
    }
}

// lanes[j][c] += strip[j] t[c], as vectors; both sums over lanes are left for later.
template <class T>
__attribute__((noinline)) void accumulate_lanes(const T* __restrict strip, std::int64_t count,
                                                const T* __restrict t, std::int64_t right_sides,
                                                T* __restrict lanes) {
  constexpr int W = kPanel<T>, L = kLanes<T>, V = kPanelVectors<T>;
  for (std::int64_t c = 0; c < right_sides; ++c) {
    Vec<T> weights[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) weights[v] = load<T>(t + c * W + v * L);
    T* target = lanes + c * L;
    for (std::int64_t j = 0; j < count; ++j, target += right_sides * L) {
      Vec<T> sum = load<T>(target);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum += load<T>(strip + j * W + v * L) * weights[v];
      store<T>(target, sum);
    }
  }
}

// sums[i] += the sum of the lanes of vector i, which becomes zero; `count` is a multiple of them.
template <class T>
void flush_lanes(T* lanes, std::int64_t count, double* sums) {
  constexpr int L = kLanes<T>;
  for (std::int64_t i = 0; i < count; i += L) {
    Vec<T> vectors[L];
#pragma GCC unroll 8
    for (int k = 0; k < L; ++k) {
      vectors[k] = load<T>(lanes + (i + k) * L);
      store<T>(lanes + (i + k) * L, Vec<T>{});
    }
    const Vec<T> totals = sums_of<T>(vectors);
    for (int k = 0; k < L; ++k) sums[i + k] += static_cast<double>(totals[k]);
  }
}

template <class T>
class NormalProduct {
 public:
  explicit NormalProduct(const ProductJob<T>& job)
      : job_(job),
        columns_(job.pairs.cols->n),
        panels_(job.pairs.rows->panels()),
        cost_(pair_cost(job.pairs) + 4.0 * static_cast<double>(job.right_sides)) {
    // Each unit has accumulators for all columns: few units where those are large.
    constexpr std::int64_t kBudget = 32 << 20;
    const std::int64_t bytes = size() * static_cast<std::int64_t>(sizeof(double));
    const std::int64_t wanted = std::clamp<std::int64_t>(kBudget / bytes, 2, 64);
    panels_per_unit_ = divide_up(panels_, wanted);
    units_ = divide_up(panels_, panels_per_unit_);
    keeps_lanes_ = size() * kLanes<T> * static_cast<std::int64_t>(sizeof(T)) <= kLanesBytes;
  }

  void run() {
    sums_ = AlignedBuffer<double>(units_ * size());
    const double work = cost_ * static_cast<double>(job_.pairs.rows->n) *
                        static_cast<double>(columns_) / sizeof(double) * sizeof(T);
    auto body = [this](Worker& worker) { run_units(worker); };
    run_workers(units_, useful_threads(job_.pairs.threads, units_, work), job_.pairs.interrupt,
                WorkerBody(body));
    for (std::int64_t i = 0; i < columns_ * job_.right_sides; ++i) {
      double total = 0.0;
      for (std::int64_t u = 0; u < units_; ++u) total += sums_[u * size() + i];
      job_.out[i] = static_cast<T>(total);
    }
  }

 private:
  static constexpr std::int64_t W = kPanel<T>;
  // Sums may stay in vectors, for so many panels, where these leave room for the strip in the
  // second-level cache.
  static constexpr std::int64_t kLanesBytes = 128 << 10, kLanesPanels = 16;
  // Accumulators of a unit; the columns are padded to whole panels, as in the strip.
  std::int64_t padded() const { return round_up(columns_, W); }
  std::int64_t size() const { return padded() * job_.right_sides; }

  void run_units(Worker& worker) {
    Interpreter<T> tile(job_.pairs, true);
    AlignedBuffer<T> strip(padded() * W), t(job_.right_sides * W);
    strip.fill(T(0));
    AlignedBuffer<T> lanes(keeps_lanes_ ? size() * kLanes<T> : 0);
    lanes.fill(T(0));
    AlignedBuffer<double> exact(job_.right_sides * W);
    for (std::int64_t u = worker.next_unit(); u >= 0; u = worker.next_unit()) {
      double* sums = sums_.data() + u * size();
      for (std::int64_t i = 0; i < size(); ++i) sums[i] = 0.0;
      const std::int64_t end = std::min((u + 1) * panels_per_unit_, panels_);
      for (std::int64_t p = u * panels_per_unit_; p < end; ++p) {
        if (!run_panel(worker, tile, p, strip.data(), exact)) return;
        for (std::int64_t i = 0; i < t.size(); ++i) t[i] = static_cast<T>(exact[i]);
        if (!keeps_lanes_) {
          accumulate_transposed<T>(strip.data(), padded(), t.data(), job_.right_sides, sums);
          continue;
        }
        accumulate_lanes<T>(strip.data(), padded(), t.data(), job_.right_sides, lanes.data());
        if (p + 1 == end || (p + 1) % kLanesPanels == 0) flush_lanes<T>(lanes.data(), size(), sums);
      }
    }
  }

  // Fills the strip of a panel, and t = K V in float64.
  bool run_panel(Worker& worker, Interpreter<T>& tile, std::int64_t panel, T* strip,
                 AlignedBuffer<double>& exact) {
    exact.fill(0.0);
    for (std::int64_t j = 0; j < columns_; j += tile.width()) {
      const std::int64_t count = std::min(tile.width(), columns_ - j);
      // On its way to the first-level cache while the tile is computed.
      for (std::int64_t i = 0; i < count; ++i) __builtin_prefetch(strip + (j + i) * W, 1);
      T* values = strip + j * W;
      tile.place(job_.result, values);
      tile.run(panel, j, count);
      if (tile.is_partial()) tile.clear_padding(values);
      accumulate_product<T>(values, count, job_.V + j * job_.right_sides, job_.right_sides,
                            exact.data());
      if (!worker.keep_going(static_cast<std::int64_t>(cost_ * static_cast<double>(count))))
        return false;
    }
    return true;
  }

  const ProductJob<T>& job_;
  std::int64_t columns_, panels_;
  double cost_;
  std::int64_t panels_per_unit_ = 1, units_ = 1;
  bool keeps_lanes_ = false;
  AlignedBuffer<double> sums_;
};

template <class T>
void run_normal_product(const ProductJob<T>& job) {
  NormalProduct<T>(job).run();
}

}  // namespace mercer::MERCER_ISA
