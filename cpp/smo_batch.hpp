// Many small problems of one matrix, each solved by exchanges between all of its variables.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "smo.hpp"

namespace mercer::MERCER_ISA {

// One problem of a batch, on all of its variables.
template <class S>
class BatchProblem {
 public:
  BatchProblem(const SmoBatchJob<S>& batch, std::int64_t number)
      : batch_(batch),
        begin_(batch.begins[number]),
        size_(batch.begins[number + 1] - begin_),
        tolerance_(batch.tolerances[number]),
        ascent_(static_cast<std::size_t>(size_)) {
    job_.values = batch.values;
    job_.stride = batch.stride;
    job_.size = size_;
    job_.split = batch.splits[number];
    job_.rows = batch.rows + begin_;
    job_.ascent = ascent_.data();
    job_.up = batch.up + begin_;
    job_.down = batch.down + begin_;
    job_.steps = batch.steps[number];
    for (std::int64_t k = 0; k < size_; ++k) {
      const bool follows = k > 0 && job_.rows[k] == job_.rows[k - 1] + 1;
      if (!follows) stretches_.push_back({k, k});
      ++stretches_.back().end;
    }
  }

  // The number of exchanges so far. What is written at the end is that of the coefficients.
  std::int64_t solve(Worker& worker) {
    for (int attempt = 0;; ++attempt) {
      multiply();
      const double gap = std::max(violation(0, job_.split), violation(job_.split, size_));
      if (!(gap > tolerance_) || attempt == kAttempts || job_.steps >= batch_.limit) break;
      if (!worker.keep_going(size_)) break;
      job_.tolerance = std::max(kNearly * tolerance_, kRounding * largest_ascent());
      // Rounded to float32 a matrix may have no minimum to be found: steps are left for float64.
      const bool narrow = batch_.narrow && attempt == 0;
      const std::int64_t some = job_.steps + std::max(kLeastNarrow, kNarrow * size_);
      job_.limit = narrow ? std::min(some, batch_.limit) : batch_.limit;
      if (narrow) {
        exchange_narrowly(job_, worker);
      } else {
        exchange_until_done<S, double>(job_, worker);
      }
    }
    return job_.steps;
  }

 private:
  static constexpr int kAttempts = 4;
  // A little less than what is asked, so that another way to round does not miss it.
  static constexpr double kNearly = 0.9;
  // What float64 shows of an ascent.
  static constexpr double kRounding = 16 * std::numeric_limits<double>::epsilon();
  // Exchanges in float32: at least so many, and so many for each variable.
  static constexpr std::int64_t kLeastNarrow = 20'000, kNarrow = 50;

  struct Stretch {
    std::int64_t begin, end;
  };

  // A variable from how far it may rise and fall, measured from the bound that is zero.
  double coefficient(std::int64_t k) const {
    const double lower = batch_.lower[begin_ + k], upper = batch_.upper[begin_ + k];
    if (job_.up[k] == 0) return upper;
    if (job_.down[k] == 0) return lower;
    return upper == 0 ? -job_.up[k] : lower + job_.down[k];
  }

  // The coefficients, the matrix times them, and the ascents.
  void multiply() {
    double* product = batch_.products + begin_;
    std::fill_n(product, size_, 0.0);
    for (std::int64_t k = 0; k < size_; ++k) {
      const double factor = batch_.coefficients[begin_ + k] = coefficient(k);
      if (factor == 0) continue;
      const S* values = batch_.values + job_.rows[k] * job_.stride;
      for (const auto& [begin, end] : stretches_) {
        const S* source = values + job_.rows[begin];
        for (std::int64_t m = begin; m < end; ++m)
          product[m] += factor * static_cast<double>(source[m - begin]);
      }
    }
    for (std::int64_t k = 0; k < size_; ++k)
      ascent_[static_cast<std::size_t>(k)] = -(product[k] + batch_.linear[begin_ + k]);
  }

  double violation(std::int64_t begin, std::int64_t end) const {
    double highest = -std::numeric_limits<double>::infinity(), lowest = -highest;
    for (std::int64_t k = begin; k < end; ++k) {
      const double ascent = ascent_[static_cast<std::size_t>(k)];
      if (job_.up[k] > 0) highest = std::max(highest, ascent);
      if (job_.down[k] > 0) lowest = std::min(lowest, ascent);
    }
    return highest - lowest;
  }

  double largest_ascent() const {
    double largest = 0.0;
    for (const double ascent : ascent_) largest = std::max(largest, std::abs(ascent));
    return largest;
  }

  const SmoBatchJob<S>& batch_;
  std::int64_t begin_, size_;
  double tolerance_;
  std::vector<double> ascent_;
  std::vector<Stretch> stretches_;  // variables of neighbouring rows
  SmoJob<S> job_;
};

template <class T>
void run_smo_batch(const SmoBatchJob<T>& batch) {
  auto body = [&batch](Worker& worker) {
    for (std::int64_t p = worker.next_unit(); p >= 0; p = worker.next_unit())
      batch.steps[p] = BatchProblem<T>(batch, p).solve(worker);
  };
  // About as many exchanges as there are variables, each of which looks at all of them.
  double work = 0.0;
  for (std::int64_t p = 0; p < batch.problems; ++p) {
    const auto size = static_cast<double>(batch.begins[p + 1] - batch.begins[p]);
    work += 10.0 * size * size;
  }
  run_workers(batch.problems, useful_threads(batch.threads, batch.problems, work), batch.interrupt,
              WorkerBody(body));
}

}  // namespace mercer::MERCER_ISA
