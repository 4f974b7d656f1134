// Kernels of strings, a header for each family: the functions of one instruction set.
#pragma once

#include "strings/edit_distances.hpp"
#include "strings/local_alignments.hpp"
#include "strings/subsequences.hpp"
#include "strings/weighted_degree.hpp"
#include "strings/windows.hpp"

namespace mercer::MERCER_ISA {

constexpr StringTable string_table() {
  return {run_windows,      run_word_counts,      run_weighted_degree,
          run_subsequences, run_local_alignments, run_edit_distances};
}

}  // namespace mercer::MERCER_ISA
