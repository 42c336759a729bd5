#include "worker.hpp"

#include "attn/core/error.hpp"
#include "attn/engines/fast/llama.hpp"

#include <algorithm>
#include <map>

namespace attn::bench {
namespace {

/// How large a decoder is; bench/fast/llama2c.py draws weights of the same shapes.
struct Shape {
    std::size_t d_model, d_ff, layers, heads, key_value_heads, vocabulary;
};
const std::map<std::string, Shape> shapes{{"260K", {64, 172, 5, 8, 4, 512}}, {"15M", {288, 768, 6, 6, 6, 32000}}};

LlamaWeights random_llama(const Shape& shape)
{
    RandomNumbers numbers(8);
    const std::size_t d_model = shape.d_model, g_d_k = d_model / shape.heads * shape.key_value_heads;
    const auto map = [&](std::size_t d_in, std::size_t d_out) { return random_map(numbers, d_in, d_out, false); };
    const auto gain = [&] { return RmsNormWeights{1.0 + numbers.vector(d_model, 0.25)}; };
    LlamaWeights weights{numbers.matrix(shape.vocabulary, d_model)};
    for (std::size_t i = 0; i < shape.layers; ++i) {
        LlamaLayerWeights& layer = weights.layers.emplace_back();
        layer.norm1 = gain();
        layer.self_attention = {map(d_model, d_model), map(d_model, g_d_k), map(d_model, g_d_k), map(d_model, d_model)};
        layer.norm2 = gain();
        layer.feed_forward = {map(d_model, shape.d_ff), map(d_model, shape.d_ff), map(shape.d_ff, d_model)};
    }
    weights.norm = gain();
    return weights;
}

class Writer {
public:
    explicit Writer(const Shape& shape)
        : weights_(random_llama(shape)), options_{.heads = shape.heads}, logits_(shape.vocabulary)
    {
    }

    /// Seconds of each token after the first, at temperature 0.
    double write(std::size_t tokens)
    {
        cache_.clear();
        const std::int64_t first = next(1);
        return seconds([&] {
                   for (std::size_t i = 1, id = first; i < tokens; ++i)
                       id = next(id);
               }) /
               double(tokens - 1);
    }

private:
    std::int64_t next(std::int64_t id)
    {
        fast::llama({&id, 1}, cache_, weights_, options_, logits_, workspace_);
        return std::max_element(logits_.begin(), logits_.end()) - logits_.begin();
    }

    fast::PackedLlama weights_;
    LlamaOptions options_;
    std::vector<float> logits_;
    fast::LlamaCache cache_;
    fast::Workspace workspace_;
};

} // namespace

double story(const std::string& contender, std::istream& sizes)
{
    static std::map<std::string, Writer> writers;
    std::string name;
    std::size_t tokens = 0;
    if (!(sizes >> name >> tokens) || !shapes.contains(name) || tokens < 2)
        throw Error("bench_fast: story takes a shape (260K or 15M) and a number of tokens, two or more");
    if (contender != "fast")
        throw Error("bench_fast: there is no story of " + contender);
    return writers.try_emplace(name, shapes.at(name)).first->second.write(tokens);
}

} // namespace attn::bench
