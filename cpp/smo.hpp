// Quadratic programmes with boxes and one sum, on a working set of variables: two at a time.
//
// In the coefficients b of a kernel expansion, the dual problems of support vector machines are
//
//   minimise 1/2 b'Kb + c'b   subject to   l <= b <= u,  sum b = constant (in each group).
//
// With the ascent v = -(Kb + c), an exchange b_i += t, b_j -= t gains t (v_i - v_j) - t^2 a / 2,
// where a = K_ii + K_jj - 2 K_ij; signs of classes and doubled variables are the caller's affair.
// i has the largest v of those that may rise, j the largest gain of those that may fall (Fan, Chen,
// Lin 2005). Kernel values may be float32, and then the ascents too, if the tolerance is far above
// their rounding; amounts of exchanges are float64.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

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
template <class T, class A>
MERCER_INLINE Vec<T> difference(Vec<A> base, const A* values) {
  if constexpr (sizeof(T) < sizeof(A)) {
    return narrow({base - load<A>(values), base - load<A>(values + kLanes<A>)});
  } else {
    return base - load<A>(values);
  }
}

// Exchanges between some variables of a job, of which S is the type of the matrix, T that of the
// values as they are used, and A that of the ascents.
template <class T, class A, class S>
class Smo {
 public:
  // The variables in order, and the ascent of each.
  Smo(SmoJob<S>& job, const std::vector<std::int64_t>& variables, const std::vector<double>& ascent)
      : job_(job),
        variables_(variables),
        size_(static_cast<std::int64_t>(variables.size())),
        split_(std::lower_bound(variables.begin(), variables.end(), job.split) - variables.begin()),
        groups_{{0, pad(split_)}, {pad(split_), pad(split_) + pad(size_ - split_)}},
        width_(groups_[1].end),
        in_place_(lies_in_place()),
        block_(in_place_ ? width_ : width_ * width_),
        diagonal_(width_),
        rising_(width_),
        falling_(width_),
        known_(width_),
        stretch_(size_) {
    read(ascent);
    for (int g = 0; g < 2; ++g) find_extremes(g);
  }

  // Exchanges until none is left to be done, or until many variables no longer take part: True
  // then.
  bool run(Worker& worker) {
    const std::int64_t look = std::max<std::int64_t>(size_, kLeastSteps);
    for (std::int64_t left = look;; ++job_.steps, --left) {
      job_.gap = std::max(gap(0), gap(1));
      if (!(job_.gap > job_.tolerance) || job_.steps >= job_.limit) return false;
      if (!worker.keep_going(width_)) return false;
      if (left == 0) {
        if (contenders() <= kFew * static_cast<double>(size_)) return true;
        left = look;
      }
      exchange();
    }
  }

  // The variables that may yet take part, and their ascents.
  void leave(std::vector<std::int64_t>& variables, std::vector<double>& ascent) const {
    variables.clear();
    ascent.clear();
    for (std::int64_t k = 0; k < size_; ++k) {
      if (!contends(place(k))) continue;
      const A rising = rising_[place(k)];
      variables.push_back(variables_[static_cast<std::size_t>(k)]);
      ascent.push_back(static_cast<double>(rising > -kNever ? rising : falling_[place(k)]));
    }
  }

 private:
  static constexpr std::int64_t L = kLanes<T>;
  static constexpr A kNever = std::numeric_limits<A>::infinity();
  // How often variables that no longer take part are counted, and the share of those left for which
  // it is worth to begin anew without them.
  static constexpr std::int64_t kLeastSteps = 500;
  static constexpr double kFew = 0.7;

  struct Group {
    std::int64_t begin, end;
    Largest<A> top{};
    A bottom = kNever;
  };

  static std::int64_t pad(std::int64_t count) { return round_up(count, kPanel<float>); }
  // Where a variable lies in the padded arrays.
  std::int64_t place(std::int64_t k) const {
    return k < split_ ? k : groups_[1].begin + k - split_;
  }
  std::int64_t variable(std::int64_t place) const {
    const std::int64_t k = place < groups_[1].begin ? place : place - groups_[1].begin + split_;
    return variables_[static_cast<std::size_t>(k)];
  }
  std::int64_t matrix_row(std::int64_t k) const {
    return job_.rows[variables_[static_cast<std::size_t>(k)]];
  }
  double gap(int g) const {
    return static_cast<double>(groups_[g].top.value) - static_cast<double>(groups_[g].bottom);
  }

  // Whether an exchange with some other variable could gain: else nothing changes but its ascent.
  bool contends(std::int64_t place) const {
    const Group& group = groups_[place < groups_[1].begin ? 0 : 1];
    return rising_[place] >= group.bottom || falling_[place] <= group.top.value;
  }

