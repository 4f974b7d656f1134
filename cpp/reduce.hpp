// The loop over tiles that all reductions share.
#pragma once

#include "grid.hpp"
#include "interpreter.hpp"

namespace mercer::MERCER_ISA {

// Something accumulated, in float64, from the tiles of a unit; rows are the lanes.
template <class T>
class Reduction {
 public:
  virtual ~Reduction() = default;
  // Accumulators (doubles) for a unit of `panels` row panels and `columns` columns.
  virtual std::int64_t partial_size(std::int64_t panels, std::int64_t columns) const = 0;
  // True if the result of a row depends on that row's pairs alone.
  virtual bool owns_rows() const = 0;
  // True if the accumulators grow with the columns, so that there should be few units.
  virtual bool grows_with_columns() const { return false; }
  // The register it reads: its padding is zero when `add` is called.
  virtual std::int32_t source() const = 0;
  virtual void add(Interpreter<T>& tile, const Unit& unit, double* partial) const = 0;
  // Called once, before the first unit.
  virtual void prepare(const Grid&) {}
  // Adds the accumulators of a unit to the result; for shared results called in the order of the
  // units.
  virtual void combine(const Unit& unit, const double* partial) = 0;
};

template <class T>
class ReductionLoop {
 public:
  // `fold` as in ContractJob.
  ReductionLoop(const Pairs<T>& pairs, Reduction<T>* const* reductions, std::int64_t count,
                double extra_cost, Fold fold = Fold::none)
      : pairs_(pairs),
        reductions_(reductions),
        count_(count),
        fold_(fold),
        pair_cost_(pair_cost(pairs) + extra_cost),
        grid_(choose_grid()) {
    for (std::int64_t r = 0; r < count_; ++r)
      (is_local(r) ? local_size_ : shared_size_) += partial_size(r);
  }

  void run() {
    shared_ = AlignedBuffer<double>(shared_size_ * grid_.units());
    for (std::int64_t r = 0; r < count_; ++r) reductions_[r]->prepare(grid_);
    const double work = pair_cost_ * static_cast<double>(pairs_.rows->n) *
                        static_cast<double>(pairs_.cols->n) / sizeof(double) * sizeof(T) /
                        (is_folded() ? 2 : 1);
    const int threads = useful_threads(pairs_.threads, grid_.units(), work);
    auto body = [this](Worker& worker) { run_units(worker); };
    run_workers(grid_.units(), threads, pairs_.interrupt, WorkerBody(body));
    for (std::int64_t u = 0; u < grid_.units(); ++u)
      combine(grid_.unit(u), shared_.data() + u * shared_size_, false);
  }

 private:
  // Partials of rows that no other unit touches need not wait for the others.
  bool is_local(std::int64_t r) const { return grid_.chunks == 1 && reductions_[r]->owns_rows(); }
  std::int64_t partial_size(std::int64_t r) const {
    return reductions_[r]->partial_size(grid_.block, grid_.chunk);
  }

  Grid choose_grid() const {
    std::int64_t row_bytes = 0, max_blocks = 1024;
    for (std::int64_t r = 0; r < count_; ++r) {
      row_bytes += reductions_[r]->partial_size(1, 0) * static_cast<std::int64_t>(sizeof(double));
      if (reductions_[r]->grows_with_columns()) max_blocks = 32;
      // Results shared by all rows: bound what waits to be combined.
      if (!reductions_[r]->owns_rows()) max_blocks = std::min<std::int64_t>(max_blocks, 256);
    }
    return make_grid(pairs_.rows->panels(), kPanelPoints<T>, pairs_.cols->n, tile_width(pairs_),
                     row_bytes, max_blocks, is_wide(pairs_));
  }

