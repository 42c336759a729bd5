#pragma once

#include "attn/core/tensor.hpp"
#include "attn/core/trace.hpp"

#include <concepts>
#include <cstddef>
#include <optional>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace attn {

/// Which two features make a pair that rotary embeddings rotate.
enum class RotaryLayout {
    pairs, ///< features 2i and 2i + 1, as Su et al. 2021 and llama2.c have it
    halves ///< features i and i + d/2, as GPT-NeoX and Hugging Face's Llama have it
};

/// Its name as a trace has it: "pairs", "halves".
std::string_view name_of(RotaryLayout layout);

/// @name Scalings: other frequencies, for texts that are longer than those in training
///
/// A slow pair of features has not rotated once in a text of the original length L, so that its angles beyond L are new
/// to the model. A scaling slows pairs down until these angles stay among those that it knows. The numbers are those of
/// Hugging Face's transformers 5.12.1 (modeling_rope_utils.py), in double.
///
/// In the tables D stands for the features that are rotated, PAIRS for half as many, N for the tokens, BASE for
/// RotaryOptions::base, and other words in capitals for the members of that name.
/// @{

/// Position interpolation: every frequency is divided by one factor, as if the positions were.
///
/// | step        | shape    | formula                          |
/// |-------------|----------|----------------------------------|
/// | unscaled    | (pairs,) | BASE ** (-2 * arange(PAIRS) / D) |
/// | frequencies | (pairs,) | unscaled / FACTOR                |
///
/// @see Chen et al. 2023, "Extending Context Window of Large Language Models via Positional Interpolation", section 3.2
struct LinearScaling {
    double factor = 1; ///< how many times longer the texts are
};

/// Dynamic NTK-aware scaling: a larger base, the longer the text; the base as it is up to the original length.
///
/// The fastest pair keeps its frequency, the slowest one is divided by s = FACTOR * length / L - (FACTOR - 1).
///
/// | step        | shape    | formula                                                                           |
/// |-------------|----------|-----------------------------------------------------------------------------------|
/// | base        | ()       | BASE * (FACTOR * maximum(N, L) / L - (FACTOR - 1)) ** (D / (D - 2))               |
/// | frequencies | (pairs,) | base ** (-2 * arange(PAIRS) / D)                                                  |
///
/// with L the original length. The length is the last position plus one, N + first: what came before, in a cache, counts.
/// The keys in a cache stay as they were rotated when they were new, with a smaller base. So tokens that come one by one
/// with a cache are rotated otherwise than all at once, as soon as there are more than L of them; transformers does the
/// same. (Its module remembers: in 5.12.1 a text shorter than L after one that was longer still has that one's
/// frequencies. Here each call stands for itself.)
/// @see bloc97 and emozilla 2023, "Dynamically Scaled RoPE"; Peng et al. 2023, "YaRN", appendix B.1 and section 3.4 for the
///      NTK-aware base
struct DynamicScaling {
    double factor = 1;
    std::size_t original_length = 0; ///< L, max_position_embeddings in config.json
};

