// The inverse of a symmetric positive definite matrix G, its determinant and solutions of G x = y.
//
// With blocks of rows I, J, the factor G = L L', D_J = L_JJ^-1 and U = (L^-1)', three passes, each
// made of products of rows with rows:
//
//   L_IJ = (G_IJ - sum_{k<J} L_Ik L_Jk') D_J',
//   U_JI = -(sum_{J<=k<I} U_Jk L_Ik') D_I',        U_JJ = D_J',
//   P_IJ = sum_{k>=I} U_Ik U_Jk',                  P = G^-1.
//
// U takes the upper triangle of the memory whose lower triangle holds L. Diagonal blocks are
// treated by the same recurrences, tile by tile.
#pragma once

#include <cmath>
#include <vector>

#include "engine.hpp"
#include "row_panels.hpp"
#include "team.hpp"

namespace mercer::MERCER_ISA {

// ---------------------------------------------------------------------------------------------
// One tile: plain loops
// ---------------------------------------------------------------------------------------------

// The factor of a tile, in its lower triangle; false if there is none. Vectors run down a column,
// and what they hold above the diagonal is arbitrary.
template <class T>
bool factorise_tile(RowPanels<T> a) {
  constexpr std::int64_t L = kLanes<T>, R = kTileRows<T>;
  for (std::int64_t k = 0; k < R; ++k) {
    const T pivot = *a.at(k, k);
    if (!(pivot > T(0)) || !std::isfinite(pivot)) return false;
    const Vec<T> root = broadcast<T>(std::sqrt(pivot));
    for (std::int64_t i = k - k % L; i < R; i += L)
      store<T>(a.at(i, k), load<T>(a.at(i, k)) / root);
    for (std::int64_t j = k + 1; j < R; ++j) {
      const Vec<T> factor = broadcast<T>(*a.at(j, k));
      for (std::int64_t i = j - j % L; i < R; i += L)
        store<T>(a.at(i, j), load<T>(a.at(i, j)) - load<T>(a.at(i, k)) * factor);
    }
  }
  return true;
}

// d = l^-1, zero above the diagonal: the inverse of l with columns divided by their diagonal
// entries, whose rows are then divided by these.
template <class T>
void invert_tile(RowPanels<T> l, RowPanels<T> d) {
  constexpr std::int64_t L = kLanes<T>, R = kTileRows<T>;
  alignas(kCacheLine) T inverses[R], below[R];
  clear_panels<T>(d, R, R);
  for (std::int64_t k = 0; k < R; ++k) {
    inverses[k] = T(1) / *l.at(k, k);
    *d.at(k, k) = T(1);
  }
  for (std::int64_t k = 0; k < R; ++k) {
    for (std::int64_t i = 0; i < R; ++i) below[i] = i > k ? *l.at(i, k) * inverses[k] : T(0);
    for (std::int64_t j = 0; j <= k; ++j) {
      const Vec<T> factor = broadcast<T>(*d.at(k, j));
      for (std::int64_t i = k - k % L; i < R; i += L)
        store<T>(d.at(i, j), load<T>(d.at(i, j)) - load<T>(below + i) * factor);
    }
  }
  for (std::int64_t j = 0; j < R; ++j)
    for (std::int64_t i = j - j % L; i < R; i += L)
      store<T>(d.at(i, j), load<T>(d.at(i, j)) * load<T>(inverses + i));
}

// ---------------------------------------------------------------------------------------------
// Blocks
// ---------------------------------------------------------------------------------------------

// Blocks of columns that one block of rows is multiplied with in turn: while they pass by, it stays
// in the second-level cache.
inline constexpr std::int64_t kGroupBlocks = 4;

// Room for the work on one block.
template <class T>
struct BlockRoom {
  AlignedBuffer<T> copy{kBlockRows * kBlockRows}, work{kGroupBlocks * kBlockRows * kBlockRows};
};

// block = block D', D lower triangular.
template <class T>
void multiply_in_place(RowPanels<T> block, RowPanels<T> d, std::int64_t rows, std::int64_t order,
                       BlockRoom<T>& room) {
  const RowPanels<T> copy{room.copy.data(), order};
  copy_panels<T>(block, copy, rows, order);
  multiply_by_transposed<T>(block, copy, d, rows, order);
}

// L_IJ, from what is in its place: G_IJ less the products with all columns before `first`. d is
// D_J.
template <class T>
void factorise_block(RowPanels<T> a, RowPanels<T> d, Range rows, Range columns, std::int64_t first,
                     BlockRoom<T>& room) {
  const RowPanels<T> block = a.from(rows.begin, columns.begin);
  subtract_product<T>(block, a, a, rows, columns, {first, columns.begin});
  multiply_in_place<T>(block, d, rows.size(), columns.size(), room);
}

// U_JI, from what is in its place: less the products with all columns before `first`. d is D_I.
template <class T>
void invert_block(RowPanels<T> u, RowPanels<T> l, RowPanels<T> d, Range rows, Range columns,
                  std::int64_t first, BlockRoom<T>& room) {
  const RowPanels<T> block = u.from(rows.begin, columns.begin);
  subtract_product<T, Tiles::all, Rows::upper>(block, u, l, rows, columns, {first, columns.begin});
  multiply_in_place<T>(block, d, rows.size(), columns.size(), room);
}

// L_JJ of `order` rows, and the tiles on the diagonal of D_J, tile by tile; false if there is none.
template <class T>
bool factorise_diagonal(RowPanels<T> a, RowPanels<T> d, std::int64_t order, BlockRoom<T>& room) {
  constexpr std::int64_t R = kTileRows<T>;
  for (std::int64_t j = 0; j < order; j += R) {
    const Range tile{j, j + R}, below{j + R, order};
    subtract_product<T>(a.from(j, j), a, a, tile, tile, {0, j});
    if (!factorise_tile<T>(a.from(j, j))) return false;
    invert_tile<T>(a.from(j, j), d.from(j, j));
    if (below.size() > 0) factorise_block<T>(a, d.from(j, j), below, tile, 0, room);
  }
  return true;
}

// D_J of `order` rows, from the tiles on its diagonal.
template <class T>
void invert_diagonal(RowPanels<T> l, RowPanels<T> d, std::int64_t order, BlockRoom<T>& room) {
  constexpr std::int64_t R = kTileRows<T>;
  const RowPanels<T> u{room.work.data(), order};
  for (std::int64_t j = 0; j < order; j += R) {
    transpose_panels<T>(d.from(j, j), u.from(j, j), R, R);
    for (std::int64_t i = j + R; i < order; i += R) {
      clear_panels<T>(u.from(j, i), R, R);
      invert_block<T>(u, l, d.from(i, i), {j, j + R}, {i, i + R}, j, room);
      transpose_panels<T>(u.from(j, i), d.from(i, j), R, R);
      clear_panels<T>(d.from(j, i), R, R);
    }
  }
}

// ---------------------------------------------------------------------------------------------
// The whole matrix
// ---------------------------------------------------------------------------------------------

template <class T>
class SymmetricInverse {
 public:
  explicit SymmetricInverse(const InverseJob<T>& job)
      : job_(job),
        order_(round_up(job.n, kTileRows<T>)),
        blocks_(divide_up(order_, kBlockRows)),
        data_(order_ * order_),
        inverses_(blocks_ * kBlockRows * kBlockRows),
        solutions_(order_ * job.right_sides) {}

