// K' (K V) with one evaluation of each pair.
//
// A row panel's values against all columns are kept in a strip (small enough for the second-level
// cache up to a few thousand columns), used once for t = K V and once for K' t. The second use
// waits until the next panel takes the place of the values: they come to the first-level cache
// once.
#pragma once

#include "product.hpp"
#include "transpose.hpp"

namespace mercer::MERCER_ISA {

// sums[c][j] += sum over lanes of strip[j][lane] t[c][lane]; `count` is a multiple of the lanes.
template <class T>
__attribute__((noinline)) void accumulate_transposed(const T* __restrict strip, std::int64_t count,
                                                     const T* __restrict t,
                                                     std::int64_t right_sides, T* __restrict sums,
                                                     std::int64_t stride) {
  constexpr int W = kPanel<T>, L = kLanes<T>, V = kPanelVectors<T>;
  for (std::int64_t c = 0; c < right_sides; ++c) {
    Vec<T> weights[V];
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) weights[v] = load<T>(t + c * W + v * L);
    for (std::int64_t j = 0; j < count; j += L) {
      Vec<T> products[L];
#pragma GCC unroll 16
      for (int i = 0; i < L; ++i) {
        const T* row = strip + (j + i) * W;
        products[i] = load<T>(row) * weights[0];
#pragma GCC unroll 16
        for (int v = 1; v < V; ++v) products[i] += load<T>(row + v * L) * weights[v];
      }
      T* target = sums + c * stride + j;
      store<T>(target, load<T>(target) + sums_of<T>(products));
    }
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
  }

  void run() {
    sums_ = AlignedBuffer<double>(units_ * size());
    const double work = cost_ * static_cast<double>(job_.pairs.rows->n) *
                        static_cast<double>(columns_) / sizeof(double) * sizeof(T);
    auto body = [this](Worker& worker) { run_units(worker); };
    run_workers(units_, useful_threads(job_.pairs.threads, units_, work), job_.pairs.interrupt,
                WorkerBody(body));
    for (std::int64_t j = 0; j < columns_; ++j)
      for (std::int64_t c = 0; c < job_.right_sides; ++c) {
        double total = 0.0;
        for (std::int64_t u = 0; u < units_; ++u) total += sums_[u * size() + c * padded() + j];
        job_.out[j * job_.right_sides + c] = static_cast<T>(total);
      }
  }

 private:
  static constexpr std::int64_t W = kPanel<T>;
  // Sums over so many panels are rounded to T; those over more are added in float64.
  static constexpr std::int64_t kRecentPanels = 16;
  // Accumulators of a unit; the columns are padded to whole panels, as in the strip.
  std::int64_t padded() const { return round_up(columns_, W); }
  std::int64_t size() const { return padded() * job_.right_sides; }

  // What a thread keeps: values of the panel before, its t, and the sums of the last few panels.
  struct State {
    explicit State(const NormalProduct& all)
        : tile(all.job_.pairs, true),
          strip(all.padded() * W),
          t(all.job_.right_sides * W),
          exact(t.size()),
          recent(all.size()) {
      recent.fill(T(0));
    }
    Interpreter<T> tile;
    AlignedBuffer<T> strip, t;
    AlignedBuffer<double> exact;  // t in float64
    AlignedBuffer<T> recent;
  };

  void run_units(Worker& worker) {
    State state(*this);
    for (std::int64_t u = worker.next_unit(); u >= 0; u = worker.next_unit()) {
      double* sums = sums_.data() + u * size();
      for (std::int64_t i = 0; i < size(); ++i) sums[i] = 0.0;
      const std::int64_t end = std::min((u + 1) * panels_per_unit_, panels_);
      state.strip.fill(T(0));
      state.t.fill(T(0));
      for (std::int64_t p = u * panels_per_unit_; p < end; ++p) {
        if (!run_panel(worker, state, p)) return;
        if (p % kRecentPanels == 0) flush(state, sums);
      }
      add_transposed(state, 0, padded());
      flush(state, sums);
    }
  }

  // Adds K' t of the panel before, and replaces its values and t = K V by those of this panel.
  bool run_panel(Worker& worker, State& state, std::int64_t panel) {
    Interpreter<T>& tile = state.tile;
    state.exact.fill(0.0);
    for (std::int64_t j = 0; j < columns_; j += tile.width()) {
      const std::int64_t count = std::min(tile.width(), columns_ - j);
      add_transposed(state, j, round_up(count, W));
      T* values = state.strip.data() + j * W;
      tile.place(job_.result, values);
      tile.run(panel, j, count);
      if (tile.is_partial()) tile.clear_padding(values);
      accumulate_product<T>(values, count, job_.V + j * job_.right_sides, job_.right_sides,
                            state.exact.data());
      if (!worker.keep_going(static_cast<std::int64_t>(cost_ * static_cast<double>(count))))
        return false;
    }
    // Lanes beyond the last row stay zero whatever V holds: 0 times infinity is not.
    const std::int64_t lanes = tile.lane_count();
    for (std::int64_t i = 0; i < state.t.size(); ++i)
      state.t[i] = i % W < lanes ? static_cast<T>(state.exact[i]) : T(0);
    return true;
  }

  // Adds K' t of the panel whose values the strip holds, for some of its columns.
  void add_transposed(State& state, std::int64_t first, std::int64_t count) const {
    accumulate_transposed<T>(state.strip.data() + first * W, count, state.t.data(),
                             job_.right_sides, state.recent.data() + first, padded());
  }

  static void flush(State& state, double* sums) {
    for (std::int64_t i = 0; i < state.recent.size(); ++i) {
      sums[i] += static_cast<double>(state.recent[i]);
      state.recent[i] = T(0);
    }
  }

  const ProductJob<T>& job_;
  std::int64_t columns_, panels_;
  double cost_;
  std::int64_t panels_per_unit_ = 1, units_ = 1;
  AlignedBuffer<double> sums_;
};

template <class T>
void run_normal_product(const ProductJob<T>& job) {
  NormalProduct<T>(job).run();
}

}  // namespace mercer::MERCER_ISA
