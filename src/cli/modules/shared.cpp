#include "shared.hpp"

#include "attn/files/families/rotary_config.hpp"
#include "attn/files/json_file.hpp"
#include "attn/reference/layers/activation.hpp"

namespace attn::cli {

Flag heads_flag(std::size_t& heads)
{
    return {"--heads", "H", whole_number(heads, 1, std::size_t{1} << 20).like("4"), "number of heads", true};
}

Flag scale_flag(std::optional<double>& scale)
{
    return {"--scale", "S", number(scale).like("2"), "factor of the scores (default: 1/sqrt(d_k))"};
}

Flag softcap_flag(std::optional<double>& softcap)
{
    return {"--softcap", "C", number(softcap, NumberRange::above_zero).like("0.5"),
            "keeps the scaled scores between -C and C: C tanh(scores / C)"};
}

Flag mask_flag(std::optional<Causal>& causal, const std::string& whose)
{
    return {"--mask", "", one_of(causal),
            "no later keys" + whose +
                ", in addition to the masks and lengths of the input; where n and m differ, the last query can attend "
                "to every key (causal), the first query to the first key only (causal-top-left), or the last query to "
                "the last key that lengths count (causal-by-length)"};
}

Flag rotary_base_flag(RotaryOptions& rotary)
{
    return {"--rotary-base", "B", number(rotary.base, NumberRange::above_zero).like("3"),
            "pair i of d features is rotated by position / B^(2i/d)"};
}

Flag rotary_features_flag(std::optional<std::size_t>& features)
{
    return {"--rotary-features", "N", whole_number(features, 2, std::size_t{1} << 20).like("2"),
            "only the first N features of each head are rotated (default: all)"};
}

Flag rotary_scaling_flag(RotaryScaling& scaling)
{
    std::string names;
    for (const RotaryScaling& one : rotary_scalings())
        names += (names.empty() ? "" : ", ") + std::string(name_of(one));
    const auto read = [&scaling](const std::string& text) {
        const nlohmann::json given =
            files::parse_json_object(text, R"(a scaling such as {"rope_type": "linear", "factor": 8})");
        scaling = files::rotary_scaling(given, given, "");
    };
    return {
        "--rotary-scaling", "JSON", FlagValue(read).like(R"({"rope_type":"linear","factor":8})"),
        "other frequencies for texts longer than in training: rope_parameters of config.json, without rope_theta and "
        "partial_rotary_factor; its rope_type is one of " +
            names};
}

std::vector<Flag> window_flags(Window& window, const std::string& position)
{
    constexpr std::size_t most = std::size_t{1} << 40;
    return {{"--left-window", "L", whole_number(window.left, 0, most).like("0"),
             "a query can attend to at most L keys before its own position" + position},
            {"--right-window", "R", whole_number(window.right, 0, most).like("0"), "and to at most R keys after it"},
            {"--kept", "K", whole_number(window.kept, 0, most).like("1", "--mask causal --left-window 0"),
             "and to the first K keys, however far before it they are", false, "--left-window"}};
}

Flag rotary_layout_flag(RotaryLayout& layout)
{
    return {"--rotary-layout", "", one_of(layout), "which features are rotated together: neighbours, or i and i + d/2"};
}

Flag first_flag(std::size_t& first)
{
    return {"--first", "P", whole_number(first, 0, std::size_t{1} << 40).like("2"),
            "position of the first token: how many come before it"};
}

Flag fast_flag(bool& is_fast, const std::string& function)
{
    return {"--fast", "", is_fast,
            "compute in float32, for speed, as " + function + " does; not with --round, --ablate or --pitfall"};
}

Flag epsilon_flag(LayerNormOptions& options)
{
    return {"--epsilon", "E", number(options.epsilon, NumberRange::from_zero).like("0.5"),
            "added to the variance, inside the root"};
}

Flag activation_flag(FeedForwardOptions& options)
{
    return {"--activation", "", one_of(options.activation), "of the hidden layer"};
}

std::vector<Flag> gate_flags(GatedFeedForwardOptions& options)
{
    return {{"--activation", "", one_of(options.activation), "of the gate"},
            {"--limit", "L", number(options.limit, NumberRange::above_zero).like("0.01"),
             "gates are at most L, and up stays between -L and L (default: no limit)"},
            {"--up-shift", "S", number(options.up_shift).like("1"), "added to up: 1 in gpt-oss, with --limit 7"}};
}

std::vector<Flag> head_flags(MultiHeadOptions& options)
{
    std::vector<Flag> flags{heads_flag(options.heads),
                            scale_flag(options.scale),
                            softcap_flag(options.softcap),
                            {"--positions", "", one_of(options.positions), "how attention depends on positions"},
                            rotary_base_flag(options.rotary),
                            rotary_layout_flag(options.rotary.layout),
                            rotary_features_flag(options.rotary.features),
                            rotary_scaling_flag(options.rotary.scaling)};
    for (Flag& flag : flags)
        if (flag.name.starts_with("--rotary")) {
            flag.needs = "--positions rotary";
            flag.value.among = "--heads 1 " + flag.needs;
        }
    return flags;
}

OptionalMask joined_mask(const PairAxes& axes, std::optional<Causal> causal, const ModuleRun& run, const Window& window,
                         std::size_t past)
{
    const MaskParts parts{.given = run.inputs.mask("mask", axes),
                          .causal = causal,
                          .key_lengths = run.inputs.lengths("lengths", axes.sequences),
                          .window = window,
                          .past = past,
                          .has_heads = axes.has_heads};
    return join_masks(axes.queries, axes.keys, parts, run.trace);
}

void expect_no_lengths(const ModuleRun& run) { (void)run.inputs.lengths("lengths", std::nullopt); }

std::vector<Flag> operator+(std::vector<Flag> left, std::vector<Flag> right)
{
    left.insert(left.end(), std::make_move_iterator(right.begin()), std::make_move_iterator(right.end()));
    return left;
}

std::vector<Flag> StackFlags::of_feed_forward_and_norm()
{
    return {activation_flag(options.feed_forward),
            epsilon_flag(options.norm),
            {"--norm", "", one_of(options.placement), "where layer norms stand: after each block, or before it"}};
}

std::vector<Flag> StackFlags::of_layer(const std::string& whose)
{
    return head_flags(options.attention) + std::vector<Flag>{mask_flag(causal, whose)} + of_feed_forward_and_norm();
}

std::vector<Flag> StackFlags::of_stack()
{
    return {{"--final-epsilon", "E", number(final_epsilon, NumberRange::from_zero).like("0.5"),
             "of the norm after the last layer (default: that of the layers)"},
            {"--layers", "N", whole_number(layers, 1, 10'000).like("7"),
             "number of layers that the weights must have (default: as many as they have)"}};
}

EncoderOptions StackFlags::all_options() const
{
    EncoderOptions all = options;
    if (final_epsilon)
        all.final_norm = {.epsilon = *final_epsilon};
    return all;
}

EncoderOptions masked_layer(const EncoderOptions& flags, const MaskAndBias& own)
{
    EncoderOptions options = flags;
    options.attention = masked(flags.attention, own);
    return options;
}

DecoderOptions masked_decoder(const EncoderOptions& flags, const MaskAndBias& own, const MaskAndBias& of_memory)
{
    const auto& [attention, feed_forward, norm, placement, final_norm] = flags;
    return {masked(attention, own), of_memory.mask, of_memory.bias, feed_forward, norm, placement, final_norm};
}

TransformerOptions masked_transformer(const EncoderOptions& flags, const MaskAndBias& of_source,
                                      const MaskAndBias& of_target, const MaskAndBias& of_memory)
{
    const auto& [attention, feed_forward, norm, placement, final_norm] = flags;
    return {masked(attention, of_target),
            of_source.mask,
            of_source.bias,
            of_memory.mask,
            of_memory.bias,
            feed_forward,
            norm,
            placement,
            final_norm};
}

} // namespace attn::cli
