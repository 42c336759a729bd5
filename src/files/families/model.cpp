#include "attn/files/families/model.hpp"

#include "family.hpp"

#include "attn/files/file.hpp"
#include "attn/files/weights/language_model.hpp"
#include "attn/files/weights/loader.hpp"
#include "attn/files/weights/state_dict.hpp"

#include "attn/core/error.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace attn::files {

namespace {

AxisSizes sizes_of_latents(const Settings& settings, const std::size_t d_model)
{
    const auto& [heads, plain, rotary, value] =
        std::tie(settings.heads, settings.plain_width, settings.rotary_width, settings.value_width);
    AxisSizes sizes{{"d_model", d_model},
                    {"h_d_k", heads * (plain + rotary)},
                    {"d_c", *settings.latent_width},
                    {"d_c_r", *settings.latent_width + rotary},
                    {"h_d_n_v", heads * (plain + value)},
                    {"h_d_v", heads * value}};
    if (settings.query_latent_width)
        sizes["d_q"] = *settings.query_latent_width;
    return sizes;
}

AxisSizes sizes_of_heads(const Settings& settings, const std::size_t d_model)
{
    const std::size_t shared = settings.key_value_heads.value_or(settings.heads);
    const std::size_t width = settings.head_width.value_or(d_model / settings.heads);
    return {{"d_model", d_model},
            {"h", settings.heads},
            {"h_d_k", settings.heads * width},
            {"g_d_k", shared * width},
            {"g_d_v", shared * width}};
}

AxisSizes sizes_of(const Settings& settings, const std::size_t d_model)
{
    AxisSizes sizes = settings.latent_width ? sizes_of_latents(settings, d_model) : sizes_of_heads(settings, d_model);
    if (const auto& states = settings.states)
        sizes.insert({{"linear_h", states->heads},
                      {"linear_g_d_k", states->key_heads * states->d_k},
                      {"linear_h_d_v", states->heads * states->d_v},
                      {"linear_d_v", states->d_v},
                      {"width", states->width}});
    if (settings.buckets)
        sizes.insert({{"buckets", *settings.buckets}, {"h", settings.heads}});
    if (settings.vocabulary)
        sizes["vocabulary"] = *settings.vocabulary;
    if (settings.token_types)
        sizes["types"] = *settings.token_types;
    if (settings.registers > 0)
        sizes["registers"] = settings.registers;
    if (settings.channels)
        sizes["channels"] = *settings.channels;
    if (settings.has_patch_map)
        sizes["d_patch"] = settings.channels.value_or(1) * settings.patch.height * settings.patch.width;
    if (const auto& image = settings.image) {
        const auto& [height, width] = settings.patch;
        sizes["patch_height"] = height;
        sizes["patch_width"] = width;
        sizes["n_max"] = (image->height / height) * (image->width / width) + settings.has_class_token +
                         settings.has_distillation_token;
    }
    sizes["d_pooled"] = settings.pooled_width.value_or(d_model);
    if (settings.embedding_width)
        sizes["d_embedding"] = *settings.embedding_width;
    if (settings.position_rows)
        sizes["n_max"] = *settings.position_rows + settings.first_position;
    return sizes;
}

// ------------------------------------------------------------------ which parts the weights must have, and must not have

void expect(bool is_there, bool expected, const std::string& layer, std::string_view part)
{
    if (is_there != expected)
        throw WeightsError(layer + " has " + (is_there ? "a " : "no ") + std::string(part) +
                           ", and config.json says that " + (expected ? "there is one" : "there is none"));
}

void expect_biases(const BlockWeights& weights, const Settings& settings, const std::string& layer)
{
    const auto bias = [&](const LinearWeights& map, const std::optional<bool>& expected, std::string_view name) {
        expect(map.bias.has_value(), expected.value_or(false), layer, "bias of its " + std::string(name) + " map");
    };
    const auto* of_layer = std::get_if<MultiHeadWeights>(&weights.self_attention);
    for (const auto* heads : {of_layer, weights.cross_attention ? &*weights.cross_attention : nullptr}) {
        if (heads == nullptr)
            continue;
        const auto own = [&](std::optional<bool> of_map) { return of_map ? of_map : settings.projection_bias; };
        bias(heads->query, own(settings.query_bias), "query");
        bias(heads->key, own(settings.key_bias), "key");
        bias(heads->value, own(settings.value_bias), "value");
        bias(*heads->output, settings.output_bias, "output");
        if (heads->gate)
            bias(*heads->gate, settings.projection_bias, "gate");
    }
    if (const auto* latents = std::get_if<LatentAttentionWeights>(&weights.self_attention)) {
        bias(latents->query, false, "query");
        if (latents->query_latent)
            bias(latents->query_latent->down, settings.projection_bias, "query latent's");
        bias(latents->latent.down, settings.projection_bias, "latent's");
        bias(latents->key_value, false, "keys' and values'");
        bias(latents->output, settings.output_bias, "output");
    }
    const auto gated_biases = [&](const GatedFeedForwardWeights& gated) {
        bias(gated.gate, settings.network_bias, "gate");
        bias(gated.up, settings.network_bias, "up");
        bias(gated.down, settings.network_bias, "down");
    };
    if (const auto* gated = std::get_if<GatedFeedForwardWeights>(&weights.feed_forward))
        gated_biases(*gated);
    if (const auto* plain = std::get_if<FeedForwardWeights>(&weights.feed_forward)) {
        bias(plain->hidden, settings.network_bias, "first network");
        bias(plain->output, settings.network_bias, "second network");
    }
    if (const auto* mixture = std::get_if<ExpertsWeights>(&weights.feed_forward)) {
        bias(mixture->router, settings.router_bias, "router");
        std::ranges::for_each(mixture->experts, gated_biases);
        if (mixture->shared_expert)
            gated_biases(*mixture->shared_expert);
    }
}

void expect_experts(const NetworkWeights& network, const Settings& settings, std::size_t i, const std::string& layer)
{
    const auto* mixture = std::get_if<ExpertsWeights>(&network);
    expect(mixture != nullptr, has_experts(settings, i), layer, "mixture of experts");
    if (mixture != nullptr && mixture->experts.size() != *settings.expert_count)
        throw WeightsError(layer + " has " + std::to_string(mixture->experts.size()) +
                           " experts, and config.json says " + std::to_string(*settings.expert_count));
    if (mixture == nullptr)
        return;
    expect(mixture->shared_expert.has_value(), settings.shared_experts > 0, layer, "shared expert");
    expect(mixture->shared_expert_gate.has_value(), settings.gates_shared_expert, layer, "gate of its shared expert");
    expect(mixture->correction_bias.has_value(), settings.corrects_experts, layer, "correction bias of its experts");
}

void expect_head_norms(const std::vector<LayerNormWeights>& norms, std::size_t heads, const LinearWeights& map,
                       const Settings& settings, const std::string& layer)
{
    expect(!norms.empty(), settings.head_norms != HeadNorms::none, layer, "norm of queries or of keys");
    if (norms.empty())
        return;
    const std::size_t all = map.weight.shape(1), count = settings.head_norms == HeadNorms::each ? heads : 1;
    const std::size_t expected = settings.head_norms == HeadNorms::width ? all : all / heads;
    if (norms.size() != count)
        throw WeightsError(layer + " has " + std::to_string(norms.size()) + " norms of queries or of keys, expected " +
                           std::to_string(count));
    for (const LayerNormWeights& norm : norms) {
        if (norm.gain.size() != expected)
            throw WeightsError(layer + " has a norm of " + std::to_string(norm.gain.size()) + " features, expected " +
                               std::to_string(expected));
        expect(norm.bias.has_value(), settings.head_norm_bias.value_or(settings.norm_bias), layer,
               "bias of its norms of queries or of keys");
    }
}

/// Which kind of attention a layer has, and its norms.
void expect_attention(const SelfAttentionWeights& weights, const Settings& settings, std::size_t i,
                      const std::string& layer)
{
    const bool has_state = std::holds_alternative<GatedDeltaNetWeights>(weights);
    expect(has_state, is_linear(settings, i), layer, "gated DeltaNet");
    if (has_state)
        return;
    const auto* latents = std::get_if<LatentAttentionWeights>(&weights);
    expect(latents != nullptr, settings.latent_width.has_value(), layer, "latent of keys and values");
    if (latents != nullptr)
        return expect(latents->query_latent.has_value(), settings.query_latent_width.has_value(), layer,
                      "latent of queries");
    const auto& attention = std::get<MultiHeadWeights>(weights);
    expect_head_norms(attention.query_norms, settings.heads, attention.query, settings, layer);
    expect_head_norms(attention.key_norms, settings.key_value_heads.value_or(settings.heads), attention.key, settings,
                      layer);
    expect(attention.sinks.has_value(), settings.has_sinks, layer, "sink of each head");
    expect(attention.gate.has_value(), settings.has_gate, layer, "gate of its heads");
}

/// A bias by distance of its own, attention to a memory, a gated network.
void expect_tower(const BlockWeights& block, const Settings& settings, const std::string& layer)
{
    expect(block.distance_bias.has_value(), settings.has_buckets_in_layers, layer, "bias by distance");
    expect(block.cross_attention.has_value(), settings.has_memory, layer, "cross-attention");
    expect(block.cross_norm.has_value(), settings.has_memory, layer, "norm of its cross-attention");
    if (block.cross_norm)
        expect(block.cross_norm->bias.has_value(), settings.norm_bias, layer, "bias of its norms");
    const bool is_gated = std::holds_alternative<GatedFeedForwardWeights>(block.feed_forward);
    if (settings.is_gated)
        expect(is_gated, *settings.is_gated, layer, "gate of its network");
}

/// What is made of the token that stands for all.
void expect_pooler(const PoolerWeights& weights, const Settings& settings)
{
    const std::string pooler = "the pooler";
    const bool is_there = settings.pooled_token.has_value(), attends = settings.pooled_token == PooledToken::query;
    const auto& [query, attention, norm, network, map] = weights;
    expect(query.has_value(), attends, pooler, "query that attends to all tokens");
    expect(attention.has_value(), attends, pooler, "map of queries, keys and values");
    expect(norm.has_value(), is_there && settings.has_pooler_norm, pooler, "norm");
    expect(network.has_value(), is_there && settings.has_pooler_network, pooler, "network");
    expect(map.has_value(), is_there && settings.has_pooler_map.value_or(map.has_value()), pooler, "map");
    const auto bias = [&](const LinearWeights& any, bool expected, std::string_view name) {
        expect(any.bias.has_value(), expected, pooler, name);
    };
    if (attention) {
        bias(attention->query, true, "bias of its queries, keys and values");
        bias(*attention->output, true, "bias of its attention's output");
    }
    if (norm)
        expect(norm->bias.has_value(), settings.norm_bias, pooler, "bias of its norm");
    if (network) {
        bias(network->hidden, settings.network_bias.value_or(false), "bias of its first network map");
        bias(network->output, settings.network_bias.value_or(false), "bias of its second network map");
    }
    if (map)
        bias(*map, settings.has_pooler_bias, "bias of its map");
}

/// What stands before and after the layers.
void expect_around(const LanguageModelWeights& weights, const Settings& settings)
{
    const std::string model = "the model";
    const std::size_t d_model = *settings.d_model;
    const auto* patches = std::get_if<PatchWeights>(&weights.embedding);
    expect(patches != nullptr, settings.image.has_value(), model, "patch embedding");
    if (patches != nullptr) {
        expect(patches->bias.has_value(), settings.has_patch_bias, model, "bias of its patch embedding");
        expect(patches->class_token.has_value(), settings.has_class_token, model, "class token");
        expect(patches->distillation_token.has_value(), settings.has_distillation_token, model, "distillation token");
        expect(patches->register_tokens.has_value(), settings.registers > 0, model, "list of register tokens");
    }
    const auto* map = std::get_if<LinearWeights>(&weights.embedding);
    expect(map != nullptr, settings.has_patch_map, model, "map of its patches");
    if (map != nullptr)
        expect(map->bias.has_value(), settings.has_patch_bias, model, "bias of its map of patches");
    const auto* convolutions = std::get_if<std::vector<ConvolutionWeights>>(&weights.embedding);
    expect(convolutions != nullptr, !settings.convolution_strides.empty(), model, "convolution before its layers");
    expect(weights.positions.has_value(), settings.has_position_table, model, "table of positions");
    expect(weights.token_types.has_value(), settings.token_types.has_value(), model, "table of token types");
    expect(weights.embedding_norm.has_value(), settings.has_embedding_norm, model, "norm after its embedding");
    const bool is_narrow = settings.embedding_width.value_or(d_model) != d_model;
    expect(weights.embedding_map.has_value(), settings.has_embedding_map || (is_narrow && !settings.maps_words), model,
           "map from its embedding to its tokens");
    expect(weights.word_map.has_value(), is_narrow && settings.maps_words, model, "map from its words to its tokens");
    expect(weights.output_map.has_value(), is_narrow && settings.has_output_map, model,
           "map from its last tokens to its words");
    expect(weights.norm.has_value(), settings.has_final_norm, model, "norm after its last layer");
    expect(weights.distance_bias.has_value(), settings.buckets && !settings.has_buckets_in_layers, model,
           "bias by distance");
    for (const auto* norm : {&weights.embedding_norm, &weights.norm})
        if (*norm)
            expect((*norm)->bias.has_value(), settings.norm_bias, model, "bias of its norms");
    const auto& head = weights.prediction_head;
    expect(head.has_value(), settings.prediction_head.has_value(), model, "head before its logits");
    if (head) {
        expect(head->map.bias.has_value(), settings.has_prediction_head_bias, model, "bias of its head's map");
        expect(head->norm.bias.has_value(), settings.norm_bias, model, "bias of its head's norm");
    }
    expect(weights.output_bias.has_value(), settings.has_logits && settings.has_vocabulary_bias, model,
           "bias of its logits");
    expect_pooler(weights.pooler, settings);
}

void expect_parts(const LanguageModelWeights& weights, const Settings& settings, const Part& part)
{
    for (std::size_t i = part.first; i < part.last; ++i) {
        const BlockWeights& block = weights.layers[i - part.first];
        const std::string layer = "layer " + std::to_string(i);
        expect_biases(block, settings, layer);
        expect_experts(block.feed_forward, settings, i, layer);
        expect_attention(block.self_attention, settings, i, layer);
        expect_tower(block, settings, layer);
        for (const auto* norm : {&block.norm1, &block.norm2, &block.post_norm1, &block.post_norm2})
            if (*norm)
                expect((*norm)->bias.has_value(), settings.norm_bias, layer, "bias of its norms");
        for (const auto* scale : {&block.scale1, &block.scale2})
            expect(scale->has_value(), settings.has_layer_scale, layer, "scale of its sublayers");
        if (!settings.has_first_norm)
            expect(block.norm1.has_value(), i > 0, layer, "norm before its attention");
    }
    expect_around(weights, settings);
}

/// Tied where config.json says so. A file can have the same numbers twice.
void tie_output(LanguageModelWeights& weights, const Settings& settings)
{
    auto& output = weights.output;
    if (!settings.has_logits)
        return expect(output.has_value(), false, "the model", "map to the logits");
    if (!output && !settings.is_tied)
        throw WeightsError("there is no output map, and config.json says that it is not tied to the embedding");
    if (settings.is_tied && output && transpose(*output) == std::get<Matrix>(weights.embedding))
        output.reset();
}

/// What the configuration of a folder says.
struct Configured {
    Family family;
    std::string tower; ///< of a family with an encoder and a decoder
    Settings settings;
    Part part;
    LanguageModelDescription description; ///< of the part
};

/// @param tensors_in  the names of the folder's tensors, which are asked for once there is a configuration
/// @return the encoder and the decoder of a family that has both
std::vector<Configured> read_config(const std::filesystem::path& folder, const LayerRange& layers,
                                    const Accepted& accepted,
                                    const std::function<std::vector<std::string>()>& tensors_in)
{
    const std::filesystem::path file = folder / "config.json";
    const Json config = read_json_object(file, R"(a configuration: {"model_type": "llama", ...})");
    const auto configured = [&](const std::string& tower) -> Configured {
        const Family family = family_of(config, tower);
        const Settings settings = settings_of(family, config, accepted.fields);
        if (!settings.d_model || !settings.layers)
            throw Error("does not say how many features a token has, or how many layers there are");
        const std::size_t d_model = *settings.d_model, all = *settings.layers;
        const Part part = part_of(layers, all);
        expect_layers(part, family, tensors_in());
        const LanguageModelDescription whole = description_of(settings, d_model, all);
        return {family, tower, settings, part, description_of(part, whole)};
    };
    return about_file(file, "", [&]() -> std::vector<Configured> {
        std::vector<Configured> all;
        for (const std::string& tower : towers_of(family_of(config), config))
            all.push_back(configured(tower));
        if (all.size() > 1 && (layers.first > 0 || layers.last))
            throw Error("is of a model with an encoder and a decoder, which is computed as a whole: give no layers");
        return all;
    });
}

/// Takes out what the reader wants to be left out.
void leave_out(NamedArrays& arrays, const std::vector<std::string>& beginnings)
{
    for (const std::string& beginning : beginnings)
        if (std::erase_if(arrays, [&](const auto& entry) { return entry.first.starts_with(beginning); }) == 0)
            throw WeightsError("no tensor's name begins with " + beginning + ", which is to be left out");
}

} // namespace

