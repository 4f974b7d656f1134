// Kernels of time series: recurrences over the grid of all pairs of two times.
//
// The lanes of the vectors are pairs of series, each with a grid of its own, so that no step of a
// recurrence crosses lanes. A kernel is a local function, which fills one row of the grid, and a
// recurrence, which takes the rows one after another and keeps one row of its own.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "engine.hpp"
#include "vecmath.hpp"

namespace mercer::MERCER_ISA {

// Vectors of a batch: several chains of dependent operations fill the pipeline.
inline constexpr int kSeriesVectors = 4;
inline constexpr int kSeriesLanes = kSeriesVectors * kLanes<double>;

using SeriesVec = Vec<double>;

inline constexpr double kLog2OfE = 0x1.71547652b82fep+0;
inline constexpr double kLogOf2 = 0x1.62e42fefa39efp-1;

// What stands at times beyond a series, in rows and in columns; NaN for the last value again.
struct SeriesPadding {
  double rows, cols;
};

inline constexpr double kLastValue = std::numeric_limits<double>::quiet_NaN();
inline constexpr SeriesPadding kRepeated = {kLastValue, kLastValue};

// ---------------------------------------------------------------------------------------------
// A batch of pairs
// ---------------------------------------------------------------------------------------------

// The two series of each lane, as x[time][channel][lane] and y[time][channel][lane].
struct SeriesBatch {
  std::int64_t channels = 0;
  std::int64_t rows = 0, cols = 0;  // the largest lengths
  std::int64_t lane_rows[kSeriesLanes], lane_cols[kSeriesLanes];
  AlignedBuffer<double> x, y;

  // One side of one lane. Times beyond the series hold the padding, or its last value.
  void fill(AlignedBuffer<double>& target, const SeriesSide& side, std::int64_t item, int lane,
            std::int64_t length, double padding) const {
    const double* values = side.values + side.starts[item] * channels;
    const std::int64_t own = side.length(item);
    for (std::int64_t t = 0; t < length; ++t)
      for (std::int64_t c = 0; c < channels; ++c) {
        const double last = values[(own - 1) * channels + c];
        const double beyond = std::isnan(padding) ? last : padding;
        target[(t * channels + c) * kSeriesLanes + lane] =
            t < own ? values[t * channels + c] : beyond;
      }
  }

  // The squared distance between time i of x and time j of y.
  MERCER_INLINE void squared_distance(std::int64_t i, std::int64_t j,
                                      SeriesVec (&sum)[kSeriesVectors]) const {
    const double* a = x.data() + i * channels * kSeriesLanes;
    const double* b = y.data() + j * channels * kSeriesLanes;
#pragma GCC unroll 8
    for (int v = 0; v < kSeriesVectors; ++v) {
      const SeriesVec gap = at(a, v) - at(b, v);
      sum[v] = gap * gap;
    }
    for (std::int64_t c = 1; c < channels; ++c) {
      a += kSeriesLanes;
      b += kSeriesLanes;
#pragma GCC unroll 8
      for (int v = 0; v < kSeriesVectors; ++v) {
        const SeriesVec gap = at(a, v) - at(b, v);
        sum[v] += gap * gap;
      }
    }
  }

  // The inner product of time i of x and time j of y.
  MERCER_INLINE void product(std::int64_t i, std::int64_t j,
                             SeriesVec (&sum)[kSeriesVectors]) const {
    const double* a = x.data() + i * channels * kSeriesLanes;
    const double* b = y.data() + j * channels * kSeriesLanes;
#pragma GCC unroll 8
    for (int v = 0; v < kSeriesVectors; ++v) sum[v] = at(a, v) * at(b, v);
    for (std::int64_t c = 1; c < channels; ++c) {
      a += kSeriesLanes;
      b += kSeriesLanes;
#pragma GCC unroll 8
      for (int v = 0; v < kSeriesVectors; ++v) sum[v] += at(a, v) * at(b, v);
    }
  }

  static MERCER_INLINE SeriesVec at(const double* lanes, int v) {
    return load<double>(lanes + v * kLanes<double>);
  }
};

MERCER_INLINE void put(double* lanes, int v, SeriesVec value) {
  store<double>(lanes + v * kLanes<double>, value);
}

// Rows of vectors for all lanes, of which element j is at j * kSeriesLanes.
class SeriesRow {
 public:
  void resize(std::int64_t size) { values_.reserve(size * kSeriesLanes); }
  void fill(std::int64_t size, double value) {
    for (std::int64_t k = 0; k < size * kSeriesLanes; ++k) values_[k] = value;
  }
  double* operator[](std::int64_t j) { return values_.data() + j * kSeriesLanes; }
  const double* operator[](std::int64_t j) const { return values_.data() + j * kSeriesLanes; }

