#include "attn/view/server.hpp"

#include "model.hpp"
#include "page.hpp"

#include "attn/budget.hpp"
#include "attn/error.hpp"
#include "attn/trace_io/npy.hpp"

#include <atomic>
#include <charconv>
#include <chrono>
#include <mutex>
#include <thread>

// The one file that includes it: it takes long to compile.
#include <httplib.h>

namespace attn {
namespace {

constexpr const char* this_machine = "127.0.0.1";

/// A request that the page does not make.
class BadRequest : public Error {
    using Error::Error;
};

/// A query's number from 0 to below a limit.
std::size_t number_in(const httplib::Request& request, const char* name, std::size_t limit)
{
    const std::string text = request.get_param_value(name);
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || number >= limit)
        throw BadRequest(std::string(name) + " must be a whole number below " + std::to_string(limit));
    return number;
}

/// By a provider, since httplib compresses what it has as a whole, which takes long and gains nothing here.
void send(httplib::Response& response, const char* type, std::string content)
{
    const auto bytes = std::make_shared<std::string>(std::move(content));
    response.set_content_provider(bytes->size(), type,
                                  [bytes](std::size_t at, std::size_t size, httplib::DataSink& to) {
                                      return to.write(bytes->data() + at, size);
                                  });
}

void refuse(httplib::Response& response, int status, const std::string& why)
{
    response.status = status;
    response.set_content(why + "\n", "text/plain; charset=utf-8");
}

/// Without SO_REUSEPORT, which httplib sets by itself: a port that is taken is an error.
void reuse_address_only(socket_t socket)
{
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
}

} // namespace

struct ViewServer::Implementation {
    Implementation(const std::vector<TitledTrace>& traces, const TokenLabels& labels, int wanted_port);

    void listen_on(int wanted_port);
    void route();
    bool is_ours(const httplib::Request& request) const;
    template <class Answer>
    httplib::Server::Handler answering(Answer answer);
    ShownRun& run_in(const httplib::Request& request) { return runs[number_in(request, "run", runs.size())]; }

    std::deque<ShownRun> runs;
    std::string page;
    std::mutex reading; // of the runs: requests come in several threads
    httplib::Server server;
    std::atomic<bool> has_ended = false;
    int port = 0;
    std::size_t budget_size = Budget::usual_size; ///< of each explanation
};

ViewServer::Implementation::Implementation(const std::vector<TitledTrace>& traces, const TokenLabels& labels,
                                           int wanted_port)
{
    const BudgetScope budget;
    budget_size = current_budget()->size();
    for (const TitledTrace& trace : traces)
        runs.emplace_back(trace.title, std::make_unique<const TraceReader>(trace.path));
    page = filled_page(model_of(runs, labels), "served.js", "");
    listen_on(wanted_port);
    route();
}

void ViewServer::Implementation::listen_on(int wanted_port)
{
    server.set_socket_options(reuse_address_only);
    server.set_tcp_nodelay(true);
    server.set_keep_alive_timeout(1); // seconds; the end waits for open connections
    if (wanted_port == 0)
        port = server.bind_to_any_port(this_machine);
    else if (server.bind_to_port(this_machine, wanted_port))
        port = wanted_port;
    if (port <= 0)
        throw Error(wanted_port == 0 ? std::string("no port of 127.0.0.1 is free")
                                     : "port " + std::to_string(wanted_port) +
                                           " is taken or not allowed; leave --port "
                                           "out for any free one");
}

/// Another site can let a name of its own mean 127.0.0.1; the requests of its page then come with that name.
bool ViewServer::Implementation::is_ours(const httplib::Request& request) const
{
    const std::string host = request.get_header_value("Host"), end = ":" + std::to_string(port);
    return request.get_header_value_count("Host") == 1 && (host == this_machine + end || host == "localhost" + end);
}

template <class Answer>
httplib::Server::Handler ViewServer::Implementation::answering(Answer answer)
{
    return [this, answer](const httplib::Request& request, httplib::Response& response) {
        const std::lock_guard lock(reading);
        try {
            answer(request, response);
        } catch (const BadRequest& error) {
            refuse(response, 400, error.what());
        } catch (const std::exception& error) {
            refuse(response, 500, error.what());
        }
    };
}

void ViewServer::Implementation::route()
{
    using httplib::Request, httplib::Response, httplib::Server;
    server.set_default_headers({{"Content-Security-Policy", page_policy("served.js")},
                                {"Cross-Origin-Resource-Policy", "same-origin"},
                                {"X-Content-Type-Options", "nosniff"},
                                {"Referrer-Policy", "no-referrer"},
                                {"Cache-Control", "no-store"}});
    server.set_pre_routing_handler([this](const Request& request, Response& response) {
        if (!is_ours(request))
            refuse(response, 403, "attn view answers only at 127.0.0.1 and localhost");
        else if (request.method != "GET")
            refuse(response, 405, "attn view answers only GET");
        else
            return Server::HandlerResponse::Unhandled;
        return Server::HandlerResponse::Handled;
    });
    server.Get("/", answering([this](const Request&, Response& response) {
                   send(response, "text/html; charset=utf-8", page);
               }));
    server.Get("/tensor", answering([this](const Request& request, Response& response) {
                   ShownRun& run = run_in(request);
                   const std::size_t step = number_in(request, "step", run.outline().steps.size());
                   send(response, "application/octet-stream", encode_npy(run.value(step)));
               }));
    server.Get("/explain", answering([this](const Request& request, Response& response) {
                   ShownRun& run = run_in(request);
                   const std::vector<Step>& steps = run.outline().steps;
                   const std::size_t step = number_in(request, "step", steps.size());
                   const std::size_t offset = number_in(request, "offset", element_count(steps[step].value.shape));
                   const BudgetScope budget{Budget(budget_size)}; // of this number alone
                   Json explanation;
                   try {
                       explanation = run.explained(step, offset).json;
                   } catch (const BudgetError& error) {
                       explanation = {{"text", std::string(error.what()) + "\n"}, {"cells", Json::array()}};
                   }
                   send(response, "application/json",
                        explanation.dump(-1, ' ', true, Json::error_handler_t::replace));
               }));
}

ViewServer::ViewServer(const std::vector<TitledTrace>& traces, const TokenLabels& labels, int port)
    : implementation_(std::make_unique<Implementation>(traces, labels, port))
{
}

ViewServer::~ViewServer() = default;

std::size_t ViewServer::step_count() const { return implementation_->runs[0].outline().steps.size(); }

int ViewServer::port() const { return implementation_->port; }

std::string ViewServer::address() const { return "http://127.0.0.1:" + std::to_string(port()) + "/"; }

void ViewServer::run()
{
    implementation_->server.listen_after_bind();
    implementation_->has_ended = true;
}

void ViewServer::stop()
{
    while (!implementation_->server.is_running() && !implementation_->has_ended) // stop() means nothing before
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    implementation_->server.stop();
}

} // namespace attn
