// Chooses the instruction set at run time, so that one build serves every machine.
#include "engine.hpp"

namespace mercer {

std::vector<const Engine*> available_engines() {
  std::vector<const Engine*> engines = {&baseline_engine};
#if defined(MERCER_WITH_AVX2)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    engines.push_back(&avx2_engine);
#endif
  return engines;
}

const Engine& engine() {
  static const Engine& best = *available_engines().back();
  return best;
}

}  // namespace mercer
