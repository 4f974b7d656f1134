// A tile program: a list of instructions over tile registers, checked once when it is built.
//
// A program is data alone, the same for every element type and instruction set. After construction
// every register, table and sub-program it names exists, and every register is written before it is
// read; what depends on the data (slots, vectors, blocks, scalars) is checked by `check_pairs`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mercer {

enum class Op : std::int32_t {
  // Leaves of a pair program.
  dot,
  squared_distance,
  manhattan,
  sparse_dot,
  bit_dot,
  coordinate,
  row,
  column,
  identity,
  block,
  // A leaf anywhere.
  fill,
  // Leaves of a sub-program, for the current column.
  x,
  z,
  difference,
  seed,
  weight,
  // Element-wise.
  affine,
  add,
  sub,
  mul,
  div,
  axpy,
  fma,
  reciprocal,
  exp,
  decay,
  expm1,
  sinh,
  cosh,
  log,
  log1p,
  sqrt,
  sin,
  cos,
  tanh,
  arctan2,
  abs,
  sign,
  min,
  max,
  at_most,
  at_least,
  power,
  pow,
  less,
  equal,
  where,
  lookup,
  lookup_slope,
};

// Where an instruction may stand, and which of its fields mean registers, scalars and tables.
enum class Scope { pair, column, anywhere };
struct OpInfo {
  Op op;
  const char* name;
  Scope scope;
  int operands;  // registers read: the first of a, b, c
  int scalars;   // scalars read: the first of s0, s1
  bool table;    // b is a table
  int cost;      // rough vector operations per element, to decide about threads
};
const std::vector<OpInfo>& operations();
const OpInfo& info(Op op);

struct Instruction {
  Op op;
  std::int32_t dst, a, b, c, s0, s1;
};

// A piecewise polynomial over intervals of the binary exponent and leading mantissa bits.
struct LookupTable {
  explicit LookupTable(const std::vector<double>& packed);

  std::int64_t first_exponent;
  std::int64_t octaves;
  int subdivision_bits;
  int degree;
  double value_at_zero;
  // Rows of coefficients, lowest degree first, are padded with zeros to a multiple of a vector.
  static constexpr std::int64_t kRowMultiple = 4;
  std::int64_t row;
  std::vector<double> coefficients;  // [interval][row]
};

// A function of one coordinate of a pair. `result` is the register that a reduction reads.
struct SubProgram {
  SubProgram(std::vector<Instruction> code, std::int32_t registers, std::int32_t result,
             std::size_t tables);

  std::vector<Instruction> code;
  std::int32_t registers;
  std::int32_t result;
  std::vector<bool> written;
  bool uses_seed;
};

// Highest degree of the elementary symmetric polynomial that a reduction may ask for.
inline constexpr std::int32_t kMaxDegree = 1024;

struct Program {
  Program(std::vector<Instruction> code, std::int32_t registers,
          std::vector<SubProgram> coordinates, std::vector<LookupTable> tables);

  std::vector<Instruction> code;
  std::int32_t registers;
  std::vector<SubProgram> coordinates;
  std::vector<LookupTable> tables;
  std::vector<bool> written;

  // Throws std::invalid_argument unless `reg` holds a value after the program has run.
  void check_result(std::int32_t reg, const char* owner) const;
};

// Rows of seven integers [op, dst, a, b, c, s0, s1] -> instructions; unknown opcodes throw.
std::vector<Instruction> parse_code(const std::int32_t* rows, std::int64_t count);

}  // namespace mercer
