// The lower half of a symmetric matrix, from the upper one.
#pragma once

#include "engine.hpp"

namespace mercer::MERCER_ISA {

inline void mirror(const StringPairs& pairs) {
  const std::int64_t n = pairs.b.count;
  if (pairs.set == PairSet::symmetric)
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < i; ++j) pairs.out[i * n + j] = pairs.out[j * n + i];
}

}  // namespace mercer::MERCER_ISA
