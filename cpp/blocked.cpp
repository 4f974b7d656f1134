#include "blocked.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "data.hpp"
#include "team.hpp"

namespace mercer {

namespace {

// Rows and columns of a tile of a product: large enough for BLAS to be at full speed.
constexpr std::int64_t kTile = 256;
// Rows of a factor that one thread computes while the others wait.
constexpr std::int64_t kPivots = 192;
// Rows of a tile that has few columns: such a product waits for memory.
constexpr std::int64_t kThinTile = 512;

struct Span {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
};

// The spans of equal size that cover `size`, of about `width` each.
std::vector<Span> spans(std::int64_t size, std::int64_t width) {
  const std::int64_t count = std::max<std::int64_t>(1, (size + width / 2) / width);
  std::vector<Span> result;
  for (std::int64_t i = 0; i < count; ++i)
    result.push_back({size * i / count, size * (i + 1) / count});
  return result;
}

std::int64_t vectors(std::int64_t operations) { return operations / 8; }

}  // namespace

template <class T>
void blocked_product(const Blas<T>& blas, char trans_a, char trans_b, T alpha, Part<T> a, Part<T> b,
                     T beta, Part<T> c, Triangle triangle, Sharing sharing) {
  const std::int64_t depth = trans_a == 'N' ? a.columns : a.rows;
  const auto rows = spans(c.rows, c.columns < kTile ? kThinTile : kTile);
  const auto columns = spans(c.columns, c.rows < kTile ? kThinTile : kTile);
  std::vector<std::pair<Span, Span>> tiles;
  for (const Span& across : columns)
    for (const Span& down : rows)
      if (triangle == Triangle::all ||
          (triangle == Triangle::lower ? down.end > across.begin : across.end > down.begin))
        tiles.push_back({down, across});
  const auto units = static_cast<std::int64_t>(tiles.size());
  const bool is_square =
      triangle != Triangle::all && a.data == b.data && a.stride == b.stride && trans_a != trans_b;
  auto body = [&](Worker& worker) {
    for (std::int64_t unit = worker.next_unit(); unit >= 0; unit = worker.next_unit()) {
      const auto [down, across] = tiles[static_cast<std::size_t>(unit)];
      const Part<T> left = trans_a == 'N' ? a.from(down.begin, 0, down.size(), depth)
                                          : a.from(0, down.begin, depth, down.size());
      const Part<T> right = trans_b == 'N' ? b.from(0, across.begin, depth, across.size())
                                           : b.from(across.begin, 0, across.size(), depth);
      Part<T> block = c.from(down.begin, across.begin, down.size(), across.size());
      if (is_square && down.begin == across.begin) {
        char uplo = triangle == Triangle::lower ? 'L' : 'U', trans = trans_a;
        int size = block.rows, count = static_cast<int>(depth), stride = left.stride;
        T factor = alpha, kept = beta;
        blas.syrk(&uplo, &trans, &size, &count, &factor, left.data, &stride, &kept, block.data,
                  &block.stride);
      } else {
        multiply<T>(blas, trans_a, trans_b, alpha, left, right, beta, block);
      }
      if (!worker.keep_going(vectors(down.size() * across.size() * depth))) return;
    }
  };
  const double work = 2.0 * static_cast<double>(c.rows) * c.columns * static_cast<double>(depth);
  run_workers(units, useful_threads(sharing.threads, units, work), sharing.interrupt,
              WorkerBody(body));
}

namespace {

// The factor of a matrix in halves: U_11, then U_12 = U_11^-T A_12, then that of A_22 - U_12' U_12.
//
// Above the first entry of a column of A that counts, the column of U is zero too, and what would
// be multiplied by it is left out. Far fewer operations remain for the matrix of a kernel that
// decays along the order of the rows.
template <class T>
class Halving {
 public:
  Halving(const Blas<T>& blas, Team& team) : blas_(blas), team_(team) {}

  // False if there is no factor, or if the call is to end.
  bool run(Part<T> a) { return find_first_rows(a) && factorise(a, 0); }

