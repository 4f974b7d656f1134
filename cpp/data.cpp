#include "data.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "transpose.hpp"

namespace mercer {

void check_sparse(std::int64_t n, std::int64_t columns, const std::int64_t* indptr,
                  std::int64_t indptr_size, const std::int64_t* indices, std::int64_t nonzeros) {
  if (columns < 0 || columns > kMaxPoints)
    throw std::invalid_argument("Side: a sparse slot has an impossible number of columns.");
  if (indptr_size != n + 1)
    throw std::invalid_argument("Side: indptr of a sparse slot must have n + 1 entries.");
  if (indptr[0] != 0 || indptr[n] != nonzeros)
    throw std::invalid_argument("Side: indptr must start at 0 and end at the number of values.");
  for (std::int64_t i = 0; i < n; ++i)
    if (indptr[i + 1] < indptr[i])
      throw std::invalid_argument("Side: indptr of a sparse slot must not decrease.");
  for (std::int64_t e = 0; e < nonzeros; ++e)
    if (indices[e] < 0 || indices[e] >= columns)
      throw std::invalid_argument("Side: column index " + std::to_string(indices[e]) +
                                  " of a sparse slot is outside 0.." + std::to_string(columns - 1) +
                                  ".");
}

namespace {

// Rows that are picked lie anywhere: those of the next panel are fetched while one is written.
template <class S>
void prefetch(const StridedMatrix<S>& x, std::int64_t row) {
  constexpr auto kLine = static_cast<std::int64_t>(kCacheLine / sizeof(S));
  const S* numbers = x.data + row * x.row_stride;
  for (std::int64_t k = 0; k < x.columns && k < 64 * kLine; k += kLine)
    __builtin_prefetch(numbers + k);
}

}  // namespace

template <class T>
bool all_finite(const StridedMatrix<T>& x) {
  // Walk memory in its own order: the smaller stride inside.
  StridedMatrix<T> view = x;
  if (std::abs(view.row_stride) < std::abs(view.column_stride)) {
    std::swap(view.rows, view.columns);
    std::swap(view.row_stride, view.column_stride);
  }
  if (view.column_stride == 1 && view.row_stride == view.columns) {
    view.columns *= view.rows;
    view.rows = 1;
  }
  for (std::int64_t i = 0; i < view.rows; ++i) {
    const T* row = view.data + i * view.row_stride;
    // x * 0 is 0 for finite x and NaN otherwise; eight partial sums let the compiler vectorise.
    T sums[8] = {};
    std::int64_t k = 0;
    if (view.column_stride == 1) {
      for (; k + 8 <= view.columns; k += 8)
        for (int s = 0; s < 8; ++s) sums[s] += row[k + s] * T(0);
    }
    for (; k < view.columns; ++k) sums[0] += row[k * view.column_stride] * T(0);
    T total = 0;
    for (T sum : sums) total += sum;
    if (!(total == T(0))) return false;
  }
  return true;
}

namespace {

// Columns that are packed together: their part of a panel stays in the first-level cache.
constexpr std::int64_t kPackDepth = 256;

// (x - centre) * scale of some columns of one row.
template <class S, class T>
void convert(const S* __restrict x, std::int64_t stride, const double* __restrict centre,
             const double* __restrict scale, std::int64_t count, T* __restrict out) {
  if (stride == 1)
    for (std::int64_t k = 0; k < count; ++k)
      out[k] = static_cast<T>((static_cast<double>(x[k]) - centre[k]) * scale[k]);
  else
    for (std::int64_t k = 0; k < count; ++k)
      out[k] = static_cast<T>((static_cast<double>(x[k * stride]) - centre[k]) * scale[k]);
}

// out[k][lane] = rows[lane][k]
template <class T>
void interleave(const T* const* rows, std::int64_t depth, T* out) {
  using namespace generic;
  constexpr std::int64_t W = kPanelPoints<T>, L = kLanes<T>;
  std::int64_t k = 0;
  for (; k + L <= depth; k += L)
    for (std::int64_t lane = 0; lane < W; lane += L) {
      Vec<T> square[L];
#pragma GCC unroll 4
      for (std::int64_t i = 0; i < L; ++i) square[i] = load_unaligned<T>(rows[lane + i] + k);
      transpose<T>(square);
#pragma GCC unroll 4
      for (std::int64_t i = 0; i < L; ++i) store<T>(out + (k + i) * W + lane, square[i]);
    }
  for (; k < depth; ++k)
    for (std::int64_t lane = 0; lane < W; ++lane) out[k * W + lane] = rows[lane][k];
}

// One panel, of the rows from `first` on.
template <class S, class T>
void pack_panel(const StridedMatrix<S>& x, RowSelection rows, std::int64_t first,
                const double* centre, const double* scale, T* panel) {
  constexpr std::int64_t W = kPanelPoints<T>;
  static const T zeros[kPackDepth] = {};
  const bool by_rows = std::abs(x.column_stride) <= std::abs(x.row_stride);
  const bool as_they_are = std::is_same_v<S, T> && x.column_stride == 1 && !centre && !scale;
  const std::int64_t count = std::min(rows.count - first, W);
  const std::int64_t most = std::min(kPackDepth, x.columns);
  const S* sources[W];
  for (std::int64_t lane = 0; lane < count; ++lane) {
    sources[lane] = x.data + rows[first + lane] * x.row_stride;
    if (by_rows && rows.positions && first + W + lane < rows.count)
      prefetch(x, rows[first + W + lane]);
  }
  double shifts[kPackDepth], factors[kPackDepth];
  if (!centre) std::fill_n(shifts, most, 0.0);
  if (!scale) std::fill_n(factors, most, 1.0);
  T converted[W][kPackDepth + W];  // a distance that is no power of two: sets of the cache differ
  const T* ready[W];
  for (std::int64_t lane = 0; lane < W; ++lane)
    ready[lane] = lane < count ? converted[lane] : zeros;
  for (std::int64_t begin = 0; begin < x.columns; begin += kPackDepth) {
    const std::int64_t depth = std::min(kPackDepth, x.columns - begin);
    if (centre) std::copy_n(centre + begin, depth, shifts);
    if (scale) std::copy_n(scale + begin, depth, factors);
    // In the order in which the numbers lie in memory.
    if (by_rows) {
      for (std::int64_t lane = 0; lane < count; ++lane) {
        const S* source = sources[lane] + begin * x.column_stride;
        if constexpr (std::is_same_v<S, T>)
          if (as_they_are) ready[lane] = source;
        if (!as_they_are) convert(source, x.column_stride, shifts, factors, depth, converted[lane]);
      }
    } else {
      for (std::int64_t k = 0; k < depth; ++k)
        for (std::int64_t lane = 0; lane < count; ++lane) {
          const auto value = static_cast<double>(sources[lane][(begin + k) * x.column_stride]);
          converted[lane][k] = static_cast<T>((value - shifts[k]) * factors[k]);
        }
    }
    interleave(ready, depth, panel + begin * W);
  }
}

}  // namespace

template <class S, class T>
bool pack_panels(const StridedMatrix<S>& x, RowSelection rows, const double* centre,
                 const double* scale, T* panels, int threads, Interrupt interrupt) {
  constexpr std::int64_t W = kPanelPoints<T>;
  constexpr std::int64_t kUnitSize = 1 << 15;
  const std::int64_t size = std::max<std::int64_t>(x.columns, 1) * W;
  const std::int64_t step = divide_up(kUnitSize, size) * W;  // rows of a unit
  const std::int64_t units = divide_up(rows.count, step);
  std::atomic<bool> is_finite{true};
  auto body = [&](Worker& worker) {
    for (std::int64_t u = worker.next_unit(); u >= 0; u = worker.next_unit()) {
      const std::int64_t end = std::min((u + 1) * step, rows.count);
      for (std::int64_t first = u * step; first < end; first += W) {
        T* panel = panels + first * x.columns;
        pack_panel(x, rows, first, centre, scale, panel);
        if (!all_finite<T>({panel, W, x.columns, x.columns, 1})) is_finite = false;
        worker.keep_going(x.columns * W);
      }
    }
  };
  const double work = 30.0 * static_cast<double>(rows.count) * static_cast<double>(x.columns);
  run_workers(units, useful_threads(threads, units, work), interrupt, WorkerBody(body));
  return is_finite;
}

namespace {

template <class T>
T middle_of(T a, T b, T c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}

// The middle of three middles of three rows, for all columns.
template <class T>
void middles_of_nine(const StridedMatrix<T>& x, double* middles) {
  const T* row[9];
  for (std::int64_t i = 0; i < 9; ++i) row[i] = x.data + i * (x.rows - 1) / 8 * x.row_stride;
  const auto middle = [&](std::int64_t k) {
    return middle_of(middle_of(row[0][k], row[3][k], row[6][k]),
                     middle_of(row[1][k], row[4][k], row[7][k]),
                     middle_of(row[2][k], row[5][k], row[8][k]));
  };
  if (x.column_stride == 1)
    for (std::int64_t k = 0; k < x.columns; ++k) middles[k] = static_cast<double>(middle(k));
  else
    for (std::int64_t k = 0; k < x.columns; ++k)
      middles[k] = static_cast<double>(middle(k * x.column_stride));
}

}  // namespace

template <class T>
void column_middles(const StridedMatrix<T>& x, double* middles) {
  // Many columns cannot afford the median of many rows.
  constexpr std::int64_t kMany = 1024, kMost = 127;
  if (x.columns > kMany && x.rows >= 9) return middles_of_nine(x, middles);
  const std::int64_t step = divide_up(x.rows, kMost), count = divide_up(x.rows, step);
  T sample[kMost];
  for (std::int64_t k = 0; k < x.columns; ++k) {
    for (std::int64_t i = 0; i < count; ++i)
      sample[i] = x.data[i * step * x.row_stride + k * x.column_stride];
    std::nth_element(sample, sample + count / 2, sample + count);
    middles[k] = static_cast<double>(sample[count / 2]);
  }
}

template <class T>
void column_ranges(const StridedMatrix<T>& x, double* least, double* largest) {
  const auto columns = static_cast<std::size_t>(x.columns);
  const bool by_rows = x.column_stride == 1;
  std::vector<T> low(columns), high(columns);
  const auto include = [&](std::size_t k, T value) {
    low[k] = value < low[k] ? value : low[k];
    high[k] = value > high[k] ? value : high[k];
  };
  for (std::size_t k = 0; k < columns; ++k) {
    const T* column = x.data + static_cast<std::int64_t>(k) * x.column_stride;
    low[k] = high[k] = *column;
    for (std::int64_t i = 1; !by_rows && i < x.rows; ++i) include(k, column[i * x.row_stride]);
  }
  for (std::int64_t i = 1; by_rows && i < x.rows; ++i)
    for (std::size_t k = 0; k < columns; ++k)
      include(k, x.data[i * x.row_stride + static_cast<std::int64_t>(k)]);
  std::copy(low.begin(), low.end(), least);
  std::copy(high.begin(), high.end(), largest);
}

template void column_ranges(const StridedMatrix<float>&, double*, double*);
template void column_ranges(const StridedMatrix<double>&, double*, double*);
template void column_middles(const StridedMatrix<float>&, double*);
template void column_middles(const StridedMatrix<double>&, double*);
template bool pack_panels(const StridedMatrix<float>&, RowSelection, const double*, const double*,
                          float*, int, Interrupt);
template bool pack_panels(const StridedMatrix<float>&, RowSelection, const double*, const double*,
                          double*, int, Interrupt);
template bool pack_panels(const StridedMatrix<double>&, RowSelection, const double*, const double*,
                          float*, int, Interrupt);
template bool pack_panels(const StridedMatrix<double>&, RowSelection, const double*, const double*,
                          double*, int, Interrupt);
template bool all_finite(const StridedMatrix<float>&);
template bool all_finite(const StridedMatrix<double>&);

}  // namespace mercer
