// Sums of rows of a stored matrix, each times a factor, in float64.
#pragma once

#include <algorithm>

#include "engine.hpp"
#include "simd.hpp"

namespace mercer::MERCER_ISA {

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
