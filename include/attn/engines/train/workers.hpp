#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace attn::train {

/// Threads that share out numbered tasks. Which thread takes which task is left to chance, so a task writes only what is
/// its own, and what several tasks give is added up afterwards, in the order of their numbers.
class Workers {
public:
    /// @param threads  at least 1; the caller's own is one of them. There are fewer where no more can be had.
    explicit Workers(std::size_t threads);
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;
    ~Workers();

    std::size_t threads() const { return helpers_.size() + 1; }

    /// Calls task(number, thread) for each number below `count`, and returns when all are done.
    /// Where tasks throw, the rest is left, and the first exception is thrown here.
    void run(std::size_t count, const std::function<void(std::size_t task, std::size_t thread)>& task);

private:
    void help(std::size_t thread);
    void work(std::size_t thread);

    std::mutex mutex_;
    std::condition_variable begin_, end_;
    const std::function<void(std::size_t, std::size_t)>* task_ = nullptr;
    std::size_t count_ = 0;
    std::atomic<std::size_t> next_ = 0;
    std::size_t round_ = 0, busy_ = 0;
    bool is_over_ = false;
    std::exception_ptr failure_;
    std::vector<std::thread> helpers_;
};

} // namespace attn::train
