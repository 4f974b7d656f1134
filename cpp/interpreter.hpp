// Runs a program over one tile at a time. One interpreter per thread: it owns the registers.
#pragma once

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "bits.hpp"
#include "elementwise.hpp"
#include "engine.hpp"
#include "tile.hpp"

namespace mercer::MERCER_ISA {

// Registers that are live at the same time should take about this much of the first-level cache;
// the rest of its 32 KB is for the points themselves.
inline constexpr std::int64_t kTileBytes = 11 * 1024;
inline constexpr std::int64_t kMinTile = 16;
inline constexpr std::int64_t kMaxTile = 256;
// Columns from which the points of a tile are too many for the second-level cache, and the panels
// whose metrics are then computed together: the points are read from memory once for all of them.
inline constexpr std::int64_t kWideColumns = 512;
inline constexpr std::int64_t kPanelsAhead = 16;

// Tiles that a reduction over columns keeps: its states, none for the plain sum and the product.
inline std::int64_t reduction_states(std::int32_t reduction) {
  return reduction >= 2 ? reduction - 1 : 0;
}

// Registers in use while the program runs, those of its widest sub-program included.
template <class T>
std::int64_t live_registers(const Pairs<T>& pairs) {
  std::int64_t widest = 0;
  for (const Instruction& line : pairs.program->code) {
    if (line.op != Op::coordinate) continue;
    const std::int64_t width =
        pairs.program->coordinates[static_cast<std::size_t>(line.b)].registers +
        reduction_states(line.c);
    widest = width > widest ? width : widest;
  }
  return pairs.program->registers + widest;
}

// Points of the other side per tile: a multiple of the panel, so that tiles start with a panel.
template <class T>
std::int64_t tile_width(const Pairs<T>& pairs) {
  const std::int64_t bytes = live_registers(pairs) * static_cast<std::int64_t>(kCacheLine);
  const std::int64_t width = std::clamp(kTileBytes / bytes, kMinTile, kMaxTile);
  // Whole panels, and where there is room also whole groups of the micro-kernel.
  constexpr std::int64_t kWhole = std::lcm(kMinTile, std::int64_t{kGroup});
  const std::int64_t step = width >= kWhole ? kWhole : kMinTile;
  return width / step * step;
}

// Whether an instruction reads many columns at once.
template <class T>
bool is_wide(const Pairs<T>& pairs, const Instruction& line) {
  return line.op <= Op::manhattan &&
         pairs.cols->slots[static_cast<std::size_t>(line.a)].columns >= kWideColumns;
}

template <class T>
bool is_wide(const Pairs<T>& pairs) {
  for (const Instruction& line : pairs.program->code)
    if (is_wide(pairs, line)) return true;
  return false;
}

// Rough floating-point operations per pair, to decide about threads and polling.
template <class T>
double pair_cost(const Pairs<T>& pairs) {
  double cost = 4;
  for (const Instruction& line : pairs.program->code) {
    cost += info(line.op).cost;
    const bool has_slot = line.op <= Op::coordinate;
    if (!has_slot) continue;
    const Slot<T>& slot = pairs.cols->slots[static_cast<std::size_t>(line.a)];
    double per_column = 2;
    if (line.op == Op::coordinate)
      for (const Instruction& inner :
           pairs.program->coordinates[static_cast<std::size_t>(line.b)].code)
        per_column += 1 + info(inner.op).cost;
    const double columns = slot.layout == Layout::sparse
                               ? static_cast<double>(slot.indptr[pairs.cols->n]) /
                                     static_cast<double>(pairs.cols->n) * 4
                               : static_cast<double>(slot.columns);
    cost += per_column * columns;
  }
  return cost;
}

template <class T>
class Interpreter {
 public:
  static constexpr std::int64_t W = kPanel<T>;

  // `lanes_are_rows` says which side the lanes of a tile belong to, `fold` how blocks are read.
  Interpreter(const Pairs<T>& pairs, bool lanes_are_rows, Fold fold = Fold::none)
      : pairs_(pairs),
        program_(*pairs.program),
        lanes_(lanes_are_rows ? *pairs.rows : *pairs.cols),
        across_(lanes_are_rows ? *pairs.cols : *pairs.rows),
        lanes_are_rows_(lanes_are_rows),
        fold_(fold),
        width_(tile_width(pairs)),
        storage_(program_.registers * width_ * W),
        across_values_(width_) {
    for (const Instruction& line : program_.code)
      if (is_wide(pairs, line)) wide_.push_back({&line, {}});
  }

  std::int64_t width() const { return width_; }
  const Pairs<T>& pairs() const { return pairs_; }
  const Side<T>& lanes() const { return lanes_; }
  const Side<T>& across() const { return across_; }

