// Naive loops in float64, one pair at a time: the oracle of the engine's tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine.hpp"

namespace mercer::oracle {

inline int failures = 0;

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      ++::mercer::oracle::failures;                                             \
      std::printf("%s:%d: CHECK(%s) failed\n", __FILE__, __LINE__, #condition); \
    }                                                                           \
  } while (false)

template <class Error>
bool throws(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error&) {
    return true;
  }
  return false;
}

// ---------------------------------------------------------------------------------------------
// Data
// ---------------------------------------------------------------------------------------------

inline std::mt19937 generator(12345);

inline double draw(double low = -1.5, double high = 1.5) {
  return std::uniform_real_distribution<double>(low, high)(generator);
}

template <class T>
std::vector<T> draws(std::int64_t size) {
  std::vector<T> values(static_cast<std::size_t>(size));
  for (T& value : values) value = static_cast<T>(draw());
  return values;
}

// A side with a dense slot, a sparse slot and a slot of bits, one vector and identities, and what
// it was made of. The bits are the signs of the dense numbers.
template <class T>
struct Points {
  Points(std::int64_t n, std::int64_t d) : n(n), d(d), x(draws<T>(n * d)), packed(capacity(n) * d) {
    pack_panels<T>({x.data(), n, d, d, 1}, {n}, nullptr, nullptr, packed.data());
    side.n = n;
    side.slots.push_back({d, packed.data(), Layout::dense, nullptr, nullptr, nullptr});
    indptr.push_back(0);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t k = 0; k < d; k += 1 + static_cast<std::int64_t>(draw(0, 3))) {
        indices.push_back(k);
        values.push_back(static_cast<T>(draw()));
      }
      indptr.push_back(static_cast<std::int64_t>(indices.size()));
    }
    check_sparse(n, d, indptr.data(), n + 1, indices.data(), indptr.back());
    side.slots.push_back(
        {d, nullptr, Layout::sparse, indptr.data(), indices.data(), values.data()});
    pack_signs();
    side.slots.push_back({words, bits.data(), Layout::bits, nullptr, nullptr, nullptr});
    vector = draws<T>(n);
    AlignedBuffer<T> padded(capacity(n));
    padded.fill(T(0));
    side.ids = AlignedBuffer<std::int64_t>(capacity(n));
    side.ids.fill(0);
    for (std::int64_t i = 0; i < n; ++i) {
      padded[i] = vector[static_cast<std::size_t>(i)];
      side.ids[i] = static_cast<std::int64_t>(draw(0, 4));
    }
    side.vectors.push_back(std::move(padded));
  }

  void pack_signs() {
    using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    constexpr std::int64_t kBits = 8 * sizeof(T), W = kPanelPoints<T>;
    words = divide_up(d, kBits);
    bits = AlignedBuffer<T>(capacity(n) * words);
    bits.fill(T(0));
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t w = 0; w < words; ++w) {
        Word word = 0;
        for (std::int64_t k = w * kBits; k < std::min((w + 1) * kBits, d); ++k)
          word |= static_cast<Word>(at(i, k) > 0) << (k - w * kBits);
        std::memcpy(bits.data() + i / W * W * words + w * W + i % W, &word, sizeof(word));
      }
  }

  static std::int64_t capacity(std::int64_t n) { return round_up(n, kPanelPoints<T>); }
  double at(std::int64_t i, std::int64_t k) const {
    return static_cast<double>(x[static_cast<std::size_t>(i * d + k)]);
  }
  std::vector<double> sparse_row(std::int64_t i) const {
    std::vector<double> row(static_cast<std::size_t>(d), 0.0);
    for (std::int64_t e = indptr[static_cast<std::size_t>(i)];
         e < indptr[static_cast<std::size_t>(i) + 1]; ++e)
      row[static_cast<std::size_t>(indices[static_cast<std::size_t>(e)])] +=
          static_cast<double>(values[static_cast<std::size_t>(e)]);
    return row;
  }

  std::int64_t n, d, words = 0;
  std::vector<T> x;
  AlignedBuffer<T> packed, bits;
  std::vector<std::int64_t> indptr, indices;
  std::vector<T> values;
  std::vector<T> vector;
  Side<T> side;
};