 private:
  AlignedBuffer<double> values_;
};

// The columns of a row that a band of half-width `width` holds.
struct SeriesBand {
  std::int64_t begin, end;
  SeriesBand(std::int64_t i, std::int64_t cols, std::int64_t width)
      : begin(std::clamp<std::int64_t>(i - width, 0, cols)), end(std::min(cols, i + width + 1)) {}
};

inline constexpr std::int64_t kNoBand = std::int64_t(1) << 62;

// ---------------------------------------------------------------------------------------------
// Local functions: row i of the grid
// ---------------------------------------------------------------------------------------------

// |x_i - y_j|^2 times a factor. With a window, infinity where |i - j| exceeds it; a window is at
// least the difference of the lengths.
struct ScaledDistances {
  double factor = 1.0;
  std::int64_t window = kNoBand;

  std::int64_t width(const SeriesBatch& batch) const {
    if (window == kNoBand) return kNoBand;
    std::int64_t width = window;
    for (int lane = 0; lane < kSeriesLanes; ++lane)
      width = std::max(width, std::abs(batch.lane_rows[lane] - batch.lane_cols[lane]));
    return width;
  }

  void begin(const SeriesBatch& batch) {
    for (int lane = 0; lane < kSeriesLanes; ++lane)
      widths[lane] = static_cast<double>(
          std::max(window, std::abs(batch.lane_rows[lane] - batch.lane_cols[lane])));
  }

  void row(const SeriesBatch& batch, std::int64_t i, SeriesBand band, SeriesRow& out) {
    const SeriesVec scale = broadcast<double>(factor);
    for (std::int64_t j = band.begin; j < band.end; ++j) {
      SeriesVec d[kSeriesVectors];
      batch.squared_distance(i, j, d);
#pragma GCC unroll 8
      for (int v = 0; v < kSeriesVectors; ++v) put(out[j], v, d[v] * scale);
    }
    if (window != kNoBand) forbid(i, band, out);
  }

  void forbid(std::int64_t i, SeriesBand band, SeriesRow& out) const {
    const SeriesVec infinity = broadcast<double>(Limits<double>::kInfinity);
    for (std::int64_t j = band.begin; j < band.end; ++j) {
      const SeriesVec gap = broadcast<double>(static_cast<double>(std::abs(i - j)));
#pragma GCC unroll 8
      for (int v = 0; v < kSeriesVectors; ++v) {
        const IVec<double> outside = gap > load<double>(widths + v * kLanes<double>);
        put(out[j], v, select<double>(outside, infinity, SeriesBatch::at(out[j], v)));
      }
    }
  }

  alignas(64) double widths[kSeriesLanes] = {};  // the window of each lane
};

// The local kernel of global alignment, w g / (2 - w g), with g = 2^-(rate |x_i - y_j|^2) and
// w = 1 - |i - j| / triangular; or minus its logarithm to the base 2.
template <bool kLogarithm>
struct AlignmentKernel {
  double rate = 1.0;
  std::int64_t triangular = 0;  // 0: all weights are 1

  std::int64_t width(const SeriesBatch&) const { return triangular > 0 ? triangular - 1 : kNoBand; }
  void begin(const SeriesBatch&) {}

  void row(const SeriesBatch& batch, std::int64_t i, SeriesBand band, SeriesRow& out) {
    const SeriesVec two = broadcast<double>(2.0);
    for (std::int64_t j = band.begin; j < band.end; ++j) {
      SeriesVec square[kSeriesVectors], g[kSeriesVectors];
      batch.squared_distance(i, j, square);
#pragma GCC unroll 8
      for (int v = 0; v < kSeriesVectors; ++v) g[v] = square[v];
      vdecayn_scaled<kSeriesVectors>(rate, g);
      const double weight = weight_at(std::abs(i - j));
      if (triangular > 0)
        for (SeriesVec& value : g) value *= broadcast<double>(weight);
      if constexpr (kLogarithm) {
        const SeriesVec scale = broadcast<double>(rate),
                        shift = broadcast<double>(std::log2(weight));
        for (int v = 0; v < kSeriesVectors; ++v)
          put(out[j], v,
              square[v] * scale - shift + vlog<double>(two - g[v]) * broadcast<double>(kLog2OfE));
      } else {
#pragma GCC unroll 8
        for (int v = 0; v < kSeriesVectors; ++v) put(out[j], v, g[v] / (two - g[v]));
      }
    }
  }

  double weight_at(std::int64_t gap) const {
    if (triangular == 0) return 1.0;
    return 1.0 - static_cast<double>(gap) / static_cast<double>(triangular);
  }
};

// The inner product of increments x_i and y_j.
struct Products {
  std::int64_t width(const SeriesBatch&) const { return kNoBand; }
  void begin(const SeriesBatch&) {}

  void row(const SeriesBatch& batch, std::int64_t i, SeriesBand band, SeriesRow& out) {
    for (std::int64_t j = band.begin; j < band.end; ++j) {
      SeriesVec p[kSeriesVectors];
      batch.product(i, j, p);
#pragma GCC unroll 8
      for (int v = 0; v < kSeriesVectors; ++v) put(out[j], v, p[v]);
    }
  }
};

// ---------------------------------------------------------------------------------------------
// Alignments
// ---------------------------------------------------------------------------------------------

// R(i, j) = c(i, j) + min(R(i-1, j), R(i, j-1), R(i-1, j-1)).
class LeastCost {
 public:
  void begin(const SeriesBatch& batch) {
    row_.resize(batch.cols + 1);
    row_.fill(batch.cols + 1, Limits<double>::kInfinity);
    for (int lane = 0; lane < kSeriesLanes; ++lane) row_[0][lane] = 0.0;
  }

