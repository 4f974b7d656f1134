#include "data.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

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

// One panel, of the rows from `first` on.
template <class S, class T>
void pack_panel(const StridedMatrix<S>& x, RowSelection rows, std::int64_t first,
                const double* centre, const double* scale, T* panel) {
  constexpr std::int64_t W = kPanelPoints<T>;
  const bool by_rows = std::abs(x.column_stride) <= std::abs(x.row_stride);
  const std::int64_t count = std::min(rows.count - first, W);
  const S* sources[W];
  if (count < W) std::fill_n(panel, x.columns * W, T(0));
  for (std::int64_t lane = 0; lane < count; ++lane) {
    sources[lane] = x.data + rows[first + lane] * x.row_stride;
    if (by_rows && rows.positions && first + W + lane < rows.count)
      prefetch(x, rows[first + W + lane]);
  }
  const auto put = [&](const S* source, std::int64_t lane, std::int64_t k) {
    const double shift = centre ? centre[k] : 0.0, factor = scale ? scale[k] : 1.0;
    const auto value = static_cast<double>(source[k * x.column_stride]);
    panel[k * W + lane] = static_cast<T>((value - shift) * factor);
  };
  for (std::int64_t begin = 0; begin < x.columns; begin += kPackDepth) {
    const std::int64_t end = std::min(begin + kPackDepth, x.columns);
    // In the order in which the numbers lie in memory.
    if (by_rows) {
      for (std::int64_t lane = 0; lane < count; ++lane)
        for (std::int64_t k = begin; k < end; ++k) put(sources[lane], lane, k);
    } else {
      for (std::int64_t k = begin; k < end; ++k)
        for (std::int64_t lane = 0; lane < count; ++lane) put(sources[lane], lane, k);
    }
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
        if (!all_finite<T>({panel, 1, x.columns * W, 0, 1})) is_finite = false;
        worker.keep_going(x.columns * W);
      }
    }
  };
  const double work = 8.0 * static_cast<double>(rows.count) * static_cast<double>(x.columns);
  run_workers(units, useful_threads(threads, units, work), interrupt, WorkerBody(body));
  return is_finite;
}

template <class T>
void column_middles(const StridedMatrix<T>& x, double* middles) {
  // The middle of 15 values costs a tenth of that of 127, and is wanted of 100,000 columns.
  constexpr std::int64_t kMost = 127, kLeast = 15, kNumbers = 1 << 19;
  const std::int64_t wanted =
      std::clamp(kNumbers / std::max<std::int64_t>(x.columns, 1), kLeast, kMost);
  const std::int64_t step = divide_up(x.rows, wanted), count = divide_up(x.rows, step);
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
