// Memory on cache-line boundaries, so that panels and tiles never straddle a line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace mercer {

inline constexpr std::size_t kCacheLine = 64;

// Not templates and not inline: one copy exists, compiled for the baseline, whichever translation
// unit calls it. Sizes that overflow throw std::bad_alloc, as does an exhausted machine.
void* allocate_lines(std::size_t count, std::size_t element_size);
void release_lines(void* memory) noexcept;

// Memory for the length of one call, which the next call of this kind takes over: the system clears
// new pages, which takes as long as reading a matrix. At most 32 MB are kept between calls.
void* borrow_lines(std::size_t count, std::size_t element_size);
void return_lines(void* memory) noexcept;

// An owned array on a cache-line boundary. The content is not initialised.
template <class T>
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::int64_t size)
      : data_(static_cast<T*>(allocate_lines(static_cast<std::size_t>(size), sizeof(T)))),
        size_(size) {}
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;
  ~AlignedBuffer() { release_lines(data_); }

  // Hands the memory over; free it with `release_lines`.
  T* release() {
    size_ = 0;
    return std::exchange(data_, nullptr);
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::int64_t size() const { return size_; }
  T& operator[](std::int64_t i) { return data_[i]; }
  const T& operator[](std::int64_t i) const { return data_[i]; }
  void fill(T value) {
    for (std::int64_t i = 0; i < size_; ++i) data_[i] = value;
  }
  // Makes room for `size` elements; the old content is lost when the buffer has to grow.
  void reserve(std::int64_t size) {
    if (size > size_) *this = AlignedBuffer(size);
  }

 private:
  T* data_ = nullptr;
  std::int64_t size_ = 0;
};

// An array on a cache-line boundary in borrowed memory. The content is not initialised.
template <class T>
class BorrowedBuffer {
 public:
  explicit BorrowedBuffer(std::int64_t size)
      : data_(static_cast<T*>(borrow_lines(static_cast<std::size_t>(size), sizeof(T)))) {}
  BorrowedBuffer(const BorrowedBuffer&) = delete;
  BorrowedBuffer& operator=(const BorrowedBuffer&) = delete;
  ~BorrowedBuffer() { return_lines(data_); }

  T* data() { return data_; }

 private:
  T* data_;
};

}  // namespace mercer
