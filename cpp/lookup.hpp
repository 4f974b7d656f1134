// Piecewise polynomials found by the bit pattern of the argument (see LookupTable).
//
// The interval of u is its binary exponent and the leading bits of its mantissa; the remaining bits
// give the position t in [-1, 1) within the interval. Everything is done in float64.
#pragma once

#include "program.hpp"
#include "simd.hpp"

namespace mercer::MERCER_ISA {

inline constexpr int kMantissaBits = 52;
inline constexpr std::int64_t kExponentBias = 1023;

// Value of the table at `u`, or with `slope` its derivative with respect to u.
template <bool slope>
MERCER_INLINE double look_up(const LookupTable& table, const double* coefficients, double u) {
  if (!(u == u)) return u;
  const std::int64_t bits = __builtin_bit_cast(std::int64_t, u);
  const std::int64_t exponent = (bits >> kMantissaBits) - kExponentBias;  // negative u: below all
  const std::int64_t octave = exponent - table.first_exponent;
  if (u <= 0.0 || octave < 0) return slope ? 0.0 : table.value_at_zero;
  if (octave >= table.octaves) return 0.0;

  const int b = table.subdivision_bits;
  const std::int64_t mantissa = bits & ((std::int64_t{1} << kMantissaBits) - 1);
  const std::int64_t sub = mantissa >> (kMantissaBits - b);
  // The remaining bits, moved to the top of a mantissa, are 1 + frac.
  const std::int64_t rest = (mantissa << b) & ((std::int64_t{1} << kMantissaBits) - 1);
  const double frac = __builtin_bit_cast(double, rest | (kExponentBias << kMantissaBits)) - 1.0;
  const double t = 2.0 * frac - 1.0;
  const double* c = coefficients + ((octave << b) + sub) * (table.degree + 1);
  if constexpr (slope) {
    double p = 0.0;
    for (int g = table.degree; g >= 1; --g) p = p * t + g * c[g];
    // dt/du = 2 / width, width = 2^(exponent - b).
    const double inverse_width = __builtin_ldexp(1.0, b - static_cast<int>(exponent));
    return 2.0 * inverse_width * p;
  } else {
    double p = c[table.degree];
    for (int g = table.degree - 1; g >= 0; --g) p = p * t + c[g];
    return p;
  }
}

template <class T, bool slope>
void lookup_pass(const LookupTable& table, const T* source, std::int64_t size, T* target) {
  const double* coefficients = table.coefficients.data();
  for (std::int64_t i = 0; i < size; ++i)
    target[i] = static_cast<T>(look_up<slope>(table, coefficients, static_cast<double>(source[i])));
}

}  // namespace mercer::MERCER_ISA
