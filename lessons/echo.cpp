#include "echo.hpp"

namespace attn {

EchoModel echo_model()
{
    EchoModel model{read_word_model("echo"), {}, {}};
    model.weights = read_weights_of<GptWeights>(model, "model.safetensors");
    model.with_sink = read_weights_of<GptWeights>(model, "with_sink.safetensors");
    return model;
}

} // namespace attn
