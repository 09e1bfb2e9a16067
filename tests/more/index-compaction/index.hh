#pragma once

#include <map>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

using DocumentId = unsigned;

struct Posting {
    DocumentId document;
    unsigned count;
};

struct Hit {
    DocumentId document;
    double score;
};

// Words and the documents they occur in. Searches go on side by side;
// compaction has the postings for itself.
class Index {
public:
    DocumentId add(std::string_view title, std::string_view text);
    void remove(DocumentId document);

    std::vector<Hit> search(std::string_view query);
    std::size_t compact();
    void print(std::size_t most) const;

private:
    struct TermStatistics {
        unsigned long asked = 0;
        unsigned long found = 0;
    };

    std::vector<std::string> hot_terms() const;
    void record(const std::vector<std::string>& terms, std::size_t hits);
    std::size_t drop_removed(std::vector<Posting>& postings);

    std::shared_mutex postings_lock_;
    std::map<std::string, std::vector<Posting>> postings_;
    std::vector<std::string> titles_;
    std::set<DocumentId> removed_;

    std::mutex statistics_lock_;
    std::map<std::string, TermStatistics> statistics_;
    unsigned compactions_ = 0;
};

std::vector<std::string> tokens(std::string_view text);
void wait_micros(int least, int most);
