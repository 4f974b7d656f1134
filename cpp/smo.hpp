// Quadratic programmes with boxes and one sum, on a working set of variables: two at a time.
//
// In the coefficients b of a kernel expansion, the dual problems of support vector machines are
//
//   minimise 1/2 b'Kb + c'b   subject to   l <= b <= u,  sum b = constant (in each group).
//
// With the ascent v = -(Kb + c), an exchange b_i += t, b_j -= t gains t (v_i - v_j) - t^2 a / 2,
// where a = K_ii + K_jj - 2 K_ij; signs of classes and doubled variables are the caller's affair.
// i has the largest v of those that may rise, j the largest gain of those that may fall (Fan, Chen,
// Lin 2005). Kernel values may be float32; the ascent is float64.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine.hpp"
#include "memory.hpp"
#include "simd.hpp"

namespace mercer::MERCER_ISA {

// The larger of two extremes lane by lane, with positions.
template <class T>
struct LargestLanes {
  Vec<T> value = broadcast<T>(-std::numeric_limits<T>::infinity());
  IVec<T> position = broadcast_int<T>(-1);

  MERCER_INLINE void add(Vec<T> other, IVec<T> where) {
    const IVec<T> better = other > value;
    value = select<T>(better, other, value);
    position = better ? where : position;
  }
};

template <class T>
struct Largest {
  T value = -std::numeric_limits<T>::infinity();
  std::int64_t position = -1;

  // The first position of equals, whatever the width of a vector.
  MERCER_INLINE void add(const LargestLanes<T>& lanes) {
    for (int lane = 0; lane < kLanes<T>; ++lane) {
      const auto where = static_cast<std::int64_t>(lanes.position[lane]);
      const T other = lanes.value[lane];
      if (where >= 0 && (other > value || (other == value && where < position))) {
        value = other;
        position = where;
      }
    }
  }
};

template <class T>
MERCER_INLINE IVec<T> first_positions(std::int64_t begin) {
  IVec<T> positions{};
  for (int lane = 0; lane < kLanes<T>; ++lane) positions[lane] = static_cast<Int<T>>(begin + lane);
  return positions;
}

// base - values, in T.
template <class T>
MERCER_INLINE Vec<T> narrowed_difference(Vec<double> base, const double* values) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return narrow({base - load<double>(values), base - load<double>(values + kLanes<double>)});
  } else {
    return base - load<double>(values);
  }
}

template <class T>
class Smo {
 public:
  explicit Smo(SmoJob<T>& job)
      : job_(job),
        groups_{{0, pad(job.split)}, {pad(job.split), pad(job.split) + pad(job.size - job.split)}},
        width_(groups_[1].end),
        block_(width_ * width_),
        diagonal_(width_),
        rising_(width_),
        falling_(width_),
        stretch_(job.size) {}

  void run(Worker& worker) {
    read();
    for (int g = 0; g < 2; ++g) find_extremes(g);
    for (job_.steps = 0;; ++job_.steps) {
      job_.gap = std::max(gap(0), gap(1));
      if (!(job_.gap > job_.tolerance) || job_.steps >= job_.limit) return;
      if (!worker.keep_going(width_)) return;
      exchange();
    }
  }

 private:
  static constexpr std::int64_t L = kLanes<T>;
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  struct Group {
    std::int64_t begin, end;
    Largest<double> top{};
    double bottom = kNever;
  };

  static std::int64_t pad(std::int64_t count) { return round_up(count, kPanel<float>); }
  // Where a variable of the job lies in the padded arrays.
  std::int64_t place(std::int64_t k) const {
    return k < job_.split ? k : groups_[1].begin + k - job_.split;
  }
  std::int64_t variable(std::int64_t place) const {
    return place < groups_[1].begin ? place : place - groups_[1].begin + job_.split;
  }
  const T* row(std::int64_t place) const { return block_.data() + place * width_; }
  double gap(int g) const { return groups_[g].top.value - groups_[g].bottom; }

  void read() {
    rising_.fill(-kNever);
    falling_.fill(kNever);
    diagonal_.fill(T(0));
    T largest = 0;
    for (std::int64_t k = job_.size - 1; k >= 0; --k)
      stretch_[k] =
          k + 1 < job_.size && job_.rows[k + 1] == job_.rows[k] + 1 ? stretch_[k + 1] + 1 : 1;
    for (std::int64_t k = 0; k < job_.size; ++k) {
      const std::int64_t at = place(k);
      read_row(k);
      diagonal_[at] = row(at)[at];
      largest = std::max(largest, std::abs(diagonal_[at]));
      place_ascent(k, job_.ascent[k]);
    }
    least_curvature_ = (largest > 0 ? largest : T(1)) * T(1e-12);
  }

