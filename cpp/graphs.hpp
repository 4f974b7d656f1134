// Kernels on graphs: counts of hashed labels, paths and subgraphs, and walks in product graphs.
//
// Graphs are blocks of one sparse matrix. Threads share the graphs, or the rows of a matrix of
// pairs. What one graph gives does not depend on the others.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "memory.hpp"
#include "threads.hpp"

namespace mercer::graphs {

// The code of an edge without a label.
inline constexpr std::uint64_t kUnlabelled = 0x3c6ef372fe94f82bu;

// Graphs as the rows of a block-diagonal matrix. Graph g has the nodes from starts[g] to ends[g],
// node u the arcs from indptr[u] to indptr[u + 1], sorted by the nodes that they lead to.
struct Batch {
  std::int64_t graphs = 0;
  const std::int64_t *starts = nullptr, *ends = nullptr;
  const std::int64_t *indptr = nullptr, *neighbours = nullptr;
  const std::uint64_t* labels = nullptr;  // of nodes; null if all are alike
  const std::uint64_t* codes = nullptr;   // of arcs; null if all are alike
  const double* weights = nullptr;        // of arcs; null if all are 1

  std::int64_t nodes(std::int64_t g) const { return ends[g] - starts[g]; }
  std::int64_t arcs(std::int64_t g) const { return indptr[ends[g]] - indptr[starts[g]]; }
  std::uint64_t label(std::int64_t u) const { return labels == nullptr ? 0 : labels[u]; }
  std::uint64_t code(std::int64_t e) const { return codes == nullptr ? kUnlabelled : codes[e]; }
  double weight(std::int64_t e) const { return weights == nullptr ? 1.0 : weights[e]; }
};

struct Run {
  int threads = 1;
  Interrupt interrupt;
};

// ---------------------------------------------------------------------------------------------
// Hashes of 64 bits
// ---------------------------------------------------------------------------------------------

// A bijection that spreads every bit over all others.
inline std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// The hash of an ordered pair.
inline std::uint64_t combined(std::uint64_t a, std::uint64_t b) { return mixed(mixed(a) ^ b); }

// Counts by key: a table with open addressing, which is emptied and used again.
class KeyCounts {
 public:
  void clear() {
    for (const std::uint32_t place : used_) counts_[place] = 0.0;
    used_.clear();
  }
  void add(std::uint64_t key, double count = 1.0) {
    if (2 * (used_.size() + 1) > counts_.size()) grow();
    const std::size_t place = find(key);
    if (counts_[place] == 0.0) {
      keys_[place] = key;
      used_.push_back(static_cast<std::uint32_t>(place));
    }
    counts_[place] += count;
  }
  std::size_t size() const { return used_.size(); }
  // Calls f(key, count) in the order in which the keys came.
  template <class F>
  void each(F f) const {
    for (const std::uint32_t place : used_) f(keys_[place], counts_[place]);
  }

 private:
  std::size_t find(std::uint64_t key) const {
    const std::size_t mask = counts_.size() - 1;
    std::size_t place = static_cast<std::size_t>(mixed(key)) & mask;
    while (counts_[place] != 0.0 && keys_[place] != key) place = (place + 1) & mask;
    return place;
  }
  void grow() {
    std::vector<std::pair<std::uint64_t, double>> held;
    held.reserve(used_.size());
    each([&](std::uint64_t key, double count) { held.emplace_back(key, count); });
    const std::size_t size = std::max<std::size_t>(256, 4 * counts_.size());
    keys_.assign(size, 0);
    counts_.assign(size, 0.0);
    used_.clear();
    for (const auto& [key, count] : held) add(key, count);
  }

