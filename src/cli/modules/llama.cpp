// The decoder of today.

#include "families.hpp"

#include "attn/weights/state_dict.hpp"

namespace attn {

void run_llama(const ModuleRun& run)
{
    const Integers ids = run.trace("ids[n]", "", run.inputs.get<Integers>("ids"));
    const LlamaCheckpoint checkpoint = llama_weights(run.weights);
    RotaryOptions rotary = run.options.rotary;
    rotary.layout = run.options.llama_layout.value_or(checkpoint.layout);
    const LlamaOptions options{.heads = run.options.heads, .rotary = rotary, .norm = {.epsilon = run.options.epsilon}};
    llama(ids, checkpoint.weights, options, run.trace);
    run.trace.alias("output", "logits");
}

} // namespace attn
