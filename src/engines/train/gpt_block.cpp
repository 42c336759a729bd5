#include "gpt_block.hpp"

#include "attn/engines/train/kernels.hpp"

#include <algorithm>
#include <cmath>

namespace attn::train {
namespace {

/// A buffer as so many rows, as large as they need.
template <class Number>
BasicView<Number> rows_of(std::vector<Number>& buffer, std::size_t rows, std::size_t columns)
{
    buffer.resize(rows * columns);
    return view(buffer.data(), rows, columns);
}

template <class Number>
Norm<Number> norm_of(const Pair<const Number>& maps)
{
    return {maps.weight, maps.bias};
}

template <class Number>
void add_rows(const BasicView<Number>& into, const BasicView<Number>& from)
{
    add(into.data, from.data, into.rows * into.columns);
}

/// A block of texts on its way through one layer and back.
template <class Number>
struct Layer {
    using Rows = BasicView<Number>;
    using Buffer = std::vector<Number>;

    const GptBlock& block;
    const GptSizes& sizes;
    const GptLayerMaps<const Number>& maps;
    GptSpace<Number>& shared;
    GptLayerSpace<Number>& space;

    std::size_t d_head() const { return sizes.d_model / sizes.heads; }
    Number scale() const { return 1 / std::sqrt(static_cast<Number>(d_head())); }
    Number epsilon() const { return static_cast<Number>(sizes.epsilon); }
    Rows tokens(Buffer& buffer) const { return rows_of(buffer, block.rows(), sizes.d_model); }
    Rows hidden(Buffer& buffer) const { return rows_of(buffer, block.rows(), maps.hidden.weight.columns); }

    /// Calls f(first row, length, attention weights, first column) for each head of each text.
    template <class F>
    void each_head(const F& f) const
    {
        std::size_t count = 0;
        for (std::size_t text = 0; text < block.texts(); ++text)
            count += sizes.heads * block.length(text) * block.length(text);
        space.weights.resize(count);
        Number* next = space.weights.data();
        for (std::size_t text = 0; text < block.texts(); ++text)
            for (std::size_t head = 0; head < sizes.heads; ++head) {
                const std::size_t n = block.length(text);
                f(block.begins[text], n, view(next, n, n), head * d_head());
                next += n * n;
            }
    }

    /// Each token attends to itself and those before it.
    void attend() const
    {
        each_head([&](std::size_t first, std::size_t n, const Rows& weights, std::size_t column) {
            const auto of = [&](Buffer& packed) {
                return tokens(packed).row_range(first, n).column_range(column, d_head());
            };
            multiply(of(space.query), of(space.key).transposed(), weights, Accumulate::no, scale());
            for (std::size_t i = 0; i < n; ++i)
                softmax_row(weights.row(i), i + 1, n);
            multiply(weights, of(space.value), of(space.merged));
        });
    }

    void attend_backward() const
    {
        for (Buffer* grad : {&shared.grad_query, &shared.grad_key, &shared.grad_value})
            tokens(*grad);
        each_head([&](std::size_t first, std::size_t n, const Rows& weights, std::size_t column) {
            const auto of = [&](Buffer& packed) {
                return tokens(packed).row_range(first, n).column_range(column, d_head());
            };
            const Rows grad = rows_of(shared.grad_weights, n, n);
            multiply(weights.transposed(), of(shared.grad_merged), of(shared.grad_value));
            multiply(of(shared.grad_merged), of(space.value).transposed(), grad);
            for (std::size_t i = 0; i < n; ++i)
                softmax_backward_row(weights.row(i), grad.row(i), i + 1, scale());
            multiply(weights, of(space.key), of(shared.grad_query));
            multiply(weights.transposed(), of(space.query), of(shared.grad_key));
        });
    }

    void forward(const Rows& x) const
    {
        norm_of(maps.norm1).forward(x, epsilon(), tokens(space.normal1), space.inverse1, tokens(space.normed1));
        const Rows normed = tokens(space.normed1), attended = tokens(space.merged), middle = tokens(space.middle);
        linear(normed, maps.query.weight, maps.query.bias, tokens(space.query));
        linear(normed, maps.key.weight, maps.key.bias, tokens(space.key));
        linear(normed, maps.value.weight, maps.value.bias, tokens(space.value));
        attend();
        linear(attended, maps.output.weight, maps.output.bias, middle);
        add_rows(middle, x);

        norm_of(maps.norm2).forward(middle, epsilon(), tokens(space.normal2), space.inverse2, tokens(space.normed2));
        const Rows units = hidden(space.hidden);
        linear(tokens(space.normed2), maps.hidden.weight, maps.hidden.bias, units);
        for (Number& unit : space.hidden)
            unit = unit > 0 ? unit : 0;
        linear(units, maps.back.weight, maps.back.bias, x);
        add_rows(x, middle);
    }

