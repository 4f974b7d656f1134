// Programs over all pairs of two sides: matrices, products and contractions.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>

#include "arrays.hpp"

namespace mercer::python {
namespace {

using Code = nb::ndarray<const std::int32_t, nb::shape<-1, 7>, nb::c_contig, nb::device::cpu>;

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
  slot.layout = Layout::sparse;
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
  slot.layout = panels->layout;
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
    double reach;               // the largest magnitude in float32
  };

  Direct(nb::object program, std::int32_t result, std::vector<double> scalars, nb::sequence slots)
      : program_(std::move(program)), result_(result), scalars_(std::move(scalars)) {
    nb::cast<const Program&>(program_).check_result(result, "Direct");
    for (nb::handle item : slots) {
      auto [centred, scale, reach] = nb::cast<std::tuple<bool, std::vector<double>, double>>(item);
      slots_.push_back({centred, std::move(scale), reach});
    }
  }

  // Writes the matrix; false, and nothing of use in `out`, if a number on the way is not finite or
  // too large for float32.
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
      if (!pack_panels<T>(x, {x.rows}, slot.centred ? centre.data() : nullptr,
                          slot.scale.empty() ? nullptr : slot.scale.data(), packed.back().data()))
        return false;
      if (sizeof(T) == sizeof(float) && largest(panels) > slot.reach) return false;
      Slot<T> columns;
      columns.columns = x.columns;
      columns.panels = panels.data();
      side.slots.push_back(columns);
    }
    return true;
  }

  template <class T>
  static double largest(const AlignedBuffer<T>& values) {
    T found = 0;
    for (std::int64_t i = 0; i < values.size(); ++i) found = std::max(found, std::abs(values[i]));
    return static_cast<double>(found);
  }

  nb::object program_;
  std::int32_t result_;
  std::vector<double> scalars_;
  std::vector<Columns> slots_;
};

template <class T>
bool run_direct_on(const Direct& direct, const Matrix<T>& x, nb::handle Z, nb::handle out) {
  Matrix<T> z;
  if (!Z.is_none() && !nb::try_cast(Z, z, false)) return false;
  return direct.run(x, Z.is_none() ? nullptr : &z, out);
}

// False also for arrays that are not of floats on their boundaries.
bool run_direct(const Direct& direct, nb::handle X, nb::handle Z, nb::handle out) {
  Matrix<double> twofold;
  if (nb::try_cast(X, twofold, false)) return run_direct_on<double>(direct, twofold, Z, out);
  Matrix<float> single;
  return nb::try_cast(X, single, false) && run_direct_on<float>(direct, single, Z, out);
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

// Many small products of one program, shared by threads: each is computed by one of them.
nb::list products(const Program& program, std::int32_t result, Vector<double> scalars,
                  nb::sequence tasks, int threads) {
  program.check_result(result, "products");
  std::vector<ProductJob<double>> jobs;
  std::vector<AlignedBuffer<double>> outs;
  for (nb::handle task : tasks) {
    const auto [rows, cols, V] = nb::cast<std::tuple<PySide*, PySide*, Vector<double>>>(task);
    require(rows != nullptr && cols != nullptr, "products: a task has two sides and a vector.");
    require(V.shape(0) == as_size(cols->n()), "products: V must have one value per column of K.");
    const PyPairs call{program, scalars, *rows, *cols, nb::borrow<nb::sequence>(nb::list()), 1};
    AlignedBuffer<double>& out = outs.emplace_back(rows->n());
    jobs.push_back({call.typed<double>("products"), result, V.data(), 1, out.data()});
    jobs.back().pairs.interrupt = {};  // the calling thread is asked between two products
  }
  const auto units = static_cast<std::int64_t>(jobs.size());
  auto body = [&](Worker& worker) {
    for (std::int64_t unit; (unit = worker.next_unit()) >= 0;)
      engine().table<double>().product(jobs[as_size(unit)]);
  };
  run_released([&] { run_workers(units, threads, {signal_arrived, nullptr}, WorkerBody(body)); });
  nb::list found;
  for (AlignedBuffer<double>& out : outs) {
    const auto size = as_size(out.size());
    found.append(to_numpy<double>(std::move(out), {size}));
  }
  return found;
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

void bind_pairs(nb::module_& m) {
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
           "Writes the matrix of all pairs into `out`; False where it cannot.");

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
  m.def("products", &products, "program"_a, "result"_a, "scalars"_a, "tasks"_a, "threads"_a,
        nb::sig("def products(program: Program, result: int, "
                "scalars: numpy.typing.NDArray[numpy.float64], "
                "tasks: collections.abc.Sequence[tuple[Side, Side, "
                "numpy.typing.NDArray[numpy.float64]]], threads: int) "
                "-> list[numpy.typing.NDArray[numpy.float64]]"),
        "K @ v in float64 for each task (rows, cols, v): many small products on all threads.");
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
}

}  // namespace mercer::python
