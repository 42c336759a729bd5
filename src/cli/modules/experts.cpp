// A mixture of experts.

#include "all_modules.hpp"
#include "shared.hpp"

#include "attn/reference/layers/activation.hpp"
#include "attn/reference/layers/experts.hpp"

#include <memory>

namespace attn::cli {
namespace {

struct ExpertsFlags {
    ExpertsOptions options = {};
    std::optional<std::size_t> groups = {};
    ExpertGroups grouping = {};

    std::vector<Flag> flags()
    {
        std::vector<Flag> all{
            {"--top", "K", whole_number(options.top, 1).like("3"), "how many experts each token has"},
            {"--scoring", "", one_of(options.scoring), "what the router's logits become before the choice"},
            {"--normalization", "", one_of(options.normalization), "how the scores that were chosen become weights"},
            {"--scaling-factor", "F", number(options.scaling_factor).like("2.5"), "of the weights"},
            {"--groups", "G", whole_number(groups, 1).like("2"),
             "experts stand in so many groups, and each token chooses among those of its best groups (default: no "
             "groups)"}};
        for (Flag flag : {Flag{"--kept-groups", "N", whole_number(grouping.kept, 1).like("2", "--groups 2"),
                               "how many groups each token has"},
                          Flag{"--group-best", "N", whole_number(grouping.best, 1).like("2", "--top 1 --groups 2"),
                               "a group's score is the sum of its N best: 1 in DeepSeek-V2, 2 in DeepSeek-V3"}}) {
            flag.needs = "--groups";
            all.push_back(std::move(flag));
        }
        all.push_back(
            {"--weighting", "", one_of(options.weighting), "multiply what an expert gives, or what goes into it"});
        return all + gate_flags(options.expert);
    }

    ExpertsOptions all_options() const
    {
        ExpertsOptions all = options;
        if (groups)
            all.groups = ExpertGroups{.count = *groups, .kept = grouping.kept, .best = grouping.best};
        return all;
    }
};

} // namespace

Module experts_module()
{
    const auto flags = std::make_shared<ExpertsFlags>();
    return {.name = "experts",
            .summary = "mixture of experts: each token has a few of several SwiGLU networks, which a router chooses",
            .inputs = {required("x", "(b,) n, d_model")},
            .what_weights =
                "router, experts.0, experts.1, … (gate_proj, up_proj and down_proj each); where there are some, "
                "router.e_score_correction_bias, shared_expert and shared_expert_gate",
            .flags = flags->flags(),
            .run = with_tokens("x", [flags](const auto& x, const ModuleRun& run) {
                experts(x, run.load<ExpertsWeights>(d_model(x)), flags->all_options(), run.trace);
            })};
}

} // namespace attn::cli
