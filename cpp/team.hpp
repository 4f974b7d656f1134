// Phases of work within one call, which the calling thread opens one after another.
//
// A factorisation has thousands of short phases. Threads that slept between two of them would be
// woken too late. Here they wait awake until the call ends, and give way to other processes if the
// wait is long. The caller takes units too: a helper that is late delays nothing but its own unit.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>

#include "threads.hpp"

namespace mercer {

class Team {
 public:
  // Runs `lead(team)` on the calling thread, with helpers that wait for its phases.
  template <class Lead>
  static void run(int threads, Interrupt interrupt, Lead lead) {
    const std::thread::id caller = std::this_thread::get_id();
    Team team;
    auto body = [&](Worker& worker) {
      if (std::this_thread::get_id() != caller) return team.help();
      team.leader_ = &worker;
      const Closing closing{team};
      lead(team);
    };
    run_workers(threads, threads, interrupt, WorkerBody(body));
  }

  // Calls task(unit), or task(unit, member) with the number of the thread, for every unit, on all
  // threads; false if the call is to end. `work` is that of a unit, in vector operations.
  template <class Task>
  bool share(std::int64_t units, std::int64_t work, Task task) {
    task_ = [](void* self, std::int64_t unit, int member) {
      if constexpr (std::is_invocable_v<Task, std::int64_t, int>) {
        (*static_cast<Task*>(self))(unit, member);
      } else {
        (*static_cast<Task*>(self))(unit);
      }
    };
    self_ = &task;
    first_ = next_.load(std::memory_order_relaxed);
    end_.store(first_ + units, std::memory_order_release);
    while (take(0))
      if (!leader_->keep_going(work)) stopped_.store(true, std::memory_order_relaxed);
    while (done_.load(std::memory_order_acquire) < first_ + units) pause();
    return !stopped_;
  }

 private:
  struct Closing {
    Team& team;
    ~Closing() { team.closed_.store(true, std::memory_order_release); }
  };

  void help() {
    const int member = members_.fetch_add(1, std::memory_order_relaxed);
    for (int waits = 0; !closed_.load(std::memory_order_acquire);) {
      if (take(member)) {
        waits = 0;
      } else if (++waits < kWaits) {
        pause();
      } else {
        std::this_thread::yield();
      }
    }
  }

  // Does the next unit of the open phase; false if none is left.
  bool take(int member) {
    std::int64_t unit = next_.load(std::memory_order_relaxed);
    do {
      if (unit >= end_.load(std::memory_order_acquire)) return false;
    } while (!next_.compare_exchange_weak(unit, unit + 1, std::memory_order_acq_rel));
    if (!stopped_) task_(self_, unit - first_, member);
    done_.fetch_add(1, std::memory_order_release);
    return true;
  }

  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    std::this_thread::yield();
#endif
  }

  static constexpr int kWaits = 2000;  // about 50 microseconds
  std::atomic<std::int64_t> next_{0}, end_{0}, done_{0};
  std::atomic<bool> closed_{false}, stopped_{false};
  std::atomic<int> members_{1};  // the leader is number 0
  // The open phase. The leader changes it only when all of its units are done.
  void (*task_)(void*, std::int64_t, int) = nullptr;
  void* self_ = nullptr;
  std::int64_t first_ = 0;
  Worker* leader_ = nullptr;
};

}  // namespace mercer