  // Evaluates the program for panel `panel` of the lanes' side and `count` points of the other side
  // from `first` on, a multiple of W. Padding beyond `count` and beyond the side holds anything.
  void run(std::int64_t panel, std::int64_t first, std::int64_t count) {
    panel_ = panel;
    first_ = first;
    count_ = count;
    padded_ = round_up(count, kAcross);
    for (const Instruction& line : program_.code) run_line(line);
  }

  // Runs panels one after another, each against `count(panel)` points; `use()` is called after
  // each. False, and no more panels, once `keep_going(panels)`, asked after every bit of work of
  // about so many, says so.
  template <class Count, class KeepGoing, class Use>
  bool run_panels(std::int64_t panel, std::int64_t end, std::int64_t first, Count count,
                  KeepGoing keep_going, Use use) {
    while (panel < end) {
      const std::int64_t next = wide_.empty() ? end : std::min(end, panel + kPanelsAhead);
      if (!wide_.empty() && !look_ahead(panel, next, first, count, keep_going)) return false;
      for (; panel < next; ++panel) {
        run(panel, first, count(panel));
        use();
        if (!keep_going(1.0)) return false;
      }
    }
    ahead_end_ = 0;
    return true;
  }

  // The tile that was run last.
  std::int64_t panel() const { return panel_; }
  std::int64_t first() const { return first_; }
  std::int64_t count() const { return count_; }
  std::int64_t padded() const { return padded_; }
  std::int64_t size() const { return padded_ * W; }
  std::int64_t lane_count() const {
    const std::int64_t left = lanes_.n - panel_ * W;
    return left < W ? left : W;
  }
  bool is_partial() const { return lane_count() < W || padded_ != count_; }
  T* tile(std::int32_t index) { return registers()[index]; }
  // Has a register's tile made in the given memory, which holds all that `run` writes.
  void place(std::int32_t index, T* memory) { moved_ = index, place_ = memory; }

  // Replaces the padding of a tile by zeros, so that sums over it are right.
  void clear_padding(T* values) const {
    const std::int64_t lanes = lane_count();
    if (lanes < W)
      for (std::int64_t j = 0; j < count_; ++j)
        for (std::int64_t lane = lanes; lane < W; ++lane) values[j * W + lane] = T(0);
    for (std::int64_t i = count_ * W; i < padded_ * W; ++i) values[i] = T(0);
  }

  // Whether the tile holds pairs of a point with itself; lanes are rows.
  bool meets_diagonal() const { return first_ < (panel_ + 1) * W; }

  // Drops pairs with column < row, which their mirror images stand for, and halves the diagonal.
  void fold_diagonal(T* values) const {
    for (std::int64_t j = 0; j < count_; ++j)
      for (std::int64_t lane = 0; lane < W; ++lane) {
        const std::int64_t row = panel_ * W + lane, column = first_ + j;
        if (column < row) values[j * W + lane] = T(0);
        if (column == row) values[j * W + lane] *= T(0.5);
      }
  }

  const T* lane_panel(std::int32_t slot) const {
    const Slot<T>& s = lanes_.slots[static_cast<std::size_t>(slot)];
    return s.panels + panel_ * s.columns * W;
  }
  const T* across_panel(std::int32_t slot) const {
    const Slot<T>& s = across_.slots[static_cast<std::size_t>(slot)];
    return s.panels + first_ / W * s.columns * W;
  }
  std::int64_t columns(std::int32_t slot) const {
    return lanes_.slots[static_cast<std::size_t>(slot)].columns;
  }

  // Runs a sub-program for column k of a slot; `seed` may be null if it has none.
  void run_column(const SubProgram& sub, std::int32_t slot, std::int64_t k, const T* seed) {
    column_registers_.reserve(sub.registers * width_ * W);
    const Registers<T> registers{column_registers_.data(), width_ * W};
    for (const Instruction& line : sub.code) run_column_line(line, registers, slot, k, seed);
  }
  T* column_tile(std::int32_t index) { return column_registers_.data() + index * width_ * W; }

  // Scratch of an adjoint, kept from tile to tile.
  AlignedBuffer<T>& scratch() { return scratch_; }

 private:
  // An instruction over many columns, and its tiles for the panels from ahead_ to ahead_end_.
  struct Wide {
    const Instruction* line;
    AlignedBuffer<T> tiles;
  };

  template <class Count, class KeepGoing>
  bool look_ahead(std::int64_t panel, std::int64_t end, std::int64_t first, Count count,
                  KeepGoing keep_going) {
    ahead_ = panel, ahead_end_ = end, first_ = first;
    for (Wide& wide : wide_) {
      const std::int64_t all = columns(wide.line->a);
      wide.tiles.reserve(kPanelsAhead * width_ * W);
      for (std::int64_t k = 0; k < all; k += kDepth) {
        for (panel_ = ahead_; panel_ < end; ++panel_) {
          padded_ = round_up(count(panel_), kAcross);
          run_pass(*wide.line, k, wide.tiles.data() + (panel_ - ahead_) * width_ * W);
        }
        const auto share = static_cast<double>(kDepth) / static_cast<double>(all);
        if (!keep_going(share * static_cast<double>(end - ahead_))) return false;
      }
    }
    return true;
  }

