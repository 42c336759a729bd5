// GRUs, LSTMs and convolutions on every case that PyTorch computed, step by step; see tests/golden/recurrent.py.

#include "attn/core/recorder.hpp"
#include "attn/formula/verify.hpp"
#include "attn/reference/layers/convolution.hpp"
#include "attn/reference/layers/recurrent/gru.hpp"
#include "attn/reference/layers/recurrent/lstm.hpp"

#include "golden.hpp"
#include "test.hpp"

#include <algorithm>
#include <map>

using namespace attn;
using namespace attn::formula;

namespace {

/// The steps of one case.
struct RecurrentCase {
    Golden steps;

    const Array* find(const std::string& step) const
    {
        const auto found = std::ranges::find(steps, step, &Golden::value_type::first);
        return found == steps.end() ? nullptr : &found->second;
    }
    bool has(const std::string& step) const { return find(step) != nullptr; }

    template <class T>
    T get(const std::string& step) const
    {
        if (!has(step))
            throw std::out_of_range(step);
        return from_array<T>(*find(step));
    }

    template <class T>
    std::optional<T> maybe(const std::string& step) const
    {
        return has(step) ? std::optional(get<T>(step)) : std::nullopt;
    }
};

/// The cases of a golden, by the first words of their paths.
std::map<std::string, RecurrentCase> cases(const std::string& golden, std::size_t words)
{
    std::map<std::string, RecurrentCase> result;
    for (const auto& [path, array] : read_golden(golden)) {
        std::size_t dot = path.find('.');
        for (std::size_t word = 1; word < words; ++word)
            dot = path.find('.', dot + 1);
        result[path.substr(0, dot)].steps.emplace_back(path.substr(dot + 1), array);
    }
    return result;
}

std::optional<RecurrentCellWeights> cell_of(const RecurrentCase& of, const std::string& scope)
{
    if (!of.has(scope + "input_weights"))
        return std::nullopt;
    return RecurrentCellWeights{
        {of.get<Matrix>(scope + "input_weights"), of.maybe<Vector>(scope + "input_bias")},
        {of.get<Matrix>(scope + "recurrent_weights"), of.maybe<Vector>(scope + "recurrent_bias")}};
}

RecurrentWeights stack_of(const RecurrentCase& of)
{
    RecurrentWeights weights;
    for (std::size_t i = 0; of.has("layers." + std::to_string(i) + ".x"); ++i) {
        const std::string scope = "layers." + std::to_string(i) + ".";
        weights.layers.push_back({cell_of(of, scope + "forward."), cell_of(of, scope + "backward.")});
    }
    return weights;
}

/// @param is_given  whether the case has states to begin with, or takes the zeros that are the default
template <Sequence T>
void read(const std::string& name, const RecurrentCase& of, bool is_given, const Trace& trace)
{
    const T x = of.get<T>("x");
    const RecurrentWeights weights = stack_of(of);
    const std::optional<Integers> lengths = of.maybe<Integers>("lengths");
    if (name.starts_with("lstm")) {
        std::optional<LstmStateOf<T>> initial;
        if (is_given)
            initial = {of.get<T>("initial_hidden"), of.get<T>("initial_cell")};
        lstm(x, initial, lengths, weights, trace);
        return;
    }
    const std::optional<T> initial = is_given ? of.maybe<T>("initial_hidden") : std::nullopt;
    const bool is_before = name.starts_with("gru_before");
    gru(x, initial, lengths, weights, {is_before ? ResetGate::before_product : ResetGate::after_product}, trace);
}

} // namespace

TEST_CASE("every step of GRUs and LSTMs is PyTorch's, or NumPy's where PyTorch has no such module",
          "[layers][recurrent][golden]")
{
    const std::map<std::string, RecurrentCase> all = cases("recurrent", 5);
    CHECK(all.size() == 28); // 12 of nn.GRU, 12 of nn.LSTM, 4 with the reset gate before the product
    for (const auto& [name, of] : all) {
        CAPTURE(name);
        const bool is_given = name.find("initial") != std::string::npos;
        Recorder recorder;
        if (name.find(".batch.") != std::string::npos)
            read<Tensor3>(name, of, is_given, Trace(recorder));
        else
            read<Matrix>(name, of, is_given, Trace(recorder));
        CHECK(difference(recorder.recording(), of.steps) == "");
        for (const StepCheck& check : verify(recorder.recording()).checks)
            CHECK(check.message == "");
    }
}

TEST_CASE("every step of a convolution leads to PyTorch's conv1d", "[layers][convolution][golden]")
{
    const std::map<std::string, RecurrentCase> all = cases("convolution", 2);
    CHECK(all.size() == 6);
    for (const auto& [name, of] : all) {
        CAPTURE(name);
        const ConvolutionWeights weights{of.get<Matrix>("kernel"), of.maybe<Vector>("bias")};
        Recorder recorder;
        if (of.find("x")->rank() == 3)
            convolution(of.get<Tensor3>("x"), weights, {}, Trace(recorder));
        else
            convolution(of.get<Matrix>("x"), weights, {}, Trace(recorder));
        CHECK(difference(recorder.recording(), of.steps) == "");
        for (const StepCheck& check : verify(recorder.recording()).checks)
            CHECK(check.message == "");
    }
}
