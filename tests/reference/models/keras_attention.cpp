#include "attn/reference/models/keras_attention.hpp"

#include "generators.hpp"
#include "reference/layers/examples.hpp"
#include "test.hpp"

#include "attn/core/recorder.hpp"
#include "attn/formula/scope.hpp"
#include "attn/formula/verify.hpp"

using namespace attn;
using namespace attn::formula;
using namespace attn::test;

namespace {

KerasAttentionWeights keras_weights(Numbers& numbers)
{
    return {numbers.matrix(6, 4), numbers.matrix(6, 4), numbers.matrix(6, 2)};
}

/// What is recorded with each combination of masks.
template <Sequence T>
std::vector<Recording> recordings(const T& x, const T& memory, const PerToken<T>& values, const PerToken<T>& queries)
{
    Numbers numbers(41);
    const KerasAttentionWeights weights = keras_weights(numbers);
    std::vector<Recording> all;
    for (int which = 0; which < 8; ++which) {
        KerasMasksOf<T> masks;
        if (which % 2 != 0)
            masks.values = values;
        if (which / 2 % 2 != 0)
            masks.queries = queries;
        Recorder recorder;
        keras_attention(x, memory, memory, masks, weights, {.heads = 2, .mask_right = which / 4 != 0}, Trace(recorder));
        all.push_back(recorder.recording());
    }
    return all;
}

} // namespace

TEST_CASE("each combination of the masks of Keras's attention is recorded as its formulas say, of a batch, too",
          "[models][keras][verify]")
{
    Numbers numbers(42);
    const Matrix x = numbers.matrix(3, 6), memory = numbers.matrix(4, 6);
    const Vector of_values{1, 1, 0, 1}, of_queries{1, 0, 1};
    const Tensor3 batch = numbers.tensor3(2, 3, 6), memories = numbers.tensor3(2, 4, 6);
    const Matrix values_of_batch{{1, 1, 0, 1}, {0, 1, 1, 1}}, queries_of_batch{{1, 0, 1}, {1, 1, 0}};
    for (const auto& all :
         {recordings(x, memory, of_values, of_queries), recordings(batch, memories, values_of_batch, queries_of_batch)})
        for (const Recording& recording : all)
            for (const StepCheck& check : verify(recording).checks) {
                CAPTURE(check.path, check.message);
                CHECK(check.passed());
            }
}

TEST_CASE("without a mask of the values, which keys come later is the same in each sequence", "[models][keras]")
{
    Numbers numbers(43);
    const Tensor3 batch = numbers.tensor3(2, 3, 6);
    const Recording recording = recordings(batch, batch, Matrix{{1, 1, 0}, {0, 1, 1}}, Matrix{{1, 0, 1}, {1, 1, 0}})[4];
    const Step& bias = recording.steps.at(StepNames(recording).find("bias").value());
    CHECK(bias.axes == std::vector<std::string>{"n", "m"});
    CHECK(bias.value.values == std::vector<double>{0, -1e10, -1e10, 0, 0, -1e10, 0, 0, 0});
}