/// YaRN: fast pairs keep their frequency, slow ones are interpolated, and those between are a mixture ("NTK-by-parts");
/// queries and keys become a little longer, which makes the weights sharper.
///
/// | step             | shape    | formula                                                                        |
/// |------------------|----------|--------------------------------------------------------------------------------|
/// | unscaled         | (pairs,) | BASE ** (-2 * arange(PAIRS) / D)                                               |
/// | low              | ()       | maximum(floor(D * log(L / (BETA_FAST * 2 * pi)) / (2 * log(BASE))), 0)         |
/// | high             | ()       | minimum(-floor(-D * log(L / (BETA_SLOW * 2 * pi)) / (2 * log(BASE))), D - 1)   |
/// | ramp             | (pairs,) | 1 - minimum(maximum((arange(PAIRS) - low) / where(low == high, 0.001, high - low), 0), 1) |
/// | frequencies      | (pairs,) | unscaled * ramp + unscaled / FACTOR * (1 - ramp)                               |
/// | angles           | (n, pairs) | outer(arange(N), frequencies)                                                |
/// | attention_factor | ()       | 0.1 * log(FACTOR) + 1                                                          |
///
/// with L the original length. Pair `low` rotates BETA_FAST times within L tokens, pair `high` BETA_SLOW times; without
/// `truncate` neither is rounded. The attention factor is 1 where FACTOR is at most 1; with `mscale` and `mscale_all_dim`,
/// neither of them 0, it is `(0.1 * MSCALE * log(FACTOR) + 1) / (0.1 * MSCALE_ALL_DIM * log(FACTOR) + 1)`.
/// @see Peng et al. 2023, "YaRN: Efficient Context Window Extension of Large Language Models", sections 3.2 and 3.3
struct YarnScaling {
    double factor = 1;
    std::size_t original_length = 0;             ///< L, original_max_position_embeddings in config.json
    double beta_fast = 32;                       ///< pairs that rotate more often than this keep their frequency
    double beta_slow = 1;                        ///< pairs that rotate less often than this are divided by the factor
    std::optional<double> attention_factor = {}; ///< of cos and sin; as above unless given
    std::optional<double> mscale = {};           ///< DeepSeek's, see above
    std::optional<double> mscale_all_dim = {};
    bool truncate = true; ///< low and high are whole numbers; gpt-oss has them as they are
};

/// Llama 3.1's: as YaRN's, but where a pair stands between fast and slow follows from its frequency, linearly, and there is no
/// attention factor.
///
/// | step        | shape    | formula                                                                           |
/// |-------------|----------|-----------------------------------------------------------------------------------|
/// | unscaled    | (pairs,) | BASE ** (-2 * arange(PAIRS) / D)                                                  |
/// | ramp        | (pairs,) | minimum(maximum((L * unscaled / (2 * pi) - LOW) / (HIGH - LOW), 0), 1)            |
/// | frequencies | (pairs,) | unscaled * ramp + unscaled / FACTOR * (1 - ramp)                                  |
///
/// with L the original length, LOW the low and HIGH the high frequency factor: a pair that rotates more than HIGH times within L
/// tokens keeps its frequency, one that rotates less than LOW times has it divided by the factor.
/// @see Grattafiori et al. 2024, "The Llama 3 Herd of Models", section 3.4.2, for longer texts; the scaling itself is in
///      apply_scaling() of Meta's llama-models, models/llama3/reference_impl/model.py
struct Llama3Scaling {
    double factor = 1;
    double low_frequency_factor = 1;
    double high_frequency_factor = 4;
    std::size_t original_length = 0; ///< L, original_max_position_embeddings in config.json
};

/// LongRoPE: each pair has a factor of its own, which was searched for; one list for texts up to the original length and one for
/// longer ones. So Phi-3.
///
/// | step             | shape    | formula                                    |
/// |------------------|----------|--------------------------------------------|
/// | short_factors    | (pairs,) |                                            |
/// | long_factors     | (pairs,) |                                            |
/// | unscaled         | (pairs,) | BASE ** (-2 * arange(PAIRS) / D)           |
/// | factors          | (pairs,) | where(N > L, long_factors, short_factors)  |
/// | frequencies      | (pairs,) | unscaled / factors                         |
/// | angles           | (n, pairs) | outer(arange(N), frequencies)            |
/// | attention_factor | ()       | sqrt(1 + log(FACTOR) / log(L))             |
///
/// with L the original length. The length is the last position plus one, N + first, as in DynamicScaling: a text that crosses
/// L token by token with a cache keeps the keys that were rotated by the short factors, and all at once has none of these.
/// transformers' Phi-3 throws its cache away in generate() at that token; whoever keeps it has what is here. The attention
/// factor is 1 where FACTOR is at most 1, and depends on the model only, not on the text.
/// @see Ding et al. 2024, "LongRoPE: Extending LLM Context Window Beyond 2 Million Tokens", sections 3.1 and 3.2; Abdin et
///      al. 2024, "Phi-3 Technical Report", section 2
struct LongRopeScaling {
    Vector short_factors = {};                   ///< (pairs)
    Vector long_factors = {};                    ///< (pairs)
    std::size_t original_length = 0;             ///< L, original_max_position_embeddings in config.json
    double factor = 1;                           ///< max_position_embeddings / L unless config.json says otherwise
    std::optional<double> attention_factor = {}; ///< of cos and sin; as above unless given
};

