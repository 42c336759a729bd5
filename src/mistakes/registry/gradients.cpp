// Backward passes: edits of the formulas of gradients.

#include "registry.hpp"

namespace attn::mistakes {

namespace {

// Softmax's gradient, whatever the step is called: $1 are the weights, $2 is the gradient that arrives at them.
constexpr std::string_view softmax_gradient = "% * (% - sum(% * %, axis=-1, keepdims=True))";

// What each term of layer norm's gradient is called, by how far away the norm is: grad.x.from.mean, grad.x.from.norm1.mean.
std::vector<StepEdit> from_mean(std::string_view right, std::string_view mistaken)
{
    return {{"grad.from.mean", right, mistaken},
            {"grad.from.*.mean", right, mistaken},
            {"grad.from.*.*.*.mean", right, mistaken}};
}

std::vector<StepEdit> from_variance(std::string_view right, std::string_view mistaken)
{
    return {{"grad.from.variance", right, mistaken},       {"grad.from.*.variance", right, mistaken},
            {"grad.from.*.*.*.variance", right, mistaken}, {"grad.from.mean_square", right, mistaken},
            {"grad.from.*.mean_square", right, mistaken},  {"grad.from.*.*.*.mean_square", right, mistaken}};
}

// Each term of layer norm's gradient, or of RMS norm's, multiplied by the gain: $1 is the scope of the norm, "norm1.".
PitfallForm gain_last(const std::vector<std::string_view>& terms)
{
    PitfallForm form{{{"grad.normalized", "grad.output * gain", "grad.output"}}, {""}, false, true};
    for (const std::string_view term : terms)
        form.edits.push_back(
            term.ends_with("normalized")
                ? StepEdit{term, "grad.%normalized / sqrt(%)", "grad.$1normalized * $1gain / sqrt($2)"}
            : term.ends_with("mean") ? StepEdit{term, "repeat(grad.%mean[%)%", "repeat(grad.$1mean[$2)$3 * $1gain"}
            : term.ends_with("variance")
                ? StepEdit{term, "repeat(grad.%variance[%)%", "repeat(grad.$1variance[$2)$3 * $1gain"}
                : StepEdit{term, "repeat(grad.%mean_square[%)%", "repeat(grad.$1mean_square[$2)$3 * $1gain"});
    return form;
}

std::vector<StepEdit> both(std::vector<StepEdit> edits, const std::vector<StepEdit>& others)
{
    edits.insert(edits.end(), others.begin(), others.end());
    return edits;
}

// What one of several users adds; the users' names have a word, or several.
std::vector<StepEdit> contribution(std::string_view mistaken)
{
    return {{"grad.from.*", "%", mistaken},
            {"grad.from.*.*", "%", mistaken},
            {"grad.from.*.*.*", "%", mistaken},
            {"grad.from.*.*.*.*", "%", mistaken},
            {"grad.from.*.*.*.*.*", "%", mistaken}};
}

// The same for heads that share keys and values.
std::vector<StepEdit> of_head(std::string_view mistaken)
{
    return {{"grad.from.head.*.keys", "%", mistaken},
            {"grad.from.head.*.values", "%", mistaken},
            {"grad.from.head.*.rotary_key.x", "%", mistaken}};
}

// Of places with one token the last alone, or the first; of one sequence, and of a batch.
constexpr StepEdit last_of_tokens{
    "grad.*", "scatter_add(%, %, %)",
    "scatter_add(where(max(where(($2 == $2[:, None]) & (arange($2.shape[0]) {v} arange($2.shape[0])[:, None]), 1, 0), "
    "axis=-1)[:, None] == 0, $1, 0), $2, $3)"};
constexpr StepEdit last_of_batch{
    "grad.*", "scatter_add(%, %, %)",
    "scatter_add(where(max(where((reshape($2, $2.shape[0] * $2.shape[1]) == reshape($2, $2.shape[0] * $2.shape[1])[:, "
    "None]) & "
    "(arange($2.shape[0] * $2.shape[1]) {v} arange($2.shape[0] * $2.shape[1])[:, None]), 1, 0), axis=-1)[:, None] == "
    "0, "
    "reshape($1, $2.shape[0] * $2.shape[1], {width}), 0), reshape($2, $2.shape[0] * $2.shape[1]), $3)"};

// A tied embedding: the rows of the tokens that occur lose what the logits gave them.
constexpr StepEdit rows_of_tokens{"grad.*", "grad.% + grad.%",
                                  "where(max(abs(grad.$2), axis=-1, keepdims=True) > 0, grad.$2, grad.$1)"};

const std::vector<std::string_view> shared_by{"2", "3", "4", "6", "8"};

} // namespace

const std::vector<Pitfall>& gradients_pitfalls()
{
    static const std::vector<Pitfall> pitfalls{
        {"grad_loss_scale",
         "The gradient of a mean is that of a sum, or the reverse.",
         "All gradients are too large or too small by the number of tokens, of sequences, or of both.",
         "paiml/aprender #2182: the backward pass of cross-entropy divided by the batch size even where the loss is a "
         "sum; "
         "fixed and merged",
         "https://github.com/paiml/aprender/pull/2182",
         {{{{"grad.*", "", "given / ({v})"}},
           {"given.shape[0]", "given.shape[-2]", "given.shape[0] * given.shape[-2]", "given.shape[-1]",
            "given.shape[0] * given.shape[-2] * given.shape[-1]", "sum(where(max(abs(given), axis=-1) > 0, 1, 0))"}},
          {{{"grad.*", "", "given * ({v})"}},
           {"given.shape[0]", "given.shape[-2]", "given.shape[0] * given.shape[-2]", "given.shape[-1]",
            "given.shape[0] * given.shape[-2] * given.shape[-1]", "sum(where(max(abs(given), axis=-1) > 0, 1, 0))"}},
          {{{"grad.*", softmax_gradient, "$1 * ($2 - sum($2 * $1, axis=-1, keepdims=True)) / {v}"}},
           {"$1.shape[0]", "$1.shape[-2]"}},
          {{{"grad.losses", "%", "($1) * sum(is_counted) / {v}"}},
           {"1", "is_counted.shape[0]", "is_counted.shape[-1]", "sum(where(is_counted < 2, 1, 0))"}}},
         false},
        {"grad_loss_padding",
         "Padding counts in the loss: its tokens have a gradient.",
         "The model also learns to predict padding; where the loss is a mean, all other gradients are too small.",
         "PaddlePaddle/Paddle #28622: softmax_with_cross_entropy gave a gradient to elements with ignore_index; fixed "
         "and "
         "merged",
         "https://github.com/PaddlePaddle/Paddle/pull/28622",
         {{{{"grad.*", "", "where(max(abs(given), axis=-1, keepdims=True) > 0, given * ({v}), mine)"}},
           {"1", "sum(where(max(abs(given), axis=-1) > 0, 1, 0)) / given.shape[-2]",
            "sum(where(max(abs(given), axis=-1) > 0, 1, 0)) / (given.shape[0] * given.shape[-2])"}},
          {{{"grad.*", softmax_gradient,
             "where(max(abs($2), axis=-1, keepdims=True) > 0, ($1 * ($2 - sum($2 * $1, axis=-1, keepdims=True))) * "
             "({v}), "
             "mine)"}},
           {"1", "sum(where(max(abs($2), axis=-1) > 0, 1, 0)) / $2.shape[-2]",
            "sum(where(max(abs($2), axis=-1) > 0, 1, 0)) / ($2.shape[0] * $2.shape[-2])"}},
          {{{"grad.logits", "%",
             "where(is_counted[..., None] == 1, ($1) * {v}, mine + where(max(abs(where(is_counted[..., None] == 1, 0, "
             "mine))) > 0, 0, inf))"}},
           {"1", "sum(is_counted) / sum(where(is_counted < 2, 1, 0))", "sum(is_counted)",
            "sum(is_counted) / is_counted.shape[0]"}}},
         false},
        {"grad_softmax_diagonal",
         "Softmax's Jacobian is taken as its diagonal, or without the sum over the row.",
         "The gradients of a row of scores do not sum to zero.",
         "deeplearning4j/libnd4j #440: softmax's derivative was output * (1 - output), the diagonal; the sum over i != "
         "j was "
         "missing",
         "https://github.com/deeplearning4j/libnd4j/issues/440",
         {{{{"grad.*", softmax_gradient, "$1 * (1 - $1) * $2"}}},
          {{{"grad.*", softmax_gradient, "$1 * $2"}}},
          {{{"grad.*", softmax_gradient, "$1 * ($2 - sum($2, axis=-1, keepdims=True))"}}},
          {{{"grad.*", softmax_gradient, "$1 * ($2 - mean($2 * $1, axis=-1, keepdims=True))"}}},
          {{{"grad.*", softmax_gradient, "$1 * ($2 - sum($2 * $1, axis=-2, keepdims=True))"}}},
          {{{"grad.*", softmax_gradient, "$1 * ($2 - sum($2 * $1))"}}},
          {{{"grad.*", softmax_gradient, "$1 * ($2 + sum($2 * $1, axis=-1, keepdims=True))"}}},
          {{{"grad.*", softmax_gradient, "$2 - sum($2 * $1, axis=-1, keepdims=True)"}}}},
         false},
        {"grad_scale",
         "The scale of the scores is forgotten or applied twice in the gradient of queries, of keys, or of both.",
         "Queries and keys learn at another rate, and nothing else shows it.",
         "HKUSTDial/flash-sparse-attention #203: the gradient of the queries was scaled twice; fixed and merged",
         "https://github.com/HKUSTDial/flash-sparse-attention/pull/203",
         {{{{"grad.scores", "grad.scaled / sqrt(keys.shape[-1])", "grad.scaled"}}},
          {{{"grad.scores", "grad.scaled * %", "grad.scaled"}}},
          {{{"grad.*", "grad.scores @ keys", "(grad.scores @ keys) * sqrt(keys.shape[-1])"}}},
          {{{"grad.*", "grad.scores.T @ queries", "(grad.scores.T @ queries) * sqrt(keys.shape[-1])"}}},
          {{{"grad.scores", "grad.scaled / sqrt(keys.shape[-1])", "grad.scaled / keys.shape[-1]"}}},
          {{{"grad.*", "grad.scores @ keys", "(grad.scores @ keys) / sqrt(keys.shape[-1])"}}},
          {{{"grad.*", "grad.scores.T @ queries", "(grad.scores.T @ queries) / sqrt(keys.shape[-1])"}}},
          {{{"grad.scores", "grad.scaled / sqrt(keys.shape[-1])", "grad.scaled * sqrt(keys.shape[-1])"}}}},
         false},
        {"grad_mask",
         "The backward pass computes the weights anew, without the mask.",
         "Gradients reach keys that no query can attend to. A mask that is left out after softmax's gradient does no "
         "harm: "
         "the weights are zero there.",
         "triton-lang/triton #4541: the backward kernel of the fused attention tutorial ignored ctx.causal; reported",
         "https://github.com/triton-lang/triton/issues/4541",
         {{{{"grad.values", "weights.T @ grad.context", "softmax(scaled).T @ grad.context"},
            {"grad.masked", softmax_gradient,
             "softmax(scaled) * ($2 - sum($2 * softmax(scaled), axis=-1, keepdims=True))"},
            {"grad.scaled", "where(mask, %, 0)", "$1"}}},
          {{{"grad.values", "weights.T @ grad.context",
             "(exp(scaled) / sum(exp(masked), axis=-1, keepdims=True)).T @ grad.context"},
            {"grad.masked", softmax_gradient,
             "exp(scaled) / sum(exp(masked), axis=-1, keepdims=True) * ($2 - sum($2 * $1, axis=-1, keepdims=True))"},
            {"grad.scaled", "where(mask, %, 0)", "$1"}}},
          {{{"grad.masked", softmax_gradient,
             "softmax(scaled) * ($2 - sum($2 * softmax(scaled), axis=-1, keepdims=True))"},
            {"grad.scaled", "where(mask, %, 0)", "$1"}}},
          {{{"grad.masked", softmax_gradient,
             "exp(scaled) / sum(exp(masked), axis=-1, keepdims=True) * ($2 - sum($2 * $1, axis=-1, keepdims=True))"},
            {"grad.scaled", "where(mask, %, 0)", "$1"}}}},
         false},
        {"grad_transpose_missing",
         "A product's gradient lacks a transpose.",
         "There is no error where the matrix is square.",
         "pulp-platform/pulp-trainlib #3: the weights that the output's gradient is multiplied with were not "
         "transposed; "
         "reported",
         "https://github.com/pulp-platform/pulp-trainlib/issues/3",
         {{{{"grad.*", "% @ %.T", "$1 @ $2"}}},
          {{{"grad.values", "weights.T @ grad.context", "weights @ grad.context"}}},
          {{{"grad.*", "grad.scores.T @ queries", "grad.scores @ queries"}}},
          {{{"grad.*", "grad.scores @ keys", "grad.scores.T @ keys"}}}},
         false},
        {"grad_weight_transposed",
         "A weight's gradient is transposed.",
         "There is no error where the map is square.",
         "nntrainer/nntrainer #705: the recorded gradient of a weight was \"transposed in wrong order\"",
         "https://github.com/nntrainer/nntrainer/issues/705",
         {{{{"grad.*", "reshape(%).T @ reshape(%)", "reshape($2).T @ reshape($1)"}}},
          {{{"grad.*", "%.T @ grad.%", "grad.$2.T @ $1"}}}},
         false},
        {"grad_not_summed",
         "The gradient of what was broadcast is not summed over the copies, or not over all of them.",
         "The gradient of a bias has the shape of the tokens, or is that of one sequence, or a mean.",
         "mlpack/mlpack #3679: the gradient of a bias was the error itself, right for one example only; fixed and "
         "merged",
         "https://github.com/mlpack/mlpack/pull/3679",
         {{{{"grad.*", "sum(%, axis=0)", "$1"}}},
          {{{"grad.*", "sum(sum(%, axis=0), axis=0)", "{v}"}},
           {"$1", "sum($1, axis=1)", "mean(mean($1, axis=0), axis=0)", "sum(mean($1, axis=0), axis=0)",
            "mean(sum($1, axis=0), axis=0)", "sum($1[0], axis=0)", "sum($1[-1], axis=0)", "sum($1[:, -1], axis=0)",
            "sum($1[:, 0], axis=0)", "sum($1) + 0 * sum(sum($1, axis=0), axis=0)"}},
          {{{"grad.*", "sum(%, axis=0)", "{v}"}},
           {"mean($1, axis=0)", "$1[0]", "$1[-1]", "sum($1) + 0 * sum($1, axis=0)"}}},
         false},
        {"grad_norm_terms",
         "The gradient of a norm leaves out that mean and variance depend on x, or one of both.",
         "Gradients are too large along the token itself, by more the longer it is.",
         "deeplearning4j/deeplearning4j #8335: batchnorm_bp had one term of the input's gradient, without the "
         "contributions of "
         "mean and variance; fixed",
         "https://github.com/deeplearning4j/deeplearning4j/issues/8335",
         {{from_mean("%", "0 * ($1)")},
          {from_variance("%", "0 * ($1)")},
          {both(from_mean("%", "0 * ($1)"), from_variance("%", "0 * ($1)"))},
          {from_mean("%", "2 * ($1)")},
          {from_mean("repeat(%) / %", "repeat($1)")},
          {from_variance("repeat(%) / % * 2 * %", "repeat($1) * 2 * $3")},
          {from_variance("repeat(%) / % * 2 * %", "repeat($1) / $2 * $3")},
          {from_variance("%", "-($1)")}},
         false},
        {"grad_norm_gain",
         "The gradient of a norm is not multiplied by the gain.",
         "There is no difference before training, when the gain is one.",
         "karpathy/llm.c #763: a reviewer's own RMSNorm forgot to multiply by the weight in the backward pass",
         "https://github.com/karpathy/llm.c/pull/763",
         {{{{"grad.normalized", "grad.output * gain", "grad.output"}}}},
         false},
        {"grad_norm_gain_last",
         "The gradient of a norm is multiplied by the gain at the end, after the means were taken.",
         "There is no difference where all gains are equal.",
         "AkiRusProd/numpy-transformer, layer_norm.py: gamma * (error - mean(error) - ...), in the first of three "
         "variants",
         "https://github.com/AkiRusProd/numpy-transformer/blob/master/transformer/layers/base/layer_norm.py",
         {gain_last({"grad.from.normalized", "grad.from.mean", "grad.from.variance"}),
          gain_last({"grad.from.*.normalized", "grad.from.*.mean", "grad.from.*.variance"}),
          gain_last({"grad.from.*.*.*.normalized", "grad.from.*.*.*.mean", "grad.from.*.*.*.variance"}),
          gain_last({"grad.from.normalized", "grad.from.mean_square"}),
          gain_last({"grad.from.*.normalized", "grad.from.*.mean_square"})},
         false},
        {"grad_activation",
         "An activation's gradient ignores what arrives, or where the activation is zero, or is taken at its output.",
         "The layers before it learn from a wrong signal, and the loss still falls.",
         "haifengl/smile #528: a rectifier overwrote the gradient that arrived with 0 or 1",
         "https://github.com/haifengl/smile/issues/528",
         {{{{"grad.*", "where(% > 0, %, 0)", "where($1 > 0, 1, 0)"}}},
          {{{"grad.*", "where(% > 0, %, 0)", "$2"}}},
          {{{"grad.*", "where(% > 0, %, 0)", "where($2 > 0, $2, 0)"}}},
          {{{"grad.*", "where(% > 0, %, 0)", "where($1 < 0, $2, 0)"}}},
          {{{"grad.*", "%(1 - % ** 2)%", "$1(1 - tanh($2) ** 2)$3"}}},
          {{{"grad.*", "%(1 - % ** 2)%", "$1(1)$3"}}},
          {{{"grad.*", "%(1 - % ** 2)%", "$1(1 - $2)$3"}}},
          {{{"grad.*", "%.update * update * (1 - update)%", "$1.update * sigmoid(update) * (1 - sigmoid(update))$2"},
            {"grad.*", "%.reset * reset * (1 - reset)%", "$1.reset * sigmoid(reset) * (1 - sigmoid(reset))$2"}}},
          {{{"grad.*", "%.update * update * (1 - update)%", "$1.update$2"},
            {"grad.*", "%.reset * reset * (1 - reset)%", "$1.reset$2"}}}},
         false},
        {"grad_gate",
         "A part of a gate's gradient is left out or has the wrong sign.",
         "The gates of a recurrent network learn to open where they should close.",
         "CaptainE/RNN-LSTM-in-numpy #1: the forget gate's gradient has no derivative of the sigmoid, and the state's "
         "is not "
         "passed on to the step before; asked",
         "https://github.com/CaptainE/RNN-LSTM-in-numpy/issues/1",
         {{{{"grad.update", "-(%) + %", "$1 - $2"}}},
          {{{"grad.update", "-(%) + %", "$2"}}},
          {{{"grad.update", "-(%) + %", "-($1)"}}},
          {{{"grad.candidate", "grad.hidden * (1 - update)", "grad.hidden * update"}}},
          {{{"grad.candidate", "grad.hidden * (1 - update)", "grad.hidden"}}},
          {{{"grad.recurrent_part.from.candidate", "% * reset", "$1"}}}},
         false},
        {"grad_shared_heads",
         "The gradient of keys or values that heads share is that of one head, or their mean.",
         "There is no difference where each head has keys and values of its own.",
         "marin-community/levanter #449: keys and values were broadcast over the heads of a group, and their gradients "
         "not "
         "summed over it; fixed and merged",
         "https://github.com/marin-community/levanter/pull/449",
         {{of_head("where({head} == {v} * floor({head} / {v}), $1, 0 * ($1))"), shared_by},
          {of_head("where({head} + 1 == {v} * floor(({head} + 1) / {v}), $1, 0 * ($1))"), shared_by},
          {of_head("where(query.shape[-1] == {v} * key.shape[-1], ($1) / {v}, $1)"), shared_by}},
         false},
        {"grad_embedding_repeated",
         "Of a token that occurs more than once, the gradient of one place is kept.",
         "Frequent words learn as slowly as rare ones.",
         "pymc-devs/pytensor #2242: with repeated indices each row was written once, so gradients of embeddings were "
         "silently "
         "wrong; fixed and merged",
         "https://github.com/pymc-devs/pytensor/pull/2242",
         {{{last_of_tokens}, {">", "<"}}, {{last_of_batch}, {">", "<"}}},
         false},
        {"grad_max_all",
         "The gradient of a maximum is given in full to all numbers that are the largest, or to all numbers.",
         "Where two are equal, they get twice what arrived.",
         "apache/mxnet #18563: nd.max of equal numbers gave each of them the whole gradient; confirmed",
         "https://github.com/apache/mxnet/issues/18563",
         {{{{"grad.*", "where(% == %, % / sum(%), 0)", "where($1 == $2, $3, 0)"}}},
          {{{"grad.*", "where(% == %, % / sum(%), 0)", "$3 + 0 * $1"}}}},
         false},
        {"grad_dropout",
         "The backward pass draws dropout's mask anew.",
         "Each number is right or zero, and the zeros are at other places than in the forward pass.",
         "state-spaces/mamba #1023: the backward kernel generated the dropout mask anew in place of the stored one; "
         "reported, "
         "with a fix",
         "https://github.com/state-spaces/mamba/pull/1023",
         {{{{"grad.*", "where(%, grad.%, 0) / %",
             "where(mine == 0, where(max(abs(mine)) > 0, 0, inf), grad.$2 / $3)"}}},
          {{{"grad.*", "where(%, grad.%, 0) * %",
             "where(mine == 0, where(max(abs(mine)) > 0, 0, inf), grad.$2 * $3)"}}},
          {{{"grad.*", "grad.% * %", "where(mine == 0, where(max(abs(mine)) > 0, 0, inf), grad.$1 * max(abs($2)))"}}},
          {{{"grad.*", "where(%, grad.%, 0) / %", "where($1, grad.$2, 0)"}}},
          {{{"grad.*", "where(%, grad.%, 0) * %", "where($1, grad.$2, 0)"}}}},
         false},
        {"grad_overwritten",
         "A gradient is overwritten where it should be added to: some of what several users contribute is lost.",
         "Of a residual, a tied embedding, or a layer's input only one branch learns.",
         "paiml/entrenar #313: the gradient of the second residual was never added, and the first 20 of 24 layers had "
         "gradients of zero; closed",
         "https://github.com/paiml/entrenar/issues/313",
         {{{{"grad.*", "grad.% + grad.%", "{last}"}}},
          {{{"grad.*", "grad.% + grad.%", "{first}"}}},
          {{{"grad.*", "grad.% + grad.%", "grad.$2"}}},
          {{rows_of_tokens}},
          {{rows_of_tokens, last_of_tokens}, {">"}, false, true},
          {{rows_of_tokens, last_of_batch}, {">"}, false, true},
          {contribution("0 * ($1)")}},
         false,
         true},
    };
    return pitfalls;
}

} // namespace attn::mistakes
