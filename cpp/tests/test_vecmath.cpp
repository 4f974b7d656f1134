// Compares simd.hpp and vecmath.hpp with the long double functions of the C library and prints the
// largest error of each function. Compiled once per instruction set, for example
//
//   g++ -std=c++20 -O3 -ffp-contract=fast -mavx2 -mfma -DMERCER_ISA=avx2 -DMERCER_VECTOR_BYTES=32
//       tests/test_vecmath.cpp -o test_vecmath
//
// and exits with 1 if any check fails.
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "../vecmath.hpp"

namespace {

using namespace mercer::MERCER_ISA;

int failures = 0;

#define CHECK(condition, ...)                                     \
  do {                                                            \
    if (!(condition)) {                                           \
      ++failures;                                                 \
      std::printf("%s:%d: %s: ", __FILE__, __LINE__, #condition); \
      std::printf(__VA_ARGS__);                                   \
      std::printf("\n");                                          \
    }                                                             \
  } while (0)

template <class T>
constexpr const char* kName = sizeof(T) == 4 ? "float" : "double";
template <class T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();
template <class T>
constexpr T kNaN = std::numeric_limits<T>::quiet_NaN();
template <class T>
constexpr T kMax = std::numeric_limits<T>::max();
template <class T>
constexpr T kTiny = std::numeric_limits<T>::min();
template <class T>
constexpr T kEpsilon = std::numeric_limits<T>::epsilon();
template <class T>
constexpr T kSubnormal = std::numeric_limits<T>::denorm_min();

// ---------------------------------------------------------------------------------------------
// Errors in ulp
// ---------------------------------------------------------------------------------------------

template <class T>
long double ulp_of(long double value) {
  int exponent = 0;
  std::frexp(value, &exponent);
  const int lowest = std::numeric_limits<T>::min_exponent;
  const int bounded = exponent < lowest ? lowest : exponent;
  return std::ldexp(1.0L, bounded - std::numeric_limits<T>::digits);
}

template <class T>
bool same(T a, T b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

// |got - expected| in ulp; 0 for equal infinities and for two NaN, infinity where only one of both
// is NaN or infinite (overflow of the expected value beyond T counts as infinite).
template <class T>
long double ulp_error(T got, long double expected) {
  const T rounded = static_cast<T>(expected);
  if (std::isnan(expected) || std::isnan(got) || std::isinf(rounded) || std::isinf(got)) {
    // Next to overflow the result may be on either side.
    if (std::isinf(rounded) != std::isinf(got) && !std::isnan(got) && !std::isnan(expected)) {
      const bool close = std::fabs(expected) > 0.999999L * kMax<T> &&
                         (std::isinf(got) || std::fabs(got) > T(0.999999) * kMax<T>);
      return close ? 0 : kInfinity<long double>;
    }
    return same(got, rounded) ? 0 : kInfinity<long double>;
  }
  return std::fabs(static_cast<long double>(got) - expected) / ulp_of<T>(expected);
}

// The largest error over a set of arguments, and where it occurred.
template <class T>
struct Worst {
  long double error = 0;
  T x = 0;
  T y = 0;

  void update(long double candidate, T at_x, T at_y = 0) {
    if (candidate > error) *this = {candidate, at_x, at_y};
  }
};

template <class T>
void report(const char* function, const Worst<T>& worst, double bound) {
  std::printf("%-7s %-28s max %6.3Lf ulp at %.9g", kName<T>, function, worst.error,
              static_cast<double>(worst.x));
  std::printf(worst.y != 0 ? ", %.9g\n" : "\n", static_cast<double>(worst.y));
  CHECK(worst.error <= bound, "%s in %s exceeds its bound of %g ulp", function, kName<T>, bound);
}

// ---------------------------------------------------------------------------------------------
// Evaluation
// ---------------------------------------------------------------------------------------------

// function(x) for a whole array, by way of a buffer that need not be aligned.
template <class T, class F>
std::vector<T> map(const std::vector<T>& x, F function) {
  std::vector<T> padded(x);
  padded.resize((x.size() + kLanes<T> - 1) / kLanes<T> * kLanes<T>, T(1));
  for (std::size_t i = 0; i < padded.size(); i += kLanes<T>) {
    store_unaligned(&padded[i], function(load_unaligned(&padded[i])));
  }
  padded.resize(x.size());
  return padded;
}

template <class T, class F>
std::vector<T> map(const std::vector<T>& x, const std::vector<T>& y, F function) {
  std::vector<T> left(x);
  std::vector<T> right(y);
  left.resize((x.size() + kLanes<T> - 1) / kLanes<T> * kLanes<T>, T(1));
  right.resize(left.size(), T(1));
  for (std::size_t i = 0; i < left.size(); i += kLanes<T>) {
    store_unaligned(&left[i], function(load_unaligned(&left[i]), load_unaligned(&right[i])));
  }
  left.resize(x.size());
  return left;
}

template <class T, class F, class G>
Worst<T> worst_of(const std::vector<T>& x, F function, G reference) {
  const std::vector<T> got = map<T>(x, function);
  Worst<T> worst;
  for (std::size_t i = 0; i < x.size(); ++i) {
    worst.update(ulp_error(got[i], reference(static_cast<long double>(x[i]))), x[i]);
  }
  return worst;
}

template <class T, class F, class G>
Worst<T> worst_of(const std::vector<T>& x, const std::vector<T>& y, F function, G reference) {
  const std::vector<T> got = map<T>(x, y, function);
  Worst<T> worst;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double expected =
        reference(static_cast<long double>(x[i]), static_cast<long double>(y[i]));
    worst.update(ulp_error(got[i], expected), x[i], y[i]);
  }
  return worst;
}

template <class T>
bool negative_zero(T value) {
  return value == 0 && std::signbit(value);
}

// The value of a vector function at one point; the other lanes hold 1.
template <class T, class F>
T at(F function, T x) {
  return map<T>(std::vector<T>{x}, function)[0];
}

template <class T, class F>
T at(F function, T x, T y) {
  return map<T>(std::vector<T>{x}, std::vector<T>{y}, function)[0];
}

// ---------------------------------------------------------------------------------------------
// Samples
// ---------------------------------------------------------------------------------------------

std::mt19937_64 generator(20240611);

// An even grid, and as many random points.
template <class T>
std::vector<T> interval(double low, double high, int count = 200000) {
  std::vector<T> x;
  std::uniform_real_distribution<double> random(low, high);
  for (int i = 0; i <= count; ++i) {
    x.push_back(static_cast<T>(low + (high - low) * i / count));
    x.push_back(static_cast<T>(random(generator)));
  }
  return x;
}

// Signed magnitudes 2^u with u uniform.
template <class T>
std::vector<T> magnitudes(double lowest_exponent, double highest_exponent, bool both_signs,
                          int count = 200000) {
  std::vector<T> x;
  std::uniform_real_distribution<double> exponent(lowest_exponent, highest_exponent);
  for (int i = 0; i < count; ++i) {
    const T value = static_cast<T>(std::exp2(exponent(generator)));
    x.push_back(both_signs && (generator() & 1) ? -value : value);
  }
  return x;
}

template <class T>
std::vector<T> joined(std::vector<T> a, const std::vector<T>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Finite ranges of exponents.
template <class T>
constexpr double kTop = sizeof(T) == 4 ? 128 : 1024;

// ---------------------------------------------------------------------------------------------
// simd.hpp
// ---------------------------------------------------------------------------------------------

template <class T>
void test_vectors() {
  alignas(64) T source[2 * kLanes<T> + 1];
  alignas(64) T target[2 * kLanes<T> + 1] = {};
  for (int i = 0; i <= 2 * kLanes<T>; ++i) source[i] = T(i + 1);
  static_assert(kPanel<T> * sizeof(T) == 64 && kPanelVectors<T> * kLanes<T> == kPanel<T>);

  store(target, load(source));
  store_unaligned(target + kLanes<T> + 1, load_unaligned(source + 1));
  for (int i = 0; i < kLanes<T>; ++i) {
    CHECK(target[i] == T(i + 1), "aligned lane %d", i);
    CHECK(target[i + kLanes<T> + 1] == T(i + 2), "unaligned lane %d", i);
  }
  stream<T>(target, broadcast(T(-0.0)));
  stream_fence();
  for (int i = 0; i < kLanes<T>; ++i) CHECK(negative_zero(target[i]), "streamed lane %d", i);
  CHECK(horizontal_sum<T>(load(source)) == T(kLanes<T> * (kLanes<T> + 1) / 2), "horizontal_sum");
  CHECK(!any<T>(IVec<T>{}), "any of none");
  for (int i = 0; i < kLanes<T>; ++i) {
    IVec<T> mask = {};
    mask[i] = -1;
    CHECK(any<T>(mask), "any at lane %d", i);
    CHECK(keep_where<T>(mask, load(source))[i] == source[i], "keep_where at lane %d", i);
    CHECK(select<T>(mask, load(source), broadcast(T(0)))[i] == source[i], "select, lane %d", i);
  }
}

void test_widening() {
  Vec<float> value;
  for (int i = 0; i < kLanes<float>; ++i) value[i] = 0.1f * static_cast<float>(i + 1);
  const Widened wide = widen(value);
  const Vec<float> back = narrow(wide);
  for (int i = 0; i < kLanes<float>; ++i) {
    const Vec<double> half = i < kLanes<double> ? wide.first : wide.second;
    CHECK(half[i % kLanes<double>] == static_cast<double>(value[i]), "widen, lane %d", i);
    CHECK(back[i] == value[i], "narrow, lane %d", i);
  }
}

template <class T>
void test_selection_functions() {
  const auto max = [](Vec<T> a, Vec<T> b) { return vmax<T>(a, b); };
  const auto min = [](Vec<T> a, Vec<T> b) { return vmin<T>(a, b); };
  const auto maximum = [](Vec<T> a, Vec<T> b) { return vmaximum<T>(a, b); };
  const auto minimum = [](Vec<T> a, Vec<T> b) { return vminimum<T>(a, b); };
  for (const T a : {T(-2), T(0), T(3), kInfinity<T>, -kInfinity<T>}) {
    for (const T b : {T(-3), T(0), T(1), kInfinity<T>, -kInfinity<T>}) {
      CHECK(at<T>(max, a, b) == std::fmax(a, b) && at<T>(maximum, a, b) == std::fmax(a, b), "max");
      CHECK(at<T>(min, a, b) == std::fmin(a, b) && at<T>(minimum, a, b) == std::fmin(a, b), "min");
    }
    CHECK(std::isnan(at<T>(max, a, kNaN<T>)) && at<T>(max, kNaN<T>, a) == a, "vmax, NaN");
    CHECK(std::isnan(at<T>(min, a, kNaN<T>)) && at<T>(min, kNaN<T>, a) == a, "vmin, NaN");
    for (const auto& [first, second] : {std::pair{a, kNaN<T>}, std::pair{kNaN<T>, a}}) {
      CHECK(std::isnan(at<T>(maximum, first, second)), "vmaximum, NaN");
      CHECK(std::isnan(at<T>(minimum, first, second)), "vminimum, NaN");
    }
  }
  const auto sign = [](Vec<T> x) { return vsign<T>(x); };
  CHECK(at<T>(sign, T(-7)) == -1 && at<T>(sign, kSubnormal<T>) == 1 && at<T>(sign, T(0)) == 0 &&
            at<T>(sign, -kInfinity<T>) == -1 && std::isnan(at<T>(sign, kNaN<T>)),
        "vsign");
  const auto absolute = [](Vec<T> x) { return vabs<T>(x); };
  CHECK(at<T>(absolute, T(-7)) == 7 && !std::signbit(at<T>(absolute, T(-0.0))) &&
            std::isnan(at<T>(absolute, -kNaN<T>)),
        "vabs");
  const auto root = [](Vec<T> x) { return vsqrt<T>(x); };
  CHECK(worst_of<T>(
            magnitudes<T>(-kTop<T>, kTop<T>, false), root,
            [](long double x) {
              return std::sqrt(x);
            }).error <= 0.5001L,
        "vsqrt is not correctly rounded");
  CHECK(negative_zero(at<T>(root, T(-0.0))) && std::isnan(at<T>(root, T(-1))), "vsqrt");
}

template <class T>
void test_exact_products() {
  const std::vector<T> a = magnitudes<T>(-20, 20, true, 20000);
  const std::vector<T> b = magnitudes<T>(-20, 20, true, 20000);
  const auto error = map<T>(a, b, [](Vec<T> x, Vec<T> y) { return product_error<T>(x, y, x * y); });
  for (std::size_t i = 0; i < a.size(); ++i) {
    const T product = a[i] * b[i];
    const T tolerance = std::fabs(product) * kEpsilon<T> * kEpsilon<T>;
    CHECK(std::fabs(error[i] - std::fma(a[i], b[i], -product)) <= tolerance,
          "product_error of %.17g, %.17g", static_cast<double>(a[i]), static_cast<double>(b[i]));
  }
}

// ---------------------------------------------------------------------------------------------
// Exponentials
// ---------------------------------------------------------------------------------------------

// Results below twice the smallest normal number may be flushed to zero.
template <class T, class G>
auto flushing(G reference, const std::vector<T>& x, const std::vector<T>& got) {
  Worst<T> worst;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double expected = reference(static_cast<long double>(x[i]));
    const bool flushed = got[i] == 0 && expected < 1.5L * kTiny<T>;
    if (!flushed) worst.update(ulp_error(got[i], expected), x[i]);
  }
  return worst;
}

template <class T>
void test_exp2() {
  const auto function = [](Vec<T> x) { return vexp2<T>(x); };
  const auto reference = [](long double x) { return std::exp2(x); };
  const double top = kTop<T>;
  std::vector<T> x = joined(interval<T>(-top - 30, top + 10), interval<T>(-1, 1));
  x = joined(x, magnitudes<T>(-top - 20, 0, true));
  for (int n = -static_cast<int>(top) - 60; n < top + 5; ++n) {
    for (const T offset : {T(0), T(0.5), T(-0.5)}) {
      const T middle = T(n) + offset;
      x.insert(x.end(),
               {middle, std::nextafter(middle, -kMax<T>), std::nextafter(middle, kMax<T>)});
    }
  }
  report("exp2", flushing<T>(reference, x, map<T>(x, function)), 1.1);

  for (const T low : {-kInfinity<T>, -kMax<T>, T(-top - 1e3), T(-top - 60)}) {
    CHECK(at<T>(function, low) == 0 && !std::signbit(at<T>(function, low)), "exp2 underflow");
  }
  for (const T high : {kInfinity<T>, kMax<T>, T(top + 1e3), T(top)}) {
    CHECK(at<T>(function, high) == kInfinity<T>, "exp2 overflow");
  }
  CHECK(at<T>(function, T(0)) == 1 && at<T>(function, T(-0.0)) == 1, "exp2 at 0");
  CHECK(at<T>(function, kSubnormal<T>) == 1, "exp2 at a subnormal");
  CHECK(at<T>(function, T(10)) == 1024 && at<T>(function, T(-3)) == T(0.125), "exp2 of integers");
}

// A NaN with bits set at the end of its payload is still NaN.
template <class T>
void test_nan_payload() {
  Vec<T> payload = as_real<T>(as_int<T>(broadcast(kNaN<T>)) | 0x7a3);
  CHECK(std::isnan(vexp2<T>(payload)[0]) && std::isnan(vexp<T>(payload)[1]), "NaN with payload");
  CHECK(std::isnan(vlog<T>(payload)[0]) && std::isnan(vtanh<T>(payload)[1]), "NaN with payload");
}

template <class T>
void test_decay() {
  const auto function = [](Vec<T> x) {
    Vec<T> values[1] = {x};
    vdecayn<T, 1>(values);
    return values[0];
  };
  const auto reference = [](long double x) { return std::exp2(-x); };
  const std::vector<T> x = joined(interval<T>(0, 20), interval<T>(0, kTop<T> + 100));
  report("decay", flushing<T>(reference, x, map<T>(x, function)), 1.1);
  CHECK(at<T>(function, T(0)) == 1 && at<T>(function, T(3)) == T(0.125), "decay of integers");
  CHECK(at<T>(function, T(2000)) == 0 && at<T>(function, kInfinity<T>) == 0, "decay underflow");
  CHECK(std::isnan(at<T>(function, std::numeric_limits<T>::quiet_NaN())), "decay NaN");
}

void test_scaled_decay() {
  const auto function = [](Vec<double> x) {
    Vec<double> values[1] = {x};
    vdecayn_scaled<1>(0.25, values);
    return values[0];
  };
  const auto reference = [](long double x) { return std::exp2(-0.25L * x); };
  const std::vector<double> x = joined(interval<double>(0, 80), interval<double>(0, 4 * 1021));
  report("scaled decay", flushing<double>(reference, x, map<double>(x, function)), 1.2);
  CHECK(at<double>(function, 0.0) == 1 && at<double>(function, 12.0) == 0.125, "decay of integers");
  for (const double far : {4 * 1023.0, 1e5, kInfinity<double>})
    CHECK(at<double>(function, far) == 0, "scaled decay underflow");
  for (const double tiny : {4 * 1022.1, 4 * 1022.5, 4 * 1022.9})
    CHECK(at<double>(function, tiny) < 0x1p-1022, "scaled decay of tiny results");
  CHECK(std::isnan(at<double>(function, kNaN<double>)), "scaled decay NaN");
}

template <class T>
void test_interleaved_exp2() {
  constexpr int count = 5;
  Vec<T> values[count];
  for (int i = 0; i < count; ++i) {
    for (int lane = 0; lane < kLanes<T>; ++lane) values[i][lane] = T(0.37) * T(lane - 3) * T(i + 1);
  }
  Vec<T> single[count];
  for (int i = 0; i < count; ++i) single[i] = vexp2<T>(values[i]);
  vexp2n<T, count>(values);
  for (int i = 0; i < count; ++i) {
    for (int lane = 0; lane < kLanes<T>; ++lane) {
      CHECK(values[i][lane] == single[i][lane], "vexp2n, vector %d, lane %d", i, lane);
    }
  }
}

template <class T>
void test_exp() {
  const auto function = [](Vec<T> x) { return vexp<T>(x); };
  const auto reference = [](long double x) { return std::exp(x); };
  const double top = kTop<T> * std::log(2.0);
  std::vector<T> x = joined(interval<T>(-top - 30, top + 10), interval<T>(-1, 1));
  x = joined(x, magnitudes<T>(-kTop<T> - 20, 0, true));
  report("exp", flushing<T>(reference, x, map<T>(x, function)), 1.3);
  for (const T low : {-kInfinity<T>, -kMax<T>, T(-top - 100)}) {
    CHECK(at<T>(function, low) == 0, "exp underflow");
  }
  for (const T high : {kInfinity<T>, kMax<T>, T(top + 0.1)}) {
    CHECK(at<T>(function, high) == kInfinity<T>, "exp overflow");
  }
  CHECK(at<T>(function, T(0)) == 1, "exp at 0");
}

template <class T>
void test_scaled_exp() {
  Worst<T> worst;
  for (const double s : {-0.5, 1.0, -1.0, -0.1, 3e-5, -1e4, 1e-20, -7.7e15}) {
    const ExpScale<T> scale(s);
    const auto function = [&scale](Vec<T> a) {
      Vec<T> values[1] = {a};
      vexp_scaled<T, 1>(scale, values);
      return values[0];
    };
    const auto reference = [s](long double a) {
      const long double product = s * a;  // its rounding error would show at large arguments
      return std::exp(product) * (1 + std::fma(static_cast<long double>(s), a, -product));
    };
    const double bound = 1.1 * kTop<T> * std::log(2.0) / std::fabs(s);
    const std::vector<T> a = interval<T>(-bound, bound, 50000);
    const Worst<T> here = flushing<T>(reference, a, map<T>(a, function));
    worst.update(here.error, here.x, static_cast<T>(s));
    const T sign = s < 0 ? T(-1) : T(1);
    CHECK(at<T>(function, sign * kInfinity<T>) == kInfinity<T>, "exp(%g * inf)", s);
    CHECK(at<T>(function, -sign * kInfinity<T>) == 0, "exp(%g * -inf)", s);
    CHECK(std::isnan(at<T>(function, kNaN<T>)), "exp(%g * NaN)", s);
  }
  report("exp of a product", worst, 1.3);

  const auto scaled = [](double s, T a) {
    Vec<T> values[1] = {broadcast(a)};
    vexp_scaled<T, 1>(ExpScale<T>(s), values);
    return values[0][0];
  };
  CHECK(scaled(0.0, T(5)) == 1 && scaled(-0.0, kMax<T>) == 1, "exp of a product with 0");
  CHECK(scaled(1e308, T(-1)) == 0 && scaled(-1e308, T(-1)) == kInfinity<T>, "enormous factor");
  CHECK(scaled(1e308, T(0)) == 1 && scaled(-1e308, T(-0.0)) == 1, "enormous factor at 0");
  CHECK(std::isnan(scaled(std::nan(""), T(1))), "factor NaN");
}

// What the shorter way by vexp2 costs in accuracy; printed for information.
template <class T>
void report_rounded_exponent() {
  const T factor = T(1.4426950408889634);
  const auto function = [factor](Vec<T> x) { return vexp2<T>(x * broadcast(factor)); };
  const double deepest = sizeof(T) == 4 ? 80 : 700;
  for (const double bound : {1.0, 10.0, deepest}) {
    const auto worst = worst_of<T>(interval<T>(-bound, bound), function,
                                   [](long double x) { return std::exp(x); });
    std::printf("%-7s exp2(log2(e) x), |x| <= %-4g max %6.1Lf ulp\n", kName<T>, bound, worst.error);
  }
}

// ---------------------------------------------------------------------------------------------
// Logarithms and powers
// ---------------------------------------------------------------------------------------------

template <class T>
void test_log() {
  const auto function = [](Vec<T> x) { return vlog<T>(x); };
  std::vector<T> x = joined(magnitudes<T>(-kTop<T> - 20, kTop<T>, false), interval<T>(0.5, 2));
  x = joined(x, interval<T>(0.999, 1.001));
  x.insert(x.end(), {kSubnormal<T>, kTiny<T>, kMax<T>, std::nextafter(T(1), T(0)),
                     std::nextafter(T(1), T(2)), std::sqrt(T(0.5)), std::sqrt(T(2))});
  report("log", worst_of<T>(x, function, [](long double v) { return std::log(v); }), 1.0);
  CHECK(at<T>(function, T(1)) == 0, "log 1");
  CHECK(at<T>(function, T(0)) == -kInfinity<T> && at<T>(function, T(-0.0)) == -kInfinity<T>,
        "log 0");
  CHECK(at<T>(function, kInfinity<T>) == kInfinity<T>, "log inf");
  for (const T below : {T(-1), -kSubnormal<T>, -kTiny<T>, -kInfinity<T>}) {
    CHECK(std::isnan(at<T>(function, below)), "log of a negative number");
  }
}

template <class T>
void test_log1p() {
  const auto function = [](Vec<T> x) { return vlog1p<T>(x); };
  std::vector<T> x = joined(magnitudes<T>(-kTop<T> - 20, 0, true), interval<T>(-0.999, 3));
  x = joined(x, magnitudes<T>(0, kTop<T>, false));
  for (T& value : x) {
    if (value <= -1) value = T(-0.75);
  }
  report("log1p", worst_of<T>(x, function, [](long double v) { return std::log1p(v); }), 1.6);
  CHECK(at<T>(function, T(0)) == 0 && at<T>(function, T(-1)) == -kInfinity<T>, "log1p");
  CHECK(at<T>(function, kInfinity<T>) == kInfinity<T> && std::isnan(at<T>(function, T(-2))),
        "log1p");
}

template <class T>
void test_pow() {
  const auto function = [](Vec<T> x, Vec<T> y) { return vpow<T>(x, y); };
  const auto reference = [](long double x, long double y) { return std::pow(x, y); };
  const auto representable = [](long double value) {
    return value > 2.0L * kTiny<T> && value < 0.999L * kMax<T>;
  };
  const auto measure = [&](const std::vector<T>& x, const std::vector<T>& y, long double low,
                           long double high) {
    std::vector<T> kept_x;
    std::vector<T> kept_y;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const long double value = reference(x[i], y[i]);
      if (!representable(value) || value < low || value > high) continue;
      kept_x.push_back(x[i]);
      kept_y.push_back(y[i]);
    }
    return worst_of<T>(kept_x, kept_y, function, reference);
  };
  const int count = 300000;
  std::vector<T> x = magnitudes<T>(-kTop<T> - 20, kTop<T>, false, count);
  std::vector<T> y = magnitudes<T>(-20, 3, true, count);
  x = joined(x, magnitudes<T>(-3, 3, false, count));
  y = joined(y, magnitudes<T>(-10, 9, true, count));
  x = joined(x, magnitudes<T>(-0.01, 0.01, false, count));
  y = joined(y, magnitudes<T>(0, 20, true, count));
  report("pow, whole range", measure(x, y, 0, kInfinity<long double>), 4.0);
  report("pow, results 1e-3..1e3", measure(x, y, 1e-3L, 1e3L), 1.2);

  const std::vector<T> bases = {T(0), T(-0.0), kSubnormal<T>, kTiny<T>,    T(0.3),
                                T(1), T(2),    kMax<T>,       kInfinity<T>};
  const std::vector<T> exponents = {T(0),     T(-0.0),   T(1),         T(-1),        T(0.5),
                                    T(1e-30), T(-1e-30), T(2.5),       T(1e30),      T(-1e30),
                                    kMax<T>,  -kMax<T>,  kInfinity<T>, -kInfinity<T>};
  for (const T base : bases) {
    for (const T exponent : exponents) {
      const T got = at<T>(function, base, exponent);
      const long double expected = reference(std::fabs(base), exponent);
      const bool flushed = got == 0 && expected < 2.0L * kTiny<T>;
      CHECK(flushed || ulp_error(got, expected) <= 3, "pow(%g, %g) = %g", static_cast<double>(base),
            static_cast<double>(exponent), static_cast<double>(got));
    }
    CHECK(std::isnan(at<T>(function, base, kNaN<T>)), "pow(%g, NaN)", static_cast<double>(base));
  }
  for (const T exponent : exponents) {
    CHECK(std::isnan(at<T>(function, kNaN<T>, exponent)), "pow(NaN, %g)",
          static_cast<double>(exponent));
    CHECK(same(vpow<T>(broadcast(T(1.7)), exponent)[0], at<T>(function, T(1.7), exponent)),
          "pow with a scalar exponent");
  }
  // Whole powers of negative numbers have a sign, all others are NaN.
  for (const T base : {T(-0.3), T(-2), -kInfinity<T>}) {
    for (const T exponent : {T(0), T(1), T(2), T(3), T(-1), T(-2), T(7), T(40), T(1e30)}) {
      const T got = at<T>(function, base, exponent);
      const long double expected = reference(base, exponent);
      CHECK(ulp_error(got, expected) <= 4, "pow(%g, %g) = %g", static_cast<double>(base),
            static_cast<double>(exponent), static_cast<double>(got));
    }
    for (const T exponent : {T(0.5), T(-1.5), T(2.25), kNaN<T>}) {
      const T got = at<T>(function, base, exponent);
      const T expected = static_cast<T>(reference(base, exponent));
      CHECK(got == expected || (std::isnan(got) && std::isnan(expected)), "pow(%g, %g) = %g",
            static_cast<double>(base), static_cast<double>(exponent), static_cast<double>(got));
    }
  }
}

// ---------------------------------------------------------------------------------------------
// Circular and hyperbolic functions
// ---------------------------------------------------------------------------------------------

// The numbers of T nearest to multiples of pi / 2, where the reduction cancels most.
template <class T>
std::vector<T> multiples_of_half_pi(int count) {
  std::vector<T> x;
  for (int n = 1; n <= count; ++n) {
    const T nearest = static_cast<T>(n * 1.57079632679489661923132169163975144L);
    x.insert(x.end(), {nearest, std::nextafter(nearest, T(0)), std::nextafter(nearest, kMax<T>)});
  }
  return x;
}

template <class T>
void test_sine_and_cosine() {
  const auto sine = [](Vec<T> x) { return vsin<T>(x); };
  const auto cosine = [](Vec<T> x) { return vcos<T>(x); };
  std::vector<T> x = joined(interval<T>(-7, 7), interval<T>(-1e3, 1e3));
  x = joined(x, interval<T>(-1e6, 1e6));
  x = joined(x, magnitudes<T>(-kTop<T> - 20, 20, true));
  x = joined(x, multiples_of_half_pi<T>(100000));
  report("sin", worst_of<T>(x, sine, [](long double v) { return std::sin(v); }), 1.2);
  report("cos", worst_of<T>(x, cosine, [](long double v) { return std::cos(v); }), 1.2);

  const std::vector<T> huge = magnitudes<T>(19, kTop<T>, true, 2000);
  report("sin, huge", worst_of<T>(huge, sine, [](long double v) { return std::sin(v); }), 1.2);
  report("cos, huge", worst_of<T>(huge, cosine, [](long double v) { return std::cos(v); }), 1.2);
  // Both at once are the same, to the last bit.
  const auto both_sine = [](Vec<T> v) { return vsincos<T>(v).sine; };
  const auto both_cosine = [](Vec<T> v) { return vsincos<T>(v).cosine; };
  for (const std::vector<T>& part : {x, huge}) {
    CHECK(map<T>(part, both_sine) == map<T>(part, sine), "sine of sincos");
    CHECK(map<T>(part, both_cosine) == map<T>(part, cosine), "cosine of sincos");
  }
  CHECK(std::isnan(at<T>(both_sine, kNaN<T>)) && std::isnan(at<T>(both_cosine, kInfinity<T>)),
        "sincos of inf or NaN");
  CHECK(negative_zero(at<T>(sine, T(-0.0))) && at<T>(sine, T(0)) == 0, "sin 0");
  CHECK(at<T>(cosine, T(0)) == 1 && at<T>(cosine, T(-0.0)) == 1, "cos 0");
  for (const T bad : {kInfinity<T>, -kInfinity<T>, kNaN<T>}) {
    CHECK(std::isnan(at<T>(sine, bad)) && std::isnan(at<T>(cosine, bad)), "sin, cos of inf or NaN");
  }
}

template <class T>
void test_tanh() {
  const auto function = [](Vec<T> x) { return vtanh<T>(x); };
  std::vector<T> x = joined(interval<T>(-25, 25), interval<T>(-1.5, 1.5));
  x = joined(x, magnitudes<T>(-kTop<T> - 20, kTop<T>, true));
  report("tanh", worst_of<T>(x, function, [](long double v) { return std::tanh(v); }), 2.7);
  CHECK(at<T>(function, kInfinity<T>) == 1 && at<T>(function, -kInfinity<T>) == -1, "tanh inf");
  CHECK(negative_zero(at<T>(function, T(-0.0))) && at<T>(function, T(0)) == 0, "tanh 0");
  CHECK(at<T>(function, kMax<T>) == 1 && std::isnan(at<T>(function, kNaN<T>)), "tanh");
}

template <class T>
void test_hyperbolic() {
  const auto less = [](Vec<T> x) { return vexpm1<T>(x); };
  const auto sine = [](Vec<T> x) { return vsinh<T>(x); };
  const auto cosine = [](Vec<T> x) { return vcosh<T>(x); };
  const double largest = sizeof(T) == 4 ? 88.7 : 709.7, beyond = sizeof(T) == 4 ? 89.4 : 710.4;
  std::vector<T> x = joined(interval<T>(-3, 3), magnitudes<T>(-kTop<T> - 20, 0, true));
  const std::vector<T> small = joined(x, interval<T>(-largest, largest));
  report("expm1", worst_of<T>(small, less, [](long double v) { return std::expm1(v); }), 4.6);
  x = joined(x, interval<T>(-beyond, beyond));
  report("sinh", worst_of<T>(x, sine, [](long double v) { return std::sinh(v); }), 5.0);
  report("cosh", worst_of<T>(x, cosine, [](long double v) { return std::cosh(v); }), 4.0);
  CHECK(at<T>(less, -kInfinity<T>) == -1 && at<T>(less, kInfinity<T>) == kInfinity<T>, "expm1");
  CHECK(at<T>(sine, -kInfinity<T>) == -kInfinity<T> && at<T>(sine, T(0)) == 0, "sinh");
  CHECK(at<T>(cosine, -kInfinity<T>) == kInfinity<T> && at<T>(cosine, T(0)) == 1, "cosh");
  for (const auto& value : {at<T>(less, kNaN<T>), at<T>(sine, kNaN<T>), at<T>(cosine, kNaN<T>)})
    CHECK(std::isnan(value), "NaN");
}

template <class T>
void test_atan2() {
  const auto function = [](Vec<T> y, Vec<T> x) { return vatan2<T>(y, x); };
  const auto reference = [](long double y, long double x) { return std::atan2(y, x); };
  const int count = 300000;
  std::vector<T> y = magnitudes<T>(-4, 4, true, count);
  std::vector<T> x = magnitudes<T>(-4, 4, true, count);
  y = joined(y, magnitudes<T>(-kTop<T> - 20, kTop<T>, true, count));
  x = joined(x, magnitudes<T>(-kTop<T> - 20, kTop<T>, true, count));
  y = joined(y, interval<T>(-1, 1));
  x = joined(x, std::vector<T>(y.size() - x.size(), T(1)));
  report("arctan2", worst_of<T>(y, x, function, reference), 2.5);

  const std::vector<T> edges = {T(0),     T(-0.0),      kSubnormal<T>, -kSubnormal<T>,
                                kTiny<T>, T(1),         T(-1),         kMax<T>,
                                -kMax<T>, kInfinity<T>, T(-2),         -kInfinity<T>};
  for (const T edge_y : edges) {
    for (const T edge_x : edges) {
      const T got = at<T>(function, edge_y, edge_x);
      CHECK(ulp_error(got, reference(edge_y, edge_x)) <= 1 &&
                std::signbit(got) == std::signbit(edge_y),
            "arctan2(%g, %g) = %g", static_cast<double>(edge_y), static_cast<double>(edge_x),
            static_cast<double>(got));
    }
    CHECK(std::isnan(at<T>(function, edge_y, kNaN<T>)), "arctan2(%g, NaN)",
          static_cast<double>(edge_y));
    CHECK(std::isnan(at<T>(function, kNaN<T>, edge_y)), "arctan2(NaN, %g)",
          static_cast<double>(edge_y));
  }
}

template <class T>
void test_nan() {
  const T nan = kNaN<T>;
  CHECK(std::isnan(at<T>([](Vec<T> x) { return vexp2<T>(x); }, nan)), "exp2 NaN");
  CHECK(std::isnan(at<T>([](Vec<T> x) { return vexp<T>(x); }, nan)), "exp NaN");
  CHECK(std::isnan(at<T>([](Vec<T> x) { return vlog<T>(x); }, nan)), "log NaN");
  CHECK(std::isnan(at<T>([](Vec<T> x) { return vlog1p<T>(x); }, nan)), "log1p NaN");
  CHECK(std::isnan(at<T>([](Vec<T> x) { return vsqrt<T>(x); }, nan)), "sqrt NaN");
}

template <class T>
void test_all() {
  test_vectors<T>();
  test_selection_functions<T>();
  test_exact_products<T>();
  test_exp2<T>();
  test_nan_payload<T>();
  test_interleaved_exp2<T>();
  test_decay<T>();
  test_exp<T>();
  test_scaled_exp<T>();
  report_rounded_exponent<T>();
  test_log<T>();
  test_log1p<T>();
  test_pow<T>();
  test_sine_and_cosine<T>();
  test_tanh<T>();
  test_hyperbolic<T>();
  test_atan2<T>();
  test_nan<T>();
}

}  // namespace

int main() {
#if MERCER_VECTOR_BYTES == 64
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512dq")) return 77;
#endif
  test_widening();
  test_scaled_decay();
  test_all<float>();
  test_all<double>();
  if (failures > 0) std::printf("%d checks failed\n", failures);
  return failures > 0 ? 1 : 0;
}
