// Kernels of strings.
#include <cmath>
#include <limits>

#include "arrays.hpp"

namespace mercer::python {
namespace {

using Letters = Vector<std::int32_t>;
using Places = Vector<std::int64_t>;
using Strings = std::tuple<Letters, Places, Places>;

// Strings are letters[starts[i]:ends[i]].
Sequences sequences(const Strings& strings, const std::string& owner) {
  const auto& [letters, starts, ends] = strings;
  require(starts.shape(0) == ends.shape(0), owner + ": a start and an end for each string.");
  const auto total = static_cast<std::int64_t>(letters.shape(0));
  for (std::size_t i = 0; i < starts.shape(0); ++i)
    require(0 <= starts.data()[i] && starts.data()[i] <= ends.data()[i] &&
                ends.data()[i] <= total && ends.data()[i] - starts.data()[i] < (1 << 30),
            owner + ": strings must lie within the letters.");
  require(starts.shape(0) < (std::size_t{1} << 31), owner + ": too many strings.");
  return {letters.data(), starts.data(), ends.data(), static_cast<std::int64_t>(starts.shape(0))};
}

// All pairs of two collections, of one with itself (b is None), or the pairs (i, i) of one.
struct Result {
  StringPairs pairs;
  AlignedBuffer<double> values;

  Result(const Strings& a, const std::optional<Strings>& b, bool diagonal, int threads,
         const std::string& owner) {
    pairs.a = sequences(a, owner);
    pairs.b = b ? sequences(*b, owner) : pairs.a;
    require(!diagonal || !b, owner + ": a diagonal is of one collection.");
    pairs.set = b ? PairSet::all : diagonal ? PairSet::diagonal : PairSet::symmetric;
    values = zeros(diagonal ? pairs.a.count : pairs.a.count * pairs.b.count);
    pairs.out = values.data();
    pairs.threads = threads;
    pairs.interrupt = {signal_arrived, nullptr};
  }