  void row(std::int64_t, SeriesBand band, const SeriesRow& costs) {
    const SeriesVec infinity = broadcast<double>(Limits<double>::kInfinity);
    SeriesVec corner[kSeriesVectors], left[kSeriesVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kSeriesVectors; ++v) {
      corner[v] = SeriesBatch::at(row_[band.begin], v);
      left[v] = infinity;
      put(row_[band.begin], v, infinity);
    }
    for (std::int64_t j = band.begin; j < band.end; ++j) {
      double* here = row_[j + 1];
      const double* cost = costs[j];
#pragma GCC unroll 8
      for (int v = 0; v < kSeriesVectors; ++v) {
        const SeriesVec above = SeriesBatch::at(here, v);
        const SeriesVec before = vmin<double>(above, corner[v]);
        corner[v] = above;
        left[v] = SeriesBatch::at(cost, v) + vmin<double>(before, left[v]);
        put(here, v, left[v]);
      }
    }
  }

  double result(const SeriesBatch& batch, int lane) const {
    return row_[batch.lane_cols[lane]][lane];
  }

 private:
  SeriesRow row_;
};

// R(i, j) = c(i, j) - log2(2^-R(i-1, j) + 2^-R(i, j-1) + 2^-R(i-1, j-1)).
class SoftCost {
 public:
  void begin(const SeriesBatch& batch) {
    row_.resize(batch.cols + 1);
    row_.fill(batch.cols + 1, kFar);
    for (int lane = 0; lane < kSeriesLanes; ++lane) row_[0][lane] = 0.0;
  }

  void row(std::int64_t, SeriesBand band, const SeriesRow& costs) {
    const SeriesVec far = broadcast<double>(kFar), one = broadcast<double>(1.0);
    SeriesVec corner[kSeriesVectors], left[kSeriesVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kSeriesVectors; ++v) {
      corner[v] = SeriesBatch::at(row_[band.begin], v);
      left[v] = far;
      put(row_[band.begin], v, far);
    }
    for (std::int64_t j = band.begin; j < band.end; ++j) {
      double* here = row_[j + 1];
      const double* cost = costs[j];
      SeriesVec least[kSeriesVectors], a[kSeriesVectors], b[kSeriesVectors];
#pragma GCC unroll 8
      for (int v = 0; v < kSeriesVectors; ++v) {
        const SeriesVec above = SeriesBatch::at(here, v);
        const SeriesVec low = vmin<double>(above, corner[v]);
        const SeriesVec high = vmax<double>(above, corner[v]);
        least[v] = vmin<double>(low, left[v]);
        a[v] = high - least[v];
        b[v] = vmax<double>(low, left[v]) - least[v];
        corner[v] = above;
      }
      vdecayn_scaled<kSeriesVectors>(1.0, a);
      vdecayn_scaled<kSeriesVectors>(1.0, b);
#pragma GCC unroll 8
      for (int v = 0; v < kSeriesVectors; ++v) a[v] = log2_of(one + a[v] + b[v]);
#pragma GCC unroll 8
      for (int v = 0; v < kSeriesVectors; ++v) {
        left[v] = SeriesBatch::at(cost, v) + (least[v] - a[v]);
        put(here, v, left[v]);
      }
    }
  }

  double result(const SeriesBatch& batch, int lane) const {
    const double cost = row_[batch.lane_cols[lane]][lane];
    return cost < kFar / 2 ? cost : Limits<double>::kInfinity;
  }

 private:
  // A cost that no path has: finite, so that differences of two of them are 0.
  static constexpr double kFar = 1e300;

  // The logarithm of a number from 1 to 3.
  static MERCER_INLINE SeriesVec log2_of(SeriesVec x) {
    return vlog<double>(x) * broadcast<double>(kLog2OfE);
  }

  SeriesRow row_;
};

// k(i, j) = kappa(i, j) (k(i-1, j) + k(i, j-1) + k(i-1, j-1)): the sum over all alignments.
//
// The number of alignments grows by a factor a with every row and b with every column, where
// (a - 1)(b - 1) = 2. The recurrence is that of k / (a^i b^j), which is at most 1, with the a and b
// for which it is largest at the last time of both series. Rows are scaled by powers of two, whose
// exponents are carried. A value that underflows is less than 2^-1022 of the unit of its row, and
// adds less than that to the result. A result that is not far above the sum of such errors is
// reported as NaN.
class AlignmentSum {
 public:
  void begin(const SeriesBatch& batch) {
    row_.resize(batch.cols + 1);
    row_.fill(batch.cols + 1, 0.0);
    for (int lane = 0; lane < kSeriesLanes; ++lane) {
      const double n = static_cast<double>(batch.lane_rows[lane]);
      const double m = static_cast<double>(batch.lane_cols[lane]);
      const double t = ((m - n) + std::hypot(n, m)) / n;
      row_[0][lane] = 1.0;
      down_[lane] = 1.0 / (1.0 + t);
      right_[lane] = 1.0 / (1.0 + 2.0 / t);
      growth_[lane] = n * std::log1p(t) + m * std::log1p(2.0 / t);
      scale_[lane] = 1.0;
      exponent_[lane] = unit_[lane] = largest_[lane] = 0.0;
    }
  }

