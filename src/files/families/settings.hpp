#pragma once

#include "attn/files/json_file.hpp"
#include "attn/reference/models/language_model.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attn::files {

using Json = nlohmann::json;

/// Norms of queries and keys.
enum class HeadNorms {
    none,
    head, ///< one that heads share
    each, ///< one for each head
    width ///< one of all heads together
};
std::string_view name_of(HeadNorms norms);

/// How the table of positions follows from its rows: sines, then cosines, of frequencies that fall to 1/10000 of the first.
enum class SinusoidsOfTable {
    beyond_last, ///< which would be that of one pair more: Vaswani et al. 2017, Marian
    at_last      ///< which is that of the last pair, and padding has zeros: tensor2tensor, M2M100
};
std::string_view name_of(SinusoidsOfTable sinusoids);

/// What a configuration and its family say of a model, before the weights are known.
struct Settings {
    std::optional<std::vector<std::string>> architectures = {};

    /// @name Sizes, which the weights must have
    /// @{
    std::size_t heads = 1;
    std::optional<std::size_t> vocabulary = {}, d_model = {}, d_ff = {}, layers = {}, key_value_heads = {};
    std::optional<std::size_t> layers_too = {}; ///< by another name
    std::optional<std::size_t> own_layers = {}; ///< of a decoder that has not as many as its encoder
    std::optional<std::size_t> buckets = {};    ///< of distances between tokens
    bool has_buckets_in_layers = false;         ///< where each layer has a table of its own
    std::optional<std::size_t> head_width = {}, query_width = {}, position_rows = {};
    std::optional<std::size_t> embedding_width = {}; ///< where it can be another than that of tokens
    std::optional<std::size_t> token_types = {};
    bool has_position_table = false, is_tied = false, maps_are_in_out = false;
    /// @}

    /// @name What is computed
    /// @{
    bool is_causal = true, has_logits = true, has_memory = false;
    std::size_t farthest_bucket = 128;   ///< tokens
    std::optional<ImageSize> image = {}; ///< where tokens are patches of an image
    ImageSize patch = {};
    bool has_patch_map = false;      ///< where patches are cut already
    bool has_any_image_size = false; ///< where images can have another size than in training
    bool has_patch_bias = true, has_class_token = true, has_distillation_token = false;
    std::size_t registers = 0;                ///< further tokens before those of patches
    std::optional<std::size_t> channels = {}; ///< of an image, or of a sound, whose convolutions have strides
    std::vector<std::size_t> convolution_strides = {};
    Activation convolution_activation = default_activation;
    std::optional<Activation> prediction_head = {}; ///< of a masked language model
    /// @}

    /// @name Which biases, norms, sinks and gates the weights must have
    /// @{
    bool has_embedding_norm = false, has_embedding_map = false, maps_words = false, has_output_map = false,
         has_final_norm = true, has_first_norm = true;
    bool has_vocabulary_bias = false, has_prediction_head_bias = true;
    std::optional<bool> projection_bias = {}, output_bias = {}, network_bias = {};
    std::optional<bool> query_bias = {}, key_bias = {},
                        value_bias = {}; ///< where they have another one than projection_bias
    bool norm_bias = false, has_norm_gains = true, has_sinks = false, has_gate = false, has_layer_scale = false;
    HeadNorms head_norms = HeadNorms::none;
    std::optional<bool> head_norm_bias = {}; ///< where these norms have another one than the layer's
    /// @}

    /// @name Latent attention: the latents, and of each head the features that are not rotated, those that are, those of a value
    /// @{
    std::optional<std::size_t> latent_width = {}, query_latent_width = {};
    std::size_t plain_width = 0, rotary_width = 0, value_width = 0;
    /// @}

    /// Gated DeltaNets, which are the layers of type linear_attention, or all but every so many-th.
    struct States {
        std::size_t heads = 1, key_heads = 1, d_k = 1, d_v = 1, width = 1;
    };
    std::optional<States> states = {};
    std::optional<std::size_t> attention_interval = {};

    NormDescription norm = {};
    std::optional<double> head_norm_epsilon = {}; ///< of norms in attention, where it is another one
    NormPlaces places = NormPlaces::before;
    bool is_parallel = false, adds_to_norms = false;
    double residual_scale = 1;
    Activation activation = default_activation;
    std::optional<bool> is_gated = {};             ///< where the configuration says whether the network is
    std::optional<Activation> own_activation = {}; ///< where another field, beside that of the network, says it
    std::optional<bool> own_gate = {};

