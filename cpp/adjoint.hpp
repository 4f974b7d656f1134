// Reverse mode through a reduction over columns (the instruction `coordinate`).
//
// Given the adjoint R of the reduced value, the adjoint of column k's value is
//   sum:         R
//   product:     R * (product of the values before k) * (product of those after k)
//   elementary:  by the recursion of the reduction run backwards.
// A first sweep over the columns keeps what the second, from the last column to the first, needs.
// No division by a value: columns that are zero have the right adjoint.
#pragma once

#include "weighted.hpp"

namespace mercer::MERCER_ISA {

// Accumulators: inputs [panel][column][lane] if wanted, then scales [column] if wanted, then
// params.
template <class T>
class CoordinateAdjoint final : public Reduction<T> {
 public:
  CoordinateAdjoint(const Pairs<T>& pairs, const Output& output)
      : output_(output),
        sub_(pairs.program->coordinates[static_cast<std::size_t>(output.subprogram)]),
        rows_(pairs.rows->n),
        columns_(pairs.rows->slots[static_cast<std::size_t>(output.slot)].columns),
        params_(static_cast<std::int64_t>(output.param_regs.size())) {}

  std::int64_t partial_size(std::int64_t panels, std::int64_t) const override {
    return inputs_size(panels) + scales_size() + params_;
  }
  bool owns_rows() const override { return false; }
  std::int32_t source() const override { return output_.reg; }

  void add(Interpreter<T>& tile, const Unit& unit, double* partial) const override {
    const Sweep sweep{tile, tile.size(), tile.width() * W, tile.tile(output_.reg)};
    // The accumulators of this tile's panel; scales and params follow those of all panels.
    double* inputs = partial + inputs_size(tile.panel() - unit.first_panel);
    double* totals = partial + inputs_size(unit_panels_);
    if (output_.reduction == 0) {
      product(sweep, inputs, totals);
    } else if (output_.reduction == 1) {
      for (std::int64_t k = 0; k < columns_; ++k) accumulate(sweep, k, sweep.R, inputs, totals);
    } else {
      elementary(sweep, inputs, totals);
    }
  }

  void prepare(const Grid& grid) override { unit_panels_ = grid.block; }

  void combine(const Unit& unit, const double* partial) override {
    if (output_.input_reg >= 0) {
      const std::int64_t end = std::min(unit.end_panel * W, rows_);
      for (std::int64_t i = unit.first_panel * W; i < end; ++i) {
        const double* sums = partial + inputs_size(i / W - unit.first_panel) + i % W;
        for (std::int64_t k = 0; k < columns_; ++k) output_.target[i * columns_ + k] += sums[k * W];
      }
    }
    const double* totals = partial + inputs_size(unit_panels_);
    for (std::int64_t k = 0; k < scales_size(); ++k) output_.scales[k] += totals[k];
    for (std::int64_t p = 0; p < params_; ++p) output_.params[p] += totals[scales_size() + p];
  }

 private:
  static constexpr std::int64_t W = kPanel<T>;
  struct Sweep {
    Interpreter<T>& tile;
    std::int64_t size;    // values in the tile
    std::int64_t stride;  // from one stored tile to the next
    const T* R;
  };

  std::int64_t inputs_size(std::int64_t panels) const {
    return output_.input_reg >= 0 ? panels * columns_ * W : 0;
  }
  std::int64_t scales_size() const { return output_.scale_reg >= 0 ? columns_ : 0; }

  static void copy(const Sweep& sweep, T* target, const T* source) {
    std::memcpy(target, source, static_cast<std::size_t>(sweep.size) * sizeof(T));
  }
  static void fill(const Sweep& sweep, T* target, T value) {
    for (std::int64_t i = 0; i < sweep.size; ++i) target[i] = value;
  }

  // Runs the sub-program for column k with its adjoint as seed and adds up what it yields.
  void accumulate(const Sweep& sweep, std::int64_t k, const T* seed, double* inputs,
                  double* totals) const {
    Interpreter<T>& tile = sweep.tile;
    tile.run_column(sub_, output_.slot, k, seed);
    if (output_.input_reg >= 0)
      add_row_sums<T>(cleared(tile, output_.input_reg), tile.padded(), inputs + k * W);
    if (output_.scale_reg >= 0)
      totals[k] += tile_sum<T>(cleared(tile, output_.scale_reg), sweep.size);
    for (std::int64_t p = 0; p < params_; ++p)
      totals[scales_size() + p] +=
          tile_sum<T>(cleared(tile, output_.param_regs[static_cast<std::size_t>(p)]), sweep.size);
  }

