// The edit distance: the least number of letters to insert, delete or change.
#pragma once

#include "strings/panels.hpp"

namespace mercer::MERCER_ISA {

class EditDistances {
 public:
  using T = float;  // lanes are integers of 32 bits
  explicit EditDistances(const Panel<T>& panel) : panel_(panel), row_((panel.width + 1) * L) {}

  void operator()(const std::int32_t* x, std::int64_t length, Worker& worker, double* out) {
    for (std::int64_t j = 0; j <= panel_.width; ++j) put(j, broadcast_int<T>(static_cast<int>(j)));
    const IVec<T> one = broadcast_int<T>(1);
    for (std::int64_t p = 0; p < length; ++p) {
      if (!worker.keep_going(panel_.width)) return;
      const IVec<T> letter = everywhere<T>(x[p]);
      IVec<T> before = at(0), left = broadcast_int<T>(static_cast<int>(p) + 1);
      put(0, left);
      for (std::int64_t j = 0; j < panel_.width; ++j) {
        const IVec<T> above = at(j + 1);
        // A mask is -1 where it holds.
        const IVec<T> changed = before + one + panel_.equal(j, letter);
        const IVec<T> least = above < left ? above : left;
        left = least + one < changed ? least + one : changed;
        put(j + 1, left);
        before = above;
      }
    }
    for (int lane = 0; lane < L; ++lane) out[lane] = row_[panel_.lengths[lane] * L + lane];
  }

 private:
  static constexpr int L = kLanes<T>;
  typedef std::int32_t Stored __attribute__((vector_size(MERCER_VECTOR_BYTES), may_alias));
  MERCER_INLINE IVec<T> at(std::int64_t j) const {
    return *reinterpret_cast<const Stored*>(row_.data() + j * L);
  }
  MERCER_INLINE void put(std::int64_t j, IVec<T> value) {
    *reinterpret_cast<Stored*>(row_.data() + j * L) = value;
  }

  const Panel<T>& panel_;
  AlignedBuffer<std::int32_t> row_;
};

inline void run_edit_distances(const StringPairs& pairs) {
  run_panels<float>(pairs, 1.0, [&](const Panel<float>& panel) { return EditDistances(panel); });
}

}  // namespace mercer::MERCER_ISA
