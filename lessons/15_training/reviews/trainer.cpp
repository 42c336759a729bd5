#include "trainer.hpp"

#include "block.hpp"
#include "weights.hpp"

#include "attn/core/error.hpp"
#include "attn/core/shape.hpp"
#include "attn/engines/train/batches.hpp"
#include "attn/engines/train/finite.hpp"
#include "attn/engines/train/kernels.hpp"
#include "attn/engines/train/parameters.hpp"
#include "attn/engines/train/workers.hpp"
#include "attn/reference/ops/random.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

namespace attn::train {
namespace {

using namespace attn::train;

Matrix glorot(RandomNumbers& numbers, std::size_t d_in, std::size_t d_out)
{
    return numbers.matrix(d_in, d_out, std::sqrt(6.0 / static_cast<double>(d_in + d_out)));
}

void expect_trainable(const ReviewClassifierWeights& weights, const ReviewTrainingOptions& options)
{
    constexpr std::string_view who = "ReviewTrainer";
    const Matrix &table = weights.embedding.table, &query = weights.attention.query, &key = weights.attention.key,
                 &value = weights.attention.value;
    expect_agreement(who, "d_model", {"embedding", table, 1}, {"query weights", query, 0});
    expect_agreement(who, "d_model", {"embedding", table, 1}, {"key weights", key, 0});
    expect_agreement(who, "d_model", {"embedding", table, 1}, {"value weights", value, 0});
    expect_agreement(who, "h d_k", {"query weights", query, 1}, {"key weights", key, 1});
    expect_agreement(who, "h d_v", {"value weights", value, 1}, {"output weights", weights.output.weight, 0});
    const std::size_t heads = options.model.heads;
    if (heads == 0 || query.shape(1) % heads != 0 || value.shape(1) % heads != 0)
        throw ShapeError("ReviewTrainer: query weights " + to_string(shape_of(query)) +
                         " can't be divided evenly among " + std::to_string(heads) + " heads");
    if (weights.output.weight.shape(1) != 1 || !weights.output.bias || weights.output.bias->size() != 1)
        throw ShapeError("ReviewTrainer: the output is " + to_string(shape_of(weights.output.weight)) +
                         ", expected one column and a bias of one number");
    if (options.adam.weight_decay != 0)
        throw Error("ReviewTrainer: weight_decay is " + exact_text(options.adam.weight_decay) +
                    ", expected 0: rows of the embedding that a batch does not use are "
                    "left alone");
}

/// @param first  the place of the first number of the buffer
template <class Number>
ReviewMaps<Number> maps_in(Number* numbers, const ParameterTable& table, std::size_t first = 0)
{
    const auto of = [&](const char* name) {
        const ParameterPlace& place = table.at(name);
        return BasicView<Number>{numbers + (place.offset - first), place.shape[0],
                                 place.shape.size() == 1 ? 1 : place.shape[1], place.shape.back()};
    };
    return {of("attention.query_weights"), of("attention.key_weights"), of("attention.value_weights"),
            of("output.weight"), of("output.bias")};
}

} // namespace

ReviewClassifierWeights initial_review_classifier(std::size_t vocabulary, std::size_t d_model, std::uint64_t seed)
{
    RandomNumbers numbers(seed_of(seed, Purpose::initial_weights));
    ReviewClassifierWeights weights;
    weights.embedding.table = numbers.matrix(vocabulary, d_model, 0.05);
    weights.attention.query = glorot(numbers, d_model, d_model);
    weights.attention.key = glorot(numbers, d_model, d_model);
    weights.attention.value = glorot(numbers, d_model, d_model);
    weights.output = {glorot(numbers, d_model, 1), Vector(xt::zeros<double>({1}))};
    return weights;
}

struct ReviewTrainer::Network {
    static constexpr std::size_t texts_per_block = 4;
    static constexpr std::size_t rows_per_task = 64; // of the embedding

    Network(const ReviewClassifierWeights& initial, const ReviewTrainingOptions& given)
        : options(given),
          shapes(initial),
          table(table_of(initial)),
          state(packed(initial)),
          vocabulary(initial.embedding.table.shape(0)),
          d_model(initial.embedding.table.shape(1)),
          behind(vocabulary * d_model),
          rows(0, vocabulary, d_model),
          gradient(table.size),
          workers(given.threads),
          spaces(workers.threads())
    {
    }

    ReviewSizes sizes(std::size_t n) const
    {
        const std::size_t heads = options.model.heads;
        return {n, d_model, heads, shapes.attention.query.shape(1) / heads, shapes.attention.value.shape(1) / heads};
    }

    // ---------------------------------------------------------------------------------------------- a batch