  void row(std::int64_t, SeriesBand band, const SeriesRow& kernel) {
    const SeriesVec zero = {};
    SeriesVec corner[kSeriesVectors], left[kSeriesVectors], top[kSeriesVectors];
    SeriesVec down[kSeriesVectors], right[kSeriesVectors], both[kSeriesVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kSeriesVectors; ++v) {
      right[v] = SeriesBatch::at(right_, v);
      down[v] = SeriesBatch::at(down_, v) * SeriesBatch::at(scale_, v);
      both[v] = right[v] * down[v];
      corner[v] = SeriesBatch::at(row_[band.begin], v) * both[v];
      left[v] = top[v] = zero;
      put(row_[band.begin], v, zero);
    }
    for (std::int64_t j = band.begin; j < band.end; ++j) {
      double* here = row_[j + 1];
      const double* kappa = kernel[j];
#pragma GCC unroll 8
      for (int v = 0; v < kSeriesVectors; ++v) {
        const SeriesVec above = SeriesBatch::at(here, v);
        const SeriesVec before = above * down[v] + corner[v];
        corner[v] = above * both[v];
        left[v] = SeriesBatch::at(kappa, v) * (right[v] * left[v] + before);
        top[v] = vmax<double>(top[v], left[v]);
        put(here, v, left[v]);
      }
    }
#pragma GCC unroll 8
    for (int v = 0; v < kSeriesVectors; ++v) rescale(v, top[v]);
  }

  // The logarithm of the sum.
  double result(const SeriesBatch& batch, int lane) const {
    constexpr double kSafe = -900.0;  // 122 bits above what may be lost in a cell
    const double value = row_[batch.lane_cols[lane]][lane];
    const double exponent = std::log2(value) + unit_[lane];
    if (!(exponent > largest_[lane] + kSafe)) return std::numeric_limits<double>::quiet_NaN();
    return std::log(value) + unit_[lane] * kLogOf2 + growth_[lane];
  }

 private:
  // The next row is multiplied by the power of two that takes the largest value to [1, 2).
  MERCER_INLINE void rescale(int v, SeriesVec top) {
    const IVec<double> exponents = broadcast_int<double>(Int<double>(2047) << 52);
    const IVec<double> field = as_int<double>(top) & exponents;
    put(scale_, v, as_real<double>((broadcast_int<double>(Int<double>(2046) << 52)) - field));
    const SeriesVec unit = SeriesBatch::at(exponent_, v);
    put(unit_, v, unit);
    put(largest_, v, vmax<double>(SeriesBatch::at(largest_, v), unit));
    SeriesVec power;
    for (int lane = 0; lane < kLanes<double>; ++lane)
      power[lane] = static_cast<double>((field[lane] >> 52) - 1023);
    put(exponent_, v, unit + power);
  }

  SeriesRow row_;
  alignas(64) double down_[kSeriesLanes] = {}, right_[kSeriesLanes] = {}, scale_[kSeriesLanes] = {};
  // Powers of two: of the next row, of this row, and the largest of all rows.
  alignas(64) double exponent_[kSeriesLanes] = {}, unit_[kSeriesLanes] = {},
                     largest_[kSeriesLanes] = {};
  double growth_[kSeriesLanes] = {};
};

// ---------------------------------------------------------------------------------------------
// Signatures
// ---------------------------------------------------------------------------------------------

// 1 + the inner products of levels 1 to M of two signatures, from the inner products p(i, j) of
// increments (Kiraly and Oberhauser, Kernels for sequentially ordered data, 2019).
//
// R_m[a][b](i, j) sums the terms of level m whose last increments are i and j, the last a + 1 times
// i and the last b + 1 times j. A term in which an increment is repeated has the weight of the
// exponential series.
template <int M>
class TruncatedSignature {
 public:
  void begin(const SeriesBatch& batch) {
    sums_.resize(batch.cols * kSums);
    sums_.fill(batch.cols * kSums, 0.0);
    for (double& total : total_) total = 1.0;
  }

  void row(std::int64_t, SeriesBand band, const SeriesRow& products) {
    for (int v = 0; v < kSeriesVectors; ++v) {
      State state = {};
      state.total = SeriesBatch::at(total_, v);
      for (std::int64_t j = band.begin; j < band.end; ++j)
        level<1>(SeriesBatch::at(products[j], v), {}, sums_[j * kSums] + v * kLanes<double>, state);
      put(total_, v, state.total);
    }
  }