  std::vector<std::uint64_t> keys_;
  std::vector<double> counts_;  // 0 where a place is free
  std::vector<std::uint32_t> used_;
};

// Counts of all graphs as a sparse matrix: row g has the entries from indptr[g] to indptr[g + 1].
struct Features {
  AlignedBuffer<std::int64_t> indptr;
  AlignedBuffer<std::uint64_t> keys;
  AlignedBuffer<double> counts;
};

// Calls emit(worker, graph, counts) for every graph. In `unary` form each count c becomes c keys of
// their own, so that the inner product of two graphs is the sum of the minima of their counts.
template <class Emit>
Features counted(const Batch& batch, bool unary, double work, Run run, Emit emit) {
  std::vector<std::vector<std::pair<std::uint64_t, double>>> rows(
      static_cast<std::size_t>(batch.graphs));
  auto body = [&](Worker& worker) {
    KeyCounts counts;
    for (std::int64_t g; (g = worker.next_unit()) >= 0;) {
      counts.clear();
      emit(worker, g, counts);
      auto& row = rows[static_cast<std::size_t>(g)];
      row.reserve(counts.size());
      counts.each([&](std::uint64_t key, double count) {
        if (!unary) return void(row.emplace_back(key, count));
        for (std::uint64_t copy = 0; static_cast<double>(copy) < count; ++copy)
          row.emplace_back(combined(key, copy), 1.0);
      });
      if (!worker.keep_going(static_cast<std::int64_t>(row.size()) + batch.arcs(g))) return;
    }
  };
  run_workers(batch.graphs, useful_threads(run.threads, batch.graphs, work), run.interrupt,
              WorkerBody(body));
  Features features{AlignedBuffer<std::int64_t>(batch.graphs + 1), {}, {}};
  features.indptr[0] = 0;
  for (std::int64_t g = 0; g < batch.graphs; ++g)
    features.indptr[g + 1] =
        features.indptr[g] + static_cast<std::int64_t>(rows[static_cast<std::size_t>(g)].size());
  features.keys = AlignedBuffer<std::uint64_t>(features.indptr[batch.graphs]);
  features.counts = AlignedBuffer<double>(features.indptr[batch.graphs]);
  std::int64_t place = 0;
  for (const auto& row : rows)
    for (const auto& [key, count] : row) {
      features.keys[place] = key;
      features.counts[place++] = count;
    }
  return features;
}

// ---------------------------------------------------------------------------------------------
// Weisfeiler-Lehman labels and shortest paths
// ---------------------------------------------------------------------------------------------

// Labels of the nodes of one graph after 0, ..., depth rounds, one round after another. A new label
// is the hash of the old one and of the multiset of (label, code) of the neighbours. The hash of
// the multiset is a sum, which has no order.
inline void refine(const Batch& batch, std::int64_t g, std::int64_t depth,
                   std::vector<std::uint64_t>& labels) {
  const std::int64_t n = batch.nodes(g), first = batch.starts[g];
  labels.resize(static_cast<std::size_t>((depth + 1) * n));
  for (std::int64_t u = 0; u < n; ++u) labels[static_cast<std::size_t>(u)] = batch.label(first + u);
  for (std::int64_t round = 1; round <= depth; ++round) {
    const std::uint64_t* old = labels.data() + (round - 1) * n;
    std::uint64_t* fresh = labels.data() + round * n;
    for (std::int64_t u = 0; u < n; ++u) {
      std::uint64_t sum = 0;
      for (std::int64_t e = batch.indptr[first + u]; e < batch.indptr[first + u + 1]; ++e)
        sum += combined(old[batch.neighbours[e] - first], batch.code(e));
      fresh[u] = combined(old[u], sum);
    }
  }
}

inline constexpr double kFar = std::numeric_limits<double>::infinity();

// Lengths of the shortest paths from one node of a graph to all others.
class Distances {
 public:
  void from(const Batch& batch, std::int64_t g, std::int64_t source) {
    first_ = batch.starts[g];
    lengths_.assign(static_cast<std::size_t>(batch.nodes(g)), kFar);
    lengths_[static_cast<std::size_t>(source)] = 0.0;
    if (batch.weights == nullptr) {
      breadth_first(batch, source);
    } else {
      dijkstra(batch, source);
    }
  }
  double operator[](std::int64_t u) const { return lengths_[static_cast<std::size_t>(u)]; }
  // A length of 33 bits, so that sums of the same numbers in another order are equal. Whole numbers
  // below 2^33 are exact.
  static double rounded(double length) {
    int exponent = 0;
    const double mantissa = std::frexp(length, &exponent);
    return std::ldexp(std::nearbyint(std::ldexp(mantissa, 33)), exponent - 33);
  }

 private:
  void breadth_first(const Batch& batch, std::int64_t source) {
    queue_.assign(1, source);
    for (std::size_t next = 0; next < queue_.size(); ++next) {
      const std::int64_t u = queue_[next];
      const double length = (*this)[u] + 1.0;
      for (std::int64_t e = batch.indptr[first_ + u]; e < batch.indptr[first_ + u + 1]; ++e) {
        double& other = lengths_[static_cast<std::size_t>(batch.neighbours[e] - first_)];
        if (other != kFar) continue;
        other = length;
        queue_.push_back(batch.neighbours[e] - first_);
      }
    }
  }
  void dijkstra(const Batch& batch, std::int64_t source) {
    using Entry = std::pair<double, std::int64_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap;
    heap.emplace(0.0, source);
    while (!heap.empty()) {
      const auto [length, u] = heap.top();
      heap.pop();
      if (length > (*this)[u]) continue;
      for (std::int64_t e = batch.indptr[first_ + u]; e < batch.indptr[first_ + u + 1]; ++e) {
        const std::int64_t v = batch.neighbours[e] - first_;
        const double through = length + batch.weights[e];
        if (through >= (*this)[v]) continue;
        lengths_[static_cast<std::size_t>(v)] = through;
        heap.emplace(through, v);
      }
    }
  }