  double contenders() const {
    double count = 0.0;
    for (std::int64_t k = 0; k < size_; ++k) count += contends(place(k)) ? 1.0 : 0.0;
    return count;
  }

  void read(const std::vector<double>& ascent) {
    rising_.fill(-kNever);
    falling_.fill(kNever);
    diagonal_.fill(T(0));
    known_.fill(0);
    T largest = 0;
    for (std::int64_t k = size_ - 1; k >= 0; --k)
      stretch_[k] =
          k + 1 < size_ && matrix_row(k + 1) == matrix_row(k) + 1 ? stretch_[k + 1] + 1 : 1;
    for (std::int64_t k = 0; k < size_; ++k) {
      const std::int64_t at = matrix_row(k);
      diagonal_[place(k)] = static_cast<T>(job_.values[at * job_.stride + at]);
      largest = std::max(largest, std::abs(diagonal_[place(k)]));
      place_ascent(place(k), static_cast<A>(ascent[static_cast<std::size_t>(k)]));
    }
    least_curvature_ = (largest > 0 ? largest : T(1)) * T(1e-12);
  }

  // Whether the rows of the matrix can be used as they are. The padding of a row is then the
  // beginning of the next one, which has to be long enough; ascents are infinite there.
  bool lies_in_place() const {
    if (!std::is_same_v<S, T> || (split_ > 0 && split_ < size_)) return false;
    if (width_ > 2 * size_ || job_.stride < size_) return false;
    for (std::int64_t k = 0; k < size_; ++k)
      if (matrix_row(k) != k) return false;
    return true;
  }

  // The kernel values of a variable with all others. Many variables are never exchanged: theirs are
  // not read.
  const T* row(std::int64_t place) {
    if constexpr (std::is_same_v<S, T>) {
      // The last row has none after it, and is copied.
      if (in_place_ && place + 1 < size_) return job_.values + place * job_.stride;
    }
    T* target = block_.data() + (in_place_ ? 0 : place * width_);
    if (known_[place] == 0) {
      const S* source = job_.values + job_.rows[variable(place)] * job_.stride;
      std::fill_n(target, width_, T(0));
      gather(source, 0, split_, target);
      gather(source, split_, size_, target + groups_[1].begin - split_);
      known_[place] = 1;
    }
    return target;
  }

  // Stretches of neighbouring rows are copied at once: classes often lie together.
  void gather(const S* source, std::int64_t begin, std::int64_t end, T* target) const {
    for (std::int64_t m = begin; m < end;) {
      const std::int64_t length = std::min(stretch_[m], end - m);
      const S* values = source + matrix_row(m);
      for (std::int64_t i = 0; i < length; ++i) target[m + i] = static_cast<T>(values[i]);
      m += length;
    }
  }

  void place_ascent(std::int64_t place, A value) {
    rising_[place] = job_.up[variable(place)] > 0 ? value : -kNever;
    falling_[place] = job_.down[variable(place)] > 0 ? value : kNever;
  }

  void find_extremes(int g) { update(g, nullptr, nullptr, 0.0); }

  // Subtracts t (K_i - K_j) from the ascents of a group, and finds its extremes.
  void update(int g, const T* first, const T* second, double t) {
    constexpr int D = kLanes<A>;
    Group& group = groups_[g];
    constexpr int kParts = static_cast<int>(L) / D;
    Vec<A> top[kParts], bottom[kParts];
    for (Vec<A>& value : top) value = broadcast<A>(-kNever);
    for (Vec<A>& value : bottom) value = broadcast<A>(kNever);
    const Vec<A> step = broadcast<A>(static_cast<A>(t));
    for (std::int64_t k = group.begin; k < group.end; k += L) {
      Vec<A> change[kParts] = {};
      if (first != nullptr) kernel_difference(first + k, second + k, change);
#pragma GCC unroll 2
      for (int part = 0; part < kParts; ++part) {
        const std::int64_t at = k + part * D;
        const Vec<A> rising = load<A>(&rising_[at]) - step * change[part];
        const Vec<A> falling = load<A>(&falling_[at]) - step * change[part];
        store<A>(&rising_[at], rising);
        store<A>(&falling_[at], falling);
        top[part] = vmax<A>(top[part], rising);
        bottom[part] = vmin<A>(bottom[part], falling);
      }
    }
    group.top = {};
    group.bottom = kNever;
    for (int part = 0; part < kParts; ++part)
      for (int lane = 0; lane < D; ++lane) {
        group.top.value = std::max(group.top.value, top[part][lane]);
        group.bottom = std::min(group.bottom, bottom[part][lane]);
      }
    group.top.position = first_of(group, group.top.value);
  }