  double result(const SeriesBatch&, int lane) const { return total_[lane]; }

 private:
  // Sums of R_m, m < M, for each b over a and over all rows before, at each column.
  static constexpr int kSums = M > 1 ? M * (M - 1) / 2 : 1;

  struct State {
    SeriesVec total;
    SeriesVec before[M];     // sums of R_m over all rows and columns before
    SeriesVec across[M][M];  // for each a: sums of R_m over b and the columns before, in this row
  };

  using Terms = SeriesVec[M][M];

  struct Lower {
    Terms terms;
  };

  template <int m>
  static MERCER_INLINE void level(SeriesVec p, const Lower& lower, double* sums, State& state) {
    Lower here;
    auto& R = here.terms;
    if constexpr (m == 1) {
      R[0][0] = p;
    } else {
      const double* below = sums + (m - 1) * (m - 2) / 2 * kSeriesLanes;
      R[0][0] = p * state.before[m - 2];
#pragma GCC unroll 8
      for (int a = 1; a < m; ++a) {
        const SeriesVec share = p * broadcast<double>(1.0 / (a + 1));
        R[0][a] = share * load<double>(below + (a - 1) * kSeriesLanes);
        R[a][0] = share * state.across[m - 2][a - 1];
#pragma GCC unroll 8
        for (int b = 1; b < m; ++b)
          R[a][b] = share * broadcast<double>(1.0 / (b + 1)) * lower.terms[a - 1][b - 1];
      }
    }
    if constexpr (m < M) level<m + 1>(p, here, sums, state);
    double* own = sums + m * (m - 1) / 2 * kSeriesLanes;
#pragma GCC unroll 8
    for (int a = 0; a < m; ++a) {
      SeriesVec over_b = R[a][0], over_a = R[0][a];
#pragma GCC unroll 8
      for (int b = 1; b < m; ++b) {
        over_b += R[a][b];
        over_a += R[b][a];
      }
      state.total += over_b;
      if constexpr (m < M) {
        const SeriesVec old = load<double>(own + a * kSeriesLanes);
        state.before[m - 1] += old;
        state.across[m - 1][a] += over_b;
        store<double>(own + a * kSeriesLanes, old + over_a);
      }
    }
  }

  SeriesRow sums_;
  alignas(64) double total_[kSeriesLanes] = {};
};

// The whole signature: k = 1 + the integral of p k over both times, by finite differences of second
// order on a grid that divides each step into 2^refinement (Salvi, Cass, Foster, Lyons and Yang,
// The signature kernel is the solution of a Goursat PDE, 2021).
class SignatureEquation {
 public:
  explicit SignatureEquation(int refinement = 0) : refinement_(refinement) {}

  void begin(const SeriesBatch& batch) {
    row_.resize((batch.cols << refinement_) + 1);
    row_.fill((batch.cols << refinement_) + 1, 1.0);
  }

  void row(std::int64_t, SeriesBand band, const SeriesRow& products) {
    const std::int64_t parts = std::int64_t(1) << refinement_;
    const SeriesVec one = broadcast<double>(1.0), half = broadcast<double>(0.5);
    const SeriesVec share = broadcast<double>(1.0 / static_cast<double>(parts * parts));
    const SeriesVec twelfth = broadcast<double>(1.0 / 12.0);
    for (std::int64_t part = 0; part < parts; ++part) {
      SeriesVec left[kSeriesVectors], corner[kSeriesVectors];
#pragma GCC unroll 8
      for (int v = 0; v < kSeriesVectors; ++v) left[v] = corner[v] = one;
      double* here = row_[1];
      for (std::int64_t j = band.begin; j < band.end; ++j) {
        SeriesVec sides[kSeriesVectors], across[kSeriesVectors];
#pragma GCC unroll 8
        for (int v = 0; v < kSeriesVectors; ++v) {
          const SeriesVec p = SeriesBatch::at(products[j], v) * share;
          const SeriesVec square = p * p * twelfth;
          sides[v] = one + half * p + square;
          across[v] = one - square;
        }
        for (std::int64_t step = 0; step < parts; ++step, here += kSeriesLanes)
#pragma GCC unroll 8
          for (int v = 0; v < kSeriesVectors; ++v) {
            const SeriesVec above = SeriesBatch::at(here, v);
            const SeriesVec before = above * sides[v] - corner[v] * across[v];
            corner[v] = above;
            left[v] = left[v] * sides[v] + before;
            put(here, v, left[v]);
          }
      }
    }
  }

  double result(const SeriesBatch& batch, int lane) const {
    return row_[batch.lane_cols[lane] << refinement_][lane];
  }

 private:
  int refinement_;
  SeriesRow row_ = {};
};

// ---------------------------------------------------------------------------------------------
// Pairs of a job
// ---------------------------------------------------------------------------------------------

// The pairs in an order in which neighbours have similar lengths.
class SeriesPairs {
 public:
  explicit SeriesPairs(const SeriesJob& job)
      : job_(job), rows_(by_length(job.rows)), cols_(by_length(job.cols)) {}