  void read_row(std::int64_t k) {
    const T* source = job_.values + job_.rows[k] * job_.stride;
    T* target = block_.data() + place(k) * width_;
    std::fill_n(target, width_, T(0));
    const std::int64_t shift = groups_[1].begin - job_.split;
    gather(source, 0, job_.split, target);
    gather(source, job_.split, job_.size, target + shift);
  }

  // Stretches of neighbouring rows are copied at once: classes often lie together.
  void gather(const T* source, std::int64_t begin, std::int64_t end, T* target) const {
    for (std::int64_t m = begin; m < end;) {
      const std::int64_t length = std::min(stretch_[m], end - m);
      if (length == 1) {
        target[m] = source[job_.rows[m]];
      } else {
        std::copy_n(source + job_.rows[m], length, target + m);
      }
      m += length;
    }
  }

  void place_ascent(std::int64_t k, double value) {
    rising_[place(k)] = job_.up[k] > 0 ? value : -kNever;
    falling_[place(k)] = job_.down[k] > 0 ? value : kNever;
  }

  void find_extremes(int g) { update(g, nullptr, nullptr, 0.0); }

  // Subtracts t (K_i - K_j) from the ascents of a group, and finds its extremes.
  void update(int g, const T* first, const T* second, double t) {
    constexpr int D = kLanes<double>;
    Group& group = groups_[g];
    constexpr int kParts = static_cast<int>(L) / D;
    LargestLanes<double> top[kParts];
    Vec<double> bottom[kParts];
    for (Vec<double>& b : bottom) b = broadcast<double>(kNever);
    const Vec<double> step = broadcast<double>(t);
    IVec<double> where = first_positions<double>(group.begin);
    for (std::int64_t k = group.begin; k < group.end; k += L) {
      Vec<double> change[kParts] = {};
      if (first != nullptr) kernel_difference(first + k, second + k, change);
#pragma GCC unroll 2
      for (int part = 0; part < kParts; ++part) {
        const std::int64_t at = k + part * D;
        const Vec<double> rising = load<double>(&rising_[at]) - step * change[part];
        const Vec<double> falling = load<double>(&falling_[at]) - step * change[part];
        store<double>(&rising_[at], rising);
        store<double>(&falling_[at], falling);
        top[part].add(rising, where);
        bottom[part] = vmin<double>(bottom[part], falling);
        where += D;
      }
    }
    group.top = {};
    group.bottom = kNever;
    for (const LargestLanes<double>& lanes : top) group.top.add(lanes);
    for (const Vec<double>& lanes : bottom)
      for (int lane = 0; lane < D; ++lane) group.bottom = std::min(group.bottom, lanes[lane]);
  }

  template <int N>
  static MERCER_INLINE void kernel_difference(const T* first, const T* second,
                                              Vec<double> (&change)[N]) {
    if constexpr (sizeof(T) == sizeof(float)) {
      const Widened a = widen(load<T>(first)), b = widen(load<T>(second));
      change[0] = a.first - b.first;
      change[1] = a.second - b.second;
    } else {
      change[0] = load<T>(first) - load<T>(second);
    }
  }

  // The variable to fall with the largest gain of an exchange with the top of a group.
  Largest<T> partner(const Group& group) const {
    const std::int64_t i = group.top.position;
    const T* values = row(i);
    const Vec<double> highest = broadcast<double>(group.top.value);
    const Vec<T> own = broadcast<T>(diagonal_[i]), least = broadcast<T>(least_curvature_);
    LargestLanes<T> lanes;
    IVec<T> where = first_positions<T>(group.begin);
    for (std::int64_t k = group.begin; k < group.end; k += L) {
      const Vec<T> slope = narrowed_difference<T>(highest, &falling_[k]);
      const Vec<T> curvature = vmax<T>(
          own + load<T>(&diagonal_[k]) - (load<T>(values + k) + load<T>(values + k)), least);
      const Vec<T> gain = slope * slope / curvature;
      // Slopes that are too small for T still count; those of variables that cannot fall do not.
      lanes.add(select<T>(slope >= Vec<T>{}, gain, broadcast<T>(T(-1))), where);
      where += static_cast<Int<T>>(L);
    }
    Largest<T> best;
    best.add(lanes);
    return best;
  }

