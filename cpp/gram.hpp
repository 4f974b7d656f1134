// The matrix itself. Lanes run along its columns, so that stores are contiguous.
#pragma once

#include "grid.hpp"
#include "interpreter.hpp"
#include "transpose.hpp"

namespace mercer::MERCER_ISA {

template <class T>
class Gram {
 public:
  explicit Gram(const GramJob<T>& job)
      : job_(job),
        rows_(job.pairs.rows->n),
        columns_(job.pairs.cols->n),
        height_(band_height(job.pairs)),
        cost_(pair_cost(job.pairs) + 4.0) {
    const auto bytes = static_cast<std::int64_t>(sizeof(T));
    const auto line = static_cast<std::int64_t>(kCacheLine);
    stream_rows_ = reinterpret_cast<std::uintptr_t>(job.out) % kCacheLine == 0 &&
                   job.stride * bytes % line == 0 && job.stride * bytes % kPage != 0 &&
                   rows_ * job.stride > kStreamBytes / bytes;
  }

  void run() {
    const std::int64_t units = divide_up(rows_, height_);
    const double work = cost_ * static_cast<double>(rows_) * static_cast<double>(columns_) /
                        sizeof(double) * sizeof(T);
    auto body = [this](Worker& worker) { run_units(worker); };
    run_workers(units, useful_threads(job_.pairs.threads, units, work), job_.pairs.interrupt,
                WorkerBody(body));
  }

 private:
  static constexpr std::int64_t W = kPanel<T>;
  static constexpr int L = kLanes<T>;
  // A matrix too large for the caches goes past them, if its rows consist of whole cache lines (and
  // not of whole pages: then the write-combining buffers collide, and plain stores are faster).
  static constexpr std::int64_t kStreamBytes = 16 << 20;
  static constexpr std::int64_t kPage = 4096;

  // Rows of a band. Few rows of many columns are worth several threads.
  static std::int64_t band_height(const Pairs<T>& pairs) {
    const std::int64_t width = tile_width(pairs);
    return is_wide(pairs) ? std::min(width, round_up(divide_up(pairs.rows->n, 4), 2 * kMinTile))
                          : width;
  }

  // A unit is a band of rows. In the symmetric case it holds the pairs with column >= row.
  void run_units(Worker& worker) {
    Interpreter<T> tile(job_.pairs, false);
    const double work = cost_ * static_cast<double>(height_) * kPanelVectors<T>;
    const auto keep_going = [&](double panels) {
      return worker.keep_going(static_cast<std::int64_t>(work * panels));
    };
    for (std::int64_t u = worker.next_unit(); u >= 0; u = worker.next_unit()) {
      const std::int64_t first = u * height_, count = std::min(height_, rows_ - first);
      const std::int64_t start = job_.symmetric ? first / W : 0;
      // Rows below the last column of a panel on the diagonal come from other tiles.
      const auto rows = [&](std::int64_t p) {
        return job_.symmetric ? std::min(count, (p + 1) * W - first) : count;
      };
      tile.run_panels(start, job_.pairs.cols->panels(), first, rows, keep_going,
                      [&] { write(tile); });
      if (stream_rows_) stream_fence();
    }
  }

  void write(Interpreter<T>& tile) {
    const T* values = tile.tile(job_.result);
    const std::int64_t column = tile.panel() * W;
    if (!job_.symmetric) return write_rows(tile, values);
    if (column < tile.first() + tile.count()) return write_diagonal(tile, values);
    write_rows(tile, values);
    write_mirror(tile, values);
  }

  void write_rows(const Interpreter<T>& tile, const T* values) {
    T* corner = job_.out + tile.first() * job_.stride + tile.panel() * W;
    const std::int64_t lanes = tile.lane_count();
    if (lanes < W) {
      for (std::int64_t j = 0; j < tile.count(); ++j)
        for (std::int64_t lane = 0; lane < lanes; ++lane)
          corner[j * job_.stride + lane] = values[j * W + lane];
    } else if (stream_rows_) {
      for (std::int64_t j = 0; j < tile.count(); ++j)
#pragma GCC unroll 16
        for (int v = 0; v < W; v += L)
          stream<T>(corner + j * job_.stride + v, load<T>(values + j * W + v));
    } else {
      for (std::int64_t j = 0; j < tile.count(); ++j)
#pragma GCC unroll 16
        for (int v = 0; v < W; v += L)
          store_unaligned<T>(corner + j * job_.stride + v, load<T>(values + j * W + v));
    }
  }

  // The transposed tile: a run of the band's width in each of the panel's rows.
  void write_mirror(const Interpreter<T>& tile, const T* values) {
    T* corner = job_.out + tile.panel() * W * job_.stride + tile.first();
    const std::int64_t lanes = tile.lane_count(), whole = lanes == W ? tile.count() / L * L : 0;
    for (int v = 0; v < W && whole > 0; v += L)
      for (std::int64_t j = 0; j < whole; j += L) {
        Vec<T> rows[L];
#pragma GCC unroll 16
        for (int i = 0; i < L; ++i) rows[i] = load<T>(values + (j + i) * W + v);
        transpose<T>(rows);
#pragma GCC unroll 16
        for (int i = 0; i < L; ++i)
          stream_rows_ ? stream<T>(corner + (v + i) * job_.stride + j, rows[i])
                       : store_unaligned<T>(corner + (v + i) * job_.stride + j, rows[i]);
      }
    for (std::int64_t lane = 0; lane < lanes; ++lane)
      for (std::int64_t j = whole; j < tile.count(); ++j)
        corner[lane * job_.stride + j] = values[j * W + lane];
  }

  // A tile that meets the diagonal: each pair is written from one evaluation, so that the matrix is
  // symmetric to the last bit.
  void write_diagonal(const Interpreter<T>& tile, const T* values) {
    for (std::int64_t j = 0; j < tile.count(); ++j)
      for (std::int64_t lane = 0; lane < tile.lane_count(); ++lane) {
        const std::int64_t row = tile.first() + j, column = tile.panel() * W + lane;
        if (column < row) continue;
        job_.out[row * job_.stride + column] = values[j * W + lane];
        job_.out[column * job_.stride + row] = values[j * W + lane];
      }
  }

  const GramJob<T>& job_;
  std::int64_t rows_, columns_, height_;
  double cost_;
  bool stream_rows_;
};

template <class T>
void run_gram(const GramJob<T>& job) {
  Gram<T>(job).run();
}

}  // namespace mercer::MERCER_ISA
