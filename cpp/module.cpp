// The Python module mercer._core: conversion of arguments, nothing else.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "engine.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace mercer {
namespace {

using AnyArray = nb::ndarray<nb::ro, nb::device::cpu>;
template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::device::cpu>;
template <class T>
using Floats = nb::ndarray<const T, nb::device::cpu>;
using Code = nb::ndarray<const std::int32_t, nb::shape<-1, 7>, nb::c_contig, nb::device::cpu>;

void require(bool condition, const std::string& sentence) {
  if (!condition) throw std::invalid_argument(sentence);
}

// ---------------------------------------------------------------------------------------------
// Arrays
// ---------------------------------------------------------------------------------------------

template <class T>
bool holds(const nb::handle& object) {
  nb::ndarray<const T, nb::device::cpu> array;
  return nb::try_cast(object, array, false);
}

// Converts without copying; `what` names the argument in the error.
template <class Array>
Array view(nb::handle object, const char* what) {
  Array array;
  require(nb::try_cast(object, array, false), std::string(what));
  return array;
}

// A NumPy array that takes over the buffer.
template <class T, std::size_t N>
nb::object to_numpy(AlignedBuffer<T> buffer, const std::size_t (&shape)[N]) {
  T* data = buffer.release();
  nb::capsule owner(data, [](void* memory) noexcept { release_lines(memory); });
  return nb::cast(nb::ndarray<nb::numpy, T>(data, N, shape, owner));
}

AlignedBuffer<double> zeros(std::int64_t size) {
  AlignedBuffer<double> buffer(size);
  buffer.fill(0.0);
  return buffer;
}

std::size_t as_size(std::int64_t value) { return static_cast<std::size_t>(value); }

template <class T>
StridedMatrix<T> strided(const Matrix<T>& x) {
  return {x.data(), static_cast<std::int64_t>(x.shape(0)), static_cast<std::int64_t>(x.shape(1)),
          x.stride(0), x.stride(1)};
}

// Calls f with the array as one of float64 or, failing that, of float32: each attempt at a
// conversion costs a microsecond, and float64 is the usual case.
template <template <class> class Array, class F>
auto with_floats(nb::handle object, const char* what, F f) {
  Array<double> twofold;
  if (nb::try_cast(object, twofold, false)) return f(twofold);
  return f(view<Array<float>>(object, what));
}

// Points as the engine reads them, see `pack_panels`.
template <class T>
struct Panels {
  std::int64_t points, columns;
  AlignedBuffer<T> values;
};

using OptionalVector = std::optional<Vector<double>>;

template <class T, class S>
nb::object pack(const Matrix<S>& x, const OptionalVector& centre, const OptionalVector& scale) {
  require(!centre || centre->shape(0) == x.shape(1),
          "pack: centre must have one value per column.");
  require(!scale || scale->shape(0) == x.shape(1), "pack: scale must have one value per column.");
  const StridedMatrix<S> matrix = strided<S>(x);
  const std::int64_t size =
      divide_up(matrix.rows, kPanelPoints<T>) * matrix.columns * kPanelPoints<T>;
  Panels<T> packed{matrix.rows, matrix.columns, AlignedBuffer<T>(size)};
  bool is_finite = false;
  {
    nb::gil_scoped_release release;
    pack_panels(matrix, centre ? centre->data() : nullptr, scale ? scale->data() : nullptr,
                packed.values.data());
    is_finite = all_finite<T>({packed.values.data(), 1, size, size, 1});
  }
  if (!is_finite) throw std::overflow_error("pack: a packed number is not finite.");
  return nb::cast(std::move(packed));
}

nb::object pack_any(nb::handle x, const OptionalVector& centre, const OptionalVector& scale,
                    bool single) {
  return with_floats<Matrix>(
      x, "pack: X must be a float32 or float64 array of two dimensions.", [&](const auto& matrix) {
        return single ? pack<float>(matrix, centre, scale) : pack<double>(matrix, centre, scale);
      });
}

template <class T>
nb::object middles(const Matrix<T>& x) {
  require(x.shape(0) > 0, "middle: X has no rows.");
  AlignedBuffer<double> found(static_cast<std::int64_t>(x.shape(1)));
  column_middles<T>(strided<T>(x), found.data());
  return to_numpy<double>(std::move(found), {x.shape(1)});
}

nb::object middles_any(nb::handle x) {
  return with_floats<Matrix>(x, "middle: X must be a float32 or float64 array of two dimensions.",
                             [](const auto& matrix) { return middles(matrix); });
}

constexpr const char* kFiniteInput =
    "all_finite: X must be a float32 or float64 array of one or two dimensions.";

template <class T>
bool is_finite(const Floats<T>& x) {
  require(x.ndim() == 1 || x.ndim() == 2, kFiniteInput);
  const bool flat = x.ndim() == 1;
  const StridedMatrix<T> matrix{x.data(), flat ? 1 : static_cast<std::int64_t>(x.shape(0)),
                                static_cast<std::int64_t>(x.shape(flat ? 0 : 1)),
                                flat ? 0 : x.stride(0), x.stride(flat ? 0 : 1)};
  nb::gil_scoped_release release;
  return all_finite<T>(matrix);
}

bool is_finite_any(nb::handle x) {
  return with_floats<Floats>(x, kFiniteInput, [](const auto& array) { return is_finite(array); });
}

// ---------------------------------------------------------------------------------------------
// Programs and sides
// ---------------------------------------------------------------------------------------------

std::vector<Instruction> read_code(const Code& code) {
  return parse_code(code.data(), static_cast<std::int64_t>(code.shape(0)));
}

Program make_program(const Code& code, std::int32_t registers, nb::sequence coordinates,
                     const std::vector<Vector<double>>& tables) {
  std::vector<LookupTable> lookup;
  for (const Vector<double>& table : tables)
    lookup.emplace_back(std::vector<double>(table.data(), table.data() + table.shape(0)));
  std::vector<SubProgram> subs;
  for (nb::handle item : coordinates) {
    const auto [sub_code, sub_registers, result] =
        nb::cast<std::tuple<Code, std::int32_t, std::int32_t>>(item);
    subs.emplace_back(read_code(sub_code), sub_registers, result, lookup.size());
  }
  return Program(read_code(code), registers, std::move(subs), std::move(lookup));
}

enum class Precision { any, single, twofold };

// A side as Python holds it. Without slots and vectors it serves both element types.
struct PySide {
  Precision precision = Precision::any;
  Side<float> single;
  Side<double> twofold;
  std::vector<nb::object> keep_alive;