  // False, with nothing changed, if the matrix is not positive definite.
  bool run() {
    const double work = static_cast<double>(order_) * static_cast<double>(order_ * order_);
    const int threads = useful_threads(job_.threads, blocks_, work);
    rooms_ = std::vector<BlockRoom<T>>(static_cast<std::size_t>(threads));
    bool exists = false;
    Team::run(threads, job_.interrupt, [&](Team& team) {
      team_ = &team;
      read();
      exists = factorise();
      if (!exists) return;
      *job_.log_determinant = log_determinant();
      invert();
      write_inverse();
    });
    return exists;
  }

 private:
  Range block(std::int64_t i) const {
    return {i * kBlockRows, std::min((i + 1) * kBlockRows, order_)};
  }
  // Up to kGroupBlocks blocks from `first` on.
  Range group(std::int64_t first) const {
    return {first * kBlockRows, std::min((first + kGroupBlocks) * kBlockRows, order_)};
  }
  RowPanels<T> diagonal_inverse(std::int64_t i) {
    return {inverses_.data() + i * kBlockRows * kBlockRows, block(i).size()};
  }
  RowPanels<T> panels() { return {data_.data(), order_}; }
  T* solution(std::int64_t column) { return solutions_.data() + column * order_; }

  // Calls task(unit, room) for every unit of about `depth` columns, on several threads. Returns
  // false if the call is to end: what is computed then does not matter.
  template <class Task>
  bool share(std::int64_t units, std::int64_t depth, Task task) {
    const std::int64_t work = kBlockRows * kBlockRows * depth / kLanes<T>;
    return team_->share(units, work, [&](std::int64_t unit, int member) {
      task(unit, rooms_[static_cast<std::size_t>(member)]);
    });
  }

