// Checks of a call against its data: after these no instruction can leave its arrays.
#include <stdexcept>
#include <string>

#include "engine.hpp"

namespace mercer {

namespace {

void require(bool condition, const std::string& sentence) {
  if (!condition) throw std::invalid_argument(sentence);
}

bool in_range(std::int32_t index, std::size_t size) {
  return index >= 0 && static_cast<std::size_t>(index) < size;
}

template <class T>
void check_slot(const Pairs<T>& pairs, std::int32_t slot, Layout layout, const std::string& owner) {
  const char* names[] = {"dense", "sparse", "bits"};
  for (const Side<T>* side : {pairs.rows, pairs.cols}) {
    require(in_range(slot, side->slots.size()), owner + " needs slot " + std::to_string(slot) +
                                                    ", but a side has " +
                                                    std::to_string(side->slots.size()) + ".");
    require(side->slots[static_cast<std::size_t>(slot)].layout == layout,
            owner + " needs slot " + std::to_string(slot) + " to be " +
                names[static_cast<int>(layout)] + " on both sides.");
  }
  const std::int64_t x = pairs.rows->slots[static_cast<std::size_t>(slot)].columns;
  const std::int64_t z = pairs.cols->slots[static_cast<std::size_t>(slot)].columns;
  require(x == z, owner + ": slot " + std::to_string(slot) + " has " + std::to_string(x) +
                      " columns on the rows' side and " + std::to_string(z) +
                      " on the columns' side.");
}

void check_scalars(const std::vector<Instruction>& code, std::size_t scalars) {
  for (const Instruction& line : code) {
    const OpInfo& op = info(line.op);
    require((op.scalars < 1 || in_range(line.s0, scalars)) &&
                (op.scalars < 2 || in_range(line.s1, scalars)),
            std::string(op.name) + " names a scalar outside the " + std::to_string(scalars) +
                " given.");
  }
}

// A weight has a scalar for each column that its sub-program runs over, one after the other.
template <class T>
void check_weights(const Pairs<T>& pairs, std::int32_t slot, std::int32_t sub) {
  const std::int64_t columns = pairs.cols->slots[static_cast<std::size_t>(slot)].columns;
  for (const Instruction& line : pairs.program->coordinates[static_cast<std::size_t>(sub)].code)
    require(line.op != Op::weight ||
                line.s0 + columns <= static_cast<std::int64_t>(pairs.scalars.size()),
            "weight: there are fewer scalars than the " + std::to_string(columns) + " columns.");
}

template <class T>
void check_instruction(const Pairs<T>& pairs, const Instruction& line) {
  const std::string name = info(line.op).name;
  switch (line.op) {
    case Op::dot:
    case Op::squared_distance:
    case Op::manhattan:
      check_slot(pairs, line.a, Layout::dense, name);
      break;
    case Op::coordinate:
      check_slot(pairs, line.a, Layout::dense, name);
      check_weights(pairs, line.a, line.b);
      break;
    case Op::sparse_dot:
      check_slot(pairs, line.a, Layout::sparse, name);
      break;
    case Op::bit_dot:
      check_slot(pairs, line.a, Layout::bits, name);
      break;
    case Op::row:
      require(in_range(line.a, pairs.rows->vectors.size()),
              "row: the rows' side has no vector " + std::to_string(line.a) + ".");
      break;
    case Op::column:
      require(in_range(line.a, pairs.cols->vectors.size()),
              "column: the columns' side has no vector " + std::to_string(line.a) + ".");
      break;
    case Op::block:
      require(in_range(line.a, pairs.blocks.size()),
              "block: there is no block " + std::to_string(line.a) + ".");
      break;
    default:
      break;
  }
}

}  // namespace

template <class T>
void check_pairs(const Pairs<T>& pairs) {
  require(pairs.rows->n > 0 && pairs.cols->n > 0, "a side has no points.");
  require(pairs.threads >= 1, "threads must be at least 1.");
  check_scalars(pairs.program->code, pairs.scalars.size());
  for (const SubProgram& sub : pairs.program->coordinates)
    check_scalars(sub.code, pairs.scalars.size());
  for (const Instruction& line : pairs.program->code) check_instruction(pairs, line);
}

// Only totals over all pairs of one collection can be had from half of the pairs.
template <class T>
void check_folded(const Pairs<T>& pairs, const Output& output) {
  const bool is_total = output.kind == OutputKind::sum ||
                        output.kind == OutputKind::distance_scales ||
                        (output.kind == OutputKind::coordinate_adjoint && output.input_reg == -1);
  require(is_total, "contract: results for single rows or columns cannot be folded.");
  require(pairs.rows->n == pairs.cols->n, "contract: only a square can be folded.");
}

template <class T>
void check_output(const Pairs<T>& pairs, const Output& output, Fold fold) {
  pairs.program->check_result(output.reg, "contract");
  if (fold != Fold::none) check_folded(pairs, output);
  switch (output.kind) {
    case OutputKind::sum:
    case OutputKind::row_sums:
    case OutputKind::column_sums:
      return;
    case OutputKind::dot_inputs:
    case OutputKind::distance_inputs:
    case OutputKind::distance_scales:
      check_slot(pairs, output.slot, Layout::dense, "contract");
      return;
    case OutputKind::coordinate_adjoint:
      break;
  }
  check_slot(pairs, output.slot, Layout::dense, "coordinate_adjoint");
  require(in_range(output.subprogram, pairs.program->coordinates.size()),
          "coordinate_adjoint: there is no sub-program " + std::to_string(output.subprogram) + ".");
  require(output.reduction >= 0 && output.reduction <= kMaxDegree,
          "coordinate_adjoint: the degree of the reduction must lie in 0.." +
              std::to_string(kMaxDegree) + ".");
  check_weights(pairs, output.slot, output.subprogram);
  const SubProgram& sub = pairs.program->coordinates[static_cast<std::size_t>(output.subprogram)];
  const auto check_register = [&](std::int32_t reg) {
    require(in_range(reg, sub.written.size()) && sub.written[static_cast<std::size_t>(reg)],
            "coordinate_adjoint: register " + std::to_string(reg) +
                " is not written by the sub-program.");
  };
  check_register(output.value_reg);
  if (output.input_reg != -1) check_register(output.input_reg);
  if (output.scale_reg != -1) check_register(output.scale_reg);
  for (const std::int32_t reg : output.param_regs) check_register(reg);
}

template <class T>
void check_hadamard(const HadamardJob<T>& job) {
  constexpr std::int64_t largest = std::int64_t{1} << 40;
  require(job.size >= 1 && job.size <= largest && (job.size & (job.size - 1)) == 0,
          "hadamard: the size " + std::to_string(job.size) + " is not a power of two up to 2^40.");
  require(job.x.columns <= job.size, "hadamard: X has more columns than a transform takes.");
  require(job.stages >= 1, "hadamard: there must be at least one stage.");
  require(job.blocks >= 1 && job.blocks <= kMaxPoints / job.size &&
              job.width > (job.blocks - 1) * job.size && job.width <= job.blocks * job.size,
          "hadamard: the width of the output must end in the last block.");
  if (job.permutations == nullptr) return;
  for (std::int64_t j = 0; j < job.blocks * job.size; ++j)
    require(job.permutations[j] >= 0 && job.permutations[j] < job.size,
            "hadamard: a permutation leaves its block.");
}

void check_rows(const std::int64_t* rows, std::int64_t count, std::int64_t available) {
  for (std::int64_t k = 0; k < count; ++k)
    require(rows[k] >= 0 && rows[k] < available,
            "rows: there is no row " + std::to_string(rows[k]) + " in the matrix.");
}

template void check_pairs(const Pairs<float>&);
template void check_pairs(const Pairs<double>&);
template void check_output(const Pairs<float>&, const Output&, Fold);
template void check_output(const Pairs<double>&, const Output&, Fold);
template void check_hadamard(const HadamardJob<float>&);
template void check_hadamard(const HadamardJob<double>&);

}  // namespace mercer
