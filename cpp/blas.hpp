// BLAS and LAPACK as the engine calls them: each call runs on the thread that makes it.
//
// The library is the one that SciPy brings: Python hands over its functions (Fortran's interface).
#pragma once

#include <cstdint>

namespace mercer {

template <class T>
struct Blas {
  void (*gemm)(char* trans_a, char* trans_b, int* m, int* n, int* k, T* alpha, T* a, int* lda, T* b,
               int* ldb, T* beta, T* c, int* ldc) = nullptr;
  void (*gemv)(char* trans, int* m, int* n, T* alpha, T* a, int* lda, T* x, int* incx, T* beta,
               T* y, int* incy) = nullptr;
  void (*syrk)(char* uplo, char* trans, int* n, int* k, T* alpha, T* a, int* lda, T* beta, T* c,
               int* ldc) = nullptr;
  void (*trsm)(char* side, char* uplo, char* trans, char* diag, int* m, int* n, T* alpha, T* a,
               int* lda, T* b, int* ldb) = nullptr;
  void (*potrf)(char* uplo, int* n, T* a, int* lda, int* info) = nullptr;
  void (*larft)(char* direct, char* storev, int* n, int* k, T* v, int* ldv, T* tau, T* t,
                int* ldt) = nullptr;
};

// A part of a matrix in column-major order.
template <class T>
struct Part {
  T* data;
  int rows, columns, stride;

  T* at(std::int64_t i, std::int64_t j) const { return data + i + j * stride; }
  Part from(std::int64_t i, std::int64_t j, std::int64_t rows, std::int64_t columns) const {
    return {at(i, j), static_cast<int>(rows), static_cast<int>(columns), stride};
  }
};

// c = alpha op(a) op(b) + beta c, where op transposes if the flag is 'T'.
template <class T>
void multiply(const Blas<T>& blas, char trans_a, char trans_b, T alpha, Part<T> a, Part<T> b,
              T beta, Part<T> c) {
  if (c.rows == 0 || c.columns == 0) return;
  int depth = trans_a == 'N' ? a.columns : a.rows;
  if (depth > 0 && c.columns == 1) {  // a matrix times a vector is not packed
    int step = trans_b == 'N' ? 1 : b.stride, unit = 1;
    blas.gemv(&trans_a, &a.rows, &a.columns, &alpha, a.data, &a.stride, b.data, &step, &beta,
              c.data, &unit);
    return;
  }
  if (depth > 0 && c.rows == 1) {
    int step = trans_a == 'N' ? a.stride : 1;
    char turned = trans_b == 'N' ? 'T' : 'N';
    blas.gemv(&turned, &b.rows, &b.columns, &alpha, b.data, &b.stride, a.data, &step, &beta, c.data,
              &c.stride);
    return;
  }
  blas.gemm(&trans_a, &trans_b, &c.rows, &c.columns, &depth, &alpha, a.data, &a.stride, b.data,
            &b.stride, &beta, c.data, &c.stride);
}

}  // namespace mercer
