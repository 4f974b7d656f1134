// Short vectors of float and double on top of the GCC/Clang vector extensions.
//
// This header is included once per translation unit, and every instruction set has a translation
// unit of its own. Two macros choose what is built:
//
//   MERCER_ISA           name of the nested namespace (mercer::MERCER_ISA), so that the units of
//                        two instruction sets can be linked into one library;
//   MERCER_VECTOR_BYTES  width of a vector: 64 for AVX-512, 32 for AVX2, 16 for SSE2 and for NEON.
//
// Every function is always inlined: nothing compiled for a newer instruction set can be picked by
// the linker for use in the unit of an older one.
//
// Products and sums are written a * b + c. The units are compiled with -ffp-contract=fast, so that
// this is one fused instruction where the machine has it. Where an algorithm depends on the single
// rounding (error-free products) it calls `fused_multiply_add` or `product_error` instead.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#ifndef MERCER_ISA
#define MERCER_ISA generic
#endif
#ifndef MERCER_VECTOR_BYTES
#define MERCER_VECTOR_BYTES 16
#endif

#define MERCER_INLINE inline __attribute__((always_inline))

namespace mercer::MERCER_ISA {

static_assert(MERCER_VECTOR_BYTES == 16 || MERCER_VECTOR_BYTES == 32 || MERCER_VECTOR_BYTES == 64,
              "MERCER_VECTOR_BYTES must be 16, 32 or 64");

// The types that belong to an element type. `Stored` and `Unaligned` may alias arrays of T.
template <class T>
struct VectorTraits;

template <>
struct VectorTraits<float> {
  using Int = std::int32_t;
  using UInt = std::uint32_t;
  typedef float Vec __attribute__((vector_size(MERCER_VECTOR_BYTES)));
  typedef std::int32_t IVec __attribute__((vector_size(MERCER_VECTOR_BYTES)));
  typedef std::uint32_t UVec __attribute__((vector_size(MERCER_VECTOR_BYTES)));
  typedef float Stored __attribute__((vector_size(MERCER_VECTOR_BYTES), may_alias));
  typedef float Unaligned __attribute__((vector_size(MERCER_VECTOR_BYTES), may_alias, aligned(4)));
};

template <>
struct VectorTraits<double> {
  using Int = std::int64_t;
  using UInt = std::uint64_t;
  typedef double Vec __attribute__((vector_size(MERCER_VECTOR_BYTES)));
  typedef std::int64_t IVec __attribute__((vector_size(MERCER_VECTOR_BYTES)));
  typedef std::uint64_t UVec __attribute__((vector_size(MERCER_VECTOR_BYTES)));
  typedef double Stored __attribute__((vector_size(MERCER_VECTOR_BYTES), may_alias));
  typedef double Unaligned __attribute__((vector_size(MERCER_VECTOR_BYTES), may_alias, aligned(8)));
};

template <class T>
using Int = typename VectorTraits<T>::Int;
template <class T>
using UInt = typename VectorTraits<T>::UInt;

// Vectors of T, and of signed and unsigned integers of the same size. A comparison of two Vec<T>
// gives an IVec<T> mask: all bits set where it holds, none where it does not.
template <class T>
using Vec = typename VectorTraits<T>::Vec;
template <class T>
using IVec = typename VectorTraits<T>::IVec;
template <class T>
using UVec = typename VectorTraits<T>::UVec;

// Elements of one vector, and of one panel of packed rows (a cache line on every machine).
template <class T>
inline constexpr int kLanes = MERCER_VECTOR_BYTES / static_cast<int>(sizeof(T));
template <class T>
inline constexpr int kPanel = 64 / static_cast<int>(sizeof(T));
template <class T>
inline constexpr int kPanelVectors = kPanel<T> / kLanes<T>;

// ---------------------------------------------------------------------------------------------
// Loads, stores, broadcasts
// ---------------------------------------------------------------------------------------------

// `source` must be aligned to MERCER_VECTOR_BYTES.
template <class T>
MERCER_INLINE Vec<T> load(const T* source) {
  return *reinterpret_cast<const typename VectorTraits<T>::Stored*>(source);
}

template <class T>
MERCER_INLINE Vec<T> load_unaligned(const T* source) {
  return *reinterpret_cast<const typename VectorTraits<T>::Unaligned*>(source);
}

// `target` must be aligned to MERCER_VECTOR_BYTES.
template <class T>
MERCER_INLINE void store(T* target, Vec<T> value) {
  *reinterpret_cast<typename VectorTraits<T>::Stored*>(target) = value;
}

template <class T>
MERCER_INLINE void store_unaligned(T* target, Vec<T> value) {
  *reinterpret_cast<typename VectorTraits<T>::Unaligned*>(target) = value;
}

// All lanes equal to `value`. (value - 0 keeps the sign of a zero; 0 + value would lose it.)
template <class T>
MERCER_INLINE Vec<T> broadcast(T value) {
  return value - Vec<T>{};
}

template <class T>
MERCER_INLINE IVec<T> broadcast_int(Int<T> value) {
  return value + IVec<T>{};
}

// Stores past the caches, for large outputs that are not read again soon; `target` aligned as for
// `store`. Call `stream_fence` once after the last of them, before another thread reads.
template <class T>
MERCER_INLINE void stream(T* target, Vec<T> value) {
#if defined(__SSE2__)
  // The integer form serves both element types; only the bits move.
#if MERCER_VECTOR_BYTES == 64 && defined(__AVX512F__)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(target), (__m512i)value);
#elif MERCER_VECTOR_BYTES == 32 && defined(__AVX__)
  _mm256_stream_si256(reinterpret_cast<__m256i*>(target), (__m256i)value);
#elif MERCER_VECTOR_BYTES == 16
  _mm_stream_si128(reinterpret_cast<__m128i*>(target), (__m128i)value);
#else
  store<T>(target, value);
#endif
#else
  store<T>(target, value);
#endif
}

MERCER_INLINE void stream_fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

// ---------------------------------------------------------------------------------------------
// Bits, selection
// ---------------------------------------------------------------------------------------------

template <class T>
MERCER_INLINE IVec<T> as_int(Vec<T> value) {
  return (IVec<T>)value;
}

template <class T>
MERCER_INLINE UVec<T> as_uint(Vec<T> value) {
  return (UVec<T>)value;
}

template <class T>
MERCER_INLINE Vec<T> as_real(IVec<T> bits) {
  return (Vec<T>)bits;
}

template <class T>
MERCER_INLINE Vec<T> as_real_unsigned(UVec<T> bits) {
  return (Vec<T>)bits;
}

// mask ? yes : no, lane by lane; every lane of `mask` is all ones or all zeros.
template <class T>
MERCER_INLINE Vec<T> select(IVec<T> mask, Vec<T> yes, Vec<T> no) {
  return mask ? yes : no;
}

// `value` where the mask holds and +0 elsewhere.
template <class T>
MERCER_INLINE Vec<T> keep_where(IVec<T> mask, Vec<T> value) {
  return (Vec<T>)(mask & (IVec<T>)value);
}

// True if any lane of `mask` holds.
template <class T>
MERCER_INLINE bool any(IVec<T> mask) {
#if defined(__AVX512F__) && MERCER_VECTOR_BYTES == 64
  return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#elif defined(__AVX__) && MERCER_VECTOR_BYTES == 32
  return _mm256_movemask_ps((__m256)mask) != 0;
#elif defined(__SSE2__) && MERCER_VECTOR_BYTES == 16
  return _mm_movemask_ps((__m128)mask) != 0;
#else
  Int<T> all = 0;
  for (int lane = 0; lane < kLanes<T>; ++lane) all |= mask[lane];
  return all != 0;
#endif
}

template <class T>
MERCER_INLINE IVec<T> is_nan(Vec<T> value) {
  return value != value;
}

// The sign bit of every lane.
template <class T>
MERCER_INLINE IVec<T> sign_bit(Vec<T> value) {
  return as_int<T>(value) & as_int<T>(broadcast<T>(T(-0.0)));
}

template <class T>
MERCER_INLINE Vec<T> vabs(Vec<T> value) {
  return (Vec<T>)((IVec<T>)value & ~(IVec<T>)broadcast<T>(T(-0.0)));
}

// |magnitude| with the sign of `sign`.
template <class T>
MERCER_INLINE Vec<T> copy_sign(Vec<T> magnitude, Vec<T> sign) {
  return (Vec<T>)((IVec<T>)vabs<T>(magnitude) | sign_bit<T>(sign));
}

// ---------------------------------------------------------------------------------------------
// Minimum, maximum, square root
// ---------------------------------------------------------------------------------------------

// The larger of both; where either is NaN, the *second* operand. With a bound first and data second
// a NaN in the data passes through: vmax<T>(lowest, x).
template <class T>
MERCER_INLINE Vec<T> vmax(Vec<T> first, Vec<T> second) {
#if defined(__AVX512F__) && MERCER_VECTOR_BYTES == 64
  if constexpr (sizeof(T) == 4) {
    return (Vec<T>)_mm512_max_ps((__m512)first, (__m512)second);
  } else {
    return (Vec<T>)_mm512_max_pd((__m512d)first, (__m512d)second);
  }
#elif defined(__AVX__) && MERCER_VECTOR_BYTES == 32
  if constexpr (sizeof(T) == 4) {
    return (Vec<T>)_mm256_max_ps((__m256)first, (__m256)second);
  } else {
    return (Vec<T>)_mm256_max_pd((__m256d)first, (__m256d)second);
  }
#elif defined(__SSE2__) && MERCER_VECTOR_BYTES == 16
  if constexpr (sizeof(T) == 4) {
    return (Vec<T>)_mm_max_ps((__m128)first, (__m128)second);
  } else {
    return (Vec<T>)_mm_max_pd((__m128d)first, (__m128d)second);
  }
#else
  return select<T>(first > second, first, second);
#endif
}

// The smaller of both; where either is NaN, the *second* operand.
template <class T>
MERCER_INLINE Vec<T> vmin(Vec<T> first, Vec<T> second) {
#if defined(__AVX512F__) && MERCER_VECTOR_BYTES == 64
  if constexpr (sizeof(T) == 4) {
    return (Vec<T>)_mm512_min_ps((__m512)first, (__m512)second);
  } else {
    return (Vec<T>)_mm512_min_pd((__m512d)first, (__m512d)second);
  }
#elif defined(__AVX__) && MERCER_VECTOR_BYTES == 32
  if constexpr (sizeof(T) == 4) {
    return (Vec<T>)_mm256_min_ps((__m256)first, (__m256)second);
  } else {
    return (Vec<T>)_mm256_min_pd((__m256d)first, (__m256d)second);
  }
#elif defined(__SSE2__) && MERCER_VECTOR_BYTES == 16
  if constexpr (sizeof(T) == 4) {
    return (Vec<T>)_mm_min_ps((__m128)first, (__m128)second);
  } else {
    return (Vec<T>)_mm_min_pd((__m128d)first, (__m128d)second);
  }
#else
  return select<T>(first < second, first, second);
#endif
}

// As vmax and vmin, but a NaN in either operand gives NaN (numpy.maximum, numpy.minimum).
template <class T>
MERCER_INLINE Vec<T> vmaximum(Vec<T> a, Vec<T> b) {
  return select<T>(is_nan<T>(a), a, vmax<T>(a, b));
}

template <class T>
MERCER_INLINE Vec<T> vminimum(Vec<T> a, Vec<T> b) {
  return select<T>(is_nan<T>(a), a, vmin<T>(a, b));
}

// Correctly rounded; NaN for a negative argument, -0 for -0.
template <class T>
MERCER_INLINE Vec<T> vsqrt(Vec<T> value) {
#if defined(__AVX512F__) && MERCER_VECTOR_BYTES == 64
  if constexpr (sizeof(T) == 4) {
    return (Vec<T>)_mm512_sqrt_ps((__m512)value);
  } else {
    return (Vec<T>)_mm512_sqrt_pd((__m512d)value);
  }
#elif defined(__AVX__) && MERCER_VECTOR_BYTES == 32
  if constexpr (sizeof(T) == 4) {
    return (Vec<T>)_mm256_sqrt_ps((__m256)value);
  } else {
    return (Vec<T>)_mm256_sqrt_pd((__m256d)value);
  }
#elif defined(__SSE2__) && MERCER_VECTOR_BYTES == 16
  if constexpr (sizeof(T) == 4) {
    return (Vec<T>)_mm_sqrt_ps((__m128)value);
  } else {
    return (Vec<T>)_mm_sqrt_pd((__m128d)value);
  }
#else
  Vec<T> root;
  for (int lane = 0; lane < kLanes<T>; ++lane) {
    root[lane] = sizeof(T) == 4 ? __builtin_sqrtf(value[lane]) : __builtin_sqrt(value[lane]);
  }
  return root;
#endif
}

// ---------------------------------------------------------------------------------------------
// Exact products
// ---------------------------------------------------------------------------------------------

#if defined(__FMA__) || (defined(__FP_FAST_FMA) && defined(__FP_FAST_FMAF))
#define MERCER_HAS_FMA 1
#else
#define MERCER_HAS_FMA 0
#endif

// a * b + c without a rounding of the product, for sums that cancel. One instruction where the
// machine has it. Elsewhere both factors are split into leading and trailing bits (Dekker), by a
// mask, which unlike a multiplication cannot overflow; the error of a * b is then known to 2^-52
// (float: exactly) of itself, and its sum with c is as good if a * b and -c are close.
template <class T>
MERCER_INLINE Vec<T> fused_multiply_add(Vec<T> a, Vec<T> b, Vec<T> c) {
#if defined(__AVX512F__) && MERCER_VECTOR_BYTES == 64
  if constexpr (sizeof(T) == 4) {
    return (Vec<T>)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
  } else {
    return (Vec<T>)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
  }
#elif defined(__FMA__) && MERCER_VECTOR_BYTES == 32
  if constexpr (sizeof(T) == 4) {
    return (Vec<T>)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
  } else {
    return (Vec<T>)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
  }
#elif MERCER_HAS_FMA
  Vec<T> result;
  for (int lane = 0; lane < kLanes<T>; ++lane) {
    if constexpr (sizeof(T) == 4) {
      result[lane] = __builtin_fmaf(a[lane], b[lane], c[lane]);
    } else {
      result[lane] = __builtin_fma(a[lane], b[lane], c[lane]);
    }
  }
  return result;
#else
  const IVec<T> leading_bits = broadcast_int<T>(-(Int<T>(1) << (sizeof(T) == 4 ? 12 : 27)));
  const Vec<T> a_high = as_real<T>(as_int<T>(a) & leading_bits);
  const Vec<T> a_low = a - a_high;
  const Vec<T> b_high = as_real<T>(as_int<T>(b) & leading_bits);
  const Vec<T> b_low = b - b_high;
  const Vec<T> product = a * b;
  const Vec<T> error =
      ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
  return (product + c) + error;
#endif
}

// The rounding error of `product` = a * b, that is a b - product.
template <class T>
MERCER_INLINE Vec<T> product_error(Vec<T> a, Vec<T> b, Vec<T> product) {
  return fused_multiply_add<T>(a, b, -product);
}

// ---------------------------------------------------------------------------------------------
// Between float and double
// ---------------------------------------------------------------------------------------------

// The lanes of a Vec<float>, first half and second half, in double.
struct Widened {
  Vec<double> first;
  Vec<double> second;
};

MERCER_INLINE Widened widen(Vec<float> value) {
#if defined(__AVX512DQ__) && MERCER_VECTOR_BYTES == 64
  return {(Vec<double>)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)value)),
          (Vec<double>)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)value, 1))};
