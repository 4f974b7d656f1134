// Pairs of windows with few mismatches.
//
// They are found by sorting (windows that agree at a set of positions are neighbours), or by
// counting mismatches along diagonals, whichever is cheaper. The alphabet is in neither cost.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "strings/mirror.hpp"
#include "strings/words.hpp"

namespace mercer::MERCER_ISA {

// ---------------------------------------------------------------------------------------------
// Windows that agree at some positions, by sorting
// ---------------------------------------------------------------------------------------------

struct BucketEntry {
  std::int32_t row;
  std::int32_t count;
};

// The strings that have each masked word, and how often.
struct Buckets {
  std::vector<std::uint64_t> keys;
  std::vector<std::int64_t> begins;  // of the entries of each key, and their end
  std::vector<BucketEntry> entries;  // rows ascend for each key
};

struct KeyRow {
  std::uint64_t key;
  std::int32_t row;
};

inline Buckets masked_buckets(const std::vector<Word>& words, std::uint64_t mask,
                              std::int64_t length, int bits) {
  std::vector<int> shifts;
  for (std::int64_t p = 0; p < length; ++p)
    if ((mask >> p) & 1) shifts.push_back(bits * static_cast<int>(p));
  std::vector<KeyRow> items(words.size()), scratch;
  const std::uint64_t letter = low_bits(bits);
  for (std::size_t w = 0; w < words.size(); ++w) {
    std::uint64_t key = 0;
    for (const int shift : shifts) key = (key << bits) | ((words[w].key >> shift) & letter);
    items[w] = {key, words[w].row};
  }
  radix_sort(items, scratch, bits * static_cast<int>(shifts.size()));
  Buckets buckets;
  buckets.entries.reserve(items.size());
  for (const KeyRow& item : items) {
    const bool is_new = buckets.keys.empty() || buckets.keys.back() != item.key;
    if (is_new) {
      buckets.keys.push_back(item.key);
      buckets.begins.push_back(static_cast<std::int64_t>(buckets.entries.size()));
    }
    if (is_new || buckets.entries.back().row != item.row) buckets.entries.push_back({item.row, 0});
    ++buckets.entries.back().count;
  }
  buckets.begins.push_back(static_cast<std::int64_t>(buckets.entries.size()));
  return buckets;
}

// Adds the products of counts of rows `first` to `last`.
inline bool add_products(const Buckets& a, const Buckets& b, double weight, bool symmetric,
                         std::int64_t first, std::int64_t last, const StringPairs& pairs,
                         Worker& worker) {
  std::size_t other = 0;
  for (std::size_t k = 0; k < a.keys.size(); ++k) {
    while (other < b.keys.size() && b.keys[other] < a.keys[k]) ++other;
    if (other == b.keys.size()) return true;
    if (b.keys[other] != a.keys[k]) continue;
    const BucketEntry *begin = a.entries.data() + a.begins[k],
                      *end = a.entries.data() + a.begins[k + 1];
    const BucketEntry *others = b.entries.data() + b.begins[other],
                      *others_end = b.entries.data() + b.begins[other + 1];
    const auto before = [](const BucketEntry& entry, std::int64_t row) { return entry.row < row; };
    const BucketEntry* entry = first == 0 ? begin : std::lower_bound(begin, end, first, before);
    for (; entry != end && entry->row < last; ++entry) {
      const double factor = weight * entry->count;
      double* out = pairs.out + entry->row * pairs.b.count;
      const BucketEntry* start = symmetric ? entry : others;
      for (const BucketEntry* e = start; e != others_end; ++e) out[e->row] += factor * e->count;
    }
    if (!worker.keep_going((end - begin) * (others_end - others))) return false;
  }
  return true;
}

inline void windows_by_masks(const WindowsJob& job, const LetterRanks& ranks,
                             const std::vector<Word>& a, const std::vector<Word>& b) {
  constexpr std::int64_t kMostWords = std::int64_t{1} << 24, kMostMasks = 32;
  constexpr std::int64_t kUnits = 64, kRows = 64;
  const StringPairs& pairs = job.pairs;
  const bool symmetric = pairs.set == PairSet::symmetric;
  const auto masks = static_cast<std::int64_t>(job.masks.size());
  const auto words = static_cast<std::int64_t>(a.size() + b.size());
  const std::int64_t batch =
      std::clamp(kMostWords / std::max<std::int64_t>(words, 1), std::int64_t{1}, kMostMasks);
  const std::int64_t step = std::max(divide_up(pairs.a.count, kUnits), kRows);
  std::fill(pairs.out, pairs.out + pairs.a.count * pairs.b.count, 0.0);
  for (std::int64_t first = 0; first < masks; first += batch) {
    const std::int64_t count = std::min(batch, masks - first);
    std::vector<Buckets> left(static_cast<std::size_t>(count)), right(left.size());
    auto sort = [&](Worker& worker) {
      for (std::int64_t u = worker.next_unit(); u >= 0; u = worker.next_unit()) {
        const auto at = static_cast<std::size_t>(u);
        const std::uint64_t mask = job.masks[static_cast<std::size_t>(first) + at];
        left[at] = masked_buckets(a, mask, job.length, ranks.bits());
        if (!symmetric) right[at] = masked_buckets(b, mask, job.length, ranks.bits());
        if (!worker.keep_going(words * 4)) return;
      }
    };
    const double work = 1e3 * static_cast<double>(words * count);
    run_workers(count, useful_threads(pairs.threads, count, work), pairs.interrupt,
                WorkerBody(sort));
    auto add = [&](Worker& worker) {
      for (std::int64_t u = worker.next_unit(); u >= 0; u = worker.next_unit())
        for (std::size_t m = 0; m < left.size(); ++m)
          if (!add_products(left[m], symmetric ? left[m] : right[m],
                            job.mask_weights[static_cast<std::size_t>(first) + m], symmetric,
                            u * step, (u + 1) * step, pairs, worker))
            return;
    };
    run_workers(divide_up(pairs.a.count, step), useful_threads(pairs.threads, kUnits, work),
                pairs.interrupt, WorkerBody(add));
  }
  mirror(pairs);
}

// Bits of a word up to which the words of one string are counted in a table.
inline constexpr std::int64_t kTableBits = 16;

// Pairs (i, i): the sum over masks of the squared counts of masked words.
inline void diagonal_by_masks(const WindowsJob& job, const LetterRanks& ranks) {
  const StringPairs& pairs = job.pairs;
  const std::vector<Word> words = packed_words(pairs.a, ranks, job.length);
  std::vector<std::uint64_t> kept(job.masks.size());
  for (std::size_t m = 0; m < kept.size(); ++m)
    for (std::int64_t p = 0; p < job.length; ++p)
      if ((job.masks[m] >> p) & 1) kept[m] |= low_bits(ranks.bits()) << (ranks.bits() * p);
  const auto before = [](const Word& word, std::int64_t row) { return word.row < row; };
  auto body = [&](Worker& worker) {
    std::vector<std::int64_t> counts(std::size_t{1} << (ranks.bits() * job.length));
    for (std::int64_t i = worker.next_unit(); i >= 0; i = worker.next_unit()) {
      const auto begin = std::lower_bound(words.begin(), words.end(), i, before);
      const auto end = std::lower_bound(begin, words.end(), i + 1, before);
      double total = 0.0;
      for (std::size_t m = 0; m < kept.size(); ++m) {
        std::int64_t squares = 0;
        for (auto word = begin; word != end; ++word) ++counts[word->key & kept[m]];
        for (auto word = begin; word != end; ++word) squares += counts[word->key & kept[m]];
        for (auto word = begin; word != end; ++word) counts[word->key & kept[m]] = 0;
        total += job.mask_weights[m] * static_cast<double>(squares);
      }
      pairs.out[i] = total;
      if (!worker.keep_going((end - begin) * static_cast<std::int64_t>(kept.size()))) return;
    }
  };
  const double work = 10.0 * static_cast<double>(words.size()) * static_cast<double>(kept.size());
  run_workers(pairs.a.count, useful_threads(pairs.threads, pairs.a.count, work), pairs.interrupt,
              WorkerBody(body));
}

// ---------------------------------------------------------------------------------------------
// Mismatches of all pairs of windows, along diagonals
// ---------------------------------------------------------------------------------------------

// A string in the smallest type that holds letters and numbers of mismatches.
template <class C>
struct Narrow {
  std::vector<C> letters;
  std::vector<C> unknown;  // of each window: all bits if it has an unknown letter, otherwise 0