  std::int64_t size() const {
    const std::int64_t n = job_.rows.count;
    if (job_.shape == SeriesShape::diagonal) return n;
    return job_.shape == SeriesShape::symmetric ? n * (n + 1) / 2 : n * job_.cols.count;
  }

  // The items of pair p.
  std::pair<std::int64_t, std::int64_t> operator[](std::int64_t p) const {
    if (job_.shape == SeriesShape::diagonal) return {rows_[index(p)], rows_[index(p)]};
    if (job_.shape == SeriesShape::matrix)
      return {rows_[index(p / job_.cols.count)], cols_[index(p % job_.cols.count)]};
    auto row = static_cast<std::int64_t>((std::sqrt(8.0 * static_cast<double>(p) + 1.0) - 1.0) / 2);
    while (row * (row + 1) / 2 > p) --row;
    while ((row + 1) * (row + 2) / 2 <= p) ++row;
    return {rows_[index(row)], rows_[index(p - row * (row + 1) / 2)]};
  }

  void write(std::int64_t p, double value) const {
    const auto [i, j] = (*this)[p];
    if (job_.shape == SeriesShape::diagonal) {
      job_.out[i] = value;
      return;
    }
    job_.out[i * job_.cols.count + j] = value;
    if (job_.shape == SeriesShape::symmetric) job_.out[j * job_.cols.count + i] = value;
  }

 private:
  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

  static std::vector<std::int64_t> by_length(const SeriesSide& side) {
    std::vector<std::int64_t> order(index(side.count));
    std::iota(order.begin(), order.end(), std::int64_t(0));
    std::stable_sort(order.begin(), order.end(), [&side](std::int64_t a, std::int64_t b) {
      return side.length(a) < side.length(b);
    });
    return order;
  }

  const SeriesJob& job_;
  std::vector<std::int64_t> rows_, cols_;
};

// The pairs from `first` on as a batch; lanes beyond the last pair hold the last one again.
inline void read_batch(const SeriesJob& job, const SeriesPairs& pairs, std::int64_t first,
                       SeriesPadding padding, SeriesBatch& batch) {
  std::pair<std::int64_t, std::int64_t> items[kSeriesLanes];
  batch.channels = job.channels;
  batch.rows = batch.cols = 0;
  for (int lane = 0; lane < kSeriesLanes; ++lane) {
    items[lane] = pairs[std::min(first + lane, pairs.size() - 1)];
    batch.lane_rows[lane] = job.rows.length(items[lane].first);
    batch.lane_cols[lane] = job.cols.length(items[lane].second);
    batch.rows = std::max(batch.rows, batch.lane_rows[lane]);
    batch.cols = std::max(batch.cols, batch.lane_cols[lane]);
  }
  batch.x.reserve(batch.rows * batch.channels * kSeriesLanes);
  batch.y.reserve(batch.cols * batch.channels * kSeriesLanes);
  for (int lane = 0; lane < kSeriesLanes; ++lane) {
    batch.fill(batch.x, job.rows, items[lane].first, lane, batch.rows, padding.rows);
    batch.fill(batch.y, job.cols, items[lane].second, lane, batch.cols, padding.cols);
  }
}

// What one thread needs for one recurrence.
template <class Local, class Recurrence>
struct SeriesGrid {
  Local local;
  Recurrence recurrence;
  SeriesRow values = {};

