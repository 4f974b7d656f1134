// What the engine computes of strings: see strings.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "threads.hpp"

namespace mercer {

// Strings of letters >= 0; a negative letter matches no letter, itself included.
struct Sequences {
  const std::int32_t* letters = nullptr;
  const std::int64_t *starts = nullptr, *ends = nullptr;
  std::int64_t count = 0;

  const std::int32_t* at(std::int64_t i) const { return letters + starts[i]; }
  std::int64_t length(std::int64_t i) const { return ends[i] - starts[i]; }
};

enum class PairSet {
  all,        // out is a matrix
  symmetric,  // both collections are one: half of the matrix is computed
  diagonal,   // pairs (i, i) alone: out is a vector
};

struct StringPairs {
  Sequences a, b;
  PairSet set = PairSet::all;
  double* out = nullptr;
  int threads = 1;
  Interrupt interrupt;
};

// Sum over all pairs of windows of `length` letters of profile[number of mismatches]; 0 beyond the
// profile. Masks are sets of positions. The same kernel is sum_masks weight * (pairs of windows
// that agree at the positions of the mask); without masks it is not computed that way.
struct WindowsJob {
  StringPairs pairs;
  std::int64_t length = 0;
  std::vector<double> profile;
  std::vector<std::uint64_t> masks;
  std::vector<double> mask_weights;
};

// Counts of substrings: one entry for each string and each substring that it has.
struct WordCounts {
  std::vector<std::int64_t> rows, words;
  std::vector<double> counts;
  std::vector<std::int64_t> places;  // where in the letters each word is found first
};

struct WeightedDegreeJob {
  StringPairs pairs;
  std::int64_t degree = 0, shift = 0;
};

struct SubsequenceJob {
  StringPairs pairs;
  std::int64_t length = 0;
  double decay = 0.0;
};

// The logarithm of the sum over local alignments of exp(score). All letters are below `alphabet`.
struct AlignmentJob {
  StringPairs pairs;
  const double* factors = nullptr;  // exp(score of two letters), alphabet x alphabet
  std::int64_t alphabet = 0;
  double open = 0.0, extend = 0.0;  // factors of a gap: of its first letter, of each further one
};

// The functions of one instruction set.
struct StringTable {
  void (*windows)(const WindowsJob&);
  WordCounts (*word_counts)(const Sequences&, std::int64_t length);
  void (*weighted_degree)(const WeightedDegreeJob&);
  void (*subsequences)(const SubsequenceJob&);
  void (*local_alignments)(const AlignmentJob&);
  void (*edit_distances)(const StringPairs&);
};

}  // namespace mercer