  void read(const Sequences& strings, std::int64_t i, const LetterRanks& ranks,
            std::int64_t length) {
    const std::int64_t n = strings.length(i);
    letters.assign(static_cast<std::size_t>(n), 0);
    unknown.assign(static_cast<std::size_t>(std::max<std::int64_t>(n - length + 1, 0)), 0);
    for (std::int64_t p = 0; p < n; ++p) {
      const std::int32_t rank = ranks[strings.at(i)[p]];
      letters[static_cast<std::size_t>(p)] = static_cast<C>(std::max(rank, 0));
      const std::int64_t low = std::max<std::int64_t>(p - length + 1, 0);
      const auto high = std::min<std::int64_t>(p + 1, static_cast<std::int64_t>(unknown.size()));
      if (rank < 0 && low < high)
        std::fill(unknown.begin() + low, unknown.begin() + high, static_cast<C>(~C(0)));
    }
  }
};

template <class C>
class MismatchProfile {
 public:
  MismatchProfile(std::int64_t length, const std::vector<double>& weights)
      : length_(length), weights_(weights), counts_(weights.size()) {}

  double operator()(const Narrow<C>& a, const Narrow<C>& b, Worker& worker) {
    const std::size_t rows = a.unknown.size(), columns = b.unknown.size();
    const auto l = static_cast<std::size_t>(length_);
    if (rows == 0 || columns == 0) return 0.0;
    std::vector<double> totals(weights_.size(), 0.0);
    for (auto& count : counts_) count.assign(columns, 0);
    row_.resize(columns);
    next_.resize(columns);
    std::size_t pending = 0;
    for (std::size_t i = 0; i < rows; ++i) {
      first_column(a, b, i);
      if (i > 0) advance(a.letters[i - 1], a.letters[i + l - 1], b.letters.data(), columns);
      if (a.unknown[i] == 0) tally(b.unknown.data(), columns);
      if (++pending == kFlush || i + 1 == rows) {
        flush(totals);
        pending = 0;
      }
      if (!worker.keep_going(static_cast<std::int64_t>(columns))) return 0.0;
    }
    double value = 0.0;
    for (std::size_t d = 0; d < totals.size(); ++d) value += weights_[d] * totals[d];
    return value;
  }