  void run_pass(const Instruction& line, std::int64_t k, T* dst) {
    const T *lanes = lane_panel(line.a), *across = across_panel(line.a);
    const std::int64_t all = columns(line.a);
    if (line.op == Op::dot) return deep_pass<T, Metric::dot>(lanes, across, all, k, padded_, dst);
    if (line.op == Op::manhattan)
      return deep_pass<T, Metric::manhattan>(lanes, across, all, k, padded_, dst);
    deep_pass<T, Metric::squared_distance>(lanes, across, all, k, padded_, dst);
  }

  bool take_ahead(const Instruction& line, T* dst) const {
    for (const Wide& wide : wide_)
      if (wide.line == &line && panel_ < ahead_end_) {
        std::memcpy(dst, wide.tiles.data() + (panel_ - ahead_) * width_ * W,
                    static_cast<std::size_t>(size()) * sizeof(T));
        return true;
      }
    return false;
  }

  void run_line(const Instruction& line) {
    T* dst = tile(line.dst);
    switch (line.op) {
      case Op::dot:
        return run_metric<Metric::dot>(line, dst);
      case Op::squared_distance:
        return run_metric<Metric::squared_distance>(line, dst);
      case Op::manhattan:
        return run_metric<Metric::manhattan>(line, dst);
      case Op::sparse_dot:
        return run_sparse(line.a, dst);
      case Op::bit_dot:
        return bits_tile<T>(lane_panel(line.a), across_panel(line.a), columns(line.a), padded_,
                            dst);
      case Op::coordinate:
        return reduce_columns(program_.coordinates[static_cast<std::size_t>(line.b)], line.a,
                              line.c, dst);
      case Op::row:
        return run_vector(*pairs_.rows, lanes_are_rows_, line.a, dst);
      case Op::column:
        return run_vector(*pairs_.cols, !lanes_are_rows_, line.a, dst);
      case Op::identity:
        return run_identity(dst);
      case Op::block:
        return run_block(pairs_.blocks[static_cast<std::size_t>(line.a)], dst);
      default:
        return run_elementwise<T>(line, registers(), size(), pairs_.scalars.data(),
                                  program_.tables.data());
    }
  }

  Registers<T> registers() { return {storage_.data(), width_ * W, moved_, place_}; }

  template <Metric metric>
  void run_metric(const Instruction& line, T* dst) {
    if (ahead_end_ > 0 && take_ahead(line, dst)) return;
    metric_tile<T, metric>(lane_panel(line.a), across_panel(line.a), columns(line.a), padded_, dst);
  }

  void run_sparse(std::int32_t slot, T* dst) {
    const Slot<T>& lanes = lanes_.slots[static_cast<std::size_t>(slot)];
    if (dense_.size() < lanes.columns * W) {
      dense_ = AlignedBuffer<T>(lanes.columns * W);
      dense_.fill(T(0));
    }
    sparse_tile<T>(lanes, panel_ * W, lane_count(), across_.slots[static_cast<std::size_t>(slot)],
                   first_, count_, dense_.data(), dst);
    for (std::int64_t i = count_ * W; i < size(); ++i) dst[i] = T(0);
  }

  void run_vector(const Side<T>& side, bool along_lanes, std::int32_t index, T* dst) {
    const T* values = side.vectors[static_cast<std::size_t>(index)].data();
    if (along_lanes) {
      spread_lanes<T>(values + panel_ * W, padded_, dst);
    } else {
      spread_across<T>(values + first_, padded_, dst);
    }
  }

  void run_identity(T* dst) {
    if (lanes_.ids.size() == 0 || across_.ids.size() == 0) {
      std::memset(dst, 0, static_cast<std::size_t>(size()) * sizeof(T));
    } else {
      identity_tile<T>(lanes_.ids.data() + panel_ * W, across_.ids.data() + first_, padded_, dst);
    }
  }

  void run_block(const Block<T>& block, T* dst) {
    const std::int64_t lane_stride = lanes_are_rows_ ? block.stride : 1;
    const std::int64_t across_stride = lanes_are_rows_ ? 1 : block.stride;
    const T* corner = block.data + panel_ * W * lane_stride + first_ * across_stride;
    if (fold_ == Fold::lower)
      std::memset(dst, 0, static_cast<std::size_t>(size()) * sizeof(T));
    else
      block_tile<T>(corner, lane_stride, across_stride, lane_count(), count_, padded_, dst);
    if (fold_ != Fold::none)
      add_mirrored_block<T>(block.data + first_ * block.stride + panel_ * W, block.stride,
                            lane_count(), count_, dst);
  }