  // The results of a batch; false if the call is being stopped.
  bool run(const SeriesBatch& batch, Worker& worker, double* results) {
    const std::int64_t width = local.width(batch);
    values.resize(batch.cols);
    local.begin(batch);
    recurrence.begin(batch);
    for (std::int64_t i = 0; i < batch.rows; ++i) {
      const SeriesBand band(i, batch.cols, width);
      if (!worker.keep_going((band.end - band.begin + 1) * kSeriesVectors * 16)) return false;
      local.row(batch, i, band, values);
      recurrence.row(i, band, values);
      for (int lane = 0; lane < kSeriesLanes; ++lane)
        if (batch.lane_rows[lane] == i + 1) results[lane] = recurrence.result(batch, lane);
    }
    return true;
  }
};

// Calls make() on each thread, and what it returns, grid(batch, worker, results), on each batch.
template <class Make>
void run_batches(const SeriesJob& job, SeriesPadding padding, Make make) {
  const SeriesPairs pairs(job);
  const std::int64_t units = divide_up(pairs.size(), kSeriesLanes);
  double cells = 0.0;
  if (units > 0)
    cells = static_cast<double>(job.rows.longest()) * static_cast<double>(job.cols.longest());
  const double work = cells * static_cast<double>(units) * kSeriesLanes * 16.0;
  auto body = [&](Worker& worker) {
    SeriesBatch batch;
    auto grid = make();
    for (std::int64_t unit = worker.next_unit(); unit >= 0; unit = worker.next_unit()) {
      double results[kSeriesLanes] = {};
      const std::int64_t first = unit * kSeriesLanes;
      read_batch(job, pairs, first, padding, batch);
      if (!grid(batch, worker, results)) return;
      const std::int64_t end = std::min<std::int64_t>(kSeriesLanes, pairs.size() - first);
      for (std::int64_t lane = 0; lane < end; ++lane) pairs.write(first + lane, results[lane]);
    }
  };
  run_workers(units, useful_threads(job.threads, units, work), job.interrupt, WorkerBody(body));
}

// Both functions make an object for each thread.
template <class MakeLocal, class MakeRecurrence>
void run_recurrence(const SeriesJob& job, SeriesPadding padding, MakeLocal local,
                    MakeRecurrence recurrence) {
  using Grid = SeriesGrid<decltype(local()), decltype(recurrence())>;
  run_batches(job, padding, [&] {
    return [grid = Grid{local(), recurrence()}](const SeriesBatch& batch, Worker& worker,
                                                double* results) mutable {
      return grid.run(batch, worker, results);
    };
  });
}

// The logarithm of the global alignment kernel; lanes whose sum leaves the range take the slower
// recurrence of logarithms.
inline void run_global_alignment(const SeriesJob& job) {
  using Sums = SeriesGrid<AlignmentKernel<false>, AlignmentSum>;
  using Logarithms = SeriesGrid<AlignmentKernel<true>, SoftCost>;
  // The local kernel of an infinite distance is 0, so that columns beyond a series have no weight.
  const SeriesPadding padding = {kLastValue, Limits<double>::kInfinity};
  const double rate = 0.5 * kLog2OfE / (job.sigma * job.sigma);
  run_batches(job, padding, [&] {
    return [&job, sums = Sums{{rate, job.band}, {}}, logarithms = Logarithms{{rate, job.band}, {}}](
               const SeriesBatch& batch, Worker& worker, double* results) mutable {
      if (!sums.run(batch, worker, results)) return false;
      for (int lane = 0; lane < kSeriesLanes && job.band > 0; ++lane)
        if (std::abs(batch.lane_rows[lane] - batch.lane_cols[lane]) >= job.band)
          results[lane] = -Limits<double>::kInfinity;  // no alignment stays within the band
      if (std::none_of(results, results + kSeriesLanes, [](double r) { return std::isnan(r); }))
        return true;
      double exact[kSeriesLanes] = {};
      if (!logarithms.run(batch, worker, exact)) return false;
      for (int lane = 0; lane < kSeriesLanes; ++lane)
        if (std::isnan(results[lane])) results[lane] = -exact[lane] * kLogOf2;
      return true;
    };
  });
}

// Calls run(make), where make() is the recurrence of a kind of signatures.
template <class Run, int... kDepths>
void with_signature(SeriesKind kind, int depth, int refinement, Run run,
                    std::integer_sequence<int, kDepths...>) {
  if (kind == SeriesKind::signature_pde)
    return run([refinement] { return SignatureEquation(refinement); });
  ((depth == kDepths + 1 ? run([] { return TruncatedSignature<kDepths + 1>(); }) : void()), ...);
}

inline constexpr auto kDepthsOfSignatures = std::make_integer_sequence<int, kMostLevels>();

inline void run_series(const SeriesJob& job) {
  switch (job.kind) {
    case SeriesKind::dtw:
      return run_recurrence(
          job, kRepeated,
          [&job] { return ScaledDistances{1.0, job.band < 0 ? kNoBand : job.band}; },
          [] { return LeastCost(); });
    case SeriesKind::soft_dtw:
      // Costs in units of gamma log(2).
      return run_recurrence(
          job, kRepeated, [&job] { return ScaledDistances{kLog2OfE / job.sigma}; },
          [] { return SoftCost(); });
    case SeriesKind::global_alignment:
      return run_global_alignment(job);
    case SeriesKind::signature:
    case SeriesKind::signature_pde:
      // Increments beyond a series are 0, which adds nothing.
      return with_signature(
          job.kind, job.depth, job.refinement,
          [&job](auto make) { run_recurrence(job, {0.0, 0.0}, [] { return Products{}; }, make); },
          kDepthsOfSignatures);
  }
}

// ---------------------------------------------------------------------------------------------
// Signatures in the feature space of a kernel of single times
// ---------------------------------------------------------------------------------------------

// One series against a batch of others, from the kernel values of their times.
template <class Recurrence>
struct StaticSignature {
  SeriesBatch batch = {};  // lengths alone
  std::int64_t starts[kSeriesLanes] = {};
  std::int64_t lanes = 0;
  Recurrence recurrence;

  void begin(const SeriesSide& cols, std::int64_t first) {
    lanes = std::min<std::int64_t>(kSeriesLanes, cols.count - first);
    for (std::int64_t lane = 0; lane < kSeriesLanes; ++lane) {
      const std::int64_t item = first + std::min(lane, lanes - 1);
      starts[lane] = cols.starts[item];
      batch.lane_cols[lane] = cols.length(item);
      batch.cols = std::max(batch.cols, batch.lane_cols[lane]);
    }
    recurrence.begin(batch);
  }

