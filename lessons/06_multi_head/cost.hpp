#pragma once

// Counts what heads cost: products, parameters, multiplications, exponentials.

#include "../lesson.hpp"

namespace attn {

/// What h heads of d_model / h features cost on n tokens.
inline std::vector<double> count_heads(const Trace& cost, std::string_view scope,
                                       std::int64_t heads_given, std::int64_t n,
                                       std::int64_t d_model)
{
    const Trace of = cost.scope(scope);
    const std::int64_t h = of("h", "", heads_given);
    const std::int64_t d_k = of("d_k", "d_model / h", d_model / h);
    const std::int64_t parameters =
        of("parameters", "h * 3 * d_model * d_k + h * d_k * d_model",
           h * 3 * d_model * d_k + h * d_k * d_model);
    const std::int64_t multiplications =
        of("multiplications",
           "h * 3 * n * d_model * d_k + h * 2 * n ** 2 * d_k + n * h * d_k * d_model",
           h * 3 * n * d_model * d_k + h * 2 * n * n * d_k + n * h * d_k * d_model);
    const std::int64_t exponentials = of("exponentials", "h * n ** 2", h * n * n);
    return {static_cast<double>(h), static_cast<double>(d_k),
            static_cast<double>(parameters), static_cast<double>(multiplications),
            static_cast<double>(exponentials)};
}

/// Counts products, parameters and multiplications.
inline void count_cost(Lesson& lesson, std::size_t heads, std::size_t n,
                       std::size_t d_model)
{
    const Trace cost = lesson.trace().scope("cost");
    const auto number = [&](std::string_view step, std::string_view formula,
                            std::size_t value) {
        return static_cast<double>(cost(step, formula, static_cast<std::int64_t>(value)));
    };
    const double h = number("h", "", heads);
    const double loop = number("loop_products", "h * (3 + 2) + 1", heads * (3 + 2) + 1);
    const double packed = number("packed_products", "3 + 2 + 1", 3 + 2 + 1);
    number("multiplications",
           "4 * inputs.shape[0] * inputs.shape[1] ** 2 + 2 * inputs.shape[0] ** 2 * "
           "inputs.shape[1]",
           4 * n * d_model * d_model + 2 * n * n * d_model);
    lesson.table({"heads", "products: in a loop", "packed"}, {{h, loop, packed}});

    const std::int64_t tokens = cost("n", "", std::int64_t{100});
    const std::int64_t width = cost("d_model", "", std::int64_t{512});
    lesson.table({"heads", "d_k", "parameters", "multiplications", "exponentials"},
                 {count_heads(cost, "one", 1, tokens, width),
                  count_heads(cost, "eight", 8, tokens, width)});
    lesson.say("Eight heads have the parameters and multiplications of one head of full "
               "width. Only the softmax has eight times as many exponentials.");
}

} // namespace attn
