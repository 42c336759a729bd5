#include "small_model.hpp"

#include "attn/files/file.hpp"
#include "attn/files/json_file.hpp"
#include "attn/files/npz.hpp"
#include "attn/files/weights/gpt.hpp"
#include "attn/files/weights/state_dict.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>

namespace attn {

std::vector<std::string> words_of(std::string_view text)
{
    std::istringstream stream{std::string(text)};
    std::vector<std::string> words;
    for (std::string word; stream >> word;)
        words.push_back(word);
    return words;
}

Integers SmallModel::ids(std::string_view text) const
{
    const std::vector<std::string> given = words_of(text);
    Integers found(Integers::shape_type{given.size()});
    for (std::size_t i = 0; i < given.size(); ++i) {
        const auto at = std::ranges::find(vocabulary, given[i]);
        if (at == vocabulary.end())
            throw Error("the small model has no word " + given[i] +
                        ": lessons/small_model/config.json lists the " +
                        std::to_string(vocabulary.size()) + " that it has");
        found(i) = at - vocabulary.begin();
    }
    return found;
}

std::string SmallModel::words(const Integers& ids) const
{
    std::string text;
    for (const std::int64_t id : ids) {
        if (id < 0 || static_cast<std::size_t>(id) >= vocabulary.size())
            throw Error("the small model has no word " + std::to_string(id) +
                        ": its ids go from 0 to " +
                        std::to_string(vocabulary.size() - 1));
        text += (text.empty() ? "" : " ") + vocabulary[static_cast<std::size_t>(id)];
    }
    return text;
}

SmallModel small_model(Training training)
{
    const std::filesystem::path folder =
        std::filesystem::path(ATTN_LESSONS_FOLDER) / "small_model";
    const std::filesystem::path config_file = folder / "config.json";
    const std::filesystem::path weights_file =
        folder /
        (training == Training::after ? "model.safetensors" : "untrained.safetensors");
    const nlohmann::json config = files::read_json_object(
        config_file, R"({"heads": 4, "vocabulary": ["Lily", ...]})");
    SmallModel model;
    const auto is_word = [](const nlohmann::json& word) { return word.is_string(); };
    const nlohmann::json heads = config.value("heads", nlohmann::json());
    const nlohmann::json words = config.value("vocabulary", nlohmann::json());
    if (!heads.is_number_unsigned())
        throw files::FileError(config_file,
                               "has no whole number \"heads\", expected what "
                               "script/train-model writes");
    if (!words.is_array() || !std::ranges::all_of(words, is_word))
        throw files::FileError(config_file,
                               "has no list of words \"vocabulary\", expected what "
                               "script/train-model writes");
    heads.get_to(model.options.heads);
    words.get_to(model.vocabulary);
    try {
        model.weights = files::load_weights<GptWeights>(
            files::read_weights(weights_file), {{"vocabulary", model.vocabulary.size()}});
    } catch (const files::WeightsError& error) {
        throw files::WeightsError(printable(weights_file.string()) + ": " + error.what());
    }
    return model;
}

SmallStories small_stories()
{
    const std::filesystem::path file =
        std::filesystem::path(ATTN_LESSONS_FOLDER) / "small_model" / "stories.npz";
    const files::NamedArrays arrays = files::read_npz(file);
    const auto stories = [&](const char* name) {
        const auto found = arrays.find(name);
        if (found == arrays.end() || found->second.type != ElementType::integer)
            throw files::FileError(
                file, "has no whole numbers " + std::string(name) +
                          ", expected what script/regenerate-goldens stories writes");
        std::vector<std::vector<std::int64_t>> split(1);
        for (const double id : found->second.values) {
            split.back().push_back(static_cast<std::int64_t>(id));
            if (id == 0) // the end of a story
                split.emplace_back();
        }
        split.pop_back();
        return split;
    };
    return {stories("training"), stories("held_out")};
}

std::string sentence() { return "Lily had a red ball . She"; }

} // namespace attn
