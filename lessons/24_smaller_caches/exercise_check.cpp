// Compares exercise 24 with a key that is made of the latent.

#include "exercise.hpp"

#include "../exercise_check.hpp"

#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/random.hpp"
#include "attn/reference/ops/terms.hpp"

#include <cmath>
#include <tuple>

using namespace attn;

namespace {

void expect_score(Exercise& exercise, const Vector& query, const Vector& rotary_query,
                  const Matrix& key_weights, const Vector& latent,
                  const Vector& shared_key)
{
    Recorder run;
    const Trace trace(run);
    const Term asked = trace.given("query[d_n]", query);
    std::ignore = trace.given("rotary_query[d_r]", rotary_query);
    const Term up = trace.given("key_weights[d_c, d_n]", key_weights);
    const Term kept = trace.given("latent[d_c]", latent);
    const Term shared = trace.given("shared_key[d_r]", shared_key);
    const Term absorbed = trace("absorbed[d_c]", matmul(up, asked));
    std::ignore = trace("latent_keys[d_c_r]", concat(std::vector{kept, shared}, 0));
    const Term keys = trace("keys[d_k]", concat(std::vector{matmul(kept, up), shared},
                                                0)); // which no one has to make
    const double score = trace("scores", "absorbed @ latent + rotary_query @ shared_key",
                               dot(*absorbed, latent) + dot(rotary_query, shared_key));
    const double scale = 1 / std::sqrt(static_cast<double>(keys.size()));
    std::ignore = trace("scaled", "scores * " + exact_text(scale), score * scale);
    exercise.expect({"my_absorbed_score",
                     {{"query", query},
                      {"rotary_query", rotary_query},
                      {"key_weights", key_weights},
                      {"latent", latent},
                      {"shared_key", shared_key}}},
                    run, "scaled", [&] {
                        return my_absorbed_score(query, rotary_query, key_weights, latent,
                                                 shared_key);
                    });
}

void check(Exercise& exercise)
{
    expect_score(exercise, {1, 2}, {1, 0.5}, {{1, 0}, {0, 1}, {1, -1}}, {1, 2, 3},
                 {2, 1});
    expect_score(exercise, {1, 2, 0}, {0.5}, {{1, 0, 2}, {0, 3, 1}}, {-1, 2}, {4});
    RandomNumbers numbers(24);
    const Vector query = numbers.vector(4), rotary_query = numbers.vector(2);
    const Matrix key_weights = numbers.matrix(6, 4);
    const Vector latent = numbers.vector(6);
    expect_score(exercise, query, rotary_query, key_weights, latent, numbers.vector(2));
}

} // namespace

int main(int argc, char** argv)
{
    return Exercise::run("24_smaller_caches", argc, argv, check);
}
