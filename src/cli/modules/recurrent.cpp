// GRUs and LSTMs.

#include "families.hpp"

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
        const std::optional<Integers> lengths = run.inputs.lengths(x.shape(0), true);
        work(x, lengths ? std::vector<std::size_t>(lengths->begin(), lengths->end()) : std::vector<std::size_t>{});
    } else {
        const Matrix x = run.trace(label, "", run.inputs.get<Matrix>("x"));
        static_cast<void>(run.inputs.lengths(x.shape(0), false)); // an error where there are any
        work(x, std::vector<std::size_t>{});
    }
}

} // namespace

void run_gru(const ModuleRun& run)
{
    with_sequence(run, [&]<Sequence T>(const T& x, const std::vector<std::size_t>& lengths) {
        const RecurrentWeights weights = gru_weights(run.weights, features(x));
        const GruOptions options{{run.options.reset}, lengths};
        if (run.inputs.has("initial_hidden"))
            gru(x, run.inputs.get<T>("initial_hidden"), weights, options, run.trace);
        else
            gru(x, weights, options, run.trace);
    });
}

void run_lstm(const ModuleRun& run)
{
    if (run.inputs.has("initial_hidden") != run.inputs.has("initial_cell"))
        throw Error("initial_hidden and initial_cell belong together: give both, or none for zeros");
    with_sequence(run, [&]<Sequence T>(const T& x, const std::vector<std::size_t>& lengths) {
        const RecurrentWeights weights = lstm_weights(run.weights, features(x));
        if (run.inputs.has("initial_hidden")) {
            const T hidden = run.inputs.get<T>("initial_hidden");
            lstm(x, {hidden, run.inputs.get<T>("initial_cell")}, weights, {lengths}, run.trace);
        } else {
            lstm(x, weights, {lengths}, run.trace);
        }
    });
}

} // namespace attn
