#pragma once

#include "attn/show/page/view.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace attn::show {

/// A trace file, and what the page calls it.
struct TitledTrace {
    std::string title;
    std::filesystem::path path;
};

/// Shows traces in a browser on this machine: the page of page_of(), with numbers and explanations when it asks for them.
///
/// It listens on 127.0.0.1 alone, and answers only requests that name this address or localhost as their host, so that
/// no other site's page can reach it under a name of its own, and that begin with address(), which nobody else can guess.
/// In it are the page, tensor?run=R&step=N (.npy) and explain?run=R&step=N&offset=K (JSON). Clients that are slow keep
/// nobody waiting, and have limited time.
class ViewServer {
public:
    /// Opens the traces and the port. Of one trace no numbers are read yet; two are compared first.
    /// @param traces  one, or two to compare
    /// @param port    any free one for 0
    /// @throws Error  as page_of does, where a trace can't be read, or the port is taken
    ViewServer(const std::vector<TitledTrace>& traces, const TokenLabels& labels = {}, int port = 0);
    ~ViewServer();

    std::size_t step_count() const; ///< of the first trace
    int port() const;
    std::string address() const; ///< "http://127.0.0.1:40123/9f86d081884c7d659a2feaa0c55ad015/", random in each run

    /// Answers requests until stop() is called, before or meanwhile; only what is being computed then is waited for.
    void run();

    /// Can be called from any thread, and by a signal handler.
    void stop() noexcept;

private:
    struct Implementation;
    std::unique_ptr<Implementation> implementation_;
};

} // namespace attn::show
