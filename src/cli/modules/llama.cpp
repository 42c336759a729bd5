// The decoder of today.

#include "families.hpp"

#include "attn/weights/state_dict.hpp"

namespace attn {

void run_llama(const ModuleRun& run)
{
    const Vector ids = run.trace("ids[n]", "", run.inputs.get<Vector>("ids"));
    const LlamaCheckpoint checkpoint = llama_weights(run.weights);
    RotaryOptions rotary = run.options.rotary;
    rotary.layout = run.options.llama_layout.value_or(checkpoint.layout);
    const LlamaOptions options{.heads = run.options.heads, .rotary = rotary, .norm = {.epsilon = run.options.epsilon}};
    run.trace("output[n, vocabulary]", "logits", llama(ids, checkpoint.weights, options, run.trace));
}

} // namespace attn
