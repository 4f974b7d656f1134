#include "memory.hpp"

namespace mercer {

void* allocate_lines(std::size_t count, std::size_t element_size) {
  // Beyond any address space; also keeps the product from overflowing.
  constexpr std::size_t largest = std::size_t{1} << 56;
  if (count > largest / element_size) throw std::bad_alloc();
  // At least one line, so that an empty buffer still has an address.
  const std::size_t bytes = count * element_size > 0 ? count * element_size : kCacheLine;
  return ::operator new(bytes, std::align_val_t(kCacheLine));
}

void release_lines(void* memory) noexcept {
  ::operator delete(memory, std::align_val_t(kCacheLine));
}

}  // namespace mercer
