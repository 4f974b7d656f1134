// The fastest a core can multiply and add: independent chains of fused operations in registers.

#if defined(__AVX512F__)
constexpr int width = 64;
#elif defined(__AVX__)
constexpr int width = 32;
#else
constexpr int width = 16;
#endif

// Enough chains to hide the latency of two units, few enough to stay in 16 registers.
constexpr int chains = 12;

template <class T>
double run(long steps, T factor, T term, T* sink) {
  using Vector [[gnu::vector_size(width)]] = T;
  constexpr int lanes = width / sizeof(T);
  Vector chain[chains];
  for (int c = 0; c < chains; ++c) chain[c] = Vector{} + T(c);
  const Vector x = Vector{} + factor, y = Vector{} + term;
  for (long step = 0; step < steps; ++step)
    for (int c = 0; c < chains; ++c) chain[c] = chain[c] * x + y;
  Vector sum{};
  for (int c = 0; c < chains; ++c) sum += chain[c];
  *sink = sum[0];
  return 2.0 * lanes * chains * steps;
}

extern "C" double fma_float32(long steps, float* sink) {
  return run<float>(steps, 0.5f, 1.0f, sink);
}

extern "C" double fma_float64(long steps, double* sink) {
  return run<double>(steps, 0.5, 1.0, sink);
}
