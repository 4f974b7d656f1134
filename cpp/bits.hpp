// Inner products of zeros and ones: numbers of common bits.
//
// The words of points lie in panels as numbers do, see tile.hpp: a vector holds one word of each
// point of a panel, and no sum runs across lanes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "engine.hpp"
#include "simd.hpp"
#include "tile.hpp"

namespace mercer::MERCER_ISA {

// A pattern of 64 bits, or its lower half, in all lanes.
template <class T>
MERCER_INLINE UVec<T> pattern(std::uint64_t bits) {
  return UVec<T>{} + static_cast<UInt<T>>(bits);
}

// The number of bits of each byte.
template <class T>
MERCER_INLINE UVec<T> bits_of_bytes(UVec<T> word) {
  const UVec<T> low = pattern<T>(0x0f0f0f0f0f0f0f0f);
#if defined(__AVX512BW__) && MERCER_VECTOR_BYTES == 64
  const __m512i table = _mm512_set4_epi32(0x04030302, 0x03020201, 0x03020201, 0x02010100);
  return (UVec<T>)_mm512_add_epi8(_mm512_shuffle_epi8(table, (__m512i)(word & low)),
                                  _mm512_shuffle_epi8(table, (__m512i)((word >> 4) & low)));
#elif defined(__AVX2__) && MERCER_VECTOR_BYTES == 32
  const __m256i table = _mm256_setr_epi32(0x02010100, 0x03020201, 0x03020201, 0x04030302,
                                          0x02010100, 0x03020201, 0x03020201, 0x04030302);
  return (UVec<T>)_mm256_add_epi8(_mm256_shuffle_epi8(table, (__m256i)(word & low)),
                                  _mm256_shuffle_epi8(table, (__m256i)((word >> 4) & low)));
#else
  const UVec<T> two = pattern<T>(0x3333333333333333);
  const UVec<T> pairs = word - ((word >> 1) & pattern<T>(0x5555555555555555));
  const UVec<T> fours = (pairs & two) + ((pairs >> 2) & two);
  return (fours + (fours >> 4)) & low;
#endif
}

// The sum of the bytes of each lane.
template <class T>
MERCER_INLINE UVec<T> sum_of_bytes(UVec<T> bytes) {
  const UVec<T> narrow = pattern<T>(0x00ff00ff00ff00ff), wide = pattern<T>(0x0000ffff0000ffff);
  UVec<T> sums = (bytes & narrow) + ((bytes >> 8) & narrow);
  sums = (sums & wide) + ((sums >> 16) & wide);
  if constexpr (sizeof(T) == 8) sums = (sums & pattern<T>(0xffffffff)) + (sums >> 32);
  return sums;
}

// The word of one point in all lanes. It is no number, and may not be read as one.
template <class T>
MERCER_INLINE UVec<T> word_at(const T* place) {
  UInt<T> word;
  std::memcpy(&word, place, sizeof(word));
  return UVec<T>{} + word;
}

template <class T>
MERCER_INLINE void store_counts(const UVec<T> (&sums)[kAcross], T* tile) {
#pragma GCC unroll 4
  for (int c = 0; c < kAcross; ++c)
    store<T>(tile + c * kPanel<T>, __builtin_convertvector((IVec<T>)sums[c], Vec<T>));
}

// The first of kAcross points of the other side, which lie in one panel.
template <class T>
MERCER_INLINE const T* points_from(const T* across, std::int64_t words, std::int64_t j) {
  constexpr std::int64_t W = kPanel<T>;
  static_assert(W % kAcross == 0);
  return across + j / W * words * W + j % W;
}

// Counts bits in bytes, and sums bytes before they overflow.
template <class T>
void counted_by_bytes(const T* lanes, const T* across, std::int64_t words, std::int64_t count,
                      T* tile) {
  constexpr std::int64_t W = kPanel<T>, kMost = 31;
  for (std::int64_t j = 0; j < count; j += kAcross)
    for (std::int64_t lane = 0; lane < W; lane += kLanes<T>) {
      const T *own = lanes + lane, *points = points_from<T>(across, words, j);
      UVec<T> sums[kAcross] = {};
      for (std::int64_t first = 0; first < words; first += kMost) {
        UVec<T> bytes[kAcross] = {};
        for (std::int64_t k = first * W; k < std::min(first + kMost, words) * W; k += W) {
          const UVec<T> word = as_uint<T>(load<T>(own + k));
#pragma GCC unroll 4
          for (int c = 0; c < kAcross; ++c)
            bytes[c] += bits_of_bytes<T>(word & word_at<T>(points + k + c));
        }
#pragma GCC unroll 4
        for (int c = 0; c < kAcross; ++c) sums[c] += sum_of_bytes<T>(bytes[c]);
      }
      store_counts<T>(sums, tile + j * W + lane);
    }
}

#if MERCER_VECTOR_BYTES == 64
// With an instruction that counts bits, which not all machines with AVX-512 have.
template <class T>
__attribute__((target("avx512vpopcntdq"))) void counted_by_words(const T* lanes, const T* across,
                                                                 std::int64_t words,
                                                                 std::int64_t count, T* tile) {
  constexpr std::int64_t W = kPanel<T>;
  for (std::int64_t j = 0; j < count; j += kAcross) {
    const T* points = points_from<T>(across, words, j);
    UVec<T> sums[kAcross] = {};
#pragma GCC unroll 2
    for (std::int64_t k = 0; k < words * W; k += W) {
      const UVec<T> word = as_uint<T>(load<T>(lanes + k));
#pragma GCC unroll 4
      for (int c = 0; c < kAcross; ++c) {
        const auto common = (__m512i)(word & word_at<T>(points + k + c));
        sums[c] +=
            (UVec<T>)(sizeof(T) == 8 ? _mm512_popcnt_epi64(common) : _mm512_popcnt_epi32(common));
      }
    }
    store_counts<T>(sums, tile + j * W);
  }
}
#endif

// Fills `count` (a multiple of kAcross) rows of a tile with numbers of common bits. `lanes` is one
// panel, `across` the panel in which the tile starts.
template <class T>
void bits_tile(const T* lanes, const T* across, std::int64_t words, std::int64_t count, T* tile) {
#if MERCER_VECTOR_BYTES == 64
  if (__builtin_cpu_supports("avx512vpopcntdq"))
    return counted_by_words<T>(lanes, across, words, count, tile);
#endif
  counted_by_bytes<T>(lanes, across, words, count, tile);
}

// ---------------------------------------------------------------------------------------------
// Packing
// ---------------------------------------------------------------------------------------------

// Writes one row of `columns` zeros and ones as words; false if there is another number.
template <class T>
bool pack_bits_row(const T* row, std::int64_t columns, std::uint64_t* words) {
  constexpr int L = kLanes<T>, kBits = 8 * static_cast<int>(sizeof(T));
  const auto write = [words](std::int64_t k, UInt<T> word) {
    std::memcpy(reinterpret_cast<char*>(words) + k / 8, &word, sizeof(word));
  };
  UVec<T> place;
  for (int lane = 0; lane < L; ++lane) place[lane] = UInt<T>(1) << lane;
  IVec<T> binary = ~IVec<T>{};
  std::int64_t k = 0;
  for (; k + kBits <= columns; k += kBits) {
    UVec<T> bits{};
#pragma GCC unroll 16
    for (int v = 0; v < kBits / L; ++v) {
      const Vec<T> values = load_unaligned<T>(row + k + v * L);
      const IVec<T> ones = values == broadcast<T>(T(1));
      binary &= ones | (values == Vec<T>{});
      bits |= (UVec<T>)ones & (place << (v * L));
    }
    UInt<T> word = 0;
    for (int lane = 0; lane < L; ++lane) word |= bits[lane];
    write(k, word);
  }
  bool is_binary = !any<T>(~binary);
  UInt<T> last = 0;
  for (std::int64_t rest = k; rest < columns; ++rest) {
    is_binary = is_binary && (row[rest] == T(0) || row[rest] == T(1));
    last |= static_cast<UInt<T>>(row[rest] == T(1)) << (rest - k);
  }
  if (k < columns) write(k, last);
  return is_binary;
}

template <class T>
bool run_pack_bits(const PackBitsJob<T>& job) {
  constexpr std::int64_t kRows = 64;
  const StridedMatrix<T>& x = job.x;
  const std::int64_t words = divide_up(x.columns, 64), units = divide_up(x.rows, kRows);
  std::atomic<bool> binary{true};
  auto body = [&](Worker& worker) {
    std::vector<T> copy(static_cast<std::size_t>(x.column_stride == 1 ? 0 : x.columns));
    for (std::int64_t u = worker.next_unit(); u >= 0; u = worker.next_unit())
      for (std::int64_t i = u * kRows; i < std::min((u + 1) * kRows, x.rows); ++i) {
        const T* row = x.data + i * x.row_stride;
        for (std::size_t k = 0; k < copy.size(); ++k)
          copy[k] = row[static_cast<std::int64_t>(k) * x.column_stride];
        std::fill_n(job.words + i * words, words, 0);
        if (!pack_bits_row<T>(copy.empty() ? row : copy.data(), x.columns, job.words + i * words))
          binary = false;
        if (!binary || !worker.keep_going(x.columns)) return;
      }
  };
  const double work = static_cast<double>(x.rows) * static_cast<double>(x.columns);
  run_workers(units, useful_threads(job.threads, units, work), job.interrupt, WorkerBody(body));
  return binary;
}

}  // namespace mercer::MERCER_ISA
