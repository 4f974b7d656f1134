// Inverses of symmetric matrices against naive loops, for every instruction set that this machine
// runs.
#include <chrono>
#include <thread>

#include "oracle.hpp"

namespace mercer {
namespace {

using namespace oracle;

// A positive definite matrix of rows that are longer than need be, a diagonal to use in place of
// its own, and right-hand sides.
template <class T>
struct Problem {
  explicit Problem(std::int64_t n, std::int64_t right_sides)
      : n(n), stride(n + 3), right_sides(right_sides), right(draws<T>(n * right_sides)) {
    const std::int64_t depth = n + 4;
    const std::vector<double> roots = draws<double>(n * depth);
    matrix.assign(static_cast<std::size_t>(n * stride), T(-77));
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) {
        double sum = 0.0;
        for (std::int64_t k = 0; k < depth; ++k)
          sum += roots[index(i * depth + k)] * roots[index(j * depth + k)];
        matrix[index(i * stride + j)] = static_cast<T>(sum / static_cast<double>(depth));
      }
      diagonal.push_back(matrix[index(i * stride + i)] + T(0.5));
      matrix[index(i * stride + i)] = T(-77);  // not to be read
    }
  }

  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

  double entry(std::int64_t i, std::int64_t j) const {
    if (i == j) return static_cast<double>(diagonal[index(i)]);
    return static_cast<double>(matrix[index(std::max(i, j) * stride + std::min(i, j))]);
  }

  InverseJob<T> job(std::vector<T>& a, std::vector<T>& b, double& log_determinant) const {
    InverseJob<T> found;
    found.matrix = a.data();
    found.n = n;
    found.stride = stride;
    found.diagonal = diagonal.data();
    found.right = b.data();
    found.right_sides = right_sides;
    found.right_stride = right_sides;
    found.log_determinant = &log_determinant;
    return found;
  }

  std::int64_t n, stride, right_sides;
  std::vector<T> matrix, diagonal, right;
};

// The logarithm of the determinant by elimination.
template <class T>
double naive_log_determinant(const Problem<T>& p) {
  const std::int64_t n = p.n;
  std::vector<double> a(static_cast<std::size_t>(n * n));
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) a[static_cast<std::size_t>(i * n + j)] = p.entry(i, j);
  double sum = 0.0;
  for (std::int64_t k = 0; k < n; ++k) {
    const double pivot = a[static_cast<std::size_t>(k * n + k)];
    sum += std::log(pivot);
    for (std::int64_t i = k + 1; i < n; ++i) {
      const double ratio = a[static_cast<std::size_t>(i * n + k)] / pivot;
      for (std::int64_t j = k; j < n; ++j)
        a[static_cast<std::size_t>(i * n + j)] -= ratio * a[static_cast<std::size_t>(k * n + j)];
    }
  }
  return sum;
}

template <class T>
void test_inverse(const Engine& engine, std::int64_t n, std::int64_t right_sides) {
  const Problem<T> p(n, right_sides);
  std::vector<T> a = p.matrix, b = p.right;
  double log_determinant = 0.0;
  InverseJob<T> job = p.job(a, b, log_determinant);
  CHECK(engine.table<T>().inverse(job));
  const double tolerance = 200.0 * static_cast<double>(std::numeric_limits<T>::epsilon());
  CHECK(std::fabs(log_determinant - naive_log_determinant(p)) <=
        tolerance * static_cast<double>(n));
  const auto inverse = [&](std::int64_t i, std::int64_t j) {
    return static_cast<double>(
        a[static_cast<std::size_t>(std::max(i, j) * p.stride + std::min(i, j))]);
  };
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0.0;
      for (std::int64_t k = 0; k < n; ++k) sum += p.entry(i, k) * inverse(k, j);
      CHECK(std::fabs(sum - (i == j ? 1.0 : 0.0)) <= tolerance);
    }
    for (std::int64_t j = i + 1; j < p.stride; ++j)
      CHECK(a[static_cast<std::size_t>(i * p.stride + j)] == T(-77));
    for (std::int64_t c = 0; c < right_sides; ++c) {
      double sum = 0.0;
      for (std::int64_t k = 0; k < n; ++k)
        sum +=
            p.entry(i, k) * static_cast<double>(b[static_cast<std::size_t>(k * right_sides + c)]);
      const auto want = static_cast<double>(p.right[static_cast<std::size_t>(i * right_sides + c)]);
      CHECK(std::fabs(sum - want) <= 10 * tolerance);
    }
  }
  for (const int threads : {2, 3}) {
    std::vector<T> again = p.matrix, solved = p.right;
    double determinant_again = 0.0;
    InverseJob<T> shared = p.job(again, solved, determinant_again);
    shared.threads = threads;
    CHECK(engine.table<T>().inverse(shared));
    CHECK(again == a);
    CHECK(solved == b);
    CHECK(determinant_again == log_determinant);
  }
}