  std::int64_t first_ = 0;
  std::vector<double> lengths_;
  std::vector<std::int64_t> queue_;
};

enum class Base { subtree, shortest_path, assignment };

inline double total_arcs(const Batch& batch) {
  double total = 0.0;
  for (std::int64_t g = 0; g < batch.graphs; ++g)
    total += static_cast<double>(batch.arcs(g) + batch.nodes(g));
  return total;
}

// Counts of the labels of all rounds, or of triples (label, label, distance) of ordered pairs.
inline Features weisfeiler_lehman(const Batch& batch, std::int64_t depth, Base base, Run run) {
  const bool paths = base == Base::shortest_path;
  double work = 20.0 * static_cast<double>(depth + 1) * total_arcs(batch);
  for (std::int64_t g = 0; paths && g < batch.graphs; ++g)
    work += 20.0 * static_cast<double>(depth + 1) * std::pow(double(batch.nodes(g)), 2);
  return counted(batch, base == Base::assignment, work, run,
                 [&](Worker& worker, std::int64_t g, KeyCounts& counts) {
                   thread_local std::vector<std::uint64_t> labels;
                   thread_local Distances distances;
                   refine(batch, g, depth, labels);
                   if (!paths) {
                     for (const std::uint64_t label : labels) counts.add(label);
                     return;
                   }
                   const std::int64_t n = batch.nodes(g);
                   for (std::int64_t u = 0; u < n; ++u) {
                     distances.from(batch, g, u);
                     for (std::int64_t v = 0; v < n; ++v) {
                       if (v == u || distances[v] == kFar) continue;
                       const std::uint64_t length =
                           mixed(std::bit_cast<std::uint64_t>(Distances::rounded(distances[v])));
                       for (std::int64_t round = 0; round <= depth; ++round) {
                         const std::uint64_t* of = labels.data() + round * n;
                         counts.add(combined(combined(of[u], of[v]), length));
                       }
                     }
                     if (!worker.keep_going(batch.arcs(g) + 20 * n * (depth + 1))) return;
                   }
                 });
}

// ---------------------------------------------------------------------------------------------
// Propagation of attributes
// ---------------------------------------------------------------------------------------------

// Attributes (row-major, `columns` for each node) are averaged over neighbours again and again.
// Before each step they are projected on a direction, shifted and cut into bins of width 1.
struct Propagation {
  const double* attributes = nullptr;
  std::int64_t columns = 0, depth = 0;
  const double* directions = nullptr;  // [depth + 1][columns]
  const double* shifts = nullptr;      // [depth + 1]
};

inline Features propagate(const Batch& batch, const Propagation& job, Run run) {
  const std::int64_t d = job.columns;
  const double work = double(d) * double(job.depth + 1) * total_arcs(batch);
  return counted(batch, false, work, run, [&](Worker& worker, std::int64_t g, KeyCounts& counts) {
    const std::int64_t n = batch.nodes(g), first = batch.starts[g];
    std::vector<double> now(job.attributes + first * d, job.attributes + batch.ends[g] * d);
    std::vector<double> next(now.size());
    for (std::int64_t round = 0; round <= job.depth; ++round) {
      const double* direction = job.directions + round * d;
      for (std::int64_t u = 0; u < n; ++u) {
        double value = job.shifts[round];
        for (std::int64_t c = 0; c < d; ++c)
          value += direction[c] * now[static_cast<std::size_t>(u * d + c)];
        const double bin = std::floor(value) + 0.0;  // one key for 0 and -0
        counts.add(
            combined(static_cast<std::uint64_t>(round * d + d), std::bit_cast<std::uint64_t>(bin)));
      }
      if (round == job.depth || !worker.keep_going(d * (n + batch.arcs(g)))) return;
      for (std::int64_t u = 0; u < n; ++u) {
        double* sums = next.data() + u * d;
        double total = 0.0;
        std::fill(sums, sums + d, 0.0);
        for (std::int64_t e = batch.indptr[first + u]; e < batch.indptr[first + u + 1]; ++e) {
          const double* other = now.data() + (batch.neighbours[e] - first) * d;
          for (std::int64_t c = 0; c < d; ++c) sums[c] += batch.weight(e) * other[c];
          total += batch.weight(e);
        }
        for (std::int64_t c = 0; c < d; ++c)  // a node without neighbours keeps its attributes
          sums[c] = total > 0.0 ? sums[c] / total : now[static_cast<std::size_t>(u * d + c)];
      }
      now.swap(next);
    }
  });
}

// ---------------------------------------------------------------------------------------------
// Graphlets
// ---------------------------------------------------------------------------------------------

// The neighbours of the nodes of one graph, itself left out.
class Neighbours {
 public:
  Neighbours(const Batch& batch, std::int64_t g) : starts_(1, 0) {
    const std::int64_t first = batch.starts[g];
    for (std::int64_t u = first; u < batch.ends[g]; ++u) {
      for (std::int64_t e = batch.indptr[u]; e < batch.indptr[u + 1]; ++e)
        if (batch.neighbours[e] != u) nodes_.push_back(batch.neighbours[e] - first);
      starts_.push_back(nodes_.size());
    }
  }
  std::int64_t size() const { return static_cast<std::int64_t>(starts_.size()) - 1; }
  const std::int64_t* begin(std::int64_t u) const {
    return nodes_.data() + starts_[static_cast<std::size_t>(u)];
  }
  const std::int64_t* end(std::int64_t u) const { return begin(u + 1); }
  double degree(std::int64_t u) const { return static_cast<double>(end(u) - begin(u)); }
  bool adjacent(std::int64_t u, std::int64_t v) const {
    return std::binary_search(begin(u), end(u), v);
  }