  // The lower triangle, padded by an identity.
  void read() {
    share(blocks_, order_ / kBlockRows, [&](std::int64_t unit, BlockRoom<T>&) {
      const Range rows = block(blocks_ - 1 - unit);  // the longest first
      for (std::int64_t i = rows.begin; i < rows.end; i += kLanes<T>) read_rows(i);
    });
  }

  void read_rows(std::int64_t i) {
    constexpr std::int64_t L = kLanes<T>;
    const RowPanels<T> a = panels();
    if (i + L <= job_.n) {
      read_panel(i);
    } else {
      for (std::int64_t row = i; row < i + L; ++row)
        for (std::int64_t k = 0; k < i + L; ++k)
          *a.at(row, k) = row < job_.n && k < row ? job_.matrix[row * job_.stride + k] : T(0);
    }
    for (std::int64_t row = i; row < i + L; ++row)
      *a.at(row, row) = row < job_.n ? job_.diagonal[row] : T(1);
  }

  void read_panel(std::int64_t i) {
    constexpr int L = kLanes<T>;
    const RowPanels<T> a = panels();
    for (std::int64_t k = 0; k <= i; k += L) {
      Vec<T> square[L];
#pragma GCC unroll 16
      for (int v = 0; v < L; ++v)
        square[v] = load_unaligned<T>(job_.matrix + (i + v) * job_.stride + k);
      transpose<T>(square);
#pragma GCC unroll 16
      for (int v = 0; v < L; ++v) store<T>(a.at(i, k + v), square[v]);
    }
  }

  // Group by group of columns: what earlier groups contribute is subtracted at once. Whoever
  // completes the rows of a corner factorises it, while other threads do the rows below.
  bool factorise() {
    const RowPanels<T> a = panels();
    for (std::int64_t first = 0; first < blocks_; first += kGroupBlocks) {
      const Range columns = group(first);
      const auto subtract = [&](std::int64_t unit, BlockRoom<T>& room) {
        const Range rows = block(first + unit);
        subtract_product<T, Tiles::lower>(a.from(rows.begin, columns.begin), a, a, rows, columns,
                                          {0, columns.begin});
        if (unit == 0) factorise_corner(first, columns.begin, room);
      };
      if (!share(blocks_ - first, kGroupBlocks * columns.begin, subtract)) return false;
      for (std::int64_t j = first; block(j).begin < columns.end && !refused_; ++j)
        if (!factorise_column(j, columns)) return false;
      if (refused_) return false;
    }
    return true;
  }

  // The blocks below corner j, and corner j + 1 if it is one of the group.
  bool factorise_column(std::int64_t j, Range columns) {
    const auto task = [&](std::int64_t unit, BlockRoom<T>& room) {
      const std::int64_t i = j + 1 + unit;
      factorise_block<T>(panels(), diagonal_inverse(j), block(i), block(j), columns.begin, room);
      if (unit == 0 && block(i).begin < columns.end) factorise_corner(i, columns.begin, room);
    };
    return share(blocks_ - j - 1, block(j).end - columns.begin, task);
  }

  // L_JJ, D_J and z_J, from rows from which all columns before `first` have been subtracted.
  void factorise_corner(std::int64_t j, std::int64_t first, BlockRoom<T>& room) {
    const RowPanels<T> a = panels(), d = diagonal_inverse(j);
    const Range rows = block(j);
    const RowPanels<T> corner = a.from(rows.begin, rows.begin);
    subtract_product<T, Tiles::lower>(corner, a, a, rows, rows, {first, rows.begin});
    refused_ = !factorise_diagonal<T>(corner, d, rows.size(), room);
    if (refused_) return;
    invert_diagonal<T>(corner, d, rows.size(), room);
    solve_forward(j, room);
  }

  double log_determinant() {
    double sum = 0.0;
    for (std::int64_t i = 0; i < job_.n; ++i)
      sum += std::log(static_cast<double>(*panels().at(i, i)));
    return 2.0 * sum;
  }

