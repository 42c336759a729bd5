#include "block.hpp"

#include "attn/engines/train/kernels.hpp"

#include <algorithm>
#include <cmath>

namespace attn::train {
namespace {

/// One text of a block on its way forwards and backwards.
struct OneText {
    const ReviewSizes& sizes;
    const ReviewMaps<const float>& maps;
    ReviewSpace& space;
    ConstView tokens;      ///< (n, d_model)
    std::size_t first_row; ///< of the block's rows
    const float* dropout;  ///< (h d_v), or nullptr

    View of_head(std::vector<float>& packed, std::size_t head) const
    {
        return view(packed.data(), packed.size() / sizes.keys(), sizes.keys())
            .row_range(first_row, sizes.words)
            .column_range(head * sizes.d_k, sizes.d_k);
    }
    View weights(std::size_t head) const
    {
        return view(space.weights.data() + head * sizes.words * sizes.words, sizes.words, sizes.words);
    }
    float scale() const { return 1 / std::sqrt(static_cast<float>(sizes.d_k)); }
    float kept(std::size_t feature) const { return dropout == nullptr ? 1 : dropout[feature]; }

    /// The attention weights of a head, and of each key their mean over all queries.
    void attend(std::size_t head) const
    {
        const std::size_t n = sizes.words;
        const View of = weights(head);
        multiply(of_head(space.query, head), of_head(space.key, head).transposed(), of, Accumulate::no, scale());
        float* means = space.means.data() + head * n;
        std::fill_n(means, n, 0.0F);
        for (std::size_t i = 0; i < n; ++i) {
            softmax_row(of.row(i), n, n);
            add(means, of.row(i), n, 1 / static_cast<float>(n));
        }
    }

    /// @return the logit
    float forward() const
    {
        const std::size_t n = sizes.words, d = sizes.d_model;
        for (std::size_t head = 0; head < sizes.heads; ++head)
            attend(head);
        multiply(view(space.means.data(), sizes.heads, n), tokens, view(space.mixed.data(), sizes.heads, d));
        for (std::size_t head = 0; head < sizes.heads; ++head)
            multiply(view(space.mixed.data() + head * d, 1, d), maps.value.column_range(head * sizes.d_v, sizes.d_v),
                     view(space.pooled.data() + head * sizes.d_v, 1, sizes.d_v));
        float logit = maps.bias.data[0];
        for (std::size_t i = 0; i < sizes.values(); ++i)
            logit += space.pooled[i] * kept(i) * maps.output.data[i];
        return logit;
    }

    /// From the logit's gradient to those of the maps, of queries and keys, and of the part of the tokens that the values have.
    void backward(float grad_logit, const ReviewMaps<float>& grad, const View& grad_tokens) const
    {
        const std::size_t n = sizes.words, d = sizes.d_model;
        grad.bias.data[0] += grad_logit;
        for (std::size_t i = 0; i < sizes.values(); ++i) {
            grad.output.data[i] += grad_logit * space.pooled[i] * kept(i);
            space.grad_pooled[i] = grad_logit * maps.output.data[i] * kept(i);
        }
        for (std::size_t head = 0; head < sizes.heads; ++head) {
            const View pooled = view(space.grad_pooled.data() + head * sizes.d_v, 1, sizes.d_v);
            const View mixed = view(space.mixed.data() + head * d, 1, d);
            const std::size_t first = head * sizes.d_v;
            multiply(mixed.transposed(), pooled, grad.value.column_range(first, sizes.d_v), Accumulate::yes);
            multiply(pooled, maps.value.column_range(first, sizes.d_v).transposed(),
                     view(space.grad_mixed.data() + head * d, 1, d));
        }
        const View grad_mixed = view(space.grad_mixed.data(), sizes.heads, d);
        const View grad_means = view(space.grad_means.data(), sizes.heads, n);
        multiply(view(space.means.data(), sizes.heads, n).transposed(), grad_mixed, grad_tokens);
        multiply(grad_mixed, tokens.transposed(), grad_means, Accumulate::no, 1 / static_cast<float>(n));
        for (std::size_t head = 0; head < sizes.heads; ++head) {
            const View of = weights(head);
            for (std::size_t i = 0; i < n; ++i)
                softmax_backward_row(of.row(i), grad_means.row(head), n, scale());
            multiply(of, of_head(space.key, head), of_head(space.grad_query, head));
            multiply(of.transposed(), of_head(space.query, head), of_head(space.grad_key, head));
        }
    }
};

void prepare(const ReviewBlock& block, const ReviewSizes& sizes, ReviewSpace& space)
{
    for (std::vector<float>* packed : {&space.query, &space.key, &space.grad_query, &space.grad_key})
        packed->resize(block.tokens.rows * sizes.keys());
    space.weights.resize(sizes.heads * sizes.words * sizes.words);
    for (std::vector<float>* means : {&space.means, &space.grad_means})
        means->resize(sizes.heads * sizes.words);
    for (std::vector<float>* mixed : {&space.mixed, &space.grad_mixed})
        mixed->resize(sizes.heads * sizes.d_model);
    for (std::vector<float>* pooled : {&space.pooled, &space.grad_pooled})
        pooled->resize(sizes.values());
}

/// Makes queries and keys, and calls f(text, number of the text) for each.
template <class F>
void each_text(const ReviewBlock& block, const ReviewSizes& sizes, const ReviewMaps<const float>& maps,
               ReviewSpace& space, const F& f)
{
    prepare(block, sizes, space);
    multiply(block.tokens, maps.query, view(space.query.data(), block.tokens.rows, sizes.keys()));
    multiply(block.tokens, maps.key, view(space.key.data(), block.tokens.rows, sizes.keys()));
    for (std::size_t i = 0; i < block.texts; ++i) {
        const std::size_t first = i * sizes.words;
        const float* dropout = block.dropout == nullptr ? nullptr : block.dropout + i * sizes.values();
        f(OneText{sizes, maps, space, block.tokens.row_range(first, sizes.words), first, dropout}, i);
    }
}

} // namespace

void review_logits(const ReviewBlock& block, const ReviewSizes& sizes, const ReviewMaps<const float>& maps,
                   ReviewSpace& space, double* logits)
{
    each_text(block, sizes, maps, space, [&](const OneText& text, std::size_t i) { logits[i] = text.forward(); });
}

void review_gradients(const ReviewBlock& block, const ReviewSizes& sizes, const ReviewMaps<const float>& maps,
                      double share, ReviewSpace& space, double* logits, const ReviewMaps<float>& grad,
                      const View& grad_tokens)
{
    each_text(block, sizes, maps, space, [&](const OneText& text, std::size_t i) {
        logits[i] = text.forward();
        const double probability = 1 / (1 + std::exp(-logits[i]));
        const double grad_logit = (probability - static_cast<double>(block.labels[i])) * share;
        text.backward(static_cast<float>(grad_logit), grad, grad_tokens.row_range(text.first_row, sizes.words));
    });
    const View grad_query = view(space.grad_query.data(), block.tokens.rows, sizes.keys());
    const View grad_key = view(space.grad_key.data(), block.tokens.rows, sizes.keys());
    multiply(block.tokens.transposed(), grad_query, grad.query, Accumulate::yes);
    multiply(block.tokens.transposed(), grad_key, grad.key, Accumulate::yes);
    multiply(grad_query, maps.query.transposed(), grad_tokens, Accumulate::yes);
    multiply(grad_key, maps.key.transposed(), grad_tokens, Accumulate::yes);
}

} // namespace attn::train
