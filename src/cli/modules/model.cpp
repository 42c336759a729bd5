// A whole model, as its own configuration describes it.

#include "all_modules.hpp"
#include "shared.hpp"

#include "attn/cli/print_escaped.hpp"
#include "attn/core/shape.hpp"
#include "attn/files/families/model.hpp"
#include "attn/files/weights/language_model.hpp"
#include "attn/reference/models/schedule.hpp"
#include "attn/reference/models/signal_model.hpp"
#include "attn/reference/ops/terms.hpp"

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
    if (description.first_layer > 0)
        return {{"input", "the tokens after layer " + text(description.first_layer - 1)}};
    if (const auto* table = std::get_if<Matrix>(&input); table != nullptr && weights.embedding_map)
        return {{"vocabulary", text(table->shape(0))},
                {"d_embedding", text(table->shape(1))},
                {"d_model", text(weights.embedding_map->weight.shape(1))}};
    if (const auto* table = std::get_if<Matrix>(&input))
        return {{"vocabulary", text(table->shape(0))}, {"d_model", text(table->shape(1))}};
    if (const auto* patches = std::get_if<PatchWeights>(&input)) {
        const auto& kernel = patches->kernel;
        const ImageSize size = description.image.value_or(ImageSize{});
        return {{"image", text(size.height) + " by " + text(size.width)},
                {"patches", text(kernel.shape(2)) + " by " + text(kernel.shape(3))},
                {"d_model", text(kernel.shape(0))}};
    }
    std::string strides;
    for (const ConvolutionOptions& convolution : description.convolutions)
        strides += (strides.empty() ? "" : " and ") + text(convolution.stride);
    const auto& first = std::get<std::vector<ConvolutionWeights>>(input).front();
    return {{"convolutions of stride", strides},
            {"activation", std::string(name_of(description.convolution_activation))},
            {"d_model", text(first.kernel.shape(1))}};
}

