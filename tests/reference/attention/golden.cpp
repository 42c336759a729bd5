// Every attention function on every case that PyTorch computed, step by step.

#include "attn/core/recorder.hpp"
#include "attn/formula/verify.hpp"
#include "attn/reference/attention/additive.hpp"
#include "attn/reference/attention/bilinear.hpp"
#include "attn/reference/attention/dot_product.hpp"

#include "golden.hpp"
#include "test.hpp"

#include <map>

using namespace attn;
using namespace attn::formula;

namespace {

/// One case: the steps of one function, inputs among them.
class AttentionCase {
public:
    void add(const std::string& step, const Array& array) { steps_.emplace_back(step, array); }
    const Golden& steps() const { return steps_; }

    template <class T>
    T get(std::string_view step) const
    {
        for (const auto& [name, array] : steps_)
            if (name == step)
                return from_array<T>(array);
        throw std::out_of_range(std::string(step));
    }

    std::optional<Mask> mask() const
    {
        for (const auto& [name, array] : steps_)
            if (name == "mask")
                return from_array<Mask>(array);
        return std::nullopt;
    }

private:
    Golden steps_;
};

/// The cases by their names: "additive.odd.causal".
std::map<std::string, AttentionCase> cases()
{
    std::map<std::string, AttentionCase> result;
    for (const auto& [path, array] : read_golden("attention")) {
        const std::size_t dot = path.rfind('.');
        result[path.substr(0, dot)].add(path.substr(dot + 1), array);
    }
    return result;
}

void compute(const std::string& function, const AttentionCase& of, const Trace& trace)
{
    const Matrix queries = of.get<Matrix>("queries"), keys = of.get<Matrix>("keys"), values = of.get<Matrix>("values");
    const std::optional<Mask> mask = of.mask();
    if (function == "dot_product")
        dot_product_attention(queries, keys, values, {.mask = mask}, trace);
    else if (function == "scaled_dot_product")
        scaled_dot_product_attention(queries, keys, values, {.mask = mask}, trace);
    else if (function == "bilinear")
        bilinear_attention(queries, keys, values, of.get<Matrix>("bilinear_weights"), {.mask = mask}, trace);
    else if (function == "additive")
        additive_attention(
            queries, keys, values,
            {of.get<Matrix>("query_weights"), of.get<Matrix>("key_weights"), of.get<Vector>("score_weights")},
            {.mask = mask}, trace);
    else if (function == "concatenated")
        concatenated_attention(queries, keys, values,
                               {of.get<Matrix>("hidden_weights"), of.get<Vector>("score_weights")}, {.mask = mask},
                               trace);
    else
        throw std::out_of_range(function);
}

} // namespace

std::vector<GoldenCase> attention_cases()
{
    std::vector<GoldenCase> result;
    for (const auto& [name, of] : cases())
        result.push_back({name, of.steps(), [function = name.substr(0, name.find('.')), of = of](const Trace& trace) {
                              compute(function, of, trace);
                          }});
    return result;
}

TEST_CASE("every step of every attention function is PyTorch's", "[attention][golden]")
{
    const std::vector<GoldenCase> all = attention_cases();
    CHECK(all.size() == 80); // 5 functions, 4 sizes, 4 masks
    for (const GoldenCase& one : all) {
        CAPTURE(one.name);
        Recorder recorder;
        one.run(Trace(recorder));
        CHECK(difference(recorder.recording(), one.steps) == "");
        CHECK(verify(recorder.recording()).passed());
    }
}
