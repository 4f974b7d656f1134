// The engine against naive loops in float64, for every instruction set that this machine runs.
#include <chrono>
#include <thread>

#include "oracle.hpp"

namespace mercer {
namespace {

using namespace oracle;

template <class T>
void check_gram(const Engine& engine, const Problem<T>& p) {
  const std::int64_t n = p.rows.n, m = p.cols.n, stride = m + 3;
  std::vector<T> out(static_cast<std::size_t>(n * stride), T(-77));
  engine.table<T>().gram({p.pairs, p.result, out.data(), stride, false});
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < m; ++j)
      CHECK(close<T>(out[static_cast<std::size_t>(i * stride + j)], p.k(i, j), 1.0));
    for (std::int64_t j = m; j < stride; ++j)
      CHECK(out[static_cast<std::size_t>(i * stride + j)] == T(-77));
  }
}

// Against the full matrix of the same engine: equal to the last bit, as is the transpose.
template <class T>
void check_symmetric(const Engine& engine, const Problem<T>& p) {
  const std::int64_t n = p.rows.n;
  Pairs<T> pairs = p.pairs;
  pairs.cols = pairs.rows;
  std::vector<T> full(static_cast<std::size_t>(n * n)), half(full.size());
  engine.table<T>().gram({pairs, p.result, full.data(), n, false});
  engine.table<T>().gram({pairs, p.result, half.data(), n, true});
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = i; j < n; ++j) {
      CHECK(half[static_cast<std::size_t>(i * n + j)] == full[static_cast<std::size_t>(i * n + j)]);
      CHECK(half[static_cast<std::size_t>(j * n + i)] == half[static_cast<std::size_t>(i * n + j)]);
    }
}

template <class T>
void check_products(const Engine& engine, const Problem<T>& p, std::int64_t r) {
  const std::int64_t n = p.rows.n, m = p.cols.n;
  const std::vector<T> V = draws<T>(m * r);
  std::vector<T> product(static_cast<std::size_t>(n * r)), normal(static_cast<std::size_t>(m * r));
  engine.table<T>().product({p.pairs, p.result, V.data(), r, product.data()});
  engine.table<T>().normal_product({p.pairs, p.result, V.data(), r, normal.data()});
  for (std::int64_t c = 0; c < r; ++c) {
    std::vector<double> t(static_cast<std::size_t>(n), 0.0), size(t);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < m; ++j) {
        const double term = p.k(i, j) * static_cast<double>(V[static_cast<std::size_t>(j * r + c)]);
        t[static_cast<std::size_t>(i)] += term;
        size[static_cast<std::size_t>(i)] += std::fabs(term);
      }
      CHECK(close<T>(product[static_cast<std::size_t>(i * r + c)], t[static_cast<std::size_t>(i)],
                     size[static_cast<std::size_t>(i)]));
    }
    for (std::int64_t j = 0; j < m; ++j) {
      double total = 0, terms = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        total += p.k(i, j) * t[static_cast<std::size_t>(i)];
        terms += std::fabs(p.k(i, j)) * size[static_cast<std::size_t>(i)];
      }
      CHECK(close<T>(normal[static_cast<std::size_t>(j * r + c)], total, terms));
    }
  }
}

// Sum of weight(i, j) over the pairs, against `got`.
template <class T, class F>
void check_sum(double got, const Problem<T>& p, std::int64_t i0, std::int64_t i1, std::int64_t j0,
               std::int64_t j1, F weight) {
  double total = 0, terms = 0;
  for (std::int64_t i = i0; i < i1; ++i)
    for (std::int64_t j = j0; j < j1; ++j) {
      total += p.k(i, j) * weight(i, j);
      terms += std::fabs(p.k(i, j) * weight(i, j));
    }
  CHECK(close<T>(got, total, terms));
}

Output make_output(OutputKind kind, std::int32_t reg, std::vector<double>& target,
                   std::int64_t size) {
  target.assign(static_cast<std::size_t>(size), 0.0);
  Output output;
  output.kind = kind;
  output.reg = reg;
  output.target = target.data();
  return output;
}

