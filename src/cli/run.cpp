#include "run.hpp"

#include "attn/what_if/answers.hpp"
#include "modules/modules.hpp"
#include "attn/weights/state_dict.hpp"
#include "attn/trace_io/console.hpp"
#include "attn/trace_io/recorder.hpp"
#include "attn/trace_io/trace_file.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

namespace attn {
namespace {

/// What one command line asks for.
struct Request {
    Module module = Module::attention;
    ModuleOptions options;
    ConsoleFlags console;
    AnswerFlags answers;
    std::filesystem::path input, weights, trace;
    std::string prefix;
};

/// Checks of numbers that say what they want in one line.
CLI::Validator number_check(const std::string& wanted, bool (*is_right)(double))
{
    const auto complaint = [wanted, is_right](const std::string& text) -> std::string {
        double number = 0;
        const bool is_number = CLI::detail::lexical_cast(text, number) && std::isfinite(number);
        return is_number && is_right(number) ? "" : text + " is not " + wanted;
    };
    return CLI::Validator(complaint, "");
}

const CLI::Validator finite = number_check("a finite number", [](double) { return true; });
const CLI::Validator positive = number_check("a number above zero", [](double number) { return number > 0; });
const CLI::Validator not_negative = number_check("a number from zero", [](double number) { return number >= 0; });

template <class Enum>
using Names = std::map<std::string, Enum>;

template <class Enum>
void add_choice(CLI::App& app, const std::string& flag, Enum& value, const std::string& help, const Names<Enum>& names)
{
    std::string choices;
    for (const auto& [name, choice] : names)
        choices += (choices.empty() ? "" : "|") + name;
    app.add_option_function<std::string>(
           flag, [&value, names](const std::string& name) { value = names.at(name); }, help)
        ->check(CLI::IsMember(names))
        ->type_name(choices);
}

void add_score_flags(CLI::App& app, ModuleOptions& options)
{
    add_choice<Score>(app, "--score", options.score, "how a query is compared with a key; scaled unless given",
                      {{"scaled", Score::scaled},
                       {"dot", Score::dot},
                       {"additive", Score::additive},
                       {"concatenated", Score::concatenated},
                       {"bilinear", Score::bilinear}});
    add_choice<Normalization>(app, "--normalization", options.normalization,
                              "what makes scores weights; softmax unless given",
                              {{"softmax", Normalization::softmax}, {"none", Normalization::none}});
}

void add_mask_flag(CLI::App& app, ModuleOptions& options, const std::string& whom)
{
    app.add_option_function<std::string>(
           "--mask",
           [&options](const std::string& name) {
               options.causal = name == "causal" ? Causal::bottom_right : Causal::top_left;
           },
           "no later keys" + whom +
               ", besides what the input's masks and lengths forbid; where n and m differ, the last query sees every "
               "key "
               "(causal), or the first query the first key only (causal-top-left)")
        ->check(CLI::IsMember({"causal", "causal-top-left"}))
        ->type_name("causal|causal-top-left");
}

void add_scale_flag(CLI::App& app, ModuleOptions& options)
{
    app.add_option("--scale", options.scale, "what scores are multiplied by; 1/sqrt(d_k) unless given")
        ->type_name("S")
        ->check(finite);
}

constexpr std::size_t most_heads = std::size_t{1} << 20;

void add_heads_flag(CLI::App& app, ModuleOptions& options)
{
    app.add_option("--heads", options.heads, "attentions beside each other")
        ->type_name("H")
        ->required()
        ->check(CLI::Range(std::size_t{1}, most_heads));
}

void add_rotary_base_flag(CLI::App& app, ModuleOptions& options)
{
    app.add_option("--rotary-base", options.rotary.base, "the slowest pair turns about once in 2 pi times that")
        ->type_name("B")
        ->capture_default_str()
        ->check(positive);
}

const Names<RotaryLayout> rotary_layouts{{"pairs", RotaryLayout::pairs}, {"halves", RotaryLayout::halves}};

void add_head_flags(CLI::App& app, ModuleOptions& options)
{
    add_heads_flag(app, options);
    add_scale_flag(app, options);
    add_choice<HeadPositions>(
        app, "--positions", options.positions, "what heads know of places; none unless given",
        {{"none", HeadPositions::none}, {"rotary", HeadPositions::rotary}, {"alibi", HeadPositions::alibi}});
    add_rotary_base_flag(app, options);
    add_choice<RotaryLayout>(app, "--rotary-layout", options.rotary.layout,
                             "which features make a pair: neighbours (pairs, the default) or i and i + d/2 (halves)",
                             rotary_layouts);
}

void add_activation_flag(CLI::App& app, ModuleOptions& options)
{
    add_choice<Activation>(
        app, "--activation", options.activation, "what bends the hidden layer; relu unless given",
        {{"relu", Activation::relu}, {"gelu", Activation::gelu}, {"gelu-tanh", Activation::gelu_tanh}});
}

void add_epsilon_flag(CLI::App& app, ModuleOptions& options)
{
    app.add_option("--epsilon", options.epsilon, "added to the variance, inside the root")
        ->type_name("E")
        ->capture_default_str()
        ->check(not_negative);
}

void add_norm_flag(CLI::App& app, ModuleOptions& options)
{
    add_choice<NormPlacement>(app, "--norm", options.placement,
                              "where layer norms stand: behind each block (post, the default) or in front (pre)",
                              {{"post", NormPlacement::post}, {"pre", NormPlacement::pre}});
}

/// How many layers a stack has, and what is behind them.
void add_stack_flags(CLI::App& app, ModuleOptions& options)
{
    app.add_option("--final-epsilon", options.final_epsilon, "of the norm behind the stack; --epsilon unless given")
        ->type_name("E")
        ->check(not_negative);
    app.add_option("--layers", options.layers, "how many the weights must have; as many as they have unless given")
        ->type_name("N")
        ->check(CLI::Range(std::size_t{1}, std::size_t{10'000}));
}

void add_neighbour_flags(CLI::App& app, ModuleOptions& options)
{
    app.add_option("--radius", options.radius, "neighbours are at most so far away")
        ->type_name("R")
        ->check(CLI::Range(std::size_t{0}, std::size_t{1} << 40));
    app.add_option("--stride", options.stride,
                   "neighbours are a multiple of that away, however far; with --radius the union of both")
        ->type_name("S")
        ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 40));
    app.add_option_function<std::string>(
           "--mask", [&options](const std::string&) { options.causal = Causal::bottom_right; }, "no later neighbours")
        ->check(CLI::IsMember({"causal"}))
        ->type_name("causal");
    add_scale_flag(app, options);
}

void add_reset_flag(CLI::App& app, ModuleOptions& options)
{
    add_choice<ResetGate>(app, "--reset", options.reset,
                          "where the reset gate acts: on the state's product (after, the default, as PyTorch does), or "
                          "on the state (before: Cho et al. 2014, Keras with reset_after=False)",
                          {{"after", ResetGate::after_product}, {"before", ResetGate::before_product}});
}

void add_llama_flags(CLI::App& app, ModuleOptions& options)
{
    add_heads_flag(app, options);
    add_rotary_base_flag(app, options);
    app.add_option_function<std::string>(
           "--rotary-layout", [&options](const std::string& name) { options.llama_layout = rotary_layouts.at(name); },
           "which features make a pair; unless given, halves where the weights have Hugging Face's names, pairs where "
           "they have llama.cpp's")
        ->check(CLI::IsMember(rotary_layouts))
        ->type_name("halves|pairs");
    app.add_option("--epsilon", options.epsilon, "added to the mean square, inside the root")
        ->type_name("E")
        ->capture_default_str()
        ->check(not_negative);
}

void add_keras_flags(CLI::App& app, ModuleOptions& options)
{
    add_heads_flag(app, options);
    app.add_flag("--mask-right", options.mask_right, "no later keys");
    app.add_option("--penalty", options.penalty, "subtracted from the scores of what may not be looked at")
        ->type_name("P")
        ->capture_default_str()
        ->check(not_negative);
}

void add_module_flags(CLI::App& app, Module module, ModuleOptions& options)
{
    const bool is_stack = module == Module::encoder || module == Module::decoder || module == Module::transformer;
    const bool is_decoder =
        module == Module::decoder_layer || module == Module::decoder || module == Module::transformer;
    const bool has_layers = is_stack || module == Module::encoder_layer || module == Module::decoder_layer;
    if (module == Module::llama)
        add_llama_flags(app, options);
    if (module == Module::keras_attention)
        add_keras_flags(app, options);
    if (module == Module::attention) {
        add_score_flags(app, options);
        add_scale_flag(app, options);
    }
    if (module == Module::transformer)
        add_heads_flag(app, options);
    else if (module == Module::multi_head_attention || has_layers)
        add_head_flags(app, options);
    if (module == Module::attention || module == Module::multi_head_attention || has_layers)
        add_mask_flag(app, options, is_decoder ? " of the target" : "");
    if (module == Module::restricted_attention)
        add_neighbour_flags(app, options);
    if (module == Module::talking_heads_attention) {
        add_scale_flag(app, options);
        add_mask_flag(app, options, "");
    }
    if (module == Module::multi_head_attention)
        app.add_flag_callback(
            "--without-output-map", [&options] { options.has_output_map = false; },
            "heads stay side by side: there is no W^o");
    if (module == Module::feed_forward || has_layers)
        add_activation_flag(app, options);
    if (module == Module::layer_norm || has_layers)
        add_epsilon_flag(app, options);
    if (has_layers)
        add_norm_flag(app, options);
    if (is_stack)
        add_stack_flags(app, options);
    if (module == Module::gru)
        add_reset_flag(app, options);
}

void add_weight_flags(CLI::App& app, Module module, Request& request)
{
    if (module == Module::restricted_attention)
        return; // it has learned nothing
    CLI::Option* weights =
        app.add_option("--weights", request.weights, "the module's state_dict")->type_name("FILE.{safetensors,npz}");
    if (module == Module::attention)
        weights->description(
            "for a learned score: query_weights, key_weights, score_weights (additive), hidden_weights, "
            "score_weights (concatenated), or bilinear_weights");
    else
        weights->required();
    app.add_option("--prefix", request.prefix, "take the tensors whose names begin so, without it")
        ->type_name("NAME.")
        ->needs(weights);
}

void add_file_flags(CLI::App& app, const ModuleEntry& entry, Request& request)
{
    app.add_option("--input", request.input, "the arrays above, by name")->type_name("FILE.npz")->required();
    add_weight_flags(app, entry.module, request);
    app.add_option("--trace", request.trace, "write every step to this .npz")->type_name("FILE.npz");
}

void add_console_flags(CLI::App& app, ConsoleFlags& flags)
{
    app.add_option("--precision", flags.precision, "digits after the point (0 to 17)")
        ->type_name("DIGITS")
        ->capture_default_str()
        ->check(CLI::Range(0, 17));
    app.add_option("--color", flags.color, "names bold, formulas dim")
        ->capture_default_str()
        ->check(CLI::IsMember({"auto", "always", "never"}));
    app.add_flag("--quiet", flags.quiet, "print nothing but errors");
}

void add_answer_flags(CLI::App& app, AnswerFlags& flags)
{
    app.add_option_function<std::string>(
           "--round",
           [&flags](const std::string& name) {
               for (const Precision precision : {Precision::float32, Precision::bfloat16, Precision::float16})
                   if (name == name_of(precision))
                       flags.round = precision;
           },
           "what if: round every number that is given or computed")
        ->type_name("float32|bfloat16|float16")
        ->check(CLI::IsMember({"float32", "bfloat16", "float16"}));
    app.add_option("--ablate", flags.ablate, "what if: make a step zero; again for more")
        ->type_name("STEP")
        ->take_all();
    app.add_option("--pitfall", flags.pitfall, "what if: make a well-known mistake (attn pitfalls lists them)")
        ->type_name("ID");
}

std::string described(const ModuleEntry& entry)
{
    std::string text = std::string(entry.summary) + "\n\ninput:";
    for (const ModuleInput& input : entry.inputs)
        text += fmt::format("\n  {:<16}{}{}", input.name, input.shape, input.is_required ? "" : ", if you like");
    return text + "\noutput: the step output, and every step on the way";
}

/// Flags that say something which nobody would hear, or do what nobody could want.
void expect_sensible(const Request& request, const CLI::App& module)
{
    const ModuleOptions& options = request.options;
    const bool may_turn = options.positions == HeadPositions::rotary || request.module == Module::llama;
    for (const char* flag : {"--rotary-base", "--rotary-layout"})
        if (const CLI::Option* option = module.get_option_no_throw(flag);
            option != nullptr && option->count() > 0 && !may_turn)
            throw Error(std::string("run: ") + flag +
                        " says how queries and keys are turned, and they are not: "
                        "add --positions rotary");
    if (request.module == Module::restricted_attention && !options.radius && !options.stride)
        throw Error("run: who is a neighbour? Give --radius, --stride, or both");
    const bool takes_weights =
        request.module != Module::attention || (options.score != Score::scaled && options.score != Score::dot);
    if (!request.weights.empty() && !takes_weights)
        throw Error("run: this score has no weights to take from " + request.weights.string());
    for (const std::filesystem::path& source : {request.input, request.weights}) {
        std::error_code missing;
        if (!request.trace.empty() && std::filesystem::equivalent(request.trace, source, missing))
            throw Error("run: --trace would replace " + source.string() + ", which is read");
    }
}

/// What is given, in fewer digits where they are asked for.
NamedArrays rounded(NamedArrays arrays, const std::optional<Precision>& precision)
{
    for (auto& [name, array] : arrays)
        if (precision && array.type == ElementType::real)
            for (double& value : array.values)
                value = rounded_to(*precision, value);
    return arrays;
}

/// Runs a module, and says which file is at fault where it can't.
int run(const Request& request)
{
    const std::optional<Precision>& precision = request.answers.round;
    const NamedArrays inputs = rounded(read_npz(request.input), precision);
    const NamedArrays weights =
        request.weights.empty() ? NamedArrays{} : rounded(read_weights(request.weights, request.prefix), precision);

    Recorder recorder;
    ConsoleListener console(standard_output(request.console), style_of(request.console));
    const Answers answers(request.answers);
    Listeners listeners(answers.before({&recorder, &console}));
    try {
        run_module(request.module, inputs, weights, request.options, Trace(listeners));
    } catch (const WeightsError& error) {
        throw Error("run: " + request.weights.string() + ": " + error.what());
    } catch (const Error& error) {
        throw Error("run: " + request.input.string() + ": " + error.what());
    }
    answers.expect_heard();
    if (!request.trace.empty())
        write_trace(request.trace, recorder.recording());
    return 0;
}

} // namespace

std::function<int()> add_run_command(CLI::App& app)
{
    CLI::App* command = app.add_subcommand("run", "run a module on your own numbers, and see every step");
    command->require_subcommand(0, 1); // an unknown one is then an unexpected word, by its name
    const auto request = std::make_shared<Request>();
    for (const ModuleEntry& entry : modules()) {
        CLI::App* module = command->add_subcommand(std::string(entry.name), described(entry));
        add_file_flags(*module, entry, *request);
        add_module_flags(*module, entry.module, request->options);
        add_answer_flags(*module, request->answers);
        add_console_flags(*module, request->console);
        module->callback([request, module = entry.module] { request->module = module; });
    }
    return [request, command] {
        if (command->get_subcommands().empty())
            throw Error("run: which module? attn run --help lists them");
        expect_sensible(*request, *command->get_subcommands().front());
        return run(*request);
    };
}

} // namespace attn