/// One of them, or none.
using RotaryScaling =
    std::variant<std::monostate, LinearScaling, DynamicScaling, YarnScaling, Llama3Scaling, LongRopeScaling>;

/// Its name, as config.json has it for a rope_type: "default", "linear", "dynamic", "yarn", "llama3", "longrope".
std::string_view name_of(const RotaryScaling& scaling);

/// Each scaling that there is, with presets for its members.
const std::vector<RotaryScaling>& rotary_scalings();

/// Whether a member of a scaling has to be given.
enum class Presence { required, optional };

/// Calls visit(name, member, presence) for each member of a scaling, by its name in config.json.
template <class Visit>
void visit_members(std::monostate, const Visit&)
{
}

template <class Scaling, class Visit>
requires std::same_as<std::remove_const_t<Scaling>, LinearScaling>
void visit_members(Scaling& scaling, const Visit& visit)
{
    auto& [factor] = scaling;
    visit("factor", factor, Presence::required);
}

template <class Scaling, class Visit>
requires std::same_as<std::remove_const_t<Scaling>, DynamicScaling>
void visit_members(Scaling& scaling, const Visit& visit)
{
    auto& [factor, original_length] = scaling;
    visit("factor", factor, Presence::required);
    visit("max_position_embeddings", original_length, Presence::required);
}

template <class Scaling, class Visit>
requires std::same_as<std::remove_const_t<Scaling>, YarnScaling>
void visit_members(Scaling& scaling, const Visit& visit)
{
    auto& [factor, original_length, beta_fast, beta_slow, attention_factor, mscale, mscale_all_dim, truncate] = scaling;
    visit("factor", factor, Presence::required);
    visit("original_max_position_embeddings", original_length, Presence::required);
    visit("beta_fast", beta_fast, Presence::optional);
    visit("beta_slow", beta_slow, Presence::optional);
    visit("attention_factor", attention_factor, Presence::optional);
    visit("mscale", mscale, Presence::optional);
    visit("mscale_all_dim", mscale_all_dim, Presence::optional);
    visit("truncate", truncate, Presence::optional);
}

template <class Scaling, class Visit>
requires std::same_as<std::remove_const_t<Scaling>, Llama3Scaling>
void visit_members(Scaling& scaling, const Visit& visit)
{
    auto& [factor, low_frequency_factor, high_frequency_factor, original_length] = scaling;
    visit("factor", factor, Presence::required);
    visit("low_freq_factor", low_frequency_factor, Presence::required);
    visit("high_freq_factor", high_frequency_factor, Presence::required);
    visit("original_max_position_embeddings", original_length, Presence::required);
}

template <class Scaling, class Visit>
requires std::same_as<std::remove_const_t<Scaling>, LongRopeScaling>
void visit_members(Scaling& scaling, const Visit& visit)
{
    auto& [short_factors, long_factors, original_length, factor, attention_factor] = scaling;
    visit("short_factor", short_factors, Presence::required);
    visit("long_factor", long_factors, Presence::required);
    visit("original_max_position_embeddings", original_length, Presence::required);
    visit("factor", factor, Presence::required);
    visit("attention_factor", attention_factor, Presence::optional);
}
/// @}

/// Positions along several axes, such as the rows and the columns of an image: each pair of features follows one of them.
struct RotaryAxes {
    Integers of_pairs = {}; ///< (pairs): the axis that each pair follows
    /// Whether the pairs of one axis lie side by side and have the frequencies that so many features have; else a pair has the
    /// frequency that it has without axes.
    bool has_own_frequencies = false;
    Matrix coordinates = {}; ///< (axes, n): where each token stands; at its position along every axis unless given
};

