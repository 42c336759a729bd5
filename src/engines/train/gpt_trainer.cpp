#include "attn/engines/train/gpt_trainer.hpp"

#include "gpt_block.hpp"

#include "attn/core/error.hpp"
#include "attn/engines/train/finite.hpp"
#include "attn/engines/train/kernels.hpp"
#include "attn/engines/train/parameters.hpp"
#include "attn/engines/train/workers.hpp"
#include "attn/files/weights/gpt.hpp"
#include "attn/reference/layers/activation.hpp"

#include <algorithm>
#include <string>

namespace attn::train {
namespace {

using namespace attn::train;

void expect_trainable(const GptWeights& weights, const GptOptions& options)
{
    const auto refuse = [](const std::string& found, const std::string& expected) {
        throw Error("GptTrainer: ", found, ", expected ", expected);
    };
    if (weights.output)
        refuse("the output has a map of its own", "the embedding's transpose (tied weights)");
    if (options.feed_forward.activation != Activation::relu)
        refuse("the activation is " + std::string(name_of(options.feed_forward.activation)), "relu");
    if (options.mask)
        refuse("a mask is given", "the causal one alone");
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
        if (heads.query.weight.shape(1) != d_model || heads.value.weight.shape(1) != d_model ||
            !is_plain(heads, HeadPositions::none))
            refuse("heads share keys and values, have norms or sinks, or have a gate or a size of their own",
                   "heads of d_model / heads features");
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
                options.has_positions};
    }

    void take(std::span<const TextExample> examples)
    {
        blocks.assign((examples.size() + texts_per_block - 1) / texts_per_block, {{}, {}, {0}});
        targets = 0;
        for (std::size_t i = 0; i < examples.size(); ++i) {
            const auto& [ids, predicted] = examples[i];
            const auto expect = [&](bool is_so, const std::string& found, const std::string& expected) {
                if (!is_so)
                    throw Error("GptTrainer: text ", i, " has ", found, ", expected ", expected);
            };
            const std::size_t positions = shapes.position_embedding.shape(0), words = shapes.token_embedding.shape(0);
            expect(!ids.empty() && ids.size() <= positions, std::to_string(ids.size()) + " ids that predict another",
                   "from 1 to " + std::to_string(positions));
            expect(ids.size() == predicted.size(), std::to_string(predicted.size()) + " targets",
                   "one per id: " + std::to_string(ids.size()));
            for (const Text* text : {&ids, &predicted})
                for (const std::int64_t id : *text)
                    expect(id >= 0 && static_cast<std::size_t>(id) < words, "the id " + std::to_string(id),
                           "ids from 0 to " + std::to_string(words - 1));
            GptBlock& block = blocks[i / texts_per_block];
            block.ids.insert(block.ids.end(), ids.begin(), ids.end());
            block.targets.insert(block.targets.end(), predicted.begin(), predicted.end());
            block.begins.push_back(block.ids.size());
            targets += ids.size();
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

    /// Adds the gradient to `gradient`.
    /// @return the loss
    double backward()
    {
        const auto maps = gpt_maps_in<const Number>(state.weights.data(), table, shapes.layers.size());
        parts.assign(blocks.size() * table.size, 0);
        std::vector<double> losses(blocks.size());
        workers.run(blocks.size(), [&](std::size_t number, std::size_t thread) {
            const auto grad = gpt_maps_in<Number>(parts.data() + number * table.size, table, shapes.layers.size());
            const GptLoss loss{options.label_smoothing, 1 / static_cast<double>(targets), options.loss};
            losses[number] = gpt_block(blocks[number], sizes(), maps, loss, spaces[thread], &grad);
        });
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
    clear_gradient();
    const double loss = backward(examples_of(texts));
    update();
    return loss;
}

template <class Number>
void BasicGptTrainer<Number>::clear_gradient()
{
    std::ranges::fill(network_->gradient, Number(0));
}

template <class Number>
double BasicGptTrainer<Number>::backward(std::span<const TextExample> examples)
{
    network_->take(examples);
    return finite_loss(network_->backward(), network_->state.steps);
}

template <class Number>
void BasicGptTrainer<Number>::update()
{
    Network& of = *network_;
    const std::uint64_t t = ++of.state.steps;
    adam_step(of.state, 0, of.gradient, of.options.adam, adam_factors(of.options.adam, of.options.rate(t), t));
}

template <class Number>
GptWeights BasicGptTrainer<Number>::gradient(std::span<const Text> texts)
{
    clear_gradient();
    backward(examples_of(texts));
    return unpacked(network_->gradient, network_->shapes);
}

template <class Number>
double BasicGptTrainer<Number>::evaluate(std::span<const Text> texts)
{
    network_->take(examples_of(texts));
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
        throw Error("GptTrainer: the checkpoint has ", given.weights.size(), " weights, expected ", expected);
    network_->state = std::move(given);
}

template class BasicGptTrainer<float>;
template class BasicGptTrainer<double>;

} // namespace attn::train
