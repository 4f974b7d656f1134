// What the engine computes: one job description per function, and the table of functions that each
// instruction set provides.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "blas.hpp"
#include "data.hpp"
#include "program.hpp"
#include "string_jobs.hpp"
#include "threads.hpp"

namespace mercer {

// A program applied to all pairs of a row and a column.
template <class T>
struct Pairs {
  const Program* program = nullptr;
  std::vector<double> scalars;
  const Side<T>* rows = nullptr;
  const Side<T>* cols = nullptr;
  std::vector<Block<T>> blocks;
  int threads = 1;
  Interrupt interrupt;
};

template <class T>
struct GramJob {
  Pairs<T> pairs;
  std::int32_t result = 0;
  T* out = nullptr;
  std::int64_t stride = 0;
  bool symmetric = false;
};

// K V, or K' (K V), for a row-major V with `right_sides` columns.
template <class T>
struct ProductJob {
  Pairs<T> pairs;
  std::int32_t result = 0;
  const T* V = nullptr;
  std::int64_t right_sides = 0;
  T* out = nullptr;
};

enum class OutputKind {
  sum,
  row_sums,
  column_sums,
  dot_inputs,
  distance_inputs,
  distance_scales,
  coordinate_adjoint,
};

// One accumulated result of a contraction. Targets are float64, sized as the kind says; those of an
// adjoint are null where not wanted.
struct Output {
  OutputKind kind = OutputKind::sum;
  std::int32_t reg = 0;
  std::int32_t slot = 0;
  // coordinate_adjoint only.
  std::int32_t subprogram = 0;
  std::int32_t reduction = 0;
  std::int32_t value_reg = 0;
  std::int32_t input_reg = -1;
  std::int32_t scale_reg = -1;
  std::vector<std::int32_t> param_regs;

