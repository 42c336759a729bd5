#pragma once

#include "attn/core/recording.hpp"

#include <vector>

namespace attn {

/// Keeps every step and every other name of one, in order.
class Recorder final : public Listener {
public:
    const Recording& recording() const { return recording_; }
    const std::vector<Step>& steps() const { return recording_.steps; }

private:
    std::optional<Array> on_step(const Step& step) override
    {
        recording_.steps.push_back(step);
        return std::nullopt;
    }

    void on_alias(const Alias& alias) override { recording_.aliases.push_back(alias); }

    Recording recording_;
};

} // namespace attn
