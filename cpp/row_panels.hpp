// Products A B' of matrices whose rows lie in panels: the level-3 arithmetic of symmetric matrices.
//
// A panel holds L rows (the lanes of a vector) column by column, so that L entries of a column are
// one vector. A tile of C -= A B' keeps 3 L rows and a few columns in registers and walks along the
// columns of A and B, which are contiguous in both: nothing is packed or transposed on the way.
#pragma once

#include <algorithm>

#include "memory.hpp"
#include "transpose.hpp"

namespace mercer::MERCER_ISA {

// Rows and columns of a tile: 12 sums, three vectors of A and one entry of B fill 16 registers.
template <class T>
inline constexpr std::int64_t kTileRows = 3 * kLanes<T>;
template <class T>
inline constexpr std::int64_t kTileColumns = std::min(4, kLanes<T>);
// Rows of a block, a multiple of those of every tile. So many rows of A, kProductDepth columns of
// them, stay in the second-level cache.
inline constexpr std::int64_t kBlockRows = 96;
inline constexpr std::int64_t kProductDepth = 512;

// A matrix in panels that are `columns` vectors long.
template <class T>
struct RowPanels {
  T* data = nullptr;
  std::int64_t columns = 0;

  T* at(std::int64_t i, std::int64_t j) const {
    constexpr std::int64_t L = kLanes<T>;
    return data + (i / L) * L * columns + j * L + i % L;
  }
  // The part from row `i`, a multiple of L, and column `j` on.
  RowPanels from(std::int64_t i, std::int64_t j) const { return {at(i, j), columns}; }
  std::int64_t panel_stride() const { return kLanes<T> * columns; }
};

struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

// ---------------------------------------------------------------------------------------------
// Moving entries; rows and columns are multiples of L where vectors are transposed
// ---------------------------------------------------------------------------------------------

template <class T>
void copy_panels(RowPanels<T> from, RowPanels<T> to, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t i = 0; i < rows; i += kLanes<T>)
    std::copy_n(from.at(i, 0), columns * kLanes<T>, to.at(i, 0));
}

template <class T>
void clear_panels(RowPanels<T> target, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t i = 0; i < rows; i += kLanes<T>)
    std::fill_n(target.at(i, 0), columns * kLanes<T>, T(0));
}

// to = from', for `rows` rows and `columns` columns of `from`.
template <class T>
void transpose_panels(RowPanels<T> from, RowPanels<T> to, std::int64_t rows, std::int64_t columns) {
  constexpr int L = kLanes<T>;
  for (std::int64_t i = 0; i < rows; i += L)
    for (std::int64_t j = 0; j < columns; j += L) {
      Vec<T> square[L];
#pragma GCC unroll 16
      for (int v = 0; v < L; ++v) square[v] = load<T>(from.at(i, j + v));
      transpose<T>(square);
#pragma GCC unroll 16
      for (int v = 0; v < L; ++v) store<T>(to.at(j, i + v), square[v]);
    }
}

// ---------------------------------------------------------------------------------------------
// Products
// ---------------------------------------------------------------------------------------------

template <class T>
using TileSums = Vec<T>[kTileColumns<T>][3];

// sums[j][v] = sum_k a[v][k] b[j][k] over `depth` columns. Meanwhile an eighth as many columns of
// the panel at `ahead` are fetched, which may be in the cache of another core.
template <class T>
MERCER_INLINE void tile_product(const T* a, std::int64_t panel_stride, const T* b,
                                std::int64_t depth, const T* ahead, TileSums<T>& sums) {
  constexpr int W = static_cast<int>(kTileColumns<T>);
  constexpr std::int64_t L = kLanes<T>;
#pragma GCC unroll 4
  for (int j = 0; j < W; ++j)
#pragma GCC unroll 3
    for (int v = 0; v < 3; ++v) sums[j][v] = Vec<T>{};
  for (std::int64_t k = 0; k < depth * L; k += L) {
    const Vec<T> a0 = load<T>(a + k), a1 = load<T>(a + panel_stride + k),
                 a2 = load<T>(a + 2 * panel_stride + k);
    __builtin_prefetch(ahead + k / 8, 0, 2);
#pragma GCC unroll 4
    for (int j = 0; j < W; ++j) {
      const Vec<T> bj = broadcast<T>(b[k + j]);
      sums[j][0] += a0 * bj;
      sums[j][1] += a1 * bj;
      sums[j][2] += a2 * bj;
    }
  }
}

