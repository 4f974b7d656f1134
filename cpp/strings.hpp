// Kernels of strings, and common bits of sets.
//
// Windows: pairs of windows with few mismatches are found by sorting (windows that agree at a set
// of positions are neighbours), or by counting mismatches along diagonals, whichever is cheaper.
// The alphabet is in neither cost. Dynamic programmes: lanes are strings. One string is compared
// with a panel of others, letter by letter, in rolling rows.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "engine.hpp"
#include "simd.hpp"
#include "transpose.hpp"

namespace mercer::MERCER_ISA {

// ---------------------------------------------------------------------------------------------
// Letters
// ---------------------------------------------------------------------------------------------

// Letters renumbered from 0 in the order in which they occur.
class LetterRanks {
 public:
  void add(const Sequences& strings) {
    for (std::int64_t i = 0; i < strings.count; ++i)
      for (std::int64_t p = 0; p < strings.length(i); ++p) {
        const std::int32_t letter = strings.at(i)[p];
        if (letter < 0) continue;
        const auto place = static_cast<std::size_t>(letter);
        if (place >= ranks_.size()) ranks_.resize(std::max(place + 1, 2 * ranks_.size()), -1);
        if (ranks_[place] < 0) ranks_[place] = size_++;
      }
  }

  std::int32_t operator[](std::int32_t letter) const {
    return letter < 0 ? -1 : ranks_[static_cast<std::size_t>(letter)];
  }
  std::int32_t size() const { return size_; }
  // Bits of a letter.
  int bits() const {
    int bits = 1;
    while ((std::int64_t{1} << bits) < size_) ++bits;
    return bits;
  }

