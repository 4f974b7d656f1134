#include "memory.hpp"

namespace mercer {

void* allocate_lines(std::size_t count, std::size_t element_size) {
  const std::size_t largest = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  if (count > (largest - kCacheLine) / element_size) throw std::bad_alloc();
  // At least one line, so that an empty buffer still has an address.
  const std::size_t bytes = count * element_size > 0 ? count * element_size : kCacheLine;
  return ::operator new(bytes, std::align_val_t(kCacheLine));
}

void release_lines(void* memory) noexcept {
  ::operator delete(memory, std::align_val_t(kCacheLine));
}

}  // namespace mercer
