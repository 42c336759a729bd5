#include "attn/engines/train/gpt_trainer.hpp"

#include "gpt_block.hpp"

#include "attn/core/error.hpp"
#include "attn/engines/train/finite.hpp"
#include "attn/engines/train/kernels.hpp"
#include "attn/engines/train/parameters.hpp"
#include "attn/engines/train/workers.hpp"

#include <algorithm>
#include <string>

namespace attn::train {
namespace {

using namespace attn::train;

void expect_trainable(const GptWeights& weights, const GptOptions& options)
{
    const auto refuse = [](const std::string& found, const std::string& expected) {
        throw Error("GptTrainer: " + found + ", expected " + expected);
    };
    if (weights.output)
        refuse("the output has a map of its own", "the embedding's transpose (tied weights)");
    if (options.feed_forward.activation != Activation::relu)
        refuse("the activation is " + std::string(name_of(options.feed_forward.activation)), "relu");
    if (options.heads == 0 || weights.token_embedding.shape(1) % options.heads != 0)
        refuse(std::to_string(options.heads) + " heads for d_model " + std::to_string(weights.token_embedding.shape(1)),
               "a number that divides it");
    const std::size_t d_model = weights.token_embedding.shape(1);
    for (const EncoderLayerWeights& layer : weights.layers) {
        const MultiHeadWeights& heads = layer.self_attention;
        const bool is_biased = heads.query.bias && heads.key.bias && heads.value.bias && heads.output &&
                               heads.output->bias && layer.feed_forward.hidden.bias && layer.feed_forward.output.bias &&
                               layer.norm1.bias && layer.norm2.bias && weights.norm.bias;
        if (!is_biased)
            refuse("a bias is missing", "one in every map and every norm");
        if (heads.query.weight.shape(1) != d_model || heads.key.weight.shape(1) != d_model ||
            heads.value.weight.shape(1) != d_model)
            refuse("heads share keys and values, or have a size of their own", "heads of d_model / heads features");
    }
}

} // namespace

template <class Number>
struct BasicGptTrainer<Number>::Network {
    static constexpr std::size_t texts_per_block = 6;

    Network(const GptWeights& initial, const GptTrainingOptions& given)
        : options(given),
          shapes(initial),
          table(table_of(initial)),
          state(packed<Number>(initial)),
          gradient(table.size),
          workers(given.threads),
          spaces(workers.threads())
    {
    }

    GptSizes sizes() const
    {
        return {shapes.token_embedding.shape(0),
                shapes.token_embedding.shape(1),
                options.model.heads,
                shapes.layers.size(),
                options.model.norm.epsilon,
                options.mistake != GptMistake::positions_forgotten};
    }

    /// @param mistake  that concerns what is predicted
    void take(std::span<const Text> texts, GptMistake mistake = GptMistake::none)
    {
        std::size_t longest = 0;
        for (const Text& text : texts)
            longest = std::max(longest, text.size());
        blocks.assign((texts.size() + texts_per_block - 1) / texts_per_block, {{}, {}, {0}});
        targets = 0;
        for (std::size_t i = 0; i < texts.size(); ++i) {
            const Text& text = texts[i];
            const std::size_t positions = shapes.position_embedding.shape(0), words = shapes.token_embedding.shape(0);
            if (text.size() < 2 || text.size() - 1 > positions)
                throw Error("GptTrainer: text " + std::to_string(i) + " has " + std::to_string(text.size()) +
                            " ids, expected from 2 to " + std::to_string(positions + 1));
            for (const std::int64_t id : text)
                if (id < 0 || static_cast<std::size_t>(id) >= words)
                    throw Error("GptTrainer: text " + std::to_string(i) + " has the id " + std::to_string(id) +
                                ", expected ids from 0 to " + std::to_string(words - 1));
            GptBlock& block = blocks[i / texts_per_block];
            block.ids.insert(block.ids.end(), text.begin(), text.end() - 1);
            const auto first_target = text.begin() + (mistake == GptMistake::targets_not_shifted ? 0 : 1);
            block.targets.insert(block.targets.end(), first_target, first_target + (text.end() - text.begin() - 1));
            if (mistake == GptMistake::padding_in_loss) {
                block.ids.resize(block.begins.back() + longest - 1, 0);
                block.targets.resize(block.ids.size(), 0);
            }
            block.begins.push_back(block.ids.size());
            targets += block.ids.size() - block.begins[block.begins.size() - 2];
        }
        if (targets == 0)
            throw Error("GptTrainer: there is no text, expected at least one");
    }

