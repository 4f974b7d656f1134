// The tridiagonal form A = Q T Q' of a symmetric matrix, by Householder reflections.
//
// Column i is reflected to the first axis below the diagonal by H_i = I - tau v v'. With
// w = tau A v - (tau^2 v'Av / 2) v, the matrix H A H is A - v w' - w v'. For a panel of columns the
// vectors v and w are collected, and the rest of the matrix is changed once per panel. The product
// A v reads the rest for every column: it takes half of the operations and most of the time. Its
// columns are divided into chunks with sums of their own, which are added in a fixed order.
//
// Dongarra, Sorensen, Hammarling (1989), Block reduction of matrices to condensed forms.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine.hpp"
#include "simd.hpp"
#include "team.hpp"

namespace mercer::MERCER_ISA {

template <class T>
T vector_dot(const T* x, const T* y, std::int64_t n) {
  constexpr int L = kLanes<T>;
  Vec<T> sums = {};
  std::int64_t i = 0;
  for (; i + L <= n; i += L) sums += load_unaligned<T>(x + i) * load_unaligned<T>(y + i);
  T sum = T(0);
  for (int lane = 0; lane < L; ++lane) sum += sums[lane];
  for (; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

// z += a x + b y.
template <class T>
void add_two(T* z, T a, const T* x, T b, const T* y, std::int64_t n) {
  constexpr int L = kLanes<T>;
  std::int64_t i = 0;
  for (; i + L <= n; i += L)
    store_unaligned<T>(z + i, load_unaligned<T>(z + i) + a * load_unaligned<T>(x + i) +
                                  b * load_unaligned<T>(y + i));
  for (; i < n; ++i) z[i] += a * x[i] + b * y[i];
}

// y += A x over K columns of a symmetric matrix from column j on: each entry below the diagonal
// counts for its row and for its column.
template <class T, int K>
void add_symmetric_columns(Part<T> a, std::int64_t j, const T* x, T* y) {
  constexpr int L = kLanes<T>;
  const T* column[K];
  Vec<T> sums[K];
  T factor[K];
  for (int q = 0; q < K; ++q) {
    column[q] = a.at(0, j + q);
    sums[q] = Vec<T>{};
    factor[q] = x[j + q];
    y[j + q] += column[q][j + q] * factor[q];
    for (int r = q + 1; r < K; ++r) {
      y[j + r] += column[q][j + r] * factor[q];
      y[j + q] += column[q][j + r] * x[j + r];
    }
  }
  std::int64_t i = j + K;
  for (; i + L <= a.rows; i += L) {
    const Vec<T> here = load_unaligned<T>(x + i);
    Vec<T> total = load_unaligned<T>(y + i);
#pragma GCC unroll 4
    for (int q = 0; q < K; ++q) {
      const Vec<T> entry = load_unaligned<T>(column[q] + i);
      total += factor[q] * entry;
      sums[q] += entry * here;
    }
    store_unaligned<T>(y + i, total);
  }
  for (; i < a.rows; ++i)
    for (int q = 0; q < K; ++q) {
      y[i] += factor[q] * column[q][i];
      y[j + q] += column[q][i] * x[i];
    }
  for (int q = 0; q < K; ++q)
    for (int lane = 0; lane < L; ++lane) y[j + q] += sums[q][lane];
}

template <class T>
class Tridiagonalisation {
 public:
  explicit Tridiagonalisation(const TridiagonalJob<T>& job)
      : job_(job), n_(job.matrix.rows), panel_(3 * kPanelColumns * n_), sums_(kChunks * n_) {}

  void run() {
    const double work = 2.0 * static_cast<double>(n_) * static_cast<double>(n_);
    const int threads = useful_threads(job_.threads, divide_up(n_, kChunkColumns), 8 * work);
    Team::run(threads, job_.interrupt, [&](Team& team) {
      if (reduce(team)) accumulate(team);
    });
  }

 private:
  static constexpr std::int64_t kPanelColumns = 32;  // reflections between two updates
  static constexpr std::int64_t kReflections = 64;   // and those that Q takes at a time
  static constexpr std::int64_t kChunks = 16;        // the most of a product
  static constexpr std::int64_t kChunkColumns = 64;  // the least columns of a chunk
  static constexpr std::int64_t kTile = 192;         // rows and columns of an update

  // Columns of the panel: first all v, then all w, then all v again, so that [v w] and [w v] are
  // both contiguous.
  T* v(std::int64_t k) { return panel_.data() + k * n_; }
  T* w(std::int64_t k) { return panel_.data() + (kPanelColumns + k) * n_; }
  T* v_again(std::int64_t k) { return panel_.data() + (2 * kPanelColumns + k) * n_; }

  bool reduce(Team& team) {
    for (std::int64_t first = 0; first < n_ - 1; first += kPanelColumns) {
      panel_.fill(T(0));
      const std::int64_t count = std::min(kPanelColumns, n_ - 1 - first);
      for (std::int64_t k = 0; k < count; ++k)
        if (!reflect(team, first + k, k)) return false;
      if (!update(team, first + count)) return false;
    }
    job_.diagonal[n_ - 1] = *job_.matrix.at(n_ - 1, n_ - 1);
    return true;
  }

  // Column i, the k-th of its panel.
  bool reflect(Team& team, std::int64_t i, std::int64_t k) {
    T* column = job_.matrix.at(0, i);
    for (std::int64_t p = 0; p < k; ++p)
      add_two<T>(column + i, -w(p)[i], v(p) + i, -v(p)[i], w(p) + i, n_ - i);
    job_.diagonal[i] = column[i];
    const std::int64_t next = i + 1, size = n_ - next;
    const T tau = reflector(column + next, size, job_.beside + i);
    job_.tau[i] = tau;
    std::copy_n(column + next, size, v(k) + next);
    std::copy_n(column + next, size, v_again(k) + next);
    if (!multiply_rest(team, next, v(k), w(k))) return false;
    for (std::int64_t p = 0; p < k; ++p) {
      const T along_w = vector_dot<T>(w(p) + next, v(k) + next, size);
      const T along_v = vector_dot<T>(v(p) + next, v(k) + next, size);
      add_two<T>(w(k) + next, -along_w, v(p) + next, -along_v, w(p) + next, size);
    }
    const T half = tau * tau * vector_dot<T>(w(k) + next, v(k) + next, size) / 2;
    for (std::int64_t r = next; r < n_; ++r) w(k)[r] = tau * w(k)[r] - half * v(k)[r];
    return true;
  }

  // x becomes v, with v_0 = 1; returns tau, and writes the first entry of H x, the others being 0.
  static T reflector(T* x, std::int64_t size, T* beta) {
    double square = 0.0;
    for (std::int64_t r = 1; r < size; ++r) square += static_cast<double>(x[r]) * x[r];
    const double alpha = x[0];
    x[0] = T(1);
    *beta = static_cast<T>(alpha);
    if (square == 0.0) return T(0);
    const double norm = std::sqrt(alpha * alpha + square), end = alpha > 0 ? -norm : norm;
    const T scale = static_cast<T>(1.0 / (alpha - end));
    for (std::int64_t r = 1; r < size; ++r) x[r] *= scale;
    *beta = static_cast<T>(end);
    return static_cast<T>((end - alpha) / end);
  }

  // w = A v over the rows and columns from `first` on.
  bool multiply_rest(Team& team, std::int64_t first, const T* v, T* w) {
    const std::int64_t size = n_ - first;
    const Part<T> rest = job_.matrix.from(first, first, size, size);
    const std::int64_t chunks = std::min(kChunks, divide_up(size, kChunkColumns));
    const std::int64_t width = round_up(divide_up(size, chunks), 4);
    const bool done = team.share(chunks, size * width / kLanes<T>, [&](std::int64_t chunk) {
      T* y = sums_.data() + chunk * n_;
      const std::int64_t begin = std::min(chunk * width, size);
      const std::int64_t end = std::min(begin + width, size);
      std::fill(y + begin, y + size, T(0));
      std::int64_t j = begin;
      for (; j + 4 <= end; j += 4) add_symmetric_columns<T, 4>(rest, j, v + first, y);
      for (; j < end; ++j) add_symmetric_columns<T, 1>(rest, j, v + first, y);
    });
    std::fill_n(w + first, size, T(0));
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
      for (std::int64_t r = std::min(chunk * width, size); r < size; ++r)
        w[first + r] += sums_[chunk * n_ + r];
    return done;
  }

  // A -= v w' + w v' over the rows and columns from `first` on, for all vectors of the panel.
  bool update(Team& team, std::int64_t first) {
    const std::int64_t tiles = divide_up(n_ - first, kTile);
    const Part<T> vectors{panel_.data(), static_cast<int>(n_), static_cast<int>(3 * kPanelColumns),
                          static_cast<int>(n_)};
    const std::int64_t depth = 2 * kPanelColumns, work = kTile * kTile * depth / kLanes<T>;
    return team.share(tiles * (tiles + 1) / 2, work, [&](std::int64_t unit) {
      std::int64_t row = 0;
      for (; unit > row; ++row) unit -= row + 1;
      const std::int64_t i = first + row * kTile, j = first + unit * kTile;
      const std::int64_t rows = std::min(kTile, n_ - i), columns = std::min(kTile, n_ - j);
      multiply<T>(*job_.blas, 'N', 'T', T(-1), vectors.from(i, 0, rows, depth),
                  vectors.from(j, kPanelColumns, columns, depth), T(1),
                  job_.matrix.from(i, j, rows, columns));
    });
  }

  // Q = H_0 H_1 ..., several reflections at a time, I - V F V' with F upper triangular: each chunk
  // of columns takes all of them, from the last to the first. H_i leaves the first i + 1 rows, and
  // columns of the identity before that, as they are.
  bool accumulate(Team& team) {
    const std::int64_t blocks = divide_up(n_ - 1, kReflections), order = kReflections;
    AlignedBuffer<T> factors(blocks * order * order);
    const auto reflections = [&](std::int64_t block) {
      const std::int64_t first = block * order, count = std::min(order, n_ - 1 - first);
      return job_.matrix.from(first + 1, first, n_ - 1 - first, count);
    };
    const auto factor = [&](std::int64_t block) {
      const int size = static_cast<int>(order);
      return Part<T>{factors.data() + block * order * order, size, size, size};
    };
    bool going = team.share(blocks, n_ * order * order / kLanes<T>, [&](std::int64_t block) {
      Part<T> vectors = reflections(block), into = factor(block);
      for (std::int64_t k = 0; k < vectors.columns; ++k)  // above the ones there is the old matrix
        std::fill_n(vectors.at(0, k), k, T(0));
      std::fill_n(into.data, order * order, T(0));
      char forward = 'F', by_columns = 'C';
      job_.blas->larft(&forward, &by_columns, &vectors.rows, &vectors.columns, vectors.data,
                       &vectors.stride, job_.tau + block * order, into.data, &into.stride);
    });
    const std::int64_t chunks = divide_up(n_, kTile);
    going = going && team.share(chunks, kTile * n_ * n_ / kLanes<T>, [&](std::int64_t unit) {
      const std::int64_t begin = (chunks - 1 - unit) * kTile;  // the longest first
      const std::int64_t width = std::min(kTile, n_ - begin);
      AlignedBuffer<T> room(2 * order * width);
      const Part<T> q = job_.basis.from(0, begin, n_, width);
      for (std::int64_t c = 0; c < width; ++c) {
        std::fill_n(q.at(0, c), n_, T(0));
        *q.at(begin + c, c) = T(1);
      }
      for (std::int64_t block = std::min(blocks, divide_up(begin + width - 1, order)) - 1;
           block >= 0; --block) {
        const Part<T> vectors = reflections(block), into = factor(block);
        const Part<T> below = q.from(block * order + 1, 0, vectors.rows, width);
        const int size = static_cast<int>(order), across = static_cast<int>(width);
        const Part<T> products{room.data(), vectors.columns, across, size};
        const Part<T> scaled{room.data() + order * width, vectors.columns, across, size};
        multiply<T>(*job_.blas, 'T', 'N', T(1), vectors, below, T(0), products);
        multiply<T>(*job_.blas, 'N', 'N', T(1), into.from(0, 0, vectors.columns, vectors.columns),
                    products, T(0), scaled);
        multiply<T>(*job_.blas, 'N', 'N', T(-1), vectors, scaled, T(1), below);
      }
    });
    return going;
  }

  const TridiagonalJob<T>& job_;
  std::int64_t n_;
  AlignedBuffer<T> panel_, sums_;
};

template <class T>
void run_tridiagonal(const TridiagonalJob<T>& job) {
  Tridiagonalisation<T>(job).run();
}

// Leverages: sum_k r_k^2 / d_k, where r_k = q_k - l_{k-1} r_{k-1} runs over the columns of Q, for
// every row of Q and every factor L D L' of a shifted tridiagonal matrix.
template <class T>
void run_leverages(const LeveragesJob<T>& job) {
  constexpr int L = kLanes<T>;
  constexpr std::int64_t kRows = 8 * L;
  const std::int64_t units = divide_up(job.rows, kRows);
  auto body = [&](Worker& worker) {
    AlignedBuffer<T> state(job.factors * kRows), total(job.factors * kRows), here(kRows);
    for (std::int64_t unit = worker.next_unit(); unit >= 0; unit = worker.next_unit()) {
      const std::int64_t begin = unit * kRows, count = std::min(kRows, job.rows - begin);
      state.fill(T(0));
      total.fill(T(0));
      here.fill(T(0));
      for (std::int64_t k = 0; k < job.columns; ++k) {
        std::copy_n(job.basis + begin + k * job.stride, count, here.data());
        for (std::int64_t f = 0; f < job.factors; ++f) {
          const T link = k > 0 ? job.links[(k - 1) * job.factors + f] : T(0);
          const T weight = job.weights[k * job.factors + f];
          T* row = state.data() + f * kRows;
          T* sum = total.data() + f * kRows;
#pragma GCC unroll 8
          for (std::int64_t r = 0; r < kRows; r += L) {
            const Vec<T> value = load<T>(here.data() + r) - link * load<T>(row + r);
            store<T>(row + r, value);
            store<T>(sum + r, load<T>(sum + r) + weight * value * value);
          }
        }
        if (!worker.keep_going(job.factors * 8)) return;
      }
      for (std::int64_t f = 0; f < job.factors; ++f)
        std::copy_n(total.data() + f * kRows, count, job.out + f * job.rows + begin);
    }
  };
  const double work = 4.0 * static_cast<double>(job.rows) * static_cast<double>(job.columns) *
                      static_cast<double>(job.factors);
  run_workers(units, useful_threads(job.threads, units, work), job.interrupt, WorkerBody(body));
}

}  // namespace mercer::MERCER_ISA
