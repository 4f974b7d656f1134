// Random features of rows: products of Hadamard matrices and diagonals, and waves of angles.
//
// Rows are the lanes of a vector, so that every butterfly is one addition and one subtraction of
// whole vectors whatever its stride.
#pragma once

#include <algorithm>

#include "engine.hpp"
#include "transpose.hpp"
#include "vecmath.hpp"

namespace mercer::MERCER_ISA {

// ---------------------------------------------------------------------------------------------
// The transform
// ---------------------------------------------------------------------------------------------

// The Hadamard transform of N vectors in registers.
template <class T, int N>
MERCER_INLINE void butterflies(Vec<T> (&a)[N]) {
#pragma GCC unroll 16
  for (int half = N / 2; half >= 1; half /= 2)
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i)
      if ((i & half) == 0) {
        const Vec<T> sum = a[i] + a[i + half];
        a[i + half] = a[i] - a[i + half];
        a[i] = sum;
      }
}

// The same for N vectors of `values` that are `stride` vectors apart.
template <class T, int N>
MERCER_INLINE void butterflies_at(T* values, std::int64_t stride) {
  constexpr int L = kLanes<T>;
  Vec<T> a[N];
#pragma GCC unroll 16
  for (int i = 0; i < N; ++i) a[i] = load<T>(values + i * stride * L);
  butterflies<T, N>(a);
#pragma GCC unroll 16
  for (int i = 0; i < N; ++i) store<T>(values + i * stride * L, a[i]);
}

// values[j][lane], j < size, becomes sum_k H_jk values[k][lane] with H of entries +-1, in
// Sylvester's order. The widest strides first, then each quarter alone: most of the work is done on
// parts that lie in the first-level cache.
template <class T>
void hadamard_transform(T* values, std::int64_t size) {
  switch (size) {
    case 1:
      return;
    case 2:
      return butterflies_at<T, 2>(values, 1);
    case 4:
      return butterflies_at<T, 4>(values, 1);
    case 8:
      return butterflies_at<T, 8>(values, 1);
    default:
      break;
  }
  constexpr int L = kLanes<T>;
  const std::int64_t quarter = size / 4;
  for (std::int64_t j = 0; j < quarter; ++j) butterflies_at<T, 4>(values + j * L, quarter);
  for (std::int64_t part = 0; part < 4; ++part)
    hadamard_transform<T>(values + part * quarter * L, quarter);
}

// ---------------------------------------------------------------------------------------------
// Rows in, projections out
// ---------------------------------------------------------------------------------------------

template <class T>
class HadamardRows {
 public:
  explicit HadamardRows(const HadamardJob<T>& job)
      : job_(job),
        source_(job.size * L),
        values_(job.size * L),
        permuted_(job.permutations == nullptr ? 0 : job.size * L) {}

  // The L rows from `first` on, as lanes; columns and rows that are missing are zero.
  void read(std::int64_t first) {
    const StridedMatrix<T>& x = job_.x;
    first_ = first;
    rows_ = std::min<std::int64_t>(L, x.rows - first);
    source_.fill(T(0));
    for (std::int64_t lane = 0; lane < rows_; ++lane) {
      const T* row = x.data + (first + lane) * x.row_stride;
      for (std::int64_t j = 0; j < x.columns; ++j) source_[j * L + lane] = row[j * x.column_stride];
    }
  }

  // One block of `size` projections of these rows.
  void write(std::int64_t block) {
    const T* diagonal = job_.diagonals + block * job_.stages * job_.size;
    scale(source_.data(), diagonal, values_.data());
    hadamard_transform<T>(values_.data(), job_.size);
    if (job_.permutations != nullptr) permute(job_.permutations + block * job_.size);
    for (std::int64_t stage = 1; stage < job_.stages; ++stage) {
      scale(values_.data(), diagonal + stage * job_.size, values_.data());
      hadamard_transform<T>(values_.data(), job_.size);
    }
    store_rows(block);
  }

 private:
  void scale(const T* from, const T* diagonal, T* to) const {
    for (std::int64_t j = 0; j < job_.size; ++j)
      store<T>(to + j * L, load<T>(from + j * L) * broadcast<T>(diagonal[j]));
  }

  void permute(const std::int64_t* places) {
    for (std::int64_t j = 0; j < job_.size; ++j)
      store<T>(permuted_.data() + j * L, load<T>(values_.data() + places[j] * L));
    std::swap(values_, permuted_);
  }