 private:
  std::vector<std::int64_t> nodes_;
  std::vector<std::size_t> starts_;
};

inline double choose2(double n) { return n * (n - 1.0) / 2.0; }
inline double choose3(double n) { return n * (n - 1.0) * (n - 2.0) / 6.0; }
inline double choose4(double n) { return choose3(n) * (n - 3.0) / 4.0; }

inline constexpr std::int64_t kTypes[] = {0, 0, 0, 4, 11, 34};

// Counts of not necessarily induced subgraphs on 3 nodes (none, edge, path, triangle) or on 4 nodes
// (none, edge, two edges, path and node, triangle and node, star, path, paw, cycle, diamond,
// clique), from degrees, triangles, common neighbours and cliques.
inline void subgraph_counts(const Neighbours& graph, std::int64_t size, Worker& worker,
                            double* out) {
  const std::int64_t n = graph.size();
  const double N = static_cast<double>(n);
  std::vector<char> near(static_cast<std::size_t>(n), 0), common(static_cast<std::size_t>(n), 0);
  std::vector<double> triangles(static_cast<std::size_t>(n), 0.0);
  std::vector<double> joint(static_cast<std::size_t>(n), 0.0);
  std::vector<std::int64_t> shared;
  double edges = 0, paths2 = 0, stars = 0, paths3 = 0, diamonds = 0, cycles = 0, cliques = 0;
  for (std::int64_t u = 0; u < n; ++u) {
    const double degree = graph.degree(u);
    edges += degree / 2.0;
    paths2 += choose2(degree);
    stars += choose3(degree);
    for (const std::int64_t* v = graph.begin(u); v != graph.end(u); ++v)
      near[static_cast<std::size_t>(*v)] = 1;
    for (const std::int64_t* v = graph.begin(u); v != graph.end(u); ++v) {
      if (*v < u) continue;
      shared.clear();
      for (const std::int64_t* w = graph.begin(*v); w != graph.end(*v); ++w)
        if (near[static_cast<std::size_t>(*w)]) shared.push_back(*w);
      const double on_edge = static_cast<double>(shared.size());
      triangles[static_cast<std::size_t>(u)] += on_edge / 2.0;
      triangles[static_cast<std::size_t>(*v)] += on_edge / 2.0;
      paths3 += (degree - 1.0) * (graph.degree(*v) - 1.0) - on_edge;
      diamonds += choose2(on_edge);
      if (size == 3) continue;
      for (const std::int64_t w : shared) common[static_cast<std::size_t>(w)] = w > *v;
      for (const std::int64_t w : shared)
        for (const std::int64_t* x = graph.begin(w); w > *v && x != graph.end(w); ++x)
          cliques += *x > w && common[static_cast<std::size_t>(*x)];
      for (const std::int64_t w : shared) common[static_cast<std::size_t>(w)] = 0;
      if (!worker.keep_going(static_cast<std::int64_t>(degree + graph.degree(*v)))) return;
    }
    for (const std::int64_t* v = graph.begin(u); v != graph.end(u); ++v) {
      near[static_cast<std::size_t>(*v)] = 0;
      for (const std::int64_t* w = graph.begin(*v); size == 4 && w != graph.end(*v); ++w)
        if (*w > u) cycles += joint[static_cast<std::size_t>(*w)]++ / 2.0;
    }
    for (const std::int64_t* v = graph.begin(u); size == 4 && v != graph.end(u); ++v)
      for (const std::int64_t* w = graph.begin(*v); w != graph.end(*v); ++w)
        joint[static_cast<std::size_t>(*w)] = 0.0;
  }
  double all = 0.0, paws = 0.0;
  for (std::int64_t u = 0; u < n; ++u) {
    all += triangles[static_cast<std::size_t>(u)];
    paws += triangles[static_cast<std::size_t>(u)] * (graph.degree(u) - 2.0);
  }
  all /= 3.0;  // each triangle has three nodes
  if (size == 3) {
    const double counts[] = {choose3(N), edges * (N - 2.0), paths2, all};
    std::copy(counts, counts + 4, out);
  } else {
    const double counts[] = {choose4(N),
                             edges * choose2(N - 2.0),
                             choose2(edges) - paths2,
                             paths2 * (N - 3.0),
                             all * (N - 3.0),
                             stars,
                             paths3,
                             paws,
                             cycles,
                             diamonds,
                             cliques};
    std::copy(counts, counts + 11, out);
  }
}

// The type of each of the 1024 graphs on 5 numbered nodes, whose bits are the edges (0, 1), (0, 2),
// ..., (3, 4).
inline std::vector<int> five_node_types() {
  int bit[5][5], next = 0;
  for (int i = 0; i < 5; ++i)
    for (int j = i + 1; j < 5; ++j) bit[i][j] = bit[j][i] = next++;
  std::vector<int> least(1024, 1024), types(1024, -1);
  std::array<int, 5> order{0, 1, 2, 3, 4};
  do {
    for (int graph = 0; graph < 1024; ++graph) {
      int turned = 0;
      for (int i = 0; i < 5; ++i)
        for (int j = i + 1; j < 5; ++j)
          turned |= ((graph >> bit[i][j]) & 1)
                    << bit[order[static_cast<std::size_t>(i)]][order[static_cast<std::size_t>(j)]];
      int& smallest = least[static_cast<std::size_t>(graph)];
      smallest = std::min(smallest, turned);
    }
  } while (std::next_permutation(order.begin(), order.end()));
  int count = 0;
  for (int graph = 0; graph < 1024; ++graph) {
    const auto place = static_cast<std::size_t>(graph);
    types[place] = least[place] == graph ? count++ : types[static_cast<std::size_t>(least[place])];
  }
  return types;
}

// Counts of the types of 5 nodes: of all of them if there are no more than `samples`, otherwise
// estimates from so many random ones.
inline void five_node_counts(const Neighbours& graph, std::int64_t samples, std::uint64_t seed,
                             Worker& worker, double* out) {
  static const std::vector<int> types = five_node_types();
  const std::int64_t n = graph.size();
  if (n < 5) return;
  const auto type_of = [&](const std::array<std::int64_t, 5>& nodes) {
    int code = 0, bit = 0;
    for (std::size_t i = 0; i < 5; ++i)
      for (std::size_t j = i + 1; j < 5; ++j) code |= graph.adjacent(nodes[i], nodes[j]) << bit++;
    return types[static_cast<std::size_t>(code)];
  };
  std::array<std::int64_t, 5> nodes{0, 1, 2, 3, 4};
  const double all = choose4(double(n)) * (double(n) - 4.0) / 5.0;
  if (all <= double(samples)) {
    while (worker.keep_going(50)) {
      out[type_of(nodes)] += 1.0;
      int last = 4;
      while (last >= 0 && nodes[static_cast<std::size_t>(last)] == n - 5 + last) --last;
      if (last < 0) return;
      ++nodes[static_cast<std::size_t>(last)];
      for (auto i = static_cast<std::size_t>(last) + 1; i < 5; ++i) nodes[i] = nodes[i - 1] + 1;
    }
    return;
  }
  std::uint64_t state = seed;
  for (std::int64_t sample = 0; sample < samples && worker.keep_going(100); ++sample) {
    for (std::size_t i = 0; i < 5; ++i) {  // Floyd's method: five different numbers below n
      const std::uint64_t limit = static_cast<std::uint64_t>(n) - 4 + i;
      state += 0x9e3779b97f4a7c15u;
      auto drawn = static_cast<std::int64_t>(mixed(state) % limit);
      if (std::find(nodes.begin(), nodes.begin() + i, drawn) != nodes.begin() + i)
        drawn = static_cast<std::int64_t>(limit) - 1;
      nodes[i] = drawn;
    }
    out[type_of(nodes)] += all / double(samples);
  }
}

// One row of `kTypes[size]` counts for each graph.
inline void graphlets(const Batch& batch, std::int64_t size, std::int64_t samples,
                      std::uint64_t seed, double* out, Run run) {
  auto body = [&](Worker& worker) {
    for (std::int64_t g; (g = worker.next_unit()) >= 0;) {
      const Neighbours graph(batch, g);
      double* row = out + g * kTypes[size];
      if (size < 5) {
        subgraph_counts(graph, size, worker, row);
      } else {
        const auto nodes = static_cast<std::uint64_t>(batch.nodes(g));
        const auto arcs = static_cast<std::uint64_t>(batch.arcs(g));
        five_node_counts(graph, samples, combined(combined(seed, nodes), arcs), worker, row);
      }
      if (!worker.keep_going(100)) return;
    }
  };
  const double work = 100.0 * total_arcs(batch) * (size == 5 ? double(samples) / 100.0 : 1.0);
  run_workers(batch.graphs, useful_threads(run.threads, batch.graphs, work), run.interrupt,
              WorkerBody(body));
}

// ---------------------------------------------------------------------------------------------
// Random walks
// ---------------------------------------------------------------------------------------------

// Calls f(worker, i, j) for all pairs, or for those with j <= i of a symmetric matrix, and writes
// its values.
template <class F>
void all_pairs(std::int64_t rows, std::int64_t columns, bool symmetric, double work, double* out,
               Run run, F f) {
  auto body = [&](Worker& worker) {
    for (std::int64_t unit; (unit = worker.next_unit()) >= 0;) {
      const std::int64_t i = rows - 1 - unit;  // long rows of a triangle first
      for (std::int64_t j = 0; j < (symmetric ? i + 1 : columns); ++j) {
        out[i * columns + j] = f(worker, i, j);
        if (symmetric) out[j * columns + i] = out[i * columns + j];
        if (!worker.keep_going(10)) return;
      }
    }
  };
  run_workers(rows, useful_threads(run.threads, rows, work), run.interrupt, WorkerBody(body));
}

// The lengths of all shortest paths of one graph. `levels` are the different lengths, rising;
// entry (u, v) of `places` is the level of the length from u to v, or their number if there is no
// path or u is v.
struct PathLengths {
  std::vector<double> levels;
  std::vector<std::int32_t> places;

