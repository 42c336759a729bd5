#include "attn/reference/models/sampling.hpp"

#include "attn/core/error.hpp"
#include "attn/reference/ops/softmax.hpp"

#include <cmath>

namespace attn {

std::size_t argmax(const Vector& logits)
{
    std::size_t best = 0;
    for (std::size_t token = 0; token < logits.size(); ++token) {
        if (std::isnan(logits(token)))
            throw Error("the logit of token " + std::to_string(token) + " is NaN: no next token can be chosen");
        if (logits(token) > logits(best))
            best = token;
    }
    return best;
}

std::size_t sample(const Vector& logits, double temperature, RandomNumbers& numbers)
{
    if (!(temperature >= 0) || !std::isfinite(temperature))
        throw Error("a temperature is a number from 0, not " + exact_text(temperature));
    const std::size_t likeliest = argmax(logits);
    if (temperature == 0)
        return likeliest;

    // Relative to the largest, so that no temperature is too small to divide by.
    const Vector probabilities = softmax(Vector((logits - logits(likeliest)) / temperature));
    double left = (numbers.next() + 1) / 2; // from 0, below 1
    for (std::size_t token = 0; token < probabilities.size(); ++token) {
        left -= probabilities(token);
        if (left < 0)
            return token;
    }
    return likeliest; // the probabilities sum to one but for rounding
}

} // namespace attn
