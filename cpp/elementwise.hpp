// Element-wise instructions: flat passes over tiles that live in the first-level cache.
#pragma once

#include "lookup.hpp"
#include "program.hpp"
#include "simd.hpp"
#include "vecmath.hpp"

namespace mercer::MERCER_ISA {

// Tile registers, one after the other, but for one that may be elsewhere.
template <class T>
struct Registers {
  T* data;
  std::int64_t stride;
  std::int32_t moved = -1;
  T* place = nullptr;
  T* operator[](std::int32_t index) const { return index == moved ? place : data + index * stride; }
};

// Vectors handled per turn of a pass; sizes of tiles are multiples of this many vectors.
inline constexpr int kTurn = 4;

// target[i] = f(a[i]), ...; the target may be one of the sources. One function per operation: the
// compiler keeps each loop tight.
template <class T, class F>
__attribute__((noinline)) void map(std::int64_t size, T* target, const T* a, F f) {
  constexpr int L = kLanes<T>;
  for (std::int64_t i = 0; i < size; i += kTurn * L)
#pragma GCC unroll 8
    for (int v = 0; v < kTurn; ++v) store<T>(target + i + v * L, f(load<T>(a + i + v * L)));
}

template <class T, class F>
__attribute__((noinline)) void map(std::int64_t size, T* target, const T* a, const T* b, F f) {
  constexpr int L = kLanes<T>;
  for (std::int64_t i = 0; i < size; i += kTurn * L)
#pragma GCC unroll 8
    for (int v = 0; v < kTurn; ++v)
      store<T>(target + i + v * L, f(load<T>(a + i + v * L), load<T>(b + i + v * L)));
}

template <class T, class F>
__attribute__((noinline)) void map(std::int64_t size, T* target, const T* a, const T* b, const T* c,
                                   F f) {
  constexpr int L = kLanes<T>;
  for (std::int64_t i = 0; i < size; i += kTurn * L)
#pragma GCC unroll 8
    for (int v = 0; v < kTurn; ++v)
      store<T>(target + i + v * L,
               f(load<T>(a + i + v * L), load<T>(b + i + v * L), load<T>(c + i + v * L)));
}

// exp(factor * a): several vectors in lock step hide the latency of the polynomial.
template <class T>
__attribute__((noinline)) void exp_pass(std::int64_t size, T* target, const T* a, double factor) {
  constexpr int L = kLanes<T>;
  constexpr int N = 4;
  const ExpScale<T> scale(factor);
  for (std::int64_t i = 0; i < size; i += N * L) {
    Vec<T> y[N];
#pragma GCC unroll 8
    for (int v = 0; v < N; ++v) y[v] = load<T>(a + i + v * L);
    vexp_scaled<T, N>(scale, y);
#pragma GCC unroll 8
    for (int v = 0; v < N; ++v) store<T>(target + i + v * L, y[v]);
  }
}

// 2^-a for a >= 0.
template <class T>
__attribute__((noinline)) void decay_pass(std::int64_t size, T* target, const T* a) {
  constexpr int L = kLanes<T>;
  constexpr int N = 4;
  for (std::int64_t i = 0; i < size; i += N * L) {
    Vec<T> y[N];
#pragma GCC unroll 8
    for (int v = 0; v < N; ++v) y[v] = load<T>(a + i + v * L);
    vdecayn<T, N>(y);
#pragma GCC unroll 8
    for (int v = 0; v < N; ++v) store<T>(target + i + v * L, y[v]);
  }
}

template <class T>
MERCER_INLINE Vec<T> one_where(IVec<T> mask) {
  return keep_where<T>(mask, broadcast<T>(T(1)));
}

template <class T>
void run_elementwise(const Instruction& line, Registers<T> registers, std::int64_t size,
                     const double* scalars, const LookupTable* tables) {
  using V = Vec<T>;
  T* dst = registers[line.dst];
  const OpInfo& op = info(line.op);
  const T* a = op.operands > 0 ? registers[line.a] : nullptr;
  const T* b = op.operands > 1 ? registers[line.b] : nullptr;
  const T* c = op.operands > 2 ? registers[line.c] : nullptr;
  const V s0 = broadcast<T>(op.scalars > 0 ? static_cast<T>(scalars[line.s0]) : T(0));
  const V s1 = broadcast<T>(op.scalars > 1 ? static_cast<T>(scalars[line.s1]) : T(0));
  switch (line.op) {
    case Op::fill:
      return map<T>(size, dst, dst, [s0](V) { return s0; });
    case Op::affine:
      return map<T>(size, dst, a, [s0, s1](V p) { return s0 * p + s1; });
    case Op::add:
      return map<T>(size, dst, a, b, [](V p, V q) { return p + q; });
    case Op::sub:
      return map<T>(size, dst, a, b, [](V p, V q) { return p - q; });
    case Op::mul:
      return map<T>(size, dst, a, b, [](V p, V q) { return p * q; });
    case Op::div:
      return map<T>(size, dst, a, b, [](V p, V q) { return p / q; });
    case Op::axpy:
      return map<T>(size, dst, a, b, [s0](V p, V q) { return p + s0 * q; });
    case Op::fma:
      return map<T>(size, dst, a, b, c, [s0](V p, V q, V r) { return p + s0 * q * r; });
    case Op::reciprocal:
      return map<T>(size, dst, a, [s0](V p) { return s0 / p; });
    case Op::exp:
      return exp_pass<T>(size, dst, a, scalars[line.s0]);
    case Op::decay:
      return decay_pass<T>(size, dst, a);
    case Op::expm1:
      return map<T>(size, dst, a, [](V p) { return vexpm1<T>(p); });
    case Op::sinh:
      return map<T>(size, dst, a, [](V p) { return vsinh<T>(p); });
    case Op::cosh:
      return map<T>(size, dst, a, [](V p) { return vcosh<T>(p); });
    case Op::log:
      return map<T>(size, dst, a, [](V p) { return vlog<T>(p); });
    case Op::log1p:
      return map<T>(size, dst, a, [](V p) { return vlog1p<T>(p); });
    case Op::sqrt: {
      // Finite for infinite distances too: their product with a vanishing exponential is then 0.
      const V largest = broadcast<T>(Limits<T>::kLargest / 4);
      return map<T>(size, dst, a, [largest](V p) { return vsqrt<T>(vmin<T>(largest, p)); });
    }
    case Op::sin:
      return map<T>(size, dst, a, [](V p) { return vsin<T>(p); });
    case Op::cos:
      return map<T>(size, dst, a, [](V p) { return vcos<T>(p); });
    case Op::tanh:
      return map<T>(size, dst, a, [](V p) { return vtanh<T>(p); });
    case Op::arctan2:
      return map<T>(size, dst, a, b, [](V p, V q) { return vatan2<T>(p, q); });
    case Op::abs:
      return map<T>(size, dst, a, [](V p) { return vabs<T>(p); });
    case Op::sign:
      return map<T>(size, dst, a, [](V p) { return vsign<T>(p); });
    case Op::min:
      return map<T>(size, dst, a, b, [](V p, V q) { return vminimum<T>(p, q); });
    case Op::max:
      return map<T>(size, dst, a, b, [](V p, V q) { return vmaximum<T>(p, q); });
    case Op::at_most:
      return map<T>(size, dst, a, [s0](V p) { return vminimum<T>(s0, p); });
    case Op::at_least:
      return map<T>(size, dst, a, [s0](V p) { return vmaximum<T>(s0, p); });
    case Op::power: {
      const T exponent = static_cast<T>(scalars[line.s0]);
      return map<T>(size, dst, a, [exponent](V p) { return vpow<T>(p, exponent); });
    }
    case Op::pow:
      return map<T>(size, dst, a, b, [](V p, V q) { return vpow<T>(p, q); });
    case Op::less:
      return map<T>(size, dst, a, b, [](V p, V q) { return one_where<T>(p < q); });
    case Op::equal:
      return map<T>(size, dst, a, b, [](V p, V q) { return one_where<T>(p == q); });
    case Op::where:
      return map<T>(size, dst, a, b, c, [](V p, V q, V r) { return select<T>(p != V{}, q, r); });
    case Op::lookup:
      return lookup_pass<T, false>(tables[line.b], a, size, dst);
    case Op::lookup_slope:
      return lookup_pass<T, true>(tables[line.b], a, size, dst);
    default:
      return;  // leaves are handled by the interpreter
  }
}

}  // namespace mercer::MERCER_ISA