// A matrix that is not positive definite, or not finite, is left as it is.
template <class T>
void test_refusal(const Engine& engine, Problem<T> p, std::int64_t row, T value, int threads) {
  p.diagonal[static_cast<std::size_t>(row)] = value;
  std::vector<T> a = p.matrix, b = p.right;
  double log_determinant = 0.0;
  InverseJob<T> job = p.job(a, b, log_determinant);
  job.threads = threads;
  CHECK(!engine.table<T>().inverse(job));
  CHECK(a == p.matrix);
  CHECK(b == p.right);
}

// A call is asked whether to end although each of its steps is short. The question comes after some
// work, so the matrix is large; as it is diagonal, it takes no time to make.
template <class T>
void test_interrupt(const Engine& engine, int threads) {
  const std::int64_t n = 800;
  std::vector<T> a(static_cast<std::size_t>(n * n)), diagonal(static_cast<std::size_t>(n), T(2));
  double log_determinant = 0.0;
  int asked = 0;
  InverseJob<T> job;
  job.matrix = a.data();
  job.n = n;
  job.stride = n;
  job.diagonal = diagonal.data();
  job.log_determinant = &log_determinant;
  job.threads = threads;
  job.interrupt = {[](void* self) { return ++*static_cast<int*>(self) > 0; }, &asked};
  std::this_thread::sleep_for(std::chrono::milliseconds(60));  // longer than between two questions
  CHECK(throws<Interrupted>([&] { engine.table<T>().inverse(job); }));
  CHECK(asked == 1);
}

template <class T>
void test_all(const Engine& engine) {
  for (const std::int64_t n : {1, 2, 5, 6, 11, 12, 13, 24, 25, 95, 96, 97, 200})
    test_inverse<T>(engine, n, 2);
  // Around the borders of groups of blocks, and with more than two groups.
  for (const std::int64_t n : {383, 384, 385, 480}) test_inverse<T>(engine, n, 1);
  test_inverse<T>(engine, 870, 1);
  test_inverse<T>(engine, 30, 0);
  const Problem<T> small(150, 1), large(500, 1);
  for (const std::int64_t row : {0, 50, 149}) {
    test_refusal<T>(engine, small, row, T(-1), 1);
    test_refusal<T>(engine, small, row, std::numeric_limits<T>::quiet_NaN(), 1);
    test_refusal<T>(engine, small, row, std::numeric_limits<T>::infinity(), 1);
  }
  // At the beginning, inside and at the end of every block.
  for (std::int64_t block = 0; block < 500; block += 96)
    for (const std::int64_t row : {block, block + 10, std::min<std::int64_t>(block + 95, 499)})
      for (const int threads : {1, 2}) test_refusal<T>(engine, large, row, T(-1), threads);
  for (const int threads : {1, 2}) test_interrupt<T>(engine, threads);
}

}  // namespace
}  // namespace mercer

int main() {
  for (const mercer::Engine* engine : mercer::available_engines()) {
    std::printf("engine %s\n", engine->name);
    mercer::test_all<float>(*engine);
    mercer::test_all<double>(*engine);
  }
  std::printf("%d failures\n", mercer::oracle::failures);
  return mercer::oracle::failures == 0 ? 0 : 1;
}
