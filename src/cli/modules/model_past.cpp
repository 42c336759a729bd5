#include "model_past.hpp"

#include "module.hpp"

#include "attn/core/shape.hpp"
#include "attn/files/file.hpp"
#include "attn/files/trace_file.hpp"
#include "attn/formula/scope.hpp"

#include <algorithm>
#include <cmath>

namespace attn::cli {
namespace {

constexpr std::size_t most_position = std::size_t{1} << 53; // every whole number up to it is a double

/// The trace of an earlier run, whose steps are read when they are asked for.
class PastTrace {
public:
    explicit PastTrace(const std::filesystem::path& path) : path_(path), reader_(path), names_(reader_.outline()) {}

    /// A step of the cache.
    /// @param shape  that it has to have; any number of tokens where the first is 0
    template <Traceable T>
    T part(const std::string& name, Shape shape) const
    {
        const std::optional<std::size_t> step = names_.find(name);
        if (!step)
            throw files::FileError(path_, "has no step " + name +
                                              ", expected the --trace of a run of this model with "
                                              "--positions or --past");
        const Array found = reader_.value(*step);
        if (found.shape.size() == shape.size() && shape.front() == 0)
            shape.front() = found.shape.front();
        if (found.shape != shape)
            throw files::FileError(path_, name + " is " + to_string(found.shape) + ", and this model has " +
                                              to_string(shape) + " for as many tokens: the file is of another model");
        if (!std::ranges::all_of(found.values, [](double number) { return std::isfinite(number); }))
            throw files::FileError(path_, name + " has a number that is not finite, which no cache has");
        return from_array<T>(found);
    }

    /// Whole numbers from 0, one for each token.
    Integers places(const std::string& name) const
    {
        const auto found = part<Vector>(name, {0});
        for (const double number : found)
            if (number < 0 || number != std::floor(number) || number > static_cast<double>(most_position))
                throw files::FileError(path_, name + " has " + exact_text(number) + ", expected whole numbers from 0");
        return Integers(found);
    }

    void expect_rows(const std::string& name, std::size_t found, std::size_t expected) const
    {
        if (found != expected)
            throw files::FileError(path_, name + " is of " + std::to_string(found) + " tokens, and key_positions of " +
                                              std::to_string(expected));
    }

    /// Weights that the cache was made with, where the trace has them.
    void expect_same(const std::string& name, const Matrix& weights) const
    {
        if (const auto step = names_.find(name))
            if (const Array found = reader_.value(*step);
                found.shape != shape_of(weights) || !std::ranges::equal(found.values, weights))
                throw files::FileError(path_, "is of another model: its " + name +
                                                  " is not this model's; expected the --trace of a run of this model");
    }

private:
    std::filesystem::path path_;
    files::TraceReader reader_;
    formula::StepNames names_;
};

/// @param scope   of a layer's attention: "layers.0.self_attn."
/// @param tokens  how many there have to be
SelfAttentionCacheOf<Matrix> read_layer(const PastTrace& trace, const std::string& scope, std::size_t tokens,
                                        const SelfAttentionWeights& weights, const BlockDescription& description)
{
    const auto rows = [&](const std::string& name, std::size_t features) {
        auto found = trace.part<Matrix>(scope + name, {0, features});
        trace.expect_rows(scope + name, found.shape(0), tokens);
        return found;
    };
    if (const auto* heads = std::get_if<MultiHeadWeights>(&weights)) {
        trace.expect_same(scope + "key_weights", heads->key.weight);
        return KeyValueCache{rows("cache_keys", heads->key.weight.shape(1)),
                             rows("cache_values", heads->value.weight.shape(1))};
    }
    if (const auto* latent = std::get_if<LatentAttentionWeights>(&weights)) {
        const Matrix& down = latent->latent.down.weight;
        const std::size_t features = latent->latent.norm.gain.size();
        trace.expect_same(scope + "compressed_weights", down);
        return LatentCache{rows("latent", features), rows("shared_key", down.shape(1) - features)};
    }
    const auto& net = std::get<GatedDeltaNetWeights>(weights);
    const std::size_t heads = net.beta.weight.shape(1), groups = description.delta_net.key_heads.value_or(heads);
    trace.expect_same(scope + "key_weights", net.key.weight);
    return GatedDeltaNetCache{trace.part<Matrix>(scope + "conv_state", {net.kernel.shape(2) - 1, net.kernel.shape(0)}),
                              trace.part<Tensor3>(scope + "recurrent_state", {heads, net.key.weight.shape(1) / groups,
                                                                              net.value.weight.shape(1) / heads})};
}

std::size_t position_called(const std::string& digits)
{
    std::optional<std::size_t> position;
    whole_number(position, 0, most_position).take(digits);
    return *position;
}

} // namespace

PlacedCache read_past(const std::filesystem::path& path, const files::Model& model)
{
    const PastTrace trace(path);
    PlacedCache past{{}, {trace.places("key_sequences"), trace.places("key_positions")}};
    const std::size_t tokens = past.places.positions.size();
    trace.expect_rows("key_sequences", past.places.sequences.size(), tokens);
    const auto& layers = model.weights.layers;
    for (std::size_t i = 0; i < layers.size(); ++i)
        past.layers.push_back(read_layer(trace, "layers." + std::to_string(i) + ".self_attn.", tokens,
                                         layers[i].self_attention, model.description.layers[i]));
    return past;
}

IntegerMatrix TokenPositions::read() const
{
    const std::size_t n = ids.back(), b = ids.size() == 1 ? 1 : ids.front();
    IntegerMatrix all(IntegerMatrix::shape_type{b, n});
    if (is_file()) {
        const Module module{.name = "--positions",
                            .summary = "",
                            .inputs = {{"positions", "(b,) n", "", true, InputKind::whole_numbers}},
                            .run = {}};
        const files::NamedArrays arrays = files::read_npz(text);
        try {
            const Inputs inputs(arrays, module);
            if (inputs.shape("positions") != ids)
                throw Error("positions is ", inputs.shape("positions"), ", and ids ", ids);
            if (ids.size() == 2)
                return inputs.get<IntegerMatrix>("positions");
            std::ranges::copy(inputs.get<Integers>("positions"), all.begin());
        } catch (const Error& error) {
            throw files::FileError(text, error.what());
        }
        return all;
    }
    if (text.ends_with(':')) {
        const std::size_t first = position_called(text.substr(0, text.size() - 1));
        for (std::size_t i = 0; i < all.size(); ++i)
            all.data()[i] = static_cast<std::int64_t>(first + i % n);
        return all;
    }
    std::vector<std::string> numbers{""};
    for (const char c : text)
        if (c == ',')
            numbers.emplace_back();
        else
            numbers.back() += c;
    if (b != 1 || numbers.size() != n)
        throw Error("--positions lists ", numbers.size(), " positions of one sequence, and ids is ", ids,
                    "; a batch has them in a file, or from one on, such as 0:");
    std::ranges::transform(numbers, all.begin(), [](const std::string& number) {
        return static_cast<std::int64_t>(position_called(number));
    });
    return all;
}

} // namespace attn::cli