/// Options of rotary().
struct RotaryOptions {
    double base = 10000;
    RotaryLayout layout = RotaryLayout::pairs;
    std::size_t first = 0;                    ///< the position of the first token
    std::optional<std::size_t> features = {}; ///< so many of the first features are rotated; all unless given
    RotaryScaling scaling = {};               ///< for texts longer than in training; none unless given
    std::optional<Integers> positions = {};   ///< (n): where each token stands; one after the other unless given
    std::optional<Vector> frequencies = {};   ///< (pairs): in place of those that follow from the base
    std::optional<RotaryAxes> axes = {};
};

/// The options as a trace records them: base, layout, first position, and what there is of features and scaling.
StepOptions describe(const RotaryOptions& options);

/// Names what the rotations of several heads or layers share once, in the scope around them: the lists of factors of
/// LongRopeScaling, as `short_factors` and `long_factors`; frequencies that are given, and where tokens stand along axes. Without it
/// each rotation has its own.
/// @param trace  the scope around
/// @return the options to go on with
RotaryOptions share_rotation(const RotaryOptions& options, const Trace& trace);

/// Rotary position embeddings: each pair of features of a query or key at position p is rotated by the angle p times the
/// pair's frequency: (x, y) becomes (x cos - y sin, x sin + y cos).
///
/// A dot product of two rotated vectors depends on the distance between their positions only. Nothing is added to the
/// tokens, and values are not rotated.
///
/// @param x        ((b,) n, d): queries or keys of one head; of all heads of a batch (b, h, n, d)
/// @param options  base, layout, first position; how many features; scaling
/// @param trace    | step        | shape           | formula                           |
///                 |-------------|-----------------|-----------------------------------|
///                 | x           | ((b,) n, d)     |                                   |
///                 | frequencies | (pairs,)        | 10000 ** (-2 * arange(PAIRS) / D) |
///                 | angles      | (n, pairs)      | outer(arange(N), frequencies)     |
///                 | output      | ((b,) n, d)     | interleave(x[..., ::2] * cos(angles) - x[..., 1::2] * sin(angles), x[..., ::2] * sin(angles) + x[..., 1::2] * cos(angles)) |
///
///                 with the numbers in place of PAIRS, N and D; in halves, `concat` of the same over `x[..., 0:PAIRS]`
///                 and `x[..., PAIRS:D]`. With a scaling, its steps in place of `frequencies`; where it has an
///                 `attention_factor`, that follows `angles`, and the output is `attention_factor * interleave(…)`: so it is
///                 with cos and sin multiplied by it. Where only K of D features are rotated, D is K in all of this,
///                 `x[..., 0:K:2]` and `x[..., 1:K:2]` are the pairs, and the output is
///                 `concat(interleave(…), x[..., K:D], axis=-1)`. Where positions are given, the step `positions` of this or a
///                 scope around stands in place of `arange(N)`. Frequencies that are given are the step `given_frequencies`. With
///                 axes that have coordinates, `angles` is `coordinates[axis_of_pairs].T * frequencies`; where axes have frequencies
///                 of their own, these are `of_axis`, and `frequencies` is `concat(of_axis, of_axis, axis=0)`.
/// @return ((b,) n, d)
/// @throws ShapeError where d is odd, or options.features is, or is more than d, or 0; or a list of factors has another length
///                    than there are pairs; or positions are given, and not one for each token
/// @throws Error      where a number of the scaling has no meaning, such as a factor of 0, by its name in config.json; or positions are
///                    given, and the scaling depends on how long the text is; or frequencies are given, or axes have their own, and
///                    there is a scaling
/// @see Su et al. 2021, section 3.2.2
template <Attending T>
T rotary(const T& x, const RotaryOptions& options = {}, const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(rotary);

} // namespace attn
