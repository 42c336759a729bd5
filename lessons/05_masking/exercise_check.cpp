// Compares exercise.cpp with the library.

#include "exercise.hpp"

#include "../lesson.hpp"

#include "attn/attention/mask.hpp"
#include "attn/ops/softmax.hpp"

#include <limits>

using namespace attn;

namespace {

void check(Lesson& lesson)
{
    const Matrix scores{{2, 1, 0, 3}, {0.5, -1, 4, 0}, {1, 1, 1, 1}, {-2, 0, 2, 8}};
    for (const std::size_t length : {4, 2, 1}) {
        const AnyMask mask = std::get<BatchMask>(
            *join_masks(4, 4,
                        {.causal = Causal::bottom_right,
                         .key_lengths = Integers{static_cast<std::int64_t>(length)}}));
        const Tensor3 batch = xt::view(scores, xt::newaxis(), xt::all(), xt::all());
        const Tensor3 expected =
            softmax(apply_mask(mask, batch, -std::numeric_limits<double>::infinity()));
        lesson.expect_equal("my_masked_weights is the library's, for a length of " +
                                std::to_string(length),
                            my_masked_weights(scores, length),
                            Matrix(xt::view(expected, 0, xt::all(), xt::all())));
    }
}

} // namespace

int main(int argc, char** argv) { return Lesson::run("05_masking", argc, argv, check); }