template <class T>
void check_contract(const Engine& engine, const Problem<T>& p) {
  const std::int64_t n = p.rows.n, m = p.cols.n, d = p.rows.d;
  std::vector<double> sum, rows, columns, dots, differences, scales;
  ContractJob<T> job{p.pairs,
                     {make_output(OutputKind::sum, p.result, sum, 1),
                      make_output(OutputKind::row_sums, p.result, rows, n),
                      make_output(OutputKind::column_sums, p.result, columns, m),
                      make_output(OutputKind::dot_inputs, p.result, dots, n * d),
                      make_output(OutputKind::distance_inputs, p.result, differences, n * d),
                      make_output(OutputKind::distance_scales, p.result, scales, d)}};
  for (const Output& output : job.outputs) check_output(p.pairs, output, job.fold);
  engine.table<T>().contract(job);
  const auto one = [](std::int64_t, std::int64_t) { return 1.0; };
  check_sum(sum[0], p, 0, n, 0, m, one);
  for (std::int64_t i = 0; i < n; ++i)
    check_sum(rows[static_cast<std::size_t>(i)], p, i, i + 1, 0, m, one);
  for (std::int64_t j = 0; j < m; ++j)
    check_sum(columns[static_cast<std::size_t>(j)], p, 0, n, j, j + 1, one);
  for (std::int64_t k = 0; k < d; ++k) {
    const auto difference = [&](std::int64_t i, std::int64_t j) {
      return 2 * (p.rows.at(i, k) - p.cols.at(j, k));
    };
    for (std::int64_t i = 0; i < n; ++i) {
      check_sum(dots[static_cast<std::size_t>(i * d + k)], p, i, i + 1, 0, m,
                [&](std::int64_t, std::int64_t j) { return p.cols.at(j, k); });
      check_sum(differences[static_cast<std::size_t>(i * d + k)], p, i, i + 1, 0, m, difference);
    }
    check_sum(scales[static_cast<std::size_t>(k)], p, 0, n, 0, m,
              [&](std::int64_t i, std::int64_t j) { return std::pow(difference(i, j), 2) / 2; });
  }
}

// ---------------------------------------------------------------------------------------------
// Programs
// ---------------------------------------------------------------------------------------------

const std::vector<double> kScalars = {-0.5, 1.25, 0.75};

Instruction make(Op op, std::int32_t dst, std::int32_t a = 0, std::int32_t b = 0,
                 std::int32_t c = 0, std::int32_t s0 = 0, std::int32_t s1 = 1) {
  return {op, dst, a, b, c, s0, s1};
}

// v = exp(-(x - z)^2 / 2) + 1.25 x z - 0.5
SubProgram column_program() {
  return SubProgram({make(Op::difference, 0), make(Op::mul, 0, 0, 0), make(Op::exp, 0, 0),
                     make(Op::x, 1), make(Op::z, 2), make(Op::mul, 1, 1, 2),
                     make(Op::affine, 1, 1, 0, 0, 1, 0), make(Op::add, 0, 0, 1)},
                    3, 0, 0);
}

std::vector<Program> leaf_programs() {
  std::vector<Program> programs;
  for (const Op op :
       {Op::dot, Op::squared_distance, Op::manhattan, Op::row, Op::column, Op::identity, Op::block})
    programs.push_back(Program({make(op, 0)}, 1, {}, {}));
  programs.push_back(Program({make(Op::sparse_dot, 0, 1)}, 1, {}, {}));
  programs.push_back(Program({make(Op::bit_dot, 0, 2)}, 1, {}, {}));
  for (const std::int32_t reduction : {0, 1, 2, 3})
    programs.push_back(
        Program({make(Op::coordinate, 0, 0, 0, reduction)}, 1, {column_program()}, {}));
  return programs;
}

