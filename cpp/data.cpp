#include "data.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

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
  for (std::int64_t k = 0; k < x.columns; k += kLine) __builtin_prefetch(numbers + k);
}

}  // namespace

template <class S, class T>
void pack_panels(const StridedMatrix<S>& x, RowSelection rows, const double* centre,
                 const double* scale, T* panels) {
  constexpr std::int64_t W = kPanelPoints<T>;
  const bool by_rows = std::abs(x.column_stride) <= std::abs(x.row_stride);
  const S* sources[W];
  for (std::int64_t first = 0; first < rows.count; first += W, panels += x.columns * W) {
    const std::int64_t count = std::min(rows.count - first, W);
    if (count < W) std::fill_n(panels, x.columns * W, T(0));
    for (std::int64_t lane = 0; lane < count; ++lane)
      sources[lane] = x.data + rows[first + lane] * x.row_stride;
    const auto put = [&](const S* source, std::int64_t lane, std::int64_t k) {
      const double shift = centre ? centre[k] : 0.0, factor = scale ? scale[k] : 1.0;
      const auto value = static_cast<double>(source[k * x.column_stride]);
      panels[k * W + lane] = static_cast<T>((value - shift) * factor);
    };
    // In the order in which the numbers lie in memory.
    if (by_rows) {
      for (std::int64_t lane = 0; lane < count; ++lane) {
        if (rows.positions && first + W + lane < rows.count) prefetch(x, rows[first + W + lane]);
        for (std::int64_t k = 0; k < x.columns; ++k) put(sources[lane], lane, k);
      }
    } else {
      for (std::int64_t k = 0; k < x.columns; ++k)
        for (std::int64_t lane = 0; lane < count; ++lane) put(sources[lane], lane, k);
    }
  }
}

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

template <class T>
void column_middles(const StridedMatrix<T>& x, double* middles) {
  const std::int64_t step = divide_up(x.rows, kMiddleSample), count = divide_up(x.rows, step);
  T sample[kMiddleSample];
  for (std::int64_t k = 0; k < x.columns; ++k) {
    for (std::int64_t i = 0; i < count; ++i)
      sample[i] = x.data[i * step * x.row_stride + k * x.column_stride];
    std::nth_element(sample, sample + count / 2, sample + count);
    middles[k] = static_cast<double>(sample[count / 2]);
  }
}

template void column_middles(const StridedMatrix<float>&, double*);
template void column_middles(const StridedMatrix<double>&, double*);
template void pack_panels(const StridedMatrix<float>&, RowSelection, const double*, const double*,
                          float*);
template void pack_panels(const StridedMatrix<float>&, RowSelection, const double*, const double*,
                          double*);
template void pack_panels(const StridedMatrix<double>&, RowSelection, const double*, const double*,
                          float*);
template void pack_panels(const StridedMatrix<double>&, RowSelection, const double*, const double*,
                          double*);
template bool all_finite(const StridedMatrix<float>&);
template bool all_finite(const StridedMatrix<double>&);

}  // namespace mercer
