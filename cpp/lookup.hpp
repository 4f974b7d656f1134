// Piecewise polynomials found by the bit pattern of the argument (see LookupTable).
//
// The interval of u is its binary exponent and the leading bits of its mantissa, which are adjacent
// in memory and so form one index; the remaining bits give the position t in [-1, 1) within the
// interval. Everything is done in float64.
#pragma once

#include "program.hpp"
#include "simd.hpp"
#include "transpose.hpp"

namespace mercer::MERCER_ISA {

// Table lookup for a vector of arguments: the value, or with `slope` the derivative.
template <bool slope>
class Lookup {
 public:
  explicit Lookup(const LookupTable& table)
      : table_(table),
        coefficients_(table.coefficients.data()),
        first_(broadcast<double>(__builtin_ldexp(1.0, static_cast<int>(table.first_exponent)))),
        end_(broadcast<double>(
            __builtin_ldexp(1.0, static_cast<int>(table.first_exponent + table.octaves)))) {}

  MERCER_INLINE Vec<double> operator()(Vec<double> u) const {
    const Vec<double> zero = {};
    const IVec<double> inside = (u >= first_) & (u < end_);
    // Outside, any interval will do: the result is replaced below.
    const IVec<double> bits = as_int<double>(select<double>(inside, u, first_));
    const int b = table_.subdivision_bits;
    const std::int64_t start = (table_.first_exponent + kBias) << b;
    const IVec<double> interval = (bits >> (kMantissaBits - b)) - start;
    // The remaining bits, moved to the top of a mantissa, are 1 + fraction = (t + 3) / 2.
    const IVec<double> rest = ((bits << b) & kMantissa) | kOne;
    const Vec<double> t = 2.0 * as_real<double>(rest) - 3.0;
    Vec<double> value = zero, derivative = zero;
    horner(interval, t, value, derivative);
    Vec<double> result = value;
    if constexpr (slope) {
      // dt/du = 2 / width, width = 2^(exponent - b).
      const IVec<double> exponent = bits >> kMantissaBits;
      const IVec<double> inverse_width = (2 * kBias + b - exponent) << kMantissaBits;
      result = 2.0 * derivative * as_real<double>(inverse_width);
    }
    const Vec<double> below = broadcast<double>(slope ? 0.0 : table_.value_at_zero);
    const Vec<double> outside = select<double>(u >= end_, zero, below);
    return select<double>(is_nan<double>(u), u, select<double>(inside, result, outside));
  }

 private:
  static constexpr int L = kLanes<double>;
  static constexpr int kMantissaBits = 52;
  static constexpr std::int64_t kBias = 1023;
  static constexpr std::int64_t kMantissa = (std::int64_t{1} << kMantissaBits) - 1;
  static constexpr std::int64_t kOne = kBias << kMantissaBits;

  // Coefficients of a row that are loaded together.
  static constexpr int B = L < LookupTable::kRowMultiple ? L : LookupTable::kRowMultiple;
  typedef double Part __attribute__((vector_size(B * sizeof(double))));
  typedef double Loaded __attribute__((vector_size(B * sizeof(double)), may_alias, aligned(8)));

  // Coefficient g of all lanes, from one or two groups of B lanes.
  static MERCER_INLINE Vec<double> joined(const Part (&c)[L / B][B], int g) {
    if constexpr (L == B) {
      return c[0][g];
    } else {
      static_assert(L == 8 && B == 4);
      return __builtin_shufflevector(c[0][g], c[1][g], 0, 1, 2, 3, 4, 5, 6, 7);
    }
  }

  // Each lane has its own row of coefficients: B x B blocks of them are loaded row by row and
  // transposed, which is cheaper than gathering them one by one.
  MERCER_INLINE void horner(IVec<double> interval, Vec<double> t, Vec<double>& value,
                            Vec<double>& derivative) const {
    static_assert(LookupTable::kRowMultiple % B == 0);
    for (std::int64_t block = table_.row - B; block >= 0; block -= B) {
      Part c[L / B][B];
#pragma GCC unroll 8
      for (int lane = 0; lane < L; ++lane)
        c[lane / B][lane % B] =
            *reinterpret_cast<const Loaded*>(coefficients_ + interval[lane] * table_.row + block);
#pragma GCC unroll 8
      for (int h = 0; h < L / B; ++h) transpose_square<Part, B>(c[h]);
#pragma GCC unroll 8
      for (int g = B - 1; g >= 0; --g) {
        if constexpr (slope) derivative = derivative * t + value;
        value = value * t + joined(c, g);
      }
    }
  }

  const LookupTable& table_;
  const double* coefficients_;
  Vec<double> first_, end_;
};

// `size` is a multiple of the lanes of a vector of T, and so of float64.
template <class T, bool slope>
__attribute__((noinline)) void lookup_pass(const LookupTable& table, const T* source,
                                           std::int64_t size, T* target) {
  constexpr int L = kLanes<double>;
  const Lookup<slope> lookup(table);
  for (std::int64_t i = 0; i < size; i += L) {
    Vec<double> u;
#pragma GCC unroll 8
    for (int lane = 0; lane < L; ++lane) u[lane] = static_cast<double>(source[i + lane]);
    u = lookup(u);
#pragma GCC unroll 8
    for (int lane = 0; lane < L; ++lane) target[i + lane] = static_cast<T>(u[lane]);
  }
}

}  // namespace mercer::MERCER_ISA
