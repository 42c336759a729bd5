// Compares exercise.cpp with the library.

#include "exercise.hpp"

#include "../lesson.hpp"

#include "attn/layers/layer_norm.hpp"

using namespace attn;

namespace {

void check(Lesson& lesson)
{
    for (const double epsilon : {1e-5, 0.5}) {
        for (const Vector& token :
             {Vector{1, 2, 3, 6}, Vector{1.001, 0.999, 1.001}, Vector{7, 7}}) {
            const Matrix row = xt::view(token, xt::newaxis(), xt::all());
            const Matrix expected =
                layer_norm(row, {xt::ones<double>({token.size()})}, {.epsilon = epsilon});
            lesson.expect_equal("my_normalized is the library's layer norm, for " +
                                    std::to_string(token.size()) + " features",
                                my_normalized(token, epsilon),
                                Vector(xt::row(expected, 0)));
        }
    }
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("09_feed_forward_and_norm", argc, argv, check);
}
