#pragma once

#include "attn/trace.hpp"

#include <vector>

namespace attn {

/// Keeps every step it hears, in order.
class Recorder final : public Listener {
public:
    const std::vector<Step>& steps() const { return steps_; }

private:
    std::optional<Array> on_step(const Step& step) override
    {
        steps_.push_back(step);
        return std::nullopt;
    }

    std::vector<Step> steps_;
};

} // namespace attn