  nb::object to_python() {
    if (pairs.set == PairSet::diagonal) {
      const std::size_t size[1] = {as_size(pairs.a.count)};
      return to_numpy(std::move(values), size);
    }
    const std::size_t shape[2] = {as_size(pairs.a.count), as_size(pairs.b.count)};
    return to_numpy(std::move(values), shape);
  }
};

nb::object windows(const Strings& a, const std::optional<Strings>& b, std::int64_t length,
                   const std::vector<double>& profile, const std::vector<std::uint64_t>& masks,
                   const std::vector<double>& mask_weights, bool diagonal, int threads) {
  require(length >= 1 && length <= 1000 && !profile.empty() &&
              static_cast<std::int64_t>(profile.size()) <= length + 1,
          "window_products: a window has 1 to 1000 letters, a profile one weight more at most.");
  require(masks.size() == mask_weights.size() && (masks.empty() || length <= 64),
          "window_products: a weight for each mask, and masks for at most 64 letters.");
  Result result(a, b, diagonal, threads, "window_products");
  WindowsJob job{result.pairs, length, profile, masks, mask_weights};
  run_released([&] { engine().strings.windows(job); });
  return result.to_python();
}

template <class T>
nb::object as_array(const std::vector<T>& values) {
  AlignedBuffer<T> buffer(static_cast<std::int64_t>(values.size()));
  std::copy(values.begin(), values.end(), buffer.data());
  const std::size_t size[1] = {values.size()};
  return to_numpy(std::move(buffer), size);
}

nb::tuple word_counts(const Strings& strings, std::int64_t length) {
  require(length >= 1, "word_counts: a word has at least one letter.");
  const Sequences given = sequences(strings, "word_counts");
  WordCounts counts;
  run_released([&] { counts = engine().strings.word_counts(given, length); });
  return nb::make_tuple(as_array(counts.counts), as_array(counts.rows), as_array(counts.words),
                        as_array(counts.places));
}

nb::object weighted_degree(const Strings& a, const std::optional<Strings>& b, std::int64_t degree,
                           std::int64_t shift, bool diagonal, int threads) {
  require(degree >= 1 && shift >= 0, "weighted_degree: degree >= 1 and shift >= 0.");
  Result result(a, b, diagonal, threads, "weighted_degree");
  WeightedDegreeJob job{result.pairs, degree, shift};
  run_released([&] { engine().strings.weighted_degree(job); });
  return result.to_python();
}

nb::object subsequences(const Strings& a, const std::optional<Strings>& b, std::int64_t length,
                        double decay, bool diagonal, int threads) {
  require(length >= 1 && length <= 10000, "subsequences: 1 to 10000 letters.");
  Result result(a, b, diagonal, threads, "subsequences");
  SubsequenceJob job{result.pairs, length, decay};
  run_released([&] { engine().strings.subsequences(job); });
  return result.to_python();
}

nb::object local_alignments(
    const Strings& a, const std::optional<Strings>& b,
    const nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>& factors,
    double open, double extend, bool diagonal, int threads) {
  const std::size_t alphabet = factors.shape(0);
  require(factors.shape(1) == alphabet && alphabet <= 10000,
          "local_alignments: the factors are a square matrix.");
  for (const Strings* strings : {&a, b ? &*b : &a}) {
    const auto& letters = std::get<0>(*strings);
    for (std::size_t p = 0; p < letters.shape(0); ++p)
      require(letters.data()[p] < static_cast<std::int64_t>(alphabet),
              "local_alignments: a letter has no factors.");
  }
  Result result(a, b, diagonal, threads, "local_alignments");
  AlignmentJob job{result.pairs, factors.data(), static_cast<std::int64_t>(alphabet), open, extend};
  run_released([&] { engine().strings.local_alignments(job); });
  return result.to_python();
}

nb::object edit_distances(const Strings& a, const std::optional<Strings>& b, bool diagonal,
                          int threads) {
  Result result(a, b, diagonal, threads, "edit_distances");
  run_released([&] { engine().strings.edit_distances(result.pairs); });
  return result.to_python();
}

#define MERCER_STRINGS                                                           \
  "tuple[numpy.typing.NDArray[numpy.int32], numpy.typing.NDArray[numpy.int64], " \
  "numpy.typing.NDArray[numpy.int64]]"
#define MERCER_PAIRS "a: " MERCER_STRINGS ", b: " MERCER_STRINGS " | None, "
#define MERCER_MATRIX "diagonal: bool, threads: int) -> numpy.typing.NDArray[numpy.float64]"

}  // namespace

void bind_strings(nb::module_& m) {
  m.def("window_products", windows, "a"_a, "b"_a.none(), "length"_a, "profile"_a, "masks"_a,
        "mask_weights"_a, "diagonal"_a, "threads"_a,
        nb::sig("def window_products(" MERCER_PAIRS
                "length: int, profile: list[float], masks: list[int], mask_weights: "
                "list[float], " MERCER_MATRIX),
        "Sums over pairs of windows of weights by mismatches.");
  m.def("word_counts", word_counts, "strings"_a, "length"_a,
        nb::sig("def word_counts(strings: " MERCER_STRINGS
                ", length: int) -> tuple[numpy.typing.NDArray[numpy.float64], "
                "numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int64], "
                "numpy.typing.NDArray[numpy.int64]]"),
        "Counts of substrings: counts, strings, words, and the first place of each word.");
  m.def("weighted_degree", weighted_degree, "a"_a, "b"_a.none(), "degree"_a, "shift"_a,
        "diagonal"_a, "threads"_a,
        nb::sig("def weighted_degree(" MERCER_PAIRS "degree: int, shift: int, " MERCER_MATRIX),
        "Weighted matches at the same positions.");
  m.def("subsequences", subsequences, "a"_a, "b"_a.none(), "length"_a, "decay"_a, "diagonal"_a,
        "threads"_a,
        nb::sig("def subsequences(" MERCER_PAIRS "length: int, decay: float, " MERCER_MATRIX),
        "Common subsequences, weighted by their lengths.");
  m.def(
      "local_alignments", local_alignments, "a"_a, "b"_a.none(), "factors"_a, "open"_a, "extend"_a,
      "diagonal"_a, "threads"_a,
      nb::sig("def local_alignments(" MERCER_PAIRS "factors: numpy.typing.NDArray[numpy.float64], "
              "open: float, extend: float, " MERCER_MATRIX),
      "Logarithms of sums over local alignments.");
  m.def("edit_distances", edit_distances, "a"_a, "b"_a.none(), "diagonal"_a, "threads"_a,
        nb::sig("def edit_distances(" MERCER_PAIRS MERCER_MATRIX), "Levenshtein distances.");
}

}  // namespace mercer::python
