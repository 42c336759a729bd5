#pragma once

#include "engines/train/examples.hpp"

#include "lessons/15_training/reviews/trainer.hpp"
#include "lessons/15_training/reviews/weights.hpp"

/// Classifiers of reviews, and reviews.
namespace attn::test {

struct ReviewSizesGiven {
    std::size_t vocabulary = 11, d_model = 6, heads = 3, d_k = 2, d_v = 2;
};

inline ReviewClassifierWeights random_reviewer(Numbers& numbers, const ReviewSizesGiven& sizes)
{
    const std::size_t d = sizes.d_model, keys = sizes.heads * sizes.d_k, values = sizes.heads * sizes.d_v;
    return in_float32(
        ReviewClassifierWeights{{numbers.matrix(sizes.vocabulary, d)},
                                {numbers.matrix(d, keys), numbers.matrix(d, keys), numbers.matrix(d, values)},
                                {numbers.matrix(values, 1), numbers.vector(1)}});
}

inline train::Reviews random_reviews(Numbers& numbers, std::size_t count, std::size_t words, std::size_t vocabulary)
{
    train::Reviews reviews{IntegerMatrix(IntegerMatrix::shape_type{count, words}),
                           Integers(Integers::shape_type{count})};
    for (std::int64_t& id : reviews.ids)
        id = whole(numbers, vocabulary);
    for (std::int64_t& label : reviews.labels)
        label = whole(numbers, 2);
    return reviews;
}

} // namespace attn::test