  void measure(const Batch& batch, std::int64_t g, Distances& distances, Worker& worker) {
    const std::int64_t n = batch.nodes(g);
    std::vector<double> lengths(static_cast<std::size_t>(n * n), kFar);
    for (std::int64_t u = 0; u < n; ++u) {
      distances.from(batch, g, u);
      for (std::int64_t v = 0; v < n; ++v)
        if (v != u && distances[v] != kFar)
          lengths[static_cast<std::size_t>(u * n + v)] = Distances::rounded(distances[v]);
      if (!worker.keep_going(batch.arcs(g) + 20 * n)) return;
    }
    levels = lengths;
    std::sort(levels.begin(), levels.end());
    levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
    if (!levels.empty() && levels.back() == kFar) levels.pop_back();
    places.reserve(lengths.size());
    for (const double length : lengths)
      places.push_back(static_cast<std::int32_t>(
          std::lower_bound(levels.begin(), levels.end(), length) - levels.begin()));
  }
};

inline std::vector<PathLengths> path_lengths(const Batch& batch, Run run) {
  std::vector<PathLengths> all(static_cast<std::size_t>(batch.graphs));
  double work = 0.0;
  for (std::int64_t g = 0; g < batch.graphs; ++g)
    work += 20.0 * static_cast<double>(batch.nodes(g)) * double(batch.nodes(g) + batch.arcs(g));
  auto body = [&](Worker& worker) {
    Distances distances;
    for (std::int64_t g; (g = worker.next_unit()) >= 0;)
      all[static_cast<std::size_t>(g)].measure(batch, g, distances, worker);
  };
  run_workers(batch.graphs, useful_threads(run.threads, batch.graphs, work), run.interrupt,
              WorkerBody(body));
  return all;
}

// Sums over the pairs of equally long paths, from u to v in a graph and from s to t in another, of
// k(u, s) k(v, t). Sums over v come first, for each length and t, so that a pair of graphs of n and
// m nodes takes n m (n + m) operations.
class PathPairs {
 public:
  // Rows of `values` are the nodes of the first graph, columns those of the second.
  double sum(const Batch& a, std::int64_t i, const PathLengths& of_a, const Batch& b,
             std::int64_t j, const PathLengths& of_b, const double* values, std::int64_t stride) {
    const std::int64_t n = a.nodes(i), m = b.nodes(j);
    const auto levels = static_cast<std::int64_t>(of_b.levels.size());
    values_.resize(static_cast<std::size_t>(n * m));
    for (std::int64_t u = 0; u < n; ++u)
      for (std::int64_t s = 0; s < m; ++s)
        values_[static_cast<std::size_t>(u * m + s)] =
            a.label(a.starts[i] + u) == b.label(b.starts[j] + s) ? values[u * stride + s] : 0.0;
    match(of_a.levels, of_b.levels);
    double total = 0.0;
    for (std::int64_t u = 0; u < n; ++u) {
      // One row for each length, and one of zeros for nodes without a path.
      sums_.assign(static_cast<std::size_t>((levels + 1) * m), 0.0);
      for (std::int64_t v = 0; v < n; ++v) {
        const std::int64_t level =
            levels_[static_cast<std::size_t>(of_a.places[static_cast<std::size_t>(u * n + v)])];
        if (level < 0) continue;
        double* sums = sums_.data() + level * m;
        const double* row = values_.data() + v * m;
        for (std::int64_t t = 0; t < m; ++t) sums[t] += row[t];
      }
      for (std::int64_t s = 0; s < m; ++s) {
        const double value = values_[static_cast<std::size_t>(u * m + s)];
        if (value == 0.0) continue;
        const std::int32_t* places = of_b.places.data() + s * m;
        double inner = 0.0;
        for (std::int64_t t = 0; t < m; ++t)
          inner += sums_[static_cast<std::size_t>(places[t] * m + t)];
        total += value * inner;
      }
    }
    return total;
  }

