// Sequential minimal optimisation against the conditions of the optimum, and sums of rows against
// naive loops, for every instruction set that this machine runs.
#include "oracle.hpp"

namespace mercer {
namespace {

using namespace oracle;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// Where the variables lie in the matrix: at all of its rows, at neighbours, or anywhere, some of
// them at the same row.
enum class Rows { all, neighbours, anywhere };

// Variables of a kernel matrix of low rank. A matrix of which all rows are used ends with them:
// what is read behind it is an error.
template <class T>
struct Problem {
  Problem(std::int64_t size, std::int64_t split, Rows kind)
      : size(size),
        split(split),
        n(kind == Rows::all ? size : size + 2),
        stride(kind == Rows::all ? size : n + 3) {
    const std::int64_t rank = 5;
    const std::vector<double> roots = draws<double>(n * rank);
    values.assign(at(n * stride), T(-77));
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0.0;
        for (std::int64_t k = 0; k < rank; ++k)
          sum += roots[at(i * rank + k)] * roots[at(j * rank + k)];
        values[at(i * stride + j)] = static_cast<T>(sum);
      }
    for (std::int64_t k = 0; k < size; ++k) {
      rows.push_back(kind == Rows::anywhere     ? (k * 7 + 3) % n
                     : kind == Rows::neighbours ? k + 1
                                                : k);
      linear.push_back(draw());
      const double room = k % 5 == 4 ? 0.0 : std::fabs(draw());
      up.push_back(room);
      down.push_back(k % 3 == 0 ? 0.0 : std::fabs(draw()));
    }
  }

  double entry(std::int64_t k, std::int64_t m) const {
    return static_cast<double>(values[at(rows[at(k)] * stride + rows[at(m)])]);
  }