  void exchange() {
    int chosen = -1;
    Largest<T> best;
    for (int g = 0; g < 2; ++g) {
      if (!(gap(g) > job_.tolerance)) continue;
      const Largest<T> found = partner(groups_[g]);
      if (chosen >= 0 && !(found.value > best.value)) continue;
      chosen = g;
      best = found;
    }
    move(groups_[chosen].top.position, best.position);
  }

  void move(std::int64_t i, std::int64_t j) {
    const T *first = row(i), *second = row(j);
    const double high = rising_[i], low = falling_[j];
    const T curvature =
        std::max(diagonal_[i] + diagonal_[j] - (first[j] + first[j]), least_curvature_);
    double& up = job_.up[variable(i)];
    double& down = job_.down[variable(j)];
    const double t = std::min({(high - low) / static_cast<double>(curvature), up, down});
    job_.down[variable(i)] += t;
    job_.up[variable(j)] += t;
    up -= t;
    down -= t;
    place_ascent(variable(i), high);
    place_ascent(variable(j), low);
    for (int g = 0; g < 2; ++g) update(g, first, second, t);
  }

  SmoJob<T>& job_;
  Group groups_[2];
  std::int64_t width_;
  AlignedBuffer<T> block_, diagonal_;
  AlignedBuffer<double> rising_, falling_;
  AlignedBuffer<std::int64_t> stretch_;  // neighbouring rows from each variable on
  T least_curvature_ = 0;
};

template <class T>
void run_smo(SmoJob<T>& job) {
  auto body = [&job](Worker& worker) {
    if (worker.next_unit() >= 0) Smo<T>(job).run(worker);
  };
  run_workers(1, 1, job.interrupt, WorkerBody(body));
}

// ---------------------------------------------------------------------------------------------
// Sums of rows
// ---------------------------------------------------------------------------------------------

// out += sum of factor times row, a stretch of columns at a time: the sums stay in the first cache.
template <class T>
void run_row_sum(const RowSumJob<T>& job) {
  constexpr std::int64_t kStretch = 1024, kTogether = 4;
  constexpr int L = kLanes<T>, D = kLanes<double>;
  auto add = [&job](std::int64_t k, std::int64_t begin, std::int64_t end) {
    const T* rows[kTogether];
    double factors[kTogether];
    for (std::int64_t r = 0; r < kTogether; ++r) {
      const bool exists = k + r < job.count;
      rows[r] = job.values + job.rows[exists ? k + r : k] * job.stride;
      factors[r] = exists ? job.factors[k + r] : 0.0;
    }
    std::int64_t c = begin;
    for (; c + L <= end; c += L) {
#pragma GCC unroll 2
      for (int part = 0; part < L / D; ++part) {
        Vec<double> sum = load_unaligned<double>(job.out + c + part * D);
#pragma GCC unroll 4
        for (std::int64_t r = 0; r < kTogether; ++r) {
          if constexpr (sizeof(T) == sizeof(float)) {
            const Widened wide = widen(load_unaligned<T>(rows[r] + c));
            sum += factors[r] * (part == 0 ? wide.first : wide.second);
          } else {
            sum += factors[r] * load_unaligned<T>(rows[r] + c);
          }
        }
        store_unaligned<double>(job.out + c + part * D, sum);
      }
    }
    for (; c < end; ++c)
      for (std::int64_t r = 0; r < kTogether; ++r)
        job.out[c] += factors[r] * static_cast<double>(rows[r][c]);
  };
  auto body = [&](Worker& worker) {
    for (std::int64_t u = worker.next_unit(); u >= 0; u = worker.next_unit()) {
      const std::int64_t begin = u * kStretch, end = std::min(begin + kStretch, job.columns);
      for (std::int64_t k = 0; k < job.count; k += kTogether) {
        add(k, begin, end);
        if (!worker.keep_going(kTogether * kStretch / D)) return;
      }
    }
  };
  const std::int64_t units = divide_up(job.columns, kStretch);
  const double work = 4.0 * static_cast<double>(job.count) * static_cast<double>(job.columns);
  run_workers(units, useful_threads(job.threads, units, work), job.interrupt, WorkerBody(body));
}

}  // namespace mercer::MERCER_ISA
