// Kernels on graphs.
#include "graphs.hpp"

#include "arrays.hpp"

namespace mercer::python {
namespace {

using graphs::Batch;
using Integers = Vector<std::int64_t>;
using Hashes = Vector<std::uint64_t>;

// Where whole numbers are written, one after another.
struct Numbers {
  std::vector<std::int64_t> values;

  // Whether the object is a whole number of 64 bits; it is added if so.
  bool add(PyObject* object) {
    if (!PyLong_CheckExact(object)) return false;
    int overflow = 0;
    values.push_back(PyLong_AsLongLongAndOverflow(object, &overflow));
    return overflow == 0;
  }
  nb::object array() const {
    AlignedBuffer<std::int64_t> buffer(static_cast<std::int64_t>(values.size()));
    std::copy(values.begin(), values.end(), buffer.data());
    const std::size_t shape[1] = {values.size()};
    return to_numpy(std::move(buffer), shape);
  }
};

bool is_pair(PyObject* object) {
  return (PyTuple_CheckExact(object) || PyList_CheckExact(object)) &&
         PySequence_Fast_GET_SIZE(object) == 2;
}

// Adds the edges of a graph; false if they are not pairs of nodes from 0 to n - 1.
bool add_edges(PyObject* edges, Py_ssize_t n, Numbers& ends) {
  if (!PyList_CheckExact(edges) && !PyTuple_CheckExact(edges)) return false;
  for (Py_ssize_t e = 0; e < PySequence_Fast_GET_SIZE(edges); ++e) {
    PyObject* edge = PySequence_Fast_GET_ITEM(edges, e);
    if (!is_pair(edge)) return false;
    for (Py_ssize_t side = 0; side < 2; ++side) {
      if (!ends.add(PySequence_Fast_GET_ITEM(edge, side))) return false;
      if (ends.values.back() < 0 || ends.values.back() >= n) return false;
    }
  }
  return true;
}

// Adds the labels of a list, or of a dict by node number in order, up to one that is no whole
// number; false for anything else.
bool add_labels(PyObject* labels, bool& whole, Numbers& codes) {
  if (PyList_CheckExact(labels)) {
    for (Py_ssize_t u = 0; whole && u < PyList_GET_SIZE(labels); ++u)
      whole = codes.add(PyList_GET_ITEM(labels, u));
    return true;
  }
  if (!PyDict_CheckExact(labels)) return false;
  PyObject *node = nullptr, *label = nullptr;
  Py_ssize_t place = 0;
  for (long long expected = 0; PyDict_Next(labels, &place, &node, &label); ++expected) {
    int overflow = 0;
    if (!PyLong_CheckExact(node) || PyLong_AsLongLongAndOverflow(node, &overflow) != expected)
      return false;
    whole = whole && codes.add(label);
  }
  return true;
}

// Numbers of nodes, numbers of edges, ends of edges and labels of a list of pairs (edges, labels).
// Edges are pairs of node numbers, and labels a list or a dict in the order of the nodes. The
// labels are None if some are not whole numbers, and all is None if an object is of another form.
nb::object plain_graphs(const nb::list& objects) {
  Numbers sizes, counts, ends, codes;
  bool whole = true;
  for (nb::handle object : objects) {
    if (!is_pair(object.ptr())) return nb::none();
    PyObject* edges = PySequence_Fast_GET_ITEM(object.ptr(), 0);
    PyObject* labels = PySequence_Fast_GET_ITEM(object.ptr(), 1);
    if (!add_labels(labels, whole, codes)) return nb::none();
    const Py_ssize_t n = PyObject_Size(labels);
    if (!add_edges(edges, n, ends)) return nb::none();
    sizes.values.push_back(n);
    counts.values.push_back(PySequence_Fast_GET_SIZE(edges));
  }
  return nb::make_tuple(sizes.array(), counts.array(), ends.array(),
                        whole ? codes.array() : nb::none());
}

graphs::Run run_with(int threads) { return {threads, {signal_arrived, nullptr}}; }

// The arrays of a batch (starts, ends, indptr, neighbours, labels, codes, weights), checked: no
// loop over them leaves the arrays.
Batch batch_of(nb::handle arrays) {
  const nb::tuple parts = nb::cast<nb::tuple>(arrays);
  require(nb::len(parts) == 7, "graphs: a batch has seven arrays.");
  const auto starts = view<Integers>(parts[0], "graphs: starts must be integers.");
  const auto ends = view<Integers>(parts[1], "graphs: ends must be integers.");
  const auto indptr = view<Integers>(parts[2], "graphs: indptr must be integers.");
  const auto neighbours = view<Integers>(parts[3], "graphs: neighbours must be integers.");
  require(starts.shape(0) == ends.shape(0) && indptr.shape(0) >= 1,
          "graphs: the arrays do not fit.");
  const auto nodes = static_cast<std::int64_t>(indptr.shape(0)) - 1;
  const auto arcs = static_cast<std::int64_t>(neighbours.shape(0));
  Batch batch{static_cast<std::int64_t>(starts.shape(0)), starts.data(), ends.data(), indptr.data(),
              neighbours.data()};
  require(indptr.data()[0] >= 0 && indptr.data()[nodes] <= arcs, "graphs: indptr is too large.");
  for (std::int64_t u = 0; u < nodes; ++u)
    require(indptr.data()[u] <= indptr.data()[u + 1], "graphs: indptr must not decrease.");
  for (std::int64_t g = 0; g < batch.graphs; ++g) {
    const std::int64_t first = batch.starts[g], last = batch.ends[g];
    require(0 <= first && first <= last && last <= nodes, "graphs: nodes are out of range.");
    for (std::int64_t e = batch.indptr[first]; e < batch.indptr[last]; ++e)
      require(first <= batch.neighbours[e] && batch.neighbours[e] < last,
              "graphs: a neighbour is in another graph.");
  }
  if (!parts[4].is_none()) {
    const auto labels = view<Hashes>(parts[4], "graphs: labels must be 64-bit hashes.");
    require(static_cast<std::int64_t>(labels.shape(0)) == nodes, "graphs: one label for a node.");
    batch.labels = labels.data();
  }
  if (!parts[5].is_none()) {
    const auto codes = view<Hashes>(parts[5], "graphs: codes must be 64-bit hashes.");
    require(static_cast<std::int64_t>(codes.shape(0)) == arcs, "graphs: one code for an arc.");
    batch.codes = codes.data();
  }
  if (!parts[6].is_none()) {
    const auto weights = view<Vector<double>>(parts[6], "graphs: weights must be float64.");
    require(static_cast<std::int64_t>(weights.shape(0)) == arcs, "graphs: one weight for an arc.");
    for (std::int64_t e = 0; e < arcs; ++e)
      require(weights.data()[e] >= 0.0, "graphs: weights must not be negative.");
    batch.weights = weights.data();
  }
  return batch;
}

nb::tuple as_arrays(graphs::Features features) {
  const std::size_t rows[1] = {as_size(features.indptr.size())};
  const std::size_t entries[1] = {as_size(features.keys.size())};
  return nb::make_tuple(to_numpy(std::move(features.indptr), rows),
                        to_numpy(std::move(features.keys), entries),
                        to_numpy(std::move(features.counts), entries));
}

graphs::Base base_of(const std::string& name) {
  if (name == "subtree") return graphs::Base::subtree;
  if (name == "shortest_path") return graphs::Base::shortest_path;
  require(name == "assignment",
          "weisfeiler_lehman: base must be subtree, shortest_path or assignment.");
  return graphs::Base::assignment;
}

nb::tuple weisfeiler_lehman(nb::handle arrays, std::int64_t depth, const std::string& base,
                            int threads) {
  const Batch batch = batch_of(arrays);
  require(depth >= 0 && depth <= 10'000, "weisfeiler_lehman: depth must be from 0 to 10,000.");
  const graphs::Base which = base_of(base);
  graphs::Features features;
  run_released(
      [&] { features = graphs::weisfeiler_lehman(batch, depth, which, run_with(threads)); });
  return as_arrays(std::move(features));
}

nb::tuple propagation(nb::handle arrays,
                      const nb::ndarray<const double, nb::ndim<2>, nb::c_contig>& attributes,
                      const nb::ndarray<const double, nb::ndim<2>, nb::c_contig>& directions,
                      const Vector<double>& shifts, int threads) {
  const Batch batch = batch_of(arrays);
  std::int64_t nodes = 0;
  for (std::int64_t g = 0; g < batch.graphs; ++g) nodes = std::max(nodes, batch.ends[g]);
  require(static_cast<std::int64_t>(attributes.shape(0)) >= nodes &&
              directions.shape(1) == attributes.shape(1) && directions.shape(0) >= 1 &&
              shifts.shape(0) == directions.shape(0),
          "propagation: the shapes do not fit.");
  const graphs::Propagation job{attributes.data(), static_cast<std::int64_t>(attributes.shape(1)),
                                static_cast<std::int64_t>(directions.shape(0)) - 1,
                                directions.data(), shifts.data()};
  graphs::Features features;
  run_released([&] { features = graphs::propagate(batch, job, run_with(threads)); });
  return as_arrays(std::move(features));
}

nb::object graphlets(nb::handle arrays, std::int64_t size, std::int64_t samples, std::uint64_t seed,
                     int threads) {
  const Batch batch = batch_of(arrays);
  require(size >= 3 && size <= 5, "graphlets: size must be 3, 4 or 5.");
  const std::int64_t types = graphs::kTypes[size];
  AlignedBuffer<double> out = zeros(batch.graphs * types);
  run_released(
      [&] { graphs::graphlets(batch, size, samples, seed, out.data(), run_with(threads)); });
  const std::size_t shape[2] = {as_size(batch.graphs), as_size(types)};
  return to_numpy(std::move(out), shape);
}

// The arrays (starts, ends, values, squares).
graphs::Spectra spectra_of(nb::handle arrays) {
  const nb::tuple parts = nb::cast<nb::tuple>(arrays);
  require(nb::len(parts) == 4, "walks: spectra have four arrays.");
  const auto starts = view<Integers>(parts[0], "walks: starts must be integers.");
  const auto ends = view<Integers>(parts[1], "walks: ends must be integers.");
  const auto values = view<Vector<double>>(parts[2], "walks: values must be float64.");
  const auto squares = view<Vector<double>>(parts[3], "walks: squares must be float64.");
  require(starts.shape(0) == ends.shape(0) && values.shape(0) == squares.shape(0),
          "walks: the arrays do not fit.");
  for (std::size_t g = 0; g < starts.shape(0); ++g)
    require(0 <= starts.data()[g] && starts.data()[g] <= ends.data()[g] &&
                ends.data()[g] <= static_cast<std::int64_t>(values.shape(0)),
            "walks: eigenvalues are out of range.");
  return {static_cast<std::int64_t>(starts.shape(0)), starts.data(), ends.data(), values.data(),
          squares.data()};
}

template <class Side, class F>
nb::object matrix_of(const Side& a, const Side& b, bool symmetric, F fill) {
  require(!symmetric || a.graphs == b.graphs, "walks: a symmetric matrix is square.");
  AlignedBuffer<double> out = zeros(a.graphs * b.graphs);
  run_released([&] { fill(out.data()); });
  const std::size_t shape[2] = {as_size(a.graphs), as_size(b.graphs)};
  return to_numpy(std::move(out), shape);
}

nb::object walks(nb::handle left, nb::handle right, double weight, bool symmetric, int threads) {
  const graphs::Spectra a = spectra_of(left), b = spectra_of(right);
  return matrix_of(a, b, symmetric, [&](double* out) {
    graphs::walks(a, b, weight, symmetric, out, run_with(threads));
  });
}

nb::object labelled_walks(nb::handle left, nb::handle right, double weight, bool symmetric,
                          int threads) {
  const Batch a = batch_of(left), b = batch_of(right);
  return matrix_of(a, b, symmetric, [&](double* out) {
    graphs::labelled_walks(a, b, weight, symmetric, out, run_with(threads));
  });
}

nb::object attributed_paths(nb::handle left, nb::handle right, const Matrix<double>& values,
                            bool symmetric, int threads) {
  const Batch a = batch_of(left), b = batch_of(right);
  std::int64_t rows = 0, columns = 0;
  for (std::int64_t i = 0; i < a.graphs; ++i) rows += a.nodes(i);
  for (std::int64_t j = 0; j < b.graphs; ++j) columns += b.nodes(j);
  require(static_cast<std::int64_t>(values.shape(0)) == rows &&
              static_cast<std::int64_t>(values.shape(1)) == columns && values.stride(1) == 1,
          "attributed_paths: one value for each pair of nodes.");
  return matrix_of(a, b, symmetric, [&](double* out) {
    graphs::attributed_paths(a, b, values.data(), values.stride(0), symmetric, out,
                             run_with(threads));
  });
}

}  // namespace

void bind_graphs(nb::module_& m) {
  m.def("plain_graphs", &plain_graphs, "objects"_a,
        "Sizes, numbers of edges, edges and labels of pairs (edges, labels); None for others.");
  m.def("graph_labels", &weisfeiler_lehman, "batch"_a, "depth"_a, "base"_a, "threads"_a = 1,
        "Counts of hashed labels or paths of each graph: indptr, keys and counts.");
  m.def("graph_propagation", &propagation, "batch"_a, "attributes"_a, "directions"_a, "shifts"_a,
        "threads"_a = 1, "Counts of bins of propagated attributes: indptr, keys and counts.");
  m.def("graphlets", &graphlets, "batch"_a, "size"_a, "samples"_a, "seed"_a, "threads"_a = 1,
        "Counts of subgraphs, not necessarily induced of 3 or 4 nodes, induced of 5 nodes.");
  m.def("graph_walks", &walks, "a"_a, "b"_a, "weight"_a, "symmetric"_a, "threads"_a = 1,
        "Sums of common walks of all pairs of graphs, from their spectra.");
  m.def("labelled_graph_walks", &labelled_walks, "a"_a, "b"_a, "weight"_a, "symmetric"_a,
        "threads"_a = 1, "Sums of common walks of all pairs of labelled graphs.");
  m.def("attributed_paths", &attributed_paths, "a"_a, "b"_a, "values"_a, "symmetric"_a,
        "threads"_a = 1, "Sums over pairs of equally long paths of the values of their ends.");
}

}  // namespace mercer::python