  std::int64_t size, split, n, stride;
  std::vector<T> values;
  std::vector<std::int64_t> rows;
  std::vector<double> linear, up, down;
};

// What the objective falls by for each variable after a change.
template <class T>
std::vector<double> ascents(const Problem<T>& p, const std::vector<double>& change) {
  std::vector<double> found = p.linear;
  for (std::int64_t k = 0; k < p.size; ++k)
    for (std::int64_t m = 0; m < p.size; ++m) found[at(k)] -= p.entry(k, m) * change[at(m)];
  return found;
}

// The largest gain of an exchange within a group.
template <class T>
double violation(const Problem<T>& p, const std::vector<double>& ascent,
                 const std::vector<double>& up, const std::vector<double>& down) {
  double worst = 0.0;
  for (const auto& [begin, end] :
       {std::pair{std::int64_t{0}, p.split}, std::pair{p.split, p.size}}) {
    double highest = -std::numeric_limits<double>::infinity(), lowest = -highest;
    for (std::int64_t k = begin; k < end; ++k) {
      if (up[at(k)] > 0) highest = std::max(highest, ascent[at(k)]);
      if (down[at(k)] > 0) lowest = std::min(lowest, ascent[at(k)]);
    }
    worst = std::max(worst, highest - lowest);
  }
  return worst;
}

// Calls until there is nothing left to do, as a caller who looks at all variables would: those that
// were left out count again. Values that are rounded are corrected in the same way.
template <class T>
void test_optimum(const Engine& engine, const Problem<T>& p, std::int64_t limit, bool narrow,
                  double tolerance) {
  std::vector<double> up = p.up, down = p.down, change(at(p.size), 0.0), ascent = p.linear;
  SmoJob<T> job;
  job.values = p.values.data();
  job.stride = p.stride;
  job.size = p.size;
  job.split = p.split;
  job.rows = p.rows.data();
  job.up = up.data();
  job.down = down.data();
  job.narrow = narrow;
  job.tolerance = tolerance;
  job.limit = limit;
  int calls = 0;
  for (; calls < 20; ++calls) {
    job.ascent = ascent.data();
    engine.table<T>().smo(job);
    CHECK(job.steps <= limit);
    double first = 0.0, second = 0.0;
    for (std::int64_t k = 0; k < p.size; ++k) {
      CHECK(up[at(k)] >= 0.0 && down[at(k)] >= 0.0);
      const double rise = down[at(k)] - p.down[at(k)];
      CHECK(std::fabs(rise - (p.up[at(k)] - up[at(k)])) <= 1e-12);
      change[at(k)] = rise;
      (k < p.split ? first : second) += rise;
    }
    CHECK(std::fabs(first) <= 1e-11 && std::fabs(second) <= 1e-11);
    ascent = ascents(p, change);
    if (job.steps == 0 || job.steps == limit) break;
  }
  CHECK(calls < 20);
  // Beside a large tolerance ascents are rounded to float32 before they are compared.
  const double rounding = narrow && tolerance > 1e-4 ? 1e-6 : 0.0;
  if (job.steps < limit) CHECK(violation(p, ascent, up, down) <= tolerance + rounding);
}

// Two problems of one matrix, from zero: the second goes on from a few exchanges. What is written
// are the coefficients and their products by definition, and the violations are small.
template <class T>
void test_batch(const Engine& engine, const Problem<T>& p, bool narrow, int threads) {
  const std::int64_t total = 2 * p.size;
  std::vector<std::int64_t> rows = p.rows, begins = {0, p.size, total}, splits = {p.split, p.split};
  std::vector<double> linear, lower, upper, up = p.up, down = p.down;
  rows.insert(rows.end(), p.rows.begin(), p.rows.end());
  up.insert(up.end(), p.up.begin(), p.up.end());
  down.insert(down.end(), p.down.begin(), p.down.end());
  for (std::int64_t k = 0; k < total; ++k) {
    linear.push_back(-p.linear[at(k % p.size)]);
    lower.push_back(-down[at(k)]);
    upper.push_back(up[at(k)]);
  }
  std::vector<double> coefficients(at(total), -77), products(at(total), -77);
  std::vector<std::int64_t> steps = {0, 0};
  const double tolerances[] = {1e-6, 1e-3};
  SmoBatchJob<T> job;
  job.values = p.values.data();
  job.stride = p.stride;
  job.problems = 2;
  job.begins = begins.data();
  job.splits = splits.data();
  job.rows = rows.data();
  job.linear = linear.data();
  job.lower = lower.data();
  job.upper = upper.data();
  job.up = up.data();
  job.down = down.data();
  job.narrow = narrow;
  job.tolerances = tolerances;
  job.threads = threads;
  job.coefficients = coefficients.data();
  job.products = products.data();
  job.steps = steps.data();
  for (const std::int64_t limit : {std::int64_t{3}, std::int64_t{1'000'000}}) {
    job.limit = limit;
    engine.table<T>().smo_batch(job);
    for (int number = 0; number < 2; ++number) {
      CHECK(steps[at(number)] <= limit);
      const std::int64_t begin = begins[at(number)];
      std::vector<double> b, some_up, some_down;
      for (std::int64_t k = 0; k < p.size; ++k) {
        b.push_back(coefficients[at(begin + k)]);
        some_up.push_back(up[at(begin + k)]);
        some_down.push_back(down[at(begin + k)]);
        CHECK(std::fabs(b.back() - (some_down.back() + lower[at(begin + k)])) <= 1e-12);
      }
      const std::vector<double> ascent = ascents(p, b);
      for (std::int64_t k = 0; k < p.size; ++k)
        CHECK(std::fabs(p.linear[at(k)] - ascent[at(k)] - products[at(begin + k)]) <= 1e-10);
      if (steps[at(number)] < limit)
        CHECK(violation(p, ascent, some_up, some_down) <= tolerances[number] + 1e-10);
    }
  }
}

template <class T>
void test_row_sum(const Engine& engine, std::int64_t columns, std::int64_t count) {
  const std::int64_t n = 7, stride = columns + 1;
  const std::vector<T> values = draws<T>(n * stride);
  const std::vector<double> factors = draws<double>(count), before = draws<double>(columns);
  std::vector<std::int64_t> rows;
  for (std::int64_t k = 0; k < count; ++k) rows.push_back((k * 3 + 1) % n);
  std::vector<double> out = before;
  RowSumJob<T> job;
  job.values = values.data();
  job.stride = stride;
  job.columns = columns;
  job.count = count;
  job.rows = rows.data();
  job.factors = factors.data();
  job.out = out.data();
  job.threads = 3;
  engine.table<T>().row_sum(job);
  for (std::int64_t c = 0; c < columns; ++c) {
    double sum = before[at(c)];
    for (std::int64_t k = 0; k < count; ++k)
      sum += factors[at(k)] * static_cast<double>(values[at(rows[at(k)] * stride + c)]);
    CHECK(std::fabs(out[at(c)] - sum) <= 1e-12);
  }
}

template <class T>
void test_all(const Engine& engine) {
  for (const std::int64_t size : {1, 2, 3, 15, 16, 17, 33, 60, 400})
    for (const Rows kind : {Rows::all, Rows::neighbours, Rows::anywhere})
      for (const std::int64_t split : {std::int64_t{0}, size / 3, size})
        for (const bool narrow : {false, true}) {
          const Problem<T> p(size, split, kind);
          for (const double tolerance : {1e-6, 1e-2})
            test_optimum(engine, p, 1'000'000, narrow, tolerance);
          test_optimum(engine, p, 2, narrow, 1e-6);
          test_batch(engine, p, narrow, size > 30 ? 2 : 1);
        }
  for (const std::int64_t columns : {1, 3, 8, 9, 1024, 2100})
    for (const std::int64_t count : {0, 1, 4, 7}) test_row_sum<T>(engine, columns, count);
}

}  // namespace
}  // namespace mercer

int main() {
  for (const mercer::Engine* engine : mercer::available_engines()) {
    std::printf("engine %s\n", engine->name);
    mercer::test_all<float>(*engine);
    mercer::test_all<double>(*engine);
  }
  const std::int64_t rows[] = {0, 2};
  CHECK(mercer::oracle::throws<std::invalid_argument>([&] { mercer::check_rows(rows, 2, 2); }));
  std::printf("%d failures\n", mercer::oracle::failures);
  return mercer::oracle::failures == 0 ? 0 : 1;
}