// The tiles of a block that are wanted: all, or those that reach its diagonal or what is below or
// above it.
enum class Tiles { all, lower, upper };
// Where a row of A or B begins: in the first column of the product, or, in an upper triangle, on
// the diagonal; what is left of it is not read.
enum class Rows { full, upper };

template <class T>
constexpr bool wanted(Tiles tiles, std::int64_t i, std::int64_t j) {
  if (tiles == Tiles::lower) return i + kTileRows<T> > j;
  return tiles == Tiles::all || i < j + kTileColumns<T>;
}

// C -= A B' for the given rows of A (of C, which begins there) and rows of B (columns of C), over
// the columns `depth` of both.
template <class T, Tiles tiles = Tiles::all, Rows rows_a = Rows::full, Rows rows_b = Rows::full>
void subtract_product(RowPanels<T> c, RowPanels<T> a, RowPanels<T> b, Range rows, Range columns,
                      Range depth) {
  constexpr std::int64_t L = kLanes<T>, W = kTileColumns<T>, R = kTileRows<T>;
  for (std::int64_t k = depth.begin; k < depth.end; k += kProductDepth) {
    const std::int64_t end = std::min(k + kProductDepth, depth.end);
    for (std::int64_t j = columns.begin; j < columns.end; j += W)
      for (std::int64_t i = rows.begin; i < rows.end; i += R) {
        std::int64_t begin = k;
        if (rows_a == Rows::upper) begin = std::max(begin, i);
        if (rows_b == Rows::upper) begin = std::max(begin, j);
        if (begin >= end || !wanted<T>(tiles, i, j)) continue;
        TileSums<T> sums;
        // Tiles of the next panel of B, a share of it for each tile of this one.
        const std::int64_t tile = j % L / W * (kBlockRows / R) + (i - rows.begin) / R;
        const T* ahead = b.at(j - j % L + L, begin + tile * (end - begin) / 8);
        tile_product<T>(a.at(i, begin), a.panel_stride(), b.at(j, begin), end - begin, ahead, sums);
        T* target = c.at(i - rows.begin, j - columns.begin);
#pragma GCC unroll 4
        for (int w = 0; w < W; ++w)
#pragma GCC unroll 3
          for (int v = 0; v < 3; ++v) {
            T* entry = target + v * c.panel_stride() + w * L;
            store<T>(entry, load<T>(entry) - sums[w][v]);
          }
      }
  }
}

// C = A D' for `rows` rows of A; D is lower triangular, of the given order.
template <class T>
void multiply_by_transposed(RowPanels<T> c, RowPanels<T> a, RowPanels<T> d, std::int64_t rows,
                            std::int64_t order) {
  constexpr std::int64_t L = kLanes<T>, W = kTileColumns<T>, R = kTileRows<T>;
  for (std::int64_t j = 0; j < order; j += W)
    for (std::int64_t i = 0; i < rows; i += R) {
      TileSums<T> sums;
      tile_product<T>(a.at(i, 0), a.panel_stride(), d.at(j, 0), j + W, d.data, sums);
      T* target = c.at(i, j);
#pragma GCC unroll 4
      for (int w = 0; w < W; ++w)
#pragma GCC unroll 3
        for (int v = 0; v < 3; ++v) store<T>(target + v * c.panel_stride() + w * L, sums[w][v]);
    }
}

// out[i] += scale * sum_k a[i][k] x[k] for the given rows and columns of A; out begins with the
// first of the rows, which are whole tiles.
template <class T>
void add_rows_times(RowPanels<T> a, const T* x, Range rows, Range columns, T scale, T* out) {
  constexpr std::int64_t L = kLanes<T>, R = kTileRows<T>;
  for (std::int64_t i = rows.begin; i < rows.end; i += R) {
    Vec<T> sums[2][3] = {};
    const T* entries = a.at(i, 0);
    const std::int64_t stride = a.panel_stride();
    for (std::int64_t k = columns.begin; k < columns.end; k += 2)
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half)  // two chains, to hide the latency of an addition
#pragma GCC unroll 3
        for (int v = 0; v < 3; ++v)
          sums[half][v] +=
              load<T>(entries + v * stride + (k + half) * L) * broadcast<T>(x[k + half]);
    for (int v = 0; v < 3; ++v) {
      T* target = out + i - rows.begin + v * L;
      const Vec<T> sum = sums[0][v] + sums[1][v];
      store_unaligned<T>(target, load_unaligned<T>(target) + broadcast<T>(scale) * sum);
    }
  }
}

}  // namespace mercer::MERCER_ISA
