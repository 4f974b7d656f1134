#include "threads.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

namespace mercer {

namespace {
constexpr auto kPollInterval = std::chrono::milliseconds(50);
// About 20 microseconds of vector work between two looks at the clock.
constexpr std::int64_t kPollWork = 100'000;
// About half a millisecond: below that a second thread costs more than it brings.
constexpr double kWorkPerThread = 1.5e7;
// How long a thread that has helped stays awake: about what lies between two calls of one fit.
constexpr auto kLinger = std::chrono::microseconds(300);
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

// ---------------------------------------------------------------------------------------------
// Helpers
// ---------------------------------------------------------------------------------------------

namespace {

// One call of `run_workers`: what the threads that work on it share.
struct Call {
  WorkQueue& queue;
  WorkerBody body;
  int helpers = 0;               // those at work or asked for; guarded by the crew's mutex
  std::exception_ptr failure{};  // the first of any thread, guarded likewise
};

// Threads that wait for calls to help with. A new one is started only if all are busy, since
// starting one takes as long as some calls do. They are never joined: they wait until the process
// ends.
class Crew {
 public:
  void ask_for_help(Call& call, int helpers) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (int i = 0; i < helpers; ++i) {
      try {
        if (static_cast<int>(asked_.size()) >= idle_) start();
        asked_.push_back(&call);
      } catch (const std::exception&) {
        return;  // the system grants no more: the threads that exist do the work, the result is one
      }
      ++call.helpers;
      calls_.fetch_add(1, std::memory_order_release);
      wanted_.notify_one();
    }
  }

  void work(Call& call, bool is_caller) {
    try {
      Worker worker(call.queue, is_caller);
      call.body(worker);
    } catch (...) {
      call.queue.stop();
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!call.failure) call.failure = std::current_exception();
    }
  }

  // Waits, in short steps to stay interruptible, for helpers at work; those that have not begun are
  // not needed any more.
  void finish(Call& call) {
    std::unique_lock<std::mutex> lock(mutex_);
    call.helpers -= static_cast<int>(std::erase(asked_, &call));
    while (!finished_.wait_for(lock, kPollInterval, [&] { return call.helpers == 0; })) {
      lock.unlock();
      call.queue.poll();
      lock.lock();
    }
  }

 private:
  // Signals are for the threads of the program: a helper, which stays, leaves all of them alone.
  void start() {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      std::thread([this] { help(); }).detach();
    } catch (...) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ++idle_;
  }

  void help() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      lock.unlock();
      linger();
      lock.lock();
      wanted_.wait(lock, [this] { return !asked_.empty(); });
      Call& call = *asked_.front();
      asked_.pop_front();
      --idle_;
      lock.unlock();
      work(call, false);
      lock.lock();
      ++idle_;
      --call.helpers;
      finished_.notify_all();
    }
  }

  // Waits awake for the next call, and gives way to other processes: to wake a thread takes about
  // 50 microseconds.
  void linger() const {
    const int before = calls_.load(std::memory_order_acquire);
    const auto end = std::chrono::steady_clock::now() + kLinger;
    while (calls_.load(std::memory_order_acquire) == before &&
           std::chrono::steady_clock::now() < end)
      std::this_thread::yield();
  }

  std::atomic<int> calls_{0};  // that have asked for help
  std::mutex mutex_;
  std::condition_variable wanted_, finished_;
  std::deque<Call*> asked_;  // one entry for each helper that a call waits for
  int idle_ = 0;             // threads that wait, or are about to
};

// The crew of this process. After a fork the threads of the old one are gone, and its mutex may be
// locked for ever: a child has a crew of its own.
std::atomic<Crew*> current{nullptr};
const int registered =
    pthread_atfork(nullptr, nullptr, [] { current.store(nullptr, std::memory_order_release); });

Crew& crew() {
  Crew* found = current.load(std::memory_order_acquire);
  if (found != nullptr) return *found;
  auto fresh = std::make_unique<Crew>();
  if (current.compare_exchange_strong(found, fresh.get())) found = fresh.release();
  return *found;
}

}  // namespace

void run_workers(std::int64_t units, int threads, Interrupt interrupt, WorkerBody body) {
  WorkQueue queue(units, interrupt);
  Call call{queue, body};
  Crew& helpers = crew();
  if (threads > 1) helpers.ask_for_help(call, threads - 1);
  helpers.work(call, true);
  if (threads > 1) helpers.finish(call);
  if (call.failure) std::rethrow_exception(call.failure);
  if (queue.interrupted()) throw Interrupted();
}

}  // namespace mercer
