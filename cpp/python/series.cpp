// Kernels of time series.
#include <map>

#include "arrays.hpp"

namespace mercer::python {
namespace {

using Times = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Places = Vector<std::int64_t>;

const std::map<std::string, SeriesKind> kKinds = {
    {"dtw", SeriesKind::dtw},
    {"soft_dtw", SeriesKind::soft_dtw},
    {"global_alignment", SeriesKind::global_alignment},
    {"signature", SeriesKind::signature},
    {"signature_pde", SeriesKind::signature_pde},
};

SeriesSide side_of(const double* values, std::size_t times, const Places& starts,
                   const Places& ends) {
  require(starts.shape(0) == ends.shape(0), "series: starts and ends must have one length.");
  const auto total = static_cast<std::int64_t>(times);
  for (std::size_t i = 0; i < starts.shape(0); ++i)
    require(0 <= starts(i) && starts(i) < ends(i) && ends(i) <= total,
            "series: every item must be a part of the values, and not be empty.");
  return {values, starts.data(), ends.data(), static_cast<std::int64_t>(starts.shape(0))};
}

SeriesSide side_of(const Times& values, const Places& starts, const Places& ends) {
  return side_of(values.data(), values.shape(0), starts, ends);
}

SeriesKind kind_of(const std::string& name, int level) {
  const auto kind = kKinds.find(name);
  require(kind != kKinds.end(), "series: '" + name + "' is not a kernel of series.");
  const bool truncated = kind->second == SeriesKind::signature;
  require(truncated <= level && level <= (truncated ? kMostLevels : kMostRefinement),
          "series: there are so many levels only.");
  return kind->second;
}

nb::object series(const std::string& name, const Times& values, const Places& starts,
                  const Places& ends, const std::optional<Times>& other_values,
                  const std::optional<Places>& other_starts,
                  const std::optional<Places>& other_ends, bool diagonal, double sigma,
                  std::int64_t band, int level, int threads) {
  const bool symmetric = !other_values || !other_starts || !other_ends;
  require(symmetric || !diagonal, "series: a diagonal has one side.");
  require(sigma > 0.0, "series: sigma must be positive.");
  require(band >= -1 && band < (std::int64_t(1) << 40), "series: the band must be small.");
  SeriesJob job;
  job.kind = kind_of(name, level);
  job.rows = job.cols = side_of(values, starts, ends);
  job.channels = static_cast<std::int64_t>(values.shape(1));
  require(job.channels > 0, "series: there must be a channel.");
  if (!symmetric) {
    require(other_values->shape(1) == values.shape(1),
            "series: both sides must have the same number of channels.");
    job.cols = side_of(*other_values, *other_starts, *other_ends);
  }
  job.shape = diagonal    ? SeriesShape::diagonal
              : symmetric ? SeriesShape::symmetric
                          : SeriesShape::matrix;
  job.sigma = sigma;
  job.band = band;
  job.depth = job.refinement = level;
  AlignedBuffer<double> out(diagonal ? job.rows.count : job.rows.count * job.cols.count);
  job.out = out.data();
  job.threads = threads;
  job.interrupt = {signal_arrived, nullptr};
  run_released([&] { engine().series.pairs(job); });
  if (diagonal) return to_numpy(std::move(out), {as_size(job.rows.count)});
  return to_numpy(std::move(out), {as_size(job.rows.count), as_size(job.cols.count)});
}

nb::object static_signature(const std::string& name, int level, const Places& starts,
                            const Places& ends, std::int64_t length, std::int64_t step,
                            const nb::callable& values, int threads) {
  StaticSignatureJob job;
  job.kind = kind_of(name, level);
  require(job.kind == SeriesKind::signature || job.kind == SeriesKind::signature_pde,
          "static_signature: '" + name + "' is not a signature.");
  job.depth = job.refinement = level;
  for (std::size_t i = 0; i < ends.shape(0); ++i) job.times = std::max(job.times, ends(i));
  job.cols = side_of(nullptr, as_size(job.times), starts, ends);
  require(length > 0 && step > 0, "static_signature: the length and the step must be positive.");
  job.length = length;
  job.step = step;
  std::optional<Times> block;  // the values in use
  job.values = [&](std::int64_t begin, std::int64_t end) {
    const nb::gil_scoped_acquire gil;
    block = nb::cast<Times>(values(begin, end));
    require(block->shape(0) == as_size(end - begin) && block->shape(1) == as_size(job.times),
            "static_signature: the values must have a row for each time, and a column for each.");
    return block->data();
  };
  AlignedBuffer<double> out(job.cols.count);
  job.out = out.data();
  job.threads = threads;
  job.interrupt = {signal_arrived, nullptr};
  run_released([&] { engine().series.static_signature(job); });
  return to_numpy(std::move(out), {as_size(job.cols.count)});
}

nb::object iterated_integrals(const Times& increments, const Places& starts, const Places& ends,
                              int levels, int threads) {
  IteratedIntegralsJob job;
  require(0 < levels && levels <= kMostLevels && increments.shape(1) % as_size(levels) == 0,
          "iterated_integrals: every level must have the same number of draws.");
  job.rows = side_of(increments, starts, ends);
  job.levels = levels;
  job.draws = static_cast<std::int64_t>(increments.shape(1)) / levels;
  AlignedBuffer<double> out(job.rows.count * levels * job.draws);
  job.out = out.data();
  job.threads = threads;
  job.interrupt = {signal_arrived, nullptr};
  run_released([&] { engine().series.iterated_integrals(job); });
  return to_numpy(std::move(out), {as_size(job.rows.count), increments.shape(1)});
}

}  // namespace

void bind_series(nb::module_& m) {
  m.def("series", series, "kind"_a, "values"_a, "starts"_a, "ends"_a, "other_values"_a.none(),
        "other_starts"_a.none(), "other_ends"_a.none(), "diagonal"_a, "sigma"_a, "band"_a,
        "level"_a, "threads"_a,
        nb::sig("def series(kind: str, values: numpy.typing.NDArray[numpy.float64], "
                "starts: numpy.typing.NDArray[numpy.int64], "
                "ends: numpy.typing.NDArray[numpy.int64], "
                "other_values: numpy.typing.NDArray[numpy.float64] | None, "
                "other_starts: numpy.typing.NDArray[numpy.int64] | None, "
                "other_ends: numpy.typing.NDArray[numpy.int64] | None, diagonal: bool, "
                "sigma: float, band: int, level: int, threads: int) -> "
                "numpy.typing.NDArray[numpy.float64]"),
        "A kernel, or its logarithm or cost, of all pairs of series, of all pairs of one side, or "
        "of each series with itself.");
  m.def("static_signature", static_signature, "kind"_a, "level"_a, "starts"_a, "ends"_a, "length"_a,
        "step"_a, "values"_a, "threads"_a,
        nb::sig("def static_signature(kind: str, level: int, "
                "starts: numpy.typing.NDArray[numpy.int64], "
                "ends: numpy.typing.NDArray[numpy.int64], length: int, step: int, "
                "values: collections.abc.Callable[[int, int], "
                "numpy.typing.NDArray[numpy.float64]], threads: int) -> "
                "numpy.typing.NDArray[numpy.float64]"),
        "The signature kernel of one series with others. values(begin, end) returns the kernel of "
        "some of its times with all times of the others.");
  m.def("iterated_integrals", iterated_integrals, "increments"_a, "starts"_a, "ends"_a, "levels"_a,
        "threads"_a,
        nb::sig("def iterated_integrals(increments: numpy.typing.NDArray[numpy.float64], "
                "starts: numpy.typing.NDArray[numpy.int64], "
                "ends: numpy.typing.NDArray[numpy.int64], levels: int, threads: int) -> "
                "numpy.typing.NDArray[numpy.float64]"),
        "For each series, draw c and level m the iterated integral of the channels c of parts 1 to "
        "m of the increments.");
}

}  // namespace mercer::python
