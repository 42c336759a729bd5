#pragma once

#include "golden.hpp"

#include "attn/reference/attention/mask.hpp"
#include "attn/reference/layers/encoder.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

/// Cases of a golden that has many, under names of five words and a step's; weights and masks as they stand there.
namespace attn::test {

/// One case: its name, part by part, and the steps of one function, inputs among them.
class Case {
public:
    explicit Case(const std::string& name)
    {
        for (std::size_t begin = 0; begin <= name.size();) {
            const std::size_t end = std::min(name.find('.', begin), name.size());
            words_.push_back(name.substr(begin, end - begin));
            begin = end + 1;
        }
    }

    void add(const std::string& step, const Array& array) { steps_.emplace_back(step, array); }
    const Golden& steps() const { return steps_; }

    /// "multi_head", "cross", "h2", "batch", "padding"; see tests/golden/layers.py
    const std::string& word(std::size_t i) const { return words_.at(i); }
    bool is_batch() const { return word(3) == "batch"; }

    const Array* find(const std::string& step) const
    {
        const auto found = std::ranges::find(steps_, step, &Golden::value_type::first);
        return found == steps_.end() ? nullptr : &found->second;
    }
    bool has(const std::string& step) const { return find(step) != nullptr; }

    template <class T>
    T get(const std::string& step) const
    {
        if (!has(step))
            throw std::out_of_range(step);
        return from_array<T>(*find(step));
    }

    template <class T>
    std::optional<T> maybe(const std::string& step) const
    {
        return has(step) ? std::optional(get<T>(step)) : std::nullopt;
    }

private:
    std::vector<std::string> words_;
    Golden steps_;
};

inline constexpr std::size_t words_of_a_case = 5;

/// Where the name of the case ends and the step's begins.
inline std::size_t end_of_case(const std::string& path)
{
    std::size_t dot = path.find('.');
    for (std::size_t word = 1; word < words_of_a_case; ++word)
        dot = path.find('.', dot + 1);
    return dot;
}

/// The cases of tests/golden/NAME.npz.
inline std::map<std::string, Case> cases_of(const std::string& golden)
{
    std::map<std::string, Case> result;
    for (const auto& [path, array] : read_golden(golden)) {
        const std::size_t dot = end_of_case(path);
        const std::string name = path.substr(0, dot);
        result.try_emplace(name, name).first->second.add(path.substr(dot + 1), array);
    }
    return result;
}

// ------------------------------------------------------------------------------------------------------------- weights

inline LinearWeights linear_of(const Case& of, const std::string& role)
{
    return {of.get<Matrix>(role + "_weights"), of.maybe<Vector>(role + "_bias")};
}

inline MultiHeadWeights heads_of(const Case& of, const std::string& scope = "")
{
    return {linear_of(of, scope + "query"), linear_of(of, scope + "key"), linear_of(of, scope + "value"),
            linear_of(of, scope + "output")};
}

inline LayerNormWeights norm_of(const Case& of, const std::string& scope)
{
    return {of.get<Vector>(scope + "gain"), of.get<Vector>(scope + "bias")};
}

inline EncoderLayerWeights layer_of(const Case& of, const std::string& scope = "")
{
    return {heads_of(of, scope + "self_attn."),
            {linear_of(of, scope + "feed_forward.hidden"), linear_of(of, scope + "feed_forward.output")},
            norm_of(of, scope + "norm1."),
            norm_of(of, scope + "norm2.")};
}

inline EncoderWeights stack_of(const Case& of, const std::string& scope = "")
{
    EncoderWeights weights;
    for (std::size_t i = 0; of.has(scope + "layers." + std::to_string(i) + ".x"); ++i)
        weights.layers.push_back(layer_of(of, scope + "layers." + std::to_string(i) + "."));
    if (of.has(scope + "norm.gain"))
        weights.norm = norm_of(of, scope + "norm.");
    return weights;
}

// ------------------------------------------------------------------------------------------------------------- options

/// A mask as it stands there.
inline AnyMask given_mask(const Case& of, const std::string& step)
{
    return of.find(step)->rank() == 3 ? AnyMask(of.get<BatchMask>(step)) : AnyMask(of.get<Mask>(step));
}

/// A mask that is an input is given; what it is joined of otherwise is made anew.
inline OptionalMask mask_of(const Case& of, std::size_t n, std::size_t m, const Trace& trace,
                            const std::string& scope = "")
{
    const bool is_made = of.has(scope + "causal") || of.has(scope + "lengths");
    const std::string given = scope + (is_made ? "given_mask" : "mask");
    MaskParts parts;
    if (of.has(given))
        parts.given = given_mask(of, given);
    if (of.has(scope + "causal"))
        parts.causal = Causal::bottom_right;
    if (of.has(scope + "lengths"))
        parts.key_lengths = of.get<Integers>(scope + "lengths");
    return join_masks(n, m, parts, trace);
}

inline std::size_t heads_in(const Case& of, const std::string& scope)
{
    std::size_t heads = 0;
    while (of.has(scope + "head." + std::to_string(heads) + ".queries"))
        ++heads;
    return heads;
}

} // namespace attn::test
