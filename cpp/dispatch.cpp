// Chooses the instruction set at run time, so that one build serves every machine.
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "engine.hpp"

namespace mercer {

std::vector<const Engine*> available_engines() {
  std::vector<const Engine*> engines = {&baseline_engine};
#if defined(MERCER_X86_64)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    engines.push_back(&avx2_engine);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
    engines.push_back(&avx512_engine);
#endif
  return engines;
}

namespace {

// The engine that MERCER_CPU names ("baseline", "avx2" or "avx512", for tests), otherwise the
// fastest one.
const Engine& chosen_engine() {
  const std::vector<const Engine*> engines = available_engines();
  const char* wanted = std::getenv("MERCER_CPU");
  if (wanted == nullptr || *wanted == '\0') return *engines.back();
  std::string names;
  for (const Engine* engine : engines) {
    if (std::string(engine->name) == wanted) return *engine;
    names += std::string(names.empty() ? "" : ", ") + engine->name;
  }
  throw std::invalid_argument("MERCER_CPU: '" + std::string(wanted) +
                              "' is not an instruction set of this machine; it has " + names + ".");
}

}  // namespace

const Engine& engine() {
  static const Engine& chosen = chosen_engine();
  return chosen;
}

}  // namespace mercer