 private:
  // Sets what rounding hides at the top of each column to zero. An entry counts if it exceeds
  // eps^(3/2) of the roots of its two diagonal entries: a whole row of such entries adds up to less
  // than the rounding error of one.
  bool find_first_rows(Part<T> a) {
    const T least = std::pow(std::numeric_limits<T>::epsilon(), T(1.5));
    std::vector<T> roots(static_cast<std::size_t>(a.rows));
    first_rows_.resize(roots.size());
    for (std::int64_t i = 0; i < a.rows; ++i)
      roots[static_cast<std::size_t>(i)] = std::sqrt(*a.at(i, i));
    const auto columns = spans(a.columns, kTile);
    const std::int64_t work = vectors(std::int64_t{a.rows} * columns[0].size());
    return team_.share(static_cast<std::int64_t>(columns.size()), work, [&](std::int64_t unit) {
      const Span across = columns[static_cast<std::size_t>(unit)];
      for (std::int64_t j = across.begin; j < across.end; ++j) {
        T* column = a.at(0, j);
        const T limit = least * roots[static_cast<std::size_t>(j)];
        std::int64_t i = 0;
        for (; i < j && std::abs(column[i]) <= limit * roots[static_cast<std::size_t>(i)]; ++i)
          column[i] = T(0);
        first_rows_[static_cast<std::size_t>(j)] = i;
      }
    });
  }

  // The first row that counts in some columns of the whole matrix, from `row` on, up to `rows`.
  std::int64_t first_row(Span columns, std::int64_t row, std::int64_t rows) const {
    const auto begin = first_rows_.begin();
    const std::int64_t first = *std::min_element(begin + columns.begin, begin + columns.end);
    return std::clamp<std::int64_t>(first - row, 0, rows);
  }

  // `at` is the first row of this part in the whole matrix.
  bool factorise(Part<T> a, std::int64_t at) {
    if (a.rows <= kPivots) {
      int info = 0;
      blas_.potrf(&upper_, &a.rows, a.data, &a.stride, &info);
      return info == 0;
    }
    const std::int64_t half = round_up(a.rows / 2, 32), rest = a.rows - half;
    const Part<T> corner = a.from(0, 0, half, half), right = a.from(0, half, half, rest);
    const Part<T> below = a.from(half, half, rest, rest);
    return factorise(corner, at) && solve(corner, right, at) && update(right, below, at) &&
           factorise(below, at + half);
  }

  bool solve(Part<T> corner, Part<T> right, std::int64_t at) {
    const auto columns = spans(right.columns, tile(right.columns));
    const std::int64_t work = vectors(std::int64_t{corner.rows} * corner.rows * columns[0].size());
    return team_.share(static_cast<std::int64_t>(columns.size()), work, [&](std::int64_t unit) {
      const Span across = columns[static_cast<std::size_t>(unit)];
      const std::int64_t first = first_row(shifted(across, at + right.rows), at, right.rows);
      const std::int64_t depth = right.rows - first;
      if (depth == 0) return;
      Part<T> block = right.from(first, across.begin, depth, across.size());
      Part<T> triangle = corner.from(first, first, depth, depth);
      blas_.trsm(&left_, &upper_, &trans_, &plain_, &block.rows, &block.columns, &one_,
                 triangle.data, &triangle.stride, block.data, &block.stride);
    });
  }

  bool update(Part<T> right, Part<T> below, std::int64_t at) {
    const auto parts = spans(below.rows, tile(below.rows));
    const auto count = static_cast<std::int64_t>(parts.size());
    const std::int64_t width = parts[0].size(), work = vectors(2 * width * width * right.rows);
    std::vector<std::int64_t> first;
    for (const Span& part : parts)
      first.push_back(first_row(shifted(part, at + right.rows), at, right.rows));
    return team_.share(count * (count + 1) / 2, work, [&](std::int64_t unit) {
      std::int64_t j = 0;
      for (; unit > j; ++j) unit -= j + 1;
      const auto p = static_cast<std::size_t>(unit), q = static_cast<std::size_t>(j);
      const std::int64_t begin = std::max(first[p], first[q]), depth = right.rows - begin;
      if (depth == 0) return;
      const Span down = parts[p], across = parts[q];
      Part<T> block = below.from(down.begin, across.begin, down.size(), across.size());
      Part<T> factor = right.from(begin, across.begin, depth, across.size());
      if (unit == j) {
        blas_.syrk(&upper_, &trans_, &block.columns, &factor.rows, &minus_, factor.data,
                   &factor.stride, &one_, block.data, &block.stride);
      } else {
        multiply<T>(blas_, 'T', 'N', T(-1), right.from(begin, down.begin, depth, down.size()),
                    factor, T(1), block);
      }
    });
  }

