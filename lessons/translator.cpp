#include "translator.hpp"

namespace attn {

GreedyOptions Translator::options() const
{
    return {.transformer = {.attention = {.heads = heads}},
            .start = ids("<start>")(0),
            .end = ids("<end>")(0),
            .max_tokens = 16};
}

Translator translator()
{
    Translator model{read_word_model("translator"), {}};
    model.weights = read_weights_of<TranslatorWeights>(model, "model.safetensors");
    return model;
}

} // namespace attn
