// Points as the engine reads them.
#include <cstring>
#include <optional>

#include "arrays.hpp"

namespace mercer::python {
namespace {

using OptionalVector = std::optional<Vector<double>>;
using OptionalPositions = std::optional<Vector<std::int64_t>>;

RowSelection selection(std::int64_t n, const OptionalPositions& rows) {
  if (!rows) return {n};
  const RowSelection found{static_cast<std::int64_t>(rows->shape(0)), rows->data()};
  bool inside = true;
  for (std::int64_t i = 0; i < found.count; ++i) inside = inside && found[i] >= 0 && found[i] < n;
  require(inside, "pack: rows must be positions in X.");
  return found;
}

template <class T, class S>
nb::object pack(const Matrix<S>& x, const OptionalVector& centre, const OptionalVector& scale,
                const OptionalPositions& positions, int threads) {
  require(!centre || centre->shape(0) == x.shape(1),
          "pack: centre must have one value per column.");
  require(!scale || scale->shape(0) == x.shape(1), "pack: scale must have one value per column.");
  const StridedMatrix<S> matrix = strided<S>(x);
  const RowSelection rows = selection(matrix.rows, positions);
  const std::int64_t size =
      divide_up(rows.count, kPanelPoints<T>) * matrix.columns * kPanelPoints<T>;
  Panels<T> packed{rows.count, matrix.columns, AlignedBuffer<T>(size)};
  bool is_finite = false;
  run_released([&] {
    is_finite = pack_panels(matrix, rows, centre ? centre->data() : nullptr,
                            scale ? scale->data() : nullptr, packed.values.data(), threads,
                            {signal_arrived, nullptr});
  });
  if (!is_finite) throw std::overflow_error("pack: a packed number is not finite.");
  return nb::cast(std::move(packed));
}

nb::object pack_any(nb::handle x, const OptionalVector& centre, const OptionalVector& scale,
                    bool single, const OptionalPositions& rows, int threads) {
  return with_floats<Matrix>(x, "pack: X must be a float32 or float64 array of two dimensions.",
                             [&](const auto& matrix) {
                               return single ? pack<float>(matrix, centre, scale, rows, threads)
                                             : pack<double>(matrix, centre, scale, rows, threads);
                             });
}

// Rows of zeros and ones as bits, or None if there is another number.
template <class T>
nb::object pack_bits(const Matrix<T>& x, int threads) {
  const StridedMatrix<T> matrix = strided<T>(x);
  const std::int64_t words = divide_up(matrix.columns, 64);
  AlignedBuffer<std::uint64_t> bits(matrix.rows * words);
  bool binary = false;
  run_released([&] {
    binary =
        engine().table<T>().pack_bits({matrix, bits.data(), threads, {signal_arrived, nullptr}});
  });
  if (!binary) return nb::none();
  return to_numpy<std::uint64_t>(std::move(bits), {as_size(matrix.rows), as_size(words)});
}

nb::object pack_bits_any(nb::handle x, int threads) {
  return with_floats<Matrix>(x,
                             "pack_bits: X must be a float32 or float64 array of two dimensions.",
                             [&](const auto& matrix) { return pack_bits(matrix, threads); });
}

using Words = nb::ndarray<const std::uint64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// The words of points in panels, each as wide as T; padded with zeros.
template <class T>
nb::object bit_panels(const Words& words, const OptionalPositions& positions) {
  constexpr std::int64_t W = kPanelPoints<T>;
  constexpr auto kWord = static_cast<std::int64_t>(sizeof(T));
  const RowSelection rows = selection(static_cast<std::int64_t>(words.shape(0)), positions);
  const auto bytes = static_cast<std::int64_t>(words.shape(1)) * 8;
  const std::int64_t columns = bytes / kWord;
  Panels<T> packed{rows.count, columns, AlignedBuffer<T>(divide_up(rows.count, W) * W * columns),
                   Layout::bits};
  packed.values.fill(T(0));
  for (std::int64_t i = 0; i < rows.count; ++i) {
    const auto* from = reinterpret_cast<const char*>(words.data()) + rows[i] * bytes;
    T* to = packed.values.data() + i / W * W * columns + i % W;
    for (std::int64_t k = 0; k < columns; ++k) std::memcpy(to + k * W, from + k * kWord, kWord);
  }
  return nb::cast(std::move(packed));
}

template <class T>
nb::object middles(const Matrix<T>& x) {
  require(x.shape(0) > 0, "middle: X has no rows.");
  AlignedBuffer<double> found(static_cast<std::int64_t>(x.shape(1)));
  run_released([&] { column_middles<T>(strided<T>(x), found.data()); });
  return to_numpy<double>(std::move(found), {x.shape(1)});
}

nb::object middles_any(nb::handle x) {
  return with_floats<Matrix>(x, "middle: X must be a float32 or float64 array of two dimensions.",
                             [](const auto& matrix) { return middles(matrix); });
}

template <class T>
nb::object ranges(const Matrix<T>& x) {
  require(x.shape(0) > 0, "ranges: X has no rows.");
  const std::size_t columns = x.shape(1);
  AlignedBuffer<double> found(static_cast<std::int64_t>(2 * columns));
  run_released([&] { column_ranges<T>(strided<T>(x), found.data(), found.data() + columns); });
  return to_numpy<double>(std::move(found), {2, columns});
}

nb::object ranges_any(nb::handle x) {
  return with_floats<Matrix>(x, "ranges: X must be a float32 or float64 array of two dimensions.",
                             [](const auto& matrix) { return ranges(matrix); });
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
  const Released without_gil;
  return all_finite<T>(matrix);
}

bool is_finite_any(nb::handle x) {
  return with_floats<Floats>(x, kFiniteInput, [](const auto& array) { return is_finite(array); });
}

}  // namespace

void bind_points(nb::module_& m) {
  m.def("pack", &pack_any, "X"_a, "centre"_a.none() = nb::none(), "scale"_a.none() = nb::none(),
        "single"_a = false, "rows"_a.none() = nb::none(), "threads"_a = 1,
        nb::sig("def pack(X: numpy.typing.NDArray[typing.Any], "
                "centre: numpy.typing.NDArray[numpy.float64] | None = None, "
                "scale: numpy.typing.NDArray[numpy.float64] | None = None, single: bool = False, "
                "rows: numpy.typing.NDArray[numpy.int64] | None = None, threads: int = 1) "
                "-> FloatPanels | DoublePanels"),
        "Panels of (X - centre) * scale, of all rows or some, computed in float64, of float32 if "
        "`single` and zero padded; raises OverflowError where one of them is not finite.");
  m.def("pack_bits", &pack_bits_any, "X"_a, "threads"_a = 1,
        nb::sig("def pack_bits(X: numpy.typing.NDArray[typing.Any], threads: int = 1) "
                "-> numpy.typing.NDArray[numpy.uint64] | None"),
        "Rows of zeros and ones as bits, 64 in a word; None if there is another number.");
  m.def(
      "bit_panels",
      [](const Words& words, bool single, const OptionalPositions& rows) {
        return single ? bit_panels<float>(words, rows) : bit_panels<double>(words, rows);
      },
      "words"_a, "single"_a = false, "rows"_a.none() = nb::none(),
      nb::sig("def bit_panels(words: numpy.typing.NDArray[numpy.uint64], single: bool = False, "
              "rows: numpy.typing.NDArray[numpy.int64] | None = None) "
              "-> FloatPanels | DoublePanels"),
      "Panels of what pack_bits returned, for all rows or some.");
  m.def("middle", &middles_any, "X"_a,
        nb::sig("def middle(X: numpy.typing.NDArray[typing.Any]) "
                "-> numpy.typing.NDArray[numpy.float64]"),
        "A middle value of each column, for finite X.");
  m.def("ranges", &ranges_any, "X"_a,
        nb::sig("def ranges(X: numpy.typing.NDArray[typing.Any]) "
                "-> numpy.typing.NDArray[numpy.float64]"),
        "The least and the largest value of each column, for finite X.");
  m.def("all_finite", &is_finite_any, "X"_a,
        nb::sig("def all_finite(X: numpy.typing.NDArray[typing.Any]) -> bool"),
        "Whether no value is infinite or NaN.");

  nb::class_<Panels<float>>(m, "FloatPanels", "Packed points in float32.");
  nb::class_<Panels<double>>(m, "DoublePanels", "Packed points in float64.");
}

}  // namespace mercer::python