  static Span shifted(Span span, std::int64_t by) { return {span.begin + by, span.end + by}; }

  // Columns of a unit: several units for each thread, and enough columns for BLAS.
  static std::int64_t tile(std::int64_t size) {
    return std::clamp<std::int64_t>(size / 6, 64, kTile);
  }

  const Blas<T>& blas_;
  Team& team_;
  std::vector<std::int64_t> first_rows_;  // of each column of the whole matrix
  char upper_ = 'U', left_ = 'L', trans_ = 'T', plain_ = 'N';
  T one_ = 1, minus_ = -1;
};

}  // namespace

template <class T>
bool blocked_cholesky(const Blas<T>& blas, Part<T> a, Sharing sharing) {
  const double n = a.rows, work = n * n * n / 3;
  const int threads = useful_threads(sharing.threads, divide_up(a.rows, kPivots), work);
  bool exists = false;
  Team::run(threads, sharing.interrupt,
            [&](Team& team) { exists = Halving<T>(blas, team).run(a); });
  return exists;
}

template <class T>
void blocked_scaling(const T* matrix, std::int64_t stride, const T* scales, T shift, Part<T> out,
                     Sharing sharing) {
  const auto columns = spans(out.columns, kTile / 4);
  const auto units = static_cast<std::int64_t>(columns.size());
  auto body = [&](Worker& worker) {
    for (std::int64_t unit = worker.next_unit(); unit >= 0; unit = worker.next_unit()) {
      const Span across = columns[static_cast<std::size_t>(unit)];
      for (std::int64_t j = across.begin; j < across.end; ++j) {
        const T* __restrict row = matrix + j * stride;
        T* __restrict column = out.at(0, j);
        const T scale = scales[j];
        for (std::int64_t i = 0; i <= j; ++i) column[i] = scale * scales[i] * row[i];
        column[j] += shift;
      }
      if (!worker.keep_going(across.size() * across.end)) return;
    }
  };
  const double work = 4.0 * static_cast<double>(out.columns) * out.columns;  // waits for memory
  run_workers(units, useful_threads(sharing.threads, units, work), sharing.interrupt,
              WorkerBody(body));
}

template <class T>
void blocked_solve(const Blas<T>& blas, Part<T> u, char trans, Part<T> b, Sharing sharing) {
  const auto columns = spans(b.columns, kTile);
  const auto units = static_cast<std::int64_t>(columns.size());
  auto body = [&](Worker& worker) {
    for (std::int64_t unit = worker.next_unit(); unit >= 0; unit = worker.next_unit()) {
      const Span across = columns[static_cast<std::size_t>(unit)];
      Part<T> block = b.from(0, across.begin, b.rows, across.size());
      char left = 'L', upper = 'U', plain = 'N', op = trans;
      T one = 1;
      blas.trsm(&left, &upper, &op, &plain, &block.rows, &block.columns, &one, u.data, &u.stride,
                block.data, &block.stride);
      if (!worker.keep_going(vectors(across.size() * u.rows * u.rows))) return;
    }
  };
  const double work = static_cast<double>(b.columns) * u.rows * static_cast<double>(u.rows);
  run_workers(units, useful_threads(sharing.threads, units, work), sharing.interrupt,
              WorkerBody(body));
}

template void blocked_product(const Blas<float>&, char, char, float, Part<float>, Part<float>,
                              float, Part<float>, Triangle, Sharing);
template void blocked_product(const Blas<double>&, char, char, double, Part<double>, Part<double>,
                              double, Part<double>, Triangle, Sharing);
template bool blocked_cholesky(const Blas<float>&, Part<float>, Sharing);
template bool blocked_cholesky(const Blas<double>&, Part<double>, Sharing);
template void blocked_scaling(const float*, std::int64_t, const float*, float, Part<float>,
                              Sharing);
template void blocked_scaling(const double*, std::int64_t, const double*, double, Part<double>,
                              Sharing);
template void blocked_solve(const Blas<float>&, Part<float>, char, Part<float>, Sharing);
template void blocked_solve(const Blas<double>&, Part<double>, char, Part<double>, Sharing);

}  // namespace mercer
