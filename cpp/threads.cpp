#include "threads.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace mercer {

namespace {
constexpr auto kPollInterval = std::chrono::milliseconds(50);
// About 20 microseconds of vector work between two looks at the clock.
constexpr std::int64_t kPollWork = 100'000;
// About half a millisecond: below that a second thread costs more than it brings.
constexpr double kWorkPerThread = 1.5e7;
// When this thread last asked whether to stop.
thread_local std::chrono::steady_clock::time_point last_poll;
}  // namespace

std::int64_t Worker::next_unit() { return queue_.take(); }

bool Worker::keep_going(std::int64_t work) {
  since_poll_ += work;
  if (is_caller_ && since_poll_ >= kPollWork) {
    since_poll_ = 0;
    queue_.poll();
  }
  return !queue_.stopped();
}

std::int64_t WorkQueue::take() {
  if (stopped()) return -1;
  const std::int64_t unit = next_.fetch_add(1, std::memory_order_relaxed);
  return unit < units_ ? unit : -1;
}

void WorkQueue::poll() {
  const auto now = std::chrono::steady_clock::now();
  if (interrupt_.requested == nullptr || now - last_poll < kPollInterval) return;
  last_poll = now;
  if (interrupt_.requested(interrupt_.self)) {
    interrupted_ = true;
    stop();
  }
}

int useful_threads(int threads, std::int64_t units, double work) {
  const double worthwhile = std::max(1.0, std::min(work / kWorkPerThread, 1e6));
  return static_cast<int>(
      std::max<std::int64_t>(1, std::min({static_cast<std::int64_t>(threads), units,
                                          static_cast<std::int64_t>(worthwhile)})));
}

void run_workers(std::int64_t units, int threads, Interrupt interrupt, WorkerBody body) {
  WorkQueue queue(units, interrupt);
  std::mutex mutex;
  std::exception_ptr failure;
  auto run = [&](bool is_caller) {
    try {
      Worker worker(queue, is_caller);
      body(worker);
    } catch (...) {
      queue.stop();
      const std::lock_guard<std::mutex> lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  // Helpers still at work; the caller waits for them in short steps, to stay interruptible.
  int busy = 0;
  std::condition_variable finished;
  auto help = [&] {
    run(false);
    const std::lock_guard<std::mutex> lock(mutex);
    --busy;
    finished.notify_one();
  };
  std::vector<std::thread> helpers;
  try {
    helpers.reserve(static_cast<std::size_t>(threads - 1));
    for (int t = 1; t < threads; ++t) {
      const std::lock_guard<std::mutex> lock(mutex);
      helpers.emplace_back(help);
      ++busy;
    }
  } catch (const std::system_error&) {
    // The system grants no more threads: the ones that exist do the work, with the same result.
  }
  run(true);
  if (!helpers.empty()) {
    std::unique_lock<std::mutex> lock(mutex);
    while (!finished.wait_for(lock, kPollInterval, [&] { return busy == 0; })) {
      lock.unlock();
      queue.poll();
      lock.lock();
    }
  }
  for (std::thread& helper : helpers) helper.join();
  if (failure) std::rethrow_exception(failure);
  if (queue.interrupted()) throw Interrupted();
}

}  // namespace mercer
