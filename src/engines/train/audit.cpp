#include "attn/engines/train/audit.hpp"

#include "attn/formula/evaluate.hpp"
#include "attn/formula/scope.hpp"

namespace attn::train {

void append_update(Recording& recording, const std::string& path, const Array& first_before, const Array& second_before,
                   const AdamOptions& options, const AdamFactors& factors)
{
    const std::vector<std::string> axes = recording.at(path).axes;
    const auto append = [&](const std::string& name, const std::string& formula, Array value) {
        const std::string whole = "adam." + path + "." + name;
        if (!formula.empty()) {
            const auto find = [&](const std::string& step) -> const Array* {
                const Step* const found = recording.find(step);
                return found == nullptr ? nullptr : &found->value;
            };
            value = formula::evaluate(formula, [&](std::string_view mentioned) {
                        return formula::resolve(whole, mentioned, find);
                    }).value;
        }
        recording.steps.push_back({whole, formula, axes, "adam", {}, std::move(value)});
    };
    append("first_before", "", first_before);
    append("second_before", "", second_before);
    append("first",
           exact_text(options.beta1) + " * first_before + " + exact_text(1 - options.beta1) + " * grad." + path, {});
    append("second",
           exact_text(options.beta2) + " * second_before + " + exact_text(1 - options.beta2) + " * grad." + path +
               " ** 2",
           {});
    append("step",
           exact_text(factors.step) + " * first / (" + exact_text(factors.scale) + " * sqrt(second) + " +
               exact_text(options.epsilon) + ")",
           {});
    append("after", (factors.shrink == 1 ? "" : exact_text(factors.shrink) + " * ") + path + " - step", {});
}

} // namespace attn::train