 private:
  static constexpr std::size_t kFlush = 255;

  void first_column(const Narrow<C>& a, const Narrow<C>& b, std::size_t i) {
    const auto l = static_cast<std::size_t>(length_);
    for (std::size_t j = 0; j < (i == 0 ? row_.size() : 1); ++j) {
      std::size_t mismatches = 0;
      for (std::size_t p = 0; p < l; ++p) mismatches += a.letters[i + p] != b.letters[j + p];
      next_[j] = static_cast<C>(mismatches);
    }
    if (i == 0) row_.swap(next_);
  }

  // The window one letter on: one letter leaves, and one enters.
  void advance(C leaves, C enters, const C* b, std::size_t columns) {
    const C* after = b + length_ - 1;
    for (std::size_t j = 1; j < columns; ++j)
      next_[j] = static_cast<C>(row_[j - 1] - (leaves != b[j - 1]) + (enters != after[j]));
    row_.swap(next_);
  }

  void tally(const C* unknown, std::size_t columns) {
    for (std::size_t d = 0; d < counts_.size(); ++d) {
      C* count = counts_[d].data();
      const C wanted = static_cast<C>(d);
      for (std::size_t j = 0; j < columns; ++j)
        count[j] = static_cast<C>(count[j] + (static_cast<C>(row_[j] | unknown[j]) == wanted));
    }
  }

