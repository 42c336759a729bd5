#include "attn/engines/fast/weights.hpp"

#include "attn/core/shape.hpp"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>

namespace attn::fast {
namespace {

LinearMaps joined(std::initializer_list<const LinearWeights*> parts)
{
    return LinearMaps(std::span(parts.begin(), parts.size()));
}

const LinearWeights& output_of(const MultiHeadWeights& weights, std::string_view role)
{
    const auto& [query, key, value, output, query_norms, key_norms, sinks, gate] =
        weights; // what is new has to be packed, or refused
    const auto refuse = [&](const char* what) { throw Error("fast: the weights of ", role, " have ", what); };
    if (!output)
        refuse("no output map, and the fast layers need one");
    if (!query_norms.empty() || !key_norms.empty())
        refuse("a norm of queries or keys, which the fast layers do not compute");
    if (sinks)
        refuse("sinks, which the fast layers do not compute");
    if (gate)
        refuse("a gate, which the fast layers do not compute");
    return *output;
}

} // namespace

LinearMaps::LinearMaps(std::span<const LinearWeights* const> parts) : d_in_(parts.front()->weight.shape(0))
{
    for (const LinearWeights* part : parts) {
        expect_agreement("fast::LinearMaps", "d_in", {"weight", parts.front()->weight, 0}, {"weight", part->weight, 0});
        if (part->bias)
            expect_agreement("fast::LinearMaps", "d_out", {"weight", part->weight, 1}, {"bias", *part->bias, 0});
        parts_.push_back({part->weight.shape(1), part->bias.has_value()});
        d_out_ += parts_.back().columns;
    }
    const std::size_t padded = (d_out_ + panel_columns - 1) / panel_columns * panel_columns;
    panels_ = buffer_.grow(padded * d_in_);
    std::fill_n(panels_, padded * d_in_, 0.0F);
    bias_.resize(padded);
    std::size_t first = 0;
    for (const LinearWeights* part : parts) {
        copy(*part, first);
        first += part->weight.shape(1);
    }
}

LinearMaps::LinearMaps(const LinearWeights& only) : LinearMaps(joined({&only})) {}

std::size_t LinearMaps::place_of(std::size_t i, std::size_t column) const
{
    return column / panel_columns * d_in_ * panel_columns + i * panel_columns + column % panel_columns;
}

void LinearMaps::copy(const LinearWeights& part, std::size_t first)
{
    for (std::size_t i = 0; i < d_in_; ++i)
        for (std::size_t j = 0; j < part.weight.shape(1); ++j)
            panels_[place_of(i, first + j)] = static_cast<float>(part.weight(i, j));
    if (part.bias)
        std::ranges::copy(*part.bias, bias_.begin() + static_cast<std::ptrdiff_t>(first));
}

LinearWeights LinearMaps::part(std::size_t number) const
{
    std::size_t first = 0;
    for (std::size_t before = 0; before < number; ++before)
        first += parts_[before].columns;
    const auto [columns, has_bias] = parts_[number];
    LinearWeights part{Matrix(Matrix::shape_type{d_in_, columns})};
    for (std::size_t i = 0; i < d_in_; ++i)
        for (std::size_t j = 0; j < columns; ++j)
            part.weight(i, j) = panels_[place_of(i, first + j)];
    if (has_bias) {
        part.bias = Vector(Vector::shape_type{columns});
        std::copy_n(bias_.begin() + static_cast<std::ptrdiff_t>(first), columns, part.bias->begin());
    }
    return part;
}

Norm::Norm(const LayerNormWeights& weights) : gain(weights.gain.begin(), weights.gain.end()), is_centered(true)
{
    if (weights.bias)
        bias.assign(weights.bias->begin(), weights.bias->end());
}

Norm::Norm(const RmsNormWeights& weights) : gain(weights.gain.begin(), weights.gain.end()), is_centered(false) {}

AttentionMaps::AttentionMaps(const MultiHeadWeights& weights, std::string_view role)
    : query(weights.query), key_value(joined({&weights.key, &weights.value})), output(output_of(weights, role))
{
}

AttentionMaps::AttentionMaps(LinearMaps of_query, LinearMaps of_key_value, LinearMaps of_output)
    : query(std::move(of_query)), key_value(std::move(of_key_value)), output(std::move(of_output))
{
}

FeedForwardMaps::FeedForwardMaps(const FeedForwardWeights& weights) : hidden(weights.hidden), output(weights.output) {}

FeedForwardMaps::FeedForwardMaps(const GatedFeedForwardWeights& weights)
    : hidden(joined({&weights.gate, &weights.up})), output(weights.down)
{
}

FeedForwardMaps::FeedForwardMaps(LinearMaps of_hidden, LinearMaps of_output)
    : hidden(std::move(of_hidden)), output(std::move(of_output))
{
}

} // namespace attn::fast
