// The subsequence kernel: common letters in the same order, with gaps.
#pragma once

#include <algorithm>

#include "strings/panels.hpp"

namespace mercer::MERCER_ISA {

// state[i][j]: subsequences of i letters that the first letters of x and the first j of a lane
// share, weighted by decay to the distance from their first letters to both ends.
class Subsequences {
 public:
  using T = double;
  Subsequences(const SubsequenceJob& job, const Panel<T>& panel)
      : job_(job), panel_(panel), state_(job.length * (panel.width + 1) * L) {}

  void operator()(const std::int32_t* x, std::int64_t length, Worker& worker, double* out) {
    const Vec<T> decay = broadcast<T>(job_.decay), square = decay * decay;
    const std::int64_t stride = (panel_.width + 1) * L;
    state_.fill(0.0);
    std::fill(state_.data(), state_.data() + stride, 1.0);
    Vec<T> total{};
    for (std::int64_t p = 0; p < length; ++p) {
      if (!worker.keep_going(panel_.width * job_.length)) return;
      const IVec<T> letter = everywhere<T>(x[p]);
      const T* last = state_.data() + (job_.length - 1) * stride;
      for (std::int64_t j = 0; j < panel_.width; ++j)
        total += keep_where<T>(panel_.equal(j, letter), load<T>(last + j * L)) * square;
      for (std::int64_t i = job_.length - 1; i >= 1; --i) {
        T* row = state_.data() + i * stride;
        const T* before = row - stride;
        Vec<T> along{};
        for (std::int64_t j = 0; j < panel_.width; ++j) {
          const Vec<T> met = keep_where<T>(panel_.equal(j, letter), load<T>(before + j * L));
          along = along * decay + met * square;
          store<T>(row + (j + 1) * L, load<T>(row + (j + 1) * L) * decay + along);
        }
      }
    }
    store_unaligned<T>(out, total);
  }

 private:
  static constexpr int L = kLanes<T>;
  const SubsequenceJob& job_;
  const Panel<T>& panel_;
  AlignedBuffer<T> state_;
};

inline void run_subsequences(const SubsequenceJob& job) {
  run_panels<double>(job.pairs, static_cast<double>(job.length),
                     [&](const Panel<double>& panel) { return Subsequences(job, panel); });
}

}  // namespace mercer::MERCER_ISA
