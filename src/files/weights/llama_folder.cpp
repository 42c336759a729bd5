#include "attn/files/weights/llama_folder.hpp"

#include "attn/files/json_file.hpp"

#include "attn/files/file.hpp"
#include "attn/files/weights/llama.hpp"
#include "attn/files/weights/state_dict.hpp"

#include <cmath>
#include <optional>
#include <string>
#include <vector>

namespace attn::files {
namespace {

using Json = nlohmann::json;

constexpr std::string_view whole = "expected a folder with config.json, one .npz or .safetensors of weights, and a "
                                   "vocabulary tok*.json, such as the model stories260K, which Andrej Karpathy "
                                   "published with llama2.c";

template <class IsRight>
std::filesystem::path only_file(const std::filesystem::path& folder, std::string_view what, const IsRight& is_right)
{
    std::vector<std::filesystem::path> found;
    std::error_code failed;
    for (std::filesystem::directory_iterator entry(folder, failed), end; !failed && entry != end;
         entry.increment(failed))
        if (is_right(entry->path()))
            found.push_back(entry->path());
    if (failed)
        throw FileError(folder, "can't be read: " + failed.message() + "; " + std::string(whole));
    if (found.size() != 1)
        throw FileError(folder, "has " + (found.empty() ? "no " : std::to_string(found.size()) + " files of ") +
                                    std::string(what) + "; " + std::string(whole));
    return found.front();
}

bool is_weights(const std::filesystem::path& path)
{
    return path.extension() == ".npz" || path.extension() == ".safetensors";
}

bool is_vocabulary(const std::filesystem::path& path)
{
    return path.extension() == ".json" && path.filename().string().starts_with("tok");
}

/// A number of a configuration, by either of its names.
std::optional<double> number_in(const Json& config, const char* name, const char* other)
{
    for (const char* key : {name, other})
        if (const auto found = config.find(key); found != config.end()) {
            if (!found->is_number() || !std::isfinite(found->get<double>()) || found->get<double>() <= 0)
                throw Error("has a " + std::string(key) + " that is no number above zero");
            return found->get<double>();
        }
    return std::nullopt;
}

std::optional<std::size_t> count_in(const Json& config, const char* name, const char* other)
{
    const std::optional<double> number = number_in(config, name, other);
    if (!number)
        return std::nullopt;
    if (*number != std::trunc(*number) || *number > 1e6)
        throw Error("has a " + std::string(name) + " that is no whole number up to a million");
    return static_cast<std::size_t>(*number);
}

LlamaOptions options_of(const Json& config, const LlamaCheckpoint& checkpoint)
{
    const std::optional<std::size_t> heads = count_in(config, "n_heads", "num_attention_heads");
    if (!heads)
        throw Error("has no n_heads (num_attention_heads with Hugging Face)");
    const std::optional<std::size_t> groups = count_in(config, "n_kv_heads", "num_key_value_heads");
    const std::size_t found = key_value_heads(checkpoint.weights.layers.front().self_attention, *heads);
    if (groups && *groups != found)
        throw Error("has n_kv_heads " + std::to_string(*groups) + ", but the weights have " + std::to_string(found) +
                    " key/value heads");
    LlamaOptions options{.heads = *heads};
    options.rotary = {.base = number_in(config, "rope_theta", "rope_theta").value_or(options.rotary.base),
                      .layout = checkpoint.layout};
    options.norm.epsilon = number_in(config, "rms_eps", "rms_norm_eps").value_or(options.norm.epsilon);
    return options;
}

LlamaCheckpoint checkpoint_in(const std::filesystem::path& path)
{
    try {
        return llama_weights(read_weights(path));
    } catch (const WeightsError& error) {
        throw WeightsError(printable(path.string()) + ": " + error.what());
    }
}

} // namespace

LlamaFolder read_llama_folder(const std::filesystem::path& folder)
{
    const std::filesystem::path weights_file = only_file(folder, "weights (.npz or .safetensors)", is_weights);
    const std::filesystem::path vocabulary_file = only_file(folder, "vocabulary (tok*.json)", is_vocabulary);
    const std::filesystem::path config_file = folder / "config.json";
    const Json config = read_json_object(config_file, R"(a configuration: {"n_heads": 8, ...})");
    LlamaCheckpoint checkpoint = checkpoint_in(weights_file);
    Tokenizer tokenizer = read_tokenizer(vocabulary_file);
    const std::size_t vocabulary = checkpoint.weights.embedding.shape(0);
    if (tokenizer.size() != vocabulary)
        throw FileError(vocabulary_file, "has " + std::to_string(tokenizer.size()) + " tokens, expected " +
                                             std::to_string(vocabulary) + ", the rows of the embedding in " +
                                             weights_file.filename().string());
    const LlamaOptions options = about_file(config_file, "", [&] { return options_of(config, checkpoint); });
    return {std::move(checkpoint.weights), options, std::move(tokenizer)};
}

} // namespace attn::files
