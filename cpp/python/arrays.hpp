// Arrays from Python and back, and calls of the engine: what all bindings share.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "engine.hpp"

namespace mercer::python {

namespace nb = nanobind;
using namespace nb::literals;

using AnyArray = nb::ndarray<nb::ro, nb::device::cpu>;
template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::device::cpu>;
template <class T>
using Floats = nb::ndarray<const T, nb::device::cpu>;
template <class T>
using Writable = nb::ndarray<T, nb::ndim<2>, nb::device::cpu>;
template <class T>
using WritableVector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

inline void require(bool condition, const std::string& sentence) {
  if (!condition) throw std::invalid_argument(sentence);
}

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

inline AlignedBuffer<double> zeros(std::int64_t size) {
  AlignedBuffer<double> buffer(size);
  buffer.fill(0.0);
  return buffer;
}

inline std::size_t as_size(std::int64_t value) { return static_cast<std::size_t>(value); }

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
  Layout layout = Layout::dense;
};

// The interpreter ends a daemon thread that asks for the GIL while the process exits: it unwinds
// the thread's stack, which no frame of nanobind survives. Such a thread waits here for the end of
// the process instead. Call `f`, which asks for the GIL, through this function.
template <class F>
__attribute__((noinline)) auto wait_if_ended(F f) {
  struct Guard {
    bool returned = false;
    ~Guard() {
      while (!returned) pause();
    }
  } guard;
  auto result = f();
  guard.returned = true;
  return result;
}

// Releases the GIL, and asks for it again at the end.
class Released {
 public:
  Released() : state_(PyEval_SaveThread()) {}
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;
  ~Released() {
    wait_if_ended([this] {
      PyEval_RestoreThread(state_);
      return 0;
    });
  }

 private:
  PyThreadState* state_;
};

// Holds the GIL, inside a block without it.
class Acquired {
 public:
  Acquired() : state_(wait_if_ended([] { return PyGILState_Ensure(); })) {}
  Acquired(const Acquired&) = delete;
  Acquired& operator=(const Acquired&) = delete;
  ~Acquired() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_;
};

inline bool signal_arrived(void*) {
  const Acquired gil;
  return PyErr_CheckSignals() != 0;
}

// Runs without the GIL; a signal's Python exception propagates.
template <class F>
void run_released(F run) {
  try {
    const Released without_gil;
    run();
  } catch (const Interrupted&) {
    throw nb::python_error();
  }
}

// The parts of the module.
void bind_points(nb::module_& m);
void bind_pairs(nb::module_& m);
void bind_matrices(nb::module_& m);
void bind_linear_algebra(nb::module_& m);
void bind_series(nb::module_& m);
void bind_graphs(nb::module_& m);
void bind_strings(nb::module_& m);

}  // namespace mercer::python