NameFilter tensors_of(const std::filesystem::path& folder, const LayerRange& layers, const Accepted& accepted)
{
    const auto names_in_files = [&] {
        std::vector<std::string> names;
        (void)read_weights(folder, {}, [&](const std::string& name) {
            names.push_back(name);
            return false;
        });
        return names;
    };
    const auto [family, tower, settings, part, description] =
        read_config(folder, layers, accepted, names_in_files).back();
    return tensors_of(part, family, settings);
}

namespace {

/// The table of positions that no file has.
Matrix table_of_sinusoids(const Settings& settings, const std::size_t padding)
{
    const std::size_t d = *settings.d_model, rows = *settings.position_rows + settings.first_position;
    SinusoidalOptions options{.layout = SineLayout::halves};
    if (settings.position_sinusoids == SinusoidsOfTable::at_last)
        options.base = std::pow(options.base, static_cast<double>(d / 2) / (static_cast<double>(d / 2) - 1));
    Matrix table = sinusoidal_positions(rows, d, options);
    if (settings.position_sinusoids == SinusoidsOfTable::at_last && padding < rows)
        xt::view(table, padding, xt::all()) = 0;
    return table;
}

/// Norms without gains have gains of one.
void add_gains(NamedArrays& arrays, const Dialect& dialect, const Part& part, std::size_t d_model, bool has_final_norm)
{
    const Array ones{.shape = {d_model}, .values = std::vector<double>(d_model, 1.0)};
    const auto add = [&](const std::string& norm) { arrays.emplace(dialect.theirs(norm + ".weight"), ones); };
    for (std::size_t i = 0; i < part.size(); ++i)
        for (const std::string norm : {"norm1", "norm2"})
            add("layers." + std::to_string(i) + "." + norm);
    if (has_final_norm)
        add("norm");
}

bool is_by_id(PooledToken token) { return token == PooledToken::of_id || token == PooledToken::highest_id; }

/// Lets queries and keys rotate by the frequencies that the file has, of the model or of each layer alike.
void take_frequencies(NamedArrays& arrays, const Family& family, LanguageModelDescription& description)
{
    std::optional<Array> found;
    for (auto at = arrays.begin(); at != arrays.end();) {
        if (family.frequencies.empty() || !at->first.ends_with(family.frequencies)) {
            ++at;
            continue;
        }
        if (found && !identical(*found, at->second))
            throw WeightsError(at->first + " is not the same as in another layer, expected the frequencies of all");
        found = std::move(at->second);
        at = arrays.erase(at);
    }
    if (found)
        for (BlockDescription& layer : description.layers)
            if (layer.attention.positions == HeadPositions::rotary)
                layer.attention.rotary.frequencies = from_array<Vector>(*found);
}

/// A model, or the encoder or the decoder of one.
Model read_tower(const Configured& configured, NamedArrays arrays)
{
    const auto& [family, tower, settings, part, description] = configured;
    Model model{.family = family.model_type, .description = description, .weights = {}};
    model.not_computed = take_not_computed(arrays, family);
    take_frequencies(arrays, family, model.description);
    arrays = unpacked(std::move(arrays), family, settings);
    const Settings expected = settings_of(part, settings);
    const bool has_tied_output = expected.has_logits && settings.is_tied;
    const Dialect dialect = dialect_of(family, settings, arrays, part);
    if (!settings.has_norm_gains)
        add_gains(arrays, dialect, part, *settings.d_model, expected.has_final_norm);
    const LoadOptions options{.layers = part.size(),
                              .has_input = part.is_at_beginning() || has_tied_output,
                              .module = "a model of the family " + family.model_type,
                              .ignored = "rotary_emb.inv_freq", // in older files; they follow from their base
                              .dialect = dialect};
    model.weights = load_weights<LanguageModelWeights>(arrays, sizes_of(settings, *settings.d_model), options);
    if (settings.position_sinusoids && !model.weights.positions)
        model.weights.positions = table_of_sinusoids(settings, description.padding_id.value_or(0));
    expect_parts(model.weights, expected, part);
    if (!settings.has_pooler_map && !model.weights.pooler.map) // saved without its pooler
        model.description.pooler.reset();
    if (auto& pooler = model.description.pooler; pooler && is_by_id(pooler->token) && !part.is_at_beginning()) {
        pooler.reset();
        model.not_computed.emplace_back(
            "the pooled result: an id says which token it is made of, and there are no ids between layers");
    }
    if (!part.is_at_beginning()) { // they said how wide embeddings are; tokens have been mapped
        model.weights.embedding_map.reset();
        model.weights.word_map.reset();
    }
    tie_output(model.weights, expected);
    return model;
}

} // namespace