// Each operation on a positive, a signed and a 0/1 register; the result overwrites the first.
std::vector<Program> elementwise_programs() {
  std::vector<Program> programs;
  for (const OpInfo& op : operations()) {
    if (op.op < Op::affine || op.table) continue;
    programs.push_back(Program({make(Op::squared_distance, 0), make(Op::affine, 0, 0, 0, 0, 1, 2),
                                make(Op::row, 1), make(Op::less, 2, 0, 1), make(op.op, 0, 0, 1, 2)},
                               3, {}, {}));
  }
  programs.push_back(
      Program({make(Op::block, 0), make(Op::tanh, 0, 0), make(Op::row, 1),
               make(Op::arctan2, 1, 1, 0), make(Op::less, 2, 0, 1), make(Op::where, 0, 2, 1, 0)},
              3, {}, {}));
  programs.push_back(Program({make(Op::fill, 0)}, 1, {}, {}));
  return programs;
}

// More panels than are computed together, on either side; the last pass over columns is short.
template <class T>
void test_many_columns(const Engine& engine) {
  for (const Op op : {Op::dot, Op::squared_distance, Op::manhattan}) {
    const Program program({make(op, 0), make(Op::affine, 0, 0, 0, 0, 0, 1)}, 1, {}, {});
    for (const auto& [n, m] : {std::pair{273, 21}, std::pair{21, 273}}) {
      const Problem<T> problem(program, 0, kScalars, n, m, 531);
      check_gram(engine, problem);
      check_symmetric(engine, problem);
      check_products(engine, problem, 2);
    }
  }
}

template <class T>
void test_programs(const Engine& engine) {
  const std::int64_t sizes[][3] = {{1, 1, 3},   {17, 33, 1}, {33, 17, 17},
                                   {5, 300, 4}, {20, 9, 0},  {9, 40, 150}};
  for (const auto& [n, m, d] : sizes)
    for (const Program& program : leaf_programs()) {
      // The oracle of the elementary polynomials runs over subsets.
      if (d > 20 && !program.coordinates.empty()) continue;
      const Problem<T> problem(program, 0, kScalars, n, m, d);
      check_gram(engine, problem);
      check_products(engine, problem, 1);
      check_products(engine, problem, 8);
      check_contract(engine, problem);
      const Op op = program.code[0].op;
      if (op != Op::row && op != Op::column && op != Op::block) check_symmetric(engine, problem);
    }
  for (const Program& program : elementwise_programs()) {
    const Problem<T> problem(program, 0, kScalars, 18, 35, 2);
    check_gram(engine, problem);
    check_products(engine, problem, 3);
  }
  const Program distance({make(Op::squared_distance, 0)}, 1, {}, {});
  const Problem<T> large(distance, 0, kScalars, 300, 290, 3);
  check_gram(engine, large);
  check_symmetric(engine, large);
  test_many_columns<T>(engine);
}

// ---------------------------------------------------------------------------------------------
// Adjoints of coordinate reductions: against finite differences of the oracle
// ---------------------------------------------------------------------------------------------

// v = a (x - z)^2 + x z, with dv/dx, x dv/dx (a scale) and dv/da, each times the seed.
SubProgram adjoint_program() {
  return SubProgram({make(Op::difference, 0), make(Op::mul, 1, 0, 0), make(Op::x, 2),
                     make(Op::z, 3), make(Op::mul, 4, 2, 3), make(Op::axpy, 4, 4, 1, 0, 0),
                     make(Op::seed, 5), make(Op::mul, 1, 1, 5), make(Op::axpy, 3, 3, 0, 0, 1),
                     make(Op::mul, 3, 3, 5), make(Op::mul, 2, 2, 3)},
                    6, 4, 0);
}