  // z_J = D_J (y_J - sum_{k<J} L_Jk z_k).
  void solve_forward(std::int64_t j, BlockRoom<T>& room) {
    const Range rows = block(j);
    T* left = room.copy.data();
    for (std::int64_t column = 0; column < job_.right_sides; ++column) {
      T* z = solution(column);
      for (std::int64_t i = rows.begin; i < rows.end; ++i)
        left[i - rows.begin] = i < job_.n ? job_.right[i * job_.right_stride + column] : T(0);
      add_rows_times<T>(panels(), z, rows, {0, rows.begin}, T(-1), left);
      std::fill_n(z + rows.begin, rows.size(), T(0));
      add_rows_times<T>(diagonal_inverse(j), left, {0, rows.size()}, {0, rows.size()}, T(1),
                        z + rows.begin);
    }
  }

  void invert() {
    const RowPanels<T> a = panels();
    for (std::int64_t j = 0; j < blocks_; ++j) {
      const Range rows = block(j);
      transpose_panels<T>(diagonal_inverse(j), a.from(rows.begin, rows.begin), rows.size(),
                          rows.size());
    }
    share(blocks_, order_ * blocks_ / 2, [&](std::int64_t j, BlockRoom<T>& room) {
      for (std::int64_t first = j + 1; first < blocks_; first += kGroupBlocks)
        invert_group(j, first, room);
      write_solutions(j, room);
    });
  }

  // U_JI for a group of blocks I.
  void invert_group(std::int64_t j, std::int64_t first, BlockRoom<T>& room) {
    const RowPanels<T> a = panels();
    const Range rows = block(j), columns = group(first);
    const RowPanels<T> target = a.from(rows.begin, columns.begin);
    clear_panels<T>(target, rows.size(), columns.size());
    subtract_product<T, Tiles::all, Rows::upper>(target, a, a, rows, columns,
                                                 {rows.begin, columns.begin});
    for (std::int64_t i = first; block(i).begin < columns.end; ++i)
      invert_block<T>(a, a, diagonal_inverse(i), rows, block(i), columns.begin, room);
  }

  // x_J = U_J z.
  void write_solutions(std::int64_t j, BlockRoom<T>& room) {
    const Range rows = block(j);
    T* x = room.copy.data();
    for (std::int64_t column = 0; column < job_.right_sides; ++column) {
      std::fill_n(x, rows.size(), T(0));
      add_rows_times<T>(panels(), solution(column), rows, {rows.begin, order_}, T(1), x);
      for (std::int64_t i = rows.begin; i < std::min(rows.end, job_.n); ++i)
        job_.right[i * job_.right_stride + column] = x[i - rows.begin];
    }
  }

  void write_inverse() {
    const RowPanels<T> u = panels();
    share(blocks_, order_ * blocks_ / 2, [&](std::int64_t j, BlockRoom<T>& room) {
      for (std::int64_t first = j; first < blocks_; first += kGroupBlocks) {
        const Range columns = block(j), rows = group(first), depth{rows.begin, order_};
        const RowPanels<T> sums{room.work.data(), rows.size()};
        clear_panels<T>(sums, columns.size(), rows.size());
        subtract_product<T, Tiles::upper, Rows::full, Rows::upper>(sums, u, u, columns, rows,
                                                                   depth);
        write_block(sums, rows, columns);
      }
    });
  }

  // Minus `sums`, which has the columns of P as rows, up to the diagonal.
  void write_block(RowPanels<T> sums, Range rows, Range columns) {
    constexpr std::int64_t L = kLanes<T>;
    const std::int64_t last = std::min(rows.end, job_.n);
    for (std::int64_t i = rows.begin; i < last; ++i) {
      T* out = job_.matrix + i * job_.stride + columns.begin;
      const std::int64_t count = std::min(columns.end, i + 1) - columns.begin;
      std::int64_t j = 0;
      for (; j + L <= count; j += L)
        store_unaligned<T>(out + j, -load<T>(sums.at(j, i - rows.begin)));
      for (; j < count; ++j) out[j] = -*sums.at(j, i - rows.begin);
    }
  }

  const InverseJob<T>& job_;
  std::int64_t order_, blocks_;
  BorrowedBuffer<T> data_;
  AlignedBuffer<T> inverses_, solutions_;
  std::vector<BlockRoom<T>> rooms_;  // one for each thread
  Team* team_ = nullptr;
  // Whether a corner has no factor. Written by the one unit of a phase that has a corner.
  bool refused_ = false;
};

template <class T>
bool run_inverse(const InverseJob<T>& job) {
  return SymmetricInverse<T>(job).run();
}

}  // namespace mercer::MERCER_ISA
