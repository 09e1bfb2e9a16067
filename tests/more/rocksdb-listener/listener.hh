#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

struct FlushInfo {
    std::uint64_t file_number;
    std::size_t bytes;
};

class EventListener {
public:
    virtual ~EventListener() = default;
    virtual const char* name() const = 0;
    virtual void on_flush_begin(const FlushInfo&) {}
    virtual void on_flush_completed(const FlushInfo& info) = 0;
};

/// Sums up what was flushed, for the metrics of the application.
class FlushCounter : public EventListener {
public:
    const char* name() const override { return "counter"; }
    void on_flush_completed(const FlushInfo& info) override;
    std::size_t bytes() const { return bytes_; }

private:
    std::size_t bytes_ = 0;
    std::size_t flushes_ = 0;
};

/// Keeps the numbers of the files, for a backup that runs at the same time.
class FileTracker : public EventListener {
public:
    explicit FileTracker(std::size_t most) : most_(most) {}
    const char* name() const override { return "tracker"; }
    void on_flush_begin(const FlushInfo& info) override;
    void on_flush_completed(const FlushInfo& info) override;
    const std::vector<std::uint64_t>& files() const { return files_; }

private:
    std::size_t most_;
    std::uint64_t in_work_ = 0;
    std::vector<std::uint64_t> files_;
};

class ListenerSet {
public:
    void add(std::unique_ptr<EventListener> listener);
    void remove(const std::string& name);
    std::vector<EventListener*> snapshot();

private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<EventListener>> listeners_;
};
