#include "program.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace mercer {

namespace {

[[noreturn]] void fail(const std::string& sentence) {
  throw std::invalid_argument("Program: " + sentence);
}

std::string where(std::size_t line, Op op) {
  return "instruction " + std::to_string(line) + " (" + info(op).name + ")";
}

void check_register(std::int32_t reg, std::int32_t registers, const std::string& place) {
  if (reg < 0 || reg >= registers)
    fail(place + " names register " + std::to_string(reg) + ", but there are " +
         std::to_string(registers) + ".");
}

void check_table(const Instruction& line, std::size_t tables, const std::string& place) {
  if (line.b < 0 || static_cast<std::size_t>(line.b) >= tables)
    fail(place + " names table " + std::to_string(line.b) + ", but there are " +
         std::to_string(tables) + ".");
}

// Checks registers, scalars and tables of straight-line code; returns which registers it writes.
std::vector<bool> check_code(const std::vector<Instruction>& code, std::int32_t registers,
                             std::size_t tables, Scope scope) {
  if (registers < 1 || registers > 4096)
    fail("the number of registers must lie in 1..4096, got " + std::to_string(registers) + ".");
  std::vector<bool> written(static_cast<std::size_t>(registers), false);
  for (std::size_t i = 0; i < code.size(); ++i) {
    const Instruction& line = code[i];
    const OpInfo& op = info(line.op);
    const std::string place = where(i, line.op);
    if (op.scope != Scope::anywhere && op.scope != scope)
      fail(place + (scope == Scope::pair ? " belongs in a coordinate sub-program."
                                         : " does not belong in a coordinate sub-program."));
    check_register(line.dst, registers, place);
    const std::int32_t sources[] = {line.a, line.b, line.c};
    for (int s = 0; s < op.operands; ++s) {
      check_register(sources[s], registers, place);
      if (!written[static_cast<std::size_t>(sources[s])])
        fail(place + " reads register " + std::to_string(sources[s]) + " before it is written.");
    }
    if ((op.scalars >= 1 && line.s0 < 0) || (op.scalars >= 2 && line.s1 < 0))
      fail(place + " names a negative scalar.");
    if (op.table) check_table(line, tables, place);
    written[static_cast<std::size_t>(line.dst)] = true;
  }
  return written;
}

}  // namespace

const std::vector<OpInfo>& operations() {
  using enum Scope;
  // Never destroyed: a daemon thread may run a program while the process ends.
  static const std::vector<OpInfo>& table = *new std::vector<OpInfo>{
      {Op::dot, "dot", pair, 0, 0, false, 0},
      {Op::squared_distance, "squared_distance", pair, 0, 0, false, 0},
      {Op::manhattan, "manhattan", pair, 0, 0, false, 0},
      {Op::sparse_dot, "sparse_dot", pair, 0, 0, false, 0},
      {Op::bit_dot, "bit_dot", pair, 0, 0, false, 0},
      {Op::coordinate, "coordinate", pair, 0, 0, false, 0},
      {Op::row, "row", pair, 0, 0, false, 1},
      {Op::column, "column", pair, 0, 0, false, 1},
      {Op::identity, "identity", pair, 0, 0, false, 2},
      {Op::block, "block", pair, 0, 0, false, 2},
      {Op::fill, "fill", anywhere, 0, 1, false, 1},
      {Op::x, "x", Scope::column, 0, 0, false, 1},
      {Op::z, "z", Scope::column, 0, 0, false, 1},
      {Op::difference, "difference", Scope::column, 0, 0, false, 1},
      {Op::seed, "seed", Scope::column, 0, 0, false, 1},
      {Op::weight, "weight", Scope::column, 0, 1, false, 1},
      {Op::affine, "affine", anywhere, 1, 2, false, 2},
      {Op::add, "add", anywhere, 2, 0, false, 2},
      {Op::sub, "sub", anywhere, 2, 0, false, 2},
      {Op::mul, "mul", anywhere, 2, 0, false, 2},
      {Op::div, "div", anywhere, 2, 0, false, 5},
      {Op::axpy, "axpy", anywhere, 2, 1, false, 2},
      {Op::fma, "fma", anywhere, 3, 1, false, 3},
      {Op::reciprocal, "reciprocal", anywhere, 1, 1, false, 5},
      {Op::exp, "exp", anywhere, 1, 1, false, 16},
      {Op::decay, "decay", anywhere, 1, 0, false, 12},
      {Op::expm1, "expm1", anywhere, 1, 0, false, 30},
      {Op::sinh, "sinh", anywhere, 1, 0, false, 60},
      {Op::cosh, "cosh", anywhere, 1, 0, false, 25},
      {Op::log, "log", anywhere, 1, 0, false, 25},
      {Op::log1p, "log1p", anywhere, 1, 0, false, 30},
      {Op::sqrt, "sqrt", anywhere, 1, 0, false, 8},
      {Op::sin, "sin", anywhere, 1, 0, false, 40},
      {Op::cos, "cos", anywhere, 1, 0, false, 40},
      {Op::tanh, "tanh", anywhere, 1, 0, false, 40},
      {Op::arctan2, "arctan2", anywhere, 2, 0, false, 40},
      {Op::abs, "abs", anywhere, 1, 0, false, 2},
      {Op::sign, "sign", anywhere, 1, 0, false, 3},
      {Op::min, "min", anywhere, 2, 0, false, 3},
      {Op::max, "max", anywhere, 2, 0, false, 3},
      {Op::at_most, "at_most", anywhere, 1, 1, false, 2},
      {Op::at_least, "at_least", anywhere, 1, 1, false, 2},
      {Op::power, "power", anywhere, 1, 1, false, 60},
      {Op::pow, "pow", anywhere, 2, 0, false, 60},
      {Op::less, "less", anywhere, 2, 0, false, 2},
      {Op::equal, "equal", anywhere, 2, 0, false, 2},
      {Op::where, "where", anywhere, 3, 0, false, 3},
      {Op::lookup, "lookup", anywhere, 1, 0, true, 60},
      {Op::lookup_slope, "lookup_slope", anywhere, 1, 0, true, 60},
  };
  return table;
}

