// The two sides of the pairs: what a program may read about a row or a column.
#pragma once

#include <cstdint>
#include <vector>

#include "memory.hpp"
#include "threads.hpp"

namespace mercer {

// Points in one panel: the lanes of a cache line, the same for every instruction set.
template <class T>
inline constexpr std::int64_t kPanelPoints = 64 / static_cast<std::int64_t>(sizeof(T));

// More points or columns than any machine holds; sizes below it can be multiplied by the number of
// lanes without overflow.
inline constexpr std::int64_t kMaxPoints = std::int64_t{1} << 53;

inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
inline std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }

// How a slot stores its columns. Dense: panels [panel][column][lane], zero padded, 64-byte aligned.
// Sparse: compressed rows whose content has been checked (see `check_sparse`). Bits: panels whose
// columns are words of zeros and ones, each as wide as T.
enum class Layout { dense, sparse, bits };

// One feature block of a side.
template <class T>
struct Slot {
  std::int64_t columns = 0;
  const T* panels = nullptr;
  Layout layout = Layout::dense;
  const std::int64_t* indptr = nullptr;
  const std::int64_t* indices = nullptr;
  const T* values = nullptr;
};

template <class T>
struct Side {
  std::int64_t n = 0;
  std::vector<Slot<T>> slots;
  // Padded with zeros to whole panels.
  std::vector<AlignedBuffer<T>> vectors;
  // Row identities, padded to whole panels; empty if the side has none.
  AlignedBuffer<std::int64_t> ids;

  std::int64_t panels() const { return divide_up(n, kPanelPoints<T>); }
};

// A row-major matrix of the size of the pairs, given from outside.
template <class T>
struct Block {
  const T* data = nullptr;
  std::int64_t stride = 0;
};

// Throws std::invalid_argument unless the compressed rows can be read safely.
void check_sparse(std::int64_t n, std::int64_t columns, const std::int64_t* indptr,
                  std::int64_t indptr_size, const std::int64_t* indices, std::int64_t nonzeros);

// A view of a matrix with any strides, counted in elements.
template <class T>
struct StridedMatrix {
  const T* data;
  std::int64_t rows, columns;
  std::int64_t row_stride, column_stride;
};

// Rows of a matrix one after another, or those at some positions.
struct RowSelection {
  std::int64_t count;
  const std::int64_t* positions = nullptr;

  std::int64_t operator[](std::int64_t i) const { return positions ? positions[i] : i; }
};

// Writes (x - centre) * scale of some rows as panels; `centre` and `scale` may be null. Computed in
// float64 and then rounded, so that data far from zero keep their digits in float32. Returns
// whether all the numbers written are finite.
template <class S, class T>
bool pack_panels(const StridedMatrix<S>& x, RowSelection rows, const double* centre,
                 const double* scale, T* panels, int threads = 1, Interrupt interrupt = {});

template <class T>
bool all_finite(const StridedMatrix<T>& x);

// A middle value of each column, from at most 127 evenly spaced rows, of many columns from nine:
// where to centre. Unlike a mean it stays with the data when a few rows are far off.
template <class T>
void column_middles(const StridedMatrix<T>& x, double* middles);

// The least and the largest value of each column.
template <class T>
void column_ranges(const StridedMatrix<T>& x, double* least, double* largest);

}  // namespace mercer
