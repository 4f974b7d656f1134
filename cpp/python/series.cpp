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

SeriesSide side_of(const Times& values, const Places& starts, const Places& ends) {
  require(starts.shape(0) == ends.shape(0), "series: starts and ends must have one length.");
  const auto total = static_cast<std::int64_t>(values.shape(0));
  for (std::size_t i = 0; i < starts.shape(0); ++i)
    require(0 <= starts(i) && starts(i) < ends(i) && ends(i) <= total,
            "series: every item must be a part of the values, and not be empty.");
  return {values.data(), starts.data(), ends.data(), static_cast<std::int64_t>(starts.shape(0))};
}

nb::object series(const std::string& name, const Times& values, const Places& starts,
                  const Places& ends, const std::optional<Times>& other_values,
                  const std::optional<Places>& other_starts,
                  const std::optional<Places>& other_ends, bool diagonal, double sigma,
                  std::int64_t band, int level, bool gaussian, int threads) {
  const auto kind = kKinds.find(name);
  require(kind != kKinds.end(), "series: '" + name + "' is not a kernel of series.");
  const bool symmetric = !other_values || !other_starts || !other_ends;
  require(symmetric || !diagonal, "series: a diagonal has one side.");
  require(sigma > 0.0, "series: sigma must be positive.");
  require(band >= -1 && band < (std::int64_t(1) << 40), "series: the band must be small.");
  const bool truncated = kind->second == SeriesKind::signature;
  require(truncated <= level && level <= (truncated ? kMostLevels : kMostRefinement),
          "series: there are so many levels only.");
  SeriesJob job;
  job.kind = kind->second;
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
  job.gaussian = gaussian;
  AlignedBuffer<double> out(diagonal ? job.rows.count : job.rows.count * job.cols.count);
  job.out = out.data();
  job.threads = threads;
  job.interrupt = {signal_arrived, nullptr};
  run_released([&] { engine().series(job); });
  if (diagonal) return to_numpy(std::move(out), {as_size(job.rows.count)});
  return to_numpy(std::move(out), {as_size(job.rows.count), as_size(job.cols.count)});
}

}  // namespace

void bind_series(nb::module_& m) {
  m.def("series", series, "kind"_a, "values"_a, "starts"_a, "ends"_a, "other_values"_a.none(),
        "other_starts"_a.none(), "other_ends"_a.none(), "diagonal"_a, "sigma"_a, "band"_a,
        "level"_a, "gaussian"_a, "threads"_a,
        nb::sig("def series(kind: str, values: numpy.typing.NDArray[numpy.float64], "
                "starts: numpy.typing.NDArray[numpy.int64], "
                "ends: numpy.typing.NDArray[numpy.int64], "
                "other_values: numpy.typing.NDArray[numpy.float64] | None, "
                "other_starts: numpy.typing.NDArray[numpy.int64] | None, "
                "other_ends: numpy.typing.NDArray[numpy.int64] | None, diagonal: bool, "
                "sigma: float, band: int, level: int, gaussian: bool, threads: int) -> "
                "numpy.typing.NDArray[numpy.float64]"),
        "A kernel, or its logarithm or cost, of all pairs of series, of all pairs of one side, or "
        "of each series with itself.");
}

}  // namespace mercer::python
