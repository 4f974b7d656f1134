// The engine for every machine: what the compiler may assume of the target, and no more.
#define MERCER_ISA baseline
#define MERCER_VECTOR_BYTES 16
#include "engine_isa.hpp"

namespace mercer {
extern const Engine baseline_engine;
const Engine baseline_engine = {"baseline", baseline::engine_table<float>(),
                                baseline::engine_table<double>(), baseline::series_table(),
                                baseline::string_table()};
}  // namespace mercer
