#include "all_modules.hpp"

namespace attn::cli {

std::vector<Module> modules()
{
#define ATTN_CALL(name) name##_module(),
    return {ATTN_MODULES(ATTN_CALL)};
#undef ATTN_CALL
}

} // namespace attn::cli
