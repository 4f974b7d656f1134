// Kernels on graphs: loops over all nodes as oracle, on random graphs, empty ones among them.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "graphs.hpp"

namespace {

using namespace mercer;

int failures = 0;

void expect(bool condition, const char* what) {
  if (condition) return;
  std::printf("failed: %s\n", what);
  ++failures;
}

// Graphs with arrays of their own.
struct Graphs {
  std::vector<std::int64_t> starts, ends, indptr{0}, neighbours;
  std::vector<std::uint64_t> labels, codes;
  std::vector<double> weights, attributes;

  graphs::Batch batch(bool weighted) const {
    return {static_cast<std::int64_t>(starts.size()),
            starts.data(),
            ends.data(),
            indptr.data(),
            neighbours.data(),
            labels.data(),
            codes.data(),
            weighted ? weights.data() : nullptr};
  }
};

Graphs random_graphs(int count) {
  std::mt19937 rng(1);
  Graphs made;
  for (int g = 0; g < count; ++g) {
    const std::int64_t n = g % 12, first = static_cast<std::int64_t>(made.labels.size());
    std::set<std::pair<std::int64_t, std::int64_t>> arcs;
    for (std::int64_t e = 0; n > 0 && e < 2 * n; ++e) {
      const std::int64_t u = rng() % n, v = rng() % n;
      arcs.insert({u, v});
      arcs.insert({v, u});
    }
    made.starts.push_back(first);
    for (std::int64_t u = 0; u < n; ++u) {
      made.labels.push_back(rng() % 3);
      made.attributes.push_back(rng() % 100 / 10.0);
      for (const auto& [a, b] : arcs)
        if (a == u) made.neighbours.push_back(first + b);
      made.indptr.push_back(static_cast<std::int64_t>(made.neighbours.size()));
    }
    made.ends.push_back(first + n);
  }
  made.codes.assign(made.neighbours.size(), 7);
  made.weights.assign(made.neighbours.size(), 1.5);
  return made;
}

double sum_of(const graphs::Features& features, std::int64_t g) {
  double sum = 0.0;
  for (std::int64_t e = features.indptr[g]; e < features.indptr[g + 1]; ++e)
    sum += features.counts[e];
  return sum;
}

void test_counts(const Graphs& made) {
  for (const bool weighted : {false, true})
    for (const auto base :
         {graphs::Base::subtree, graphs::Base::assignment, graphs::Base::shortest_path}) {
      const graphs::Batch batch = made.batch(weighted);
      const graphs::Features one = graphs::weisfeiler_lehman(batch, 3, base, {1, {}});
      const graphs::Features four = graphs::weisfeiler_lehman(batch, 3, base, {4, {}});
      bool equal = one.keys.size() == four.keys.size();
      for (std::int64_t e = 0; equal && e < one.keys.size(); ++e)
        equal = one.keys[e] == four.keys[e] && one.counts[e] == four.counts[e];
      expect(equal, "counts do not depend on the number of threads");
      for (std::int64_t g = 0; base != graphs::Base::shortest_path && g < batch.graphs; ++g)
        expect(sum_of(one, g) == 4.0 * double(batch.nodes(g)), "a label for each node and round");
    }
}

void test_propagation(const Graphs& made) {
  const double directions[] = {1.0, 0.5, 2.0}, shifts[] = {0.1, 0.2, 0.3};
  const graphs::Batch batch = made.batch(true);
  const graphs::Features features =
      graphs::propagate(batch, {made.attributes.data(), 1, 2, directions, shifts}, {2, {}});
  for (std::int64_t g = 0; g < batch.graphs; ++g)
    expect(sum_of(features, g) == 3.0 * double(batch.nodes(g)), "a bin for each node and step");
}

void test_graphlets(const Graphs& made) {
  const graphs::Batch batch = made.batch(false);
  for (const std::int64_t samples : {50, 100'000}) {
    std::vector<double> out(static_cast<std::size_t>(batch.graphs * 34), 0.0);
    graphs::graphlets(batch, 5, samples, 3, out.data(), {2, {}});
    for (std::int64_t g = 0; g < batch.graphs; ++g) {
      double sum = 0.0;
      for (std::int64_t t = 0; t < 34; ++t) sum += out[static_cast<std::size_t>(34 * g + t)];
      const double n = double(batch.nodes(g));
      const double all = n < 5 ? 0.0 : graphs::choose4(n) * (n - 4.0) / 5.0;
      expect(std::abs(sum - all) <= 1e-9 * all, "a type for each subset of five nodes");
    }
  }
  for (const std::int64_t size : {3, 4}) {
    const std::int64_t types = graphs::kTypes[size];
    std::vector<double> out(static_cast<std::size_t>(batch.graphs * types), 0.0);
    graphs::graphlets(batch, size, 1, 0, out.data(), {2, {}});
    for (std::int64_t g = 0; g < batch.graphs; ++g) {
      const graphs::Neighbours graph(batch, g);
      double triangles = 0.0;
      for (std::int64_t u = 0; u < graph.size(); ++u)
        for (std::int64_t v = 0; v < u; ++v)
          for (std::int64_t w = 0; w < v; ++w)
            triangles += graph.adjacent(u, v) && graph.adjacent(v, w) && graph.adjacent(u, w);
      const double* row = out.data() + g * types;
      const double factor = size == 3 ? 1.0 : double(graph.size()) - 3.0;
      expect(row[size == 3 ? 3 : 4] == triangles * factor, "triangles");
    }
  }
}

// Where all nodes with equal labels are alike, paths are counted as by their features.
void test_attributed_paths(const Graphs& made) {
  const auto nodes = static_cast<std::int64_t>(made.labels.size());
  const std::vector<double> ones(static_cast<std::size_t>(nodes * nodes), 1.0);
  for (const bool weighted : {false, true}) {
    const graphs::Batch batch = made.batch(weighted);
    const auto count = static_cast<std::size_t>(batch.graphs);
    std::vector<double> out(count * count, 0.0), half(count * count, 0.0);
    graphs::attributed_paths(batch, batch, ones.data(), nodes, false, out.data(), {2, {}});
    graphs::attributed_paths(batch, batch, ones.data(), nodes, true, half.data(), {1, {}});
    const graphs::Features features =
        graphs::weisfeiler_lehman(batch, 0, graphs::Base::shortest_path, {1, {}});
    std::vector<std::map<std::uint64_t, double>> counts(count);
    for (std::size_t g = 0; g < count; ++g)
      for (auto e = features.indptr[std::int64_t(g)]; e < features.indptr[std::int64_t(g) + 1]; ++e)
        counts[g][features.keys[e]] = features.counts[e];
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t j = 0; j < count; ++j) {
        double sum = 0.0;
        for (const auto& [key, value] : counts[i])
          sum += counts[j].contains(key) ? value * counts[j].at(key) : 0.0;
        expect(out[i * count + j] == sum, "paths between equal labels");
        expect(half[i * count + j] == (j <= i ? sum : 0.0), "half of the pairs");
      }
  }
}

void test_walks(const Graphs& made) {
  const graphs::Batch batch = made.batch(true);
  std::vector<double> square(static_cast<std::size_t>(batch.graphs * batch.graphs));
  std::vector<double> full(square.size());
  graphs::labelled_walks(batch, batch, 1e-4, true, square.data(), {2, {}});
  graphs::labelled_walks(batch, batch, 1e-4, false, full.data(), {2, {}});
  for (std::size_t k = 0; k < square.size(); ++k)
    expect(std::abs(square[k] - full[k]) <= 1e-10 * std::abs(full[k]), "walks are symmetric");
}

}  // namespace

int main() {
  const Graphs made = random_graphs(60);
  test_counts(made);
  test_propagation(made);
  test_graphlets(made);
  test_attributed_paths(made);
  test_walks(made);
  std::printf("%d failures\n", failures);
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
