// Kernels of strings against naive loops, for every instruction set that this machine
// runs.
#include <algorithm>

#include "oracle.hpp"

namespace mercer {
namespace {

using namespace oracle;

// Random strings of a few letters, an empty one and unknown letters among them.
struct Collection {
  std::vector<std::int32_t> letters;
  std::vector<std::int64_t> starts, ends;

  Collection(int count, int longest, int alphabet, unsigned seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < count; ++i) {
      starts.push_back(static_cast<std::int64_t>(letters.size()));
      const int length =
          i == 1 ? 0 : static_cast<int>(random() % static_cast<unsigned>(longest + 1));
      for (int p = 0; p < length; ++p)
        letters.push_back(
            random() % 20 == 0 ? -1 : static_cast<int>(random() % static_cast<unsigned>(alphabet)));
      ends.push_back(static_cast<std::int64_t>(letters.size()));
    }
  }

  Sequences view() const {
    return {letters.data(), starts.data(), ends.data(), static_cast<std::int64_t>(starts.size())};
  }
};

bool match(std::int32_t x, std::int32_t z) { return x >= 0 && x == z; }

// Calls f(x, length of x, z, length of z) for all pairs, and compares.
template <class F>
void compare(const StringPairs& pairs, double tolerance, F f) {
  for (std::int64_t i = 0; i < pairs.a.count; ++i)
    for (std::int64_t j = 0; j < pairs.b.count; ++j) {
      const double wanted = f(pairs.a.at(i), pairs.a.length(i), pairs.b.at(j), pairs.b.length(j));
      const double value = pairs.out[i * pairs.b.count + j];
      CHECK(std::abs(value - wanted) <= tolerance * std::max(1.0, std::abs(wanted)));
    }
}

double windows(const WindowsJob& job, const std::int32_t* x, std::int64_t n, const std::int32_t* z,
               std::int64_t m) {
  double total = 0.0;
  for (std::int64_t i = 0; i + job.length <= n; ++i)
    for (std::int64_t j = 0; j + job.length <= m; ++j) {
      std::size_t mismatches = 0;
      bool known = true;
      for (std::int64_t p = 0; p < job.length; ++p) {
        known = known && x[i + p] >= 0 && z[j + p] >= 0;
        mismatches += x[i + p] != z[j + p];
      }
      if (known && mismatches < job.profile.size()) total += job.profile[mismatches];
    }
  return total;
}

double edit_distance(const std::int32_t* x, std::int64_t n, const std::int32_t* z, std::int64_t m) {
  std::vector<std::vector<double>> d(static_cast<std::size_t>(n) + 1);
  for (std::size_t i = 0; i < d.size(); ++i) {
    d[i].resize(static_cast<std::size_t>(m) + 1);
    for (std::size_t j = 0; j < d[i].size(); ++j)
      d[i][j] = i == 0 || j == 0
                    ? static_cast<double>(i + j)
                    : std::min({d[i - 1][j] + 1, d[i][j - 1] + 1,
                                d[i - 1][j - 1] + (match(x[i - 1], z[j - 1]) ? 0 : 1)});
  }
  return d.back().back();
}

void test_strings(const Engine& engine) {
  for (const int count : {1, 3, 40}) {
    const Collection a(count, 30, 3, 1), b(count + 2, 25, 3, 2);
    for (const bool symmetric : {false, true}) {
      StringPairs pairs;
      pairs.a = a.view();
      pairs.b = symmetric ? a.view() : b.view();
      pairs.set = symmetric ? PairSet::symmetric : PairSet::all;
      pairs.threads = 2;
      std::vector<double> out(static_cast<std::size_t>(pairs.a.count * pairs.b.count), -77.0);
      pairs.out = out.data();
      for (const bool masked : {false, true}) {
        // Both letters of a window agree (weight 2), or one of them (weight 1).
        WindowsJob job{pairs, 2, {2.0, 1.0}, {1, 2}, {1.0, 1.0}};
        if (!masked) job.masks.clear(), job.mask_weights.clear();
        engine.strings.windows(job);
        compare(pairs, 0.0, [&](auto... strings) { return windows(job, strings...); });
      }
      engine.strings.weighted_degree({pairs, 1, 0});
      compare(pairs, 1e-14, [](const auto* x, auto n, const auto* z, auto m) {
        double total = 0.0;
        for (std::int64_t p = 0; p < std::min(n, m); ++p) total += match(x[p], z[p]);
        return total;
      });
      engine.strings.subsequences({pairs, 1, 0.5});
      compare(pairs, 1e-14, [](const auto* x, auto n, const auto* z, auto m) {
        double total = 0.0;
        for (std::int64_t i = 0; i < n; ++i)
          for (std::int64_t j = 0; j < m; ++j) total += match(x[i], z[j]) ? 0.25 : 0.0;
        return total;
      });
      // Gaps of weight 0: alignments are runs of matches, and mismatches have the factor 0.
      const double factors[9] = {2, 0, 0, 0, 2, 0, 0, 0, 2};
      engine.strings.local_alignments({pairs, factors, 3, 0.0, 0.0});
      compare(pairs, 1e-12, [](const auto* x, auto n, const auto* z, auto m) {
        double total = 1.0;
        for (std::int64_t i = 0; i < n; ++i)
          for (std::int64_t j = 0; j < m; ++j)
            for (std::int64_t p = 0; i + p < n && j + p < m && match(x[i + p], z[j + p]); ++p)
              total += std::exp2(static_cast<double>(p + 1));
        return std::log(total);
      });
      engine.strings.edit_distances(pairs);
      compare(pairs, 0.0, edit_distance);
    }
    const WordCounts counts = engine.strings.word_counts(a.view(), 2);
    CHECK(counts.rows.size() == counts.counts.size() && counts.rows.size() == counts.words.size());
  }
}

}  // namespace
}  // namespace mercer

int main() {
  for (const mercer::Engine* engine : mercer::available_engines()) {
    mercer::test_strings(*engine);
  }
  return mercer::oracle::failures == 0 ? 0 : 1;
}
