#include "attn/engines/train/workers.hpp"

#include <system_error>
#include <utility>

namespace attn::train {

Workers::Workers(std::size_t threads)
{
    try {
        for (std::size_t thread = 1; thread < threads; ++thread)
            helpers_.emplace_back([this, thread] { help(thread); });
    } catch (const std::system_error&) { // with fewer the numbers are the same
    }
}

Workers::~Workers()
{
    {
        const std::lock_guard lock(mutex_);
        is_over_ = true;
    }
    begin_.notify_all();
    for (std::thread& helper : helpers_)
        helper.join();
}

void Workers::run(std::size_t count, const std::function<void(std::size_t, std::size_t)>& task)
{
    {
        const std::lock_guard lock(mutex_);
        task_ = &task;
        count_ = count;
        next_ = 0;
        busy_ = helpers_.size();
        ++round_;
    }
    begin_.notify_all();
    work(0);
    std::unique_lock lock(mutex_);
    end_.wait(lock, [this] { return busy_ == 0; });
    if (failure_)
        std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Workers::help(std::size_t thread)
{
    for (std::size_t seen = 0;;) {
        {
            std::unique_lock lock(mutex_);
            begin_.wait(lock, [&] { return is_over_ || round_ != seen; });
            if (is_over_)
                return;
            seen = round_;
        }
        work(thread);
        const std::lock_guard lock(mutex_);
        if (--busy_ == 0)
            end_.notify_one();
    }
}

void Workers::work(std::size_t thread)
{
    try {
        for (std::size_t number = next_++; number < count_; number = next_++)
            (*task_)(number, thread);
    } catch (...) {
        const std::lock_guard lock(mutex_);
        failure_ = failure_ ? failure_ : std::current_exception();
        next_ = count_;
    }
}

} // namespace attn::train
