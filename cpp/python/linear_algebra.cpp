// Linear algebra on the engine's threads, with the functions of SciPy's BLAS.
#include "arrays.hpp"
#include "blocked.hpp"

namespace mercer::python {
namespace {

template <class T>
Blas<T> library;

template <class F>
void take(const nb::dict& functions, const char* name, F& function) {
  const nb::object capsule = functions[name];
  function =
      reinterpret_cast<F>(PyCapsule_GetPointer(capsule.ptr(), PyCapsule_GetName(capsule.ptr())));
  if (function == nullptr) throw nb::python_error();
}

template <class T>
void take_all(const nb::dict& functions) {
  take(functions, "gemm", library<T>.gemm);
  take(functions, "gemv", library<T>.gemv);
  take(functions, "syrk", library<T>.syrk);
  take(functions, "trsm", library<T>.trsm);
  take(functions, "potrf", library<T>.potrf);
  take(functions, "larft", library<T>.larft);
}

// A matrix in column-major order.
template <class T, class Array>
Part<T> part(const Array& array, const std::string& owner) {
  constexpr std::size_t most = 2147483647;
  require(array.shape(0) <= most && array.shape(1) <= most, owner + ": the matrix is too large.");
  require(array.shape(0) <= 1 || array.stride(0) == 1,
          owner + ": the matrix must be in Fortran order.");
  const auto rows = static_cast<int>(array.shape(0)), columns = static_cast<int>(array.shape(1));
  const std::int64_t stride = columns > 1 ? array.stride(1) : std::max(1, rows);
  require(stride >= rows && stride <= static_cast<std::int64_t>(most),
          owner + ": columns must not overlap.");
  return {const_cast<T*>(array.data()), rows, columns, std::max(1, static_cast<int>(stride))};
}

// An operand, transposed where that puts it in column-major order.
template <class T>
std::pair<Part<T>, char> operand(const Matrix<T>& array, const std::string& owner) {
  if (array.shape(0) <= 1 || array.stride(0) == 1) {
    if (array.shape(1) <= 1 || array.stride(1) >= static_cast<std::int64_t>(array.shape(0)))
      return {part<T>(array, owner), 'N'};
  }
  require(array.shape(1) <= 1 || array.stride(1) == 1,
          owner + ": rows or columns must be contiguous.");
  const std::size_t shape[2] = {array.shape(1), array.shape(0)};
  const std::int64_t strides[2] = {array.stride(1), array.stride(0)};
  const Matrix<T> turned(const_cast<T*>(array.data()), 2, shape, nb::handle(), strides);
  return {part<T>(turned, owner), 'T'};
}

Sharing sharing(int threads) { return {threads, {signal_arrived, nullptr}}; }

Triangle triangle_of(const std::string& name) {
  if (name == "lower") return Triangle::lower;
  if (name == "upper") return Triangle::upper;
  require(name == "all", "matmul: triangle must be all, lower or upper.");
  return Triangle::all;
}

template <class T>
void matmul(const Matrix<T>& a, nb::handle right, nb::handle target, double alpha, double beta,
            const std::string& triangle, int threads) {
  const auto b = view<Matrix<T>>(right, "matmul: both matrices must have one type.");
  const auto out =
      view<Writable<T>>(target, "matmul: out must be a writable matrix of the type of the others.");
  require(a.shape(1) == b.shape(0) && out.shape(0) == a.shape(0) && out.shape(1) == b.shape(1),
          "matmul: the shapes do not fit.");
  const Triangle which = triangle_of(triangle);
  const auto [left, trans_left] = operand<T>(a, "matmul");
  const auto [other, trans_other] = operand<T>(b, "matmul");
  const Part<T> into = part<T>(out, "matmul");
  run_released([&, left = left, other = other, trans_left = trans_left, trans_other = trans_other] {
    blocked_product<T>(library<T>, trans_left, trans_other, static_cast<T>(alpha), left, other,
                       static_cast<T>(beta), into, which, sharing(threads));
  });
}

template <class T>
bool cholesky(const Writable<T>& matrix, int threads) {
  require(matrix.shape(0) == matrix.shape(1), "cholesky: the matrix must be square.");
  const Part<T> a = part<T>(matrix, "cholesky");
  bool exists = false;
  run_released([&] { exists = blocked_cholesky<T>(library<T>, a, sharing(threads)); });
  return exists;
}

template <class T>
void scaled_triangle(const Matrix<T>& matrix, nb::handle factors, double shift, nb::handle target,
                     int threads) {
  const auto scales = view<Vector<T>>(factors, "scaled_triangle: scales must be a vector.");
  const auto out = view<Writable<T>>(target, "scaled_triangle: out must be a writable matrix.");
  const std::size_t n = matrix.shape(0);
  require(matrix.shape(1) == n && scales.shape(0) == n && out.shape(0) == n && out.shape(1) == n,
          "scaled_triangle: the shapes do not fit.");
  require(n <= 1 || matrix.stride(1) == 1, "scaled_triangle: rows must be contiguous.");
  const Part<T> into = part<T>(out, "scaled_triangle");
  run_released([&] {
    blocked_scaling<T>(matrix.data(), matrix.stride(0), scales.data(), static_cast<T>(shift), into,
                       sharing(threads));
  });
}

template <class T>
void triangular_solve(const Matrix<T>& upper, nb::handle right, bool transposed, int threads) {
  const auto b = view<Writable<T>>(
      right, "triangular_solve: the right side must be writable, of the type of the triangle.");
  require(upper.shape(0) == upper.shape(1) && b.shape(0) == upper.shape(0),
          "triangular_solve: the shapes do not fit.");
  const Part<T> u = part<T>(upper, "triangular_solve"), columns = part<T>(b, "triangular_solve");
  run_released(
      [&] { blocked_solve<T>(library<T>, u, transposed ? 'T' : 'N', columns, sharing(threads)); });
}

template <class T>
void tridiagonalise(const Writable<T>& matrix, nb::handle diagonal, nb::handle beside,
                    nb::handle basis, int threads) {
  const auto main = view<WritableVector<T>>(diagonal, "tridiagonalise: diagonal is a vector.");
  const auto other = view<WritableVector<T>>(beside, "tridiagonalise: beside is a vector.");
  const auto q = view<Writable<T>>(basis, "tridiagonalise: the basis is a writable matrix.");
  const std::size_t n = matrix.shape(0);
  require(n >= 1 && matrix.shape(1) == n && q.shape(0) == n && q.shape(1) == n &&
              main.shape(0) == n && other.shape(0) == n,
          "tridiagonalise: the shapes do not fit.");
  AlignedBuffer<T> tau(static_cast<std::int64_t>(n));
  TridiagonalJob<T> job{
      &library<T>, part<T>(matrix, "tridiagonalise"), main.data(), other.data(),
      tau.data(),  part<T>(q, "tridiagonalise"),      threads,     {signal_arrived, nullptr}};
  run_released([&] { engine().table<T>().tridiagonal(job); });
}

template <class T>
void leverages(const Matrix<T>& basis, nb::handle links, nb::handle weights, nb::handle target,
               int threads) {
  using Rows = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
  using Result = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
  const auto below = view<Rows>(links, "leverages: links must be C-contiguous.");
  const auto shares = view<Rows>(weights, "leverages: weights must be C-contiguous.");
  const auto out = view<Result>(target, "leverages: out must be C-contiguous.");
  const Part<T> q = part<T>(basis, "leverages");
  require(shares.shape(0) == basis.shape(1) && below.shape(0) + 1 == basis.shape(1) &&
              below.shape(1) == shares.shape(1) && out.shape(0) == shares.shape(1) &&
              out.shape(1) == basis.shape(0),
          "leverages: the shapes do not fit.");
  LeveragesJob<T> job{
      q.data,       q.rows,        q.columns,  q.stride, static_cast<std::int64_t>(shares.shape(1)),
      below.data(), shares.data(), out.data(), threads,  {signal_arrived, nullptr}};
  run_released([&] { engine().table<T>().leverages(job); });
}

}  // namespace

void bind_linear_algebra(nb::module_& m) {
  m.def(
      "set_blas",
      [](const nb::dict& single, const nb::dict& twofold) {
        take_all<float>(single);
        take_all<double>(twofold);
      },
      "single"_a, "twofold"_a,
      nb::sig(
          "def set_blas(single: dict[str, typing.Any], twofold: dict[str, typing.Any]) -> None"),
      "Takes the functions of BLAS and LAPACK, as capsules by their names.");
  m.def(
      "matmul",
      [](nb::handle a, nb::handle b, nb::handle out, double alpha, double beta,
         const std::string& triangle, int threads) {
        with_floats<Matrix>(
            a, "matmul: the matrices must be float32 or float64.",
            [&](const auto& left) { matmul(left, b, out, alpha, beta, triangle, threads); });
      },
      "a"_a, "b"_a, "out"_a, "alpha"_a, "beta"_a, "triangle"_a, "threads"_a,
      nb::sig("def matmul(a: numpy.typing.NDArray[typing.Any], "
              "b: numpy.typing.NDArray[typing.Any], out: numpy.typing.NDArray[typing.Any], "
              "alpha: float, beta: float, triangle: str, threads: int) -> None"),
      "out = alpha a b + beta out, for `out` in Fortran order; all of it, or a triangle.");
  m.def(
      "cholesky",
      [](nb::handle matrix, int threads) {
        bool exists = false;
        with_floats<Writable>(matrix, "cholesky: the matrix must be writable, float32 or float64.",
                              [&](const auto& a) { exists = cholesky(a, threads); });
        return exists;
      },
      "matrix"_a, "threads"_a,
      nb::sig("def cholesky(matrix: numpy.typing.NDArray[typing.Any], threads: int) -> bool"),
      "The upper triangle of a matrix in Fortran order becomes its factor; False if there is "
      "none.");
  m.def(
      "scaled_triangle",
      [](nb::handle matrix, nb::handle scales, double shift, nb::handle out, int threads) {
        with_floats<Matrix>(
            matrix, "scaled_triangle: the matrix must be float32 or float64.",
            [&](const auto& k) { scaled_triangle(k, scales, shift, out, threads); });
      },
      "matrix"_a, "scales"_a, "shift"_a, "out"_a, "threads"_a,
      nb::sig("def scaled_triangle(matrix: numpy.typing.NDArray[typing.Any], "
              "scales: numpy.typing.NDArray[typing.Any], shift: float, "
              "out: numpy.typing.NDArray[typing.Any], threads: int) -> None"),
      "The upper triangle of s K s + shift I, in Fortran order, for a symmetric K.");
  m.def(
      "triangular_solve",
      [](nb::handle upper, nb::handle right, bool transposed, int threads) {
        with_floats<Matrix>(
            upper, "triangular_solve: the triangle must be float32 or float64.",
            [&](const auto& u) { triangular_solve(u, right, transposed, threads); });
      },
      "upper"_a, "right"_a, "transposed"_a, "threads"_a,
      nb::sig("def triangular_solve(upper: numpy.typing.NDArray[typing.Any], "
              "right: numpy.typing.NDArray[typing.Any], transposed: bool, threads: int) -> None"),
      "In place: right = upper^-1 right, or the transposed inverse; both in Fortran order.");
  m.def(
      "tridiagonalise",
      [](nb::handle matrix, nb::handle diagonal, nb::handle beside, nb::handle basis, int threads) {
        with_floats<Writable>(
            matrix, "tridiagonalise: the matrix must be writable, float32 or float64.",
            [&](const auto& a) { tridiagonalise(a, diagonal, beside, basis, threads); });
      },
      "matrix"_a, "diagonal"_a, "beside"_a, "basis"_a, "threads"_a,
      nb::sig("def tridiagonalise(matrix: numpy.typing.NDArray[typing.Any], "
              "diagonal: numpy.typing.NDArray[typing.Any], "
              "beside: numpy.typing.NDArray[typing.Any], "
              "basis: numpy.typing.NDArray[typing.Any], threads: int) -> None"),
      "Writes T and Q of A = Q T Q', from the lower triangle of A in Fortran order; A is used up.");
  m.def(
      "leverages",
      [](nb::handle basis, nb::handle links, nb::handle weights, nb::handle out, int threads) {
        with_floats<Matrix>(basis, "leverages: the basis must be float32 or float64.",
                            [&](const auto& q) { leverages(q, links, weights, out, threads); });
      },
      "basis"_a, "links"_a, "weights"_a, "out"_a, "threads"_a,
      nb::sig("def leverages(basis: numpy.typing.NDArray[typing.Any], "
              "links: numpy.typing.NDArray[typing.Any], "
              "weights: numpy.typing.NDArray[typing.Any], "
              "out: numpy.typing.NDArray[typing.Any], threads: int) -> None"),
      "The diagonals of Q (L D L')^-1 Q', one row for each factor: links are below the diagonal of "
      "L, weights 1 / D, one row for each column of Q.");
}

}  // namespace mercer::python
