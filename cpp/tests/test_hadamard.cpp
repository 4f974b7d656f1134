// Hadamard products and waves against naive loops in float64, for every instruction set that this
// machine runs.
#include "oracle.hpp"

namespace mercer {
namespace {

using namespace oracle;

// The entry of Sylvester's matrix.
double hadamard_entry(std::int64_t i, std::int64_t j) {
  return __builtin_parityll(static_cast<std::uint64_t>(i & j)) ? -1.0 : 1.0;
}

std::vector<double> transformed(const std::vector<double>& x) {
  std::vector<double> y(x.size(), 0.0);
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t j = 0; j < x.size(); ++j)
      y[i] += hadamard_entry(static_cast<std::int64_t>(i), static_cast<std::int64_t>(j)) * x[j];
  return y;
}

// The data of a job, and the job.
template <class T>
struct Problem {
  Problem(std::int64_t n, std::int64_t d, std::int64_t size, std::int64_t blocks,
          std::int64_t stages, std::int64_t width, bool permuted)
      : x(draws<T>(n * d)),
        diagonals(draws<T>(blocks * stages * size)),
        scales(draws<T>(blocks * size)),
        out(static_cast<std::size_t>(n * (width + 3)), T(-77)) {
    for (std::int64_t b = 0; b < blocks && permuted; ++b)
      for (std::int64_t j = 0; j < size; ++j) places.push_back(size == 1 ? 0 : (5 * j + b) % size);
    job.x = {x.data(), n, d, 1, n};  // column by column
    job.blocks = blocks;
    job.stages = stages;
    job.size = size;
    job.diagonals = diagonals.data();
    job.permutations = permuted ? places.data() : nullptr;
    job.scales = scales.data();
    job.out = out.data();
    job.stride = width + 3;
    job.width = width;
  }

  // One row, before the last scales, with the sum of absolute terms.
  std::vector<double> row(std::int64_t i, std::int64_t block) const {
    std::vector<double> v(static_cast<std::size_t>(job.size), 0.0);
    for (std::int64_t j = 0; j < job.x.columns; ++j)
      v[static_cast<std::size_t>(j)] =
          static_cast<double>(x[static_cast<std::size_t>(j * job.x.rows + i)]);
    for (std::int64_t stage = 0; stage < job.stages; ++stage) {
      if (stage == 1 && job.permutations != nullptr) {
        const std::vector<double> before = v;
        for (std::int64_t j = 0; j < job.size; ++j)
          v[static_cast<std::size_t>(j)] =
              before[static_cast<std::size_t>(job.permutations[block * job.size + j])];
      }
      for (std::int64_t j = 0; j < job.size; ++j)
        v[static_cast<std::size_t>(j)] *=
            static_cast<double>(job.diagonals[(block * job.stages + stage) * job.size + j]);
      v = transformed(v);
    }
    return v;
  }

  std::vector<T> x, diagonals, scales, out;
  std::vector<std::int64_t> places;
  HadamardJob<T> job;
};

template <class T>
void test_products(const Engine& engine, std::int64_t n, std::int64_t d, std::int64_t size,
                   std::int64_t blocks, std::int64_t stages, std::int64_t width, bool permuted) {
  Problem<T> p(n, d, size, blocks, stages, width, permuted);
  check_hadamard(p.job);
  engine.table<T>().hadamard(p.job);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::vector<double> want = p.row(i, block);
      double largest = 1.0;
      for (const double value : want) largest = std::max(largest, std::fabs(value));
      for (std::int64_t j = 0; j < size && block * size + j < width; ++j) {
        const auto scale =
            static_cast<double>(p.scales[static_cast<std::size_t>(block * size + j)]);
        const T got = p.out[static_cast<std::size_t>(i * p.job.stride + block * size + j)];
        CHECK(close<T>(got, want[static_cast<std::size_t>(j)] * scale,
                       10 * largest * std::fabs(scale)));
      }
    }
    for (std::int64_t j = width; j < p.job.stride; ++j)
      CHECK(p.out[static_cast<std::size_t>(i * p.job.stride + j)] == T(-77));
  }
  const std::vector<T> single = p.out;
  p.job.threads = 3;
  engine.table<T>().hadamard(p.job);
  CHECK(p.out == single);
}

