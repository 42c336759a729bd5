// A part of a model: some of its layers, with what stands before the first and after the last.

#include "family.hpp"

#include "attn/core/error.hpp"

#include <charconv>
#include <optional>
#include <set>
#include <utility>

namespace attn::files {
namespace {

/// Where a tensor stands. The table of words is needed after the layers, too, where the output is tied to it, and the map from
/// embeddings to tokens where there are logits: it says how wide embeddings are.
enum class Place { table, map, before, in_layer, everywhere, after, unknown };

/// The same by our names.
constexpr std::pair<const char*, Place> places_by_name[] = {{"embedding.", Place::table},
                                                            {"patch_embedding.", Place::before},
                                                            {"patch_map.", Place::before},
                                                            {"class_token", Place::before},
                                                            {"distillation_token", Place::before},
                                                            {"register_tokens", Place::before},
                                                            {"convolutions.", Place::before},
                                                            {"position_embedding.", Place::before},
                                                            {"token_type_embedding.", Place::before},
                                                            {"embedding_norm.", Place::before},
                                                            {"embedding_map.", Place::map},
                                                            {"word_map.", Place::map},
                                                            {"output_map.", Place::after},
                                                            {"layers.", Place::in_layer},
                                                            {"distance_bias.", Place::everywhere},
                                                            {"norm.", Place::after},
                                                            {"prediction_head.", Place::after},
                                                            {"output.", Place::after},
                                                            {"pooler.", Place::after}};

/// The number with which a text begins, where a dot follows it.
std::optional<std::size_t> leading_number(std::string_view text)
{
    std::size_t number = 0;
    const char* last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, number);
    return error == std::errc{} && end != last && *end == '.' ? std::optional(number) : std::nullopt;
}

/// Where tensors stand, by the beginnings of their names; where files of a base model lack a prefix, with it or without.
class Places {
public:
    explicit Places(const Family& family) : base_(family.base_prefix), copies_(family.copies)
    {
        for (const auto& [ours, place] : places_by_name)
            add(ours, place, family.names);
    }

    /// And the number of its layer.
    std::pair<Place, std::size_t> of(std::string name) const
    {
        if (const auto original = copies_.find(name); original != copies_.end())
            name = original->get<std::string>();
        name = without_base(std::move(name));
        Place place = Place::unknown;
        std::size_t longest = 0;
        for (const auto& [beginning, of_beginning] : beginnings_)
            if (beginning.size() > longest && name.starts_with(beginning)) {
                place = of_beginning;
                longest = beginning.size();
            }
        if (place != Place::in_layer)
            return {place, 0};
        const std::optional<std::size_t> number = leading_number(std::string_view(name).substr(longest));
        return number ? std::pair(place, *number) : std::pair(Place::unknown, std::size_t{0});
    }

private:
    /// Adds what the family calls that, and what begins with it: position_embedding.weight, for example.
    void add(const std::string& ours, Place place, const Json& names)
    {
        bool is_named = false;
        for (const auto& [name, theirs] : names.items())
            if (name.starts_with(ours)) {
                is_named = is_named || name == ours;
                if (theirs.is_string())
                    beginnings_.emplace_back(without_base(theirs.get<std::string>()), place);
            }
        if (!is_named)
            beginnings_.emplace_back(ours, place);
    }

    std::string without_base(std::string name) const
    {
        return name.starts_with(base_) ? name.substr(base_.size()) : name;
    }

    std::string base_;
    Json copies_;
    std::vector<std::pair<std::string, Place>> beginnings_;
};

} // namespace

Part part_of(const LayerRange& range, std::size_t layers)
{
    const Part part{.first = range.first, .last = range.last.value_or(layers), .all = layers};
    if (part.first >= part.last || part.last > layers)
        throw Error("has " + std::to_string(layers) + " layers, 0:" + std::to_string(layers) + ", and " +
                    std::to_string(part.first) + ":" + std::to_string(part.last) + " are none of them");
    return part;
}

void expect_layers(const Part& part, const Family& family, const std::vector<std::string>& tensors)
{
    const Places places(family);
    std::set<std::size_t> found;
    for (const std::string& name : tensors)
        if (const auto [place, layer] = places.of(name); place == Place::in_layer)
            found.insert(layer);
    const std::size_t most = found.empty() ? tensors.size() : found.size(); // under other names, each can be a layer's
    if (part.size() > most)
        throw Error("says that there are " + std::to_string(part.all) + " layers, and the weights have tensors of " +
                    std::to_string(most));
}

NameFilter tensors_of(const Part& part, const Family& family, const Settings& settings)
{
    if (part.is_whole())
        return any_name;
    const bool has_output = part.is_at_end() && settings.has_logits, has_tied_output = has_output && settings.is_tied;
    return [part, has_output, has_tied_output, places = Places(family)](const std::string& name) {
        const auto [place, layer] = places.of(name);
        switch (place) {
        case Place::table:
            return part.is_at_beginning() || has_tied_output;
        case Place::map:
            return part.is_at_beginning() || has_output;
        case Place::before:
            return part.is_at_beginning();
        case Place::in_layer: // one that the model should not have is complained about
            return (layer >= part.first && layer < part.last) || layer >= part.all;
        case Place::after:
            return part.is_at_end();
        case Place::everywhere:
        case Place::unknown:
            return true;
        }
        return true;
    };
}

Settings settings_of(const Part& part, Settings settings)
{
    if (!part.is_at_beginning()) {
        settings.image.reset();
        settings.has_patch_map = false;
        settings.convolution_strides.clear();
        settings.has_position_table = false;
        settings.token_types.reset();
        settings.has_embedding_norm = false;
        if (!part.is_at_end() || !settings.has_logits) {
            settings.has_embedding_map = false;
            settings.embedding_width.reset();
        }
    }
    if (!part.is_at_end()) {
        settings.has_final_norm = false;
        settings.has_output_map = false;
        settings.has_logits = false;
        settings.prediction_head.reset();
        settings.pooled_token.reset();
    }
    return settings;
}

LanguageModelDescription description_of(const Part& part, LanguageModelDescription model)
{
    const auto at = [&](std::size_t layer) { return model.layers.begin() + static_cast<std::ptrdiff_t>(layer); };
    model.layers = std::vector(at(part.first), at(part.last));
    model.first_layer = part.first;
    if (!part.is_at_beginning()) {
        model.padding_id.reset(); // positions are in the tokens already
        model.token_dropout.reset();
        model.image.reset();
        model.convolutions.clear();
    }
    model.has_logits = model.has_logits && part.is_at_end();
    if (!part.is_at_end())
        model.pooler.reset();
    return model;
}

} // namespace attn::files
