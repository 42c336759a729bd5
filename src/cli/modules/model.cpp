// A whole model, as its own configuration describes it.

#include "all_modules.hpp"
#include "model_past.hpp"
#include "shared.hpp"

#include "attn/cli/print_escaped.hpp"
#include "attn/core/shape.hpp"
#include "attn/files/families/model.hpp"
#include "attn/files/weights/language_model.hpp"
#include "attn/reference/models/encoder_decoder.hpp"
#include "attn/reference/models/schedule.hpp"
#include "attn/reference/models/signal_model.hpp"
#include "attn/reference/ops/terms.hpp"

#include <numeric>

namespace attn::cli {
namespace {

/// "norm rms, epsilon 1e-06, …"
std::string text_of(const StepOptions& options)
{
    std::string text;
    for (const auto& [name, value] : options)
        text += (text.empty() ? "" : ", ") + name + " " + value;
    return text;
}

std::string layer_text(const BlockDescription& description, const BlockWeights& weights)
{
    StepOptions options = describe(description);
    if (const auto* mixture = std::get_if<ExpertsWeights>(&weights.feed_forward))
        options.emplace_back("experts", std::to_string(description.experts.top) + " of " +
                                            std::to_string(mixture->experts.size()) + " per token");
    return text_of(options);
}

/// "layers 0 to 5: …": those that are alike together.
void add_layers(std::vector<std::string>& lines, const LanguageModelDescription& description,
                const std::vector<BlockWeights>& weights)
{
    const std::vector<BlockDescription>& descriptions = description.layers;
    const auto number = [&](std::size_t i) { return std::to_string(description.first_layer + i); };
    for (std::size_t first = 0, last = 0; first < weights.size(); first = last + 1) {
        const std::string text = layer_text(descriptions[first], weights[first]);
        for (last = first; last + 1 < weights.size() && layer_text(descriptions[last + 1], weights[last + 1]) == text;)
            ++last;
        const std::string numbers =
            first == last ? "layer " + number(first) : "layers " + number(first) + " to " + number(last);
        lines.push_back(numbers + ": " + text);
    }
}

/// What makes the tokens, and how wide they are.
StepOptions text_of_input(const LanguageModelWeights& weights, const LanguageModelDescription& description)
{
    const InputWeights& input = weights.embedding;
    const auto text = [](std::size_t number) { return std::to_string(number); };
    if (std::holds_alternative<std::monostate>(input) && description.first_layer == 0)
        return {{"vocabulary", "the encoder's"}};
    if (description.first_layer > 0)
        return {{"input", "the tokens after layer " + text(description.first_layer - 1)}};
    const auto& map = weights.word_map ? weights.word_map : weights.embedding_map;
    if (const auto* table = std::get_if<Matrix>(&input); table != nullptr && map)
        return {{"vocabulary", text(table->shape(0))},
                {"d_embedding", text(table->shape(1))},
                {"d_model", text(map->weight.shape(1))}};
    if (const auto* table = std::get_if<Matrix>(&input))
        return {{"vocabulary", text(table->shape(0))}, {"d_model", text(table->shape(1))}};
    if (const auto* patches = std::get_if<PatchWeights>(&input)) {
        const auto& kernel = patches->kernel;
        const auto& size = description.image;
        return {{"image", size ? text(size->height) + " by " + text(size->width) : "of any size"},
                {"patches", text(kernel.shape(2)) + " by " + text(kernel.shape(3))},
                {"d_model", text(kernel.shape(0))}};
    }
    if (const auto* of_patches = std::get_if<LinearWeights>(&input))
        return {{"image", "of any size"},
                {"d_patch", text(of_patches->weight.shape(0))},
                {"d_model", text(of_patches->weight.shape(1))}};
    std::string strides;
    for (const ConvolutionOptions& convolution : description.convolutions)
        strides += (strides.empty() ? "" : " and ") + text(convolution.stride);
    const auto& first = std::get<std::vector<ConvolutionWeights>>(input).front();
    return {{"convolutions of stride", strides},
            {"activation", std::string(name_of(description.convolution_activation))},
            {"d_model", text(first.kernel.shape(1))}};
}

/// Which token stands for all.
std::string text_of(const PoolerDescription& pooler)
{
    switch (pooler.token) {
    case PooledToken::first:
        return "of the first token";
    case PooledToken::last:
        return "of the last token";
    case PooledToken::of_id:
        return "of the token of id " + std::to_string(pooler.id);
    case PooledToken::highest_id:
        return "of the token of the highest id";
    case PooledToken::query:
        break;
    }
    return "of a query that attends to all tokens";
}

/// What a model computes, or one of its towers: around its layers, and in them.
/// @param tower  "encoder: ", or nothing
void describe(std::vector<std::string>& lines, const std::string& tower, const LanguageModelWeights& weights,
              const LanguageModelDescription& description)
{
    const auto& [layers, norm, image, position_grid, convolutions, convolution_activation, is_causal, has_logits,
                 first_layer, first_position, padding_id, token_dropout, embedding_scale, head_activation, logit_scale,
                 logit_softcap, distance_buckets, logits_to_keep, pooler] = description;
    StepOptions around = text_of_input(weights, description);
    for (auto& [name, value] : StepOptions{{"layers", std::to_string(layers.size())},
                                           {"parameters", std::to_string(files::total(files::parameters(weights)))},
                                           {"output", !has_logits      ? "the last hidden states"
                                                      : weights.output ? "a map of its own"
                                                                       : "tied to the embedding"}})
        around.emplace_back(name, value);
    if (!is_causal)
        around.emplace_back("attention", "to all tokens");
    if (padding_id)
        around.emplace_back("positions", "learned, of tokens other than " + std::to_string(*padding_id));
    else if (weights.positions)
        around.emplace_back("positions", "learned, from row " + std::to_string(first_position));
    if (token_dropout)
        around.emplace_back("dropped_token", std::to_string(token_dropout->id));
    if (weights.token_types)
        around.emplace_back("token_types", std::to_string(weights.token_types->shape(0)));
    if (pooler)
        around.emplace_back("pooler", text_of(*pooler));
    if (weights.prediction_head)
        around.emplace_back("head", std::string(name_of(head_activation)));
    for (const auto& [name, value] : {std::pair("embedding_scale", embedding_scale),
                                      {"logit_scale", logit_scale},
                                      {"logit_softcap", logit_softcap}})
        if (value)
            around.emplace_back(name, exact_text(*value));
    if (logits_to_keep)
        around.emplace_back("logits", "of the last " + std::to_string(*logits_to_keep));
    const auto has_own = [](const BlockWeights& layer) { return layer.distance_bias.has_value(); };
    if (weights.distance_bias || std::ranges::any_of(weights.layers, has_own))
        around.emplace_back("distance_bias", std::string(weights.distance_bias ? "of all layers" : "of each layer") +
                                                 ", farthest " + std::to_string(distance_buckets.farthest));
    lines.push_back(tower + text_of(around));
    add_layers(lines, description, weights.layers);
}

std::vector<std::string> description_of(const std::filesystem::path& folder, const files::NamedArrays& arrays,
                                        const files::LayerRange& range, const files::Accepted& accepted)
{
    const auto [family, description, weights, not_computed, encoder] =
        files::read_model(folder, arrays, range, accepted);
    std::vector<std::string> lines{family + ", as " + (folder / "config.json").string() + " says"};
    if (encoder)
        describe(lines, "encoder: ", encoder->weights, encoder->description);
    describe(lines, encoder ? "decoder, which attends to what the encoder gives: " : "", weights, description);
    for (const std::string& part : not_computed)
        lines.push_back("not computed: " + part);
    return lines;
}

/// The types of tokens, or nothing where none are given.
template <class Ids>
LanguageModelOptions<Ids> options_of(const ModuleRun& run)
{
    if (!run.inputs.has("token_type_ids"))
        return {};
    return {.token_types = run.inputs.get<Ids>("token_type_ids")};
}

/// The name of what a model takes.
std::string input_of(const files::Model& model, const Inputs& inputs)
{
    const InputWeights& input = model.encoder ? model.encoder->weights.embedding : model.weights.embedding;
    const bool is_embedded = inputs.has("inputs_embeds") && !model.encoder;
    return model.description.first_layer > 0       ? "tokens"
           : std::holds_alternative<Matrix>(input) ? (is_embedded ? "inputs_embeds" : "ids")
           : std::holds_alternative<PatchWeights>(input) || std::holds_alternative<LinearWeights>(input)
               ? "pixel_values"
               : "input_features";
}

/// Where tokens stand along the axes of a model that rotates along several, as transformers' position_ids say.
std::optional<Matrix> coordinates_of(const files::Model& model, const ModuleRun& run)
{
    if (!run.inputs.has("position_ids"))
        return std::nullopt;
    const auto& layers = model.description.layers;
    if (std::ranges::none_of(layers, [](const auto& layer) { return layer.attention.rotary.axes.has_value(); }))
        throw InputNamesError("has position_ids, and the family ", model.family,
                              " does not rotate along several axes: --positions says where its tokens stand");
    return run.inputs.get<Matrix>("position_ids");
}

/// @param taken  what the model takes
void expect_inputs(const std::string& taken, const files::Model& model, const ModuleRun& run)
{
    const std::size_t first = model.description.first_layer;
    const std::string family =
        (first > 0 ? "layer " + std::to_string(first) : "a model") + " of the family " + model.family + " takes";
    if (!run.inputs.has(taken))
        throw InputNamesError("has no array ", taken, ", which ", family);
    for (const std::string name : {"ids", "tokens", "inputs_embeds", "position_ids", "lengths", "attention_mask",
                                   "token_type_ids", "pixel_values", "spatial_shapes", "input_features", "decoder_ids",
                                   "decoder_lengths", "decoder_attention_mask"}) {
        const bool is_beside =
            (name.starts_with("decoder_") && model.encoder) ||
            ((name == "lengths" || name == "attention_mask") &&
             (taken == "ids" || taken == "tokens" || taken == "inputs_embeds")) ||
            (name == "position_ids" && (taken == "ids" || taken == "tokens" || taken == "inputs_embeds")) ||
            (name == "spatial_shapes" && taken == "pixel_values" &&
             std::holds_alternative<LinearWeights>(model.weights.embedding)) ||
            (name == "token_type_ids" && taken == "ids");
        if (run.inputs.has(name) && name != taken && !is_beside)
            throw InputNamesError("has an array ", name, ", and ", family, " ", taken, " alone");
    }
}

/// Which tokens of a batch are real.
/// @param tower  "decoder_" for its tokens
Padding padding_of(const ModuleRun& run, const Shape& batch, const std::string& tower = "")
{
    const std::string of_lengths = tower + "lengths", of_mask = tower + "attention_mask";
    if (!run.inputs.has(of_mask)) {
        const std::optional<Integers> lengths = run.inputs.lengths(of_lengths, batch.front());
        return lengths ? Padding(*lengths) : Padding();
    }
    if (run.inputs.has(of_lengths))
        throw InputNamesError("has ", of_lengths, " and ", of_mask, ": give one of them");
    const auto ones = run.inputs.get<Matrix>(of_mask);
    if (shape_of(ones) != Shape{batch[0], batch[1]})
        throw ShapeError(of_mask, " is ", shape_of(ones), ", expected (b, n) = ", Shape{batch[0], batch[1]});
    Mask mask(ones.shape());
    std::ranges::transform(ones, mask.begin(), [](double one) { return one != 0; });
    return mask;
}

/// One sequence has no padding.
void expect_no_padding(const ModuleRun& run)
{
    expect_no_lengths(run);
    for (const std::string name : {"attention_mask", "decoder_lengths", "decoder_attention_mask"})
        if (run.inputs.has(name))
            throw InputNamesError("has an array " + name + ", and one sequence: leave its padding out");
}

template <class Ids>
void run_on_ids(const Ids& ids, const files::Model& model, const ModuleRun& run)
{
    LanguageModelOptions<Ids> options = options_of<Ids>(run);
    options.coordinates = coordinates_of(model, run);
    if constexpr (std::same_as<Ids, Integers>) {
        expect_no_padding(run);
        (void)language_model(ids, model.weights, model.description, options, run.trace);
    } else {
        (void)language_model(ids, padding_of(run, shape_of(ids)), model.weights, model.description, options, run.trace);
    }
}

/// Of each sequence, what a matrix (b, n) has for the real tokens.
std::vector<Integers> of_real_tokens(const IntegerMatrix& all, const Padding& padding)
{
    const auto is_real = [&](std::size_t b, std::size_t i) {
        if (const auto* lengths = std::get_if<Integers>(&padding))
            return static_cast<std::int64_t>(i) < (*lengths)(b);
        const auto* mask = std::get_if<Mask>(&padding);
        return mask == nullptr || (*mask)(b, i);
    };
    std::vector<Integers> rows;
    for (std::size_t b = 0; b < all.shape(0); ++b) {
        std::vector<std::int64_t> real;
        for (std::size_t i = 0; i < all.shape(1); ++i)
            if (is_real(b, i))
                real.push_back(all(b, i));
        Integers row(Integers::shape_type{real.size()});
        std::ranges::copy(real, row.begin());
        rows.push_back(std::move(row));
    }
    return rows;
}

/// The ids of each sequence, and which of them are real.
struct GivenIds {
    IntegerMatrix ids; ///< (b, n); of one sequence (1, n)
    Padding padding;
    Shape shape; ///< as they were given