// ---------------------------------------------------------------------------------------------
// The oracle: one pair at a time
// ---------------------------------------------------------------------------------------------

inline double elementwise(const Instruction& line, const std::vector<double>& r,
                          const std::vector<double>& scalars) {
  const auto reg = [&](std::int32_t i) { return r[static_cast<std::size_t>(i)]; };
  const auto scalar = [&](std::int32_t i) { return scalars[static_cast<std::size_t>(i)]; };
  switch (line.op) {
    case Op::fill:
      return scalar(line.s0);
    case Op::affine:
      return scalar(line.s0) * reg(line.a) + scalar(line.s1);
    case Op::add:
      return reg(line.a) + reg(line.b);
    case Op::sub:
      return reg(line.a) - reg(line.b);
    case Op::mul:
      return reg(line.a) * reg(line.b);
    case Op::div:
      return reg(line.a) / reg(line.b);
    case Op::axpy:
      return reg(line.a) + scalar(line.s0) * reg(line.b);
    case Op::fma:
      return reg(line.a) + scalar(line.s0) * reg(line.b) * reg(line.c);
    case Op::reciprocal:
      return scalar(line.s0) / reg(line.a);
    case Op::exp:
      return std::exp(scalar(line.s0) * reg(line.a));
    case Op::decay:
      return std::exp2(-reg(line.a));
    case Op::log:
      return std::log(reg(line.a));
    case Op::log1p:
      return std::log1p(reg(line.a));
    case Op::sqrt:
      return std::sqrt(reg(line.a));
    case Op::sin:
      return std::sin(reg(line.a));
    case Op::cos:
      return std::cos(reg(line.a));
    case Op::tanh:
      return std::tanh(reg(line.a));
    case Op::arctan2:
      return std::atan2(reg(line.a), reg(line.b));
    case Op::abs:
      return std::fabs(reg(line.a));
    case Op::sign:
      return reg(line.a) > 0 ? 1 : reg(line.a) < 0 ? -1 : 0;
    case Op::min:
      return std::fmin(reg(line.a), reg(line.b));
    case Op::max:
      return std::fmax(reg(line.a), reg(line.b));
    case Op::at_most:
      return std::min(scalar(line.s0), reg(line.a));
    case Op::at_least:
      return std::max(scalar(line.s0), reg(line.a));
    case Op::power:
      return std::pow(reg(line.a), scalar(line.s0));
    case Op::expm1:
      return std::expm1(reg(line.a));
    case Op::sinh:
      return std::sinh(reg(line.a));
    case Op::cosh:
      return std::cosh(reg(line.a));
    case Op::pow:
      return std::pow(reg(line.a), reg(line.b));
    case Op::less:
      return reg(line.a) < reg(line.b) ? 1 : 0;
    case Op::equal:
      return reg(line.a) == reg(line.b) ? 1 : 0;
    case Op::where:
      return reg(line.a) != 0 ? reg(line.b) : reg(line.c);
    default:
      throw std::logic_error("not element-wise");
  }
}

inline std::vector<double> run_column(const SubProgram& sub, double x, double z, double seed,
                                      const std::vector<double>& scalars) {
  std::vector<double> r(static_cast<std::size_t>(sub.registers));
  for (const Instruction& line : sub.code)
    r[static_cast<std::size_t>(line.dst)] = line.op == Op::x            ? x
                                            : line.op == Op::z          ? z
                                            : line.op == Op::difference ? x - z
                                            : line.op == Op::seed ? seed
                                                                  : elementwise(line, r, scalars);
  return r;
}

// Product (0) or elementary symmetric polynomial, over all subsets: no recursion to share.
inline double reduce(const std::vector<double>& v, std::int32_t degree, std::size_t from = 0) {
  if (degree == 0 && from == 0) {
    double product = 1;
    for (double value : v) product *= value;
    return product;
  }
  if (degree == 0) return 1;
  double total = 0;
  for (std::size_t k = from; k < v.size(); ++k)
    total += v[k] * (degree == 1 ? 1 : reduce(v, degree - 1, k + 1));
  return total;
}

