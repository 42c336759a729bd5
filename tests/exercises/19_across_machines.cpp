#include "19_across_machines/exercise.hpp"

using namespace attn;

Integers my_scores(const Integers& rank_of, std::size_t ranks, std::size_t hop)
{
    Integers scores = xt::zeros<std::int64_t>(Integers::shape_type{ranks});
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        const std::size_t source = (rank + ranks - hop) % ranks;
        for (std::size_t query = 0; query < rank_of.size(); ++query)
            for (std::size_t key = 0; key <= query; ++key)
                if (rank_of(query) == static_cast<std::int64_t>(rank) &&
                    rank_of(key) == static_cast<std::int64_t>(source))
                    ++scores(rank);
    }
    return scores;
}
