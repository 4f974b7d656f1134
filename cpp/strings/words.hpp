// Words: windows of letters packed into integers, sorted and counted.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "engine.hpp"

namespace mercer::MERCER_ISA {

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
// Windows packed into integers, and sorted
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

}  // namespace mercer::MERCER_ISA