template <class T>
double leaf(const Program& program, const Instruction& line, const Points<T>& rows,
            const Points<T>& cols, std::int64_t i, std::int64_t j, const std::vector<T>& block,
            const std::vector<double>& scalars) {
  double total = 0;
  std::vector<double> values;
  switch (line.op) {
    case Op::dot:
      for (std::int64_t k = 0; k < rows.d; ++k) total += rows.at(i, k) * cols.at(j, k);
      return total;
    case Op::squared_distance:
      for (std::int64_t k = 0; k < rows.d; ++k) total += std::pow(rows.at(i, k) - cols.at(j, k), 2);
      return total;
    case Op::manhattan:
      for (std::int64_t k = 0; k < rows.d; ++k) total += std::fabs(rows.at(i, k) - cols.at(j, k));
      return total;
    case Op::sparse_dot: {
      const std::vector<double> x = rows.sparse_row(i), z = cols.sparse_row(j);
      for (std::size_t k = 0; k < x.size(); ++k) total += x[k] * z[k];
      return total;
    }
    case Op::bit_dot:
      for (std::int64_t k = 0; k < rows.d; ++k) total += rows.at(i, k) > 0 && cols.at(j, k) > 0;
      return total;
    case Op::coordinate: {
      const SubProgram& sub = program.coordinates[static_cast<std::size_t>(line.b)];
      for (std::int64_t k = 0; k < rows.d; ++k)
        values.push_back(run_column(sub, rows.at(i, k), cols.at(j, k), 0,
                                    scalars)[static_cast<std::size_t>(sub.result)]);
      return reduce(values, line.c);
    }
    case Op::row:
      return static_cast<double>(rows.vector[static_cast<std::size_t>(i)]);
    case Op::column:
      return static_cast<double>(cols.vector[static_cast<std::size_t>(j)]);
    case Op::identity:
      return rows.side.ids[i] == cols.side.ids[j] ? 1 : 0;
    case Op::block:
      return static_cast<double>(block[static_cast<std::size_t>(i * cols.n + j)]);
    default:
      throw std::logic_error("not a leaf");
  }
}

// ---------------------------------------------------------------------------------------------
// One problem, all consumers
// ---------------------------------------------------------------------------------------------

template <class T>
struct Problem {
  Problem(const Program& program, std::int32_t result, std::vector<double> scalars, std::int64_t n,
          std::int64_t m, std::int64_t d)
      : program(program), result(result), rows(n, d), cols(m, d), block(draws<T>(n * m)) {
    pairs.program = &program;
    pairs.scalars = std::move(scalars);
    pairs.rows = &rows.side;
    pairs.cols = &cols.side;
    pairs.blocks = {{block.data(), m}};
    check_pairs(pairs);
    program.check_result(result, "test");
    K.resize(static_cast<std::size_t>(n * m));
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < m; ++j) {
        std::vector<double> r(static_cast<std::size_t>(program.registers));
        for (const Instruction& line : program.code)
          r[static_cast<std::size_t>(line.dst)] =
              line.op < Op::fill ? leaf(program, line, rows, cols, i, j, block, pairs.scalars)
                                 : elementwise(line, r, pairs.scalars);
        K[static_cast<std::size_t>(i * m + j)] = r[static_cast<std::size_t>(result)];
      }
  }
  double k(std::int64_t i, std::int64_t j) const {
    return K[static_cast<std::size_t>(i * cols.n + j)];
  }

  const Program& program;
  std::int32_t result;
  Points<T> rows, cols;
  std::vector<T> block;
  Pairs<T> pairs;
  std::vector<double> K;
};

// `scale` is the size of the terms that were added up.
template <class T>
bool close(double got, double want, double scale) {
  const double tolerance = 400 * static_cast<double>(std::numeric_limits<T>::epsilon());
  return std::fabs(got - want) <= tolerance * (std::fabs(want) + scale);
}

}  // namespace mercer::oracle