template <class T>
void test_adjoint(const Engine& engine, std::int64_t n, std::int64_t m, std::int64_t d,
                  std::int32_t reduction) {
  const double a = 0.5, h = 1e-6;
  const Program program({make(Op::block, 0)}, 1, {adjoint_program()}, {});
  const Problem<T> p(program, 0, {a, 2 * a}, n, m, d);
  std::vector<double> inputs, scales(static_cast<std::size_t>(d)), params(1);
  Output output = make_output(OutputKind::coordinate_adjoint, 0, inputs, n * d);
  output.reduction = reduction;
  output.value_reg = 4;
  output.input_reg = 3;
  output.scale_reg = 2;
  output.param_regs = {1};
  output.scales = scales.data();
  output.params = params.data();
  check_output(p.pairs, output, Fold::none);
  engine.table<T>().contract({p.pairs, {output}});

  // The reduced value of a pair, with coordinate k of x and the parameter shifted.
  const auto value = [&](std::int64_t i, std::int64_t j, std::int64_t k, double dx, double da) {
    std::vector<double> v;
    for (std::int64_t q = 0; q < d; ++q) {
      const double x = p.rows.at(i, q) + (q == k ? dx : 0.0), z = p.cols.at(j, q);
      v.push_back((a + da) * (x - z) * (x - z) + x * z);
    }
    return reduce(v, reduction);
  };
  const auto near = [](double got, double want, double scale) {
    return std::fabs(got - want) <= (sizeof(T) == 4 ? 2e-4 : 1e-7) * (1 + scale);
  };
  double param = 0, param_size = 0;
  std::vector<double> scale(static_cast<std::size_t>(d)), scale_size(scale);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t k = 0; k < d; ++k) {
      double input = 0, size = 0;
      for (std::int64_t j = 0; j < m; ++j) {
        const double slope = (value(i, j, k, h, 0) - value(i, j, k, -h, 0)) / (2 * h);
        input += p.k(i, j) * slope;
        size += std::fabs(p.k(i, j) * slope);
      }
      CHECK(near(inputs[static_cast<std::size_t>(i * d + k)], input, size));
      scale[static_cast<std::size_t>(k)] += p.rows.at(i, k) * input;
      scale_size[static_cast<std::size_t>(k)] += size;
    }
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < m; ++j) {
      const double term = p.k(i, j) * (value(i, j, -1, 0, h) - value(i, j, -1, 0, -h)) / (2 * h);
      param += term;
      param_size += std::fabs(term);
    }
  for (std::size_t k = 0; k < scale.size(); ++k) CHECK(near(scales[k], scale[k], scale_size[k]));
  CHECK(near(params[0], param, param_size));
}

// ---------------------------------------------------------------------------------------------
// Folded contractions: totals of B_ij s_ij for a symmetric s and any B, from half of the pairs
// ---------------------------------------------------------------------------------------------

template <class T>
void test_folded(const Engine& engine, std::int64_t n, Fold fold) {
  const std::int64_t d = 3;
  const Program program({make(Op::squared_distance, 0), make(Op::block, 1), make(Op::mul, 0, 0, 1)},
                        2, {}, {});
  const Points<T> points(n, d);
  const std::vector<T> B = draws<T>(n * n);
  std::vector<T> given = B;
  if (fold == Fold::lower)
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        given[static_cast<std::size_t>(i * n + j)] =
            j > i ? std::numeric_limits<T>::quiet_NaN()  // must not be read
                  : B[static_cast<std::size_t>(i * n + j)] + B[static_cast<std::size_t>(j * n + i)];
  Pairs<T> pairs;
  pairs.program = &program;
  pairs.rows = pairs.cols = &points.side;
  pairs.blocks = {{given.data(), n}};
  std::vector<double> sum, scales;
  const ContractJob<T> job{pairs,
                           {make_output(OutputKind::sum, 0, sum, 1),
                            make_output(OutputKind::distance_scales, 0, scales, d)},
                           fold};
  for (const Output& output : job.outputs) check_output(pairs, output, fold);
  engine.table<T>().contract(job);
  double total = 0, terms = 0;
  std::vector<double> by_column(static_cast<std::size_t>(d));
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      const auto square = [&](std::int64_t k) {
        return std::pow(points.at(i, k) - points.at(j, k), 2);
      };
      const double term = static_cast<double>(B[static_cast<std::size_t>(i * n + j)]) *
                          (square(0) + square(1) + square(2));
      total += term;
      terms += std::fabs(term) * 20;  // a bound on the terms of the columns too
      for (std::int64_t k = 0; k < d; ++k)
        by_column[static_cast<std::size_t>(k)] += 2 * term * square(k);
    }
  CHECK(close<T>(sum[0], total, terms));
  for (std::size_t k = 0; k < by_column.size(); ++k)
    CHECK(close<T>(scales[k], by_column[k], terms));
}