    /// @name A mixture of experts: how many there are, in which layers, and how tokens choose among them
    /// @{
    std::optional<std::size_t> expert_count = {}, sparse_step = {};
    std::size_t first_sparse_layer = 0, shared_experts = 0;
    std::optional<std::vector<std::size_t>> dense_layers = {}, sparse_layers = {};
    ExpertsOptions experts = {};
    bool normalizes_experts = true, corrects_experts = false, gates_shared_expert = false;
    std::optional<bool> router_bias = {};
    /// @}

    /// @name Scores
    /// @{
    std::optional<double> scale = {}, scale_width = {}, softcap = {};
    bool is_scaled = true, is_scaled_by_layer = false, is_scaled_by_mscale = false;
    bool has_unit_heads = false, has_temperature = false; ///< where positions rotate, and where they do not
    QueryTemperature temperature = {};
    /// @}

    /// @name Windows and chunks: how many keys, and in which layers
    /// @{
    std::optional<std::size_t> chunk =
        {}; ///< in layers of type chunked_attention; where no types are listed, in those that rotate
    std::optional<std::size_t> window = {}, first_windowed_layer = {}, window_pattern = {}, full_interval = {};
    std::optional<bool> uses_window = {}, uses_window_without_rotary = {};
    std::optional<std::vector<std::string>> layer_types = {}, layer_types_cycle = {};
    /// @}

    /// @name Positions
    /// @{
    HeadPositions positions = HeadPositions::none;
    std::size_t first_position = 0;
    std::optional<std::size_t> padding_id = {}; ///< which positions do not count
    std::optional<TokenDropout> token_dropout = {};
    RotaryLayout rotary_layout = RotaryLayout::halves;
    Json rotary_parameters = {}, rotary_scaling = {}, rotary_aliases = Json::object();
    std::vector<std::string> rotary_without_effect = {}; ///< fields of the parameters that change nothing
    std::optional<double> rotary_base = {}, rotary_share = {}, rotary_base_of_window = {};
    double rotary_base_of_family = 10000;
    std::optional<std::size_t> rotary_features = {}; ///< of each head, where the configuration counts them
    bool has_rotary_share = false; ///< whether the family reads partial_rotary_factor where positions are not scaled
    std::optional<std::size_t> positions_in_training = {}, original_positions = {};
    std::optional<std::vector<std::size_t>> rotary_layers = {};
    std::optional<std::size_t> rotary_interval = {};
    bool has_rotary_by_layer_type =
        false;                        ///< whether the parameters can be listed by full_attention and sliding_attention
    bool rotates_along_image = false; ///< along its rows and its columns
    std::optional<std::vector<std::size_t>> rotary_sections = {}; ///< pairs that follow each of three axes
    bool interleaves_sections =
        false; ///< one pair of each axis in turn, until it has its pairs; the rest follow the first
    bool has_rotary_in_windows_only = false; ///< where some layers have a window, the others rotate nothing
    /// @}

    /// @name Without logits: which token stands for all, where one does, and what is made of it
    /// @{
    std::optional<PooledToken> pooled_token = {};
    std::size_t pooled_id = 0;                    ///< of it, where an id chooses it
    std::optional<std::size_t> pooled_width = {}; ///< where it can be another than that of tokens
    bool has_pooler_norm = false, has_pooler_network = false, has_pooler_bias = true, has_pooler_tanh = false;
    std::optional<bool> has_pooler_map = {}; ///< unless given, the pooler is left out where a file has no map
    /// @}

    /// @name Before and after the layers
    /// @{
    bool scales_embedding_by_width = false, scales_logits_by_width = false;
    std::optional<SinusoidsOfTable> position_sinusoids = {}; ///< where the table of positions is in no file
    std::optional<double> embedding_scale = {}, logit_scale = {}, logit_divisor = {}, logit_softcap = {};
    /// @}
};

/// Sets what the setting of that name says.
/// @throws Error            where the value is of another kind
/// @throws std::logic_error where there is no such setting: a family's file is wrong
void set(Settings& settings, const std::string& name, const Json& value);

bool is_linear(const Settings& settings, std::size_t layer);

/// Whether the network of a layer is a mixture of experts.
bool has_experts(const Settings& settings, std::size_t layer);

/// The rotation of a layer's queries and keys.
/// @param is_windowed  whether the layer has a window, in which some families rotate otherwise
/// @throws Error where positions are scaled in a way that is not known here
RotaryOptions rotary_of(const Settings& settings, bool is_windowed, std::size_t head_width);

/// The description that settings make, of so many layers.
/// @throws Error where they contradict each other, or ask for what is not known here
LanguageModelDescription description_of(const Settings& settings, std::size_t d_model, std::size_t layers);

} // namespace attn::files
