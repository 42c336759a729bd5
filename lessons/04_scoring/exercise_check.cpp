// Compares exercise 4 with the library, with queries and keys of different sizes.

#include "exercise.hpp"

#include "../exercise_check.hpp"

#include "attn/reference/attention/bilinear.hpp"

using namespace attn;

namespace {

void check(Exercise& exercise)
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
    additive_attention(queries, keys, values, weights, {}, Trace(additive));
    exercise.expect({"my_additive_score",
                     {{"query", query},
                      {"key", key},
                      {"query_weights", weights.query},
                      {"key_weights", weights.key},
                      {"score_weights", weights.score}}},
                    additive, "scores",
                    [&] { return my_additive_score(query, key, weights); });

    Recorder general;
    bilinear_attention(queries, keys, values, bilinear, {}, Trace(general));
    exercise.expect(
        {"my_bilinear_score", {{"query", query}, {"key", key}, {"bilinear", bilinear}}},
        general, "scores", [&] { return my_bilinear_score(query, key, bilinear); });
}

} // namespace

int main(int argc, char** argv) { return Exercise::run("04_scoring", argc, argv, check); }