// ---------------------------------------------------------------------------------------------
// Lookup tables: u^2, exactly, on [1/4, 8)
// ---------------------------------------------------------------------------------------------

template <class T>
void test_lookup(const Engine& engine) {
  constexpr int first = -2, octaves = 5, bits = 2;
  std::vector<double> packed = {first, octaves, bits, 2, 0.125};
  for (int octave = 0; octave < octaves; ++octave)
    for (int sub = 0; sub < 1 << bits; ++sub) {
      const double width = std::ldexp(1.0, first + octave - bits);
      const double middle = std::ldexp(1.0, first + octave) + (sub + 0.5) * width;
      for (double c : {middle * middle, middle * width, width * width / 4}) packed.push_back(c);
    }
  const Program program(
      {make(Op::block, 0), make(Op::lookup, 1, 0, 0), make(Op::lookup_slope, 0, 0, 0)}, 2, {},
      {LookupTable(packed)});
  std::vector<T> u = {T(0), T(-1),   T(0.2),   T(0.25), T(7.9),
                      T(8), T(1e30), T(1e-40), T(3),    std::numeric_limits<T>::infinity()};
  while (u.size() < 50) u.push_back(static_cast<T>(draw(0.25, 8)));
  const auto m = static_cast<std::int64_t>(u.size());
  Points<T> row(1, 0), columns(m, 0);
  Pairs<T> pairs;
  pairs.program = &program;
  pairs.rows = &row.side;
  pairs.cols = &columns.side;
  pairs.blocks = {{u.data(), m}};
  std::vector<T> value(u.size()), slope(u.size());
  engine.table<T>().gram({pairs, 1, value.data(), m, false});
  engine.table<T>().gram({pairs, 0, slope.data(), m, false});
  for (std::size_t i = 0; i < u.size(); ++i) {
    const double x = static_cast<double>(u[i]);
    const bool inside = x >= 0.25 && x < 8;
    CHECK(close<T>(value[i], x < 0.25 ? 0.125 : inside ? x * x : 0.0, 0.0));
    CHECK(close<T>(slope[i], inside ? 2 * x : 0.0, 0.0));
  }
}

// ---------------------------------------------------------------------------------------------
// Threads, interruption, errors
// ---------------------------------------------------------------------------------------------

template <class T>
void test_threads(const Engine& engine, std::int64_t n, std::int64_t m) {
  const Program program({make(Op::squared_distance, 0), make(Op::exp, 0, 0)}, 1, {}, {});
  const Points<T> rows(n, 3), cols(m, 3);
  const std::vector<T> V = draws<T>(2 * m);
  Pairs<T> pairs;
  pairs.program = &program;
  pairs.scalars = kScalars;
  pairs.rows = &rows.side;
  pairs.cols = &cols.side;
  const auto run = [&](int threads) {
    pairs.threads = threads;
    std::vector<T> product(static_cast<std::size_t>(2 * n)),
        normal(static_cast<std::size_t>(2 * m));
    engine.table<T>().product({pairs, 0, V.data(), 2, product.data()});
    engine.table<T>().normal_product({pairs, 0, V.data(), 2, normal.data()});
    std::vector<double> sum, columns, scales;
    engine.table<T>().contract({pairs,
                                {make_output(OutputKind::sum, 0, sum, 1),
                                 make_output(OutputKind::column_sums, 0, columns, m),
                                 make_output(OutputKind::distance_scales, 0, scales, 3)}});
    std::vector<double> all(product.begin(), product.end());
    all.insert(all.end(), normal.begin(), normal.end());
    for (const auto& part : {sum, columns, scales}) all.insert(all.end(), part.begin(), part.end());
    return all;
  };
  const std::vector<double> single = run(1);
  CHECK(single == run(2));
  CHECK(single == run(5));
}