    std::vector<Integers> sequences() const
    {
        std::vector<Integers> all = of_real_tokens(ids, padding);
        if (std::ranges::all_of(all, [](const Integers& ids_of_one) { return ids_of_one.size() == 0; }))
            throw Error("no sequence has a token");
        return all;
    }
};

GivenIds given_ids(const ModuleRun& run)
{
    if (run.inputs.has("token_type_ids"))
        throw InputNamesError("has an array token_type_ids, and tokens in several calls have no types");
    if (run.inputs.rank("ids", 1, 2, "a sequence (n) or a batch of sequences (b, n)") == 2) {
        auto ids = run.inputs.get<IntegerMatrix>("ids");
        const Shape shape = shape_of(ids);
        return {std::move(ids), padding_of(run, shape), shape};
    }
    expect_no_padding(run);
    const auto ids = run.inputs.get<Integers>("ids");
    IntegerMatrix row(IntegerMatrix::shape_type{1, ids.size()});
    std::ranges::copy(ids, row.begin());
    return {std::move(row), {}, shape_of(ids)};
}

/// Gives the tokens over several calls. The result is that of all sequences, one below the other.
/// @param cache  how it keeps keys and values; as they are where empty
void run_in_calls(const std::string& schedule, const std::string& cache, const files::Model& model,
                  const ModuleRun& run)
{
    const std::vector<Integers> sequences = given_ids(run).sequences();
    std::vector<std::size_t> lengths;
    for (const Integers& sequence : sequences)
        lengths.push_back(sequence.size());
    const std::string name = model.description.has_logits ? ".logits" : ".output";
    Schedule calls = schedule_called(schedule, lengths);
    if (!cache.empty()) {
        calls.cache = cache_format_called(cache);
        const auto begins = [](const Segment& segment) { return segment.begin == 0; };
        if (std::ranges::all_of(calls.calls, [&](const auto& call) { return std::ranges::all_of(call, begins); }))
            throw Error("--cache: with --schedule ", schedule,
                        " each sequence is given in one call, and no cache is read");
    }
    std::vector<Matrix> results = run_schedule(sequences, calls, model.weights, model.description, run.trace);
    std::vector<Term<Matrix>> given;
    for (std::size_t i = 0; i < results.size(); ++i)
        if (lengths[i] > 0)
            given.emplace_back(std::move(results[i]), run.trace.known("sequences." + std::to_string(i) + name));
    (void)run.trace("output[tokens, features]", concat(given, 0));
}

/// Where tokens stand that are given without positions: after those of their sequence in the cache.
std::vector<Integers> positions_after(const Places& past, const std::vector<Integers>& sequences)
{
    std::vector<Integers> all = sequences;
    for (std::size_t b = 0; b < all.size(); ++b) {
        std::int64_t next = 0;
        for (std::size_t i = 0; i < past.positions.size(); ++i)
            if (past.sequences(i) == static_cast<std::int64_t>(b))
                next = std::max(next, past.positions(i) + 1);
        std::iota(all[b].begin(), all[b].end(), next);
    }
    return all;
}

Integers side_by_side(const std::vector<Integers>& parts)
{
    std::vector<std::int64_t> all;
    for (const Integers& part : parts)
        all.insert(all.end(), part.begin(), part.end());
    Integers joined(Integers::shape_type{all.size()});
    std::ranges::copy(all, joined.begin());
    return joined;
}

/// One sequence of a model with states, whose tokens have no places but one after the other. What places the cache has is recorded.
void run_on_states(const Integers& ids, const Places& places, const PlacedCache& past, const files::Model& model,
                   const ModuleRun& run)
{
    const std::size_t before = past.places.positions.size();
    for (std::size_t i = 0; i < ids.size(); ++i)
        if (places.sequences(i) != 0 || places.positions(i) != static_cast<std::int64_t>(before + i))
            throw Error("--positions: a model of the family ", model.family,
                        " has states, each of one sequence and its tokens one after the other: token ", i,
                        " is at position ", places.positions(i), " of sequence ", places.sequences(i), ", expected ",
                        before + i, " of sequence 0");
    Integers positions(Integers::shape_type{before + ids.size()});
    std::iota(positions.begin(), positions.end(), std::int64_t{0});
    (void)run.trace.input("key_sequences[m]", Integers(positions.shape(), 0));
    (void)run.trace.input("key_positions[m]", positions);
    (void)language_model(ids, past.layers, model.weights, model.description, run.trace);
}

/// Gives tokens at positions, after those in the cache of an earlier run. The result is that of all sequences, one below the other.
void run_at_positions(const std::string& text, const std::filesystem::path& past_file, const files::Model& model,
                      const ModuleRun& run)
{
    const GivenIds given = given_ids(run);
    const std::vector<Integers> sequences = given.sequences();
    const PlacedCache past = past_file.empty() ? PlacedCache() : read_past(past_file, model);
    std::vector<Integers> numbers = sequences;
    for (std::size_t b = 0; b < numbers.size(); ++b)
        numbers[b].fill(static_cast<std::int64_t>(b));
    const Places places{side_by_side(numbers),
                        side_by_side(text.empty()
                                         ? positions_after(past.places, sequences)
                                         : of_real_tokens(TokenPositions{text, given.shape}.read(), given.padding))};
    const Integers ids = side_by_side(sequences);
    if (has_states(model.weights))
        return run_on_states(ids, places, past, model, run);
    (void)language_model(ids, places, past, model.weights, model.description, run.trace);
}

/// @param taken  "tokens", or "inputs_embeds" where these stand in place of ids
void run_on_tokens(const std::string& taken, const files::Model& model, const ModuleRun& run)
{
    const auto& [family, description, weights, not_computed, encoder] = model;
    const auto coordinates = coordinates_of(model, run);
    if (run.inputs.rank(taken, 2, 3, "a sequence (n, d_model) or a batch of sequences (b, n, d_model)") == 2) {
        expect_no_padding(run);
        (void)language_model(run.inputs.get<Matrix>(taken), weights, description, coordinates, run.trace);
    } else {
        const auto tokens = run.inputs.get<Tensor3>(taken);
        (void)language_model(tokens, padding_of(run, shape_of(tokens)), weights, description, coordinates, run.trace);
    }
}

/// One image, whose patches are cut already.
void run_on_patches(const files::Model& model, const ModuleRun& run)
{
    if (!run.inputs.has("spatial_shapes"))
        throw InputNamesError("has no array spatial_shapes, which says how many rows and columns of patches there are");
    const auto shape = run.inputs.get<Integers>("spatial_shapes");
    if (shape.size() != 2 || shape(0) < 1 || shape(1) < 1)
        throw ShapeError("spatial_shapes, expected two numbers: how many rows and columns of patches there are");
    const ImageSize grid{static_cast<std::size_t>(shape(0)), static_cast<std::size_t>(shape(1))};
    (void)image_model(run.inputs.get<Matrix>("pixel_values"), grid, model.weights, model.description, run.trace);
}

/// Which part of a model is computed, and where its tokens stand.
struct Part {
    files::LayerRange layers;
    std::size_t first = 0;                     ///< the position of the first token
    std::optional<std::size_t> logits_to_keep; ///< of the last tokens alone
    std::string schedule;                      ///< how tokens are given over several calls; at once where empty
    std::string cache;                         ///< how a cache keeps keys and values
    std::string positions;                     ///< of the tokens, see TokenPositions; one after the other where empty
    std::filesystem::path past;                ///< the trace of an earlier run, whose cache is gone on from
    files::Accepted accepted;
};

/// Lets positions begin at another one than 0.
void move_positions(LanguageModelDescription& description, std::size_t first)
{
    if (first == 0)
        return;
    if (description.padding_id)
        throw Error("--first: positions of this family count the tokens that are no padding");
    for (BlockDescription& layer : description.layers) {
        if (layer.chunk)
            throw Error("--first: the chunks of this model begin at its first token, which stands at position 0");
        layer.attention.rotary.first = first;
    }
    description.first_position += first;
}

void run_encoder_and_decoder(files::Model model, const std::string& taken, const ModuleRun& run)
{
    const EncoderDecoderDescription description{std::move(model.encoder.value().description),
                                                std::move(model.description)};
    const EncoderDecoderWeights weights{std::move(model.encoder.value().weights), std::move(model.weights)};
    run.learned = {};
    for (const auto& [tower, of_tower] : {std::pair("encoder.", &weights.encoder), {"decoder.", &weights.decoder}})
        for (const files::Parameter& parameter : files::parameters(*of_tower))
            run.learned.push_back({tower + parameter.name, parameter.shape});
    const bool is_sound = taken == "input_features";
    if (run.inputs.rank("decoder_ids", 1, 2, "a sequence (n) or a batch of sequences (b, n)") == 1) {
        expect_no_padding(run);
        const auto ids = run.inputs.get<Integers>("decoder_ids");
        if (is_sound)
            (void)encoder_decoder(run.inputs.get<Matrix>(taken), ids, weights, description, run.trace);
        else
            (void)encoder_decoder(run.inputs.get<Integers>(taken), ids, weights, description, run.trace);
    } else {
        const auto ids = run.inputs.get<IntegerMatrix>("decoder_ids");
        const Padding padding = padding_of(run, shape_of(ids), "decoder_");
        if (is_sound) {
            (void)encoder_decoder(run.inputs.get<Tensor3>(taken), ids, padding, weights, description, run.trace);
        } else {
            const auto source = run.inputs.get<IntegerMatrix>(taken);
            (void)encoder_decoder(source, padding_of(run, shape_of(source)), ids, padding, weights, description,
                                  run.trace);
        }
    }
    run.trace.alias("output", description.decoder.has_logits ? "decoder.logits" : "decoder.output");
}

void run_model(const ModuleRun& run, const Part& part)
{
    files::Model model = files::read_model(run.weights_path, std::move(run.arrays), part.layers, part.accepted);
    move_positions(model.description, part.first);
    if (part.logits_to_keep &&
        (!model.description.has_logits || !part.schedule.empty() || !part.positions.empty() || !part.past.empty()))
        throw Error("--logits-to-keep is about the logits of one call from position 0 on, of a model that has logits");
    model.description.logits_to_keep = part.logits_to_keep;
    run.learned = files::parameters(model.weights);
    const std::string taken = input_of(model, run.inputs);
    expect_inputs(taken, model, run);
    const bool has_places = !part.positions.empty() || !part.past.empty();
    if (model.encoder && (has_places || !part.schedule.empty() || !part.cache.empty()))
        throw Error("--schedule, --cache, --positions and --past: of a model with an encoder and a decoder all tokens "
                    "are given at once, from position 0");
    if (model.encoder && part.first != 0)
        throw Error("--first: of a model with an encoder and a decoder both begin at position 0");
    if (model.encoder && run.inputs.has("decoder_ids"))
        return run_encoder_and_decoder(std::move(model), taken, run);
    if (model.encoder) {
        if (run.inputs.has("decoder_lengths") || run.inputs.has("decoder_attention_mask"))
            throw InputNamesError("has padding of the decoder's tokens, and no decoder_ids");
        model.not_computed.emplace_back("the decoder, since no decoder_ids are given; the result is the encoder's");
        model.description = std::move(model.encoder->description);
        model.weights = std::move(model.encoder->weights);
    }
    const auto& [family, description, weights, not_computed, encoder] = model;
    for (const std::string& name : not_computed)
        print_error("attn run", Error("note: not computed: " + name));

    if (has_places && (taken != "ids" || part.first != 0 || !part.schedule.empty()))
        throw Error(
            "--positions and --past are about ids, and stand beside neither --first, --schedule nor later layers "
            "alone");
    if (!part.schedule.empty()) {
        if (taken != "ids" || part.first != 0)
            throw Error("--schedule: a schedule is of the ids of whole sequences, and stands beside neither --first "
                        "nor a part of the layers");
        return run_in_calls(part.schedule, part.cache, model, run);
    }
    if (!part.cache.empty())
        throw Error("--cache: without --schedule all tokens are given at once, and no cache is read");
    if (has_places) {
        run_at_positions(part.positions, part.past, model, run);
    } else if (std::holds_alternative<LinearWeights>(weights.embedding)) {
        run_on_patches(model, run);
    } else if (taken == "pixel_values") {
        if (run.inputs.rank(taken, 3, 4, "an image (channels, height, width) or a batch of images") == 3)
            (void)image_model(run.input<Tensor3>(taken), weights, description, run.trace);
        else
            (void)image_model(run.input<Tensor4>(taken), weights, description, run.trace);
    } else if (taken == "input_features") {
        if (run.inputs.rank(taken, 2, 3, "a sound (features, frames) or a batch of sounds") == 2)
            (void)sound_model(run.input<Matrix>(taken), weights, description, run.trace);
        else
            (void)sound_model(run.input<Tensor3>(taken), weights, description, run.trace);
    } else if (taken == "tokens" || taken == "inputs_embeds") {
        run_on_tokens(taken, model, run);
    } else {
        with_ids([&model](const auto& ids, const ModuleRun& same) { run_on_ids(ids, model, same); })(run);
    }
    if (description.has_logits)
        run.trace.alias("output", "logits");
}

/// "0:4" is the first four layers, "4:" those from layer 4 on.
files::LayerRange layers_called(const std::string& text)
{
    const std::size_t colon = text.find(':');
    files::LayerRange range;
    std::optional<std::size_t> first;
    const auto read = [](std::optional<std::size_t>& number, const std::string& digits) {
        if (!digits.empty())
            whole_number(number, 0).take(digits);
    };
    if (colon == std::string::npos)
        throw Error(text, " is not FROM:TO, such as 0:4 for the first four layers, or 4: for those from layer 4 on");
    read(first, text.substr(0, colon));
    read(range.last, text.substr(colon + 1));
    range.first = first.value_or(0);
    if (range.last && *range.last <= range.first)
        throw Error(text, " is no layer: TO is the first that is left out");
    return range;
}

} // namespace

Module model_module()
{
    const auto part = std::make_shared<Part>();
    return {
        .name = "model",
        .summary = "a decoder or encoder as Hugging Face publishes it, computed as its config.json says",
        .inputs = {{"ids", "(b,) n", "the ids of the tokens, of a text", false, InputKind::whole_numbers},
                   {"tokens", "(b,) n, d_model",
                    "what comes out of the layer before the first one of --layers, in place of ids"},
                   {"inputs_embeds", "(b,) n, d_model", "tokens in place of ids, such as those of words and images"},
                   {"position_ids", "axes, n",
                    "where tokens stand in time, height and width, of a model that rotates along these"},
                   lengths_input(),
                   {"attention_mask", "b, n", "in place of lengths: 1 for a token, 0 for padding on either side", false,
                    InputKind::zero_or_one},
                   {"token_type_ids", "(b,) n", "the type of each token, such as its sentence's; 0 unless given", false,
                    InputKind::whole_numbers},
                   {"decoder_ids", "(b,) n",
                    "the tokens that the decoder has so far, of a model with an encoder and a decoder", false,
                    InputKind::whole_numbers},
                   lengths_input("decoder_lengths"),
                   {"decoder_attention_mask", "b, n", "in place of decoder_lengths", false, InputKind::zero_or_one},
                   {"pixel_values", "(b,) channels, height, width",
                    "an image, in place of ids; or its patches, (n, d_patch), where the model takes them"},
                   {"spatial_shapes", "two", "how many rows and columns of patches there are, where they are given",
                    false, InputKind::whole_numbers},
                   {"input_features", "(b,) features, frames", "a sound, in place of ids"}},
        .describe_folder =
            [part](const std::filesystem::path& folder, const files::NamedArrays& arrays) {
                return description_of(folder, arrays, part->layers, part->accepted);
            },
        .needed_tensors =
            [part](const std::filesystem::path& folder) {
                return files::tensors_of(folder, part->layers, part->accepted);
            },
        .flags =
            {{"--layers", "FROM:TO", FlagValue([part](const std::string& text) { part->layers = layers_called(text); }),
              "compute these layers alone, 0:4 the first four: no other tensors are read"},
             {"--accept", "FIELD", FlagValue(part->accepted.fields),
              "a field of config.json that you know to change nothing; others that are not known are refused"},
             {"--ignore", "TENSORS", FlagValue(part->accepted.tensors),
              "leave out tensors whose names begin so, such as classifier."},
             {"--first", "N", whole_number(part->first, 0), "the position of the first token"},
             {"--logits-to-keep", "N", whole_number(part->logits_to_keep, 1),
              "compute the logits of the last N tokens alone"},
             {"--schedule", "NAME", FlagValue(part->schedule),
              "give the tokens over several calls: packed, steps:N (a prompt of N, then one by one), chunks:N, "
              "ring:N (one by one, with a cache of the last N alone), joined:N (each sequence N calls after the one "
              "before), pages:N (steps:N with keys and values in blocks of N tokens); output is that of all sequences, "
              "one below the other"},
             {"--cache", "TYPE", FlagValue(part->cache),
              "with --schedule, keep keys and values in fewer bits: float8_e4m3, int8:token, int4:block32, or "
              "uint2:channel32,uint2:token, keys before the comma"},
             {"--positions", "LIST", FlagValue(part->positions),
              "where the tokens stand in their sequences: 0,1,5, or 3: for those from 3 on, or an .npz file with "
              "positions in the shape of ids. The trace then has the cache"},
             {"--past", "FILE.npz", FlagValue(part->past),
              "go on from the cache in the trace of a run with --positions or --past; without --positions the tokens "
              "stand after those in it"}},
        .files_read =
            [part] {
                std::vector<std::filesystem::path> files{part->past};
                if (TokenPositions{part->positions, {}}.is_file())
                    files.emplace_back(part->positions);
                return files;
            },
        .run = [part](const ModuleRun& run) { run_model(run, *part); }};
}

} // namespace attn::cli
