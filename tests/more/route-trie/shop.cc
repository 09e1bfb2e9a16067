// A small shop behind a router. Requests come from a log of a day; a run
// serves a few of them, beginning where the clock says.

#include "router.hh"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include <unistd.h>

struct Article {
    int id;
    std::string name;
    int cents;
    int stock;
};

class Shop {
public:
    Shop()
        : articles_{{1, "pencil", 120, 400}, {2, "ink", 890, 32}, {3, "ruler", 340, 75},
                    {4, "paper", 510, 900},  {5, "stamp", 110, 0}}
    {
    }

    void mount(Router& router);
    void print_totals() const;

private:
    Response list(const Request& request);
    Response show(const Params& params);
    Response order(const Request& request, const Params& params);
    Response cancel(const Params& params);
    Article* find(int id);

    std::vector<Article> articles_;
    std::vector<std::pair<int, int>> orders_;
    unsigned long served_ = 0;
};

Article* Shop::find(int id)
{
    auto found = std::find_if(articles_.begin(), articles_.end(),
                              [id](const Article& article) { return article.id == id; });
    return found == articles_.end() ? nullptr : &*found;
}

Response Shop::list(const Request& request)
{
    Response response;
    auto limit = request.query.find("below");
    int most = limit == request.query.end() ? 1 << 30 : std::atoi(limit->second.c_str());
    for (const Article& article : articles_)
        if (article.cents < most)
            response.body += article.name + "\n";
    served_++;
    return response;
}

Response Shop::show(const Params& params)
{
    const Article* article = find(std::atoi(params.get("id").c_str())); // @get
    if (article == nullptr)
        return {404, "no such article", {}};
    served_++;
    char line[96];
    std::snprintf(line, sizeof line, "%s: %d.%02d, %d in stock", article->name.c_str(), article->cents / 100,
                  article->cents % 100, article->stock);
    return {200, line, {}};
}

Response Shop::order(const Request& request, const Params& params)
{
    Article* article = find(std::atoi(params.get("id").c_str()));
    auto wanted = request.query.find("n");
    int count = wanted == request.query.end() ? 1 : std::atoi(wanted->second.c_str());
    if (article == nullptr || count < 1 || count > article->stock)
        return {409, "cannot be ordered", {}};
    article->stock -= count;
    orders_.emplace_back(article->id, count);
    served_++;
    return {201, "order " + std::to_string(orders_.size()), {}};
}

Response Shop::cancel(const Params& params)
{
    std::size_t number = std::strtoul(params.get("number").c_str(), nullptr, 10);
    if (number == 0 || number > orders_.size())
        return {404, "no such order", {}};
    auto& [id, count] = orders_[number - 1];
    if (Article* article = find(id))
        article->stock += count;
    count = 0;
    served_++;
    return {200, "cancelled", {}};
}

void Shop::mount(Router& router)
{
    router.add(Method::Get, "/articles", [this](const Request& r, const Params&) { return list(r); });
    router.add(Method::Get, "/articles/:id", [this](const Request&, const Params& p) { return show(p); }); // @show
    router.add(Method::Post, "/articles/:id/orders",
               [this](const Request& r, const Params& p) { return order(r, p); });
    router.add(Method::Delete, "/orders/:number", [this](const Request&, const Params& p) { return cancel(p); });
    router.add(Method::Get, "/static/*",
               [](const Request& r, const Params&) { return Response{200, "file " + r.target, {}}; });
}

void Shop::print_totals() const
{
    int value = 0;
    for (const Article& article : articles_)
        value += article.cents * article.stock;
    std::printf("%lu served, %zu orders, stock worth %d.%02d\n", served_, orders_.size(), value / 100, value % 100);
}

static const char* const LOG[] = {
    "GET /articles", "GET /articles/1", "POST /articles/1/orders?n=3", "GET /static/style.css",
    "GET /articles/2", "OPTIONS /articles/2", "GET /articles?below=500", "DELETE /orders/1",
    "GET /articles/9", "HEAD /articles", "POST /articles/5/orders", "GET /static/img/logo.png",
    "GET /articles/4", "HEAD /articles/3", "GET /articles/3", "POST /articles/3/orders?n=2",
    "GET /basket", "GET /articles/1", "HEAD /static/style.css", "GET /articles?below=200",
};
static constexpr std::size_t LINES = sizeof LOG / sizeof LOG[0];

static std::size_t first_line()
{
    auto now = std::chrono::system_clock::now().time_since_epoch();
    auto ticks = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
    return (static_cast<std::size_t>(ticks) / 7 + static_cast<std::size_t>(getpid()) * 13) % LINES;
}

int main()
{
    Shop shop;
    Router router;
    shop.mount(router);

    std::map<int, int> statuses;
    std::size_t first = first_line();
    for (std::size_t i = 0; i < 4; i++) {
        Request request = parse_request(LOG[(first + i) % LINES]);
        Response response = router.dispatch(request); // @dispatch
        statuses[response.status]++;
    }

    for (const auto& [status, count] : statuses)
        std::printf("%d: %d\n", status, count);
    shop.print_totals();
    router.print(20);
    return 0;
}