  void flush(std::vector<double>& totals) {
    for (std::size_t d = 0; d < counts_.size(); ++d) {
      std::int64_t total = 0;
      for (C& count : counts_[d]) total += std::exchange(count, C(0));
      totals[d] += static_cast<double>(total);
    }
  }

  std::int64_t length_;
  const std::vector<double>& weights_;
  std::vector<std::vector<C>> counts_;
  std::vector<C> row_, next_;
};

template <class C>
void windows_by_diagonals(const WindowsJob& job, const LetterRanks& ranks) {
  const StringPairs& pairs = job.pairs;
  const std::int64_t n = pairs.a.count, m = pairs.b.count;
  double work = 0.0;
  for (std::int64_t i = 0; i < n; ++i) work += 1e3 * static_cast<double>(pairs.a.length(i));
  auto body = [&](Worker& worker) {
    MismatchProfile<C> profile(job.length, job.profile);
    Narrow<C> a, b;
    for (std::int64_t i = worker.next_unit(); i >= 0; i = worker.next_unit()) {
      a.read(pairs.a, i, ranks, job.length);
      const bool diagonal = pairs.set == PairSet::diagonal;
      const std::int64_t first = pairs.set == PairSet::all ? 0 : i, last = diagonal ? i + 1 : m;
      for (std::int64_t j = first; j < last; ++j) {
        b.read(pairs.b, j, ranks, job.length);
        pairs.out[diagonal ? i : i * m + j] = profile(a, b, worker);
        if (!worker.keep_going(1)) return;
      }
    }
  };
  run_workers(n, useful_threads(pairs.threads, n, work), pairs.interrupt, WorkerBody(body));
  mirror(pairs);
}

// Nanoseconds of sorting one masked word, of one product of counts, and of one mismatch count.
inline constexpr double kSort = 15.0, kProduct = 1.0, kCompare = 0.03;

inline void run_windows(const WindowsJob& job) {
  LetterRanks ranks;
  ranks.add(job.pairs.a);
  ranks.add(job.pairs.b);
  if (!job.masks.empty() && job.pairs.set == PairSet::diagonal &&
      job.length * ranks.bits() <= kTableBits)
    return diagonal_by_masks(job, ranks);
  if (!job.masks.empty() && job.length * ranks.bits() <= 64 && job.pairs.set != PairSet::diagonal) {
    const std::vector<Word> a = packed_words(job.pairs.a, ranks, job.length);
    const std::vector<Word> b = job.pairs.set == PairSet::symmetric
                                    ? std::vector<Word>()
                                    : packed_words(job.pairs.b, ranks, job.length);
    const auto left = static_cast<double>(a.size());
    const auto right = job.pairs.set == PairSet::symmetric ? left : static_cast<double>(b.size());
    double masks = 0.0;
    for (const std::uint64_t mask : job.masks) {
      const double size = std::pow(ranks.size(), __builtin_popcountll(mask));
      const auto strings =
          static_cast<double>(job.pairs.a.count) * static_cast<double>(job.pairs.b.count);
      masks += kSort * (left + right) + kProduct * std::min(left * right / size, strings * size);
    }
    const auto depth = static_cast<double>(job.profile.size() + 2);
    if (masks <= kCompare * depth * left * right) return windows_by_masks(job, ranks, a, b);
  }
  if (ranks.size() <= 255 && job.length < 255) {
    windows_by_diagonals<std::uint8_t>(job, ranks);
  } else {
    windows_by_diagonals<std::uint32_t>(job, ranks);
  }
}

}  // namespace mercer::MERCER_ISA
