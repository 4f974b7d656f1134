// Included once per instruction set: the functions of that unit, as a table.
#pragma once

#include "contract.hpp"
#include "gram.hpp"
#include "hadamard.hpp"
#include "inverse.hpp"
#include "normal_product.hpp"
#include "product.hpp"
#include "row_sum.hpp"
#include "series.hpp"
#include "smo.hpp"
#include "smo_batch.hpp"
#include "strings.hpp"
#include "tridiagonal.hpp"

namespace mercer::MERCER_ISA {

template <class T>
constexpr EngineTable<T> engine_table() {
  return {run_gram<T>,      run_product<T>,   run_normal_product<T>, run_contract<T>,
          run_pack_bits<T>, run_hadamard<T>,  run_waves<T>,          run_inverse<T>,
          run_smo<T>,       run_smo_batch<T>, run_row_sum<T>,        run_tridiagonal<T>,
          run_leverages<T>};
}

}  // namespace mercer::MERCER_ISA
