// The local alignment kernel: sums over all local alignments.
#pragma once

#include <cmath>

#include "strings/panels.hpp"

namespace mercer::MERCER_ISA {

// Sums over alignments that end with a match, a gap in one string, or a gap in the other. Numbers
// that grow large are divided by a power of two, which is counted.
class LocalAlignments {
 public:
  using T = double;
  LocalAlignments(const AlignmentJob& job, const Panel<T>& panel)
      : job_(job),
        panel_(panel),
        factors_(job.alphabet * panel.width * L),
        match_((panel.width + 1) * L),
        gap_((panel.width + 1) * L),
        other_((panel.width + 1) * L) {
    for (std::int64_t letter = 0; letter < job.alphabet; ++letter)
      for (std::int64_t j = 0; j < panel.width * L; ++j) {
        const std::int64_t beside = panel.letters[j];
        factors_[letter * panel.width * L + j] =
            beside < 0 ? 0.0 : job.factors[letter * job.alphabet + beside];
      }
  }

  void operator()(const std::int32_t* x, std::int64_t length, Worker& worker, double* out) {
    match_.fill(0.0);
    gap_.fill(0.0);
    other_.fill(0.0);
    one_ = broadcast<T>(1.0);
    total_ = shift_ = Vec<T>{};
    for (std::int64_t p = 0; p < length; ++p) {
      if (!worker.keep_going(panel_.width * 4)) return;
      if (x[p] >= 0) {
        add_letter(factors_.data() + x[p] * panel_.width * L);
      } else {
        add_letter(nullptr);
      }
    }
    for (int lane = 0; lane < L; ++lane)
      out[lane] = std::log(total_[lane] + one_[lane]) + shift_[lane] * std::log(2.0);
  }

 private:
  static constexpr int L = kLanes<T>;
  static constexpr double kStep = 256.0;

  void add_letter(const T* factors) {
    const Vec<T> open = broadcast<T>(job_.open), extend = broadcast<T>(job_.extend);
    // The sums at (p - 1, j - 1), and at (p, j - 1).
    Vec<T> match_before{}, gap_before{}, other_before{}, match_left{}, gap_left{}, other_left{};
    Vec<T> largest{};
    for (std::int64_t j = 0; j < panel_.width; ++j) {
      const std::int64_t at = j * L;
      const Vec<T> match_above = load<T>(match_.data() + at), gap_above = load<T>(gap_.data() + at);
      const Vec<T> other_above = load<T>(other_.data() + at);
      const Vec<T> sum = one_ + match_before + gap_before + other_before;
      const Vec<T> match = factors == nullptr ? Vec<T>{} : load<T>(factors + at) * sum;
      const Vec<T> gap = open * match_above + extend * gap_above;
      const Vec<T> other = open * (match_left + gap_left) + extend * other_left;
      total_ += match;
      largest = vmax<T>(largest, match);
      store<T>(match_.data() + at, match);
      store<T>(gap_.data() + at, gap);
      store<T>(other_.data() + at, other);
      match_before = match_above, gap_before = gap_above, other_before = other_above;
      match_left = match, gap_left = gap, other_left = other;
    }
    const IVec<T> large = largest > broadcast<T>(std::ldexp(1.0, 256));
    if (any<T>(large)) divide(large);
  }

  void divide(IVec<T> large) {
    const Vec<T> factor = select<T>(large, broadcast<T>(std::ldexp(1.0, -256)), broadcast<T>(1.0));
    for (AlignedBuffer<T>* sums : {&match_, &gap_, &other_})
      for (std::int64_t j = 0; j < panel_.width; ++j)
        store<T>(sums->data() + j * L, load<T>(sums->data() + j * L) * factor);
    total_ *= factor;
    one_ *= factor;
    shift_ += keep_where<T>(large, broadcast<T>(kStep));
  }

  const AlignmentJob& job_;
  const Panel<T>& panel_;
  AlignedBuffer<T> factors_, match_, gap_, other_;
  Vec<T> one_, total_, shift_;
};

inline void run_local_alignments(const AlignmentJob& job) {
  run_panels<double>(job.pairs, 4.0,
                     [&](const Panel<double>& panel) { return LocalAlignments(job, panel); });
}

}  // namespace mercer::MERCER_ISA