Model read_model(const std::filesystem::path& folder, NamedArrays arrays, const LayerRange& layers,
                 const Accepted& accepted)
{
    leave_out(arrays, accepted.tensors);
    const auto names_of_arrays = [&] {
        std::vector<std::string> names;
        for (const auto& [name, array] : arrays)
            names.push_back(name);
        return names;
    };
    const std::vector<Configured> towers = read_config(folder, layers, accepted, names_of_arrays);
    const auto& [family, tower, settings, part, description] = towers.back();

    arrays = with_each_layer(renamed(std::move(arrays), family), family, part.all);
    const NameFilter is_of_part = tensors_of(part, family, settings);
    std::erase_if(arrays, [&](const auto& entry) { return !is_of_part(entry.first); });
    if (tower.empty())
        return read_tower(towers.back(), std::move(arrays));
    Model model = read_tower(towers.back(), tensors_of_tower(arrays, family, tower));
    if (towers.size() == 1)
        return model;
    Model encoder = read_tower(towers.front(), tensors_of_tower(arrays, family, towers.front().tower));
    const auto* words = std::get_if<Matrix>(&encoder.weights.embedding);
    if (words != nullptr && *words == std::get<Matrix>(model.weights.embedding))
        model.weights.embedding = std::monostate();
    model.not_computed.insert(model.not_computed.end(), encoder.not_computed.begin(), encoder.not_computed.end());
    model.encoder = {std::move(encoder.description), std::move(encoder.weights)};
    return model;
}

} // namespace attn::files
