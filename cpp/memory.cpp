#include "memory.hpp"

#include <atomic>
#include <cstdlib>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace mercer {

namespace {
// A large buffer begins at a large page, so that few pages have to be found for it (NumPy's do).
constexpr std::size_t kHugePage = std::size_t{1} << 21;
constexpr std::size_t kLarge = 2 * kHugePage;

// The line before borrowed memory.
struct alignas(kCacheLine) Loan {
  std::size_t bytes;
};
constexpr std::size_t kMostKept = std::size_t{1} << 25;
std::atomic<Loan*> kept{nullptr};
}  // namespace

void* allocate_lines(std::size_t count, std::size_t element_size) {
  // Beyond any address space; also keeps the product from overflowing.
  constexpr std::size_t largest = std::size_t{1} << 56;
  if (count > largest / element_size) throw std::bad_alloc();
  // At least one line, so that an empty buffer still has an address.
  const std::size_t bytes = count * element_size > 0 ? count * element_size : kCacheLine;
  const std::size_t alignment = bytes >= kLarge ? kHugePage : kCacheLine;
  void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
#if defined(__linux__)
  if (bytes >= kLarge) madvise(memory, bytes, MADV_HUGEPAGE);
#endif
  return memory;
}

void release_lines(void* memory) noexcept { std::free(memory); }

void* borrow_lines(std::size_t count, std::size_t element_size) {
  const std::size_t lines = count / (kCacheLine / element_size) + 2;
  Loan* loan = kept.exchange(nullptr, std::memory_order_acquire);
  if (loan == nullptr || loan->bytes < lines * kCacheLine) {
    release_lines(loan);
    loan = new (allocate_lines(lines, kCacheLine)) Loan{lines * kCacheLine};
  }
  return loan + 1;
}

void return_lines(void* memory) noexcept {
  Loan* loan = static_cast<Loan*>(memory) - 1;
  if (loan->bytes <= kMostKept) loan = kept.exchange(loan, std::memory_order_acq_rel);
  release_lines(loan);
}

}  // namespace mercer
