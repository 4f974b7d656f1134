// The weighted degree kernel: common substrings at the same positions.
#pragma once

#include <algorithm>

#include "strings/panels.hpp"

namespace mercer::MERCER_ISA {

// A run of r matches that ends at a position adds the weights of all degrees up to min(r, degree),
// which have a closed form.
class WeightedDegree {
 public:
  using T = double;
  WeightedDegree(const WeightedDegreeJob& job, const Panel<T>& panel) : job_(job), panel_(panel) {}

  void operator()(const std::int32_t* x, std::int64_t length, Worker& worker, double* out) const {
    Vec<T> total = runs(x, length, 0, 0);
    for (std::int64_t s = 1; s <= job_.shift; ++s) {
      const Vec<T> both = runs(x, length, s, 0) + runs(x, length, 0, s);
      total += both * broadcast<T>(0.5 / static_cast<T>(s + 1));
      if (!worker.keep_going(length)) return;
    }
    store_unaligned<T>(out, total);
  }

 private:
  // x from letter `skipped` on, against the panel from letter `passed` on.
  Vec<T> runs(const std::int32_t* x, std::int64_t length, std::int64_t skipped,
              std::int64_t passed) const {
    const auto degree = static_cast<T>(job_.degree);
    const Vec<T> most = broadcast<T>(degree), one = broadcast<T>(1.0);
    Vec<T> run{}, total{};
    const std::int64_t end = std::min(length - skipped, panel_.width - passed);
    for (std::int64_t p = 0; p < end; ++p) {
      const IVec<T> equal = panel_.equal(p + passed, everywhere<T>(x[p + skipped]));
      run = keep_where<T>(equal, vmin<T>(run + one, most));
      total += run * (broadcast<T>(degree + 0.5) - run * broadcast<T>(0.5));
    }
    return total * broadcast<T>(2.0 / (degree * (degree + 1.0)));
  }

  const WeightedDegreeJob& job_;
  const Panel<T>& panel_;
};

inline void run_weighted_degree(const WeightedDegreeJob& job) {
  run_panels<double>(job.pairs, static_cast<double>(1 + 2 * job.shift),
                     [&](const Panel<double>& panel) { return WeightedDegree(job, panel); });
}

}  // namespace mercer::MERCER_ISA