  std::int64_t n() const { return single.n; }
  template <class T>
  Side<T>& side() {
    if constexpr (sizeof(T) == sizeof(float)) {
      return single;
    } else {
      return twofold;
    }
  }
};

template <class T>
constexpr Precision precision_of =
    sizeof(T) == sizeof(float) ? Precision::single : Precision::twofold;

template <class T>
void add_sparse(PySide& side, nb::tuple parts) {
  const auto indptr = view<Vector<std::int64_t>>(parts[0], "Side: indptr must be int64.");
  const auto indices = view<Vector<std::int64_t>>(parts[1], "Side: indices must be int64.");
  const auto values =
      view<Vector<T>>(parts[2], "Side: sparse values must be of the type of the other arrays.");
  require(indices.shape(0) == values.shape(0), "Side: indices and values differ in length.");
  Slot<T> slot;
  slot.sparse = true;
  slot.columns = nb::cast<std::int64_t>(parts[3]);
  check_sparse(side.n(), slot.columns, indptr.data(), static_cast<std::int64_t>(indptr.shape(0)),
               indices.data(), static_cast<std::int64_t>(indices.shape(0)));
  slot.indptr = indptr.data();
  slot.indices = indices.data();
  slot.values = values.data();
  side.side<T>().slots.push_back(slot);
  side.keep_alive.emplace_back(parts);
}

template <class T>
void add_dense(PySide& side, nb::handle object) {
  const Panels<T>* panels = nullptr;
  require(nb::try_cast(object, panels, false) && panels != nullptr,
          "Side: a dense slot must be what pack() returns, of the type of the other slots.");
  require(panels->points == side.n(), "Side: a dense slot must hold n points.");
  Slot<T> slot;
  slot.columns = panels->columns;
  slot.panels = panels->values.data();
  side.side<T>().slots.push_back(slot);
  side.keep_alive.emplace_back(nb::borrow(object));
}

template <class T>
AlignedBuffer<T> padded_copy(const T* values, std::int64_t n, std::int64_t panels) {
  AlignedBuffer<T> copy(panels);
  copy.fill(T(0));
  std::copy(values, values + n, copy.data());
  return copy;
}

template <class T>
void fill_side(PySide& side, nb::sequence slots, nb::sequence vectors) {
  side.precision = precision_of<T>;
  const std::int64_t padded = side.side<T>().panels() * kPanelPoints<T>;
  for (nb::handle slot : slots) {
    if (nb::isinstance<nb::tuple>(slot)) {
      add_sparse<T>(side, nb::cast<nb::tuple>(slot));
    } else {
      add_dense<T>(side, slot);
    }
  }
  for (nb::handle item : vectors) {
    const auto values = view<Vector<T>>(
        item, "Side: a vector must be contiguous and of the type of the other arrays.");
    require(values.shape(0) == as_size(side.n()), "Side: a vector must have n values.");
    side.side<T>().vectors.push_back(padded_copy<T>(values.data(), side.n(), padded));
  }
}

PySide make_side(std::int64_t n, nb::sequence slots, nb::sequence vectors,
                 const std::optional<Vector<std::int64_t>>& ids) {
  require(n > 0 && n <= kMaxPoints,
          "Side: n must lie between 1 and 2^53, got " + std::to_string(n) + ".");
  PySide side;
  side.single.n = side.twofold.n = n;
  nb::object first = nb::none();
  if (nb::len(slots) > 0) {
    first = slots[0];
    if (nb::isinstance<nb::tuple>(first)) {
      require(nb::len(first) == 4, "Side: a sparse slot is (indptr, indices, values, n_columns).");
      first = first[2];
    }
  } else if (nb::len(vectors) > 0) {
    first = vectors[0];
  }
  for (nb::handle slot : slots)
    require(!nb::isinstance<nb::tuple>(slot) || nb::len(slot) == 4,
            "Side: a sparse slot is (indptr, indices, values, n_columns).");
  if (!first.is_none()) {
    const bool is_twofold = nb::isinstance<Panels<double>>(first);
    if (!is_twofold && (nb::isinstance<Panels<float>>(first) || holds<float>(first))) {
      fill_side<float>(side, slots, vectors);
    } else {
      fill_side<double>(side, slots, vectors);
    }
  }
  if (ids) {
    require(ids->shape(0) == as_size(n), "Side: ids must have n values.");
    side.single.ids = padded_copy<std::int64_t>(ids->data(), n, side.single.panels() * 16);
    side.twofold.ids = padded_copy<std::int64_t>(ids->data(), n, side.twofold.panels() * 8);
  }
  return side;
}

// ---------------------------------------------------------------------------------------------
// Calls
// ---------------------------------------------------------------------------------------------

bool signal_arrived(void*) {
  nb::gil_scoped_acquire acquire;
  return PyErr_CheckSignals() != 0;
}

// What the functions share: program, sides, blocks.
struct PyPairs {
  const Program& program;
  Vector<double> scalars;
  PySide& rows;
  PySide& cols;
  nb::sequence blocks;
  int threads;

