// Contractions of a program's registers: sums, and derivatives with respect to inputs and scales.
#pragma once

#include <memory>
#include <vector>

#include "adjoint.hpp"
#include "reduce.hpp"
#include "weighted.hpp"

namespace mercer::MERCER_ISA {

// sum_ij R_ij
template <class T>
class Sum final : public Reduction<T> {
 public:
  explicit Sum(const Output& output) : output_(output) {}
  std::int64_t partial_size(std::int64_t, std::int64_t) const override { return 1; }
  bool owns_rows() const override { return false; }
  std::int32_t source() const override { return output_.reg; }
  void add(Interpreter<T>& tile, const Unit&, double* partial) const override {
    *partial += tile_sum<T>(tile.tile(output_.reg), tile.size());
  }
  void combine(const Unit&, const double* partial) override { *output_.target += *partial; }

 private:
  const Output& output_;
};

// sum_j R_ij
template <class T>
class RowSums final : public Reduction<T> {
 public:
  RowSums(const Output& output, std::int64_t rows) : output_(output), rows_(rows) {}
  std::int64_t partial_size(std::int64_t panels, std::int64_t) const override {
    return panels * kPanel<T>;
  }
  bool owns_rows() const override { return true; }
  std::int32_t source() const override { return output_.reg; }
  void add(Interpreter<T>& tile, const Unit& unit, double* partial) const override {
    add_row_sums<T>(tile.tile(output_.reg), tile.padded(),
                    partial + (tile.panel() - unit.first_panel) * kPanel<T>);
  }
  void combine(const Unit& unit, const double* partial) override {
    const std::int64_t first = unit.first_panel * kPanel<T>;
    const std::int64_t end = std::min(unit.end_panel * kPanel<T>, rows_);
    for (std::int64_t i = first; i < end; ++i) output_.target[i] += partial[i - first];
  }

 private:
  const Output& output_;
  std::int64_t rows_;
};

// sum_i R_ij
template <class T>
class ColumnSums final : public Reduction<T> {
 public:
  explicit ColumnSums(const Output& output) : output_(output) {}
  std::int64_t partial_size(std::int64_t, std::int64_t columns) const override { return columns; }
  bool owns_rows() const override { return false; }
  bool grows_with_columns() const override { return true; }
  std::int32_t source() const override { return output_.reg; }
  void add(Interpreter<T>& tile, const Unit& unit, double* partial) const override {
    const T* values = tile.tile(output_.reg);
    for (std::int64_t j = 0; j < tile.count(); ++j)
      partial[tile.first() - unit.first_column + j] +=
          static_cast<double>(tile_row_sum<T>(values + j * kPanel<T>));
  }
  void combine(const Unit& unit, const double* partial) override {
    for (std::int64_t j = unit.first_column; j < unit.end_column; ++j)
      output_.target[j] += partial[j - unit.first_column];
  }

 private:
  const Output& output_;
};

template <class T>
std::unique_ptr<Reduction<T>> make_reduction(const Pairs<T>& pairs, const Output& output) {
  switch (output.kind) {
    case OutputKind::sum:
      return std::make_unique<Sum<T>>(output);
    case OutputKind::row_sums:
      return std::make_unique<RowSums<T>>(output, pairs.rows->n);
    case OutputKind::column_sums:
      return std::make_unique<ColumnSums<T>>(output);
    case OutputKind::dot_inputs:
      return std::make_unique<WeightedInputs<T, Weighting::points>>(pairs, output);
    case OutputKind::distance_inputs:
      return std::make_unique<WeightedInputs<T, Weighting::differences>>(pairs, output);
    case OutputKind::distance_scales:
      return std::make_unique<WeightedScales<T>>(pairs, output);
    case OutputKind::coordinate_adjoint:
      break;
  }
  return std::make_unique<CoordinateAdjoint<T>>(pairs, output);
}

template <class T>
double output_cost(const Pairs<T>& pairs, const Output& output) {
  if (output.kind <= OutputKind::column_sums) return 2.0;
  const auto columns =
      static_cast<double>(pairs.rows->slots[static_cast<std::size_t>(output.slot)].columns);
  if (output.kind != OutputKind::coordinate_adjoint) return 3.0 * columns;
  double cost = 4.0 + output.reduction;
  for (const Instruction& line :
       pairs.program->coordinates[static_cast<std::size_t>(output.subprogram)].code)
    cost += 1 + info(line.op).cost;
  return 2.0 * cost * columns;
}

template <class T>
void run_contract(const ContractJob<T>& job) {
  std::vector<std::unique_ptr<Reduction<T>>> owned;
  std::vector<Reduction<T>*> reductions;
  double cost = 0.0;
  for (const Output& output : job.outputs) {
    owned.push_back(make_reduction(job.pairs, output));
    reductions.push_back(owned.back().get());
    cost += output_cost(job.pairs, output);
  }
  ReductionLoop<T>(job.pairs, reductions.data(), static_cast<std::int64_t>(reductions.size()), cost,
                   job.fold)
      .run();
}

}  // namespace mercer::MERCER_ISA
