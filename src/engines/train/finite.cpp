#include "attn/engines/train/finite.hpp"

#include "attn/core/array.hpp"
#include "attn/core/error.hpp"

#include <cmath>
#include <string>
#include <vector>

namespace attn::train {
namespace {

[[noreturn]] void end_training(const std::string& what, double number, std::uint64_t steps)
{
    throw Error("training has diverged: ", what, " after ", steps, " steps is ", exact_text(number),
                ". What was saved before is as it was; begin again with a smaller rate, or look for a mistake");
}

} // namespace

double finite_loss(double loss, std::uint64_t steps)
{
    if (!std::isfinite(loss))
        end_training("the loss", loss, steps);
    return loss;
}

template <class Number>
void expect_finite(const BasicAdamState<Number>& state)
{
    const auto check = [&](const char* name, const std::vector<Number>& numbers) {
        for (std::size_t i = 0; i < numbers.size(); ++i)
            if (!std::isfinite(numbers[i]))
                end_training(std::string(name) + "[" + std::to_string(i) + "]", static_cast<double>(numbers[i]),
                             state.steps);
    };
    check("weights", state.weights);
    check("first_moment", state.first);
    check("second_moment", state.second);
}

template void expect_finite(const BasicAdamState<float>&);
template void expect_finite(const BasicAdamState<double>&);

} // namespace attn::train
