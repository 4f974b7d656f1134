// Units of work shared by threads.
//
// The units are fixed by the problem, never by the number of threads; who computes a unit does not
// change its result. Threads that have helped wait for the next call, and sleep if it does not come
// soon; a process that is forked starts threads of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>

namespace mercer {

// Asked about every 50 ms, on the calling thread alone, whether the call should end. The time is
// counted from one call of `run_workers` to the next: many short ones in a row are asked about too.
struct Interrupt {
  bool (*requested)(void* self) = nullptr;
  void* self = nullptr;
};

// Thrown by `run_workers` after an interrupt, when all threads have stopped.
struct Interrupted : std::exception {
  const char* what() const noexcept override { return "interrupted"; }
};

class WorkQueue;

// One thread's handle on the queue.
class Worker {
 public:
  Worker(WorkQueue& queue, bool is_caller) : queue_(queue), is_caller_(is_caller) {}
  // The next unit, or -1 when all are taken or the call is being stopped.
  std::int64_t next_unit();
  // False once the call is being stopped. Call it every few microseconds of work; `work` (about one
  // floating-point vector operation each) keeps the clock from being read more often than useful.
  bool keep_going(std::int64_t work);

 private:
  WorkQueue& queue_;
  bool is_caller_;
  std::int64_t since_poll_ = 0;
};

class WorkQueue {
 public:
  WorkQueue(std::int64_t units, Interrupt interrupt) : units_(units), interrupt_(interrupt) {}
  std::int64_t take();
  bool stopped() const { return stop_.load(std::memory_order_relaxed); }
  void stop() { stop_.store(true, std::memory_order_relaxed); }
  void poll();
  bool interrupted() const { return interrupted_; }

 private:
  std::int64_t units_;
  Interrupt interrupt_;
  std::atomic<std::int64_t> next_{0};
  std::atomic<bool> stop_{false};
  bool interrupted_ = false;  // written and read by the calling thread alone
};

// Reference to a callable `void(Worker&)` that outlives the call.
class WorkerBody {
 public:
  template <class F>
  explicit WorkerBody(F& body)
      : self_(&body), call_([](void* self, Worker& worker) { (*static_cast<F*>(self))(worker); }) {}
  void operator()(Worker& worker) const { call_(self_, worker); }

 private:
  void* self_;
  void (*call_)(void*, Worker&);
};

// Threads worth starting for `work` floating-point operations in `units` units.
int useful_threads(int threads, std::int64_t units, double work);

// Runs `body` on up to `threads` threads, the caller's among them, once on each; each takes units
// from the queue until none is left, and those that come too late for one do not begin. Rethrows
// the first exception of any thread, or throws Interrupted.
void run_workers(std::int64_t units, int threads, Interrupt interrupt, WorkerBody body);

}  // namespace mercer