  double* target = nullptr;  // the only result; for an adjoint the inputs (n, d)
  double* scales = nullptr;  // adjoint: (d,)
  double* params = nullptr;  // adjoint: one per entry of param_regs
};

// A folded contraction, for one collection against itself, visits the pairs with column >= row
// alone, and pairs on the diagonal count half. Blocks are read as B + B', or, if that is what they
// hold, in their lower triangle alone. If the rest of the program is symmetric, the totals are
// those of all pairs. Results for single rows or columns cannot be folded.
enum class Fold { none, sum, lower };

template <class T>
struct ContractJob {
  Pairs<T> pairs;
  std::vector<Output> outputs;
  Fold fold = Fold::none;
};

// Projections of rows by products of Hadamard matrices H (of entries +-1) and diagonals: in each of
// `blocks` blocks, `size` numbers S H D_s ... H D_2 P H D_1 x, of which `out` takes the first
// `width` of all. The permutation P may be missing.
template <class T>
struct HadamardJob {
  StridedMatrix<T> x;
  std::int64_t blocks = 0, stages = 0, size = 0;  // size: a power of two, at least the columns of x
  const T* diagonals = nullptr;                   // [block][stage][size]
  const std::int64_t* permutations = nullptr;     // [block][size], or null
  const T* scales = nullptr;                      // [block][size]
  T* out = nullptr;
  std::int64_t stride = 0, width = 0;
  int threads = 1;
  Interrupt interrupt;
};

// Rows of zeros and ones as bits: ceil(columns / 64) words for each row.
template <class T>
struct PackBitsJob {
  StridedMatrix<T> x;
  std::uint64_t* words = nullptr;
  int threads = 1;
  Interrupt interrupt;
};

// In place: the first `angles` columns become scale * cos, the next `sines` scale * sin of the
// first of the angles.
template <class T>
struct WavesJob {
  T* values = nullptr;
  std::int64_t rows = 0, stride = 0, angles = 0, sines = 0;
  double scale = 1.0;
  int threads = 1;
  Interrupt interrupt;
};

// The lower triangle of a symmetric matrix, with another diagonal, becomes that of its inverse, and
// `right` the inverse times itself. Nothing is changed if the matrix is not positive definite.
template <class T>
struct InverseJob {
  T* matrix = nullptr;
  std::int64_t n = 0, stride = 0;
  const T* diagonal = nullptr;
  T* right = nullptr;
  std::int64_t right_sides = 0, right_stride = 0;
  double* log_determinant = nullptr;
  int threads = 1;
  Interrupt interrupt;
};

// Sequential minimal optimisation on a working set, see smo.hpp. The kernel value of variables k
// and m is values[rows[k]][rows[m]]; the first `split` variables and the others keep sums of their
// own. The gap at the end is that of the variables that took part to the end: the caller looks at
// all of them.
template <class T>
struct SmoJob {
  const T* values = nullptr;
  std::int64_t stride = 0;
  std::int64_t size = 0, split = 0;
  const std::int64_t* rows = nullptr;
  const double* ascent = nullptr;
  double* up = nullptr;    // how far a coefficient may rise
  double* down = nullptr;  // and how far it may fall
  bool narrow = false;     // whether kernel values, and ascents if that is safe, become float32
  double tolerance = 0.0;
  std::int64_t limit = 0;
  Interrupt interrupt;
  std::int64_t steps = 0;  // results
  double gap = 0.0;
};

// Many problems of one matrix, each with all of its variables: those from begins[p] to begins[p +
// 1], of which the first splits[p] keep a sum of their own. Each is solved until no exchange gains
// more than its tolerance for a unit, by ascents that are computed anew from the coefficients; if
// it has not come so far after a few times, or has had `limit` exchanges, it is left as it is.
template <class T>
struct SmoBatchJob {
  const T* values = nullptr;
  std::int64_t stride = 0;
  std::int64_t problems = 0;
  const std::int64_t *begins = nullptr, *splits = nullptr, *rows = nullptr;
  const double *linear = nullptr, *lower = nullptr, *upper = nullptr;
  double *up = nullptr, *down = nullptr;  // as in SmoJob
  bool narrow = false;                    // whether the first exchanges are of float32
  const double* tolerances = nullptr;     // one for each problem
  std::int64_t limit = 0;
  int threads = 1;
  Interrupt interrupt;
  double* coefficients = nullptr;  // results, one for each variable
  double* products = nullptr;      // the matrix times the coefficients
  std::int64_t* steps = nullptr;   // exchanges of each problem, on top of those it has had
};

// out += sum_k factors[k] values[rows[k]], in float64.
template <class T>
struct RowSumJob {
  const T* values = nullptr;
  std::int64_t stride = 0, columns = 0, count = 0;
  const std::int64_t* rows = nullptr;
  const double* factors = nullptr;
  double* out = nullptr;
  int threads = 1;
  Interrupt interrupt;
};

// A = Q T Q', T tridiagonal, see tridiagonal.hpp. The lower triangle of the matrix is read, and all
// of it is overwritten.
template <class T>
struct TridiagonalJob {
  const Blas<T>* blas = nullptr;
  Part<T> matrix;
  T* diagonal = nullptr;  // of T, and the entries beside it
  T* beside = nullptr;
  T* tau = nullptr;  // room for the factors of the reflections
  Part<T> basis;     // Q
  int threads = 1;
  Interrupt interrupt;
};

// The diagonal of Q (T + alpha)^-1 Q' for several factors L D L' of T + alpha.
template <class T>
struct LeveragesJob {
  const T* basis = nullptr;  // Q, by columns
  std::int64_t rows = 0, columns = 0, stride = 0, factors = 0;
  const T* links = nullptr;    // below the diagonal of L: one row per column of Q
  const T* weights = nullptr;  // 1 / D, likewise
  T* out = nullptr;            // one row per factor
  int threads = 1;
  Interrupt interrupt;
};

// Series of several channels, one after another: item i has the times from starts[i] to ends[i].
struct SeriesSide {
  const double* values = nullptr;  // [time][channel]
  const std::int64_t *starts = nullptr, *ends = nullptr;
  std::int64_t count = 0;