  template <class T>
  Pairs<T> typed(const char* owner) const {
    for (const PySide* side : {&rows, &cols})
      require(side->precision == Precision::any || side->precision == precision_of<T>,
              std::string(owner) + ": a side has another element type than the call.");
    Pairs<T> pairs;
    pairs.program = &program;
    pairs.scalars.assign(scalars.data(), scalars.data() + scalars.shape(0));
    pairs.rows = &rows.side<T>();
    pairs.cols = &cols.side<T>();
    for (nb::handle item : blocks) pairs.blocks.push_back(block<T>(item));
    pairs.threads = threads;
    pairs.interrupt = {signal_arrived, nullptr};
    check_pairs(pairs);
    return pairs;
  }

  template <class T>
  Block<T> block(nb::handle item) const {
    const auto matrix =
        view<Matrix<T>>(item, "block: a block must be a matrix of the element type of the call.");
    require(matrix.shape(0) == as_size(rows.n()) && matrix.shape(1) == as_size(cols.n()),
            "block: a block must have one row per row and one column per column.");
    require(matrix.shape(1) == 1 || matrix.stride(1) == 1,
            "block: the rows of a block must be contiguous.");
    require(matrix.shape(0) == 1 || matrix.stride(0) >= cols.n(),
            "block: the row stride of a block must be at least its number of columns.");
    return {matrix.data(), matrix.stride(0)};
  }
};

// Runs without the GIL; a signal's Python exception propagates.
template <class F>
void run_released(F run) {
  try {
    nb::gil_scoped_release release;
    run();
  } catch (const Interrupted&) {
    throw nb::python_error();
  }
}

template <class T>
void gram(const PyPairs& call, std::int32_t result, nb::handle target, bool symmetric) {
  const auto out = view<nb::ndarray<T, nb::ndim<2>, nb::device::cpu>>(
      target, "gram: out must be a writable matrix.");
  require(out.shape(0) == as_size(call.rows.n()) && out.shape(1) == as_size(call.cols.n()),
          "gram: out must have one row per row and one column per column.");
  require(out.shape(1) == 1 || out.stride(1) == 1, "gram: the rows of out must be contiguous.");
  require(out.shape(0) == 1 || out.stride(0) >= call.cols.n(),
          "gram: the row stride of out must be at least its number of columns.");
  require(!symmetric || &call.rows == &call.cols, "gram: symmetric needs rows and cols to be one.");
  GramJob<T> job{call.typed<T>("gram"), result, out.data(), out.stride(0), symmetric};
  call.program.check_result(result, "gram");
  run_released([&] { engine().table<T>().gram(job); });
}

// A program whose only data are columns of numbers, applied to small arrays in one call: no objects
// in between, no threads, no interrupts.
class Direct {
 public:
  struct Columns {
    bool centred;
    std::vector<double> scale;  // empty if there is none
  };

  Direct(nb::object program, std::int32_t result, std::vector<double> scalars, nb::sequence slots)
      : program_(std::move(program)), result_(result), scalars_(std::move(scalars)) {
    nb::cast<const Program&>(program_).check_result(result, "Direct");
    for (nb::handle item : slots) {
      auto [centred, scale] = nb::cast<std::tuple<bool, std::vector<double>>>(item);
      slots_.push_back({centred, std::move(scale)});
    }
  }

  // Writes the matrix; false, and nothing of use in `out`, if a number on the way is not finite.
  template <class T>
  bool run(const Matrix<T>& rows, const Matrix<T>* cols, nb::handle target) const {
    const bool symmetric = cols == nullptr;
    const StridedMatrix<T> x = strided<T>(rows), z = symmetric ? x : strided<T>(*cols);
    const auto out = view<nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>>(
        target, "Direct: out must be a C-contiguous matrix of the type of X.");
    require(x.rows > 0 && z.rows > 0 && x.columns == z.columns,
            "Direct: X and Z must have rows, and as many columns.");
    require(out.shape(0) == as_size(x.rows) && out.shape(1) == as_size(z.rows),
            "Direct: out must have one row per row of X and one column per row of Z.");
    if (!all_finite<T>(x) || !all_finite<T>(z)) return false;
    Side<T> row_side, col_side;
    std::vector<AlignedBuffer<T>> packed;
    if (!fill(z, z, col_side, packed) || (!symmetric && !fill(x, z, row_side, packed)))
      return false;
    Pairs<T> pairs;
    pairs.program = &nb::cast<const Program&>(program_);
    pairs.scalars = scalars_;
    pairs.rows = symmetric ? &col_side : &row_side;
    pairs.cols = &col_side;
    check_pairs(pairs);
    engine().table<T>().gram({pairs, result_, out.data(), z.rows, symmetric});
    return true;
  }