  void run_units(Worker& worker) {
    Interpreter<T> tile(pairs_, true, fold_);
    AlignedBuffer<double> local(local_size_);
    for (std::int64_t u = worker.next_unit(); u >= 0; u = worker.next_unit()) {
      const Unit unit = grid_.unit(u);
      double* shared = shared_.data() + u * shared_size_;
      for (std::int64_t i = 0; i < local_size_; ++i) local[i] = 0.0;
      for (std::int64_t i = 0; i < shared_size_; ++i) shared[i] = 0.0;
      if (!run_unit(worker, tile, unit, local.data(), shared)) return;
      combine(unit, local.data(), true);
    }
  }

  // The columns of a tile stay in cache while the row panels pass by.
  bool run_unit(Worker& worker, Interpreter<T>& tile, const Unit& unit, double* local,
                double* shared) {
    for (std::int64_t j = first_column(unit, tile.width()); j < unit.end_column;
         j += tile.width()) {
      const std::int64_t columns = std::min(tile.width(), unit.end_column - j);
      const double work = pair_cost_ * static_cast<double>(columns) * kPanelVectors<T>;
      const auto keep_going = [&](double panels) {
        return worker.keep_going(static_cast<std::int64_t>(work * panels));
      };
      if (!tile.run_panels(
              unit.first_panel, end_panel(unit, j + columns), j,
              [columns](std::int64_t) { return columns; }, keep_going,
              [&] { add(tile, unit, local, shared); }))
        return false;
    }
    return true;
  }

  bool is_folded() const { return fold_ != Fold::none; }

  // The tiles of a unit that hold pairs with column >= row, if the others are left out.
  std::int64_t first_column(const Unit& unit, std::int64_t width) const {
    if (!is_folded()) return unit.first_column;
    const std::int64_t skipped = unit.first_panel * kPanel<T> - unit.first_column;
    return unit.first_column + std::max<std::int64_t>(skipped, 0) / width * width;
  }
  std::int64_t end_panel(const Unit& unit, std::int64_t end_column) const {
    if (!is_folded()) return unit.end_panel;
    return std::min(unit.end_panel, divide_up(end_column, kPanel<T>));
  }

  // Registers that reductions read are made ready once, however many reductions read them.
  void make_ready(Interpreter<T>& tile, std::int64_t r) const {
    const std::int32_t source = reductions_[r]->source();
    for (std::int64_t before = 0; before < r; ++before)
      if (reductions_[before]->source() == source) return;
    if (tile.is_partial()) tile.clear_padding(tile.tile(source));
    if (is_folded() && tile.meets_diagonal()) tile.fold_diagonal(tile.tile(source));
  }

  void add(Interpreter<T>& tile, const Unit& unit, double* local, double* shared) {
    for (std::int64_t r = 0; r < count_; ++r) {
      make_ready(tile, r);
      double*& partial = is_local(r) ? local : shared;
      reductions_[r]->add(tile, unit, partial);
      partial += partial_size(r);
    }
  }

  void combine(const Unit& unit, const double* partial, bool local) {
    for (std::int64_t r = 0; r < count_; ++r) {
      if (is_local(r) != local) continue;
      reductions_[r]->combine(unit, partial);
      partial += partial_size(r);
    }
  }

  const Pairs<T>& pairs_;
  Reduction<T>* const* reductions_;
  std::int64_t count_;
  Fold fold_;
  double pair_cost_;
  Grid grid_;
  std::int64_t local_size_ = 0, shared_size_ = 0;
  AlignedBuffer<double> shared_;
};

// Adds the lanes of a panel to float64 accumulators.
template <class T>
MERCER_INLINE void add_lanes(const Vec<T> (&sum)[kPanelVectors<T>], double* accumulators) {
  alignas(64) T lanes[kPanel<T>];
#pragma GCC unroll 8
  for (int v = 0; v < kPanelVectors<T>; ++v) store<T>(lanes + v * kLanes<T>, sum[v]);
  for (int lane = 0; lane < kPanel<T>; ++lane)
    accumulators[lane] += static_cast<double>(lanes[lane]);
}

}  // namespace mercer::MERCER_ISA