  std::int64_t length(std::int64_t item) const { return ends[item] - starts[item]; }
  std::int64_t longest() const {
    std::int64_t longest = 0;
    for (std::int64_t i = 0; i < count; ++i) longest = length(i) > longest ? length(i) : longest;
    return longest;
  }
};

enum class SeriesKind { dtw, soft_dtw, global_alignment, signature, signature_pde };
inline constexpr int kMostLevels = 6, kMostRefinement = 8;
enum class SeriesShape { matrix, symmetric, diagonal };

// Kernels of time series, see series.hpp. For a symmetric matrix or a diagonal both sides are one.
struct SeriesJob {
  SeriesKind kind = SeriesKind::dtw;
  SeriesShape shape = SeriesShape::matrix;
  SeriesSide rows, cols;
  std::int64_t channels = 0;
  double sigma = 1.0;  // of global alignment; gamma of soft-DTW
  std::int64_t band =
      -1;              // the window of DTW, or -1; the triangular width of global alignment, or 0
  int depth = 1;       // levels of a truncated signature
  int refinement = 0;  // of the grid of the equation of the whole signature
  double* out = nullptr;  // row-major, or one number for each pair of the diagonal
  int threads = 1;
  Interrupt interrupt;
};

// The signature kernel of one series with others, in the feature space of a kernel of single times.
struct StaticSignatureJob {
  SeriesKind kind = SeriesKind::signature;
  int depth = 1, refinement = 0;
  std::int64_t length = 0;  // of the one series
  std::int64_t step = 1;    // rows of kernel values that are asked for at once
  SeriesSide cols;          // without values
  std::int64_t times = 0;   // of all other series
  // Kernel values of the times begin to end of the one series with all times of the others.
  std::function<const double*(std::int64_t begin, std::int64_t end)> values;
  double* out = nullptr;  // one number for each of the others
  int threads = 1;
  Interrupt interrupt;
};

// Iterated integrals of channels 1 to m, for m up to `levels`, in `draws` independent places. The
// values of a time are its increments, [level][draw].
struct IteratedIntegralsJob {
  SeriesSide rows;
  int levels = 1;
  std::int64_t draws = 0;
  double* out = nullptr;  // [item][level][draw]
  int threads = 1;
  Interrupt interrupt;
};

struct SeriesTable {
  void (*pairs)(const SeriesJob&);
  void (*static_signature)(const StaticSignatureJob&);
  void (*iterated_integrals)(const IteratedIntegralsJob&);
};

// Throw std::invalid_argument unless the job can run without reading or writing out of bounds.
template <class T>
void check_pairs(const Pairs<T>& pairs);
template <class T>
void check_output(const Pairs<T>& pairs, const Output& output, Fold fold);
template <class T>
void check_hadamard(const HadamardJob<T>& job);
void check_rows(const std::int64_t* rows, std::int64_t count, std::int64_t available);

// The entry points of one instruction set. Jobs must have been checked.
template <class T>
struct EngineTable {
  void (*gram)(const GramJob<T>&);
  void (*product)(const ProductJob<T>&);
  void (*normal_product)(const ProductJob<T>&);
  void (*contract)(const ContractJob<T>&);
  bool (*pack_bits)(const PackBitsJob<T>&);  // false if there is another number
  void (*hadamard)(const HadamardJob<T>&);
  void (*waves)(const WavesJob<T>&);
  bool (*inverse)(const InverseJob<T>&);
  void (*smo)(SmoJob<T>&);
  void (*smo_batch)(const SmoBatchJob<T>&);
  void (*row_sum)(const RowSumJob<T>&);
  void (*tridiagonal)(const TridiagonalJob<T>&);
  void (*leverages)(const LeveragesJob<T>&);
};

struct Engine {
  const char* name;
  EngineTable<float> single;
  EngineTable<double> twofold;
  SeriesTable series;
  StringTable strings;

  template <class T>
  const EngineTable<T>& table() const {
    if constexpr (sizeof(T) == sizeof(float)) {
      return single;
    } else {
      return twofold;
    }
  }
};

extern const Engine baseline_engine;
#if defined(MERCER_X86_64)
extern const Engine avx2_engine;
extern const Engine avx512_engine;
#endif

// The best engine that this machine runs.
const Engine& engine();
// All engines that this machine runs, the baseline first: for tests.
std::vector<const Engine*> available_engines();

}  // namespace mercer