 private:
  template <class T>
  bool fill(const StridedMatrix<T>& x, const StridedMatrix<T>& reference, Side<T>& side,
            std::vector<AlignedBuffer<T>>& packed) const {
    side.n = x.rows;
    std::vector<double> centre(as_size(x.columns));
    column_middles<T>(reference, centre.data());
    for (const Columns& slot : slots_) {
      require(slot.scale.empty() || slot.scale.size() == centre.size(),
              "Direct: a scale must have one value per column.");
      const std::int64_t size = side.panels() * x.columns * kPanelPoints<T>;
      const AlignedBuffer<T>& panels = packed.emplace_back(size);
      pack_panels<T>(x, slot.centred ? centre.data() : nullptr,
                     slot.scale.empty() ? nullptr : slot.scale.data(), packed.back().data());
      if (!all_finite<T>({panels.data(), 1, size, size, 1})) return false;
      Slot<T> columns;
      columns.columns = x.columns;
      columns.panels = panels.data();
      side.slots.push_back(columns);
    }
    return true;
  }

  nb::object program_;
  std::int32_t result_;
  std::vector<double> scalars_;
  std::vector<Columns> slots_;
};

bool run_direct(const Direct& direct, nb::handle X, nb::handle Z, nb::handle out) {
  return with_floats<Matrix>(X, "Direct: X must be a float32 or float64 array of two dimensions.",
                             [&](const auto& x) {
                               using M = std::decay_t<decltype(x)>;
                               if (Z.is_none())
                                 return direct.run(x, static_cast<const M*>(nullptr), out);
                               const auto z = view<M>(Z, "Direct: Z must be an array like X.");
                               return direct.run(x, &z, out);
                             });
}

template <class T>
nb::object product(const PyPairs& call, std::int32_t result, nb::handle object, bool normal) {
  const auto V = view<nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>>(
      object, "product: V must be a C-contiguous float32 or float64 matrix.");
  require(V.shape(0) == as_size(call.cols.n()), "product: V must have one row per column of K.");
  const std::int64_t height = normal ? call.cols.n() : call.rows.n();
  const auto right_sides = static_cast<std::int64_t>(V.shape(1));
  require(right_sides == 0 || height <= std::numeric_limits<std::int64_t>::max() / right_sides,
          "product: the result is too large.");
  AlignedBuffer<T> out(height * right_sides);
  ProductJob<T> job{call.typed<T>("product"), result, V.data(), right_sides, out.data()};
  call.program.check_result(result, "product");
  if (right_sides > 0)
    run_released([&] {
      const EngineTable<T>& table = engine().table<T>();
      (normal ? table.normal_product : table.product)(job);
    });
  return to_numpy<T>(std::move(out), {as_size(height), as_size(right_sides)});
}

// ---------------------------------------------------------------------------------------------
// Contractions
// ---------------------------------------------------------------------------------------------

const std::pair<const char*, OutputKind> kOutputKinds[] = {
    {"sum", OutputKind::sum},
    {"row_sums", OutputKind::row_sums},
    {"column_sums", OutputKind::column_sums},
    {"dot_inputs", OutputKind::dot_inputs},
    {"distance_inputs", OutputKind::distance_inputs},
    {"distance_scales", OutputKind::distance_scales},
    {"coordinate_adjoint", OutputKind::coordinate_adjoint},
};

Output read_output(nb::handle item) {
  const auto fields = nb::cast<nb::tuple>(item);
  require(nb::len(fields) >= 2, "contract: an output is a tuple (kind, register, ...).");
  const auto name = nb::cast<std::string>(fields[0]);
  const auto* found = std::find_if(std::begin(kOutputKinds), std::end(kOutputKinds),
                                   [&](const auto& kind) { return kind.first == name; });
  require(found != std::end(kOutputKinds), "contract: there is no output '" + name + "'.");
  Output output;
  output.kind = found->second;
  const std::size_t expected = output.kind <= OutputKind::column_sums          ? 2
                               : output.kind == OutputKind::coordinate_adjoint ? 9
                                                                               : 3;
  require(nb::len(fields) == expected,
          "contract: output '" + name + "' has " + std::to_string(expected) + " fields.");
  const auto integer = [&](std::size_t i) { return nb::cast<std::int32_t>(fields[i]); };
  output.reg = integer(1);
  if (expected > 2) output.slot = integer(2);
  if (expected == 9) {
    output.subprogram = integer(3);
    output.reduction = integer(4);
    output.value_reg = integer(5);
    output.input_reg = integer(6);
    output.scale_reg = integer(7);
    output.param_regs = nb::cast<std::vector<std::int32_t>>(fields[8]);
  }
  return output;
}

// The arrays behind an output, and their way back to Python.
struct OutputArrays {
  AlignedBuffer<double> target, scales, params;
  std::int64_t rows = 0, columns = 0;
};

template <class T>
OutputArrays allocate_output(const Pairs<T>& pairs, Output& output) {
  OutputArrays arrays;
  const auto zeros_for = [&](std::int64_t rows, std::int64_t columns) {
    require(columns == 0 || rows <= std::numeric_limits<std::int64_t>::max() / columns,
            "contract: a result is too large.");
    arrays.rows = rows;
    arrays.columns = columns;
    return zeros(rows * columns);
  };
  const auto slot_columns = [&] { return pairs.rows->slots[as_size(output.slot)].columns; };
  switch (output.kind) {
    case OutputKind::sum:
      arrays.target = zeros_for(1, 1);
      break;
    case OutputKind::row_sums:
      arrays.target = zeros_for(pairs.rows->n, 1);
      break;
    case OutputKind::column_sums:
      arrays.target = zeros_for(pairs.cols->n, 1);
      break;
    case OutputKind::distance_scales:
      arrays.target = zeros_for(slot_columns(), 1);
      break;
    case OutputKind::dot_inputs:
    case OutputKind::distance_inputs:
      arrays.target = zeros_for(pairs.rows->n, slot_columns());
      break;
    case OutputKind::coordinate_adjoint:
      if (output.input_reg >= 0) arrays.target = zeros_for(pairs.rows->n, slot_columns());
      if (output.scale_reg >= 0) arrays.scales = zeros(slot_columns());
      arrays.params = zeros(static_cast<std::int64_t>(output.param_regs.size()));
      break;
  }
  output.target = arrays.target.data();
  output.scales = arrays.scales.data();
  output.params = arrays.params.data();
  return arrays;
}

nb::object vector_to_numpy(AlignedBuffer<double> buffer) {
  const std::size_t size = as_size(buffer.size());
  return to_numpy<double>(std::move(buffer), {size});
}

nb::object matrix_to_numpy(OutputArrays& arrays) {
  return to_numpy<double>(std::move(arrays.target),
                          {as_size(arrays.rows), as_size(arrays.columns)});
}

nb::object output_to_python(const Output& output, OutputArrays arrays) {
  switch (output.kind) {
    case OutputKind::sum:
      return nb::float_(arrays.target[0]);
    case OutputKind::row_sums:
    case OutputKind::column_sums:
    case OutputKind::distance_scales:
      return vector_to_numpy(std::move(arrays.target));
    case OutputKind::dot_inputs:
    case OutputKind::distance_inputs:
      return matrix_to_numpy(arrays);
    case OutputKind::coordinate_adjoint:
      break;
  }
  nb::object inputs = output.input_reg >= 0 ? matrix_to_numpy(arrays) : nb::none();
  nb::object scales =
      output.scale_reg >= 0 ? vector_to_numpy(std::move(arrays.scales)) : nb::none();
  return nb::make_tuple(inputs, scales, vector_to_numpy(std::move(arrays.params)));
}

template <class T>
nb::list contract(const PyPairs& call, nb::sequence outputs, Fold fold) {
  ContractJob<T> job{call.typed<T>("contract"), {}, fold};
  for (nb::handle item : outputs) {
    job.outputs.push_back(read_output(item));
    check_output(job.pairs, job.outputs.back(), fold);
  }
  std::vector<OutputArrays> arrays;
  for (Output& output : job.outputs) arrays.push_back(allocate_output(job.pairs, output));
  if (!job.outputs.empty()) run_released([&] { engine().table<T>().contract(job); });
  nb::list results;
  for (std::size_t i = 0; i < arrays.size(); ++i)
    results.append(output_to_python(job.outputs[i], std::move(arrays[i])));
  return results;
}

// ---------------------------------------------------------------------------------------------
// Random features
// ---------------------------------------------------------------------------------------------

template <class T>
using Writable = nb::ndarray<T, nb::ndim<2>, nb::device::cpu>;

// A matrix to be written, row by row: its first element and the distance of its rows.
template <class T>
std::pair<T*, std::int64_t> writable_rows(const Writable<T>& out, const std::string& owner) {
  require(out.shape(1) <= 1 || out.stride(1) == 1, owner + ": the rows of out must be contiguous.");
  require(out.shape(0) <= 1 || out.stride(0) >= static_cast<std::int64_t>(out.shape(1)),
          owner + ": the row stride of out must be at least its number of columns.");
  return {out.data(), out.stride(0)};
}

template <class T>
void hadamard(const Matrix<T>& X, nb::handle diagonal_stages,
              const std::optional<nb::ndarray<const std::int64_t, nb::ndim<2>, nb::c_contig,
                                              nb::device::cpu>>& permutations,
              nb::handle final_scales, nb::handle target, int threads) {
  const auto diagonals = view<nb::ndarray<const T, nb::ndim<3>, nb::c_contig, nb::device::cpu>>(
      diagonal_stages, "hadamard: diagonals must be C-contiguous, of the type of X.");
  const auto scales = view<nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>>(
      final_scales, "hadamard: scales must be C-contiguous, of the type of X.");
  const auto out =
      view<Writable<T>>(target, "hadamard: out must be a writable matrix of the type of X.");
  const std::size_t blocks = diagonals.shape(0), size = diagonals.shape(2);
  require(scales.shape(0) == blocks && scales.shape(1) == size,
          "hadamard: scales must have one row per block and one column per value.");
  require(!permutations || (permutations->shape(0) == blocks && permutations->shape(1) == size),
          "hadamard: permutations must have one row per block and one column per value.");
  require(out.shape(0) == X.shape(0), "hadamard: out must have one row per row of X.");
  HadamardJob<T> job;
  job.x = strided<T>(X);
  job.blocks = static_cast<std::int64_t>(blocks);
  job.stages = static_cast<std::int64_t>(diagonals.shape(1));
  job.size = static_cast<std::int64_t>(size);
  job.diagonals = diagonals.data();
  job.permutations = permutations ? permutations->data() : nullptr;
  job.scales = scales.data();
  std::tie(job.out, job.stride) = writable_rows<T>(out, "hadamard");
  job.width = static_cast<std::int64_t>(out.shape(1));
  job.threads = threads;
  job.interrupt = {signal_arrived, nullptr};
  check_hadamard(job);
  run_released([&] { engine().table<T>().hadamard(job); });
}

template <class T>
void waves(const Writable<T>& values, std::int64_t angles, double scale, int threads) {
  const auto columns = static_cast<std::int64_t>(values.shape(1));
  require(angles >= 0 && angles <= columns && columns - angles <= angles,
          "waves: the angles must fill between half of the columns and all of them.");
  WavesJob<T> job;
  std::tie(job.values, job.stride) = writable_rows<T>(values, "waves");
  job.rows = static_cast<std::int64_t>(values.shape(0));
  job.angles = angles;
  job.sines = columns - angles;
  job.scale = scale;
  job.threads = threads;
  job.interrupt = {signal_arrived, nullptr};
  run_released([&] { engine().table<T>().waves(job); });
}

// The logarithm of the determinant; none if the matrix is not positive definite.
template <class T>
std::optional<double> invert(const Writable<T>& matrix, nb::handle new_diagonal, nb::handle sides,
                             int threads) {
  const auto diagonal =
      view<Vector<T>>(new_diagonal, "invert: diagonal must be a vector of the type of the matrix.");
  const auto right = view<Writable<T>>(
      sides, "invert: right must be a writable matrix of the type of the matrix.");
  require(matrix.shape(0) == matrix.shape(1), "invert: the matrix must be square.");
  require(diagonal.shape(0) == matrix.shape(0) && right.shape(0) == matrix.shape(0),
          "invert: diagonal and right must have one row per row of the matrix.");
  double log_determinant = 0.0;
  InverseJob<T> job;
  std::tie(job.matrix, job.stride) = writable_rows<T>(matrix, "invert");
  job.n = static_cast<std::int64_t>(matrix.shape(0));
  job.diagonal = diagonal.data();
  std::tie(job.right, job.right_stride) = writable_rows<T>(right, "invert");
  job.right_sides = static_cast<std::int64_t>(right.shape(1));
  job.log_determinant = &log_determinant;
  job.threads = threads;
  job.interrupt = {signal_arrived, nullptr};
  bool done = false;
  run_released([&] { done = engine().table<T>().inverse(job); });
  return done ? std::optional<double>(log_determinant) : std::nullopt;
}

// ---------------------------------------------------------------------------------------------
// Sequential minimal optimisation
// ---------------------------------------------------------------------------------------------

template <class T>
using WritableVector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// The first element and the distance of the rows of a matrix whose rows are contiguous.
template <class T>
std::pair<const T*, std::int64_t> readable_rows(const Matrix<T>& values, const std::string& owner) {
  require(values.shape(1) <= 1 || values.stride(1) == 1,
          owner + ": the rows of the matrix must be contiguous.");
  return {values.data(), values.stride(0)};
}

template <class T>
std::tuple<std::int64_t, double> smo(const Matrix<T>& values, Vector<std::int64_t> rows,
                                     std::int64_t split, Vector<double> ascent,
                                     WritableVector<double> up, WritableVector<double> down,
                                     bool narrow, double tolerance, std::int64_t limit) {
  SmoJob<T> job;
  std::tie(job.values, job.stride) = readable_rows<T>(values, "smo");
  job.size = static_cast<std::int64_t>(rows.shape(0));
  job.split = split;
  require(split >= 0 && split <= job.size, "smo: split must lie between 0 and the variables.");
  require(ascent.shape(0) == rows.shape(0) && up.shape(0) == rows.shape(0) &&
              down.shape(0) == rows.shape(0),
          "smo: rows, ascent, up and down must have one value per variable.");
  check_rows(rows.data(), job.size,
             static_cast<std::int64_t>(std::min(values.shape(0), values.shape(1))));
  job.rows = rows.data();
  job.ascent = ascent.data();
  job.up = up.data();
  job.down = down.data();
  job.narrow = narrow;
  job.tolerance = tolerance;
  job.limit = limit;
  job.interrupt = {signal_arrived, nullptr};
  run_released([&] { engine().table<T>().smo(job); });
  return {job.steps, job.gap};
}

template <class T>
void row_sum(const Matrix<T>& values, Vector<std::int64_t> rows, Vector<double> factors,
             WritableVector<double> out, int threads) {
  RowSumJob<T> job;
  std::tie(job.values, job.stride) = readable_rows<T>(values, "row_sum");
  job.columns = static_cast<std::int64_t>(values.shape(1));
  job.count = static_cast<std::int64_t>(rows.shape(0));
  require(factors.shape(0) == rows.shape(0), "row_sum: there must be one factor per row.");
  require(out.shape(0) == values.shape(1), "row_sum: out must have one value per column.");
  check_rows(rows.data(), job.count, static_cast<std::int64_t>(values.shape(0)));
  job.rows = rows.data();
  job.factors = factors.data();
  job.out = out.data();
  job.threads = threads;
  job.interrupt = {signal_arrived, nullptr};
  run_released([&] { engine().table<T>().row_sum(job); });
}

// The sides decide the element type; without slots and vectors, another array of the call does.
bool is_single(const PyPairs& call, nb::handle other) {
  for (const PySide* side : {&call.rows, &call.cols})
    if (side->precision != Precision::any) return side->precision == Precision::single;
  return holds<float>(other);
}

// For calls without another array, the blocks have to.
bool is_single(const PyPairs& call) {
  return is_single(call, nb::len(call.blocks) > 0 ? nb::object(call.blocks[0]) : nb::none());
}

}  // namespace

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
  m.def("pack", &pack_any, "X"_a, "centre"_a.none() = nb::none(), "scale"_a.none() = nb::none(),
        "single"_a = false,
        nb::sig("def pack(X: numpy.typing.NDArray[typing.Any], "
                "centre: numpy.typing.NDArray[numpy.float64] | None = None, "
                "scale: numpy.typing.NDArray[numpy.float64] | None = None, single: bool = False) "
                "-> FloatPanels | DoublePanels"),
        "Panels of (X - centre) * scale, computed in float64, of float32 if `single` and zero "
        "padded; raises OverflowError where one of them is not finite.");
  m.def("middle", &middles_any, "X"_a,
        nb::sig("def middle(X: numpy.typing.NDArray[typing.Any]) "
                "-> numpy.typing.NDArray[numpy.float64]"),
        "A middle value of each column, for finite X.");
  m.def("all_finite", &is_finite_any, "X"_a,
        nb::sig("def all_finite(X: numpy.typing.NDArray[typing.Any]) -> bool"),
        "Whether no value is infinite or NaN.");

  nb::class_<Panels<float>>(m, "FloatPanels", "Packed points in float32.");
  nb::class_<Panels<double>>(m, "DoublePanels", "Packed points in float64.");
  nb::class_<Program>(m, "Program", "A checked list of tile instructions.")
      .def(nb::new_(&make_program), "code"_a, "registers"_a, "coordinates"_a, "tables"_a);
  nb::class_<PySide>(m, "Side", "One side of the pairs: packed points, vectors, identities.")
      .def(nb::new_(&make_side), "n"_a, "slots"_a, "vectors"_a, "ids"_a.none())
      .def_prop_ro("n", &PySide::n);

  nb::class_<Direct>(m, "Direct", "A program bound to its scalars, for small arrays.")
      .def(nb::init<nb::object, std::int32_t, std::vector<double>, nb::sequence>(), "program"_a,
           "result"_a, "scalars"_a, "slots"_a)
      .def("gram", &run_direct, "X"_a, "Z"_a.none(), "out"_a,
           nb::sig("def gram(self, X: numpy.typing.NDArray[typing.Any], "
                   "Z: numpy.typing.NDArray[typing.Any] | None, "
                   "out: numpy.typing.NDArray[typing.Any]) -> bool"),
           "Writes the matrix of all pairs into `out`, unless a number is not finite.");

  m.def(
      "gram",
      [](const Program& program, std::int32_t result, Vector<double> scalars, PySide& rows,
         PySide& cols, nb::sequence blocks, nb::handle out, bool symmetric, int threads) {
        const PyPairs call{program, scalars, rows, cols, blocks, threads};
        is_single(call, out) ? gram<float>(call, result, out, symmetric)
                             : gram<double>(call, result, out, symmetric);
      },
      "program"_a, "result"_a, "scalars"_a, "rows"_a, "cols"_a, "blocks"_a, "out"_a, "symmetric"_a,
      "threads"_a,
      nb::sig("def gram(program: Program, result: int, "
              "scalars: numpy.typing.NDArray[numpy.float64], rows: Side, cols: Side, "
              "blocks: collections.abc.Sequence[numpy.typing.NDArray[typing.Any]], "
              "out: numpy.typing.NDArray[typing.Any], symmetric: bool, threads: int) -> None"),
      "Writes register `result` of every pair into the matrix `out`.");
  m.def(
      "product",
      [](const Program& program, std::int32_t result, Vector<double> scalars, PySide& rows,
         PySide& cols, nb::sequence blocks, nb::handle V, int threads) {
        const PyPairs call{program, scalars, rows, cols, blocks, threads};
        return is_single(call, V) ? product<float>(call, result, V, false)
                                  : product<double>(call, result, V, false);
      },
      "program"_a, "result"_a, "scalars"_a, "rows"_a, "cols"_a, "blocks"_a, "V"_a, "threads"_a,
      nb::sig(
          "def product(program: Program, result: int, "
          "scalars: numpy.typing.NDArray[numpy.float64], rows: Side, cols: Side, "
          "blocks: collections.abc.Sequence[numpy.typing.NDArray[typing.Any]], "
          "V: numpy.typing.NDArray[typing.Any], threads: int) -> numpy.typing.NDArray[typing.Any]"),
      "K @ V without storing K.");
  m.def(
      "normal_product",
      [](const Program& program, std::int32_t result, Vector<double> scalars, PySide& rows,
         PySide& cols, nb::sequence blocks, nb::handle V, int threads) {
        const PyPairs call{program, scalars, rows, cols, blocks, threads};
        return is_single(call, V) ? product<float>(call, result, V, true)
                                  : product<double>(call, result, V, true);
      },
      "program"_a, "result"_a, "scalars"_a, "rows"_a, "cols"_a, "blocks"_a, "V"_a, "threads"_a,
      nb::sig(
          "def normal_product(program: Program, result: int, "
          "scalars: numpy.typing.NDArray[numpy.float64], rows: Side, cols: Side, "
          "blocks: collections.abc.Sequence[numpy.typing.NDArray[typing.Any]], "
          "V: numpy.typing.NDArray[typing.Any], threads: int) -> numpy.typing.NDArray[typing.Any]"),
      "K.T @ (K @ V) with one evaluation of each pair.");
  m.def(
      "contract",
      [](const Program& program, Vector<double> scalars, PySide& rows, PySide& cols,
         nb::sequence blocks, nb::sequence outputs, bool folded, bool lower, int threads) {
        const PyPairs call{program, scalars, rows, cols, blocks, threads};
        const Fold fold = !folded ? Fold::none : lower ? Fold::lower : Fold::sum;
        return is_single(call) ? contract<float>(call, outputs, fold)
                               : contract<double>(call, outputs, fold);
      },
      "program"_a, "scalars"_a, "rows"_a, "cols"_a, "blocks"_a, "outputs"_a, "folded"_a, "lower"_a,
      "threads"_a,
      nb::sig("def contract(program: Program, "
              "scalars: numpy.typing.NDArray[numpy.float64], rows: Side, cols: Side, "
              "blocks: collections.abc.Sequence[numpy.typing.NDArray[typing.Any]], "
              "outputs: collections.abc.Sequence[tuple[typing.Any, ...]], folded: bool, "
              "lower: bool, threads: int) -> list[typing.Any]"),
      "Accumulates several outputs over all pairs, or over half of them, in one pass.");

  m.def(
      "hadamard",
      [](nb::handle X, nb::handle diagonals,
         const std::optional<nb::ndarray<const std::int64_t, nb::ndim<2>, nb::c_contig,
                                         nb::device::cpu>>& permutations,
         nb::handle scales, nb::handle out, int threads) {
        with_floats<Matrix>(
            X, "hadamard: X must be a float32 or float64 array of two dimensions.",
            [&](const auto& x) { hadamard(x, diagonals, permutations, scales, out, threads); });
      },
      "X"_a, "diagonals"_a, "permutations"_a.none(), "scales"_a, "out"_a, "threads"_a,
      nb::sig("def hadamard(X: numpy.typing.NDArray[typing.Any], "
              "diagonals: numpy.typing.NDArray[typing.Any], "
              "permutations: numpy.typing.NDArray[numpy.int64] | None, "
              "scales: numpy.typing.NDArray[typing.Any], "
              "out: numpy.typing.NDArray[typing.Any], threads: int) -> None"),
      "Writes S H D_s ... H D_2 P H D_1 x for each block of diagonals, side by side, into `out`.");
  m.def(
      "waves",
      [](nb::handle values, std::int64_t angles, double scale, int threads) {
        with_floats<Writable>(values, "waves: values must be a writable float32 or float64 matrix.",
                              [&](const auto& matrix) { waves(matrix, angles, scale, threads); });
      },
      "values"_a, "angles"_a, "scale"_a, "threads"_a,
      nb::sig("def waves(values: numpy.typing.NDArray[typing.Any], angles: int, scale: float, "
              "threads: int) -> None"),
      "In place: the first `angles` columns become scale * cos, the others scale * sin of them.");
  m.def(
      "invert",
      [](nb::handle matrix, nb::handle diagonal, nb::handle right, int threads) {
        std::optional<double> found;
        with_floats<Writable>(matrix, "invert: the matrix must be writable, float32 or float64.",
                              [&](const auto& a) { found = invert(a, diagonal, right, threads); });
        return found;
      },
      "matrix"_a, "diagonal"_a, "right"_a, "threads"_a,
      nb::sig("def invert(matrix: numpy.typing.NDArray[typing.Any], "
              "diagonal: numpy.typing.NDArray[typing.Any], "
              "right: numpy.typing.NDArray[typing.Any], threads: int) -> float | None"),
      "The lower triangle of a symmetric matrix, with another diagonal, becomes that of its "
      "inverse, "
      "and `right` the inverse times itself; returns the logarithm of the determinant, or None, "
      "with "
      "nothing changed, if the matrix is not positive definite.");
  m.def(
      "smo",
      [](nb::handle values, Vector<std::int64_t> rows, std::int64_t split, Vector<double> ascent,
         WritableVector<double> up, WritableVector<double> down, bool narrow, double tolerance,
         std::int64_t limit) {
        return with_floats<Matrix>(
            values, "smo: the matrix must be one of float32 or float64.", [&](const auto& matrix) {
              return smo(matrix, rows, split, ascent, up, down, narrow, tolerance, limit);
            });
      },
      "values"_a, "rows"_a, "split"_a, "ascent"_a, "up"_a, "down"_a, "narrow"_a, "tolerance"_a,
      "limit"_a,
      nb::sig("def smo(values: numpy.typing.NDArray[typing.Any], "
              "rows: numpy.typing.NDArray[numpy.int64], split: int, "
              "ascent: numpy.typing.NDArray[numpy.float64], "
              "up: numpy.typing.NDArray[numpy.float64], down: numpy.typing.NDArray[numpy.float64], "
              "narrow: bool, tolerance: float, limit: int) -> tuple[int, float]"),
      "Exchanges between pairs of variables until none gains more than the tolerance per unit, or "
      "`limit` are done: `up` and `down`, how far each may rise and fall, change in place. Values "
      "are rounded to float32 if `narrow`. Variables at bounds that are far from an exchange are "
      "left out in time, and none looks at them again: the caller does. Returns the number of "
      "exchanges and the largest gain that is left.");
  m.def(
      "row_sum",
      [](nb::handle values, Vector<std::int64_t> rows, Vector<double> factors,
         WritableVector<double> out, int threads) {
        with_floats<Matrix>(
            values, "row_sum: the matrix must be one of float32 or float64.",
            [&](const auto& matrix) { row_sum(matrix, rows, factors, out, threads); });
      },
      "values"_a, "rows"_a, "factors"_a, "out"_a, "threads"_a,
      nb::sig("def row_sum(values: numpy.typing.NDArray[typing.Any], "
              "rows: numpy.typing.NDArray[numpy.int64], "
              "factors: numpy.typing.NDArray[numpy.float64], "
              "out: numpy.typing.NDArray[numpy.float64], threads: int) -> None"),
      "Adds factors @ values[rows] to `out`, in float64.");
}

}  // namespace mercer