template <class T>
void test_interrupt(const Engine& engine) {
  const Program program({make(Op::squared_distance, 0), make(Op::exp, 0, 0)}, 1, {}, {});
  const Points<T> points(40'000, 20);
  const std::vector<T> V = draws<T>(points.n);
  std::vector<T> out(V.size());
  int asked = 0;
  Pairs<T> pairs;
  pairs.program = &program;
  pairs.scalars = kScalars;
  pairs.rows = pairs.cols = &points.side;
  pairs.interrupt = {[](void* self) { return ++*static_cast<int*>(self) > 1; }, &asked};
  for (const int threads : {1, 3}) {
    asked = 0;
    pairs.threads = threads;
    CHECK(throws<Interrupted>(
        [&] { engine.table<T>().product({pairs, 0, V.data(), 1, out.data()}); }));
    CHECK(asked == 2);
  }
}

// Few rows of many columns are asked about too, before the first tile is done.
template <class T>
void test_interrupt_of_many_columns(const Engine& engine) {
  const Program program({make(Op::squared_distance, 0)}, 1, {}, {});
  const Points<T> points(150, 5'000);
  std::vector<T> out(static_cast<std::size_t>(points.n * points.n), T(-77));
  Pairs<T> pairs;
  pairs.program = &program;
  pairs.rows = pairs.cols = &points.side;
  pairs.interrupt = {[](void*) { return true; }, nullptr};
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  CHECK(
      throws<Interrupted>([&] { engine.table<T>().gram({pairs, 0, out.data(), points.n, true}); }));
  CHECK(out.front() == T(-77));
}

// An exception in a worker reaches the caller: no machine has the scatter buffer of this slot.
template <class T>
void test_exhausted_memory(const Engine& engine) {
  const Program program({make(Op::sparse_dot, 0, 1)}, 1, {}, {});
  Points<T> points(2'000, 30);
  points.side.slots[1].columns = kMaxPoints;
  std::vector<T> out(static_cast<std::size_t>(points.n * points.n));
  Pairs<T> pairs;
  pairs.program = &program;
  pairs.rows = pairs.cols = &points.side;
  for (const int threads : {1, 3}) {
    pairs.threads = threads;
    CHECK(throws<std::bad_alloc>(
        [&] { engine.table<T>().gram({pairs, 0, out.data(), points.n, false}); }));
  }
}

// Zeros and ones, row by row or column by column, become bits; another number is refused.
template <class T>
void test_pack_bits(const Engine& engine) {
  for (const std::int64_t d : {1, 31, 64, 65, 200}) {
    const std::int64_t n = 70, words = divide_up(d, 64);
    std::vector<T> x(static_cast<std::size_t>(n * d));
    for (T& value : x) value = draw() > 0 ? T(1) : T(0);
    for (const bool by_rows : {true, false}) {
      const std::int64_t down = by_rows ? d : 1, right = by_rows ? 1 : n;
      std::vector<std::uint64_t> packed(static_cast<std::size_t>(n * words));
      const PackBitsJob<T> job{{x.data(), n, d, down, right}, packed.data(), 2, {}};
      CHECK(engine.table<T>().pack_bits(job));
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t k = 0; k < words * 64; ++k) {
          const bool bit = packed[static_cast<std::size_t>(i * words + k / 64)] >> (k % 64) & 1;
          CHECK(bit == (k < d && x[static_cast<std::size_t>(i * down + k * right)] == T(1)));
        }
      T& last = x.back();
      const T value = std::exchange(last, T(2));
      CHECK(!engine.table<T>().pack_bits(job));
      last = value;
    }
  }
}

void test_bad_programs() {
  const auto refused = [](std::vector<Instruction> code, std::int32_t registers,
                          std::vector<SubProgram> subs = {}) {
    return throws<std::invalid_argument>([&] { Program(code, registers, subs, {}); });
  };
  const std::int32_t unknown[] = {99, 0, 0, 0, 0, 0, 0};
  CHECK(throws<std::invalid_argument>([&] { parse_code(unknown, 1); }));
  CHECK(refused({}, 0));
  CHECK(refused({make(Op::fill, 1)}, 1));
  CHECK(refused({make(Op::fill, -1)}, 1));
  CHECK(refused({make(Op::add, 0, 0, 0)}, 1));  // read before written
  CHECK(refused({make(Op::fill, 0), make(Op::where, 0, 0, 0, 1)}, 2));
  CHECK(refused({make(Op::fill, 0, 0, 0, 0, -1)}, 1));
  CHECK(refused({make(Op::x, 0)}, 1));
  CHECK(refused({make(Op::fill, 0), make(Op::lookup, 0, 0, 0)}, 1));
  CHECK(refused({make(Op::coordinate, 0)}, 1));
  CHECK(refused({make(Op::coordinate, 0, 0, 0, -1)}, 1, {column_program()}));
  CHECK(refused({make(Op::coordinate, 0, 0, 0, 1)}, 1, {adjoint_program()}));
  CHECK(throws<std::invalid_argument>([] { SubProgram({make(Op::dot, 0)}, 1, 0, 0); }));
  CHECK(throws<std::invalid_argument>([] { SubProgram({make(Op::x, 0)}, 2, 1, 0); }));
  CHECK(throws<std::invalid_argument>([] { LookupTable({0, 1, 0, 3, 0, 1}); }));
  CHECK(throws<std::invalid_argument>([] { LookupTable({0.5, 1, 0, 0, 0, 1}); }));
}

void test_bad_calls() {
  Points<double> points(5, 2);
  const auto refused = [&](Instruction line, std::vector<double> scalars) {
    const Program program({line}, 1, {column_program()}, {});
    Pairs<double> pairs;
    pairs.program = &program;
    pairs.scalars = std::move(scalars);
    pairs.rows = pairs.cols = &points.side;
    return throws<std::invalid_argument>([&] { check_pairs(pairs); });
  };
  CHECK(!refused(make(Op::dot, 0), kScalars));
  CHECK(refused(make(Op::dot, 0), {}));  // the sub-program needs scalars
  CHECK(refused(make(Op::dot, 0, 1), kScalars));
  CHECK(refused(make(Op::dot, 0, 2), kScalars));
  CHECK(refused(make(Op::dot, 0, 3), kScalars));
  CHECK(refused(make(Op::bit_dot, 0, 0), kScalars));
  CHECK(refused(make(Op::dot, 0, -1), kScalars));
  CHECK(refused(make(Op::sparse_dot, 0, 0), kScalars));
  CHECK(refused(make(Op::row, 0, 1), kScalars));
  CHECK(refused(make(Op::column, 0, 1), kScalars));
  CHECK(refused(make(Op::block, 0, 0), kScalars));
  CHECK(refused(make(Op::fill, 0, 0, 0, 0, 3), kScalars));
  const Program whole({make(Op::dot, 0)}, 1, {}, {});
  Pairs<double> pairs;
  pairs.program = &whole;
  pairs.rows = pairs.cols = &points.side;
  std::vector<double> rows;
  const Output row_sums = make_output(OutputKind::row_sums, 0, rows, 5);
  CHECK(throws<std::invalid_argument>([&] { check_output(pairs, row_sums, Fold::sum); }));
  const std::int64_t falling[] = {0, 2, 1}, outside[] = {0, 1, 2}, columns[] = {0, 7};
  CHECK(throws<std::invalid_argument>([&] { check_sparse(2, 9, falling, 3, columns, 1); }));
  CHECK(throws<std::invalid_argument>([&] { check_sparse(2, 7, outside, 3, columns, 2); }));
}

void test_data() {
  const std::vector<double> x = draws<double>(35);
  const double centre[] = {1, 2, 3}, scale[] = {2, 0.5, 1};
  AlignedBuffer<double> panels(16 * 3);
  const StridedMatrix<double> strided{x.data(), 10, 3, 3, 2};
  pack_panels(strided, {10}, centre, scale, panels.data());
  for (std::int64_t i = 0; i < 16; ++i)
    for (std::int64_t k = 0; k < 3; ++k)
      CHECK(panels[(i / 8 * 3 + k) * 8 + i % 8] ==
            (i < 10 ? (x[static_cast<std::size_t>(i * 3 + k * 2)] - centre[k]) * scale[k] : 0.0));
  AlignedBuffer<float> narrow(16 * 3);
  pack_panels(strided, {10}, centre, scale, narrow.data());
  for (std::int64_t i = 0; i < 16; ++i)
    for (std::int64_t k = 0; k < 3; ++k)
      CHECK(narrow[k * 16 + i] == static_cast<float>(panels[(i / 8 * 3 + k) * 8 + i % 8]));
  const std::int64_t some[] = {9, 0, 4, 4};
  AlignedBuffer<double> part(8 * 3);
  pack_panels(strided, {4, some}, centre, scale, part.data());
  for (std::int64_t i = 0; i < 8; ++i)
    for (std::int64_t k = 0; k < 3; ++k)
      CHECK(part[k * 8 + i] == (i < 4 ? panels[(some[i] / 8 * 3 + k) * 8 + some[i] % 8] : 0.0));
  double least[3], largest[3];
  column_ranges(strided, least, largest);
  for (std::int64_t k = 0; k < 3; ++k)
    for (std::int64_t i = 0; i < 10; ++i) {
      const double value = x[static_cast<std::size_t>(i * 3 + k * 2)];
      CHECK(least[k] <= value && value <= largest[k]);
    }
  for (std::size_t at = 0; at < x.size(); ++at) {
    std::vector<double> y = x;
    CHECK(all_finite<double>({y.data(), 5, 7, 7, 1}) && all_finite<double>({y.data(), 7, 5, 1, 7}));
    y[at] = at % 2 ? std::numeric_limits<double>::infinity() : std::nan("");
    CHECK(!all_finite<double>({y.data(), 5, 7, 7, 1}));
    CHECK(!all_finite<double>({y.data(), 7, 5, 1, 7}));
  }
}

template <class T>
void test_engine(const Engine& engine) {
  test_programs<T>(engine);
  for (const std::int32_t reduction : {0, 1, 2, 3}) {
    test_adjoint<T>(engine, 17, 20, 3, reduction);
    test_adjoint<T>(engine, 3, 5, 1, reduction);
  }
  for (std::int64_t n : {1, 16, 37, 700})
    for (Fold fold : {Fold::sum, Fold::lower}) test_folded<T>(engine, n, fold);
  test_lookup<T>(engine);
  test_threads<T>(engine, 300, 700);
  test_threads<T>(engine, 5, 20'000);
  test_interrupt<T>(engine);
  test_interrupt_of_many_columns<T>(engine);
  test_exhausted_memory<T>(engine);
  test_pack_bits<T>(engine);
}

}  // namespace
}  // namespace mercer

int main() {
  mercer::test_bad_programs();
  mercer::test_bad_calls();
  mercer::test_data();
  for (const mercer::Engine* engine : mercer::available_engines()) {
    std::printf("engine %s\n", engine->name);
    mercer::test_engine<float>(*engine);
    mercer::test_engine<double>(*engine);
  }
  std::printf("%d failures\n", mercer::oracle::failures);
  return mercer::oracle::failures == 0 ? 0 : 1;
}