  void run_column_line(const Instruction& line, Registers<T> registers, std::int32_t slot,
                       std::int64_t k, const T* seed) {
    T* dst = registers[line.dst];
    switch (line.op) {
      case Op::x:
      case Op::z:
        if ((line.op == Op::x) == lanes_are_rows_)
          return spread_lanes<T>(lane_panel(slot) + k * W, padded_, dst);
        return spread_across<T>(across_column(slot, k), padded_, dst);
      case Op::difference:
        return run_difference(lane_panel(slot) + k * W, across_column(slot, k), dst);
      case Op::weight: {
        const Vec<T> value =
            broadcast<T>(static_cast<T>(pairs_.scalars[static_cast<std::size_t>(line.s0 + k)]));
        return map<T>(size(), dst, dst, [value](Vec<T>) { return value; });
      }
      case Op::seed:
        if (seed != nullptr)  // always so: only adjoints run sub-programs with a seed
          std::memcpy(dst, seed, static_cast<std::size_t>(size()) * sizeof(T));
        return;
      default:
        return run_elementwise<T>(line, registers, size(), pairs_.scalars.data(),
                                  program_.tables.data());
    }
  }

  void run_difference(const T* lane_values, const T* across_values, T* dst) {
    constexpr int L = kLanes<T>;
    for (std::int64_t j = 0; j < padded_; ++j) {
      const Vec<T> other = broadcast<T>(across_values[j]);
      for (int v = 0; v < W; v += L) {
        const Vec<T> own = load<T>(lane_values + v);
        store<T>(dst + j * W + v, lanes_are_rows_ ? own - other : other - own);
      }
    }
  }

  // Column k of the tile's across points, gathered from their panels.
  const T* across_column(std::int32_t slot, std::int64_t k) {
    const T* panel = across_panel(slot) + k * W;
    for (std::int64_t j = 0; j < padded_; j += W, panel += columns(slot) * W)
      std::memcpy(across_values_.data() + j, panel, static_cast<std::size_t>(W) * sizeof(T));
    return across_values_.data();
  }

  // Product (0), or elementary symmetric polynomial of degree `reduction`, of the values of all
  // columns: E_m += v E_{m-1}, from the highest degree down, with E_0 = 1.
  void reduce_columns(const SubProgram& sub, std::int32_t slot, std::int32_t reduction, T* dst) {
    const std::int64_t stride = width_ * W, n = size();
    const std::int64_t lower = reduction_states(reduction);
    states_.reserve(lower * stride);
    for (std::int64_t m = 0; m < lower; ++m)
      std::memset(states_.data() + m * stride, 0, static_cast<std::size_t>(n) * sizeof(T));
    const T start = reduction == 0 ? T(1) : T(0);
    for (std::int64_t i = 0; i < n; ++i) dst[i] = start;
    for (std::int64_t k = 0; k < columns(slot); ++k) {
      run_column(sub, slot, k, nullptr);
      const T* value = column_tile(sub.result);
      if (reduction == 0) {
        map<T>(n, dst, dst, value, [](Vec<T> p, Vec<T> v) { return p * v; });
        continue;
      }
      for (std::int64_t m = lower; m >= 0; --m) {
        T* state = m == lower ? dst : states_.data() + m * stride;
        add_product(n, state, m == 0 ? nullptr : states_.data() + (m - 1) * stride, value);
      }
    }
  }

  // state += value * below, where a missing `below` is 1.
  static void add_product(std::int64_t n, T* state, const T* below, const T* value) {
    if (below == nullptr) {
      map<T>(n, state, state, value, [](Vec<T> p, Vec<T> v) { return p + v; });
    } else {
      map<T>(n, state, state, below, value, [](Vec<T> p, Vec<T> e, Vec<T> v) { return p + e * v; });
    }
  }

  const Pairs<T>& pairs_;
  const Program& program_;
  const Side<T>& lanes_;
  const Side<T>& across_;
  bool lanes_are_rows_;
  Fold fold_;
  std::int64_t width_;
  AlignedBuffer<T> storage_;
  std::int32_t moved_ = -1;
  T* place_ = nullptr;
  AlignedBuffer<T> across_values_;
  AlignedBuffer<T> column_registers_;
  AlignedBuffer<T> states_;
  AlignedBuffer<T> dense_;
  AlignedBuffer<T> scratch_;
  std::vector<Wide> wide_;
  std::int64_t ahead_ = 0, ahead_end_ = 0;
  std::int64_t panel_ = 0, first_ = 0, count_ = 0, padded_ = 0;
};

}  // namespace mercer::MERCER_ISA
