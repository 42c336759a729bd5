// Holds exercise.cpp against the library, with queries and keys of different sizes.

#include "exercise.hpp"

#include "../lesson.hpp"

#include "attn/attention/bilinear.hpp"
#include "attn/trace_io/recorder.hpp"

using namespace attn;

namespace {

/// The scores that a traced attention recorded on its way.
Vector recorded_scores(const Recorder& recorder)
{
    for (const Step& step : recorder.steps())
        if (step.path == "scores")
            return xt::row(from_array<Matrix>(step.value), 0);
    return {};
}

void check(Lesson& lesson)
{
    const Vector query{1, -2};
    const Vector key{0.5, 1, -1};
    const Matrix queries{{1, -2}}, keys{{0.5, 1, -1}}, values{{1}};
    const AdditiveWeights weights{
        {{0.5, -0.25, 0, 0.25}, {0, 0.5, -0.5, 0.25}},
        {{0.25, 0, -0.25, 0.5}, {0.25, -0.5, 0, 0}, {0, 0.5, 0.25, -0.5}},
        {1, -1, 2, 0.5}};
    const Matrix bilinear{{0.5, 0, -0.5}, {0, 0.25, 0.5}};

    Recorder additive;
    additive_attention(queries, keys, values, {}, weights, {}, Trace(additive));
    lesson.expect_equal("my_additive_score is the library's",
                        Vector{my_additive_score(query, key, weights)},
                        recorded_scores(additive));

    Recorder general;
    bilinear_attention(queries, keys, values, {}, bilinear, {}, Trace(general));
    lesson.expect_equal("my_bilinear_score is the library's",
                        Vector{my_bilinear_score(query, key, bilinear)},
                        recorded_scores(general));
}

} // namespace

int main(int argc, char** argv) { return Lesson::run("04_scoring", argc, argv, check); }
