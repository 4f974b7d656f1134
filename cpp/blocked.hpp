// Products, factors and triangular solutions of large matrices: blocks of them are shared by the
// engine's threads, and each block is one call of BLAS.
//
// BLAS libraries have threads of their own, which keep a core busy while they wait. These do not
// get in the way of the engine's. Blocks are fixed by the sizes, so that results depend on
// the number of threads by the rounding of BLAS at most, and an interrupt is noticed between two
// blocks.
#pragma once

#include "blas.hpp"
#include "threads.hpp"

namespace mercer {

struct Sharing {
  int threads = 1;
  Interrupt interrupt;
};

// Which part of a product is computed.
enum class Triangle { all, lower, upper };

// c = alpha op(a) op(b) + beta c; of the tiles on the wrong side of the diagonal, none.
template <class T>
void blocked_product(const Blas<T>& blas, char trans_a, char trans_b, T alpha, Part<T> a, Part<T> b,
                     T beta, Part<T> c, Triangle triangle, Sharing sharing);

// The upper triangle of a symmetric matrix becomes that of its factor U, a = U'U; false if there is
// none. The strict lower triangle stays as it is.
template <class T>
bool blocked_cholesky(const Blas<T>& blas, Part<T> a, Sharing sharing);

// The upper triangle of s K s + shift I, for a diagonal matrix s; K is symmetric and row-major.
template <class T>
void blocked_scaling(const T* matrix, std::int64_t stride, const T* scales, T shift, Part<T> out,
                     Sharing sharing);

// b becomes op(u)^-1 b, for an upper triangle u.
template <class T>
void blocked_solve(const Blas<T>& blas, Part<T> u, char trans, Part<T> b, Sharing sharing);

}  // namespace mercer