template <class T>
void test_waves(const Engine& engine, std::int64_t n, std::int64_t angles, std::int64_t sines) {
  const std::int64_t stride = angles + sines + 2;
  std::vector<T> values = draws<T>(n * stride);
  for (T& value : values) value *= T(20);
  const std::vector<T> before = values;
  engine.table<T>().waves({values.data(), n, stride, angles, sines, 0.5, 2, {}});
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < stride; ++j) {
      const T got = values[static_cast<std::size_t>(i * stride + j)];
      const T old = before[static_cast<std::size_t>(i * stride + j)];
      const double angle = static_cast<double>(
          before[static_cast<std::size_t>(i * stride + (j < angles ? j : j - angles))]);
      if (j < angles) {
        CHECK(close<T>(got, 0.5 * std::cos(angle), 1.0));
      } else if (j < angles + sines) {
        CHECK(close<T>(got, 0.5 * std::sin(angle), 1.0));
      } else {
        CHECK(got == old);
      }
    }
}

// One call that would take seconds: whether to go on is asked every 50 ms of it.
template <class T>
void test_interrupts(const Engine& engine) {
  int asked = 0;
  const Interrupt interrupt = {[](void* self) { return ++*static_cast<int*>(self) > 1; }, &asked};
  Problem<T> p(4000, 256, 256, 1, 2000, 256, false);
  p.job.interrupt = interrupt;
  CHECK(throws<Interrupted>([&] { engine.table<T>().hadamard(p.job); }));
  CHECK(asked == 2);
  asked = 0;
  std::vector<T> row = draws<T>(1000);  // every row is this one
  CHECK(throws<Interrupted>(
      [&] { engine.table<T>().waves({row.data(), 10'000'000, 0, 500, 500, 1.0, 1, interrupt}); }));
  CHECK(asked == 2);
}

void test_refusals() {
  const auto refused = [](auto change) {
    Problem<double> p(5, 3, 4, 2, 2, 7, true);
    check_hadamard(p.job);
    change(p);
    return throws<std::invalid_argument>([&] { check_hadamard(p.job); });
  };
  CHECK(refused([](auto& p) { p.job.size = 3; }));
  CHECK(refused([](auto& p) { p.job.size = 0; }));
  CHECK(refused([](auto& p) { p.job.size = 2; }));
  CHECK(refused([](auto& p) { p.job.stages = 0; }));
  CHECK(refused([](auto& p) { p.job.blocks = 0; }));
  CHECK(refused([](auto& p) { p.job.width = 4; }));
  CHECK(refused([](auto& p) { p.job.width = 9; }));
  CHECK(refused([](auto& p) { p.places[7] = 4; }));
  CHECK(refused([](auto& p) { p.places[0] = -1; }));
}

template <class T>
void test_engine(const Engine& engine) {
  for (const std::int64_t size : {1, 2, 4, 8, 16, 32, 64, 128})
    test_products<T>(engine, 11, size, size, 1, 1, size, false);
  test_products<T>(engine, 1, 5, 8, 3, 3, 17, false);
  test_products<T>(engine, 9, 20, 32, 2, 2, 64, true);
  test_products<T>(engine, 33, 7, 16, 2, 2, 29, true);
  for (const std::int64_t angles : {1, 3, 8, 17, 64})
    for (const std::int64_t sines : {angles, angles - 1}) test_waves<T>(engine, 9, angles, sines);
  test_interrupts<T>(engine);
}

}  // namespace
}  // namespace mercer

int main() {
  mercer::test_refusals();
  for (const mercer::Engine* engine : mercer::available_engines()) {
    std::printf("engine %s\n", engine->name);
    mercer::test_engine<float>(*engine);
    mercer::test_engine<double>(*engine);
  }
  std::printf("%d failures\n", mercer::oracle::failures);
  return mercer::oracle::failures == 0 ? 0 : 1;
}
