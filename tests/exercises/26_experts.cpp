#include "26_experts/exercise.hpp"

#include "attn/reference/ops/softmax.hpp"

#include <algorithm>

using namespace attn;

Vector my_mixture(const Vector& router_logits, const Matrix& expert_outputs,
                  const Vector& shared_output, std::size_t top, bool is_normalized)
{
    const Vector scores = softmax(router_logits); // over all experts
    Vector rest = scores, output = shared_output;
    double sum = 0;
    std::vector<std::size_t> chosen;
    for (std::size_t i = 0; i < top; ++i) {
        const auto best = static_cast<std::size_t>(
            std::max_element(rest.begin(), rest.end()) - rest.begin());
        chosen.push_back(best);
        sum += scores(best);
        rest(best) = -1;
    }
    const double all = is_normalized ? sum : 1;
    for (const std::size_t expert : chosen)
        output += scores(expert) / all * xt::row(expert_outputs, expert);
    return output;
}
