#include "attn/show/page/server.hpp"

#include "http.hpp"
#include "model.hpp"
#include "page.hpp"

#include "attn/core/budget.hpp"
#include "attn/core/error.hpp"
#include "attn/files/npy.hpp"

#include <charconv>
#include <deque>
#include <iomanip>
#include <optional>
#include <random>
#include <sstream>

namespace attn::show {
namespace {

class BadRequest : public Error {
    using Error::Error;
};

/// A query's number from 0 to below a limit.
std::size_t number_in(const HttpRequest& request, std::string_view name, std::size_t limit)
{
    const auto found = request.query.find(name);
    const std::string_view text = found == request.query.end() ? std::string_view() : found->second;
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || number >= limit)
        throw BadRequest(name, " must be a whole number below ", limit);
    return number;
}

HttpAnswer refusal(int status, const std::string& why) { return {status, "text/plain; charset=utf-8", why + "\n"}; }

std::string random_key()
{
    std::random_device device;
    std::ostringstream key;
    for (int i = 0; i < 4; ++i)
        key << std::hex << std::setw(8) << std::setfill('0') << static_cast<std::uint32_t>(device());
    return key.str();
}

std::string head_lines()
{
    return "Content-Security-Policy: " + page_policy("served.js") +
           "\r\nCross-Origin-Resource-Policy: same-origin\r\nX-Content-Type-Options: nosniff\r\n"
           "Referrer-Policy: no-referrer\r\nCache-Control: no-store\r\nAllow: GET\r\n";
}

} // namespace

struct ViewServer::Implementation {
    Implementation(const std::vector<TitledTrace>& traces, const TokenLabels& labels, int port);

    HttpAnswer answer(const HttpRequest& request);
    HttpAnswer answer_to_page(std::string_view question, const HttpRequest& request);
    bool is_ours(const HttpRequest& request) const;
    ShownRun& run_in(const HttpRequest& request) { return runs[number_in(request, "run", runs.size())]; }

    std::deque<ShownRun> runs;
    std::string page;
    std::string folder = "/" + random_key() + "/"; ///< what is in it is found by who knows its name
    std::size_t budget_size = Budget::usual_size;  ///< of each explanation
    std::optional<HttpServer> server;              ///< from when there is something to show
};

ViewServer::Implementation::Implementation(const std::vector<TitledTrace>& traces, const TokenLabels& labels, int port)
{
    const BudgetScope budget;
    budget_size = current_budget()->size();
    for (const TitledTrace& trace : traces)
        runs.emplace_back(trace.title, std::make_unique<const files::TraceReader>(trace.path));
    page = filled_page(model_of(runs, labels), "served.js", "");
    server.emplace(port, head_lines(), [this](const HttpRequest& request) { return answer(request); });
}

/// Another site can let a name of its own mean 127.0.0.1; the requests of its page then come with that name.
bool ViewServer::Implementation::is_ours(const HttpRequest& request) const
{
    const std::string end = ":" + std::to_string(server->port());
    return request.hosts.size() == 1 &&
           (request.hosts[0] == "127.0.0.1" + end || request.hosts[0] == "localhost" + end);
}

HttpAnswer ViewServer::Implementation::answer(const HttpRequest& request)
{
    if (!is_ours(request))
        return refusal(403, "attn view answers only at 127.0.0.1 and localhost");
    if (!request.path.starts_with(folder))
        return refusal(403, "this address lacks the key of this run: open the whole address that attn view printed");
    if (request.method != "GET")
        return refusal(405, "attn view answers only GET");
    try {
        return answer_to_page(std::string_view(request.path).substr(folder.size()), request);
    } catch (const BadRequest& error) {
        return refusal(400, error.what());
    }
}

HttpAnswer ViewServer::Implementation::answer_to_page(std::string_view question, const HttpRequest& request)
{
    if (question.empty())
        return {200, "text/html; charset=utf-8", page};
    if (question != "tensor" && question != "explain")
        return refusal(404, "attn view has nothing at this address");
    ShownRun& run = run_in(request);
    const std::vector<Step>& steps = run.outline().steps;
    const std::size_t step = number_in(request, "step", steps.size());
    if (question == "tensor")
        return {200, "application/octet-stream", files::encode_npy(run.value(step))};
    const std::size_t offset = number_in(request, "offset", element_count(steps[step].value.shape));
    const BudgetScope budget{Budget(budget_size)}; // of this number alone
    Json explanation;
    try {
        explanation = run.explained(step, offset).json;
    } catch (const BudgetError& error) {
        explanation = {{"text", std::string(error.what()) + "\n"}, {"cells", Json::array()}};
    }
    return {200, "application/json", explanation.dump(-1, ' ', true, Json::error_handler_t::replace)};
}

ViewServer::ViewServer(const std::vector<TitledTrace>& traces, const TokenLabels& labels, int port)
    : implementation_(std::make_unique<Implementation>(traces, labels, port))
{
}

ViewServer::~ViewServer() = default;

std::size_t ViewServer::step_count() const { return implementation_->runs[0].outline().steps.size(); }

int ViewServer::port() const { return implementation_->server->port(); }

std::string ViewServer::address() const
{
    return "http://127.0.0.1:" + std::to_string(port()) + implementation_->folder;
}

void ViewServer::run() { implementation_->server->run(); }

void ViewServer::stop() noexcept { implementation_->server->stop(); }

} // namespace attn::show
