// The engine for x86-64 machines with AVX-512; compiled with those instructions enabled.
#define MERCER_ISA avx512
#define MERCER_VECTOR_BYTES 64
#include "engine_isa.hpp"

namespace mercer {
extern const Engine avx512_engine;
const Engine avx512_engine = {"avx512", avx512::engine_table<float>(),
                              avx512::engine_table<double>(), avx512::series_table(),
                              avx512::string_table()};
}  // namespace mercer
