// The engine for x86-64 machines with AVX2 and FMA; compiled with those instructions enabled.
#define MERCER_ISA avx2
#define MERCER_VECTOR_BYTES 32
#include "engine_isa.hpp"

namespace mercer {
extern const Engine avx2_engine;
const Engine avx2_engine = {"avx2", avx2::engine_table<float>(), avx2::engine_table<double>(),
                            avx2::series_table(), avx2::string_table()};
}  // namespace mercer