 private:
  // The places of the levels of one graph among those of another; -1 where it has none of them.
  void match(const std::vector<double>& own, const std::vector<double>& other) {
    levels_.assign(own.size() + 1, -1);
    for (std::size_t k = 0, l = 0; k < own.size() && l < other.size();) {
      if (own[k] == other[l]) levels_[k] = static_cast<std::int64_t>(l);
      const bool both = own[k] == other[l], behind = own[k] < other[l];
      k += both || behind;
      l += both || !behind;
    }
  }

  std::vector<double> values_, sums_;
  std::vector<std::int64_t> levels_;
};

// `values` are those of a kernel of nodes: the nodes of all graphs of `a`, one graph after another,
// with those of `b`. Of a symmetric matrix only pairs with j <= i are computed.
inline void attributed_paths(const Batch& a, const Batch& b, const double* values,
                             std::int64_t stride, bool symmetric, double* out, Run run) {
  const std::vector<PathLengths> of_a = path_lengths(a, run), of_b = path_lengths(b, run);
  std::vector<std::int64_t> rows(1, 0), columns(1, 0);
  for (std::int64_t i = 0; i < a.graphs; ++i) rows.push_back(rows.back() + a.nodes(i));
  for (std::int64_t j = 0; j < b.graphs; ++j) columns.push_back(columns.back() + b.nodes(j));
  const double work = 2.0 * double(rows.back()) * double(columns.back()) *
                      double(rows.back() / std::max<std::int64_t>(a.graphs, 1));
  auto body = [&](Worker& worker) {
    PathPairs pair;
    for (std::int64_t i; (i = worker.next_unit()) >= 0;)
      for (std::int64_t j = 0; j < (symmetric ? i + 1 : b.graphs); ++j) {
        const auto row = static_cast<std::size_t>(i), column = static_cast<std::size_t>(j);
        out[i * b.graphs + j] = pair.sum(a, i, of_a[row], b, j, of_b[column],
                                         values + rows[row] * stride + columns[column], stride);
        if (!worker.keep_going(a.nodes(i) * b.nodes(j) * (a.nodes(i) + b.nodes(j)))) return;
      }
  };
  run_workers(a.graphs, useful_threads(run.threads, a.graphs, work), run.interrupt,
              WorkerBody(body));
}

// Eigenvalues of graphs, and the squared sums of their eigenvectors: those of graph g are from
// starts[g] to ends[g].
struct Spectra {
  std::int64_t graphs = 0;
  const std::int64_t *starts = nullptr, *ends = nullptr;
  const double *values = nullptr, *squares = nullptr;
};

// Sums of all walks of two graphs at once: sum_ij p_i q_j / (1 - weight a_i b_j).
inline void walks(const Spectra& a, const Spectra& b, double weight, bool symmetric, double* out,
                  Run run) {
  double total = 0.0;
  for (std::int64_t j = 0; j < b.graphs; ++j) total += double(b.ends[j] - b.starts[j]);
  double work = 0.0;
  for (std::int64_t i = 0; i < a.graphs; ++i) work += double(a.ends[i] - a.starts[i]) * total;
  all_pairs(a.graphs, b.graphs, symmetric, 4.0 * work, out, run,
            [&](Worker& worker, std::int64_t i, std::int64_t j) {
              typedef double Four __attribute__((vector_size(32)));
              const std::int64_t m = b.ends[j] - b.starts[j];
              const double *values = b.values + b.starts[j], *squares = b.squares + b.starts[j];
              double sum = 0.0;
              for (std::int64_t r = a.starts[i]; r < a.ends[i]; ++r) {
                const double factor = weight * a.values[r];
                Four lanes = {0.0, 0.0, 0.0, 0.0};
                std::int64_t s = 0;
                for (; s + 4 <= m; s += 4) {
                  Four v, q;
                  std::memcpy(&v, values + s, sizeof v);
                  std::memcpy(&q, squares + s, sizeof q);
                  lanes += q / (1.0 - factor * v);
                }
                double inner = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
                for (; s < m; ++s) inner += squares[s] / (1.0 - factor * values[s]);
                sum += a.squares[r] * inner;
              }
              worker.keep_going(m * (a.ends[i] - a.starts[i]));
              return sum;
            });
}

// The graph of pairs of nodes with equal labels, whose arcs are pairs of arcs with equal codes.
class ProductGraph {
 public:
  // The sum of all walks: 1' (I - weight W)^-1 1, by conjugate gradients.
  double walks(const Batch& a, std::int64_t i, const Batch& b, std::int64_t j, double weight,
               Worker& worker) {
    build(a, i, b, j, weight);
    const std::size_t n = starts_.size() - 1;
    std::vector<double> x(n, 0.0), r(n, 1.0), p(n, 1.0), q(n);
    double squared = static_cast<double>(n);
    const double enough = 1e-26 * squared;
    for (std::size_t step = 0; step < 10 * n + 10 && squared > enough; ++step) {
      double curvature = 0.0;
      for (std::size_t u = 0; u < n; ++u) {
        double sum = p[u];
        for (std::size_t e = starts_[u]; e < starts_[u + 1]; ++e)
          sum -= weights_[e] * p[static_cast<std::size_t>(ends_[e])];
        q[u] = sum;
        curvature += p[u] * sum;
      }
      const double length = squared / curvature;
      double left = 0.0;
      for (std::size_t u = 0; u < n; ++u) {
        x[u] += length * p[u];
        r[u] -= length * q[u];
        left += r[u] * r[u];
      }
      for (std::size_t u = 0; u < n; ++u) p[u] = r[u] + left / squared * p[u];
      squared = left;
      if (!worker.keep_going(static_cast<std::int64_t>(ends_.size() + 5 * n))) break;
    }
    double total = 0.0;
    for (const double value : x) total += value;
    return total;
  }

