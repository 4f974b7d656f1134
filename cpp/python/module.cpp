// The Python module mercer._core: conversion of arguments, nothing else.
#include "arrays.hpp"

namespace mercer::python {

NB_MODULE(_core, m) {
  // Programs are cached by expressions, which may live until the interpreter ends.
  nb::set_leak_warnings(false);

  m.doc() = "The native engine of mercer: tile programs over all pairs of two sets of points.";

  nb::dict opcodes;
  for (const OpInfo& op : operations()) opcodes[op.name] = static_cast<std::int32_t>(op.op);
  m.attr("OPCODES") = opcodes;
  nb::dict lanes;
  lanes["float32"] = kPanelPoints<float>;
  lanes["float64"] = kPanelPoints<double>;
  m.attr("LANES") = lanes;
  m.def("cpu", [] { return engine().name; }, "The instruction set in use.");
  bind_points(m);
  bind_pairs(m);
  bind_matrices(m);
  bind_linear_algebra(m);
  bind_series(m);
  bind_graphs(m);
  bind_strings(m);
}

}  // namespace mercer::python