 private:
  std::vector<std::int32_t> ranks_;
  std::int32_t size_ = 0;
};

// ---------------------------------------------------------------------------------------------
// Words: windows packed into integers, and sorted
// ---------------------------------------------------------------------------------------------

// A window without unknown letters: its letters as bits, its string and its place.
struct Word {
  std::uint64_t key;
  std::int32_t row;
  std::int64_t place;
};

inline std::uint64_t low_bits(int bits) {
  return bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
}

// All windows of `length` letters, string after string; length * bits <= 64.
inline std::vector<Word> packed_words(const Sequences& strings, const LetterRanks& ranks,
                                      std::int64_t length) {
  const int bits = ranks.bits();
  const std::uint64_t kept = low_bits(bits * static_cast<int>(length));
  std::vector<Word> words;
  for (std::int64_t i = 0; i < strings.count; ++i) {
    std::uint64_t key = 0;
    std::int64_t known = 0;
    for (std::int64_t p = 0; p < strings.length(i); ++p) {
      const std::int32_t rank = ranks[strings.at(i)[p]];
      known = rank < 0 ? 0 : known + 1;
      key = ((key << bits) | static_cast<std::uint64_t>(std::max(rank, 0))) & kept;
      if (known >= length)
        words.push_back({key, static_cast<std::int32_t>(i), strings.starts[i] + p - length + 1});
    }
  }
  return words;
}

// Sorts by the lowest `bits` bits of the keys; equal keys keep their order.
template <class Item>
void radix_sort(std::vector<Item>& items, std::vector<Item>& scratch, int bits) {
  const int passes = std::max(1, (bits + 10) / 11),
            width = std::max(1, (bits + passes - 1) / passes);
  const std::uint64_t digit = low_bits(width);
  scratch.resize(items.size());
  std::vector<std::int64_t> places(digit + 1);
  for (int pass = 0; pass < passes; ++pass) {
    std::fill(places.begin(), places.end(), 0);
    const int shift = pass * width;
    for (const Item& item : items) ++places[(item.key >> shift) & digit];
    std::int64_t place = 0;
    for (std::int64_t& count : places) place += std::exchange(count, place);
    for (const Item& item : items)
      scratch[static_cast<std::size_t>(places[(item.key >> shift) & digit]++)] = item;
    items.swap(scratch);
  }
}

// Words of more letters than fit in one integer, from the ranks of shorter ones.
inline std::vector<Word> long_words(const Sequences& strings, const LetterRanks& ranks,
                                    std::int64_t length) {
  std::int64_t known = std::min<std::int64_t>(length, 64 / ranks.bits());
  std::vector<Word> words = packed_words(strings, ranks, known), scratch;
  int bits = static_cast<int>(known) * ranks.bits();
  while (known < length) {
    radix_sort(words, scratch, bits);
    std::uint64_t rank = 0, last = words.empty() ? 0 : words[0].key;
    for (Word& word : words) {
      rank += word.key != last;
      last = std::exchange(word.key, rank);
    }
    for (bits = 1; (rank >> bits) != 0;) ++bits;
    std::sort(words.begin(), words.end(),
              [](const Word& u, const Word& v) { return u.place < v.place; });
    // Two windows that overlap, or follow each other, make a longer one.
    const std::int64_t step = std::min(known, length - known);
    std::vector<Word> longer;
    std::size_t second = 0;
    for (const Word& first : words) {
      while (second < words.size() && words[second].place < first.place + step) ++second;
      if (second == words.size()) break;
      if (words[second].place == first.place + step && words[second].row == first.row)
        longer.push_back({(first.key << bits) | words[second].key, first.row, first.place});
    }
    words.swap(longer);
    known += step;
    bits *= 2;
  }
  return words;
}

inline WordCounts run_word_counts(const Sequences& strings, std::int64_t length) {
  LetterRanks ranks;
  ranks.add(strings);
  std::vector<Word> words = long_words(strings, ranks, length), scratch;
  // Long words end with keys of up to 64 bits.
  const bool is_short = length * ranks.bits() <= 64;
  radix_sort(words, scratch, is_short ? static_cast<int>(length) * ranks.bits() : 64);
  WordCounts counts;
  std::uint64_t last = 0;
  for (const Word& word : words) {
    const bool is_new = counts.places.empty() || word.key != last;
    last = word.key;
    if (is_new) counts.places.push_back(word.place);
    const auto number = static_cast<std::int64_t>(counts.places.size()) - 1;
    if (is_new || counts.rows.back() != word.row) {
      counts.rows.push_back(word.row);
      counts.words.push_back(number);
      counts.counts.push_back(0.0);
    }
    counts.counts.back() += 1.0;
  }
  return counts;
}

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

inline void mirror(const StringPairs& pairs) {
  const std::int64_t n = pairs.b.count;
  if (pairs.set == PairSet::symmetric)
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < i; ++j) pairs.out[i * n + j] = pairs.out[j * n + i];
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

// ---------------------------------------------------------------------------------------------
// Panels: strings as lanes
// ---------------------------------------------------------------------------------------------

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

// ---------------------------------------------------------------------------------------------
// Weighted degree
// ---------------------------------------------------------------------------------------------

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

// ---------------------------------------------------------------------------------------------
// Subsequences
// ---------------------------------------------------------------------------------------------

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

// ---------------------------------------------------------------------------------------------
// Local alignments
// ---------------------------------------------------------------------------------------------

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

// ---------------------------------------------------------------------------------------------
// Edit distance
// ---------------------------------------------------------------------------------------------

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

// ---------------------------------------------------------------------------------------------
// Common bits
// ---------------------------------------------------------------------------------------------

// The number of words of a row is a multiple of 8.
#if (defined(__AVX512BW__) && MERCER_VECTOR_BYTES == 64) || \
    (defined(__AVX2__) && MERCER_VECTOR_BYTES == 32)
// Bits of each byte, by a table of half-bytes.
MERCER_INLINE UVec<double> byte_counts(UVec<double> bits) {
  const UVec<double> low = UVec<double>{} + 0x0f0f0f0f0f0f0f0f;
  const UVec<double> first = bits & low, second = (bits >> 4) & low;
#if MERCER_VECTOR_BYTES == 64
  const __m512i table = _mm512_set4_epi32(0x04030302, 0x03020201, 0x03020201, 0x02010100);
  return (UVec<double>)_mm512_add_epi8(_mm512_shuffle_epi8(table, (__m512i)first),
                                       _mm512_shuffle_epi8(table, (__m512i)second));
#else
  const __m256i table = _mm256_setr_epi32(0x02010100, 0x03020201, 0x03020201, 0x04030302,
                                          0x02010100, 0x03020201, 0x03020201, 0x04030302);
  return (UVec<double>)_mm256_add_epi8(_mm256_shuffle_epi8(table, (__m256i)first),
                                       _mm256_shuffle_epi8(table, (__m256i)second));
#endif
}

MERCER_INLINE IVec<double> sums_of_bytes(UVec<double> bytes) {
#if MERCER_VECTOR_BYTES == 64
  return (IVec<double>)_mm512_sad_epu8((__m512i)bytes, _mm512_setzero_si512());
#else
  return (IVec<double>)_mm256_sad_epu8((__m256i)bytes, _mm256_setzero_si256());
#endif
}

// The sum of the lanes of each vector.
template <class T>
MERCER_INLINE void store_sums(const IVec<double> (&totals)[kLanes<double>], T* out) {
  constexpr int L = kLanes<double>;
  Vec<double> square[L];
#pragma GCC unroll 8
  for (int j = 0; j < L; ++j) square[j] = __builtin_convertvector(totals[j], Vec<double>);
  transpose<double>(square);
  Vec<double> sums{};
#pragma GCC unroll 8
  for (int j = 0; j < L; ++j) sums += square[j];
  for (int j = 0; j < L; ++j) out[j] = static_cast<T>(sums[j]);
}

// The number of common bits of a row and of each of L others.
template <class T>
void common_bits(const std::uint64_t* a, const std::uint64_t* b, std::int64_t words, T* out) {
  constexpr int L = kLanes<double>;
  constexpr std::int64_t kFlush = 24 * L;  // a byte counts up to 255
  typedef std::uint64_t Unaligned
      __attribute__((vector_size(MERCER_VECTOR_BYTES), may_alias, aligned(8)));
  IVec<double> totals[L] = {};
  for (std::int64_t first = 0; first < words; first += kFlush) {
    const std::int64_t last = std::min(first + kFlush, words);
    UVec<double> bytes[L] = {};
    for (std::int64_t w = first; w < last; w += L) {
      const UVec<double> own = *reinterpret_cast<const Unaligned*>(a + w);
#pragma GCC unroll 8
      for (int j = 0; j < L; ++j)  // no byte overflows into the next
        bytes[j] += byte_counts(own & *reinterpret_cast<const Unaligned*>(b + j * words + w));
    }
#pragma GCC unroll 8
    for (int j = 0; j < L; ++j) totals[j] += sums_of_bytes(bytes[j]);
  }
  store_sums<T>(totals, out);
}

#if MERCER_VECTOR_BYTES == 64
// The same with an instruction that counts bits, which not all machines with AVX-512 have.
template <class T>
__attribute__((target("avx512vpopcntdq"))) void common_bits_counted(const std::uint64_t* a,
                                                                    const std::uint64_t* b,
                                                                    std::int64_t words, T* out) {
  IVec<double> totals[8] = {};
  for (std::int64_t w = 0; w < words; w += 8) {
    const __m512i own = _mm512_loadu_si512(a + w);
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j)
      totals[j] += (IVec<double>)_mm512_popcnt_epi64(
          _mm512_and_si512(own, _mm512_loadu_si512(b + j * words + w)));
  }
  store_sums<T>(totals, out);
}
#endif
#else
template <class T>
void common_bits(const std::uint64_t* a, const std::uint64_t* b, std::int64_t words, T* out) {
  for (int j = 0; j < kLanes<double>; ++j) {
    std::int64_t sum = 0;
    for (std::int64_t w = 0; w < words; ++w) sum += __builtin_popcountll(a[w] & b[j * words + w]);
    out[j] = static_cast<T>(sum);
  }
}
#endif

