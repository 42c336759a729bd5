#include "attn/trace_io/trace_file.hpp"

#include "scratch.hpp"
#include "targets.hpp"

#include <algorithm>

namespace attn::fuzz {
namespace {

bool same(const Step& left, const Step& right)
{
    return left.path == right.path && left.formula == right.formula && left.axes == right.axes &&
           left.module == right.module && left.options == right.options && identical(left.value, right.value);
}

} // namespace

void trace(std::string_view bytes)
{
    const std::vector<Step> steps = read_trace(scratch("read.npz", bytes)).steps;
    for (const Step& step : steps)
        expect(step.axes.empty() || step.axes.size() == step.value.rank(), "a step with axes too many or too few");

    const std::vector<Step> again = must_succeed([&] {
        write_trace(scratch("written.npz"), steps);
        return read_trace(scratch("written.npz")).steps;
    });
    expect(std::ranges::equal(steps, again, same), "a trace that changes when it is written and read");
}

} // namespace attn::fuzz