  // The first variable of a group with this ascent that may rise; to look for it once is quicker
  // than to keep positions on the way.
  std::int64_t first_of(const Group& group, A value) const {
    constexpr int D = kLanes<A>;
    const Vec<A> wanted = broadcast<A>(value);
    for (std::int64_t k = group.begin; k < group.end && value > -kNever; k += D) {
      const IVec<A> found = load<A>(&rising_[k]) == wanted;
      if (!any<A>(found)) continue;
      for (int lane = 0; lane < D; ++lane)
        if (found[lane]) return k + lane;
    }
    return -1;
  }

  template <int N>
  static MERCER_INLINE void kernel_difference(const T* first, const T* second,
                                              Vec<A> (&change)[N]) {
    if constexpr (sizeof(T) < sizeof(A)) {
      const Widened a = widen(load_unaligned<T>(first)), b = widen(load_unaligned<T>(second));
      change[0] = a.first - b.first;
      change[1] = a.second - b.second;
    } else {
      change[0] = load_unaligned<T>(first) - load_unaligned<T>(second);
    }
  }

  // The variable to fall with the largest gain of an exchange with the top of a group.
  Largest<T> partner(const Group& group) {
    const std::int64_t i = group.top.position;
    const T* values = row(i);
    const Vec<A> highest = broadcast<A>(group.top.value);
    const Vec<T> own = broadcast<T>(diagonal_[i]), least = broadcast<T>(least_curvature_);
    LargestLanes<T> lanes;
    IVec<T> where = first_positions<T>(group.begin);
    for (std::int64_t k = group.begin; k < group.end; k += L) {
      const Vec<T> slope = difference<T, A>(highest, &falling_[k]);
      const Vec<T> shared = load_unaligned<T>(values + k);
      const Vec<T> curvature = vmax<T>(own + load<T>(&diagonal_[k]) - (shared + shared), least);
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
    const A high = rising_[i], low = falling_[j];
    const T curvature =
        std::max(diagonal_[i] + diagonal_[j] - (first[j] + first[j]), least_curvature_);
    double& up = job_.up[variable(i)];
    double& down = job_.down[variable(j)];
    const double slope = static_cast<double>(high) - static_cast<double>(low);
    const double t = std::min({slope / static_cast<double>(curvature), up, down});
    job_.down[variable(i)] += t;
    job_.up[variable(j)] += t;
    up -= t;
    down -= t;
    place_ascent(i, high);
    place_ascent(j, low);
    for (int g = 0; g < 2; ++g) update(g, first, second, t);
  }

  SmoJob<S>& job_;
  const std::vector<std::int64_t>& variables_;
  std::int64_t size_, split_;
  Group groups_[2];
  std::int64_t width_;
  bool in_place_;
  AlignedBuffer<T> block_, diagonal_;
  AlignedBuffer<A> rising_, falling_;
  AlignedBuffer<std::uint8_t> known_;    // whether a row of the block has been read
  AlignedBuffer<std::int64_t> stretch_;  // neighbouring rows from each variable on
  T least_curvature_ = 0;
};

// Variables at bounds that no exchange would move are left out as soon as there are many.
template <class T, class A, class S>
void exchange_until_done(SmoJob<S>& job, Worker& worker) {
  std::vector<std::int64_t> variables(static_cast<std::size_t>(job.size));
  for (std::size_t k = 0; k < variables.size(); ++k) variables[k] = static_cast<std::int64_t>(k);
  std::vector<double> ascent(job.ascent, job.ascent + job.size);
  for (bool more = true; more;) {
    const std::vector<std::int64_t> some = variables;
    Smo<T, A, S> smo(job, some, ascent);
    more = smo.run(worker);
    if (more) smo.leave(variables, ascent);
  }
}

// Exchanges with kernel values rounded to float32. So are the ascents, if what rounding adds up to
// is small beside the tolerance: the caller computes them anew.
template <class S>
void exchange_narrowly(SmoJob<S>& job, Worker& worker) {
  constexpr double kClear = 1000 * static_cast<double>(std::numeric_limits<float>::epsilon());
  double largest = 0.0;
  for (std::int64_t k = 0; k < job.size; ++k) largest = std::max(largest, std::abs(job.ascent[k]));
  if (job.tolerance >= kClear * largest) {
    exchange_until_done<float, float>(job, worker);
  } else {
    exchange_until_done<float, double>(job, worker);
  }
}

template <class T>
void run_smo(SmoJob<T>& job) {
  auto body = [&job](Worker& worker) {
    if (worker.next_unit() < 0) return;
    if (job.narrow) {
      exchange_narrowly(job, worker);
    } else {
      exchange_until_done<T, double>(job, worker);
    }
  };
  job.steps = 0;
  run_workers(1, 1, job.interrupt, WorkerBody(body));
}

}  // namespace mercer::MERCER_ISA