std::vector<std::string> description_of(const std::filesystem::path& folder, const files::NamedArrays& arrays,
                                        const files::LayerRange& range, const files::Accepted& accepted)
{
    const auto [family, description, weights, not_computed] = files::read_model(folder, arrays, range, accepted);
    const auto& [layers, norm, image, convolutions, convolution_activation, is_causal, has_logits, first_layer,
                 first_position, padding_id, embedding_scale, head_activation, logit_scale, logit_softcap] =
        description;
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
    if (weights.token_types)
        around.emplace_back("token_types", std::to_string(weights.token_types->shape(0)));
    if (weights.pooler)
        around.emplace_back("pooler", "of the first token");
    if (weights.prediction_head)
        around.emplace_back("head", std::string(name_of(head_activation)));
    for (const auto& [name, value] : {std::pair("embedding_scale", embedding_scale),
                                      {"logit_scale", logit_scale},
                                      {"logit_softcap", logit_softcap}})
        if (value)
            around.emplace_back(name, exact_text(*value));
    std::vector<std::string> lines{family + ", as " + (folder / "config.json").string() + " says", text_of(around)};
    add_layers(lines, description, weights.layers);
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
std::string input_of(const files::Model& model)
{
    const InputWeights& input = model.weights.embedding;
    return model.description.first_layer > 0             ? "tokens"
           : std::holds_alternative<Matrix>(input)       ? "ids"
           : std::holds_alternative<PatchWeights>(input) ? "pixel_values"
                                                         : "input_features";
}

/// @param taken  what the model takes
void expect_inputs(const std::string& taken, const files::Model& model, const ModuleRun& run)
{
    const std::size_t first = model.description.first_layer;
    const std::string family =
        (first > 0 ? "layer " + std::to_string(first) : "a model") + " of the family " + model.family + " takes";
    if (!run.inputs.has(taken))
        throw InputNamesError("has no array ", taken, ", which ", family);
    for (const std::string name :
         {"ids", "tokens", "lengths", "attention_mask", "token_type_ids", "pixel_values", "input_features"}) {
        const bool is_beside =
            ((name == "lengths" || name == "attention_mask") && (taken == "ids" || taken == "tokens")) ||
            (name == "token_type_ids" && taken == "ids");
        if (run.inputs.has(name) && name != taken && !is_beside)
            throw InputNamesError("has an array ", name, ", and ", family, " ", taken, " alone");
    }
}

/// Which tokens of a batch are real.
Padding padding_of(const ModuleRun& run, const Shape& batch)
{
    if (!run.inputs.has("attention_mask")) {
        const std::optional<Integers> lengths = run.inputs.lengths("lengths", batch.front());
        return lengths ? Padding(*lengths) : Padding();
    }
    if (run.inputs.has("lengths"))
        throw InputNamesError("has lengths and attention_mask: give one of them");
    const auto ones = run.inputs.get<Matrix>("attention_mask");
    if (shape_of(ones) != Shape{batch[0], batch[1]})
        throw ShapeError("attention_mask is ", shape_of(ones), ", expected (b, n) = ", Shape{batch[0], batch[1]});
    Mask mask(ones.shape());
    std::ranges::transform(ones, mask.begin(), [](double one) { return one != 0; });
    return mask;
}

/// One sequence has no padding.
void expect_no_padding(const ModuleRun& run)
{
    expect_no_lengths(run);
    if (run.inputs.has("attention_mask"))
        throw InputNamesError("has an array attention_mask, and one sequence: leave its padding out");
}

template <class Ids>
void run_on_ids(const Ids& ids, const files::Model& model, const ModuleRun& run)
{
    const LanguageModelOptions<Ids> options = options_of<Ids>(run);
    if constexpr (std::same_as<Ids, Integers>) {
        expect_no_padding(run);
        (void)language_model(ids, model.weights, model.description, options, run.trace);
    } else {
        (void)language_model(ids, padding_of(run, shape_of(ids)), model.weights, model.description, options, run.trace);
    }
}

/// The real tokens of each sequence.
std::vector<Integers> sequences_of(const ModuleRun& run)
{
    if (run.inputs.rank("ids", 1, 2, "a sequence (n) or a batch of sequences (b, n)") == 1) {
        expect_no_padding(run);
        return {run.inputs.get<Integers>("ids")};
    }
    const auto ids = run.inputs.get<IntegerMatrix>("ids");
    const std::size_t batch = ids.shape(0), n = ids.shape(1);
    const Padding padding = padding_of(run, shape_of(ids));
    const auto is_real = [&](std::size_t b, std::size_t i) {
        if (const auto* lengths = std::get_if<Integers>(&padding))
            return static_cast<std::int64_t>(i) < (*lengths)(b);
        const auto* mask = std::get_if<Mask>(&padding);
        return mask == nullptr || (*mask)(b, i);
    };
    std::vector<Integers> all;
    for (std::size_t b = 0; b < batch; ++b) {
        std::vector<std::int64_t> real;
        for (std::size_t i = 0; i < n; ++i)
            if (is_real(b, i))
                real.push_back(ids(b, i));
        Integers sequence(Integers::shape_type{real.size()});
        std::ranges::copy(real, sequence.begin());
        all.push_back(std::move(sequence));
    }
    return all;
}

/// Gives the tokens over several calls. The result is that of all sequences, one below the other.
/// @param cache  how it keeps keys and values; as they are where empty
void run_in_calls(const std::string& schedule, const std::string& cache, const files::Model& model,
                  const ModuleRun& run)
{
    if (run.inputs.has("token_type_ids"))
        throw InputNamesError("has an array token_type_ids, and with --schedule tokens have no types");
    const std::vector<Integers> sequences = sequences_of(run);
    std::vector<std::size_t> lengths;
    for (const Integers& sequence : sequences)
        lengths.push_back(sequence.size());
    if (std::ranges::all_of(lengths, [](std::size_t length) { return length == 0; }))
        throw Error("--schedule: no sequence has a token");
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

void run_on_tokens(const files::Model& model, const ModuleRun& run)
{
    const auto& [family, description, weights, not_computed] = model;
    if (run.inputs.rank("tokens", 2, 3, "a sequence (n, d_model) or a batch of sequences (b, n, d_model)") == 2) {
        expect_no_padding(run);
        (void)language_model(run.inputs.get<Matrix>("tokens"), weights, description, run.trace);
    } else {
        const auto tokens = run.inputs.get<Tensor3>("tokens");
        (void)language_model(tokens, padding_of(run, shape_of(tokens)), weights, description, run.trace);
    }
}

/// Which part of a model is computed, and where its tokens stand.
struct Part {
    files::LayerRange layers;
    std::size_t first = 0; ///< the position of the first token
    std::string schedule;  ///< how tokens are given over several calls; at once where empty
    std::string cache;     ///< how a cache keeps keys and values
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

void run_model(const ModuleRun& run, const Part& part)
{
    files::Model model = files::read_model(run.weights_path, std::move(run.arrays), part.layers, part.accepted);
    move_positions(model.description, part.first);
    const auto& [family, description, weights, not_computed] = model;
    run.learned = files::parameters(weights);
    const std::string taken = input_of(model);
    expect_inputs(taken, model, run);
    for (const std::string& name : not_computed)
        print_error("attn run", Error("note: not computed: " + name));

    if (!part.schedule.empty()) {
        if (taken != "ids" || part.first != 0)
            throw Error("--schedule: a schedule is of the ids of whole sequences, and stands beside neither --first "
                        "nor a part of the layers");
        return run_in_calls(part.schedule, part.cache, model, run);
    }
    if (!part.cache.empty())
        throw Error("--cache: without --schedule all tokens are given at once, and no cache is read");
    if (taken == "pixel_values") {
        if (run.inputs.rank(taken, 3, 4, "an image (channels, height, width) or a batch of images") == 3)
            (void)image_model(run.input<Tensor3>(taken), weights, description, run.trace);
        else
            (void)image_model(run.input<Tensor4>(taken), weights, description, run.trace);
    } else if (taken == "input_features") {
        if (run.inputs.rank(taken, 2, 3, "a sound (features, frames) or a batch of sounds") == 2)
            (void)sound_model(run.input<Matrix>(taken), weights, description, run.trace);
        else
            (void)sound_model(run.input<Tensor3>(taken), weights, description, run.trace);
    } else if (taken == "tokens") {
        run_on_tokens(model, run);
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
                   lengths_input(),
                   {"attention_mask", "b, n", "in place of lengths: 1 for a token, 0 for padding on either side", false,
                    InputKind::zero_or_one},
                   {"token_type_ids", "(b,) n", "the type of each token, such as its sentence's; 0 unless given", false,
                    InputKind::whole_numbers},
                   {"pixel_values", "(b,) channels, height, width", "an image, in place of ids"},
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
             {"--schedule", "NAME", FlagValue(part->schedule),
              "give the tokens over several calls: packed, steps:N (a prompt of N, then one by one), chunks:N, "
              "ring:N (one by one, with a cache of the last N alone), joined:N (each sequence N calls after the one "
              "before), pages:N (steps:N with keys and values in blocks of N tokens); output is that of all sequences, "
              "one below the other"},
             {"--cache", "TYPE", FlagValue(part->cache),
              "with --schedule, keep keys and values in fewer bits: float8_e4m3, int8:token, int4:block32, or "
              "uint2:channel32,uint2:token, keys before the comma"}},
        .run = [part](const ModuleRun& run) { run_model(run, *part); }};
}

} // namespace attn::cli
