// Panels: strings as lanes.
//
// The dynamic programmes compare one string with a panel of others, letter by letter, in rolling
// rows.
#pragma once

#include <algorithm>

#include "simd.hpp"
#include "strings/mirror.hpp"

namespace mercer::MERCER_ISA {

// No letter, and no unknown letter of another string.
inline constexpr std::int32_t kPadding = -2;

// Up to L strings; letter p of all of them is one vector of integers as wide as T.
template <class T>
struct Panel {
  static constexpr int L = kLanes<T>;
  AlignedBuffer<Int<T>> letters;
  std::int64_t width = 0, count = 0;
  std::int64_t lengths[L];

  Panel(const Sequences& strings, std::int64_t first, std::int64_t most) {
    count = std::min<std::int64_t>(most, strings.count - first);
    for (std::int64_t lane = 0; lane < L; ++lane) {
      lengths[lane] = lane < count ? strings.length(first + lane) : 0;
      width = std::max(width, lengths[lane]);
    }
    letters = AlignedBuffer<Int<T>>(std::max<std::int64_t>(width, 1) * L);
    letters.fill(kPadding);
    for (std::int64_t lane = 0; lane < count; ++lane)
      for (std::int64_t p = 0; p < lengths[lane]; ++p)
        letters[p * L + lane] = strings.at(first + lane)[p];
  }

  // Which lanes have this letter at a place.
  MERCER_INLINE IVec<T> equal(std::int64_t place, IVec<T> letter) const {
    return at(place) == letter;
  }
  MERCER_INLINE IVec<T> at(std::int64_t place) const {
    typedef Int<T> Stored __attribute__((vector_size(MERCER_VECTOR_BYTES), may_alias));
    return *reinterpret_cast<const Stored*>(letters.data() + place * L);
  }
};

// A letter in all lanes, which equals no lane if it is unknown.
template <class T>
MERCER_INLINE IVec<T> everywhere(std::int32_t letter) {
  return broadcast_int<T>(letter < 0 ? kPadding - 1 : letter);
}

// Calls make(panel), and the result with each string: result(letters, length, worker, out) writes a
// number for each lane.
template <class T, class Make>
void run_panels(const StringPairs& pairs, double work_per_cell, Make make) {
  constexpr std::int64_t L = kLanes<T>, kRows = 64;
  const bool diagonal = pairs.set == PairSet::diagonal;
  const std::int64_t n = pairs.a.count, m = pairs.b.count, step = diagonal ? 1 : L;
  const std::int64_t row_blocks = diagonal ? 1 : divide_up(n, kRows);
  const std::int64_t units = divide_up(m, step) * row_blocks;
  double cells = 0.0;
  for (std::int64_t j = 0; j < m; ++j) cells += static_cast<double>(pairs.b.length(j));
  auto body = [&](Worker& worker) {
    for (std::int64_t unit = worker.next_unit(); unit >= 0; unit = worker.next_unit()) {
      const std::int64_t first = unit / row_blocks * step;
      const Panel<T> panel(pairs.b, first, step);
      auto programme = make(panel);
      const std::int64_t row = diagonal ? first : unit % row_blocks * kRows;
      std::int64_t last = diagonal ? first + 1 : std::min(row + kRows, n);
      if (pairs.set == PairSet::symmetric) last = std::min(last, first + panel.count);
      double values[L] = {};
      for (std::int64_t i = row; i < last; ++i) {
        programme(pairs.a.at(i), pairs.a.length(i), worker, values);
        for (std::int64_t lane = 0; lane < panel.count; ++lane)
          pairs.out[diagonal ? i : i * m + first + lane] = values[lane];
        if (!worker.keep_going(1)) return;
      }
    }
  };
  const double work = work_per_cell * cells * static_cast<double>(diagonal ? 100 : n) * 10.0;
  run_workers(units, useful_threads(pairs.threads, units, work), pairs.interrupt, WorkerBody(body));
  mirror(pairs);
}

}  // namespace mercer::MERCER_ISA
