#include "index.hh"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>
#include <thread>

void wait_micros(int least, int most)
{
    thread_local std::mt19937_64 engine(std::random_device{}());
    std::this_thread::sleep_for(
        std::chrono::microseconds(std::uniform_int_distribution<int>(least, most)(engine)));
}

std::vector<std::string> tokens(std::string_view text)
{
    std::vector<std::string> found;
    std::string word;
    for (char c : text) {
        if (std::isalnum(static_cast<unsigned char>(c))) {
            word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        } else if (!word.empty()) {
            found.push_back(std::move(word));
            word.clear();
        }
    }
    if (!word.empty())
        found.push_back(std::move(word));
    return found;
}

DocumentId Index::add(std::string_view title, std::string_view text)
{
    std::unique_lock<std::shared_mutex> writing(postings_lock_);
    DocumentId id = static_cast<DocumentId>(titles_.size());
    titles_.emplace_back(title);
    std::map<std::string, unsigned> counts;
    for (std::string& word : tokens(text))
        counts[std::move(word)]++;
    for (const auto& [word, count] : counts)
        postings_[word].push_back({id, count});
    return id;
}

void Index::remove(DocumentId document)
{
    std::unique_lock<std::shared_mutex> writing(postings_lock_);
    removed_.insert(document);
}

// Rare words weigh more than those that are everywhere.
std::vector<Hit> Index::search(std::string_view query)
{
    std::vector<std::string> terms = tokens(query);
    std::map<DocumentId, double> scores;

    std::shared_lock<std::shared_mutex> reading(postings_lock_); // @search-has
    for (const std::string& term : terms) {
        auto found = postings_.find(term);
        if (found == postings_.end())
            continue;
        double weight = std::log1p(static_cast<double>(titles_.size()) / static_cast<double>(found->second.size()));
        for (const Posting& posting : found->second)
            if (!removed_.count(posting.document))
                scores[posting.document] += weight * posting.count;
        wait_micros(200, 1000); // the postings are on disk
    }
    record(terms, scores.size()); // @record

    std::vector<Hit> hits;
    for (const auto& [document, score] : scores)
        hits.push_back({document, score});
    std::sort(hits.begin(), hits.end(), [](const Hit& a, const Hit& b) { return a.score > b.score; });
    return hits;
}

void Index::record(const std::vector<std::string>& terms, std::size_t hits)
{
    std::lock_guard<std::mutex> guard(statistics_lock_); // @search-wants
    for (const std::string& term : terms) {
        TermStatistics& entry = statistics_[term];
        entry.asked++;
        entry.found += hits;
    }
}

// The words that were asked for, those with most hits first.
std::vector<std::string> Index::hot_terms() const
{
    std::vector<std::pair<unsigned long, std::string>> order;
    for (const auto& [term, entry] : statistics_)
        order.emplace_back(entry.found + entry.asked, term);
    std::sort(order.rbegin(), order.rend());
    std::vector<std::string> terms;
    for (auto& [weight, term] : order)
        terms.push_back(std::move(term));
    return terms;
}

std::size_t Index::drop_removed(std::vector<Posting>& postings)
{
    std::size_t before = postings.size();
    std::erase_if(postings, [this](const Posting& posting) { return removed_.count(posting.document) > 0; });
    return before - postings.size();
}

// Hot words first. The statistics must not change until they are written down.
std::size_t Index::compact()
{
    std::size_t dropped = 0;
    std::lock_guard<std::mutex> guard(statistics_lock_); // @compact-has
    std::vector<std::string> terms = hot_terms();
    wait_micros(300, 1600);

    std::unique_lock<std::shared_mutex> writing(postings_lock_); // @compact-wants
    for (const std::string& term : terms) {
        auto found = postings_.find(term);
        if (found != postings_.end())
            dropped += drop_removed(found->second);
    }
    compactions_++;
    return dropped;
}

void Index::print(std::size_t most) const
{
    for (const auto& [term, entry] : statistics_) {
        if (most-- == 0)
            break;
        std::printf("%-10s asked %lu, found %lu\n", term.c_str(), entry.asked, entry.found);
    }
    std::printf("%zu words, %zu documents, %zu removed, %u compactions\n", postings_.size(), titles_.size(),
                removed_.size(), compactions_);
}