  void store_rows(std::int64_t block) const {
    const T* scales = job_.scales + block * job_.size;
    const std::int64_t column = block * job_.size;
    const std::int64_t count = std::min(job_.size, job_.width - column);
    T* out = job_.out + first_ * job_.stride + column;
    std::int64_t j = 0;
    for (; j + L <= count; j += L) {
      Vec<T> square[L];
#pragma GCC unroll 16
      for (int i = 0; i < L; ++i)
        square[i] = load<T>(values_.data() + (j + i) * L) * broadcast<T>(scales[j + i]);
      transpose<T>(square);
#pragma GCC unroll 16
      for (int row = 0; row < L; ++row)
        if (row < rows_) store_unaligned<T>(out + row * job_.stride + j, square[row]);
    }
    for (; j < count; ++j)
      for (std::int64_t row = 0; row < rows_; ++row)
        out[row * job_.stride + j] = values_[j * L + row] * scales[j];
  }

  static constexpr int L = kLanes<T>;
  const HadamardJob<T>& job_;
  AlignedBuffer<T> source_, values_, permuted_;
  std::int64_t first_ = 0, rows_ = 0;
};

template <class T>
void run_hadamard(const HadamardJob<T>& job) {
  constexpr std::int64_t L = kLanes<T>;
  const std::int64_t units = divide_up(job.x.rows, L);
  const std::int64_t depth = 64 - __builtin_clzll(static_cast<std::uint64_t>(job.size));
  const std::int64_t block_work = job.stages * job.size * depth;
  const double work =
      static_cast<double>(block_work * job.blocks) * static_cast<double>(units) * 4.0;
  auto body = [&job, block_work](Worker& worker) {
    HadamardRows<T> rows(job);
    for (std::int64_t unit = worker.next_unit(); unit >= 0; unit = worker.next_unit()) {
      rows.read(unit * L);
      for (std::int64_t block = 0; block < job.blocks; ++block) {
        if (!worker.keep_going(block_work)) return;
        rows.write(block);
      }
    }
  };
  run_workers(units, useful_threads(job.threads, units, work), job.interrupt, WorkerBody(body));
}

// ---------------------------------------------------------------------------------------------
// Waves
// ---------------------------------------------------------------------------------------------

// The first `angles` columns of a row become waves; there may be fewer sines than cosines.
template <class T>
void row_waves(T* row, std::int64_t angles, std::int64_t sines, Vec<T> scale) {
  constexpr int L = kLanes<T>;
  std::int64_t j = 0;
  for (; j + L <= sines; j += L) {
    const SineCosine<T> waves = vsincos<T>(load_unaligned<T>(row + j));
    store_unaligned<T>(row + j, waves.cosine * scale);
    store_unaligned<T>(row + angles + j, waves.sine * scale);
  }
  for (; j < angles; ++j) {
    const SineCosine<T> waves = vsincos<T>(broadcast<T>(row[j]));
    row[j] = (waves.cosine * scale)[0];
    if (j < sines) row[angles + j] = (waves.sine * scale)[0];
  }
}

template <class T>
void run_waves(const WavesJob<T>& job) {
  constexpr std::int64_t kUnitAngles = 8192, kWorkPerAngle = 60;
  const std::int64_t angles = std::max<std::int64_t>(job.angles, 1);
  const std::int64_t unit_rows = divide_up(kUnitAngles, angles);
  const std::int64_t units = divide_up(job.rows, unit_rows);
  const double work = static_cast<double>(job.rows) * static_cast<double>(angles) * kWorkPerAngle;
  auto body = [&job, unit_rows](Worker& worker) {
    const Vec<T> scale = broadcast<T>(static_cast<T>(job.scale));
    for (std::int64_t unit = worker.next_unit(); unit >= 0; unit = worker.next_unit()) {
      const std::int64_t end = std::min((unit + 1) * unit_rows, job.rows);
      for (std::int64_t i = unit * unit_rows; i < end; ++i) {
        if (!worker.keep_going(job.angles * kWorkPerAngle / kLanes<T>)) return;
        row_waves<T>(job.values + i * job.stride, job.angles, job.sines, scale);
      }
    }
  };
  run_workers(units, useful_threads(job.threads, units, work), job.interrupt, WorkerBody(body));
}

}  // namespace mercer::MERCER_ISA