    void take(const Reviews& reviews, std::span<const std::size_t> which)
    {
        const std::size_t n = reviews.ids.shape(1);
        words = n;
        ids.clear();
        labels.clear();
        for (const std::size_t row : which) {
            for (std::size_t i = 0; i < n; ++i) {
                const std::int64_t id = reviews.ids(row, i);
                if (id < 0 || static_cast<std::size_t>(id) >= vocabulary)
                    throw Error("review " + std::to_string(row) + " has the word " + std::to_string(id) +
                                ", expected ids from 0 to " + std::to_string(vocabulary - 1));
                ids.push_back(static_cast<std::size_t>(id));
            }
            labels.push_back(reviews.labels(row));
            if (labels.back() != 0 && labels.back() != 1)
                throw Error("review " + std::to_string(row) + " has the label " + std::to_string(labels.back()) +
                            ", expected 0 or 1");
        }
        logits.resize(labels.size());
        tokens.resize(ids.size() * d_model);
        if (options.model.has_positions && positions.size() != n * d_model) {
            const Matrix sines = sinusoidal_positions(n, d_model);
            positions.assign(sines.begin(), sines.end());
        }
        order.resize(ids.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::ranges::sort(order, {}, [&](std::size_t place) { return std::pair(ids[place], place); });
        begins.clear();
        for (std::size_t i = 0; i < order.size(); ++i)
            if (i == 0 || ids[order[i]] != ids[order[i - 1]])
                begins.push_back(i);
        begins.push_back(order.size());
    }

    /// The number of the embedding's rows that the batch uses.
    std::size_t used() const { return begins.size() - 1; }

    /// Calls f(number of a used row) by many threads.
    template <class F>
    void each_used(const F& f)
    {
        workers.run((used() + rows_per_task - 1) / rows_per_task, [&](std::size_t task, std::size_t) {
            for (std::size_t i = task * rows_per_task; i < std::min(used(), (task + 1) * rows_per_task); ++i)
                f(i);
        });
    }

    void settle_used(std::size_t steps)
    {
        each_used([&](std::size_t i) { rows.settle(state, ids[order[begins[i]]], options.adam, steps); });
    }

    std::size_t blocks() const { return (labels.size() + texts_per_block - 1) / texts_per_block; }

    ReviewBlock block(std::size_t number, const float* dropout)
    {
        const std::size_t first = number * texts_per_block, texts = std::min(texts_per_block, labels.size() - first);
        const View all = view(tokens.data(), ids.size(), d_model).row_range(first * words, texts * words);
        for (std::size_t i = 0; i < all.rows; ++i) {
            std::copy_n(state.weights.data() + ids[first * words + i] * d_model, d_model, all.row(i));
            if (options.model.has_positions)
                add(all.row(i), positions.data() + i % words * d_model, d_model);
        }
        const std::size_t values = shapes.attention.value.shape(1);
        return {texts, all, dropout == nullptr ? nullptr : dropout + first * values, labels.data() + first};
    }

    // ---------------------------------------------------------------------------------------------- forwards, backwards

    /// @param dropout  as a block has it
    void forward(const float* dropout)
    {
        const auto maps = maps_in<const float>(state.weights.data(), table);
        workers.run(blocks(), [&](std::size_t number, std::size_t thread) {
            review_logits(block(number, dropout), sizes(words), maps, spaces[thread],
                          logits.data() + number * texts_per_block);
        });
    }

    /// Leaves the gradients of the maps in `gradient`, and those of the tokens in `grad_tokens`.
    void backward(const std::optional<Matrix>& mask)
    {
        std::vector<float> dropout;
        if (mask)
            dropout.assign(mask->begin(), mask->end());
        const std::size_t behind_it = table.size - behind;
        parts.assign(blocks() * behind_it, 0.0F);
        grad_tokens.resize(tokens.size());
        const auto maps = maps_in<const float>(state.weights.data(), table);
        workers.run(blocks(), [&](std::size_t number, std::size_t thread) {
            const ReviewBlock of = block(number, mask ? dropout.data() : nullptr);
            const std::size_t first = number * texts_per_block;
            float* part = parts.data() + number * behind_it;
            review_gradients(of, sizes(words), maps, 1 / static_cast<double>(labels.size()), spaces[thread],
                             logits.data() + first, maps_in<float>(part, table, behind),
                             view(grad_tokens.data() + first * words * d_model, of.tokens.rows, d_model));
        });
        std::copy_n(parts.data(), behind_it, gradient.data() + behind);
        for (std::size_t number = 1; number < blocks(); ++number)
            add(gradient.data() + behind, parts.data() + number * behind_it, behind_it);
    }

    /// The gradient of a used row: the sum over the places where the word stands, in their order.
    void row_gradient(std::size_t i, std::span<float> sum) const
    {
        std::ranges::fill(sum, 0.0F);
        for (std::size_t at = begins[i]; at < begins[i + 1]; ++at)
            add(sum.data(), grad_tokens.data() + order[at] * d_model, d_model);
    }

    ReviewResult result() const
    {
        ReviewResult found;
        for (std::size_t i = 0; i < logits.size(); ++i) {
            const double z = logits[i];
            found.loss += std::max(z, 0.0) - static_cast<double>(labels[i]) * z + std::log1p(std::exp(-std::abs(z)));
            found.right += (z > 0) == (labels[i] == 1) ? 1 : 0;
        }
        found.loss = finite_loss(found.loss / static_cast<double>(logits.size()), state.steps);
        return found;
    }

    void apply()
    {
        ++state.steps;
        const AdamFactors factors = adam_factors(options.adam, options.rate, state.steps);
        rows.begin_step(factors);
        each_used([&](std::size_t i) {
            std::vector<float> of_row(d_model);
            row_gradient(i, of_row);
            rows.step(state, ids[order[begins[i]]], of_row, options.adam);
        });
        adam_step(state, behind, std::span(gradient).subspan(behind), options.adam, factors);
    }

    ReviewTrainingOptions options;
    ReviewClassifierWeights shapes;
    ParameterTable table;
    AdamState state;
    std::size_t vocabulary, d_model, behind; ///< where the embedding ends
    AdamRows rows;
    std::vector<float> gradient; ///< laid out as the weights; the embedding's only where it is asked for

    std::size_t words = 0; ///< of each text of the batch
    std::vector<std::size_t> ids, order,
        begins; ///< the batch's words; their places by word; where each word's places begin
    std::vector<std::int64_t> labels;
    std::vector<double> logits;
    std::vector<float> positions, tokens, grad_tokens, parts;

    OneThreadForBlas one_thread;
    Workers workers;
    std::vector<ReviewSpace> spaces; ///< of each thread
};

ReviewTrainer::ReviewTrainer(const ReviewClassifierWeights& initial, const ReviewTrainingOptions& options)
{
    expect_trainable(initial, options);
    network_ = std::make_unique<Network>(initial, options);
}

ReviewTrainer::~ReviewTrainer() = default;

ReviewResult ReviewTrainer::step(const Reviews& reviews, std::span<const std::size_t> rows)
{
    Network& of = *network_;
    of.take(reviews, rows);
    of.settle_used(of.rows.steps());
    std::optional<Matrix> mask;
    if (of.options.dropout > 0)
        mask = dropout_mask(rows.size(), of.shapes.attention.value.shape(1), of.options.dropout, of.options.seed,
                            of.state.steps);
    of.backward(mask);
    const ReviewResult found = of.result();
    of.apply();
    return found;
}

ReviewClassifierWeights ReviewTrainer::gradient(const Reviews& reviews, std::span<const std::size_t> rows,
                                                const std::optional<Matrix>& mask)
{
    Network& of = *network_;
    of.take(reviews, rows);
    of.settle_used(of.rows.steps());
    of.backward(mask);
    std::fill_n(of.gradient.begin(), of.behind, 0.0F);
    for (std::size_t i = 0; i < of.used(); ++i)
        of.row_gradient(i, std::span(of.gradient).subspan(of.ids[of.order[of.begins[i]]] * of.d_model, of.d_model));
    return unpacked(of.gradient, of.shapes);
}

ReviewResult ReviewTrainer::evaluate(const Reviews& reviews, bool with_dropout)
{
    constexpr std::size_t at_once = 256;
    Network& of = *network_;
    of.rows.settle_all(of.state, of.options.adam);
    ReviewResult all;
    std::vector<std::size_t> some;
    for (std::size_t first = 0; first < reviews.labels.size(); first += at_once) {
        some.resize(std::min(at_once, reviews.labels.size() - first));
        std::iota(some.begin(), some.end(), first);
        of.take(reviews, some);
        std::vector<float> dropout;
        if (with_dropout) {
            const Matrix mask = dropout_mask(some.size(), of.shapes.attention.value.shape(1), of.options.dropout,
                                             of.options.seed, of.state.steps + first);
            dropout.assign(mask.begin(), mask.end());
        }
        of.forward(with_dropout ? dropout.data() : nullptr);
        const ReviewResult found = of.result();
        all.loss += found.loss * static_cast<double>(some.size());
        all.right += found.right;
    }
    all.loss /= static_cast<double>(reviews.labels.size());
    return all;
}

const AdamState& ReviewTrainer::state()
{
    network_->rows.settle_all(network_->state, network_->options.adam);
    expect_finite(network_->state);
    return network_->state;
}

ReviewClassifierWeights ReviewTrainer::weights() { return unpacked(state().weights, network_->shapes); }

void ReviewTrainer::restore(AdamState given)
{
    Network& of = *network_;
    if (given.weights.size() != of.table.size || given.first.size() != of.table.size ||
        given.second.size() != of.table.size)
        throw Error("ReviewTrainer: the checkpoint has " + std::to_string(given.weights.size()) +
                    " weights, expected " + std::to_string(of.table.size));
    of.state = std::move(given);
    of.rows = AdamRows(0, of.vocabulary, of.d_model);
}

} // namespace attn::train