 private:
  void build(const Batch& a, std::int64_t i, const Batch& b, std::int64_t j, double weight) {
    const std::int64_t n = a.nodes(i), m = b.nodes(j), p = a.starts[i], q = b.starts[j];
    places_.assign(static_cast<std::size_t>(n * m), -1);
    std::int64_t count = 0;
    for (std::int64_t u = 0; u < n; ++u)
      for (std::int64_t v = 0; v < m; ++v)
        if (a.label(p + u) == b.label(q + v))
          places_[static_cast<std::size_t>(u * m + v)] = count++;
    starts_.assign(1, 0);
    ends_.clear();
    weights_.clear();
    for (std::int64_t u = 0; u < n; ++u)
      for (std::int64_t v = 0; v < m; ++v) {
        if (places_[static_cast<std::size_t>(u * m + v)] < 0) continue;
        for (std::int64_t e = a.indptr[p + u]; e < a.indptr[p + u + 1]; ++e)
          for (std::int64_t f = b.indptr[q + v]; f < b.indptr[q + v + 1]; ++f) {
            const std::int64_t place =
                places_[static_cast<std::size_t>((a.neighbours[e] - p) * m + b.neighbours[f] - q)];
            if (place < 0 || a.code(e) != b.code(f)) continue;
            ends_.push_back(place);
            weights_.push_back(weight * a.weight(e) * b.weight(f));
          }
        starts_.push_back(ends_.size());
      }
  }

  std::vector<std::int64_t> places_, ends_;
  std::vector<std::size_t> starts_;
  std::vector<double> weights_;
};

inline void labelled_walks(const Batch& a, const Batch& b, double weight, bool symmetric,
                           double* out, Run run) {
  const double work = 100.0 * total_arcs(a) * total_arcs(b);
  all_pairs(a.graphs, b.graphs, symmetric, work, out, run,
            [&](Worker& worker, std::int64_t i, std::int64_t j) {
              thread_local ProductGraph product;
              return product.walks(a, i, b, j, weight, worker);
            });
}

}  // namespace mercer::graphs
