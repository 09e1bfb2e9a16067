// A browser's tab: a page asks for its resources on the network thread, whose
// answers go to the page's loader. Closing the page lets go of the loader.

#include "task_runner.hh"

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

class Loader {
public:
    explicit Loader(std::size_t expected) : expected_(expected) {}

    void OnResponse(const std::string& url, std::size_t bytes)
    {
        received_ += bytes; // @fail
        finished_.push_back(url);
    }

    bool complete() const { return finished_.size() == expected_; }

private:
    std::size_t expected_;
    std::size_t received_ = 0;
    std::vector<std::string> finished_;
};

class Page {
public:
    Page(TaskRunner& network, std::size_t resources);

    void Fetch(const std::string& url);
    void Close();
    void PrintState() const;

private:
    void FetchOnNetwork(const std::string& url);

    TaskRunner& network_;
    std::unique_ptr<Loader> loader_;
    std::size_t requests_ = 0;
};

Page::Page(TaskRunner& network, std::size_t resources) : network_(network)
{
    loader_ = std::make_unique<Loader>(resources); // @loader-init
}

// The task has a plain `this`: nobody counts that the network thread uses the page.
void Page::Fetch(const std::string& url)
{
    requests_++;
    network_.PostTask([this, url] { FetchOnNetwork(url); }); // @task
}

void Page::FetchOnNetwork(const std::string& url)
{
    std::size_t bytes = 400 + 10 * url.size();
    wait_microseconds(200, 6000);
    Loader* loader = loader_.get(); // @loader-read
    loader->OnResponse(url, bytes); // @response
}

void Page::Close()
{
    bool complete = loader_->complete();
    if (!complete)
        std::puts("closed while loading");
    loader_.reset(); // @loader-reset
}

void Page::PrintState() const
{
    std::printf("%zu requests, loader %s\n", requests_, loader_ == nullptr ? "gone" : "there");
}

int main()
{
    TaskRunner network;
    Page page(network, 3); // @page

    for (const char* name : {"index.html", "style.css", "logo.png"})
        page.Fetch(std::string("https://example.org/") + name);

    // The user looks at the page for a while.
    wait_microseconds(7000, 28000);
    page.Close(); // @close
    network.Shutdown();
    page.PrintState();
    return 0;
}
