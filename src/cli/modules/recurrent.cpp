// GRUs and LSTMs.

#include "families.hpp"

#include "attn/layers/recurrent/gru.hpp"
#include "attn/layers/recurrent/lstm.hpp"
#include "attn/weights/state_dict.hpp"

namespace attn {
namespace {

/// Calls a function with the tokens x, of one sequence or of a batch, and with the lengths of its sequences.
template <class Work>
void with_sequence(const ModuleRun& run, const Work& work)
{
    const std::string_view label = "x[(b,) n, d_in]";
    if (run.inputs.is_batch("x")) {
        const Tensor3 x = run.trace(label, "", run.inputs.get<Tensor3>("x"));
        work(x, run.inputs.lengths(x.shape(0), true));
    } else {
        const Matrix x = run.trace(label, "", run.inputs.get<Matrix>("x"));
        work(x, run.inputs.lengths(x.shape(0), false));
    }
}

} // namespace

void run_gru(const ModuleRun& run)
{
    with_sequence(run, [&]<Sequence T>(const T& x, const std::optional<Integers>& lengths) {
        std::optional<T> initial_hidden;
        if (run.inputs.has("initial_hidden"))
            initial_hidden = run.inputs.get<T>("initial_hidden");
        gru(x, initial_hidden, lengths, gru_weights(run.weights, features(x)), {run.options.reset}, run.trace);
    });
}

void run_lstm(const ModuleRun& run)
{
    if (run.inputs.has("initial_hidden") != run.inputs.has("initial_cell"))
        throw Error("initial_hidden and initial_cell belong together: give both, or none for zeros");
    with_sequence(run, [&]<Sequence T>(const T& x, const std::optional<Integers>& lengths) {
        std::optional<LstmStateOf<T>> initial;
        if (run.inputs.has("initial_hidden"))
            initial = {run.inputs.get<T>("initial_hidden"), run.inputs.get<T>("initial_cell")};
        lstm(x, initial, lengths, lstm_weights(run.weights, features(x)), run.trace);
    });
}

} // namespace attn