template <class T>
void run_bits(const BitsJob<T>& job) {
  constexpr std::int64_t L = kLanes<double>, kRows = 16, kColumns = 64;
  const std::int64_t units = divide_up(job.rows, kRows), words = job.words;
  const double work = static_cast<double>(job.rows * job.columns) * static_cast<double>(words);
  auto* common = common_bits<T>;
#if MERCER_VECTOR_BYTES == 64
  if (__builtin_cpu_supports("avx512vpopcntdq")) common = common_bits_counted<T>;
#endif
  auto body = [&](Worker& worker) {
    for (std::int64_t unit = worker.next_unit(); unit >= 0; unit = worker.next_unit()) {
      const std::int64_t last_row = std::min((unit + 1) * kRows, job.rows);
      for (std::int64_t first = 0; first < job.columns; first += kColumns) {
        const std::int64_t last = std::min(first + kColumns, job.columns);
        for (std::int64_t i = unit * kRows; i < last_row; ++i) {
          const std::uint64_t* a = job.a + i * words;
          T* out = job.out + i * job.columns;
          std::int64_t j = first;
          for (; j + L <= last; j += L) common(a, job.b + j * words, words, out + j);
          for (; j < last; ++j) {
            std::int64_t sum = 0;
            for (std::int64_t w = 0; w < words; ++w)
              sum += __builtin_popcountll(a[w] & job.b[j * words + w]);
            out[j] = static_cast<T>(sum);
          }
        }
        if (!worker.keep_going(kRows * kColumns * words / 4)) return;
      }
    }
  };
  run_workers(units, useful_threads(job.threads, units, work), job.interrupt, WorkerBody(body));
}

constexpr StringTable string_table() {
  return {run_windows,          run_word_counts,    run_weighted_degree, run_subsequences,
          run_local_alignments, run_edit_distances, run_bits<float>,     run_bits<double>};
}

}  // namespace mercer::MERCER_ISA
