// Functions of plain matrices: transforms, inverses, quadratic programmes.
#include <algorithm>
#include <optional>
#include <tuple>

#include "arrays.hpp"

namespace mercer::python {
namespace {

// ---------------------------------------------------------------------------------------------
// Random features
// ---------------------------------------------------------------------------------------------

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

// The first element and the distance of the rows of a matrix whose rows are contiguous.
template <class T>
std::pair<const T*, std::int64_t> readable_rows(const Matrix<T>& values, const std::string& owner) {
  require(values.shape(1) <= 1 || values.stride(1) == 1,
          owner + ": the rows of the matrix must be contiguous.");
  return {values.data(), values.stride(0)};
}

// Signals arrive in the main thread alone: elsewhere, what a callable raises stops the work.
bool signal_or_error(void* self) {
  const Acquired gil;
  if (PyErr_CheckSignals() != 0) return true;
  const auto& poll = *static_cast<const nb::handle*>(self);
  if (poll.is_none()) return false;
  PyObject* result = PyObject_CallNoArgs(poll.ptr());
  Py_XDECREF(result);
  return result == nullptr;
}

template <class T>
std::tuple<std::int64_t, double> smo(const Matrix<T>& values, Vector<std::int64_t> rows,
                                     std::int64_t split, Vector<double> ascent,
                                     WritableVector<double> up, WritableVector<double> down,
                                     bool narrow, double tolerance, std::int64_t limit,
                                     nb::handle poll) {
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
  job.interrupt = {signal_or_error, &poll};
  run_released([&] { engine().table<T>().smo(job); });
  return {job.steps, job.gap};
}

template <class T>
void smo_batch(const Matrix<T>& values, Vector<std::int64_t> begins, Vector<std::int64_t> splits,
               Vector<std::int64_t> rows, const std::vector<Vector<double>>& fixed,
               const std::vector<WritableVector<double>>& written,
               WritableVector<std::int64_t> steps, bool narrow, Vector<double> tolerances,
               std::int64_t limit, int threads) {
  SmoBatchJob<T> job;
  std::tie(job.values, job.stride) = readable_rows<T>(values, "smo_batch");
  job.problems = static_cast<std::int64_t>(splits.shape(0));
  const auto size = static_cast<std::int64_t>(rows.shape(0));
  require(begins.shape(0) == splits.shape(0) + 1 && steps.shape(0) == splits.shape(0) &&
              tolerances.shape(0) == splits.shape(0),
          "smo_batch: begins, splits, steps and tolerances must have one value per problem.");
  const std::int64_t* edges = begins.data();
  require(edges[0] == 0 && edges[job.problems] == size,
          "smo_batch: the problems must have all variables.");
  for (std::int64_t p = 0; p < job.problems; ++p)
    require(edges[p] <= edges[p + 1] && splits.data()[p] >= 0 &&
                splits.data()[p] <= edges[p + 1] - edges[p],
            "smo_batch: begins must rise, and splits lie within the problems.");
  for (const auto& vector : fixed)
    require(vector.shape(0) == rows.shape(0), "smo_batch: one value per variable is needed.");
  for (const auto& vector : written)
    require(vector.shape(0) == rows.shape(0), "smo_batch: one value per variable is needed.");
  check_rows(rows.data(), size,
             static_cast<std::int64_t>(std::min(values.shape(0), values.shape(1))));
  job.begins = edges;
  job.splits = splits.data();
  job.rows = rows.data();
  job.linear = fixed[0].data();
  job.lower = fixed[1].data();
  job.upper = fixed[2].data();
  job.up = written[0].data();
  job.down = written[1].data();
  job.coefficients = written[2].data();
  job.products = written[3].data();
  job.steps = steps.data();
  job.narrow = narrow;
  job.tolerances = tolerances.data();
  job.limit = limit;
  job.threads = threads;
  job.interrupt = {signal_arrived, nullptr};
  run_released([&] { engine().table<T>().smo_batch(job); });
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

}  // namespace

void bind_matrices(nb::module_& m) {
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
         std::int64_t limit, nb::handle poll) {
        return with_floats<Matrix>(
            values, "smo: the matrix must be one of float32 or float64.", [&](const auto& matrix) {
              return smo(matrix, rows, split, ascent, up, down, narrow, tolerance, limit, poll);
            });
      },
      "values"_a, "rows"_a, "split"_a, "ascent"_a, "up"_a, "down"_a, "narrow"_a, "tolerance"_a,
      "limit"_a, "poll"_a = nb::none(),
      nb::sig("def smo(values: numpy.typing.NDArray[typing.Any], "
              "rows: numpy.typing.NDArray[numpy.int64], split: int, "
              "ascent: numpy.typing.NDArray[numpy.float64], "
              "up: numpy.typing.NDArray[numpy.float64], down: numpy.typing.NDArray[numpy.float64], "
              "narrow: bool, tolerance: float, limit: int, "
              "poll: typing.Callable[[], None] | None = None) -> tuple[int, float]"),
      "Exchanges between pairs of variables until none gains more than the tolerance per unit, or "
      "`limit` are done: `up` and `down`, how far each may rise and fall, change in place. Values "
      "are rounded to float32 if `narrow`, ascents too where the tolerance is far above their "
      "rounding. Variables at bounds that are far from an exchange are "
      "left out in time, and none looks at them again: the caller does. `poll` is called many "
      "times "
      "in a second: what it raises ends the work, as a signal does. Returns the number of "
      "exchanges and the largest gain that is left.");
  m.def(
      "smo_batch",
      [](nb::handle values, Vector<std::int64_t> begins, Vector<std::int64_t> splits,
         Vector<std::int64_t> rows, Vector<double> linear, Vector<double> lower,
         Vector<double> upper, WritableVector<double> up, WritableVector<double> down,
         WritableVector<double> coefficients, WritableVector<double> products,
         WritableVector<std::int64_t> steps, bool narrow, Vector<double> tolerances,
         std::int64_t limit, int threads) {
        with_floats<Matrix>(values, "smo_batch: the matrix must be one of float32 or float64.",
                            [&](const auto& matrix) {
                              smo_batch(matrix, begins, splits, rows, {linear, lower, upper},
                                        {up, down, coefficients, products}, steps, narrow,
                                        tolerances, limit, threads);
                            });
      },
      "values"_a, "begins"_a, "splits"_a, "rows"_a, "linear"_a, "lower"_a, "upper"_a, "up"_a,
      "down"_a, "coefficients"_a, "products"_a, "steps"_a, "narrow"_a, "tolerances"_a, "limit"_a,
      "threads"_a,
      nb::sig("def smo_batch(values: numpy.typing.NDArray[typing.Any], "
              "begins: numpy.typing.NDArray[numpy.int64], "
              "splits: numpy.typing.NDArray[numpy.int64], "
              "rows: numpy.typing.NDArray[numpy.int64], "
              "linear: numpy.typing.NDArray[numpy.float64], "
              "lower: numpy.typing.NDArray[numpy.float64], "
              "upper: numpy.typing.NDArray[numpy.float64], "
              "up: numpy.typing.NDArray[numpy.float64], "
              "down: numpy.typing.NDArray[numpy.float64], "
              "coefficients: numpy.typing.NDArray[numpy.float64], "
              "products: numpy.typing.NDArray[numpy.float64], "
              "steps: numpy.typing.NDArray[numpy.int64], narrow: bool, "
              "tolerances: numpy.typing.NDArray[numpy.float64], limit: int, threads: int) -> None"),
      "Solves many problems of one matrix by exchanges, each with all of its variables, those from "
      "begins[p] to begins[p + 1]: `up` and `down` change in place until no exchange gains more "
      "than its tolerance, as far as `limit` exchanges for each allow, those that `steps` counts "
      "already among them. Writes the coefficients, their products with the matrix, and the steps. "
      "A signal ends the work: with limit=0 the coefficients and products as they are then are "
      "written.");
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

}  // namespace mercer::python