  // A zero seed is not enough in the padding: the sub-program may yield NaN there.
  static const T* cleared(Interpreter<T>& tile, std::int32_t reg) {
    T* values = tile.column_tile(reg);
    if (tile.is_partial()) tile.clear_padding(values);
    return values;
  }

  // Scratch: prefix products [column], then suffix, then the seed.
  void product(const Sweep& sweep, double* inputs, double* totals) const {
    AlignedBuffer<T>& scratch = sweep.tile.scratch();
    scratch.reserve((columns_ + 3) * sweep.stride);
    T* const prefix = scratch.data();
    T* const suffix = prefix + (columns_ + 1) * sweep.stride;
    T* const seed = suffix + sweep.stride;
    fill(sweep, prefix, T(1));
    for (std::int64_t k = 0; k < columns_; ++k) {
      sweep.tile.run_column(sub_, output_.slot, k, sweep.R);
      T* before = prefix + k * sweep.stride;
      map<T>(sweep.size, before + sweep.stride, before, sweep.tile.column_tile(output_.value_reg),
             [](Vec<T> p, Vec<T> v) { return p * v; });
    }
    copy(sweep, suffix, sweep.R);
    for (std::int64_t k = columns_ - 1; k >= 0; --k) {
      map<T>(sweep.size, seed, suffix, prefix + k * sweep.stride,
             [](Vec<T> s, Vec<T> p) { return s * p; });
      accumulate(sweep, k, seed, inputs, totals);
      map<T>(sweep.size, suffix, suffix, sweep.tile.column_tile(output_.value_reg),
             [](Vec<T> s, Vec<T> v) { return s * v; });
    }
  }

  // Scratch: states E_1..E_{D-1} before each column, then the adjoints of E_1..E_D, then the seed.
  void elementary(const Sweep& sweep, double* inputs, double* totals) const {
    const std::int64_t D = output_.reduction, stride = sweep.stride, lower = D - 1;
    AlignedBuffer<T>& scratch = sweep.tile.scratch();
    scratch.reserve(((columns_ + 1) * lower + D + 1) * stride);
    T* const states = scratch.data();
    T* const adjoints = states + (columns_ + 1) * lower * stride;
    T* const seed = adjoints + D * stride;
    for (std::int64_t m = 0; m < lower; ++m) fill(sweep, states + m * stride, T(0));
    for (std::int64_t k = 0; k < columns_; ++k) {
      sweep.tile.run_column(sub_, output_.slot, k, sweep.R);
      advance(sweep, states + k * lower * stride, states + (k + 1) * lower * stride, lower);
    }
    for (std::int64_t m = 0; m < D - 1; ++m) fill(sweep, adjoints + m * stride, T(0));
    copy(sweep, adjoints + (D - 1) * stride, sweep.R);
    for (std::int64_t k = columns_ - 1; k >= 0; --k) {
      // dE_m / dv = E_{m-1} before the column, with E_0 = 1.
      copy(sweep, seed, adjoints);
      for (std::int64_t m = 1; m < D; ++m)
        map<T>(sweep.size, seed, seed, adjoints + m * stride, states + (k * lower + m - 1) * stride,
               [](Vec<T> s, Vec<T> a, Vec<T> e) { return s + a * e; });
      accumulate(sweep, k, seed, inputs, totals);
      // dE_{m+1} / dE_m = v: upwards, so that each step reads the adjoint after the column.
      for (std::int64_t m = 0; m + 1 < D; ++m)
        map<T>(sweep.size, adjoints + m * stride, adjoints + m * stride,
               adjoints + (m + 1) * stride, sweep.tile.column_tile(output_.value_reg),
               [](Vec<T> a, Vec<T> above, Vec<T> v) { return a + above * v; });
    }
  }

  // after_m = before_m + v before_{m-1} for the states 1..lower.
  void advance(const Sweep& sweep, const T* before, T* after, std::int64_t lower) const {
    const T* value = sweep.tile.column_tile(output_.value_reg);
    if (lower > 0)
      map<T>(sweep.size, after, before, value, [](Vec<T> e, Vec<T> v) { return e + v; });
    for (std::int64_t m = 1; m < lower; ++m)
      map<T>(sweep.size, after + m * sweep.stride, before + m * sweep.stride,
             before + (m - 1) * sweep.stride, value,
             [](Vec<T> e, Vec<T> below, Vec<T> v) { return e + below * v; });
  }

  const Output& output_;
  const SubProgram& sub_;
  std::int64_t rows_, columns_, params_;
  std::int64_t unit_panels_ = 0;
};

}  // namespace mercer::MERCER_ISA