  // Inner products of the increments to this time of the one series, and to each time of the
  // others: double differences of kernel values. They are 0 at first times, and beyond a series.
  void row(std::int64_t i, const double* above, const double* here, SeriesRow& products) {
    const SeriesBand all(i, batch.cols, kNoBand);
    products.resize(batch.cols);
    products.fill(batch.cols, 0.0);
    for (std::int64_t lane = 0; lane < lanes && i > 0; ++lane) {
      const double *a = above + starts[lane], *b = here + starts[lane];
      double change = b[0] - a[0];
      for (std::int64_t j = 1; j < batch.lane_cols[lane]; ++j) {
        const double next = b[j] - a[j];
        products[j][lane] = next - change;
        change = next;
      }
    }
    recurrence.row(i, all, products);
  }
};

template <class Make>
void run_static_signature_of(const StaticSignatureJob& job, Make make) {
  using Batch = StaticSignature<decltype(make())>;
  std::vector<Batch> batches;
  for (std::int64_t first = 0; first < job.cols.count; first += kSeriesLanes) {
    batches.push_back(Batch{.recurrence = make()});
    batches.back().begin(job.cols, first);
  }
  const auto units = static_cast<std::int64_t>(batches.size());
  std::vector<double> last(static_cast<std::size_t>(job.times));
  for (std::int64_t begin = 0; begin < job.length; begin += job.step) {
    const std::int64_t end = std::min(job.length, begin + job.step);
    const double* values = job.values(begin, end);
    auto body = [&](Worker& worker) {
      SeriesRow products;
      for (std::int64_t unit = worker.next_unit(); unit >= 0; unit = worker.next_unit()) {
        Batch& batch = batches[static_cast<std::size_t>(unit)];
        for (std::int64_t i = begin; i < end; ++i) {
          if (!worker.keep_going(batch.batch.cols * kSeriesVectors * 16)) return;
          const double* here = values + (i - begin) * job.times;
          batch.row(i, i > begin ? here - job.times : last.data(), here, products);
        }
      }
    };
    const double work = static_cast<double>((end - begin) * job.times) * 16.0;
    run_workers(units, useful_threads(job.threads, units, work), job.interrupt, WorkerBody(body));
    std::copy_n(values + (end - begin - 1) * job.times, job.times, last.begin());
  }
  double* out = job.out;
  for (const Batch& batch : batches)
    for (int lane = 0; lane < batch.lanes; ++lane)
      *out++ = batch.recurrence.result(batch.batch, lane);
}

inline void run_static_signature(const StaticSignatureJob& job) {
  with_signature(
      job.kind, job.depth, job.refinement,
      [&job](auto make) { run_static_signature_of(job, make); }, kDepthsOfSignatures);
}

// ---------------------------------------------------------------------------------------------
// Iterated integrals
// ---------------------------------------------------------------------------------------------

// Extends the integrals of one path by a straight line, by Horner's rule: with the increments d_l,
// S_m += d_m (S_{m-1} + d_{m-1} / 2 (S_{m-2} + ... + d_1 / m)), from the highest level down.
MERCER_INLINE void extend_integrals(const double* increments, int levels, std::int64_t draws,
                                    double* sums, double* term) {
  for (int m = levels; m > 0; --m) {
    const double part = 1.0 / m;
    for (std::int64_t c = 0; c < draws; ++c) term[c] = part * increments[c];
    for (int l = 1; l < m; ++l) {
      const double share = 1.0 / (m - l);
      const double *step = increments + l * draws, *lower = sums + (l - 1) * draws;
      for (std::int64_t c = 0; c < draws; ++c) term[c] = share * step[c] * (term[c] + lower[c]);
    }
    double* own = sums + (m - 1) * draws;
    for (std::int64_t c = 0; c < draws; ++c) own[c] += term[c];
  }
}

inline void run_iterated_integrals(const IteratedIntegralsJob& job) {
  const std::int64_t width = job.levels * job.draws;
  auto body = [&](Worker& worker) {
    std::vector<double> term(static_cast<std::size_t>(job.draws));
    for (std::int64_t item = worker.next_unit(); item >= 0; item = worker.next_unit()) {
      double* sums = job.out + item * width;
      std::fill_n(sums, width, 0.0);
      for (std::int64_t t = job.rows.starts[item]; t < job.rows.ends[item]; ++t) {
        if (!worker.keep_going(width * (job.levels + 1))) return;
        extend_integrals(job.rows.values + t * width, job.levels, job.draws, sums, term.data());
      }
    }
  };
  const double work = static_cast<double>(width * job.rows.count * job.rows.longest()) * job.levels;
  run_workers(job.rows.count, useful_threads(job.threads, job.rows.count, work), job.interrupt,
              WorkerBody(body));
}

constexpr SeriesTable series_table() {
  return {run_series, run_static_signature, run_iterated_integrals};
}

}  // namespace mercer::MERCER_ISA