    /// @param grad_x  the gradient of the layer's output; becomes that of its input
    void backward(const Rows& grad_x, const GptLayerMaps<Number>& grad) const
    {
        const Rows grad_hidden = hidden(shared.grad_hidden), grad_normed = tokens(shared.grad_normed);
        linear_backward(grad_x, hidden(space.hidden), maps.back.weight, grad.back.weight, grad.back.bias, grad_hidden,
                        Accumulate::no);
        for (std::size_t i = 0; i < space.hidden.size(); ++i)
            shared.grad_hidden[i] = space.hidden[i] > 0 ? shared.grad_hidden[i] : 0;
        linear_backward(grad_hidden, tokens(space.normed2), maps.hidden.weight, grad.hidden.weight, grad.hidden.bias,
                        grad_normed, Accumulate::no);
        norm_of(maps.norm2)
            .backward(grad_normed, tokens(space.normal2), space.inverse2, grad.norm2.weight, grad.norm2.bias, grad_x);

        linear_backward(grad_x, tokens(space.merged), maps.output.weight, grad.output.weight, grad.output.bias,
                        tokens(shared.grad_merged), Accumulate::no);
        attend_backward();
        const Rows normed = tokens(space.normed1);
        linear_backward(tokens(shared.grad_query), normed, maps.query.weight, grad.query.weight, grad.query.bias,
                        grad_normed, Accumulate::no);
        linear_backward(tokens(shared.grad_key), normed, maps.key.weight, grad.key.weight, grad.key.bias, grad_normed,
                        Accumulate::yes);
        linear_backward(tokens(shared.grad_value), normed, maps.value.weight, grad.value.weight, grad.value.bias,
                        grad_normed, Accumulate::yes);
        norm_of(maps.norm1)
            .backward(grad_normed, tokens(space.normal1), space.inverse1, grad.norm1.weight, grad.norm1.bias, grad_x);
    }
};

template <class Number>
void embed(const GptBlock& block, const GptSizes& sizes, const GptMaps<const Number>& maps, const BasicView<Number>& x)
{
    for (std::size_t text = 0; text < block.texts(); ++text)
        for (std::size_t i = block.begins[text]; i < block.begins[text + 1]; ++i) {
            std::copy_n(maps.words.row(block.ids[i]), x.columns, x.row(i));
            if (sizes.has_positions)
                add(x.row(i), maps.positions.row(i - block.begins[text]), x.columns);
        }
}

template <class Number>
void embed_backward(const GptBlock& block, const GptSizes& sizes, const BasicView<Number>& grad_x,
                    const GptMaps<Number>& grad)
{
    for (std::size_t text = 0; text < block.texts(); ++text)
        for (std::size_t i = block.begins[text]; i < block.begins[text + 1]; ++i) {
            add(grad.words.row(block.ids[i]), grad_x.row(i), grad_x.columns);
            if (sizes.has_positions)
                add(grad.positions.row(i - block.begins[text]), grad_x.row(i), grad_x.columns);
        }
}

/// The loss of one row of logits, which become its gradient times the share.
template <class Number>
double loss_of_row(const GptLoss& of, Number* logits, std::size_t classes, std::size_t target)
{
    if (!of.of_row)
        return cross_entropy_row(logits, classes, target, of.smoothing, static_cast<Number>(of.share));
    std::vector<double> row(logits, logits + classes);
    const double loss = of.of_row(row, target);
    std::ranges::transform(row, logits, [&](double grad) { return static_cast<Number>(grad * of.share); });
    return loss;
}

} // namespace

template <class Number>
double gpt_block(const GptBlock& block, const GptSizes& sizes, const GptMaps<const Number>& maps, const GptLoss& of,
                 GptSpace<Number>& space, const GptMaps<std::type_identity_t<Number>>* grad)
{
    using Rows = BasicView<Number>;
    const std::size_t rows = block.rows(), d = sizes.d_model;
    space.layers.resize(sizes.layers);
    const Rows x = rows_of(space.x, rows, d);
    embed(block, sizes, maps, x);
    for (std::size_t i = 0; i < sizes.layers; ++i)
        Layer<Number>{block, sizes, maps.layers[i], space, space.layers[i]}.forward(x);
    const Rows normal = rows_of(space.normal, rows, d), normed = rows_of(space.normed, rows, d);
    norm_of(maps.norm).forward(x, static_cast<Number>(sizes.epsilon), normal, space.inverse, normed);
    const Rows logits = rows_of(space.logits, rows, sizes.vocabulary);
    multiply(normed, maps.words.transposed(), logits);
    double loss = 0;
    for (std::size_t i = 0; i < rows; ++i)
        loss += loss_of_row(of, logits.row(i), sizes.vocabulary, block.targets[i]);
    if (grad == nullptr)
        return loss;

    const Rows grad_x = rows_of(space.grad_x, rows, d), grad_normed = rows_of(space.grad_normed, rows, d);
    multiply(logits.transposed(), normed, grad->words, Accumulate::yes);
    multiply(logits, maps.words, grad_normed);
    std::ranges::fill(space.grad_x, Number(0));
    norm_of(maps.norm).backward(grad_normed, normal, space.inverse, grad->norm.weight, grad->norm.bias, grad_x);
    for (std::size_t i = sizes.layers; i-- > 0;)
        Layer<Number>{block, sizes, maps.layers[i], space, space.layers[i]}.backward(grad_x, grad->layers[i]);
    embed_backward(block, sizes, grad_x, *grad);
    return loss;
}

template double gpt_block(const GptBlock&, const GptSizes&, const GptMaps<const float>&, const GptLoss&,
                          GptSpace<float>&, const GptMaps<float>*);
template double gpt_block(const GptBlock&, const GptSizes&, const GptMaps<const double>&, const GptLoss&,
                          GptSpace<double>&, const GptMaps<double>*);

} // namespace attn::train
