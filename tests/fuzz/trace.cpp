#include "attn/files/trace_file.hpp"

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

bool same_name(const Alias& left, const Alias& right) { return left.path == right.path && left.target == right.target; }

} // namespace

void trace(std::string_view bytes)
{
    const Recording recording = files::read_trace(scratch("read.npz", bytes));
    for (const Step& step : recording.steps)
        expect(step.axes.empty() || step.axes.size() == step.value.rank(), "a step with axes too many or too few");

    const Recording again = must_succeed([&] {
        files::write_trace(scratch("written.npz"), recording);
        return files::read_trace(scratch("written.npz"));
    });
    expect(std::ranges::equal(recording.steps, again.steps, same) &&
               std::ranges::equal(recording.aliases, again.aliases, same_name),
           "a trace that changes when it is written and read");
}

} // namespace attn::fuzz