#elif defined(__AVX__) && MERCER_VECTOR_BYTES == 32
  return {(Vec<double>)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)value)),
          (Vec<double>)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)value, 1))};
#elif defined(__SSE2__) && MERCER_VECTOR_BYTES == 16
  const __m128 bits = (__m128)value;
  return {(Vec<double>)_mm_cvtps_pd(bits), (Vec<double>)_mm_cvtps_pd(_mm_movehl_ps(bits, bits))};
#else
  Widened result;
  for (int lane = 0; lane < kLanes<double>; ++lane) {
    result.first[lane] = value[lane];
    result.second[lane] = value[lane + kLanes<double>];
  }
  return result;
#endif
}

MERCER_INLINE Vec<float> narrow(Widened value) {
#if defined(__AVX512DQ__) && MERCER_VECTOR_BYTES == 64
  return (Vec<float>)_mm512_insertf32x8(
      _mm512_castps256_ps512(_mm512_cvtpd_ps((__m512d)value.first)),
      _mm512_cvtpd_ps((__m512d)value.second), 1);
#elif defined(__AVX__) && MERCER_VECTOR_BYTES == 32
  return (Vec<float>)_mm256_insertf128_ps(
      _mm256_castps128_ps256(_mm256_cvtpd_ps((__m256d)value.first)),
      _mm256_cvtpd_ps((__m256d)value.second), 1);
#elif defined(__SSE2__) && MERCER_VECTOR_BYTES == 16
  return (Vec<float>)_mm_movelh_ps(_mm_cvtpd_ps((__m128d)value.first),
                                   _mm_cvtpd_ps((__m128d)value.second));
#else
  Vec<float> result;
  for (int lane = 0; lane < kLanes<double>; ++lane) {
    result[lane] = static_cast<float>(value.first[lane]);
    result[lane + kLanes<double>] = static_cast<float>(value.second[lane]);
  }
  return result;
#endif
}

// ---------------------------------------------------------------------------------------------
// Horizontal sum
// ---------------------------------------------------------------------------------------------

// The sum of all lanes, added in a fixed order.
template <class T>
MERCER_INLINE T horizontal_sum(Vec<T> value) {
  T total = value[0];
  for (int lane = 1; lane < kLanes<T>; ++lane) total += value[lane];
  return total;
}

}  // namespace mercer::MERCER_ISA