const OpInfo& info(Op op) { return operations()[static_cast<std::size_t>(op)]; }

std::vector<Instruction> parse_code(const std::int32_t* rows, std::int64_t count) {
  std::vector<Instruction> code;
  code.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t* r = rows + 7 * i;
    if (r[0] < 0 || static_cast<std::size_t>(r[0]) >= operations().size())
      fail("instruction " + std::to_string(i) + " has the unknown opcode " + std::to_string(r[0]) +
           ".");
    code.push_back({static_cast<Op>(r[0]), r[1], r[2], r[3], r[4], r[5], r[6]});
  }
  return code;
}

LookupTable::LookupTable(const std::vector<double>& packed) {
  const auto integer = [&](std::size_t i, double low, double high, const char* what) {
    const double value = packed[i];
    if (!(value >= low && value <= high) || value != std::floor(value))
      fail(std::string("a lookup table has the ") + what + " " + std::to_string(value) + ".");
    return static_cast<std::int64_t>(value);
  };
  if (packed.size() < 5) fail("a lookup table needs five leading numbers.");
  first_exponent = integer(0, -1000, 1023, "first exponent");
  octaves = integer(1, 1, 2046, "number of octaves");
  subdivision_bits = static_cast<int>(integer(2, 0, 20, "number of subdivision bits"));
  degree = static_cast<int>(integer(3, 0, 64, "degree"));
  value_at_zero = packed[4];
  const std::int64_t intervals = octaves << subdivision_bits;
  const std::int64_t given = static_cast<std::int64_t>(packed.size()) - 5;
  if (given != intervals * (degree + 1))
    fail("a lookup table has " + std::to_string(given) + " coefficients instead of " +
         std::to_string(intervals * (degree + 1)) + ".");
  row = (degree + kRowMultiple) / kRowMultiple * kRowMultiple;
  coefficients.assign(static_cast<std::size_t>(intervals * row), 0.0);
  for (std::int64_t i = 0; i < intervals; ++i)
    std::copy_n(packed.begin() + 5 + i * (degree + 1), degree + 1, coefficients.begin() + i * row);
}

SubProgram::SubProgram(std::vector<Instruction> instructions, std::int32_t register_count,
                       std::int32_t result_register, std::size_t tables)
    : code(std::move(instructions)),
      registers(register_count),
      result(result_register),
      written(check_code(code, registers, tables, Scope::column)),
      uses_seed(false) {
  check_register(result, registers, "the result of a sub-program");
  if (!written[static_cast<std::size_t>(result)])
    fail("the result of a sub-program, register " + std::to_string(result) + ", is not written.");
  for (const Instruction& line : code) uses_seed = uses_seed || line.op == Op::seed;
}

Program::Program(std::vector<Instruction> instructions, std::int32_t register_count,
                 std::vector<SubProgram> sub_programs, std::vector<LookupTable> lookup_tables)
    : code(std::move(instructions)),
      registers(register_count),
      coordinates(std::move(sub_programs)),
      tables(std::move(lookup_tables)),
      written(check_code(code, registers, tables.size(), Scope::pair)) {
  for (std::size_t i = 0; i < code.size(); ++i) {
    const Instruction& line = code[i];
    if (line.op != Op::coordinate) continue;
    const std::string place = where(i, line.op);
    if (line.b < 0 || static_cast<std::size_t>(line.b) >= coordinates.size())
      fail(place + " names sub-program " + std::to_string(line.b) + ", but there are " +
           std::to_string(coordinates.size()) + ".");
    if (coordinates[static_cast<std::size_t>(line.b)].uses_seed)
      fail(place + " runs a sub-program with a seed; only adjoints have one.");
    if (line.c < 0 || line.c > kMaxDegree)
      fail(place + ": the degree of the reduction must lie in 0.." + std::to_string(kMaxDegree) +
           ", got " + std::to_string(line.c) + ".");
  }
}

void Program::check_result(std::int32_t reg, const char* owner) const {
  if (reg < 0 || reg >= registers || !written[static_cast<std::size_t>(reg)])
    throw std::invalid_argument(std::string(owner) + ": register " + std::to_string(reg) +
                                " is not written by the program.");
}

}  // namespace mercer
