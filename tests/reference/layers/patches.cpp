#include "attn/reference/layers/patches.hpp"

#include "interventions.hpp"
#include "examples.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"

using namespace attn;
using namespace attn::test;

namespace {

/// Two channels of 4 by 6 pixels.
Tensor4 images(Numbers& numbers, std::size_t count)
{
    Tensor4 pixels(Tensor4::shape_type{count, 2, 4, 6});
    const Matrix values = numbers.matrix(count * 8, 6);
    std::copy(values.begin(), values.end(), pixels.begin());
    return pixels;
}

/// Patches of 2 by 3 pixels, five features.
PatchWeights patch_weights(Numbers& numbers)
{
    PatchWeights weights{Tensor4(Tensor4::shape_type{5, 2, 2, 3}), numbers.vector(5), numbers.vector(5)};
    const Matrix values = numbers.matrix(20, 3);
    std::copy(values.begin(), values.end(), weights.kernel.begin());
    return weights;
}

Tensor3 image_of(const Tensor4& all, std::size_t b) { return xt::view(all, b, xt::all(), xt::all(), xt::all()); }

} // namespace

TEST_CASE("the token of a patch is a sum over its pixels, and the first token is the class token", "[layers][patches]")
{
    Numbers numbers(31);
    const Tensor3 image = image_of(images(numbers, 1), 0);
    const PatchWeights weights = patch_weights(numbers);
    const Matrix found = embed_patches(image, weights);
    REQUIRE(shape_of(found) == Shape{5, 5});
    for (std::size_t d = 0; d < 5; ++d) {
        CHECK(found(0, d) == (*weights.class_token)(d));
        for (std::size_t patch = 0; patch < 4; ++patch) {
            double sum = (*weights.bias)(d);
            for (std::size_t c = 0; c < 2; ++c)
                for (std::size_t y = 0; y < 2; ++y)
                    for (std::size_t x = 0; x < 3; ++x)
                        sum += weights.kernel(d, c, y, x) * image(c, patch / 2 * 2 + y, patch % 2 * 3 + x);
            CHECK(std::abs(found(patch + 1, d) - sum) < 1e-12);
        }
    }
}

TEST_CASE("the patches of a batch are those of each image, and follow from their formulas", "[layers][patches][batch]")
{
    Numbers numbers(32);
    const Tensor4 all = images(numbers, 3);
    const PatchWeights weights = patch_weights(numbers);
    const Tensor3 found = embed_patches(all, weights);
    for (std::size_t b = 0; b < 3; ++b)
        CHECK(close(sequence_by_hand(found, b), embed_patches(image_of(all, b), weights)));
    const auto of_batch = [&](const Trace& trace) { (void)embed_patches(all, weights, trace); };
    const auto of_image = [&](const Trace& trace) { (void)embed_patches(image_of(all, 1), weights, trace); };
    CHECK(wrong_steps(recorded(of_batch)).empty());
    CHECK(wrong_steps(recorded(of_image)).empty());
    CHECK(expect_replacements_used(of_batch) >= 5);
    CHECK(expect_replacements_used(of_image) >= 5);
}

TEST_CASE("an image that is no whole number of patches, or has other channels, is refused", "[layers][patches][error]")
{
    Numbers numbers(33);
    const PatchWeights weights = patch_weights(numbers);
    const auto image = [](std::size_t channels, std::size_t height, std::size_t width) {
        return Tensor3(xt::zeros<double>(Tensor3::shape_type{channels, height, width}));
    };
    CHECK_THROWS_WITH(
        embed_patches(image(2, 4, 7), weights),
        "embed_patches: pixel_values (2, 4, 7), expected 2 channels of a whole number of patches, 2 by 3");
    CHECK_THROWS_AS(embed_patches(image(2, 5, 6), weights), ShapeError);
    CHECK_THROWS_AS(embed_patches(image(1, 4, 6), weights), ShapeError);
    CHECK_THROWS_AS(embed_patches(image(2, 0, 6), weights), ShapeError);
    PatchWeights other = weights;
    other.class_token = numbers.vector(4);
    CHECK_THROWS_WITH(embed_patches(image(2, 4, 6), other), ContainsSubstring("must agree in d_model"));
}
