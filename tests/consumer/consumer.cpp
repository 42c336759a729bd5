#include <attn/attention/dot_product.hpp>
#include <attn/formula/verify.hpp>
#include <attn/trace_io/recorder.hpp>

int main()
{
    const attn::Matrix tokens{{1, 0, 1}, {0, 2, 2}};
    attn::Recorder recorder;
    attn::scaled_dot_product_attention(tokens, tokens, tokens, {}, attn::Trace(recorder));
    return attn::verify(recorder.steps()).passed() ? 0 : 1;
}
