#include "attn/engines/fast/attention.hpp"

#include "test.hpp"
#include "vectors/fast_case.hpp"

using namespace attn;

namespace {

int fast_attention(const attn_case* one, double** outputs)
{
    const auto given = test::fast_case(*one);
    if (!given)
        return 1;
    const auto& [b, h, n, d_v] = given->of_context;
    std::vector<float> context(b * h * n * d_v);
    fast::attention(fast::head_rows<const float>(given->queries.data(), given->of_queries),
                    fast::head_rows<const float>(given->keys.data(), given->of_keys),
                    fast::head_rows<const float>(given->values.data(), given->of_values), given->scoring,
                    fast::head_rows(context.data(), given->of_context));
    std::ranges::copy(context, outputs[0]);
    return 0;
}

} // namespace

TEST_CASE("fast::attention() passes the vectors in float32", "[fast][vectors]")
{
    CHECK(attn_check(fast_attention, ATTN_FLOAT32) == 0);
}