    double loss_of(const std::vector<double>& losses) const
    {
        double sum = 0;
        for (const double loss : losses)
            sum += loss;
        return sum / static_cast<double>(targets);
    }

    /// Leaves the gradient in `gradient`.
    /// @return the loss
    double backward()
    {
        const auto maps = gpt_maps_in<const Number>(state.weights.data(), table, shapes.layers.size());
        parts.assign(blocks.size() * table.size, 0);
        std::vector<double> losses(blocks.size());
        workers.run(blocks.size(), [&](std::size_t number, std::size_t thread) {
            const auto grad = gpt_maps_in<Number>(parts.data() + number * table.size, table, shapes.layers.size());
            const GptLoss loss{options.label_smoothing, 1 / static_cast<double>(targets),
                               options.mistake == GptMistake::softmax_twice};
            losses[number] = gpt_block(blocks[number], sizes(), maps, loss, spaces[thread], &grad);
        });
        if (options.mistake != GptMistake::gradients_not_cleared)
            std::ranges::fill(gradient, Number(0));
        for (std::size_t number = 0; number < blocks.size(); ++number)
            add(gradient.data(), parts.data() + number * table.size, table.size);
        return loss_of(losses);
    }

    double forward()
    {
        const auto maps = gpt_maps_in<const Number>(state.weights.data(), table, shapes.layers.size());
        std::vector<double> losses(blocks.size());
        workers.run(blocks.size(), [&](std::size_t number, std::size_t thread) {
            losses[number] = gpt_block(blocks[number], sizes(), maps, {}, spaces[thread], nullptr);
        });
        return loss_of(losses);
    }

    GptTrainingOptions options;
    GptWeights shapes;
    ParameterTable table;
    BasicAdamState<Number> state;
    std::vector<Number> gradient, parts;
    std::vector<GptBlock> blocks;
    std::size_t targets = 0; ///< how many ids the batch predicts

    OneThreadForBlas one_thread;
    Workers workers;
    std::vector<GptSpace<Number>> spaces; ///< of each thread
};

template <class Number>
BasicGptTrainer<Number>::BasicGptTrainer(const GptWeights& initial, const GptTrainingOptions& options)
{
    expect_trainable(initial, options.model);
    network_ = std::make_unique<Network>(initial, options);
}

template <class Number>
BasicGptTrainer<Number>::~BasicGptTrainer() = default;

template <class Number>
double BasicGptTrainer<Number>::step(std::span<const Text> texts)
{
    Network& of = *network_;
    of.take(texts, of.options.mistake);
    const double loss = finite_loss(of.backward(), of.state.steps);
    const std::uint64_t t = ++of.state.steps;
    adam_step(of.state, 0, of.gradient, of.options.adam, adam_factors(of.options.adam, of.options.rate(t), t));
    return loss;
}

template <class Number>
GptWeights BasicGptTrainer<Number>::gradient(std::span<const Text> texts)
{
    network_->take(texts);
    network_->backward();
    return unpacked(network_->gradient, network_->shapes);
}

template <class Number>
double BasicGptTrainer<Number>::evaluate(std::span<const Text> texts)
{
    network_->take(texts);
    return finite_loss(network_->forward(), network_->state.steps);
}

template <class Number>
GptWeights BasicGptTrainer<Number>::weights() const
{
    return unpacked(state().weights, network_->shapes);
}

template <class Number>
const BasicAdamState<Number>& BasicGptTrainer<Number>::state() const
{
    expect_finite(network_->state);
    return network_->state;
}

template <class Number>
void BasicGptTrainer<Number>::restore(BasicAdamState<Number> given)
{
    const std::size_t expected = network_->table.size;
    if (given.weights.size() != expected || given.first.size() != expected || given.second.size() != expected)
        throw Error("GptTrainer: the checkpoint has " + std::to_string(given.weights.size()) + " weights, expected " +
                    std::to_string(expected));
    network_->state = std::move(given);
}

template class BasicGptTrainer<float>;
template class BasicGptTrainer<double>;

} // namespace attn::train
